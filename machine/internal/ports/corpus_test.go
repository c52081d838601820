package ports

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/fakecell"
	"github.com/berth-dev/berth/machine/internal/testns"
)

type witness struct {
	net.Listener
	mu   sync.Mutex
	seen bytes.Buffer
}

func newWitness(t *testing.T) *witness {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	w := &witness{Listener: listener}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go w.serve(conn)
		}
	}()
	return w
}

func (w *witness) serve(conn net.Conn) {
	defer conn.Close()
	reader := bufio.NewReader(io.TeeReader(conn, w))
	for {
		chunked, length := false, 0
		for {
			line, err := reader.ReadString('\n')
			if err != nil {
				return
			}
			if line == "\r\n" {
				break
			}
			name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(line)), ":")
			chunked = chunked || name == "transfer-encoding"
			if name == "content-length" {
				length = atoi(strings.TrimSpace(value))
			}
		}
		if chunked {
			for line := ""; line != "0\r\n"; {
				if line, _ = reader.ReadString('\n'); line == "" {
					return
				}
			}
			for line := "x"; line != "\r\n"; {
				if line, _ = reader.ReadString('\n'); line == "" {
					return
				}
			}
		}
		if _, err := io.CopyN(io.Discard, reader, int64(length)); err != nil {
			return
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
			return
		}
	}
}

func atoi(text string) (n int) {
	for _, digit := range text {
		n = n*10 + int(digit-'0')
	}
	return n
}

func (w *witness) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen.Write(p)
}

func (w *witness) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.seen.Reset()
	return w.seen.String()
}

type served struct {
	answers int
	has     []string
	lacks   []string
}

type refused struct {
	status string
	reason string
}

const (
	bare = "Host: " + host + "\r\nX-Service-Token: "
)

func get1(target string, fields ...string) string {
	return requestOf("GET "+target+" HTTP/1.1", fields...)
}

func requestOf(line string, fields ...string) string {
	return line + "\r\n" + bare + token + "\r\n" + strings.Join(append(fields, ""), "\r\n") + "\r\n"
}

func post(body string, fields ...string) string {
	return requestOf("POST /in HTTP/1.1", fields...) + body
}

