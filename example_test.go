package exporter_test

import (
	"fmt"

	"github.com/docket-exporter/exporter"
)

// Ids 3 to 5 belong to a transaction that has not committed: the position goes
// on without it and comes back for them.
func ExamplePosition() {
	from, err := exporter.ParsePosition("2")
	if err != nil {
		fmt.Println(err)
		return
	}
	open := exporter.Ranges{{Lo: 3, Hi: 5}}
	to := from.Advance(8, open)
	fmt.Println(to, "after", to.Minus(from))

	later := to.Fill(open)
	fmt.Println(later, "after", later.Minus(to))
	// Output:
	// 8-{[3,5]} after {[6,8]}
	// 8 after {[3,5]}
}
