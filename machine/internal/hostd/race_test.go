//go:build race

package hostd

var buildFlags = []string{"-race"}
