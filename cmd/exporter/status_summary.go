package main

import "fmt"

// conditionOrder is of the conditions, the worst first.
var conditionOrder = [...]condition{conditionLoss, conditionPaused, conditionUnowned, conditionStuck, conditionNearLoss, conditionUnknown, conditionBehind, conditionEmpty, conditionHealthy, conditionFinished, conditionCancelled}

// worst is the condition of the consumer that fares worst, uncertain where
// nothing is known, and fresh where there is none.
func (r *statusReport) worst() condition {
	if r.Unknown != nil {
		return conditionUnknown
	}
	if len(r.Consumers)+len(r.Backfills) == 0 {
		return conditionEmpty
	}
	for _, c := range conditionOrder {
		if r.count(func(other condition) bool { return other == c }) > 0 {
			return c
		}
	}
	return conditionHealthy
}

// count is how many consumers and backfills fare in one of some ways.
func (r *statusReport) count(of func(condition) bool) (n int) {
	for _, list := range [][]consumerReport{r.Consumers, r.Backfills} {
		for i := range list {
			if of(list[i].Condition) {
				n++
			}
		}
	}
	return n
}

// summary is the whole in one sentence.
func (r *statusReport) summary() string {
	total := len(r.Consumers) + len(r.Backfills)
	some := func(n int, one, more string) string {
		switch {
		case total == 1:
			return "The consumer " + one
		case n == 1:
			return fmt.Sprintf("1 of %d consumers %s", total, one)
		case n == total:
			return fmt.Sprintf("All %d consumers %s", total, more)
		default:
			return fmt.Sprintf("%d of %d consumers %s", n, total, more)
		}
	}
	of := func(c condition) int { return r.count(func(other condition) bool { return other == c }) }
	switch {
	case r.Unknown != nil:
		return "The state is unknown"
	case len(r.Findings) > 0:
		return "The " + r.Findings[0].Subject + " needs a look"
	case total == 0:
		return "No consumer has a cursor yet"
	}
	if n := r.count(condition.troubled); n > 0 {
		return some(n, "needs a look", "need a look")
	}
	if n := of(conditionUnknown); n > 0 {
		return some(n, "runs, how far behind is unknown", "run, how far behind is unknown")
	}
	if n := of(conditionBehind); n > 0 {
		return some(n, "is behind", "are behind")
	}
	if of(conditionEmpty) == total {
		return some(total, "has nothing to deliver yet", "have nothing to deliver yet")
	}
	return some(total, "is caught up", "are caught up")
}
