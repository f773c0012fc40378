package dashboard

import (
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// Widths and heights on Grafana's grid, which is 24 wide.
const (
	whole, half, third, sixth = 24, 12, 8, 4
	high, low                 = 8, 4
)

// query is an expression and how its series are called.
type query struct {
	expr, legend string
}

// of selects a series of the chosen consumers.
func of(name string) string { return "docket_exporter_" + name + `{consumer=~"$consumer"}` }

// state is what the database says of a consumer. Every process says it, so
// that one value is taken of each consumer: the least where it hangs on the
// retention, which one of them may have been told wrong.
func state(name string) string {
	if strings.HasPrefix(name, "headroom_") || name == "loss_eta_seconds" {
		return "min by (consumer) (" + of(name) + ")"
	}
	return "max by (consumer) (" + of(name) + ")"
}

// rate is what all processes together did for a consumer, a second.
func rate(name string) string { return "sum by (consumer) (rate(" + of(name) + "[$__rate_interval]))" }

// byReason is rate for each reason.
func byReason(name string) string {
	return "sum by (consumer, reason) (rate(" + of(name) + "[$__rate_interval]))"
}

func quantile(q string) string {
	return "histogram_quantile(" + q + ", sum by (consumer, le) (rate(" + of("delivery_seconds_bucket") + "[$__rate_interval])))"
}

// perConsumer is one line for each consumer.
func perConsumer(expr string) query { return query{expr, "{{consumer}}"} }

func target(q query, id int) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Datasource(source()).Expr(q.expr).LegendFormat(q.legend).RefId(string(rune('A' + id)))
}

// graph is a panel with lines over time.
func graph(title, description, unit string, queries ...query) *timeseries.PanelBuilder {
	p := timeseries.NewPanelBuilder().
		Title(title).
		Description(description).
		Datasource(source()).
		Unit(unit).
		Span(third).Height(high).
		LineWidth(1).FillOpacity(10).
		ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().
			ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	for i, q := range queries {
		p = p.WithTarget(target(q, i))
	}
	return p
}

// number is a panel with one figure, green below bad and red from there on.
func number(title, description, expr string, bad float64) *stat.PanelBuilder {
	return stat.NewPanelBuilder().
		Title(title).
		Description(description).
		Datasource(source()).
		Unit("short").
		Span(sixth).Height(low).
		ColorMode(common.BigValueColorModeBackground).
		GraphMode(common.BigValueGraphModeNone).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		Thresholds(steps(dashboard.ThresholdsModeAbsolute, "green", step{bad, "red"})).
		NoValue("unknown").
		WithTarget(target(query{expr: expr}, 0).Instant())
}

// step is a colour from a value on.
type step struct {
	from   float64
	colour string
}

// steps are the colours of values: base, and what begins higher up.
func steps(mode dashboard.ThresholdsMode, base string, above ...step) *dashboard.ThresholdsConfigBuilder {
	all := []dashboard.Threshold{{Color: base}}
	for _, s := range above {
		all = append(all, dashboard.Threshold{Value: cog.ToPtr(s.from), Color: s.colour})
	}
	return dashboard.NewThresholdsConfigBuilder().Mode(mode).Steps(all)
}

// headroomColours are those of the alerts at a fifth and at half of the retention.
func headroomColours() *dashboard.ThresholdsConfigBuilder {
	return steps(dashboard.ThresholdsModeAbsolute, "red", step{0.2, "orange"}, step{0.5, "green"})
}
