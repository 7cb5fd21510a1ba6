# `make help` lists the targets. Everything works with Go, make, git and a C compiler; all other tools are built from
# tools/go.mod, and the local cluster from the modules pinned in internal/localcluster.

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

TOOL := go tool -modfile=tools/go.mod
MODULES := . tools test/charts
GENERATED := ':(glob)api/**/zz_generated.*' config/crd/bases config/rbac/markers config/rbac/role.yaml config/rbac/restricted/role.yaml config/webhook/restricted docs/admission.md docs/configuration.md docs/metrics.md docs/performance.md docs/performance charts
EXAMPLE ?= examples/quickstart/graph.yaml
# Which tests to run and how, for example: make test PACKAGES=./internal/... TESTFLAGS='-run Status'
PACKAGES ?= ./...
TESTFLAGS ?=
# Flags of make perf, for example for a trial: make perf PERFFLAGS='-sizes=0,20,50 -graphs=50 -samples=20 -idle=20s -turns=2 -results='
PERFFLAGS ?=
export PACKAGES TESTFLAGS

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

##@ Try it

.PHONY: demo
demo: build ## Start a local Kubernetes with the operator and deploy the example until it is ready
	@bin/dynamo-local demo --operator bin/operator --file $(EXAMPLE)

.PHONY: demo-down
demo-down: bin/dynamo-local ## Stop the demo and remove what it left
	@bin/dynamo-local down --name demo

.PHONY: cluster-up
cluster-up: build ## Start a local Kubernetes with our CRDs and without the operator
	@bin/dynamo-local up

.PHONY: cluster-down
cluster-down: bin/dynamo-local ## Stop that cluster and remove what it left
	@bin/dynamo-local down

.PHONY: run
run: build ## Run the operator here, with the flags in ARGS, against the cluster in $KUBECONFIG or that of make cluster-up
	@exec sh tools/run.sh $(ARGS)

##@ Work on it

.PHONY: build
build: prerequisites ## Build the operator and dynamo-local into bin/
	@go build -o bin/ ./cmd/...

# Only what stops a cluster depends on this: it has to work while the code does not compile.
bin/dynamo-local:
	@$(MAKE) build

.PHONY: test
test: prerequisites ## Run every test on a real control plane, and count
	@echo 'test: making the binaries of the local cluster ready, which takes minutes the first time' >&2
	@go run ./cmd/dynamo-local bin >/dev/null
	@sh tools/test.sh all

.PHONY: test-long
test-long: prerequisites ## Run what takes too long for make test: 512 pods in one graph, the oldest LeaderWorkerSet
	@go run ./cmd/dynamo-local bin >/dev/null
	@DYNAMO_TEST_LONG=1 PACKAGES=./test/e2e/multinode TESTFLAGS='-timeout 40m' sh tools/test.sh all
	@DYNAMO_TEST_OLD_LWS=1 PACKAGES=./test/e2e/multinode sh tools/test.sh all

.PHONY: test-skew
test-skew: prerequisites ## Run oldest and newest API server, an earlier operator and earlier definitions; OLD names their revision
	@go run ./cmd/dynamo-local bin >/dev/null
	@sh tools/skew.sh

.PHONY: test-faults
test-faults: prerequisites ## Inject every fault at every place, and count; SHARD=i/n and LEDGER=file run it in parts
	@go run ./cmd/dynamo-local bin >/dev/null
	@sh tools/faults.sh full

.PHONY: soak
soak: prerequisites ## Crowds, fights, noise and rolling restarts at their full length, then requests that fail at random for DURATION (2h)
	@go run ./cmd/dynamo-local bin >/dev/null
	@sh tools/faults.sh soak

.PHONY: test-unit
test-unit: prerequisites ## Run the tests that need no cluster, and count
	@sh tools/test.sh unit

.PHONY: test-e2e
test-e2e: prerequisites ## Run the user stories and the installed charts on a real control plane, and count
	@go run ./cmd/dynamo-local bin >/dev/null
	@PACKAGES=./test/e2e/... sh tools/test.sh all
	@sh tools/test.sh installed

.PHONY: perf
perf: prerequisites ## Measure the operator on two quiet cores for more than an hour, store the result and render docs/performance.md
	@go run ./cmd/dynamo-local bin >/dev/null
	@status=0; go test ./test/perf/scoreboard -count=1 -v -timeout 4h -run '^TestScoreboard$$' -perf -results=$(CURDIR)/test/perf/results $(PERFFLAGS) || status=1; \
		go test ./test/perf/report -count=1 -run TheDocumentation -update && exit $$status

.PHONY: bench
bench: prerequisites ## Run the micro-benchmarks and compare them with those that are stored; STORE=1 stores these
	@sh tools/bench.sh

.PHONY: fuzz
fuzz: prerequisites ## Run every fuzz target for FUZZTIME (10s), for example: make fuzz FUZZTIME=10m
	@events=$$(sh tools/fuzz.sh) && echo "$$events" && ! echo "$$events" | grep -q '"Action":"fail"'