// Test suites of known servers and lists of request smuggling have such cases. Each ends with a complete request for
// /after, which closes the connection.
var corpus = map[string]struct {
	bytes  string
	expect any
}{
	"an empty line before a request":          {"\r\n" + get1("/"), served{answers: 2}},
	"two empty lines before a request":        {"\r\n\r\n" + get1("/"), refused{"400", "bad_request"}},
	"a bare line feed before a request":       {"\n" + get1("/"), refused{"400", "bad_request"}},
	"a method of one's own":                   {requestOf("BREW /pot HTTP/1.1"), served{answers: 2, has: []string{"BREW /pot HTTP/1.1\r\n"}}},
	"a method with all that may be in a name": {requestOf("!#$%&'*+-.^_`|~9 / HTTP/1.1"), served{answers: 2, has: []string{"!#$%&'*+-.^_`|~9 / HTTP/1.1\r\n"}}},
	"a method in small letters is another":    {requestOf("get / HTTP/1.1"), served{answers: 2, has: []string{"get / HTTP/1.1\r\n"}}},
	"a method with a bracket":                 {requestOf("G[T / HTTP/1.1"), refused{"400", "bad_request"}},
	"a method that is too long":               {requestOf(strings.Repeat("M", 33) + " / HTTP/1.1"), refused{"400", "bad_request"}},
	"no method":                               {requestOf(" / HTTP/1.1"), refused{"400", "bad_request"}},
	"a tab for a space":                       {requestOf("GET\t/\tHTTP/1.1"), refused{"400", "bad_request"}},
	"a space at the end":                      {requestOf("GET / HTTP/1.1 "), refused{"400", "bad_request"}},
	"a space in the target":                   {requestOf("GET /a b HTTP/1.1"), refused{"400", "bad_request"}},
	"a form feed in the target":               {requestOf("GET /a\x0cb HTTP/1.1"), refused{"400", "bad_request"}},
	"a version in small letters":              {requestOf("GET / http/1.1"), refused{"400", "bad_request"}},
	"a version with a second dot":             {requestOf("GET / HTTP/1.1.1"), refused{"400", "bad_request"}},
	"a version with a zero":                   {requestOf("GET / HTTP/01.1"), refused{"400", "bad_request"}},
	"version 0.9":                             {requestOf("GET / HTTP/0.9"), refused{"400", "bad_request"}},
	"version 3":                               {requestOf("GET / HTTP/3.0"), refused{"400", "bad_request"}},
	"the absolute form":                       {requestOf("GET http://" + host + "/ HTTP/1.1"), refused{"400", "bad_request"}},
	"the absolute form of another host":       {requestOf("GET http://169.254.169.254/ HTTP/1.1"), refused{"400", "bad_request"}},
	"the absolute form in capitals":           {requestOf("GET HTTP://" + strings.ToUpper(host) + "/ HTTP/1.1"), refused{"400", "bad_request"}},
	"the absolute form with a user":           {requestOf("GET http://a@" + host + "/ HTTP/1.1"), refused{"400", "bad_request"}},
	"an opaque target":                        {requestOf("GET x:https://evil.example/steal HTTP/1.1"), refused{"400", "bad_request"}},
	"an opaque target of this scheme":         {requestOf("GET http:" + host + "/ HTTP/1.1"), refused{"400", "bad_request"}},
	"the authority form":                      {requestOf("GET " + host + " HTTP/1.1"), refused{"400", "bad_request"}},
	"a relative target":                       {requestOf("GET a/b HTTP/1.1"), refused{"400", "bad_request"}},
	"a query alone":                           {requestOf("GET ?a HTTP/1.1"), refused{"400", "bad_request"}},
	"a target that begins with a backslash":   {requestOf("GET \\evil.example/ HTTP/1.1"), refused{"400", "bad_request"}},
	"a target with a fragment":                {requestOf("GET /a#b HTTP/1.1"), refused{"400", "bad_request"}},
	"an asterisk for a path":                  {requestOf("GET * HTTP/1.1"), refused{"400", "bad_request"}},
	"a target of slashes and a host stays":    {get1("//evil.example/a"), served{answers: 2, has: []string{"GET //evil.example/a HTTP/1.1\r\nHost: " + host + "\r\n"}}},
	"a target with a host in its path stays":  {get1("/http://evil.example/"), served{answers: 2, has: []string{"GET /http://evil.example/ HTTP/1.1\r\n"}}},
	"CONNECT in the authority form":           {requestOf("CONNECT " + host + ":443 HTTP/1.1"), refused{"405", "method_not_allowed"}},
	"TRACE":                                   {requestOf("TRACE / HTTP/1.1"), refused{"405", "method_not_allowed"}},
	"OPTIONS of the whole server":             {requestOf("OPTIONS * HTTP/1.1"), refused{"400", "bad_request"}},
	"OPTIONS of a path":                       {requestOf("OPTIONS /x HTTP/1.1"), served{answers: 2, has: []string{"OPTIONS /x HTTP/1.1\r\n"}}},
	"a target of two slashes stays":           {get1("//a/../b"), served{answers: 2, has: []string{"GET //a/../b HTTP/1.1\r\n"}}},
	"a target that is encoded twice stays":    {get1("/%252e%00?%0d%0aX-A:b"), served{answers: 2, has: []string{"GET /%252e%00?%0d%0aX-A:b HTTP/1.1\r\n"}}},
	"the start of TLS":                        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", refused{"400", "bad_request"}},

	"a line that goes on with a space":    {get1("/", "X-A: b", " c"), refused{"400", "bad_request"}},
	"a line that goes on with a tab":      {get1("/", "X-A: b", "\tc"), refused{"400", "bad_request"}},
	"a space before the first field":      {"GET / HTTP/1.1\r\n X-A: b\r\n" + bare + token + "\r\n\r\n", refused{"400", "bad_request"}},
	"a bare line feed between fields":     {get1("/", "X-A: b\nX-B: c"), refused{"400", "bad_request"}},
	"a bare line feed for the empty line": {strings.TrimSuffix(get1("/"), "\r\n") + "\n", refused{"400", "bad_request"}},
	"a bare carriage return in a value":   {get1("/", "X-A: b\rX-B: c"), refused{"400", "bad_request"}},
	"two carriage returns":                {get1("/", "X-A: b\r"), refused{"400", "bad_request"}},
	"a zero byte in a value":              {get1("/", "X-A: b\x00c"), refused{"400", "bad_request"}},
	"a delete in a value":                 {get1("/", "X-A: b\x7fc"), refused{"400", "bad_request"}},
	"a tab in a value stays":              {get1("/", "X-A: b\tc"), served{answers: 2, has: []string{"X-A: b\tc\r\n"}}},
	"bytes beyond ASCII stay":             {get1("/", "X-A: \xc3\xa4\xff"), served{answers: 2, has: []string{"X-A: \xc3\xa4\xff\r\n"}}},
	"an empty value stays":                {get1("/", "X-A:"), served{answers: 2, has: []string{"X-A: \r\n"}}},
	"spaces around a value go":            {get1("/", "X-A: \t b \t "), served{answers: 2, has: []string{"X-A: b\r\n"}}},
	"fields that come twice stay so":      {get1("/", "X-A: 1", "X-A: 2"), served{answers: 2, has: []string{"X-A: 1\r\nX-A: 2\r\n"}}},
	"a space before the colon":            {get1("/", "X-A : b"), refused{"400", "bad_request"}},
	"a name of nothing":                   {get1("/", ": b"), refused{"400", "bad_request"}},
	"a name with a slash":                 {get1("/", "X/A: b"), refused{"400", "bad_request"}},
	"a name beyond ASCII":                 {get1("/", "X-\xc3\xa4: b"), refused{"400", "bad_request"}},
	"no colon":                            {get1("/", "X-A"), refused{"400", "bad_request"}},
	"what Connection names goes":          {get1("/", "Connection: X-Hop, keep-alive", "X-Hop: 1", "X-Stays: 1"), served{answers: 2, has: []string{"X-Stays: 1\r\n"}, lacks: []string{"X-Hop"}}},
	"Connection names too many fields":    {get1("/", "Connection: "+strings.Repeat("a,", 33)+"b"), refused{"400", "bad_request"}},
	"many Connection fields":              {get1("/", strings.Split(strings.Repeat("Connection: a\n", 33)+"X-A: b", "\n")...), refused{"400", "bad_request"}},
	"Connection cannot name what must be": {get1("/", "Connection: Host, X-Forwarded-For, X-Forwarded-Host, X-Service-Token, keep-alive", "X-Forwarded-For: 6.6.6.6", "X_Forwarded_Host: evil"),
		served{answers: 2, has: []string{"\r\nHost: " + host + "\r\n", "X-Forwarded-For: 127.0.0.1\r\n", "X-Forwarded-Host: " + host + "\r\n"}, lacks: []string{"6.6.6.6", "evil"}}},
	"who claims to be somewhere else": {get1("/", "Forwarded: for=6.6.6.6", "X-Real-IP: 6.6.6.6", "X-Forwarded-Proto: evil", "x-forwarded-port: 666"),
		served{answers: 2, lacks: []string{"6.6.6.6", "evil", "666"}}},
	"fields of one connection go": {get1("/", "Keep-Alive: 5", "Proxy-Connection: close", "TE: trailers, deflate", "X-Stays: 1"),
		served{answers: 2, has: []string{"X-Stays: 1\r\n"}, lacks: []string{"Keep-Alive", "Proxy-Connection", "deflate"}}},
	"a flood of fields":         {get1("/", strings.Split(strings.Repeat("a: b\n", 5000)+"a: b", "\n")...), refused{"431", "header_too_large"}},
	"a field without an end":    {get1("/", "X-A: "+strings.Repeat("a", 1<<20)), refused{"431", "header_too_large"}},
	"a target without an end":   {get1("/" + strings.Repeat("a", 1<<20)), refused{"431", "header_too_large"}},
	"a name without an end":     {get1("/", strings.Repeat("a", 1<<20)+": b"), refused{"431", "header_too_large"}},
	"nothing but carriage ends": {strings.Repeat("\r\n", 1<<16), refused{"400", "bad_request"}},

	"a body of a length":                 {post("hello", "Content-Length: 5"), served{answers: 2, has: []string{"Content-Length: 5\r\n", "\r\n\r\nhello"}}},
	"a length with zeros before it":      {post("hello", "Content-Length: 005"), served{answers: 2, has: []string{"Content-Length: 5\r\n", "hello"}}},
	"a length with an underscore":        {post("hello", "Content-Length: 5_0"), refused{"400", "bad_request"}},
	"a length with a comma":              {post("hello", "Content-Length: 5,5"), refused{"400", "bad_request"}},
	"a length with words":                {post("hello", "Content-Length: 5 bytes"), refused{"400", "bad_request"}},
	"a length with an exponent":          {post("hello", "Content-Length: 5e0"), refused{"400", "bad_request"}},
	"a length of 2 to the power of 64":   {post("hello", "Content-Length: 18446744073709551621"), refused{"400", "bad_request"}},
	"two lengths":                        {post("hello", "Content-Length: 5", "Content-Length: 0"), refused{"400", "bad_request"}},
	"two equal lengths":                  {post("hello", "Content-Length: 5", "content-length: 5"), refused{"400", "bad_request"}},
	"a length and chunks":                {post("0\r\n\r\n", "Content-Length: 5", "Transfer-Encoding: chunked"), refused{"400", "bad_request"}},
	"chunks and a length of nothing":     {post("0\r\n\r\n", "Transfer-Encoding: chunked", "Content-Length: 0"), refused{"400", "bad_request"}},
	"a length with an underlined name":   {post("", "Content_Length: 5", "Content-Length: 0"), served{answers: 2, lacks: []string{"Content_Length"}}},
	"GET with a body":                    {requestOf("GET / HTTP/1.1", "Content-Length: 5") + "hello", served{answers: 2, has: []string{"\r\n\r\nhello"}}},
	"chunked in capitals":                {requestOf("PUT / HTTP/1.1", "Transfer-Encoding: CHUNKED") + "5\r\nhello\r\n0\r\n\r\n", served{answers: 2, has: []string{"hello"}}},
	"a coding before chunked":            {post("0\r\n\r\n", "Transfer-Encoding: gzip, chunked"), refused{"400", "bad_request"}},
	"a coding after chunked":             {post("0\r\n\r\n", "Transfer-Encoding: chunked, gzip"), refused{"400", "bad_request"}},
	"chunked twice":                      {post("0\r\n\r\n", "Transfer-Encoding: chunked, chunked"), refused{"400", "bad_request"}},
	"chunked in quotes":                  {post("0\r\n\r\n", `Transfer-Encoding: "chunked"`), refused{"400", "bad_request"}},
	"chunked with a parameter":           {post("0\r\n\r\n", "Transfer-Encoding: chunked;q=1"), refused{"400", "bad_request"}},
	"chunked with a comma":               {post("0\r\n\r\n", "Transfer-Encoding: chunked,"), refused{"400", "bad_request"}},
	"no coding at all":                   {post("", "Transfer-Encoding:"), refused{"400", "bad_request"}},
	"identity":                           {post("", "Transfer-Encoding: identity"), refused{"400", "bad_request"}},
	"a coding that goes on":              {post("0\r\n\r\n", "Transfer-Encoding:", " chunked"), refused{"400", "bad_request"}},
	"a coding with a space before colon": {post("0\r\n\r\n", "Transfer-Encoding : chunked"), refused{"400", "bad_request"}},
	"chunks in version 1.0":              {requestOf("POST / HTTP/1.0", "Transfer-Encoding: chunked") + "0\r\n\r\n", refused{"400", "bad_request"}},

	"chunks of several sizes":              {chunked("5\r\nhello\r\n00A\r\n0123456789\r\n0\r\n\r\n"), served{answers: 2, has: []string{"Transfer-Encoding: chunked\r\n", "hello", "0123456789"}}},
	"extensions of chunks go":              {chunked("5;a=b;c=\"d\"\r\nhello\r\n0;e\r\n\r\n"), served{answers: 2, has: []string{"hello"}, lacks: []string{"a=b", ";e"}}},
	"an extension with a bare line feed":   {chunked("5;a\nb\r\nhello\r\n0\r\n\r\n"), refused{"400", "bad_request"}},
	"an extension with a carriage return":  {chunked("5;a\rb\r\nhello\r\n0\r\n\r\n"), refused{"400", "bad_request"}},
	"an extension without an end":          {chunked("5;" + strings.Repeat("a", 4096) + "\r\nhello\r\n0\r\n\r\n"), refused{"400", "bad_request"}},
	"a size of seventeen digits":           {chunked("00000000000000005\r\nhello\r\n0\r\n\r\n"), refused{"400", "bad_request"}},
	"a size that overflows to 5":           {chunked("10000000000000005\r\nhello\r\n0\r\n\r\n"), refused{"400", "bad_request"}},
	"a size below zero":                    {chunked("-5\r\nhello\r\n0\r\n\r\n"), refused{"400", "bad_request"}},
	"a size of nothing":                    {chunked("\r\nhello\r\n0\r\n\r\n"), refused{"400", "bad_request"}},
	"a size with a space before it":        {chunked(" 5\r\nhello\r\n0\r\n\r\n"), refused{"400", "bad_request"}},
	"a size of other letters":              {chunked("5g\r\nhello\r\n0\r\n\r\n"), refused{"400", "bad_request"}},
	"a chunk that ends with a line feed":   {chunked("5\r\nhello\n0\r\n\r\n"), refused{"400", "bad_request"}},
	"a chunk with two bytes for its end":   {chunked("5\r\nhelloXX0\r\n\r\n"), refused{"400", "bad_request"}},
	"a last chunk with a bare line feed":   {chunked("0\n\r\n"), refused{"400", "bad_request"}},
	"trailers that mean nothing":           {chunked("0\r\nX-Sum: 1\r\n\r\n"), served{answers: 2}},
	"trailers do not become fields":        {chunked("0\r\nHost: evil\r\nContent-Length: 5\r\nAuthorization: x\r\n\r\n"), served{answers: 2, lacks: []string{"evil", "Authorization: x"}}},
	"a trailer with a bare line feed":      {chunked("0\r\nX-A: b\nX-B: c\r\n\r\n"), refused{"400", "bad_request"}},
	"a trailer that is no field":           {chunked("0\r\nGET /smuggled HTTP/1.1\r\n\r\n"), refused{"400", "bad_request"}},
	"trailers without an end":              {chunked("0\r\nX-A: " + strings.Repeat("a", 1<<20) + "\r\n\r\n"), refused{"", ""}},
	"a body that waits for 100":            {post("hello", "Content-Length: 5", "Expect: 100-continue"), served{answers: 2, has: []string{"hello"}}},
	"an expectation of nobody":             {post("hello", "Content-Length: 5", "Expect: x"), served{answers: 2, has: []string{"hello"}}},
	"an expectation without a body":        {get1("/", "Expect: 100-continue"), served{answers: 2}},
	"an upgrade with a body":               {post("hello", "Connection: upgrade", "Upgrade: websocket", "Content-Length: 5"), served{answers: -1, has: []string{"hello"}}},
	"an upgrade to HTTP/2":                 {get1("/", "Connection: upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"), refused{"400", "upgrade_refused"}},
	"an upgrade that nobody asks for":      {get1("/", "Upgrade: websocket"), served{answers: 2, lacks: []string{"Upgrade"}}},
	"two hosts":                            {get1("/", "Host: "+host), refused{"400", "bad_request"}},
	"no host":                              {"GET / HTTP/1.1\r\nX-Service-Token: " + token + "\r\n\r\n", refused{"400", "bad_request"}},
	"no host in version 1.0":               {"GET / HTTP/1.0\r\nX-Service-Token: " + token + "\r\n\r\n", refused{"400", "bad_request"}},
	"requests one behind the other":        {get1("/1") + get1("/2") + get1("/3"), served{answers: 4, has: []string{"GET /1 ", "GET /2 ", "GET /3 "}}},
	"requests with bodies, in one segment": {post("hello", "Content-Length: 5") + chunked("3\r\nabc\r\n0\r\n\r\n") + get1("/3"), served{answers: 4, has: []string{"hello", "abc", "GET /3 "}}},
}

