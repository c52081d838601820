// Package mountpoints reads tables of mounts as the kernel writes them to /proc/PID/mountinfo.
package mountpoints

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

const (
	lineBytesMax = 1 << 20
	pointAt      = 4 // index of the field in a line
)

func Read(table io.Reader) ([]string, error) {
	var points []string
	scanner := bufio.NewScanner(table)
	scanner.Buffer(make([]byte, 64<<10), lineBytesMax)
	for scanner.Scan() {
		if fields := strings.Fields(scanner.Text()); len(fields) > pointAt {
			points = append(points, unescape(fields[pointAt]))
		}
	}
	return points, scanner.Err()
}

func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				plain.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		plain.WriteByte(text[i])
	}
	return plain.String()
}
