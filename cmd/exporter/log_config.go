package main

import (
	"fmt"
	"log/slog"
)

const (
	logJSON = "json"
	logText = "text"
)

// LogConfig is how much is logged to stderr, and in which form.
type LogConfig struct {
	Level  LogLevel  `env:"LOG_LEVEL" envDefault:"info" desc:"Least level that is logged: debug, info, warn or error."`
	Format LogFormat `env:"LOG_FORMAT" docDefault:"text on a terminal, else json" desc:"Form of the log: json or text."`
}

// LogLevel is a slog level that is read by its name.
type LogLevel slog.Level

// Level returns the slog level.
func (l LogLevel) Level() slog.Level { return slog.Level(l) }

// UnmarshalText reads debug, info, warn or error.
func (l *LogLevel) UnmarshalText(text []byte) error {
	var level slog.Level
	if err := level.UnmarshalText(text); err != nil {
		return fmt.Errorf("%q is not a log level; write debug, info, warn or error", text)
	}
	*l = LogLevel(level)
	return nil
}

// LogFormat is json or text; empty means what suits the reader.
type LogFormat string

// UnmarshalText reads json or text.
func (f *LogFormat) UnmarshalText(text []byte) error {
	switch LogFormat(text) {
	case logJSON, logText:
		*f = LogFormat(text)
		return nil
	}
	return fmt.Errorf("%q is not a log format; write json or text", text)
}
