package main

import (
	"regexp"
	"strings"
)

// command is the command line that goes on with it in the foreground.
func (s *backfillSpec) command(name string) string {
	line := "exporter"
	add := func(flag, value string) {
		if value != "" {
			line += " --" + flag + " " + shellWord(value)
		}
	}
	run, replay := s.replayed()
	if replay {
		line += " replay"
		add("run", run)
	} else {
		line += " backfill"
	}
	add("consumer", s.Consumer)
	if !replay {
		add("from", s.From)
		add("to", s.To)
		add("runs", strings.Join(exactly(s.Runs), ","))
		add("types", strings.Join(s.Types, ","))
		add("tenants", strings.Join(s.Tenants, ","))
		add("graphs", strings.Join(s.Graphs, ","))
	}
	add("rate", s.Rate.String())
	if lag := secondsOf(s.LiveLag); lag != defaultLiveLag {
		add("max-live-lag", lag.String())
	}
	if lag := secondsOf(s.ReplicaLag); lag != defaultReplicaLag {
		add("max-replica-lag", lag.String())
	}
	if replay {
		return line + " --reason TEXT"
	}
	add("name", name)
	return line
}

// replayed is the run that was to be replayed: a whole id that --runs cannot ask
// for, which takes it as a pattern unless it begins with the sign itself.
func (s *backfillSpec) replayed() (run string, ok bool) {
	if len(s.Runs) != 1 {
		return "", false
	}
	run, ok = strings.CutPrefix(s.Runs[0], "=")
	return run, ok && !strings.HasPrefix(run, "=")
}

// shellWord is a text as a shell takes it for one word.
func shellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)
