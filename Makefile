# `make` lists what can be done here.
SHELL := bash
.DEFAULT_GOAL := help

CARGO ?= cargo
# make demo KEEP=1 leaves the sandbox running.
KEEP ?=
# make e2e ARGS=a14 or make cells ARGS=w07 runs some tests only.
ARGS ?=
# make mutants FILES='src/gateway/policies/decide.rs' judges the mutations of some files only; FILES=survivors those that
# survived the last run.
FILES ?= all
# make image IMAGE=registry.example.com/fedgate:0.1.0 BUILDER=podman
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
IMAGE ?= fedgate:$(VERSION)
BUILDER ?= $(firstword $(foreach tool,podman docker buildah nerdctl,$(shell command -v $(tool))))
FEDGATE := $(CARGO) run --quiet --bin fedgate --
SANDBOX := $(CARGO) run --quiet --bin fedgate-sandbox --
# Around a suite that a release needs: notes that it has passed on this commit.
PASSED := @packaging/release/passed.sh

.PHONY: help demo test build install image prepare lint manifests docs sandbox down e2e cells platform console chaos bench bench-cells bench-scale mutants mutants-kept release clean \
  test-e2e test-others

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## Show a Workload's way through all planes and back; KEEP=1 leaves everything running
	@$(SANDBOX) demo $(if $(filter-out 0 no false,$(KEEP)),--keep)

# The tests that `cargo test` leaves out (Cargo.toml), but for chaos, which is to have the machine for itself.
LONG_TESTS := --test e2e --test cells --test platform --test prove --test mutants

# Tests build the executables with features of their own: `build` and `prepare` would build everything a second time.
# The suite of federation waits most of its time, so that the others run beside it.
test: ## Run every test: unit, interpreter cases, generated files, end to end, the kept mutations, and 20 s of chaos
	@mkdir -p target
	$(PASSED) begin test
	$(CARGO) test --workspace --no-run
	$(CARGO) test --workspace --no-run $(LONG_TESTS)
	$(or $(CARGO_TARGET_DIR),target)/debug/fedgate-sandbox prepare
	@$(MAKE) --no-print-directory --keep-going --jobs=2 test-beside test-others
	@if grep -hE '^test .* \.\.\. ignored' target/test.log target/beside.log | grep -vF '[needs KARMADA_BIN_DIR]'; then echo 'make test: tests were skipped, see above'; exit 1; fi
	FEDGATE_CHAOS_SECONDS=20 $(CARGO) test --workspace --test chaos
	@awk '/^test result: ok/ { passed += $$4 } /\[needs KARMADA_BIN_DIR\]/ { skipped += 1 } \
	  END { print "make test: " passed " tests passed, none failed, " skipped + 0 " were skipped: they need KARMADA_BIN_DIR" }' target/test.log target/beside.log
	$(PASSED) end test

# Printed when they have ended, so that they stand in one piece in the others' output. Those that only compute are nice to the
# suites, whose tests have time limits.
test-beside:
	@echo 'e2e, platform and the kept mutations run beside the others; until they have ended their output is in target/beside.log.'
	@{ $(CARGO) test --workspace --no-fail-fast --test e2e --test platform || failed=1; \
	  nice $(CARGO) test --workspace --test mutants || failed=1; \
	  exit $${failed:-0}; } >target/beside.log 2>&1; passed=$$?; cat target/beside.log; exit $$passed

# The proofs come first: the tests of e2e that run side by side keep the machine busy by themselves.
test-others:
	@set -o pipefail; { nice $(CARGO) test --workspace --test prove || failed=1; \
	  $(CARGO) test --workspace --no-fail-fast || failed=1; \
	  $(CARGO) test --workspace --no-fail-fast --test cells || failed=1; \
	  exit $${failed:-0}; } 2>&1 | tee target/test.log

build: ## Build the executables, unoptimized
	$(CARGO) build --workspace --bins

install: ## Build fedgate and kubectl-compute, optimized, and install them where cargo installs executables
	$(CARGO) install --path . --locked --bin fedgate
	$(CARGO) install --path crates/cli --locked
	@folder=$$(dirname "$$(command -v kubectl-compute)") && ln -sf kubectl-compute "$$folder/kubectl_complete-compute" && \
	  echo "kubectl completes 'kubectl compute' through $$folder/kubectl_complete-compute"

