package httpwire

import (
	"bufio"
	"errors"
	"net/http"
	"strings"
)

type Request struct {
	Method, Target string
	Minor          int // minor version of HTTP/1
	Fields         Fields
	Host           string
	Framing        Framing
	Close          bool   // no request follows on this connection
	Upgrade        string // protocols of the requested upgrade, "" for none
	Continue       bool   // the visitor sends the body only after an answer of 100 Continue
}

type Framing struct {
	Kind   FramingKind
	Length int64 // of a FixedBody
}

type FramingKind uint8

const (
	NoBody FramingKind = iota
	FixedBody
	ChunkedBody
	UntilClose // of responses only
)

const methodMax = 32

// ReadRequest returns io.EOF if the connection ended between two requests, and a *Problem that the caller must answer.
func ReadRequest(r *bufio.Reader) (*Request, error) {
	lines, err := readHead(r, RequestHeadMax, false)
	if err == nil && lines == "" { // an empty line may precede a request: RFC 9112, 2.2
		lines, err = readHead(r, RequestHeadMax, false)
	}
	if err != nil {
		return nil, requestProblem(err)
	}
	request := &Request{}
	line, rest := cutLine(lines)
	if err := request.parseLine(line); err != nil {
		return nil, err
	}
	if request.Fields, err = parseFields(rest, FieldsMax); err != nil {
		return nil, requestProblem(err)
	}
	return request, request.understand()
}

func requestProblem(err error) error {
	if errors.Is(err, errTooLarge) {
		return &Problem{http.StatusRequestHeaderFieldsTooLarge, "header_too_large", "The request's header is too large."}
	}
	return err
}

func (q *Request) parseLine(line string) error {
	method, rest, _ := strings.Cut(line, " ")
	target, version, _ := strings.Cut(rest, " ")
	if version != "HTTP/1.1" && version != "HTTP/1.0" {
		return bad("The request line ends with no version that is served.")
	}
	q.Method, q.Target, q.Minor = method, target, int(version[7]-'0')
	return q.checkLine()
}

func (q *Request) checkLine() error {
	switch {
	case !isToken(q.Method) || len(q.Method) > methodMax:
		return bad("The request line begins with no method.")
	case q.Method == http.MethodConnect || q.Method == http.MethodTrace || q.Method == "TRACK":
		return &Problem{http.StatusMethodNotAllowed, "method_not_allowed", "This method is not passed on."}
	case !isTarget(q.Target):
		return bad("The request's target is no path.")
	}
	return nil
}

// Check applies the rules of HTTP/1.1 to a request that came in another version.
func (q *Request) Check() error {
	if len(q.Fields) > FieldsMax {
		return requestProblem(errTooLarge)
	}
	for _, field := range q.Fields {
		if !isToken(field.Name) || !isFieldValue(field.Value) {
			return bad("A header field cannot be passed on.")
		}
	}
	if q.Fields.namesTooMany() {
		return tooManyNames()
	}
	return q.checkLine()
}

// isTarget refuses the absolute form: it names a second host, and portd is not a forward proxy.
func isTarget(target string) bool {
	if target == "" || target[0] != '/' {
		return false
	}
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c == 0x7f || c == '#' {
			return false
		}
	}
	return true
}

func (q *Request) understand() error {
	host, hosts := q.Fields.Only(Host)
	if hosts != 1 {
		return bad("A request has one Host header.")
	}
	q.Host = host
	if q.Fields.namesTooMany() {
		return tooManyNames()
	}
	framing, err := requestFraming(q.Fields, q.Minor)
	if err != nil {
		return err
	}
	q.Framing = framing
	expects, _ := q.Fields.Only(Expect)
	q.Continue = q.Minor == 1 && framing.Kind != NoBody && strings.EqualFold(expects, "100-continue")
	q.Close = q.Fields.HasToken(Connection, "close") || q.Minor == 0
	return q.understandUpgrade()
}

func tooManyNames() error { return bad("The Connection header names too many fields.") }

func requestFraming(fields Fields, minor int) (Framing, error) {
	length, lengths := fields.Only(ContentLength)
	coding, codings := fields.Only(TransferEncoding)
	switch {
	case lengths > 1:
		return Framing{}, bad("A request has one Content-Length at most.")
	case codings > 0 && lengths > 0:
		return Framing{}, bad("A request has Content-Length or Transfer-Encoding, not both.")
	case codings > 1 || codings == 1 && !strings.EqualFold(coding, "chunked"):
		return Framing{}, bad("The only transfer coding is chunked.")
	case codings == 1 && minor == 0:
		return Framing{}, bad("HTTP/1.0 has no transfer codings.")
	case codings == 1:
		return Framing{Kind: ChunkedBody}, nil
	case lengths == 0:
		return Framing{}, nil
	}
	bytes, ok := parseLength(length)
	if !ok {
		return Framing{}, bad("Content-Length is a decimal number.")
	}
	if bytes == 0 {
		return Framing{}, nil
	}
	return Framing{FixedBody, bytes}, nil
}

// understandUpgrade refuses HTTP/2 in cleartext: it would be a tunnel in which later requests pass unchecked.
func (q *Request) understandUpgrade() error {
	protocols, count := q.Fields.Only(Upgrade)
	if _, settings := q.Fields.Only(HTTP2Settings); settings > 0 {
		return refusedUpgrade("HTTP/2 is not spoken without TLS.")
	}
	if count == 0 || !q.Fields.HasToken(Connection, "upgrade") || q.Minor == 0 {
		return nil
	}
	if count > 1 {
		return refusedUpgrade("A request has one Upgrade header.")
	}
	for protocol := range strings.SplitSeq(protocols, ",") {
		name, _, _ := strings.Cut(strings.Trim(protocol, " \t"), "/")
		if strings.EqualFold(name, "h2c") || strings.EqualFold(name, "h2") || strings.EqualFold(name, "http") || name == "" {
			return refusedUpgrade("This connection does not go on with another version of HTTP.")
		}
	}
	q.Upgrade = protocols
	return nil
}

func refusedUpgrade(message string) error {
	return &Problem{http.StatusBadRequest, "upgrade_refused", message}
}
