//go:build !race

package hostd

// buildFlags are those with which the tests build hostd.
var buildFlags []string
