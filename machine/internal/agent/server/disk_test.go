package server

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/berth-dev/berth/machine/internal/agent/files"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestAPageOfTheLongestPathsIsLookedAtHoweverTheyAreEscaped(t *testing.T) {
	root, err := guestroot.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Release()
	paths := make([]string, files.FactsMax)
	for i := range paths {
		paths[i] = strings.Repeat("/"+strings.Repeat("\x01", 255), 16)
	}
	body, err := json.Marshal(wire.FactsRequest{Paths: paths})
	if err != nil {
		t.Fatal(err)
	}
	m, key := &machine{disk: root}, strings.Repeat("k", keyBytesMin)
	server := httptest.NewServer(m.diskHandler(DiskReads{Key: key, Epoch: 1}))
	defer server.Close()
	request, err := http.NewRequest("POST", server.URL+"/files/facts", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("X-Berth-Epoch", "1")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var found wire.Facts
	if err := json.Unmarshal(answer, &found); err != nil || response.StatusCode != http.StatusOK || len(found.Facts) != len(paths) {
		t.Fatalf("%d bytes are answered with %d %.200s", len(body), response.StatusCode, answer)
	}
}