image: ## Build the container image; IMAGE=name:tag, BUILDER=podman, docker or another
	@if [ -z "$(BUILDER)" ]; then echo 'make image: none of podman, docker, buildah, nerdctl is here; set BUILDER'; exit 1; fi
	$(BUILDER) build --file Containerfile --tag $(IMAGE) .

prepare: build ## Build etcd, kube-apiserver and its controller manager, once, unless KUBEBUILDER_ASSETS has them
	@$(SANDBOX) prepare

lint: ## Check format, clippy, licenses and advisories
	$(PASSED) begin lint
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path tests/console/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy --workspace --test chaos $(LONG_TESTS) -- -D warnings
	$(CARGO) clippy --no-default-features --bin fedgate -- -D warnings  # as an image is built
	@if $(CARGO) deny --version >/dev/null 2>&1; then \
	  $(CARGO) deny check && $(PASSED:@%=%) end lint; \
	else \
	  echo 'cargo-deny is not installed, so licenses and advisories were not checked: cargo install cargo-deny'; \
	fi

manifests: ## Write manifests/ and charts/fedgate anew
	@$(FEDGATE) manifests --write manifests --write-chart charts/fedgate
	FEDGATE_WRITE_DOCS=1 $(CARGO) test --quiet --test alerts each_alert_fires

docs: ## Write docs/reference and packaging/man anew
	FEDGATE_WRITE_DOCS=1 $(CARGO) test --quiet --test reference
	FEDGATE_WRITE_DOCS=1 $(CARGO) test --quiet --package fedgate-cli --lib reference

sandbox: build ## Start hub, projects and cells in the background; `make down` ends them
	@$(SANDBOX) up

down: ## End the sandbox
	@$(SANDBOX) down

e2e: build prepare ## Run the end-to-end suite of federation alone; ARGS=a14 selects tests
	$(CARGO) test --test e2e -- $(ARGS)

cells: build prepare ## Run the end-to-end suite of cells alone; ARGS=w07 selects tests
	$(CARGO) test --test cells -- $(ARGS)

platform: build prepare ## Run the end-to-end suite of Milo's projects alone; ARGS=ready selects tests
	$(CARGO) test --test platform -- $(ARGS)

console: ## Check the console in headless Chromium; screenshots and figures in target/console/; ARGS=policy selects tests
	$(PASSED) begin console
	$(CARGO) build --release --bin fedgate  # one of its tests has 10,000 projects
	cd tests/console && FEDGATE_BIN=$(abspath $(or $(CARGO_TARGET_DIR),target))/release/fedgate \
	  $(CARGO) test --locked --target-dir $(abspath $(or $(CARGO_TARGET_DIR),target)) -- --test-threads=1 $(ARGS)
	$(if $(ARGS),@true,$(PASSED) end console)

chaos: build prepare ## Kill and stop gateways, API servers and etcd under load, then compare all planes; results in target/chaos/
	$(CARGO) test --test chaos

mutants-kept: ## Take the kept safeguards away, one at a time, and see the named test of each fail
	$(CARGO) test --test mutants

mutants: ## Change every decision and the indexes, one place at a time, and see the unit tests notice; FILES=src/x.rs does that one alone
	FEDGATE_MUTANTS='$(FILES)' $(CARGO) test --test mutants

bench: prepare ## Measure on real planes, beside a bare client; results in target/bench/
	$(CARGO) bench --bench planes

bench-cells: prepare ## Measure from a Workload to its Instances, on real planes; results in target/bench/
	$(CARGO) bench --bench cells

bench-scale: ## Measure with a thousand projects that a simulator plays; results in target/bench/
	$(CARGO) bench --bench scale

release: ## Write target/release-<version>/, on a clean, tagged commit on which lint, test, console and install have passed
	@packaging/release/make.sh

clean: ## End the sandbox and remove what was built; the planes' executables stay in the cache
	@if [ -x target/debug/fedgate-sandbox ]; then target/debug/fedgate-sandbox down; fi
	$(CARGO) clean
