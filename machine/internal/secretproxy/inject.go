package secretproxy

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
)

const fieldBytes = 128

func sizeOf(header http.Header, query string) int {
	size := len(query)
	for name, values := range header {
		for _, text := range values {
			size += fieldBytes + len(name) + len(text)
		}
	}
	return size
}

// sizeWith returns an upper bound of the size with all values, before any memory is allocated.
func sizeWith(header http.Header, query string, secrets []placed) int {
	size := sizeOf(header, query) + grows(query, secrets, escapedLen)
	for _, values := range header {
		for _, text := range values {
			size += grows(text, secrets, plainLen)
			if pair, ok := pairOf(text); ok {
				size += base64.StdEncoding.EncodedLen(grows(pair, secrets, plainLen))
			}
		}
	}
	for _, one := range secrets {
		size += sizeAt(one)
	}
	return size
}

func grows(text string, secrets []placed, length func(string) int) (size int) {
	for _, one := range secrets {
		if one.isIn(text) {
			size += strings.Count(text, one.secret.Placeholder) * length(one.secret.Value)
		}
	}
	return size
}

func (p placed) isIn(text string) bool {
	return p.secret.Placeholder != "" && strings.Contains(text, p.secret.Placeholder)
}

func plainLen(value string) int { return len(value) }

func escapedLen(value string) int { return 3 * len(value) }

func sizeAt(one placed) int {
	size := len(one.secret.Value)
	switch at := one.at; {
	case at.Header != "" || at.Bearer:
		return fieldBytes + len(at.Header) + size
	case at.BasicUser != nil:
		return fieldBytes + base64.StdEncoding.EncodedLen(len(*at.BasicUser)+1+size)
	case at.Query != "":
		return escapedLen(at.Query) + escapedLen(one.secret.Value) + 2
	}
	return 0
}

// putIn replaces placeholders in header and query. It changes neither path nor body, and does not search inserted
// values for placeholders.
func putIn(header http.Header, query string, secrets []placed) string {
	for _, values := range header {
		for i, text := range values {
			values[i] = inHeader(text, secrets)
		}
	}
	query = inText(query, secrets, url.QueryEscape)
	for _, one := range secrets {
		value := one.secret.Value
		switch at := one.at; {
		case at.Header != "":
			header.Set(at.Header, value)
		case at.Bearer:
			header.Set("Authorization", "Bearer "+value)
		case at.BasicUser != nil:
			header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(*at.BasicUser+":"+value)))
		case at.Query != "":
			query = withParameter(query, at.Query, value)
		}
	}
	return query
}

func inText(text string, secrets []placed, spelled func(string) string) string {
	pairs := []string{}
	for _, one := range secrets {
		if one.isIn(text) {
			pairs = append(pairs, one.secret.Placeholder, spelled(one.secret.Value))
		}
	}
	if len(pairs) == 0 {
		return text
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

func asItIs(value string) string { return value }

// inHeader also decodes a Basic authorization, because its pair may contain a placeholder.
func inHeader(text string, secrets []placed) string {
	if pair, ok := pairOf(text); ok {
		if put := inText(pair, secrets, asItIs); put != pair {
			scheme, _, _ := strings.Cut(text, " ")
			return scheme + " " + base64.StdEncoding.EncodeToString([]byte(put))
		}
	}
	return inText(text, secrets, asItIs)
}

func pairOf(text string) (string, bool) {
	scheme, encoded, ok := strings.Cut(text, " ")
	if !ok || !strings.EqualFold(scheme, "Basic") {
		return "", false
	}
	pair, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	return string(pair), err == nil
}

func withParameter(query, name, value string) string {
	kept := []string{}
	for part := range strings.SplitSeq(query, "&") {
		key, _, _ := strings.Cut(part, "=")
		if known, err := url.QueryUnescape(key); part != "" && (err != nil || known != name) {
			kept = append(kept, part)
		}
	}
	return strings.Join(append(kept, url.QueryEscape(name)+"="+url.QueryEscape(value)), "&")
}

// isHeaderValue refuses characters with which a value could end its header or start another.
func isHeaderValue(value string) bool {
	return value != "" && strings.TrimSpace(value) == value && strings.IndexFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}
