package search

import (
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
)

const (
	globsMax     = 64
	globBytesMax = 256
	// Combinations of brace groups are tried one by one, so their number is limited.
	bracesMax = 3
)

// A glob with a slash is compared with the path, another glob with the name.
type nameFilter struct{ include, exclude []glob }

type glob struct {
	text   string
	ofPath bool
}

func compileGlobs(include, exclude []string) (*nameFilter, error) {
	f := &nameFilter{}
	var err error
	if f.include, err = globsOf("include", include); err != nil {
		return nil, err
	}
	f.exclude, err = globsOf("exclude", exclude)
	return f, err
}

func globsOf(field string, texts []string) (list []glob, err error) {
	refused := func(i int, why string) error {
		path := fmt.Sprintf("%s.%d", field, i)
		return fail.Invalid("", "A glob is not valid: "+why).With("issues", []map[string]string{{"path": path, "message": why}})
	}
	if len(texts) > globsMax {
		return nil, refused(globsMax, "must not have more than 64 globs")
	}
	for i, text := range texts {
		switch {
		case text == "" || len(text) > globBytesMax:
			return nil, refused(i, "must have 1 to 256 bytes")
		case strings.Count(text, "{") > bracesMax:
			return nil, refused(i, "must not have more than 3 groups of alternatives")
		case !doublestar.ValidatePattern(text):
			return nil, refused(i, "is not a glob")
		}
		text = strings.TrimPrefix(text, "./")
		ofPath := strings.Contains(strings.TrimSuffix(text, "/"), "/")
		list = append(list, glob{text: strings.Trim(text, "/"), ofPath: ofPath})
	}
	return list, nil
}

func (g glob) matches(path, name string) bool {
	subject := name
	if g.ofPath {
		subject = path
	}
	ok, err := doublestar.Match(g.text, subject)
	return ok && err == nil
}

func anyOf(list []glob, path, name string) bool {
	for _, g := range list {
		if g.matches(path, name) {
			return true
		}
	}
	return false
}

func (f *nameFilter) takes(path, name string) bool {
	return !anyOf(f.exclude, path, name) && (len(f.include) == 0 || anyOf(f.include, path, name))
}

// prunes reports whether a directory is skipped as a whole. A glob that ends with "/**" excludes the directory too.
func (f *nameFilter) prunes(path, name string) bool {
	for _, g := range f.exclude {
		if g.matches(path, name) {
			return true
		}
		if whole, ok := strings.CutSuffix(g.text, "/**"); ok && (glob{text: whole, ofPath: true}).matches(path, name) {
			return true
		}
	}
	return false
}
