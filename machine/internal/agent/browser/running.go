package browser

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/helper"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const program = "/usr/bin/chromium"

// Chromium expects its pipes on descriptors 3 and 4. Browser contexts are in memory, so the directory holds no page
// data.
const launch = `dir="/tmp/.browser-$(id -u)"; rm -rf "$dir"; mkdir -m 700 "$dir" || exit 1
exec ` + program + ` "--user-data-dir=$dir" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1`

// about:blank is a page that remains open, so that the browser does not exit when the last other page closes.
var flags = []string{
	"--headless", "--remote-debugging-pipe",
	"--no-sandbox", // the machine is the sandbox; inside, its kernel offers no sandbox to Chromium
	"--disable-dev-shm-usage",
	"--disable-gpu", "--in-process-gpu", "--hide-scrollbars", "--mute-audio", "--no-first-run", "--no-default-browser-check",
	"--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-sync",
	"--disable-domain-reliability", "--disable-breakpad", "--disable-client-side-phishing-detection", "--disable-hang-monitor",
	"--disable-prompt-on-repost", "--metrics-recording-only", "--no-pings", "--password-store=basic",
	"--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding", "--disable-background-timer-throttling",
	"--disable-features=Translate,MediaRouter,OptimizationHints,AutofillServerCommunication,DialMediaRouteProvider," +
		"SpareRendererForSitePerProcess,PaintHolding,PreloadTopChromeWebUI,PreloadTopChromeWebUILessNavigations",
	"--force-color-profile=srgb", "--window-size=1280,720", "about:blank",
}

type running struct {
	process *helper.Process
	conn    *conn
	pages   int // opened in total
	open    int
	retired bool // no new pages; the browser stops with its last page
	idle    *time.Timer
	spare   chan *page    // one empty page, opened ahead of the next call
	opening chan struct{} // semaphore: one page is opened at a time
}

func (r *running) stop(why error) {
	r.conn.close(why) // the browser exits when its pipe closes
	r.process.Stop()
}

func (b *Browser) start(user string, env map[string]string) (*running, error) {
	if err := b.installed(); err != nil {
		return nil, err
	}
	var toBrowser, fromBrowser [2]int
	if err := unix.Pipe2(toBrowser[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	if err := unix.Pipe2(fromBrowser[:], unix.O_CLOEXEC); err != nil {
		unix.Close(toBrowser[0])
		unix.Close(toBrowser[1])
		return nil, err
	}
	command := helper.Command{User: user, Argv: append([]string{"/bin/sh", "-c", launch, "sh"}, flags...), Env: env, Cwd: "/"}
	process, err := b.runner.Start(command, toBrowser[0], fromBrowser[1], fromBrowser[1])
	unix.Close(toBrowser[0])
	unix.Close(fromBrowser[1])
	out, in := own(toBrowser[1]), own(fromBrowser[0])
	if err != nil {
		out.Close()
		in.Close()
		return nil, err
	}
	return &running{process: process, conn: newConn(out, in), spare: make(chan *page, 1), opening: make(chan struct{}, 1)}, nil
}

func own(fd int) *os.File {
	_ = unix.SetNonblock(fd, true) // a read of a blocking descriptor would hold a thread, and Close would wait for the read
	return os.NewFile(uintptr(fd), "browser")
}

func (b *Browser) installed() error {
	root, err := b.guest.Root()
	if err != nil {
		return err
	}
	defer root.Release()
	fd, err := root.Open(program, unix.O_PATH, 0)
	if err != nil {
		return fail.Conflict("guest_feature_unavailable", "The workspace's template has no browser").With("feature", "browser")
	}
	return unix.Close(fd)
}

func (r *running) sized(ctx context.Context, req wire.BrowserRequest) (*page, error) {
	p, err := r.take(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.size(ctx, req); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// take waits while another page is opened, then uses the spare page: opening two pages at once would delay both.
func (r *running) take(ctx context.Context) (*page, error) {
	if p := r.takeSpare(); p != nil {
		return p, nil
	}
	select {
	case r.opening <- struct{}{}:
		defer func() { <-r.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p := r.takeSpare(); p != nil {
		return p, nil
	}
	return openPage(ctx, r.conn)
}

func (r *running) takeSpare() *page {
	select {
	case p := <-r.spare:
		if !p.broken() {
			return p
		}
		p.close()
	default:
	}
	return nil
}

// refill opens the spare page in advance, because opening a page takes half of a call's time.
func (r *running) refill() {
	select {
	case r.opening <- struct{}{}:
		defer func() { <-r.opening }()
	default:
		return // another goroutine is opening a page
	}
	if len(r.spare) > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), openMax)
	defer cancel()
	if p, err := openPage(ctx, r.conn); err == nil {
		r.spare <- p // does not block: the semaphore is held, and spare was empty
	} // on error the next call reports the cause
}

func (r *running) alive() bool {
	select {
	case <-r.conn.closed:
		return false
	case <-r.process.Ended:
		return false
	default:
		return true
	}
}
