package main

import "testing"

// The line of time ends at the newest event, and begins beyond the horizon or
// the cursor, whichever is older.
func TestPageBar(t *testing.T) {
	day, none := 86400.0, retentionReport{None: true}
	told := retentionReport{Told: &day}
	for _, x := range []struct {
		name string
		age  *float64
		kept retentionReport
		want bar
	}{
		{"caught up", new(0.0), told, bar{Known: true, Horizon: "4.76%", Cursor: "100.00%", Waiting: "0.00%"}},
		{"a little", new(1.0), told, bar{Known: true, Horizon: "4.76%", Cursor: "99.30%", Waiting: "0.70%"}},
		{"half way", new(day / 2), told, bar{Known: true, Horizon: "4.76%", Cursor: "52.38%", Waiting: "47.62%"}},
		{"late", new(2 * day), told, bar{Known: true, Horizon: "52.38%", Cursor: "4.76%", Waiting: "95.24%", Late: "47.62%"}},
		{"unknown", nil, told, bar{}},
		{"kept for ever", new(60.0), none, bar{Known: true, Cursor: "4.76%", Waiting: "95.24%"}},
	} {
		got := barOf(&consumerReport{LagSeconds: x.age}, x.kept)
		if got.Label == "" {
			t.Errorf("%s: no label", x.name)
		}
		got.Label, got.Left, got.Right = "", "", ""
		if got != x.want {
			t.Errorf("%s: got %+v, want %+v", x.name, got, x.want)
		}
	}
}
