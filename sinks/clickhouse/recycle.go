package clickhouse

import "github.com/ClickHouse/clickhouse-go/v2/lib/column"

// mostRecycled bounds the payload and metadata of an insert whose memory is
// kept for the next one, in bytes.
const mostRecycled = 32 << 20

// recycle gives the columns of a new insert the memory of an earlier one's, of
// the same names and types. The driver makes its columns anew for each insert
// and lets them grow from nothing, which would cost more than filling them.
func recycle(columns, earlier []column.Interface) {
	if len(columns) != len(earlier) {
		return
	}
	for i, c := range columns {
		earlier[i].Reset()
		switch c := c.(type) {
		case *column.String:
			move(c, earlier[i])
		case *column.FixedString:
			move(c, earlier[i])
		case *column.Nullable:
			move(c, earlier[i])
		case *column.LowCardinality:
			move(c, earlier[i])
		case *column.Int32:
			move(c, earlier[i])
		case *column.Int64:
			move(c, earlier[i])
		case *column.UInt64:
			move(c, earlier[i])
		case *column.DateTime:
			move(c, earlier[i])
		case *column.DateTime64:
			move(c, earlier[i])
		}
	}
}

// move makes to what from is, which nobody uses any more.
func move[C any](to *C, from column.Interface) {
	if from, same := from.(any).(*C); same && from != to {
		*to = *from
	}
}