func chunked(body string) string { return post(body, "Transfer-Encoding: chunked") }

func TestTheCorpusOfRequests(t *testing.T) {
	app := newWitness(t)
	address := netip.MustParseAddrPort(app.Addr().String())
	var cell *fakecell.Cell
	cell = fakecell.Start(t, func(fakecell.Ask) any {
		return fakecell.Grant{Lease: cell.NewLease(), Address: address.Addr().String(), Port: int(address.Port()), WorkspaceID: "w", Epoch: 1}
	})
	portd := startProcess(t, corpusConfig(cell.Socket))
	for name, each := range corpus {
		t.Run(name, func(t *testing.T) {
			answer := exchange(t, portd.address, each.bytes+get1("/after", "Connection: close"))
			arrived := app.take()
			if strings.Contains(arrived, token) {
				t.Fatalf("the app reads the credential: %q", arrived)
			}
			switch expect := each.expect.(type) {
			case refused:
				expectRefused(t, expect, answer, arrived)
			case served:
				expectServed(t, expect, answer, arrived)
			}
		})
	}
}

// A body may turn out invalid after its head was forwarded. The app then gets an incomplete request, but never a second
// one.
func expectRefused(t *testing.T, expect refused, answer, arrived string) {
	t.Helper()
	if strings.Contains(arrived, "/after") || strings.Contains(arrived, "smuggled") {
		t.Fatalf("what came behind was passed on: %.500q", arrived)
	}
	if strings.Count(answer, "HTTP/1.1 ") > 1 {
		t.Fatalf("there was more than one answer: %.500q", answer)
	}
	if expect.status == "" {
		return
	}
	lower := strings.ToLower(answer)
	if !strings.HasPrefix(answer, "HTTP/1.1 "+expect.status+" ") || !strings.Contains(lower, "x-service-reason: "+expect.reason+"\r\n") || !strings.Contains(lower, "connection: close\r\n") {
		t.Fatalf("it is not %s %s but %.500q; the app got %.300q", expect.status, expect.reason, answer, arrived)
	}
}

