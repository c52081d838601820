package secretproxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"sync"
	"time"
)

type authority struct {
	ID          string `json:"id"`
	Certificate string `json:"certificate"` // PEM
	PrivateKey  string `json:"private_key"` // PKCS #8, DER, base64
}

const (
	certificateBefore = 30 * 24 * time.Hour // validity begins this long ago, because a guest's clock may be slow
	certificateAfter  = 30 * 24 * time.Hour
	certificateKept   = 24 * time.Hour
	certificatesMax   = 1024
)

type certificates struct {
	mu   sync.Mutex
	made map[[2]string]*tls.Certificate // by authority and name
}

func (c *certificates) of(a authority, name string) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := [2]string{a.ID, name}
	if known := c.made[key]; known != nil && time.Until(known.Leaf.NotAfter) > certificateAfter-certificateKept {
		return known, nil
	}
	made, err := a.certify(name, time.Now())
	if err != nil {
		return nil, err
	}
	if len(c.made) >= certificatesMax {
		clear(c.made)
	}
	c.made[key] = made
	return made, nil
}

func (a authority) certify(name string, now time.Time) (*tls.Certificate, error) {
	parent, signer, err := a.parse()
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: commonName(name)}, DNSNames: []string{name},
		NotBefore: now.Add(-certificateBefore), NotAfter: now.Add(certificateAfter), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der, parent.Raw}, PrivateKey: key, Leaf: leaf}, err
}

// commonName shortens the name to the limit of X.509. Clients ignore it, because the certificate has alternative names.
func commonName(name string) string { return name[:min(len(name), 64)] }

func (a authority) parse() (*x509.Certificate, any, error) {
	block, _ := pem.Decode([]byte(a.Certificate))
	if block == nil {
		return nil, nil, errors.New("the authority has no certificate")
	}
	parent, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil, err
	}
	der, err := base64.StdEncoding.DecodeString(a.PrivateKey)
	if err != nil {
		return nil, nil, err
	}
	signer, err := x509.ParsePKCS8PrivateKey(der)
	return parent, signer, err
}
