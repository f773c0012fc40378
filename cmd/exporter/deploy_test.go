package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"
)

func deployed(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", "..", "deploy"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// dockerfileStage returns the instructions of the last stage of a Dockerfile,
// lines joined.
func dockerfileStage(text string) []string {
	text = strings.ReplaceAll(text, "\\\n", " ")
	var stage []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "FROM ") {
			stage = nil
		}
		if line != "" && !strings.HasPrefix(line, "#") {
			stage = append(stage, strings.Join(strings.Fields(line), " "))
		}
	}
	return stage
}

func imageEnvironment(stage []string) map[string]string {
	env := map[string]string{}
	for _, line := range stage {
		if settings, ok := strings.CutPrefix(line, "ENV "); ok {
			for setting := range strings.FieldsSeq(settings) {
				name, value, _ := strings.Cut(setting, "=")
				env[name] = value
			}
		}
	}
	return env
}

func TestImageIsSmallAndUnprivileged(t *testing.T) {
	stage := dockerfileStage(deployed(t, "docker", "Dockerfile"))
	lines := strings.Join(stage, "\n")
	for _, want := range []string{`^FROM scratch$`, `^USER [1-9][0-9]*:[1-9][0-9]*$`, `^STOPSIGNAL SIGTERM$`, `^VOLUME /`, `ca-certificates\.crt`, `zoneinfo`} {
		if !regexp.MustCompile("(?m)" + want).MatchString(lines) {
			t.Errorf("the final stage has no line like %s:\n%s", want, lines)
		}
	}
	env := minimal()
	maps.Copy(env, imageEnvironment(stage))
	if _, err := loadConfig(env); err != nil {
		t.Errorf("the image sets variables that are refused: %v", err)
	}
}

type composeFile struct {
	Services map[string]struct {
		Command     []string          `yaml:"command"`
		Environment map[string]string `yaml:"environment"`
	} `yaml:"services"`
}

var composeDefault = regexp.MustCompile(`\$\{[A-Z_]+:-([^}]*)\}`)

// Every service of ours in the compose file starts with a configuration that
// its command accepts.
func TestComposeConfiguresWhatItRuns(t *testing.T) {
	var file composeFile
	if err := yaml.Unmarshal([]byte(deployed(t, "compose", "docker-compose.yml")), &file); err != nil {
		t.Fatal(err)
	}
	image := imageEnvironment(dockerfileStage(deployed(t, "docker", "Dockerfile")))
	for name, load := range map[string]func(map[string]string) error{
		"exporter": func(env map[string]string) error { _, err := loadConfig(env); return err },
		"migrate": func(env map[string]string) error {
			_, _, err := loadDatabase(env)
			return err
		},
	} {
		service, ok := file.Services[name]
		if !ok || len(service.Command) != 1 {
			t.Errorf("there is no service %s with one command: %+v", name, service)
			continue
		}
		env := maps.Clone(image)
		for variable, value := range service.Environment {
			env[variable] = composeDefault.ReplaceAllString(value, "$1")
		}
		if err := load(env); err != nil {
			t.Errorf("service %s: %v", name, err)
		}
		if env["DOCKET_DATABASE_URL"] == "" || strings.Contains(env["DOCKET_DATABASE_URL"], "${") {
			t.Errorf("service %s: the environment is not resolved: %v", name, env)
		}
	}
}
