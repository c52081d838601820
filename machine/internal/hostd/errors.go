package hostd

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// retryable: the same call may succeed later.
var codes = map[string]struct {
	status    int
	retryable bool
}{
	"bad_request":             {http.StatusBadRequest, false},
	"not_found":               {http.StatusNotFound, false},
	"fenced":                  {http.StatusConflict, false},
	"not_running":             {http.StatusConflict, false},
	"already_running":         {http.StatusConflict, false},
	"tree_stale":              {http.StatusConflict, false},
	"volume_busy":             {http.StatusConflict, true},
	"mount_refused":           {http.StatusUnprocessableEntity, false},
	"no_space":                {http.StatusInsufficientStorage, true},
	"disk_full":               {http.StatusInsufficientStorage, false},
	"checkpoint_failed":       {http.StatusInternalServerError, true},
	"checkpoint_corrupt":      {http.StatusUnprocessableEntity, false},
	"checkpoint_incompatible": {http.StatusUnprocessableEntity, false},
	"restore_failed":          {http.StatusInternalServerError, true},
	"layer_refused":           {http.StatusUnprocessableEntity, false},
	"layer_missing":           {http.StatusNotFound, false},
	"wrong_installation":      {http.StatusConflict, false},
	"invalid_resources":       {http.StatusUnprocessableEntity, false},
	"no_capacity":             {http.StatusServiceUnavailable, true},
	"start_failed":            {http.StatusInternalServerError, true},
	"internal":                {http.StatusInternalServerError, true},
}

// The cause goes to hostd's log only; the message must not contain paths or keys.
type refusal struct {
	code    string
	message string
	cause   error
	details map[string]any
}

func (r *refusal) Error() string {
	if r.cause == nil {
		return r.code + ": " + r.message
	}
	return fmt.Sprintf("%s: %s: %v", r.code, r.message, r.cause)
}

func (r *refusal) Unwrap() error { return r.cause }

func refuse(code, message string) error { return &refusal{code: code, message: message} }

// because keeps an existing code. Full disks have their own: disk_full for the workspace's quota, no_space for the
// pool.
func because(code, message string, cause error) error {
	var known *refusal
	if cause == nil || errors.As(cause, &known) {
		return cause
	}
	if errors.Is(cause, unix.EDQUOT) {
		return &refusal{code: "disk_full", message: "There is no room left for this within the workspace's own disk", cause: cause}
	}
	if errors.Is(cause, unix.ENOSPC) {
		return &refusal{code: "no_space", message: "There is no space left for this on the disk pool", cause: cause}
	}
	return &refusal{code: code, message: message, cause: cause}
}

func hostError(err error) (int, wire.HostError) {
	var known *refusal
	if !errors.As(err, &known) {
		message := "hostd failed"
		if errors.Is(err, context.DeadlineExceeded) {
			message = "This took too long"
		}
		known = &refusal{code: "internal", message: message}
	}
	kind := codes[known.code]
	return kind.status, wire.HostError{Code: known.code, Message: known.message, Retryable: kind.retryable, Details: known.details}
}
