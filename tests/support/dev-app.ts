/** Its two pages use WebSockets, and only Python's standard library. */
export const DEV_APP = `
import base64, hashlib, http.server, os, pty, threading, time

FILE = '/home/user/page.txt'
PAGE = """<!doctype html><title>%s</title><script>
function watch() {
  const socket = new WebSocket(location.origin.replace(/^http/, 'ws') + '/changes?%d')
  socket.onmessage = () => location.reload()
  socket.onclose = () => setTimeout(watch, 200)
}
watch()
</script>"""
TERMINAL = """<!doctype html><title>terminal</title><pre id=screen></pre><script>
const socket = new WebSocket(location.origin.replace(/^http/, 'ws') + '/shell')
socket.onopen = () => { document.title = 'ready' }
socket.onmessage = ({ data }) => { screen_.textContent += data }
const screen_ = document.getElementById('screen')
function type(text) { socket.send(text) }
</script>"""

class App(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *args):
        pass

    def do_GET(self):
        if self.path.startswith('/changes?'):
            self.switch()
            return self.changes()
        if self.path == '/shell':
            self.switch()
            return self.shell()
        version = os.stat(FILE).st_mtime_ns # before it is read: a change in between is seen
        page = TERMINAL if self.path == '/terminal' else PAGE % (open(FILE).read(), version)
        body = page.encode()
        self.send_response(200)
        self.send_header('content-type', 'text/html')
        self.send_header('content-length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def switch(self):
        key = self.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
        self.send_response(101)
        self.send_header('upgrade', 'websocket')
        self.send_header('connection', 'Upgrade')
        self.send_header('sec-websocket-accept', base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True

    def say(self, text):
        data = text.encode()
        head = bytes([129, len(data)]) if len(data) < 126 else bytes([129, 126]) + len(data).to_bytes(2, 'big')
        self.wfile.write(head + data)
        self.wfile.flush()

    def changes(self):
        before = self.path.split('?')[1] # of the page as it was read
        while str(os.stat(FILE).st_mtime_ns) == before:
            time.sleep(0.05)
        self.say('changed')

    def shell(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv('/bin/sh', ['sh'])
        def relay():
            try:
                while True:
                    self.say(os.read(terminal, 4096).decode(errors='replace'))
            except OSError:
                pass
        threading.Thread(target=relay, daemon=True).start()
        while True:
            head = self.rfile.read(2)
            if len(head) < 2 or head[0] & 15 == 8:
                return os.close(terminal)
            mask = self.rfile.read(4) # what is typed is short
            os.write(terminal, bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(head[1] & 127))))

http.server.ThreadingHTTPServer(('0.0.0.0', 5173), App).serve_forever()
`
