package dashboard

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the dashboard instead of comparing it")

func TestDashboardFileIsCurrent(t *testing.T) {
	path := filepath.Join("..", "..", "deploy", "grafana", "docket-exporter.json")
	want, err := JSON()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("run this test with -update:\n%s", diff)
	}
}

// Nothing overlaps, every panel says what it shows, and no two have one id.
func TestPanelsAreLaidOut(t *testing.T) {
	text, err := JSON()
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID                       int
			Type, Title, Description string
			GridPos                  struct{ X, Y, W, H int }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range board.Panels {
		if p.Title == "" || p.Type != "row" && p.Description == "" {
			t.Errorf("panel %q has no title or no description", p.Title)
		}
		if p.ID == 0 || ids[p.ID] {
			t.Errorf("panel %q has the id %d, which is none or another one's", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.GridPos.W == 0 || p.GridPos.X+p.GridPos.W > whole {
			t.Errorf("panel %q is %+v on a grid %d wide", p.Title, p.GridPos, whole)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" {
					t.Fatalf("panels %q and %q overlap", p.Title, taken[at])
				}
				taken[at] = p.Title
			}
		}
	}
	if len(board.Panels) < 40 {
		t.Errorf("there are only %d panels", len(board.Panels))
	}
}
