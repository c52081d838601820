package proxy

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"
)

const lookEvery = 2 * time.Second

// Certificates loads a certificate from files, and reloads it when the files change.
type Certificates struct {
	certificate, key string
	log              *slog.Logger

	mu       sync.Mutex
	current  *tls.Certificate
	version  [2]fileVersion
	lookedAt time.Time
}

type fileVersion struct {
	size int64
	at   time.Time
}

func OpenCertificates(certificate, key string, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{certificate: certificate, key: key, log: log}
	version := c.look()
	return c, c.load(version)
}

func (c *Certificates) look() (version [2]fileVersion) {
	for i, path := range []string{c.certificate, c.key} {
		if info, err := os.Stat(path); err == nil {
			version[i] = fileVersion{info.Size(), info.ModTime()}
		}
	}
	return version
}

func (c *Certificates) load(version [2]fileVersion) error {
	pair, err := tls.LoadX509KeyPair(c.certificate, c.key)
	if err != nil {
		return err
	}
	c.current, c.version = &pair, version
	return nil
}

// get returns the last good certificate while the files do not match each other.
func (c *Certificates) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.lookedAt) < lookEvery {
		return c.current, nil
	}
	c.lookedAt = time.Now()
	if version := c.look(); version != c.version {
		if err := c.load(version); err != nil {
			c.log.Warn("the new certificate cannot be used, the old one stays", "error", err)
		} else {
			c.log.Info("a new certificate is in use")
		}
	}
	return c.current, nil
}

func (c *Certificates) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get, NextProtos: []string{"h2", "http/1.1"}}
}
