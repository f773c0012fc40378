package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// JSON returns the dashboard as Grafana imports it.
func JSON() ([]byte, error) {
	//lint:ignore SA1019 the newer form needs Grafana 12
	b := dashboard.NewDashboardBuilder("Docket exporter").
		Uid("docket-exporter").
		Description("How far behind every consumer is, whether it moves, and how long until Docket's retention deletes what it has not delivered.").
		Tags([]string{"docket"}).
		Refresh("30s").
		Time("now-6h", "now").
		Timezone("browser").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Readonly().
		Link(dashboard.NewDashboardLinkBuilder("Runbooks").
			Type(dashboard.DashboardLinkTypeLink).
			Url("https://github.com/docket-exporter/exporter/tree/main/docs/runbooks").
			TargetBlank(true)).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		WithVariable(consumers())
	for _, r := range rows() {
		b = b.WithRow(dashboard.NewRowBuilder(r.title))
		for _, p := range r.panels {
			b = b.WithPanel(p)
		}
	}
	board, err := b.Build()
	if err != nil {
		return nil, fmt.Errorf("build dashboard: %w", err)
	}
	numberPanels(board.Panels)
	return encode(board)
}

func encode(board any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(board); err != nil {
		return nil, fmt.Errorf("encode dashboard: %w", err)
	}
	return text.Bytes(), nil
}

// numberPanels gives every panel an id of its own, in the order of reading.
func numberPanels(panels []dashboard.PanelOrRowPanel) {
	for i, p := range panels {
		id := uint32(i + 1)
		if p.RowPanel != nil {
			p.RowPanel.Id = id
		} else {
			p.Panel.Id = &id
		}
	}
}

// consumers is the variable that picks consumers, all of them at first.
func consumers() *dashboard.QueryVariableBuilder {
	query := "label_values(docket_exporter_position_high_id, consumer)"
	return dashboard.NewQueryVariableBuilder("consumer").
		Label("Consumer").
		Datasource(source()).
		Definition(query).
		Query(dashboard.StringOrMap{Map: map[string]any{"query": query, "refId": "consumer"}}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc).
		Multi(true).
		IncludeAll(true).
		AllValue(".*").
		Current(dashboard.VariableOption{
			Selected: cog.ToPtr(true),
			Text:     dashboard.StringOrArrayOfString{String: cog.ToPtr("All")},
			Value:    dashboard.StringOrArrayOfString{String: cog.ToPtr("$__all")},
		})
}

// source is the data source that the variable names.
func source() common.DataSourceRef {
	return common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}
}
