package main

import (
	"maps"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"
)

type jobFile struct {
	Kind string `yaml:"kind"`
	Spec struct {
		Template struct {
			Spec struct {
				RestartPolicy string `yaml:"restartPolicy"`
				Grace         int    `yaml:"terminationGracePeriodSeconds"`
				Containers    []struct {
					Args []string `yaml:"args"`
					Env  []struct {
						Name      string         `yaml:"name"`
						Value     string         `yaml:"value"`
						ValueFrom map[string]any `yaml:"valueFrom"`
					} `yaml:"env"`
				} `yaml:"containers"`
			} `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

// wantBackfill fails unless a command line is a backfill that its environment allows.
func wantBackfill(t *testing.T, args []string, env map[string]string) {
	t.Helper()
	c, err := loadConfig(env)
	if err != nil {
		t.Fatal(err)
	}
	cmd, rest, err := newRootCommand(newProcess(nil, nil, nil, nil)).Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err != nil || cmd.Name() != "backfill" {
		t.Fatalf("%v is %s: %v", args, cmd.CommandPath(), err)
	}
	if of := cmd.Flag("consumer").Value.String(); consumerConfig(c, of) == nil {
		t.Errorf("it is of %q, which EXPORTER_CONSUMERS does not name", of)
	}
	if _, err := parsePlace(cmd.Flag("from").Value.String()); err != nil {
		t.Error(err)
	}
}

func TestKubernetesJobConfiguresABackfill(t *testing.T) {
	var job jobFile
	if err := yaml.Unmarshal([]byte(deployed(t, "kubernetes", "backfill-job.yaml")), &job); err != nil {
		t.Fatal(err)
	}
	pod := job.Spec.Template.Spec
	if job.Kind != "Job" || pod.RestartPolicy != "OnFailure" || len(pod.Containers) != 1 {
		t.Fatalf("%+v", job)
	}
	secrets := map[string]string{
		"DOCKET_DATABASE_URL":               "postgres://exporter:secret@db.example.com/docket",
		"CONSUMER_ANALYTICS_CLICKHOUSE_DSN": "clickhouse://exporter:secret@ch.example.com:9000/analytics",
	}
	env := imageEnvironment(dockerfileStage(deployed(t, "docker", "Dockerfile")))
	for _, v := range pod.Containers[0].Env {
		env[v.Name] = v.Value
		if v.ValueFrom != nil {
			if secrets[v.Name] == "" {
				t.Errorf("%s comes from a secret that this test does not know", v.Name)
			}
			env[v.Name] = secrets[v.Name]
		}
	}
	wantBackfill(t, pod.Containers[0].Args, env)
	c, err := loadConfig(env)
	if err != nil {
		t.Fatal(err)
	}
	if grace := c.Exporter.ShutdownGrace.Value().Seconds(); float64(pod.Grace) <= grace {
		t.Errorf("the pod is killed after %d s, within the grace of %.0f s", pod.Grace, grace)
	}
}

func TestComposeConfiguresABackfill(t *testing.T) {
	var file composeFile
	if err := yaml.Unmarshal([]byte(deployed(t, "compose", "docker-compose.yml")), &file); err != nil {
		t.Fatal(err)
	}
	service := file.Services["backfill"]
	env := imageEnvironment(dockerfileStage(deployed(t, "docker", "Dockerfile")))
	maps.Copy(env, service.Environment)
	for name, value := range env {
		env[name] = composeDefault.ReplaceAllString(value, "$1")
	}
	wantBackfill(t, service.Command, env)
	if !strings.Contains(deployed(t, "compose", "docker-compose.yml"), `profiles: ["backfill"]`) {
		t.Error("`up` would start the backfill")
	}
}
