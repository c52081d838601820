package wire

// BrowserRequest describes one page.
type BrowserRequest struct {
	URL       string            `json:"url"`
	Width     int               `json:"width"`
	Height    int               `json:"height"`
	WaitUntil string            `json:"wait_until"` // load, domcontentloaded, networkidle
	WaitMS    int64             `json:"wait_ms,omitempty"`
	TimeoutMS int64             `json:"timeout_ms"`
	Env       map[string]string `json:"env,omitempty"` // of the browser, if it has yet to be started
	FullPage  bool              `json:"full_page,omitempty"`
	Format    string            `json:"format,omitempty"` // of content: html, text
}

const BrowserBytesMax = 16 << 20
