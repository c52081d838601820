package wire

// GitRequest is part of every call. The agent's settings override Env.
type GitRequest struct {
	Path      string            `json:"path"`
	Env       map[string]string `json:"env,omitempty"`
	TimeoutMS int64             `json:"timeout_ms"`
}

// GitCloneRequest passes Authorization, the header's value, through git's environment only, for the URL's host only.
type GitCloneRequest struct {
	GitRequest
	URL           string `json:"url"`
	Branch        string `json:"branch,omitempty"`
	Depth         int    `json:"depth,omitempty"`
	Authorization string `json:"authorization,omitempty"`
}

// GitHead has a null Branch if HEAD is detached, a null Commit before the first.
type GitHead struct {
	Path   string  `json:"path"`
	Branch *string `json:"branch"`
	Commit *string `json:"commit"`
}

// GitFile differs from HEAD in index or working tree.
type GitFile struct {
	Path        string  `json:"path"`
	Index       string  `json:"index"`
	Worktree    string  `json:"worktree"`
	RenamedFrom *string `json:"renamed_from"`
	Conflicted  bool    `json:"conflicted"`
}

// GitStatus has paths relative to Root, the working tree's top.
type GitStatus struct {
	Root      string    `json:"root"`
	Branch    *string   `json:"branch"`
	Head      *string   `json:"head"`
	Upstream  *string   `json:"upstream"`
	Ahead     *int      `json:"ahead"`
	Behind    *int      `json:"behind"`
	Clean     bool      `json:"clean"`
	Files     []GitFile `json:"files"`
	Truncated bool      `json:"truncated"`
}

// GitFilesMax bounds a status.
const GitFilesMax = 10_000

type GitAuthor struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// GitCommitRequest adds Paths (relative to Path; empty: all changes) and commits the index.
type GitCommitRequest struct {
	GitRequest
	Message string     `json:"message"`
	Paths   []string   `json:"paths,omitempty"`
	Author  *GitAuthor `json:"author,omitempty"`
}
