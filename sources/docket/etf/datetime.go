package etf

import (
	"strconv"
	"time"
)

const dateTimeFields = "calendar day hour microsecond minute month second std_offset time_zone utc_offset year zone_abbr"

// dateTime validates an Elixir DateTime and appends its text, that of Elixir's
// DateTime.to_iso8601, to s.text. It returns what is wrong, or "".
func (s *scanner) dateTime(keys []key) string {
	if !s.exactly(keys, dateTimeFields) {
		return "DateTime has other fields than Elixir's"
	}
	if calendar := int(s.field(keys, "calendar").end); !isAtom(s.src[calendar]) ||
		string(atomAt(s.src, calendar).text) != "Elixir.Calendar.ISO" {
		return "DateTime is not in the ISO calendar"
	}
	zone, zoned := s.binaryField(keys, "time_zone")
	if _, ok := s.binaryField(keys, "zone_abbr"); !ok || !zoned {
		return "DateTime has no time zone"
	}
	dated := s.smallField(keys, "year", -9999, 9999) && s.smallField(keys, "month", 1, 12)
	if !dated || !s.smallField(keys, "day", 1, s.daysInMonth(keys)) {
		return "DateTime has no valid date"
	}
	micro, precision, ok := s.microsecond(keys)
	if !ok || !s.smallField(keys, "hour", 0, 23) || !s.smallField(keys, "minute", 0, 59) || !s.smallField(keys, "second", 0, 59) {
		return "DateTime has no valid time"
	}
	// Elixir sets no bound; this one keeps the sum from overflowing.
	const far = 1 << 40
	if !s.smallField(keys, "utc_offset", -far, far) || !s.smallField(keys, "std_offset", -far, far) {
		return "DateTime has no valid offset"
	}
	utc, std := s.number(keys, "utc_offset"), s.number(keys, "std_offset")

	s.text = s.appendDate(s.text, keys)
	s.text = s.appendTime(s.text, keys)
	if precision > 0 {
		var scratch [8]byte
		digits := appendPadded(scratch[:0], micro, 6)
		s.text = append(append(s.text, '.'), digits[:precision]...)
	}
	if utc == 0 && std == 0 && string(zone) == "Etc/UTC" {
		s.text = append(s.text, 'Z')
	} else {
		s.text = appendOffset(s.text, utc+std)
	}
	return ""
}

func (s *scanner) appendDate(dst []byte, keys []key) []byte {
	dst = appendPadded(dst, s.number(keys, "year"), 4)
	dst = appendPadded(append(dst, '-'), s.number(keys, "month"), 2)
	return appendPadded(append(dst, '-'), s.number(keys, "day"), 2)
}

func (s *scanner) appendTime(dst []byte, keys []key) []byte {
	dst = appendPadded(append(dst, 'T'), s.number(keys, "hour"), 2)
	dst = appendPadded(append(dst, ':'), s.number(keys, "minute"), 2)
	return appendPadded(append(dst, ':'), s.number(keys, "second"), 2)
}

// appendOffset appends an offset given in seconds; like Elixir it leaves out
// the seconds beyond the minute.
func appendOffset(dst []byte, seconds int64) []byte {
	mark := byte('+')
	if seconds < 0 {
		mark, seconds = '-', -seconds
	}
	dst = appendPadded(append(dst, mark), seconds/3600, 2)
	return appendPadded(append(dst, ':'), seconds%3600/60, 2)
}

// appendPadded appends a number with at least width digits.
func appendPadded(dst []byte, n int64, width int) []byte {
	if n < 0 {
		dst, n = append(dst, '-'), -n
	}
	for limit := int64(10); width > 1; width-- {
		if n < limit {
			dst = zeros(dst, width-1)
			break
		}
		limit *= 10
	}
	return strconv.AppendInt(dst, n, 10)
}

func (s *scanner) daysInMonth(keys []key) int64 {
	year, month := int(s.number(keys, "year")), time.Month(s.number(keys, "month"))
	return int64(time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day())
}

// microsecond returns the parts of the microsecond field, {value, precision}.
func (s *scanner) microsecond(keys []key) (micro, precision int64, ok bool) {
	at := int(s.field(keys, "microsecond").end)
	first := at + 2
	switch {
	case s.src[at] == tagSmallTuple && s.src[at+1] == 2:
	case s.src[at] == tagLargeTuple && string(s.src[at+1:at+5]) == "\x00\x00\x00\x02":
		first = at + 5
	default:
		return 0, 0, false
	}
	micro, second, ok := s.small(first)
	if !ok || micro < 0 || micro > 999_999 {
		return 0, 0, false
	}
	precision, _, ok = s.small(second)
	return micro, precision, ok && precision >= 0 && precision <= 6
}

// small reads an int64 that has been validated, if there is one.
func (s *scanner) small(at int) (n int64, end int, ok bool) {
	if !isInteger(s.src[at]) {
		return 0, 0, false
	}
	v, end := integerAt(s.src, at)
	return v.small, end, v.mag == nil
}

// number returns a field that is known to be an int64.
func (s *scanner) number(keys []key, name string) int64 {
	n, _, _ := s.small(int(s.field(keys, name).end))
	return n
}

// smallField reports whether a field is an integer within bounds.
func (s *scanner) smallField(keys []key, name string, low, high int64) bool {
	n, _, ok := s.small(int(s.field(keys, name).end))
	return ok && low <= n && n <= high
}

func (s *scanner) binaryField(keys []key, name string) ([]byte, bool) {
	at := int(s.field(keys, name).end)
	if tag := s.src[at]; tag != tagBinary && tag != tagBitBinary {
		return nil, false
	}
	from, end, _ := s.binary(at)
	return s.src[from:end], true
}
