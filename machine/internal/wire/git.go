package wire

// GitRequest holds the common parameters: the repository's path, the environment below the agent's own settings, and the time limit.
type GitRequest struct {
	Path      string            `json:"path"`
	Env       map[string]string `json:"env,omitempty"`
	TimeoutMS int64             `json:"timeout_ms"`
}

// GitCloneRequest clones a repository. Authorization is the value of that HTTP header; git gets it through its environment only and sends
// it only to the URL's host.
type GitCloneRequest struct {
	GitRequest
	URL           string `json:"url"`
	Branch        string `json:"branch,omitempty"`
	Depth         int    `json:"depth,omitempty"`
	Authorization string `json:"authorization,omitempty"`
}

// GitHead is the state of a repository. Branch is null if HEAD is detached, Commit before the first commit.
type GitHead struct {
	Path   string  `json:"path"`
	Branch *string `json:"branch"`
	Commit *string `json:"commit"`
}

// GitFile is one path that differs from HEAD, in index and working tree.
type GitFile struct {
	Path        string  `json:"path"`
	Index       string  `json:"index"`
	Worktree    string  `json:"worktree"`
	RenamedFrom *string `json:"renamed_from"`
	Conflicted  bool    `json:"conflicted"`
}

// GitStatus is the state of a working tree. Paths are relative to Root, its top.
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

// GitFilesMax bounds the files of a status.
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
