package wire

// GitRequest is what every call has: where, how long at most, and the environment below the agent's own settings.
type GitRequest struct {
	Path      string            `json:"path"`
	Env       map[string]string `json:"env,omitempty"`
	TimeoutMS int64             `json:"timeout_ms"`
}

// GitCloneRequest. Authorization is the value of the HTTP header of that name; it reaches git by its environment alone and is sent
// to no other host than the URL's.
type GitCloneRequest struct {
	GitRequest
	URL           string `json:"url"`
	Branch        string `json:"branch,omitempty"`
	Depth         int    `json:"depth,omitempty"`
	Authorization string `json:"authorization,omitempty"`
}

// GitHead is where a repository stands. Branch is null when HEAD is detached, Commit before the first commit.
type GitHead struct {
	Path   string  `json:"path"`
	Branch *string `json:"branch"`
	Commit *string `json:"commit"`
}

// GitFile is one path that is not as HEAD has it, by index and by working tree.
type GitFile struct {
	Path        string  `json:"path"`
	Index       string  `json:"index"`
	Worktree    string  `json:"worktree"`
	RenamedFrom *string `json:"renamed_from"`
	Conflicted  bool    `json:"conflicted"`
}

// GitStatus: paths are relative to Root, the top of the working tree.
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

// GitFilesMax is how many files a status tells at most.
const GitFilesMax = 10_000

// GitAuthor is author and committer.
type GitAuthor struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// GitCommitRequest adds Paths (relative to Path; none: everything that changed) and commits what is in the index then.
type GitCommitRequest struct {
	GitRequest
	Message string     `json:"message"`
	Paths   []string   `json:"paths,omitempty"`
	Author  *GitAuthor `json:"author,omitempty"`
}
