package main

import (
	"context"
	"fmt"
	"os"
	"os/user"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/migrations"
)

// withStore runs do with the exporter's tables, after checking that they are
// at the version this binary knows.
func (p *process) withStore(ctx context.Context, do func(*cursor.Store, DatabaseConfig) error) error {
	return p.withExport(ctx, func(_ *pgxpool.Pool, s *cursor.Store, db DatabaseConfig) error { return do(s, db) })
}

// withExport is withStore, with the connections that the store uses.
func (p *process) withExport(ctx context.Context, do func(*pgxpool.Pool, *cursor.Store, DatabaseConfig) error) error {
	db, _, err := loadDatabase(p.env)
	if err != nil {
		return err
	}
	const connections = 2
	pool, err := openPool(ctx, db.Export, connections)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := checkSchemaVersion(ctx, pool, db); err != nil {
		return err
	}
	return explainWrite(ctx, pool, db.Export, do(pool, cursor.NewStore(pool, nil, db.ExportSchema), db))
}

func checkSchemaVersion(ctx context.Context, pool *pgxpool.Pool, db DatabaseConfig) error {
	if err := pool.Ping(ctx); err != nil {
		return explainConnect(db.Export, err)
	}
	return explainDatabase(migrations.Check(ctx, pool, db.ExportSchema))
}

// person is who asked, for the audit: the login name and the machine.
func (p *process) person() string {
	name := p.env["USER"]
	if u, err := user.Current(); err == nil && name == "" {
		name = u.Username
	}
	if name == "" { // a container without a list of users
		name = fmt.Sprintf("uid-%d", os.Getuid())
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}
