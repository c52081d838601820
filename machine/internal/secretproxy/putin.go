package secretproxy

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
)

// putIn is what a request to a host of these secrets becomes: values stand for their placeholders in headers and in the query, and at the place
// that a host names whatever stood there. The path and the body stay as they are.
func putIn(header http.Header, query string, secrets []placed) string {
	for _, one := range secrets {
		value, placeholder := one.secret.Value, one.secret.Placeholder
		for _, values := range header {
			for i, text := range values {
				values[i] = inHeader(text, placeholder, value)
			}
		}
		query = strings.ReplaceAll(query, placeholder, url.QueryEscape(value))
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

// inHeader looks into the pair of a Basic authorization, too.
func inHeader(text, placeholder, value string) string {
	text = strings.ReplaceAll(text, placeholder, value)
	scheme, encoded, ok := strings.Cut(text, " ")
	if !ok || !strings.EqualFold(scheme, "Basic") {
		return text
	}
	pair, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil || !strings.Contains(string(pair), placeholder) {
		return text
	}
	return scheme + " " + base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(string(pair), placeholder, value)))
}

// withParameter leaves every other parameter as it was written.
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

// isHeaderValue says that a value ends no header and begins no other.
func isHeaderValue(value string) bool {
	return value != "" && strings.TrimSpace(value) == value && strings.IndexFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}
