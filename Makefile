# Targets for people and for .ci/run. What the tests need beside Go is installed
# by tools/setup.sh; see there.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.release=$(VERSION)
TOOL := go tool -modfile=tools/go.mod

# Rounds of the crash tests.
export ROUNDS ?= 5
SOAK_ROUNDS ?= 500
# Tests of the failure table that repeat.
FAILURES := ^Test(Killed|FrozenOwner|NetworkIsCut|ConnectionsAreEnded|ServerRestarts)
FUZZTIME ?= 20s
TESTFLAGS ?=

.PHONY: help
help: ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/exporter, one static binary
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/exporter ./cmd/exporter

.PHONY: demo
demo: ## export from a private PostgreSQL to files, with a verdict at the end (DEMO_SECONDS, DEMO_DATABASE_URL)
	@if [ -z "$${DEMO_DATABASE_URL:-}" ]; then tools/setup.sh postgres; fi
	@$(MAKE) --no-print-directory build
	@exec bin/exporter demo

.PHONY: setup
setup: ## install what the tests need: PostgreSQL, PgBouncer, ClickHouse, Prometheus, Chromium, a C compiler, unshare
	tools/setup.sh all

.PHONY: test
test: setup ## run all tests with the race detector (ROUNDS of crashes, TESTFLAGS)
	CGO_ENABLED=1 go test -race -parallel 4 -timeout 30m $(TESTFLAGS) ./...

.PHONY: fuzz
fuzz: ## fuzz the decoder of Docket's rows for FUZZTIME per target
	@targets=$$(go test -list '^Fuzz' ./sources/docket/etf | grep '^Fuzz'); \
	for target in $$targets; do \
		go test ./sources/docket/etf -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME); \
	done

.PHONY: bench
bench: ## measure rate, processor time, memory, latency, idle cost and sinks beside their targets (BENCH_EVENTS, BENCH_ONLY=rate,rss,memory,latency,isolation,idle,clickhouse,pubsub,reconcile,flat,backfill; flat and backfill only if named)
	@case ",$${BENCH_ONLY:-clickhouse}," in *clickhouse*) more='clickhouse chdb' ;; esac; tools/setup.sh postgres $${more:-}
	@$(MAKE) --no-print-directory build
	@go build -o bin/bench ./internal/bench
	@exec bin/bench

.PHONY: soak
soak: ## run two replicas for minutes while everything around them fails, and compare table and files (SOAK_MINUTES, SOAK_RATE, SOAK_SEED); then freeze ClickHouse (CLICKHOUSE_PAUSE), kill webhook senders and receiver (WEBHOOK_SOAK_SECONDS), then repeat the failures of docs/failure-table.md, which takes hours (SOAK_ROUNDS)
	@tools/setup.sh postgres clickhouse chdb
	@$(MAKE) --no-print-directory build
	@go build -o bin/soak ./internal/soak
	@bin/soak
	@CLICKHOUSE_PAUSE=$${CLICKHOUSE_PAUSE:-1m} go test -count 1 -timeout 30m -run '^TestClickHouseFailsInMidInsert$$' ./cmd/exporter
	@WEBHOOK_SOAK_SECONDS=$${WEBHOOK_SOAK_SECONDS:-120} WEBHOOK_SOAK_EVENTS=$${WEBHOOK_SOAK_EVENTS:-20000} go test -count 1 -timeout 30m -run '^TestWebhookEffectsOnceWhateverIsKilled$$' ./cmd/exporter
	@ROUNDS=$(SOAK_ROUNDS) go test -count 1 -timeout 0 -run '$(FAILURES)' ./cmd/exporter

.PHONY: lint
lint: vet ## check formatting and run the linters
	@files=$$(git ls-files -co --exclude-standard '*.go'); \
	unformatted=$$($(TOOL) gofumpt -l $$files); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi
	$(TOOL) staticcheck ./...

.PHONY: vet
vet: ## run go vet
	go vet ./...

.PHONY: fmt
fmt: ## format the source
	$(TOOL) gofumpt -w $$(git ls-files -co --exclude-standard '*.go')

.PHONY: tidy-check
tidy-check: ## check that go.mod and go.sum list what is used, and nothing else
	go mod tidy -diff
	go mod verify

.PHONY: docs
docs: ## write the generated documents
	go test ./cmd/exporter -run 'ConfigurationDocument|MetricsDocument' -update
	go test ./internal/dashboard -update

.PHONY: clean
clean: ## remove what building and the demo leave behind
	rm -rf bin demo-data
	go clean -testcache
