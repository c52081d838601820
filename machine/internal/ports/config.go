// Package ports runs portd, the port proxy, as a process.
package ports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
)

type Config struct {
	Listen      string `json:"listen"`
	PortHost    string `json:"port_host"` // the domain of all port host names
	Socket      string `json:"socket"`
	Certificate string `json:"certificate"` // file with a chain for *.<port_host>; "" serves without TLS
	Key         string `json:"key"`         // file with the certificate's key
	// PublicScheme is the scheme of public URLs: https also if a proxy in front of portd terminates TLS.
	PublicScheme string `json:"public_scheme"`
	// TrustedProxies are the networks of proxies whose X-Forwarded-For is trusted.
	TrustedProxies []netip.Prefix `json:"trusted_proxies"`
	DrainSeconds   int            `json:"drain_seconds"`
}

var hostPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)

const portHostMax = 253 - len("65535-") - 26 - len(".")

func ReadConfig(path string) (Config, error) {
	var config Config
	text, err := os.ReadFile(path)
	if err != nil {
		return config, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil {
		return config, fmt.Errorf("%s: %w", path, err)
	}
	return config, config.check()
}

func (c Config) check() error {
	_, _, err := net.SplitHostPort(c.Listen)
	switch {
	case err != nil:
		return fmt.Errorf("listen is an address with a port: %w", err)
	case !hostPattern.MatchString(c.PortHost) || len(c.PortHost) > portHostMax:
		return errors.New("port_host is a host name in lower case")
	case !filepath.IsAbs(c.Socket):
		return errors.New("socket is an absolute path")
	case (c.Certificate == "") != (c.Key == ""):
		return errors.New("certificate and key are set together")
	case c.PublicScheme != "https" && c.PublicScheme != "http", c.Certificate != "" && c.PublicScheme != "https":
		return errors.New("public_scheme is http or https, and https with a certificate")
	case c.DrainSeconds < 1:
		return errors.New("drain_seconds is at least 1")
	}
	return nil
}
