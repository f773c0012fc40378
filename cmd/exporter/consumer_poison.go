package main

import (
	"fmt"
	"strconv"
)

// PoisonPolicy is what happens to the later events of a run when one of it
// becomes a dead letter.
type PoisonPolicy string

// The policies that exist.
const (
	PoisonDeadLetter PoisonPolicy = "dead_letter" // they are delivered
	PoisonHoldRun    PoisonPolicy = "hold_run"    // they wait in dead letters of their own
)

// UnmarshalText reads the name of a policy that exists.
func (p *PoisonPolicy) UnmarshalText(text []byte) error {
	switch PoisonPolicy(text) {
	case PoisonDeadLetter, PoisonHoldRun:
		*p = PoisonPolicy(text)
		return nil
	}
	return fmt.Errorf("%q is not a policy; write %s or %s", text, PoisonDeadLetter, PoisonHoldRun)
}

// Limit is a number of things, or off. The zero value is off.
type Limit int

// UnmarshalText reads a whole number, or off.
func (l *Limit) UnmarshalText(text []byte) error {
	if string(text) == "off" {
		*l = 0
		return nil
	}
	n, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is not a limit; write a whole number, or off (or 0) for none", text)
	}
	*l = Limit(n)
	return nil
}