.PHONY: lint
lint: prerequisites ## Check style, mistakes and the direction of dependencies
	@status=0; for module in $(MODULES); do \
		echo "lint: module $$module" >&2; \
		(cd $$module && go tool -modfile=$(CURDIR)/tools/go.mod golangci-lint run --config $(CURDIR)/.golangci.yml ./...) || status=1; \
	done; exit $$status

.PHONY: fmt
fmt: prerequisites ## Format the code and sort the imports
	@$(TOOL) golangci-lint fmt

.PHONY: generate
generate: prerequisites ## Regenerate deep copies, CRDs and the operator's role from the Go types
	@sh tools/generate.sh

.PHONY: manifests
manifests: generate ## The same as generate, under the name that others use for definitions and roles

.PHONY: verify
verify: prerequisites generate ## Check that generated files and module files are up to date and committed
	@changed=$$(git status --porcelain -- $(GENERATED)) || exit 1; if [ -n "$$changed" ]; then \
		echo 'verify: files differ from what is committed; run make generate and commit the result:' >&2; \
		echo "$$changed" >&2; git --no-pager diff -- $(GENERATED) >&2; exit 1; \
	fi
	@for module in $(MODULES); do \
		(cd $$module && go mod tidy -diff) || { echo "verify: $$module/go.mod is not tidy; run go mod tidy there" >&2; exit 1; }; \
	done
	@sh tools/vulnerabilities.sh
	@$(MAKE) sbom
	@echo 'verify: everything is up to date' >&2

.PHONY: sbom
sbom: build ## Write what the operator is made of to bin/operator.sbom.json
	@go run -C tools ./sbom -binary $(CURDIR)/bin/operator >bin/operator.sbom.json

##@ Ship it

.PHONY: charts
charts: prerequisites ## Pack both charts into dist/ as they are; make release gives them a version and a registry
	@$(TOOL) helm package --destination dist charts/crds charts/platform

# Version of what is shipped, and what is before the names of images, for example REPOSITORY=registry.example.com/team.
VERSION ?= 0.0.0-dev
REPOSITORY ?=

.PHONY: images
images: prerequisites ## Write the images of operator and mocker as OCI archives, for amd64 and arm64, to dist/; no Docker is needed
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} go run -C tools ./image -root $(CURDIR) -out $(CURDIR)/dist \
		-version '$(VERSION)' -repository '$(REPOSITORY)' -revision "$$(git describe --always --abbrev=40 --dirty --exclude='*')"

.PHONY: release
release: prerequisites ## Write charts, images, what they are made of, checksums and what is new in VERSION to dist/VERSION
	@go run -C tools ./release -root $(CURDIR) -out $(CURDIR)/dist -version '$(VERSION)' -repository '$(REPOSITORY)'

# What to run, for example: make helm ARGS='template dynamo-platform charts/platform'
ARGS ?=

.PHONY: helm
helm: prerequisites ## Run Helm with ARGS, for example make helm ARGS='list -A'; without ARGS lint and pack both charts
	@if [ -n "$(ARGS)" ]; then $(TOOL) helm $(ARGS); else $(TOOL) helm lint --strict charts/crds charts/platform && $(TOOL) helm package --destination dist charts/crds charts/platform; fi

.PHONY: kustomize
kustomize: prerequisites ## Run kustomize with ARGS, for example: make kustomize ARGS='build config/default'
	@$(TOOL) kustomize $(ARGS)

##@ Put it into a cluster

# The cluster is that of $KUBECONFIG, or else the one of make cluster-up.
export IMG PLATFORMS CONTAINER_TOOL

.PHONY: install
install: bin/dynamo-local ## Put our definitions into the cluster
	@sh tools/deploy.sh install

.PHONY: uninstall
uninstall: bin/dynamo-local ## Take our definitions away, and with them every graph
	@sh tools/deploy.sh uninstall

.PHONY: deploy
deploy: bin/dynamo-local ## Put definitions, operator and webhooks into the cluster, with the image IMG
	@sh tools/deploy.sh deploy

.PHONY: undeploy
undeploy: bin/dynamo-local ## Take operator and webhooks away; definitions and graphs stay
	@sh tools/deploy.sh undeploy

.PHONY: docker-build
docker-build: ## Build the image IMG with a container engine; make images needs none
	@sh tools/engine.sh build

.PHONY: docker-push
docker-push: ## Push the image IMG with a container engine
	@sh tools/engine.sh push

.PHONY: docker-buildx
docker-buildx: ## Build the image IMG for PLATFORMS with a container engine, and push it
	@sh tools/engine.sh buildx

.PHONY: clean
clean: ## Remove bin/ and dist/
	@rm -rf bin dist

# Says early and clearly what is missing on this machine.
.PHONY: prerequisites
prerequisites:
	@sh tools/prerequisites.sh
