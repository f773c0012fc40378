package dashboard

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/table"
)

// column is a column of the table of consumers.
type column struct {
	title, series, unit string
	colours             *dashboard.ThresholdsConfigBuilder // nil for none
	words               dashboard.ValueMap                 // values shown as words
}

func columns() []column {
	none := dashboard.ValueMap{}
	some := steps(dashboard.ThresholdsModeAbsolute, "green", step{1, "red"})
	return []column{
		{"Owner", "consumer_owned", "none", steps(dashboard.ThresholdsModeAbsolute, "red", step{1, "green"}), words("none", "owned")},
		{"Paused", "consumer_paused", "none", steps(dashboard.ThresholdsModeAbsolute, "green", step{1, "orange"}), words("no", "paused")},
		{"Events behind", "lag_events", "short", nil, none},
		{"Time behind", "lag_seconds", "dtdurations", nil, none},
		{"Retention left", "headroom_ratio", "percentunit", headroomColours(), none},
		{"Time left", "headroom_seconds", "dtdurations", nil, none},
		{"Catches up in", "catch_up_seconds", "dtdurations", nil, none},
		{"Loses events in", "loss_eta_seconds", "dtdurations", nil, none},
		{"Open ids", "open_holes", "short", nil, none},
		{"Dead letters", "dead_letters_open", "short", some, none},
		{"Losses", "losses_open", "short", some, none},
	}
}

func words(zero, one string) dashboard.ValueMap {
	return dashboard.ValueMap{Type: "value", Options: map[string]dashboard.ValueMappingResult{
		"0": {Text: cog.ToPtr(zero)}, "1": {Text: cog.ToPtr(one)},
	}}
}

// consumerTable has a row for each consumer.
func consumerTable() cog.Builder[dashboard.Panel] {
	p := table.NewPanelBuilder().
		Title("Consumers").
		Description("One row a consumer, as the database has it, whoever owns it. An empty cell is not known.").
		Datasource(source()).
		Span(whole).Height(high)
	renamed := map[string]string{"consumer": "Consumer"}
	order := map[string]int{"consumer": 0}
	for i, c := range columns() {
		value := fmt.Sprintf("Value #%c", 'A'+i)
		renamed[value], order[value] = c.title, i+1
		p = p.WithTarget(target(query{expr: state(c.series)}, i).Instant().Format(prometheus.PromQueryFormatTable)).
			OverrideByName(c.title, c.looks())
	}
	return p.
		WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}}).
		WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
			"excludeByName": map[string]bool{"Time": true}, "renameByName": renamed, "indexByName": order,
		}})
}

// looks are the unit, words and colours of a column.
func (c column) looks() []dashboard.DynamicConfigValue {
	set := []dashboard.DynamicConfigValue{{Id: "unit", Value: c.unit}}
	if len(c.words.Options) > 0 {
		set = append(set, dashboard.DynamicConfigValue{Id: "mappings", Value: []any{c.words}})
	}
	if c.colours != nil {
		thresholds, err := c.colours.Build()
		if err != nil {
			panic(err) // constants of this file
		}
		set = append(set,
			dashboard.DynamicConfigValue{Id: "thresholds", Value: thresholds},
			dashboard.DynamicConfigValue{Id: "custom.cellOptions", Value: map[string]string{"type": string(common.TableCellDisplayModeColorText)}})
	}
	return set
}
