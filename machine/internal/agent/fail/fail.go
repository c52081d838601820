// Package fail defines the agent's errors.
package fail

import (
	"errors"
	"fmt"
	"net/http"
	"syscall"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// Error is a refusal of the gateway's error table: a status, a code and a reason.
type Error struct {
	Status int
	wire.AgentError
}

func (e *Error) Error() string { return e.Code + "/" + e.Reason + ": " + e.Message }

func refuse(status int, code, reason, message string) *Error {
	return &Error{Status: status, AgentError: wire.AgentError{Code: code, Reason: reason, Message: message}}
}

func BadRequest(reason, message string) *Error {
	return refuse(http.StatusBadRequest, "bad_request", reason, message)
}

func Unauthenticated(message string) *Error {
	return refuse(http.StatusUnauthorized, "unauthenticated", "", message)
}

func NotFound(reason, message string) *Error {
	return refuse(http.StatusNotFound, "not_found", reason, message)
}

func Conflict(reason, message string) *Error {
	return refuse(http.StatusConflict, "conflict", reason, message)
}

func Invalid(reason, message string) *Error {
	return refuse(http.StatusUnprocessableEntity, "validation_failed", reason, message)
}

func RateLimited(reason, message string) *Error {
	return refuse(http.StatusTooManyRequests, "rate_limited", reason, message)
}

func Internal(message string) *Error {
	return refuse(http.StatusInternalServerError, "internal_error", "", message)
}

func Timeout(message string) *Error {
	return refuse(http.StatusGatewayTimeout, "timeout", "", message)
}

// TooLarge is a 413 with details.max_bytes.
func TooLarge(message string, maxBytes int64) *Error {
	return refuse(http.StatusRequestEntityTooLarge, "payload_too_large", "", message).With("max_bytes", maxBytes)
}

// RangeNotSatisfiable is a 416 with details.size.
func RangeNotSatisfiable(sizeBytes int64) *Error {
	return refuse(http.StatusRequestedRangeNotSatisfiable, "range_not_satisfiable", "", "The range starts past the end of the file").
		With("size", sizeBytes)
}

func (e *Error) With(name string, value any) *Error {
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details[name] = value
	return e
}

// From reports an exhausted disk or resource as a limit of the workspace, and every other unknown error as a failure
// of the agent.
func From(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.ENOSPC) {
		return RateLimited("disk_full", "The workspace's disk is full")
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) {
		return RateLimited("resource_limit", "The workspace is at a resource limit")
	}
	return Internal(fmt.Sprintf("Unexpected failure in the machine: %v", err))
}
