package main

import (
	"github.com/docket-exporter/exporter/retention"
)

// policy is what was told about Docket's pruner.
func (c *ExporterConfig) policy() retention.Policy {
	return retention.Policy{Events: c.Retention.Value()}
}
