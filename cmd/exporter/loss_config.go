package main

import (
	"fmt"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sources/docket"
)

// LossPolicy is what a consumer does once events may be lost.
type LossPolicy string

// The policies that exist.
const (
	LossContinue LossPolicy = "continue" // it goes on; the record stays open until a person accepts it
	LossHalt     LossPolicy = "halt"     // it pauses before anything behind the gap is delivered
)

// UnmarshalText reads the name of a policy that exists.
func (p *LossPolicy) UnmarshalText(text []byte) error {
	switch v := LossPolicy(text); v {
	case LossContinue, LossHalt:
		*p = v
		return nil
	}
	return fmt.Errorf("%q is not a policy; write %s or %s", text, LossContinue, LossHalt)
}

// lossRule says which dropped ids are a loss for the consumer.
func (s *supervisor) lossRule(state exporter.State) docket.LossRule {
	return docket.LossRule{
		Effective: s.policy.effective, ReadAt: state.ReadAt, HoleAge: state.HoleAge, Wait: s.consumer.OnLoss == LossHalt,
	}
}
