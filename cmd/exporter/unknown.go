package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// rejectUnknown reports every EXPORTER_ or CONSUMER_ variable that nothing
// reads, and every other variable that is a misspelt one of ours: a typo must
// not silently leave a default in force.
func rejectUnknown(environ map[string]string, consumers []string, ps *problems) {
	known := globalVariables()
	rejectMisspelt(environ, known, ps)
	global := spellings("", known)
	for _, name := range sortedNames(environ) {
		switch {
		case slices.Contains(global, name) || isServiceLink(name, environ[name]):
		case strings.HasPrefix(name, "EXPORTER_"):
			ps.add(name, "is not known%s", suggestion(name, global))
		case strings.HasPrefix(name, "CONSUMER_"):
			rejectUnknownOfConsumer(name, consumers, ps)
		}
	}
}

func rejectUnknownOfConsumer(name string, consumers []string, ps *problems) {
	vs := consumerVariables()
	owner := ownerOf(name, consumers)
	if owner == "" {
		if len(consumers) == 0 {
			return // that EXPORTER_CONSUMERS is missing is reported already
		}
		if left := leftOver(name, vs); left != "" {
			var likely []string
			for _, c := range consumers {
				likely = append(likely, consumerPrefix(c)+strings.TrimPrefix(name, consumerPrefix(left)))
			}
			if near := nearest(name, likely); near != "" {
				ps.add(name, "belongs to no consumer: %s is not in EXPORTER_CONSUMERS; did you mean %s?", left, near)
			} else {
				ps.add(name, "belongs to no consumer: %s is not in EXPORTER_CONSUMERS; name it there, or unset the variable", left)
			}
			return
		}
		var all []string
		for _, c := range consumers {
			all = append(all, spellings(consumerPrefix(c), vs)...)
		}
		ps.add(name, "belongs to no consumer in EXPORTER_CONSUMERS%s", suggestion(name, all))
		return
	}
	own := spellings(consumerPrefix(owner), vs)
	switch left := leftOver(name, vs); {
	case slices.Contains(own, name):
	case left != "":
		ps.add(name, "is not known for the consumer %s, and %s is not in EXPORTER_CONSUMERS; name it there, or unset the variable", owner, left)
	default:
		ps.add(name, "is not known for the consumer %s%s", owner, suggestion(name, own))
	}
}

// leftOver returns the consumer that a variable with a known end was made for,
// "" when the end is not known.
func leftOver(name string, vs []variable) string {
	best := ""
	for _, end := range spellings("", vs) {
		middle, ok := strings.CutSuffix(strings.TrimPrefix(name, "CONSUMER_"), "_"+end)
		if consumer := strings.ToLower(middle); ok && consumerName.MatchString(consumer) && (best == "" || len(consumer) < len(best)) {
			best = consumer // the longest end: FEED_FILE_DIR is the FILE_DIR of feed
		}
	}
	return best
}

// ownerOf returns the consumer whose variable it is: with the consumers feed
// and feed_eu, CONSUMER_FEED_EU_SINK belongs to feed_eu.
func ownerOf(name string, consumers []string) string {
	longest := ""
	for _, c := range consumers {
		if strings.HasPrefix(name, consumerPrefix(c)) && len(c) > len(longest) {
			longest = c
		}
	}
	return longest
}

// rejectMisspelt reports variables that are nearly one of known. Their
// prefixes are shared with other programs, Docket's own among them, so one
// that resembles nothing is left alone.
func rejectMisspelt(environ map[string]string, known []variable, ps *problems) {
	names := spellings("", known)
	all := spellings("", globalVariables())
	for _, name := range sortedNames(environ) {
		if slices.Contains(all, name) || !sharedPrefix.MatchString(name) || isServiceLink(name, environ[name]) {
			continue
		}
		if near := nearest(name, names); near != "" && environ[near] == "" {
			ps.add(name, "is not known; did you mean %s?", near)
		}
	}
}

var sharedPrefix = regexp.MustCompile(`^(DOCKET|EXPORT|RETENTION|LOG)_`)

// serviceLinks are the names that Kubernetes gives to every container for
// every service of its namespace.
var serviceLinks = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)

var serviceAddress = regexp.MustCompile(`^(tcp|udp|sctp)://`)

func isServiceLink(name, value string) bool {
	return serviceLinks.MatchString(name) ||
		strings.HasSuffix(name, "_PORT") && serviceAddress.MatchString(value)
}

func suggestion(name string, known []string) string {
	if near := nearest(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return "; see docs/configuration.md for all names, or unset it"
}

func sortedNames(environ map[string]string) []string {
	return slices.Sorted(maps.Keys(environ))
}
