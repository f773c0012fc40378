package promserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// Sample is one series of an answer, at the time of the query.
type Sample struct {
	Labels map[string]string
	Value  float64 // may be NaN or infinite
}

// Alert is what the server says of an alert that is pending or firing.
type Alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"` // templates expanded
	State       string            `json:"state"`       // pending or firing
}

// Query evaluates an expression whose result is a vector or a scalar, now.
func (s *Server) Query(ctx context.Context, expr string) ([]Sample, error) {
	var answer struct {
		Type   string          `json:"resultType"`
		Result json.RawMessage `json:"result"`
	}
	if err := s.get(ctx, "/api/v1/query?query="+url.QueryEscape(expr), &answer); err != nil {
		return nil, fmt.Errorf("query %q: %w", expr, err)
	}
	switch answer.Type {
	case "vector":
		return vector(answer.Result)
	case "scalar":
		var p point
		err := json.Unmarshal(answer.Result, &p)
		return []Sample{{Value: p.value}}, err
	default:
		return nil, fmt.Errorf("query %q: the result is a %s, want a vector or a scalar", expr, answer.Type)
	}
}

func vector(raw json.RawMessage) ([]Sample, error) {
	var series []struct {
		Metric map[string]string `json:"metric"`
		Value  point             `json:"value"`
	}
	if err := json.Unmarshal(raw, &series); err != nil {
		return nil, fmt.Errorf("decode vector: %w", err)
	}
	samples := make([]Sample, len(series))
	for i, one := range series {
		samples[i] = Sample{Labels: one.Metric, Value: one.Value.value}
	}
	return samples, nil
}

// point is a time and a value: [1700000000.1, "NaN"].
type point struct{ value float64 }

// UnmarshalJSON implements json.Unmarshaler.
func (p *point) UnmarshalJSON(text []byte) error {
	var value string
	if err := json.Unmarshal(text, &[]any{new(float64), &value}); err != nil {
		return fmt.Errorf("decode point: %w", err)
	}
	var err error
	p.value, err = strconv.ParseFloat(value, 64)
	return err
}

// Alerts returns the alerts that are pending or firing.
func (s *Server) Alerts(ctx context.Context) ([]Alert, error) {
	var answer struct {
		Alerts []Alert `json:"alerts"`
	}
	if err := s.get(ctx, "/api/v1/alerts", &answer); err != nil {
		return nil, fmt.Errorf("list alerts: %w", err)
	}
	return answer.Alerts, nil
}

// get reads the data of an answer of the API.
func (s *Server) get(ctx context.Context, path string, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // read to its end or given up
	answer := struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   any    `json:"data"`
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("decode answer (%s): %w", response.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("prometheus answers: %s", answer.Error)
	}
	return nil
}
