package main

import (
	"reflect"
	"strings"
)

// variable describes one environment variable as its struct field declares it.
type variable struct {
	Name        string // whole name, or the part after CONSUMER_<NAME>_
	Field       string // name of the Go field, by which the parser reports errors
	Default     string // "" for none
	Description string
	Example     string
	Required    bool
	Secret      bool // may also be given as a file, by NAME_FILE
}

// variablesOf lists the variables of a configuration struct in its order.
func variablesOf(config any) []variable { return fieldVariables(reflect.TypeOf(config), "") }

func fieldVariables(t reflect.Type, prefix string) []variable {
	var out []variable
	for i := range t.NumField() {
		f := t.Field(i)
		if p, ok := f.Tag.Lookup("envPrefix"); ok {
			out = append(out, fieldVariables(f.Type, prefix+p)...)
			continue
		}
		if f.Anonymous {
			out = append(out, fieldVariables(f.Type, prefix)...)
			continue
		}
		tag, ok := f.Tag.Lookup("env")
		if !ok {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		v := variable{
			Name:        prefix + name,
			Field:       f.Name,
			Default:     f.Tag.Get("envDefault"),
			Description: f.Tag.Get("desc"),
			Example:     f.Tag.Get("example"),
			Required:    options == "required",
			Secret:      f.Tag.Get("secret") == "true",
		}
		if d, ok := f.Tag.Lookup("docDefault"); ok {
			v.Default = d
		}
		out = append(out, v)
	}
	return out
}

func globalVariables() []variable {
	vs := variablesOf(DatabaseConfig{})
	vs = append(vs, variablesOf(ExporterConfig{})...)
	return append(vs, variablesOf(LogConfig{})...)
}

func consumerVariables() []variable { return variablesOf(ConsumerConfig{}) }

// spellings lists every name under which vs can be set after prefix.
func spellings(prefix string, vs []variable) []string {
	var out []string
	for _, v := range vs {
		out = append(out, prefix+v.Name)
		if v.Secret {
			out = append(out, prefix+v.Name+"_FILE")
		}
	}
	return out
}
