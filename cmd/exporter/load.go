package main

import (
	"errors"
	"fmt"
	"maps"
	"os"

	"github.com/caarlos0/env/v11"
)

// loadConfig reads everything that run and check need. Its error lists all
// problems at once.
func loadConfig(environ map[string]string) (Config, error) {
	ps := newProblems(environ)
	vars := expand(environ, globalVariables(), "", ps)
	c := Config{
		Database: loadDatabaseConfig(vars, ps),
		Log:      parse[LogConfig](vars, "", ps),
		Exporter: parse[ExporterConfig](vars, "", ps),
	}
	c.Exporter.HTTPGiven = vars["EXPORTER_HTTP_ADDR"] != ""
	c.Exporter.validate(ps)
	if c.Exporter.Replica == "" {
		c.Exporter.Replica = replicaName()
	}
	for _, name := range c.Exporter.Consumers {
		c.Consumers = append(c.Consumers, loadConsumer(vars, name, ps))
	}
	rejectUnknown(environ, c.Exporter.Consumers, ps)
	return c, ps.err()
}

// loadDatabase reads what every command needs that talks to a database, and
// nothing else: such a command works without consumers being configured.
func loadDatabase(environ map[string]string) (DatabaseConfig, LogConfig, error) {
	ps := newProblems(environ)
	known := append(variablesOf(DatabaseConfig{}), variablesOf(LogConfig{})...)
	vars := expand(environ, known, "", ps)
	db := loadDatabaseConfig(vars, ps)
	log := parse[LogConfig](vars, "", ps)
	rejectMisspelt(environ, known, ps)
	return db, log, ps.err()
}

// loadMonitor reads what monitor needs. The variables of run may be set as
// well: both can be given the same environment.
func loadMonitor(environ map[string]string) (DatabaseConfig, WatchConfig, LogConfig, error) {
	ps := newProblems(environ)
	known := globalVariables()
	vars := expand(environ, known, "", ps)
	db := loadDatabaseConfig(vars, ps)
	log := parse[LogConfig](vars, "", ps)
	watch := parse[WatchConfig](vars, "", ps)
	watch.validate(ps)
	rejectMisspelt(environ, known, ps)
	return db, watch, log, ps.err()
}

// loadSchemas reads what printing SQL needs.
func loadSchemas(environ map[string]string) (SchemaConfig, error) {
	ps := newProblems(environ)
	known := variablesOf(SchemaConfig{})
	c := parse[SchemaConfig](expand(environ, known, "", ps), "", ps)
	c.validate(ps)
	rejectMisspelt(environ, known, ps)
	return c, ps.err()
}

func loadDatabaseConfig(vars map[string]string, ps *problems) DatabaseConfig {
	db := parse[DatabaseConfig](vars, "", ps)
	db.named(vars)
	db.complete()
	db.validate(ps)
	return db
}

func loadConsumer(vars map[string]string, name string, ps *problems) ConsumerConfig {
	prefix := consumerPrefix(name)
	vars = expand(vars, consumerVariables(), prefix, ps)
	c := parse[ConsumerConfig](vars, prefix, ps)
	c.Name = name
	_, c.StartGiven = vars[prefix+"START"]
	sinkDefaults(&c, vars)
	c.validate(ps)
	return c
}

// parse fills a struct from its variables and adds what is wrong to ps.
func parse[T any](vars map[string]string, prefix string, ps *problems) T {
	c, err := env.ParseAsWithOptions[T](env.Options{Environment: vars, Prefix: prefix})
	declared := variablesOf(c)
	for _, e := range parseErrors(err) {
		if missing, ok := errors.AsType[env.VarIsNotSetError](e); ok {
			if !ps.mentions(missing.Key) {
				ps.add(missing.Key, "is not set%s", exampleOf(declared, prefix, missing.Key))
			}
			continue
		}
		bad, ok := errors.AsType[env.ParseError](e)
		if !ok {
			ps.add(prefix, "cannot be read: %v", e)
			continue
		}
		ps.add(prefix+nameOf(declared, bad.Name), "%v", bad.Err)
	}
	return c
}

func parseErrors(err error) []error {
	if all, ok := errors.AsType[env.AggregateError](err); ok {
		return all.Errors
	}
	if err != nil {
		return []error{err}
	}
	return nil
}

func nameOf(vs []variable, field string) string {
	for _, v := range vs {
		if v.Field == field {
			return v.Name
		}
	}
	return field
}

func exampleOf(vs []variable, prefix, name string) string {
	for _, v := range vs {
		if prefix+v.Name == name && v.Example != "" {
			return fmt.Sprintf("; it is required: %s Example: %s=%s", v.Description, name, v.Example)
		}
	}
	return "; it is required"
}

// expand returns the environment with NAME_FILE replaced by NAME for the
// secrets among vs, and without empty variables, which count as not set.
func expand(environ map[string]string, vs []variable, prefix string, ps *problems) map[string]string {
	vars := maps.Clone(environ)
	for _, v := range vs {
		if v.Secret {
			expandFile(vars, prefix+v.Name, ps)
		}
	}
	maps.DeleteFunc(vars, func(_, value string) bool { return value == "" })
	return vars
}

// replicaName tells processes apart: two containers may share a host name, two
// hosts a process id.
func replicaName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}
