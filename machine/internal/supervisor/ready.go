package supervisor

import (
	"context"
	"net"
	"net/http"
	"time"
)

const (
	readyProbeEvery   = 25 * time.Millisecond
	readyProbeTimeout = 2 * time.Second
)

func (r Ready) isReady(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, readyProbeTimeout)
	defer cancel()
	network, address := "tcp", r.TCP
	if r.Unix != "" {
		network, address = "unix", r.Unix
	}
	if address == "" {
		return true
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	if r.Path == "" {
		connection, err := dial(ctx, "", "")
		if err == nil {
			connection.Close()
		}
		return err == nil
	}
	return answersOK(ctx, dial, r.Path)
}

func answersOK(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), path string) bool {
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}
