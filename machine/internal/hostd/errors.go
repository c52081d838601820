package hostd

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// refusal is an error for the caller. message must not contain paths or keys; cause is only in hostd's log.
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

// because wraps a cause, unless that already has a code. Full disks get their own codes: disk_full for the workspace's
// quota, no_space for the pool.
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
	kind := wire.HostErrors[known.code]
	return kind.Status, wire.HostError{Code: known.code, Message: known.message, Retryable: kind.Retryable, Details: known.details}
}
