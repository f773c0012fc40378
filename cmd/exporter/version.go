package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is set by the build (-ldflags "-X main.release=v1.2.3"); a build
// without it tells what the Go toolchain recorded.
var release string

// Build says what this binary was made from.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with changes
	Time     string `json:"time,omitempty"`     // of the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readBuild() Build {
	b := Build{Version: release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		case "vcs.time":
			b.Time = s.Value
		}
	}
	return b
}

func newVersionCommand(p *process) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  exporter version --json",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			return printBuild(p.stdout, readBuild(), asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func printBuild(w io.Writer, b Build, asJSON bool) error {
	if asJSON {
		return writeJSON(w, b)
	}
	modified := ""
	if b.Modified {
		modified = " (modified)"
	}
	_, err := fmt.Fprintf(w, "exporter %s\nrevision %s%s\n%s %s\n", b.Version, orNone(b.Revision), modified, b.Go, b.Platform)
	return err
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func jsonFlag(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "json", false, "print the result as JSON")
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
