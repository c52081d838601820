package httpwire

import (
	"bufio"
	"errors"
	"net/http"
	"strings"
)

// Response is the head of an answer, which may be interim (1xx).
type Response struct {
	Status  int
	Phrase  string
	Minor   int
	Fields  Fields
	Framing Framing
	Length  int64 // Content-Length, even if there is no body, as after HEAD; -1: absent
	Keep    bool  // the head allows another request on this connection
	Upgrade string
}

var ErrBadAnswer = errors.New("what the app answered is not HTTP/1.1")

// ReadResponse accepts lines without a carriage return: some apps send such lines, and their meaning is clear.
func ReadResponse(r *bufio.Reader, method string) (*Response, error) {
	lines, err := readHead(r, ResponseHeadMax, true)
	if err != nil {
		return nil, answerProblem(err)
	}
	response := &Response{}
	line, rest := cutLine(lines)
	if !response.parseLine(line) || response.isInterim() && len(lines) > interimHeadMax {
		return nil, ErrBadAnswer
	}
	if response.Fields, err = parseFields(rest, 2*FieldsMax); err != nil {
		return nil, answerProblem(err)
	}
	return response, response.understand(method)
}

// The size of an interim head is limited, because one request may get many of them.
const interimHeadMax = 8 << 10

func (p *Response) isInterim() bool {
	return p.Status < http.StatusOK && p.Status != http.StatusSwitchingProtocols
}

func answerProblem(err error) error {
	var problem *Problem
	if errors.Is(err, errTooLarge) || errors.As(err, &problem) {
		return ErrBadAnswer
	}
	return err
}

func (p *Response) parseLine(line string) bool {
	version, rest, _ := strings.Cut(line, " ")
	code, phrase, _ := strings.Cut(rest, " ")
	status, ok := parseLength(code)
	if version != "HTTP/1.1" && version != "HTTP/1.0" || !ok || len(code) != 3 || status < 100 || status > 599 || !isFieldValue(phrase) {
		return false
	}
	p.Status, p.Phrase, p.Minor = int(status), phrase, int(version[7]-'0')
	return true
}

func (p *Response) understand(method string) error {
	if p.Fields.namesTooMany() {
		return ErrBadAnswer
	}
	length, lengths := p.Fields.Only(ContentLength)
	coding, codings := p.Fields.Only(TransferEncoding)
	bytes, ok := parseLength(length)
	if lengths > 1 || codings > 1 || lengths > 0 && (codings > 0 || !ok) || codings > 0 && (p.Minor == 0 || !strings.EqualFold(coding, "chunked")) {
		return ErrBadAnswer
	}
	if p.Status == http.StatusSwitchingProtocols && p.Fields.HasToken(Connection, "upgrade") {
		p.Upgrade, _ = p.Fields.Only(Upgrade)
	}
	p.Length = -1
	if lengths == 1 && p.Status >= 200 && p.Status != http.StatusNoContent {
		p.Length = bytes
	}
	p.Keep = p.Minor == 1 && !p.Fields.HasToken(Connection, "close")
	switch {
	case method == http.MethodHead || p.Status < 200 || p.Status == http.StatusNoContent || p.Status == http.StatusNotModified:
	case codings == 1:
		p.Framing = Framing{Kind: ChunkedBody}
	case lengths == 1 && bytes > 0:
		p.Framing = Framing{FixedBody, bytes}
	case lengths == 0:
		p.Framing, p.Keep = Framing{Kind: UntilClose}, false
	}
	return nil
}
