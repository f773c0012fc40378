package etf

import "strconv"

// SyntaxError says why a term is not one of Docket's durable events. It
// concerns one term: the terms around it may well be good.
type SyntaxError struct {
	Offset int    // byte of the term where the problem is, at most its length
	Reason string // free of the term's content
}

func (e *SyntaxError) Error() string {
	return "decode event term at byte " + strconv.Itoa(e.Offset) + ": " + e.Reason
}

// VersionError says that a term is an envelope of Docket's codec in a version
// other than 1. It concerns every term that this Docket writes.
type VersionError struct {
	Version string // decimal
	Offset  int    // byte of the term where the version is
}

func (e *VersionError) Error() string {
	return "decode event term at byte " + strconv.Itoa(e.Offset) +
		": docket codec version " + e.Version + " is not known (known: 1), upgrade the exporter"
}
