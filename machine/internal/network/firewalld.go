package network

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/godbus/dbus/v5"
)

// firewalld owns its table, so Berth requests that it trusts the link, at runtime only. The instance's own table still
// decides which packets pass.
type firewalld struct{ link string }

const (
	firewalldName    = "org.fedoraproject.FirewallD1"
	firewalldPath    = dbus.ObjectPath("/org/fedoraproject/FirewallD1")
	firewalldConfig  = firewalldPath + "/config"
	firewalldTrusts  = "trusted" // zone whose packets are always accepted
	firewalldAnswers = 30 * time.Second
)

func (f firewalld) name() string { return "firewalld" }

func (f firewalld) recipe() []string {
	change := fmt.Sprintf("firewall-cmd --zone=%s --change-interface=%s", firewalldTrusts, f.link)
	return []string{change, change + " --permanent"}
}

func (f firewalld) isOpen() (bool, error) {
	zone, err := f.zone()
	return zone == firewalldTrusts, err
}

func (f firewalld) zone() (zone string, err error) {
	err = f.ask(firewalldPath, "zone.getZoneOfInterface", &zone, f.link)
	return zone, err
}

func (f firewalld) open() error {
	var zone string
	return f.ask(firewalldPath, "zone.changeZoneOfInterface", &zone, firewalldTrusts, f.link)
}

// close does not change a zone that firewalld's permanent configuration assigns to the link.
func (f firewalld) close() error {
	zone, err := f.zone()
	if err != nil || zone != firewalldTrusts {
		return unlessGone(err)
	}
	var written string
	if err := f.ask(firewalldConfig, "config.getZoneOfInterface", &written, f.link); err != nil || written != "" {
		return unlessGone(err)
	}
	return unlessGone(f.ask(firewalldPath, "zone.removeInterface", &zone, firewalldTrusts, f.link))
}

// unlessGone ignores that firewalld is not running: its rules ended with it.
func unlessGone(err error) error {
	var failed dbus.Error
	if errors.As(err, &failed) && failed.Name == "org.freedesktop.DBus.Error.ServiceUnknown" {
		return nil
	}
	return err
}

func (f firewalld) ask(object dbus.ObjectPath, method string, answer any, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), firewalldAnswers)
	defer cancel()
	bus, err := dbus.ConnectSystemBus(dbus.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("reach the system bus: %w", err)
	}
	defer bus.Close()
	call := bus.Object(firewalldName, object).CallWithContext(ctx, firewalldName+"."+method, dbus.FlagNoAutoStart, args...)
	if err := call.Store(answer); err != nil {
		return fmt.Errorf("firewalld, %s: %w", method, err)
	}
	return nil
}
