package wire

// BrowserRequest is one page: where it is, how large the window is, what is waited for, and how long at most.
type BrowserRequest struct {
	URL       string            `json:"url"`
	Width     int               `json:"width"`
	Height    int               `json:"height"`
	WaitUntil string            `json:"wait_until"` // load, domcontentloaded, networkidle
	WaitMS    int64             `json:"wait_ms,omitempty"`
	TimeoutMS int64             `json:"timeout_ms"`
	Env       map[string]string `json:"env,omitempty"`       // of the browser, where it has yet to be started
	FullPage  bool              `json:"full_page,omitempty"` // of a screenshot
	Format    string            `json:"format,omitempty"`    // of content: html, text
}

// BrowserBytesMax is how large a picture or a page may be.
const BrowserBytesMax = 16 << 20
