// Command port-tools contains both ends of the port proxy's benchmark and its second reference: `port-tools app`,
// `relay ADDRESS` and `load`. The two servers print their address. `load` reads lines `ADDRESS HOST TOKEN CONNECTIONS
// REQUESTS`, and prints milliseconds.
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

const answer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1024\r\n\r\n"

func main() {
	switch os.Args[1] {
	case "app":
		serve(app)
	case "relay":
		serve(func(conn net.Conn) { relay(conn, os.Args[2]) })
	case "load":
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			var address, host, token string
			var connections, requests int
			if _, err := fmt.Sscan(lines.Text(), &address, &host, &token, &connections, &requests); err != nil {
				log.Fatal(err)
			}
			fmt.Println(load(address, host, token, connections, requests))
		}
	}
}

func serve(each func(net.Conn)) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		conn, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go each(conn)
	}
}

func app(conn net.Conn) {
	defer conn.Close()
	whole := []byte(answer + strings.Repeat("x", 1024))
	for reader := bufio.NewReader(conn); ; {
		if skipHead(reader) != nil {
			return
		}
		if _, err := conn.Write(whole); err != nil {
			return
		}
	}
}

func skipHead(reader *bufio.Reader) error {
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil || len(line) == 2 {
			return err
		}
	}
}

func relay(conn net.Conn, to string) {
	defer conn.Close()
	other, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer other.Close()
	go func() {
		_, _ = io.Copy(other, conn)
		other.Close()
	}()
	_, _ = io.Copy(conn, other)
}

func load(address, host, token string, connections, requests int) float64 {
	request := []byte("GET /some/path?with=a&query HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer " + token +
		"\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate, br\r\nUser-Agent: load/1\r\nAccept-Language: en\r\n\r\n")
	var group sync.WaitGroup
	begun := time.Now()
	for range connections {
		group.Go(func() {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				log.Fatal(err)
			}
			defer conn.Close()
			reader := bufio.NewReader(conn)
			for range requests / connections {
				if _, err := conn.Write(request); err != nil {
					log.Fatal(err)
				}
				first, err := reader.Peek(12)
				if err != nil || string(first) != "HTTP/1.1 200" {
					log.Fatalf("%s answered %q: %v", address, first, err)
				}
				if err := skipHead(reader); err != nil {
					log.Fatal(err)
				}
				if _, err := reader.Discard(1024); err != nil {
					log.Fatal(err)
				}
			}
		})
	}
	group.Wait()
	return float64(time.Since(begun).Microseconds()) / 1000
}
