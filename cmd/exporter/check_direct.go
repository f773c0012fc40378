package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// checkDirect reaches for the databases past their poolers, where they differ,
// and asks whether they are the same ones: positions would be kept in one
// place, and migrations made in another.
func checkDirect(ctx context.Context, db DatabaseConfig, found *findings) {
	for _, d := range []struct {
		subject        string
		direct, pooled DatabaseURL
	}{
		{"DOCKET_DIRECT_URL", db.DocketDirect, db.Docket},
		{"EXPORT_DIRECT_URL", db.ExportDirect, db.Export},
	} {
		if d.direct.same(d.pooled) {
			continue
		}
		if err := checkSameDatabase(ctx, d.direct, d.pooled); err != nil {
			found.failed(d.subject, err)
			continue
		}
		found.ok(d.subject, fmt.Sprintf("reached %s, the same database as %s", d.direct, d.pooled))
	}
}

func checkSameDatabase(ctx context.Context, direct, pooled DatabaseURL) error {
	conn, err := connect(ctx, direct)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return sameDatabase(ctx, conn, direct, pooled)
}

// sameDatabase returns an error of usage when conn, which was opened with
// direct, leads to another database than pooled.
func sameDatabase(ctx context.Context, conn *pgx.Conn, direct, pooled DatabaseURL) error {
	other, err := connect(ctx, pooled)
	if err != nil {
		return err
	}
	defer other.Close(context.WithoutCancel(ctx))
	here, err := placeOf(ctx, conn, direct)
	if err != nil {
		return err
	}
	there, err := placeOf(ctx, other, pooled)
	if err != nil || here == there {
		return err
	}
	return usage(withHint(
		fmt.Errorf("%s (%s) leads to database %q on the cluster with system identifier %d, %s (%s) to %q on %d",
			direct.variable, direct, here.database, here.system, pooled.variable, pooled, there.database, there.system),
		"both must lead to the same database, only one of them past the pooler"))
}

// place is a database on a cluster. A physical copy has the system identifier
// of its original.
type place struct {
	system   int64
	database string
}

func placeOf(ctx context.Context, conn *pgx.Conn, url DatabaseURL) (place, error) {
	var p place
	err := conn.QueryRow(ctx, "SELECT system_identifier, current_database()::text FROM pg_control_system()").Scan(&p.system, &p.database)
	if err != nil {
		return p, explainDatabase(fmt.Errorf("ask %s (%s) which database it is: %w", url.variable, url, err))
	}
	return p, nil
}
