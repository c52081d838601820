// Package onepage keeps small texts in files that are rewritten in place.
//
// The usual way, a new file that is renamed over the old one, makes ext4 write the new one to the disk at once (its auto_da_alloc),
// half a millisecond to one and a half in calls that somebody waits for. What is kept here dies with the computer's power anyway; it
// only has to survive the death of its writer. One write of one page does: the kernel looks for a deadly signal between pages, not
// within one.
package onepage

import (
	"bytes"
	"os"
)

const pageBytes = 4096

// Write replaces the content of path, for the owner alone, by text and spaces to the end of a page: a reader trims them, or does not
// mind them, as JSON does not. A longer text comes by a rename. Whoever comes after a kill finds all of the old text or all of the
// new one; a reader beside a writer may not.
func Write(path string, text []byte) error {
	if len(text) > pageBytes {
		return replace(path, text)
	}
	page := append(text[:len(text):len(text)], bytes.Repeat([]byte{' '}, pageBytes-len(text))...)
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if os.IsNotExist(err) {
		return replace(path, page)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != pageBytes { // another page would be needed, or be left over
		return replace(path, page)
	}
	_, err = file.WriteAt(page, 0)
	return err
}

func replace(path string, text []byte) error {
	temporary := path + ".tmp"
	if err := os.WriteFile(temporary, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