func expectServed(t *testing.T, expect served, answer, arrived string) {
	t.Helper()
	if got := strings.Count(answer, "HTTP/1.1 200 OK"); expect.answers >= 0 && got != expect.answers {
		t.Fatalf("there are %d answers for %d: %.800q; the app got %.800q", got, expect.answers, answer, arrived)
	}
	if expect.answers >= 0 && strings.Count(arrived, "GET /after ") != 1 {
		t.Fatalf("the last request came not once: %.800q", arrived)
	}
	for _, text := range expect.has {
		if !strings.Contains(arrived, text) {
			t.Errorf("the app got no %q: %.800q", text, arrived)
		}
	}
	for _, text := range expect.lacks {
		if strings.Contains(strings.ToLower(arrived), strings.ToLower(text)) {
			t.Errorf("the app got %q: %.800q", text, arrived)
		}
	}
}

func exchange(t *testing.T, address, bytes string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testns.Patience(patience)))
	go func() { _, _ = io.WriteString(conn, bytes) }()
	answer, _ := io.ReadAll(conn) // a reset is fine
	return string(answer)
}

func corpusConfig(socket string) map[string]any {
	return map[string]any{"listen": "127.0.0.1:0", "port_host": "ports.test", "public_scheme": "http", "socket": socket, "certificate": "",
		"key": "", "drain_seconds": 1, "trusted_proxies": []string{}}
}
