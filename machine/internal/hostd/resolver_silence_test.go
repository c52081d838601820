package hostd

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestAResolverIsSilentAfterThreeQuestionsWithoutAnAnswerOneAfterTheOther(t *testing.T) {
	silence := errors.New("no answer")
	answers := []error{silence, silence, nil, silence, silence, nil, silence, silence, silence}
	asked := 0
	err := untilSilent(t.Context(), time.Nanosecond, func() error {
		asked++
		return answers[asked-1]
	})
	if !errors.Is(err, silence) || asked != len(answers) {
		t.Errorf("after %d questions: %v", asked, err)
	}
}

func TestAResolverIsNotSilentWhenHostdEnds(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	asked := 0
	err := untilSilent(ctx, time.Nanosecond, func() error {
		if asked++; asked == resolverSilences {
			end()
		}
		return errors.New("no answer")
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
