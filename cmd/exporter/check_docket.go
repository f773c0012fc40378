package main

import "context"

// checkDocket looks at the database that Docket writes to.
func checkDocket(ctx context.Context, c Config, found *findings) {
	const subject = "Docket database"
	conn, err := connect(ctx, c.Database.Docket)
	if err != nil {
		found.failed(subject, err)
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	found.ok(subject, "reached "+c.Database.Docket.String())
}
