package main

import "strings"

// DatabaseConfig names the two databases: Docket's, which is only read, and
// the one that holds the exporter's own schema. They may be the same.
type DatabaseConfig struct {
	SchemaConfig
	Docket       DatabaseURL `env:"DOCKET_DATABASE_URL,required" secret:"true" desc:"The database that Docket writes to, as a URL or as key=value pairs. Several hosts and target_session_attrs are passed on." example:"postgres://exporter@db.example/app"`
	Export       DatabaseURL `env:"EXPORT_DATABASE_URL" secret:"true" docDefault:"DOCKET_DATABASE_URL" desc:"The database that holds the exporter's own tables."`
	DocketDirect DatabaseURL `env:"DOCKET_DIRECT_URL" secret:"true" docDefault:"DOCKET_DATABASE_URL" desc:"The Docket database without a pooler in between, where DOCKET_DATABASE_URL goes through one."`
	ExportDirect DatabaseURL `env:"EXPORT_DIRECT_URL" secret:"true" docDefault:"EXPORT_DATABASE_URL, or DOCKET_DIRECT_URL when that is not set" desc:"The export database without a pooler in between. Migrations use it."`
}

// SchemaConfig names the schemas in the two databases. Printing SQL needs
// nothing else.
type SchemaConfig struct {
	DocketSchema string `env:"DOCKET_SCHEMA" envDefault:"public" desc:"Schema of Docket's tables: the prefix it was installed with."`
	ExportSchema string `env:"EXPORT_SCHEMA" envDefault:"docket_export" desc:"Schema of the exporter's own tables. One schema belongs to one Docket."`
}

// named tells each URL which variable it comes from, so that an error about it
// can say so. A URL that defaults to another one keeps the other one's name.
func (c *DatabaseConfig) named(vars map[string]string) {
	for name, u := range map[string]*DatabaseURL{
		"DOCKET_DATABASE_URL": &c.Docket, "EXPORT_DATABASE_URL": &c.Export,
		"DOCKET_DIRECT_URL": &c.DocketDirect, "EXPORT_DIRECT_URL": &c.ExportDirect,
	} {
		if u.variable = name; vars[name+"_FILE"] != "" {
			u.variable = name + "_FILE"
		}
	}
}

// complete fills in the URLs that default to others.
func (c *DatabaseConfig) complete() {
	if c.DocketDirect.IsZero() {
		c.DocketDirect = c.Docket
	}
	if c.ExportDirect.IsZero() {
		c.ExportDirect = c.Export
		if c.Export.IsZero() {
			c.ExportDirect = c.DocketDirect
		}
	}
	if c.Export.IsZero() {
		c.Export = c.Docket
	}
}

func (c *SchemaConfig) validate(ps *problems) {
	checkSchema(ps, "DOCKET_SCHEMA", c.DocketSchema)
	checkSchema(ps, "EXPORT_SCHEMA", c.ExportSchema)
}

// checkSchema refuses what PostgreSQL would silently cut or cannot hold.
func checkSchema(ps *problems, variable, schema string) {
	const longest = 63 // bytes, NAMEDATALEN-1
	if looksSecret(schema) {
		ps.add(variable, "looks like a connection string; write the name of a schema")
		return
	}
	if strings.ContainsAny(schema, "\r\n") {
		ps.add(variable, "has more than one line; write the name of a schema")
	}
	if len(schema) > longest {
		ps.add(variable, "is a name of %d bytes, of which PostgreSQL keeps %d; use a shorter one", len(schema), longest)
	}
}
