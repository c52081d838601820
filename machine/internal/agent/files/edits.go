package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"unicode/utf8"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func applyEdits(text []byte, edits []wire.TextEdit) (next []byte, replacements int, err error) {
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return nil, 0, fail.Invalid("edit_not_text", "The file is not UTF-8 text")
	}
	for i, e := range edits {
		n, err := occurrences(text, e, i)
		if err != nil {
			return nil, 0, err
		}
		if len(text)+n*(len(e.NewText)-len(e.OldText)) > PatchFileBytesMax {
			return nil, 0, fail.TooLarge("The edited file is too large", PatchFileBytesMax)
		}
		text = bytes.ReplaceAll(text, []byte(e.OldText), []byte(e.NewText))
		replacements += n
	}
	return text, replacements, nil
}

func occurrences(text []byte, e wire.TextEdit, index int) (int, error) {
	old := []byte(e.OldText)
	if e.ReplaceAll {
		if n := bytes.Count(text, old); n > 0 {
			return n, nil
		}
	}
	at := bytes.Index(text, old)
	if at < 0 {
		return 0, fail.Invalid("edit_not_found", "The old text is not in the file").With("index", index)
	}
	// The search starts one byte after the first occurrence, because overlapping occurrences are ambiguous too.
	if bytes.Contains(text[at+1:], old) {
		return 0, fail.Invalid("edit_ambiguous", "The old text occurs more than once: add context, or set replace_all").With("index", index)
	}
	return 1, nil
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
