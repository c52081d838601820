module github.com/berth-dev/berth/machine

go 1.26.0

require (
	github.com/bmatcuk/doublestar/v4 v4.9.1
	github.com/coreos/go-iptables v0.8.0
	github.com/coreos/go-systemd/v22 v22.7.0
	github.com/creack/pty v1.1.24
	github.com/godbus/dbus/v5 v5.2.4
	github.com/google/nftables v0.3.0
	github.com/klauspost/cpuid/v2 v2.4.2
	github.com/mdlayher/netlink v1.7.3-0.20250113171957-fbb4dce95f42
	github.com/miekg/dns v1.1.73
	github.com/pkg/sftp v1.13.12
	github.com/vishvananda/netlink v1.3.1
	golang.org/x/crypto v0.54.0
	golang.org/x/sys v0.49.0
	golang.org/x/time v0.15.0
)

require (
	github.com/google/go-cmp v0.6.0 // indirect
	github.com/kr/fs v0.1.0 // indirect
	github.com/mdlayher/socket v0.5.0 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
)
