package browser

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	usualWidth, usualHeight = 1280, 720

	loadersMax = 100 // documents followed in one call, for example by redirects
	// A screenshot needs four bytes of memory a pixel, so its size is limited.
	fullPageHeightMax = 16_384
	fullPagePixelsMax = 40_000_000
)

var lifecycle = map[string]string{"load": "load", "domcontentloaded": "DOMContentLoaded", "networkidle": "networkIdle"}

// page has its own browser context, so calls share no cookies, cache or storage.
type page struct {
	conn             *conn
	context, session string

	mu      sync.Mutex
	loaders []loader // documents of the main frame, oldest first
	frame   string
	crashed bool
	changed chan struct{}
}

type loader struct {
	id    string
	names []string
}

func openPage(ctx context.Context, c *conn) (*page, error) {
	p := &page{conn: c, changed: make(chan struct{}, 1)}
	var made struct {
		BrowserContextID string `json:"browserContextId"`
		TargetID         string `json:"targetId"`
		SessionID        string `json:"sessionId"`
	}
	if err := c.call(ctx, "", "Target.createBrowserContext", values{"disposeOnDetach": true}, &made); err != nil {
		return nil, err
	}
	p.context = made.BrowserContextID
	target := values{"url": "about:blank", "browserContextId": p.context}
	err := c.call(ctx, "", "Target.createTarget", target, &made)
	if err == nil {
		err = c.call(ctx, "", "Target.attachToTarget", values{"targetId": made.TargetID, "flatten": true}, &made)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	p.session, p.frame = made.SessionID, made.TargetID
	c.listen(p.session, p.handleEvent)
	return p, p.prepare()
}

type values map[string]any

// The browser handles messages in order. The settings apply before the navigation, without a wait for their replies.
func (p *page) prepare() error {
	for _, each := range []struct {
		session, method string
		params          values
	}{
		{p.session, "Page.enable", values{}},
		{p.session, "Page.setLifecycleEventsEnabled", values{"enabled": true}},
		{p.session, "Emulation.setDeviceMetricsOverride", metricsOf(usualWidth, usualHeight)},
		{"", "Browser.setDownloadBehavior", values{"behavior": "deny", "browserContextId": p.context}},
	} {
		if _, _, err := p.conn.send(each.session, each.method, each.params); err != nil {
			return err
		}
	}
	return nil
}

// The reply proves that the browser is alive before a URL is visited.
func (p *page) size(ctx context.Context, req wire.BrowserRequest) error {
	return p.conn.call(ctx, p.session, "Emulation.setDeviceMetricsOverride", metricsOf(req.Width, req.Height), nil)
}

func metricsOf(width, height int) values {
	return values{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}
}

func (p *page) close() {
	if p.session != "" {
		p.conn.listen(p.session, nil)
	}
	// The error is ignored: it means that the browser has ended, and the context with it.
	_, _, _ = p.conn.send("", "Target.disposeBrowserContext", values{"browserContextId": p.context})
}

// handleEvent dismisses dialogs, because an open dialog would block the page.
func (p *page) handleEvent(method string, params json.RawMessage) {
	switch method {
	case "Page.lifecycleEvent":
		var e struct {
			FrameID  string `json:"frameId"`
			LoaderID string `json:"loaderId"`
			Name     string `json:"name"`
		}
		if json.Unmarshal(params, &e) == nil && e.FrameID == p.frame {
			p.reached(e.LoaderID, e.Name)
		}
	case "Page.javascriptDialogOpening":
		go func() { _, _, _ = p.conn.send(p.session, "Page.handleJavaScriptDialog", values{"accept": false}) }()
	case "Inspector.targetCrashed", "Inspector.detached":
		p.mu.Lock()
		p.crashed = true
		p.mu.Unlock()
		p.wake()
	}
}

func (p *page) reached(id, name string) {
	p.mu.Lock()
	at := slices.IndexFunc(p.loaders, func(l loader) bool { return l.id == id })
	if at < 0 && len(p.loaders) < loadersMax {
		at = len(p.loaders)
		p.loaders = append(p.loaders, loader{id: id})
	}
	if at >= 0 && !slices.Contains(p.loaders[at].names, name) && len(p.loaders[at].names) < loadersMax {
		p.loaders[at].names = append(p.loaders[at].names, name)
	}
	p.mu.Unlock()
	p.wake()
}

func (p *page) broken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.crashed
}

