package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
)

// repeatAfter is when the reason why a consumer does not run is logged again.
const repeatAfter = time.Minute

// repeatPauseAfter is the same of a pause, which a person has decided about or
// was told of by an alert.
const repeatPauseAfter = 10 * time.Minute

// remark is what was logged last, so that it is not said again at every try.
type remark struct {
	text string
	at   time.Time
}

// ownPause stands for a pause of our own, which is logged when it is made.
const ownPause = "paused: a person is needed"

// judge logs why a turn ended, once a minute for each reason and a pause every
// ten, and says how long to wait.
func (s *supervisor) judge(err error, backoff *exporter.Backoff, said *remark) time.Duration {
	var owned *cursor.OwnedError
	var paused *cursor.PausedError
	var pause *exporter.PauseError
	var panicked *exporter.PanicError
	wait, level, what := backoff.Next(), slog.LevelWarn, "starting the consumer again"
	args := []any{"err", err}
	repeat, text := repeatAfter, ""
	switch {
	case errors.As(err, &panicked):
		s.metrics.Panicked()
		level, what = slog.LevelError, "panic in the consumer; starting it again"
		args = append(args, "stack", string(panicked.Stack))
	case errors.Is(err, errYielded), errors.Is(err, errGaveUp):
		wait, level, what, args = claimInterval, slog.LevelInfo, "standing by", []any{"because", err}
	case errors.Is(err, cursor.ErrNotFound):
		wait, level, what = pauseInterval, slog.LevelError, "the consumer does not exist any more and does not run: it was removed or renamed"
		args = []any{"then", "take it out of EXPORTER_CONSUMERS, or name the new one there, and restart; a restart as it is creates it anew at its START"}
	case errors.As(err, &owned):
		wait, level, what = claimInterval, slog.LevelInfo, "standing by"
		args = []any{"owner", owned.Owner}
		if owned.Owner == s.config.Exporter.Replica {
			level, what = slog.LevelError, "standing by for another process of the same name; give each an EXPORTER_REPLICA of its own"
		}
	case errors.As(err, &paused):
		wait, what = pauseInterval, "paused"
		args = []any{"reason", paused.Reason, "detail", paused.Detail, "by", paused.By}
		repeat, text = repeatPauseAfter, paused.At.String()
		if paused.By == s.config.Exporter.Replica {
			text = ownPause
		}
	case errors.As(err, &pause):
		*said = remark{ownPause, time.Now()}
		return pauseInterval
	case errors.Is(err, exporter.ErrFenced):
		wait, what = claimInterval, "no longer the owner of the consumer"
	}
	if panicked == nil {
		wait = min(wait, mostPatience)
	}
	text = cmp.Or(text, fmt.Sprint(what, args))
	if text != said.text || panicked != nil || time.Since(said.at) > repeat {
		*said = remark{text, time.Now()}
		s.log.Log(context.Background(), level, what, args...)
	}
	return wait
}

// onceError gives a paused consumer the exit code of one.
func onceError(consumer string, err error) error {
	if _, paused := errors.AsType[*cursor.PausedError](err); paused {
		return needsPerson(err) // which names the consumer, as the next does
	}
	if _, owned := errors.AsType[*cursor.OwnedError](err); owned {
		return err
	}
	return fmt.Errorf("consumer %s: %w", consumer, err)
}
