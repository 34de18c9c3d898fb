# `make` lists what can be done here.
SHELL := bash
.DEFAULT_GOAL := help

CARGO ?= cargo
# make demo KEEP=1 leaves the sandbox running.
KEEP ?=
# make e2e ARGS=a14 or make cells ARGS=w07 runs some tests only.
ARGS ?=
# make image IMAGE=registry.example.com/fedgate:0.1.0 BUILDER=podman
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
IMAGE ?= fedgate:$(VERSION)
BUILDER ?= $(firstword $(foreach tool,podman docker buildah nerdctl,$(shell command -v $(tool))))
FEDGATE := $(CARGO) run --quiet --bin fedgate --
SANDBOX := $(CARGO) run --quiet --bin fedgate-sandbox --
# Around a suite that a release needs: notes that it has passed on this commit.
PASSED := @packaging/release/passed.sh

# The parts of `make verify`, each a target of its own: tests/run.sh.
PARTS := unit demo e2e cells platform prove mutants memory chaos
# The programs of the planes, which Go compiles while cargo compiles everything else.
PLANES := dev/sandbox/modules/build.sh planes

.PHONY: help demo test verify $(PARTS:%=verify-%) build install image prepare lint manifests docs sandbox down e2e cells platform \
  console chaos memory bench bench-cells bench-scale release clean

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z][a-z0-9 -]*:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: prepare ## Show a Workload's way through all planes and back; KEEP=1 leaves everything running
	@BIN=$(or $(CARGO_TARGET_DIR),target)/debug KEEP=$(filter-out 0 no false,$(KEEP)) examples/demo.sh

test: ## Run what every commit must pass: all that computes, the proofs coarsely, the demo, and a core of each suite on real planes
	@tests/run.sh test

verify: ## Run every test whole, as before a release; verify-e2e and its like run one part
	$(PASSED) begin verify
	@tests/run.sh verify
	$(PASSED) end verify

$(PARTS:%=verify-%): verify-%:
	@tests/run.sh verify $*

build: ## Build the executables, unoptimized
	$(CARGO) build --workspace --bins

install: ## Build fedgate and kubectl-compute, optimized, and install them where cargo installs executables
	$(CARGO) install --path . --locked --no-default-features --features checks,jemalloc --bin fedgate
	$(CARGO) install --path crates/cli --locked
	@folder=$$(dirname "$$(command -v kubectl-compute)") && ln -sf kubectl-compute "$$folder/kubectl_complete-compute" && \
	  echo "kubectl completes 'kubectl compute' through $$folder/kubectl_complete-compute"

image: ## Build the container image; IMAGE=name:tag, BUILDER=podman, docker or another
	@if [ -z "$(BUILDER)" ]; then echo 'make image: none of podman, docker, buildah, nerdctl is here; set BUILDER'; exit 1; fi
	$(BUILDER) build --file Containerfile --tag $(IMAGE) .

prepare: ## Build the executables, and beside them the planes' programs, once, unless KUBEBUILDER_ASSETS has them
	@echo 'Building the executables with cargo, and the planes with Go if they are not in the cache: about nine minutes from'
	@echo 'empty caches on two cores, seconds later.'
	@$(PLANES) >/dev/null & planes=$$!; status=0; $(CARGO) build --workspace --bins || status=1; wait $$planes || status=1; exit $$status
	@$(SANDBOX) prepare

# Tests and benches that `--all-targets` leaves out: `test = false`, or a feature that they need.
LONG_TESTS := --test chaos --test demo --test e2e --test cells --test platform --test prove --test mutants

lint: ## Check format, clippy, licenses and advisories
	$(PASSED) begin lint
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path tests/console/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy --workspace $(LONG_TESTS) -- -D warnings
	$(CARGO) clippy --no-default-features --bin fedgate -- -D warnings  # as an image is built, but for its allocator
	@if $(CARGO) deny --version >/dev/null 2>&1; then \
	  $(CARGO) deny check && $(PASSED:@%=%) end lint; \
	else \
	  echo 'cargo-deny is not installed, so licenses and advisories were not checked: cargo install cargo-deny'; \
	fi

manifests: ## Write manifests/ and charts/fedgate anew
	@$(FEDGATE) manifests --write manifests --write-chart charts/fedgate
	FEDGATE_WRITE_DOCS=1 $(CARGO) test --quiet --test alerts the_tests_of_alerts

# The schema of the chart's values has the flags, and docs/reference has the values.
docs: manifests ## Write docs/reference and packaging/man anew, and the manifests before
	FEDGATE_WRITE_DOCS=1 $(CARGO) test --quiet --test reference
	FEDGATE_WRITE_DOCS=1 $(CARGO) test --quiet --package fedgate-cli --test reference

sandbox: build ## Start hub, projects and cells in the background; `make down` ends them
	@$(SANDBOX) up

down: ## End the sandbox
	@$(SANDBOX) down

# With --workspace, so that the libraries have the features that `make test` builds them with.
e2e cells platform: prepare ## Run a suite on real planes, whole; ARGS=a14 selects tests
	$(CARGO) test --workspace --test $@ -- --include-ignored $(ARGS)

console: ## Check the console in headless Chromium; screenshots and figures in target/console/; ARGS=policy selects tests
	$(PASSED) begin console
	$(CARGO) build --release --features jemalloc --bin fedgate  # one of its tests has 10,000 projects
	cd tests/console && FEDGATE_BIN=$(abspath $(or $(CARGO_TARGET_DIR),target))/release/fedgate \
	  $(CARGO) test --locked --target-dir $(abspath $(or $(CARGO_TARGET_DIR),target)) -- --test-threads=1 $(ARGS)
	$(if $(ARGS),@true,$(PASSED) end console)

chaos: prepare ## Kill and stop gateways, API servers and etcd under load, then compare all planes; results in target/chaos/
	$(CARGO) test --workspace --test chaos

memory: ## Check what objects take in memory, and the benches' code, with the allocator of releases
	$(CARGO) clippy --features jemalloc --benches --test memory -- -D warnings
	$(CARGO) test --features jemalloc --test memory

bench: prepare ## Measure on real planes, beside a bare client; results in target/bench/
	$(CARGO) bench --features jemalloc --bench planes

bench-cells: prepare ## Measure from a Workload to its Instances, on real planes; results in target/bench/
	$(CARGO) bench --features jemalloc --bench cells

bench-scale: ## Measure with a thousand projects that a simulator plays; results in target/bench/
	$(CARGO) bench --features jemalloc --bench scale

release: ## Write target/release-<version>/, on a clean, tagged commit on which lint, verify and console have passed
	@packaging/release/make.sh

clean: ## End the sandbox and remove what was built; the planes' executables stay in the cache
	@if [ -x target/debug/fedgate-sandbox ]; then target/debug/fedgate-sandbox down; fi
	$(CARGO) clean