func (p *page) wake() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

func (p *page) visit(ctx context.Context, req wire.BrowserRequest) error {
	var navigated struct {
		LoaderID  string `json:"loaderId"`
		ErrorText string `json:"errorText"`
	}
	if err := p.conn.call(ctx, p.session, "Page.navigate", values{"url": req.URL}, &navigated); err != nil {
		return err
	}
	if navigated.ErrorText != "" {
		return fail.Conflict("navigation_failed", "The page cannot be reached").With("error", firstWords(navigated.ErrorText))
	}
	for {
		p.mu.Lock()
		done, crashed := p.isLoaded(navigated.LoaderID, lifecycle[req.WaitUntil]), p.crashed
		p.mu.Unlock()
		if crashed {
			return fail.Conflict("browser_failed", "The page crashed, or was ended for want of memory")
		}
		if done {
			return sleep(ctx, time.Duration(req.WaitMS)*time.Millisecond)
		}
		select {
		case <-p.changed:
		case <-p.conn.closed:
			return errors.Join(errClosed, p.conn.cause())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// The requested document may have redirected, so the newest document must have reached the state.
func (p *page) isLoaded(loaderID, name string) bool {
	first := slices.IndexFunc(p.loaders, func(l loader) bool { return l.id == loaderID })
	return first >= 0 && slices.Contains(p.loaders[len(p.loaders)-1].names, name)
}

func sleep(ctx context.Context, pause time.Duration) error {
	if pause <= 0 {
		return nil
	}
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *page) screenshot(ctx context.Context, req wire.BrowserRequest) ([]byte, error) {
	params := values{"format": "png", "optimizeForSpeed": true}
	if req.FullPage {
		clip, err := p.wholePage(ctx)
		if err != nil {
			return nil, err
		}
		params["clip"], params["captureBeyondViewport"] = clip, true
	}
	var shot struct {
		Data string `json:"data"`
	}
	if err := p.conn.call(ctx, p.session, "Page.captureScreenshot", params, &shot); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(shot.Data)
}

func (p *page) wholePage(ctx context.Context) (values, error) {
	var metrics struct {
		Size struct {
			Width  float64 `json:"width"`
			Height float64 `json:"height"`
		} `json:"cssContentSize"`
	}
	if err := p.conn.call(ctx, p.session, "Page.getLayoutMetrics", values{}, &metrics); err != nil {
		return nil, err
	}
	width := min(max(metrics.Size.Width, 1), fullPageHeightMax)
	height := min(max(metrics.Size.Height, 1), fullPageHeightMax, fullPagePixelsMax/width)
	return values{"x": 0, "y": 0, "width": width, "height": height, "scale": 1}, nil
}

var expressions = map[string]string{
	"html": `((d) => (d.doctype ? new XMLSerializer().serializeToString(d.doctype) + "\n" : "") + (d.documentElement?.outerHTML ?? ""))(document)`,
	"text": `document.body?.innerText ?? document.documentElement?.textContent ?? ""`,
}

func (p *page) content(ctx context.Context, format string) ([]byte, error) {
	var got struct {
		Result struct {
			Value string `json:"value"`
		} `json:"result"`
		Exception any `json:"exceptionDetails"`
	}
	expression := values{"expression": expressions[format], "returnByValue": true}
	if err := p.conn.call(ctx, p.session, "Runtime.evaluate", expression, &got); err != nil {
		return nil, err
	}
	if got.Exception != nil {
		return nil, fail.Conflict("browser_failed", "The page does not let itself be read")
	}
	return []byte(strings.ToValidUTF8(got.Result.Value, "\uFFFD")), nil
}

func firstWords(text string) string {
	if len(text) > 200 {
		text = text[:200]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
