/** The counter is only in memory, so a restart would show. */
export const PORT_APP = `
import base64, hashlib, http.server, json, sys

seen = []
PAGE = b"""<!doctype html><title>loading</title><script>
document.cookie = 'app=1'
const socket = new WebSocket(location.origin.replace(/^http/, 'ws') + '/socket')
socket.onopen = () => socket.send('first')
socket.onmessage = ({ data }) => { document.title = data }
socket.onclose = () => { document.title = 'closed' }
function say(text) { socket.send(text) }
</script>"""

class App(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *args):
        pass

    def note(self, **more):
        # As it came: Python's own reading of a path takes one of two slashes away.
        path = self.requestline.split(' ')[1]
        seen.append({'method': self.command, 'path': path, 'headers': [list(one) for one in self.headers.items()], **more})

    def answer(self, body, kind='application/json'):
        self.send_response(200)
        self.send_header('content-type', kind)
        self.send_header('content-length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.note()
        if self.headers.get('upgrade', '').lower() == 'websocket':
            return self.echo()
        if self.path.startswith('/page'):
            return self.answer(PAGE, 'text/html')
        self.answer(json.dumps(seen).encode())

    def do_POST(self):
        digest, length = hashlib.sha256(), 0
        for part in self.parts():
            digest.update(part)
            length += len(part)
        self.note(length=length, sha256=digest.hexdigest())
        self.answer(json.dumps(seen[-1]).encode())

    def parts(self):
        if self.headers.get('transfer-encoding', '') == 'chunked':
            while True:
                size = int(self.rfile.readline().split(b';')[0], 16)
                part = self.rfile.read(size)
                self.rfile.readline()
                if size == 0:
                    return
                yield part
        left = int(self.headers.get('content-length', '0'))
        while left > 0:
            part = self.rfile.read(min(left, 65536))
            left -= len(part)
            yield part

    def echo(self):
        key = self.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
        self.send_response(101)
        self.send_header('upgrade', 'websocket')
        self.send_header('connection', 'Upgrade')
        self.send_header('sec-websocket-accept', base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True
        while True:
            head = self.rfile.read(2)
            if len(head) < 2 or head[0] & 15 == 8:
                return
            length = head[1] & 127
            mask = self.rfile.read(4)
            text = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(length)))
            said = b'echo:' + text
            self.wfile.write(bytes([129, len(said)]) + said)
            self.wfile.flush()

server = http.server.ThreadingHTTPServer(('0.0.0.0', 3000), App)
print('up', flush=True)
server.serve_forever(poll_interval=3600)  # it looks for nothing but connections: what uses the processor is not parked
`
