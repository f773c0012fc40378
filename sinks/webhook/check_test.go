package webhook

import (
	"strings"
	"testing"

	"github.com/docket-exporter/exporter"
)

func TestCheck(t *testing.T) {
	server := newServer(t)
	list, err := open(t, server.config()).Check(t.Context())
	if err != nil || len(list) != 2 || list[0].Level != exporter.LevelOK || list[1].Level != exporter.LevelWarn || !strings.Contains(list[1].Text, "unencrypted") {
		t.Errorf("found %v, %v", list, err)
	}
	cfg := server.config()
	cfg.AllowPrivate = nil
	list, err = open(t, cfg).Check(t.Context())
	if err != nil || len(list) != 1 || list[0].Level != exporter.LevelFail || !strings.Contains(list[0].Text, "…_WEBHOOK_ALLOW_PRIVATE") {
		t.Errorf("found %v, %v", list, err)
	}
	if n := len(server.asked()); n != 0 {
		t.Errorf("check has sent %d requests", n)
	}
	server.stop()
	if _, err := open(t, server.config()).Check(t.Context()); err == nil || !strings.Contains(err.Error(), server.addr) {
		t.Errorf("got %v", err)
	}
}
