// Command forward-proxy is the reference of the row `secretless`: `forward-proxy LISTEN SERVER` connects every CONNECT
// tunnel to SERVER.
package main

import (
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
			return
		}
		onward, err := net.Dial("tcp4", os.Args[2])
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer onward.Close()
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(onward, buffered) // an error ends the copy
			_ = onward.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(conn, onward)
	})
	listener, err := net.Listen("tcp4", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(listener, handler))
}
