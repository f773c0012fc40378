package exporter

// Level says how much a finding matters.
type Level string

// Levels of a finding.
const (
	LevelOK   Level = "ok"
	LevelWarn Level = "warn" // it works; a person should know
	LevelFail Level = "fail" // it would fail, stop, or lose events
)

// Finding is one thing that a check of a source or a sink has looked at.
type Finding struct {
	Level Level
	Text  string // what was seen
	Hint  string // what to do; empty when there is nothing
}
