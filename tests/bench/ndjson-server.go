// Command ndjson-server is the reference of the row `stream`: it sends the same events.
package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
)

const lineBytes = 64 << 10

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		total, err := strconv.Atoi(r.URL.Query().Get("bytes"))
		if err != nil {
			http.Error(w, "bytes", http.StatusBadRequest)
			return
		}
		data, text := make([]byte, lineBytes), make([]byte, base64.StdEncoding.EncodedLen(lineBytes))
		out := bufio.NewWriterSize(w, 128<<10)
		for offset := 0; offset < total; offset += lineBytes {
			base64.StdEncoding.Encode(text, data)
			fmt.Fprintf(out, `{"type":"output","stream":"stdout","offset":%d,"data":"%s"}`+"\n", offset, text)
		}
		if err := out.Flush(); err != nil {
			log.Print(err)
		}
	})
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
