# The commands of this repository; `make help` lists them. Each command installs what it needs.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo cluster-demo quick test test-frameworks test-science without wheel bench gpu fuzz lint fmt setup javascript python-env node-env python-guest python-light python-science test-guests clean

# All guests share one folder of build outputs.
guest_target := $(CURDIR)/target/guests
python_guest := target/guests/python.wasm
nextest := $(shell command -v cargo-nextest)
# Tests wait for processes much of their time, so 1.5 tests per processor keep the processors busy.
test_threads := $(shell echo $$(($$(nproc) * 3 / 2)))
# Options to build the program without its features. The features change the code of only these packages, so
# cargo does not compile the others again.
without := --locked --no-default-features --features sandmill-without/alone $(addprefix --package ,\
	sandmill sandmill-guest-host sandmill-node sandmill-store sandmill-without)

help: ## List the commands.
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' Makefile | expand -t 16

# Builds the program as the tests do, so that both share compiled code. `sandmill-without` selects the same
# features of libraries.
demo: setup ## Run two examples on real data and compare them with scikit-learn.
	@cargo build --locked --package sandmill --package sandmill-without --bin sandmill
	@scripts/demo.sh target/debug/sandmill

cluster-demo: setup python-env ## Run one job on three agents, and kill an agent and the leader.
	@cargo build --locked --package sandmill --package sandmill-without --bin sandmill
	@scripts/cluster-demo.sh target/debug/sandmill

quick: ## Run the unit tests of a crate, as in `make quick CRATE=data`, or of all crates with changes.
	@scripts/quick.sh $(CRATE)

# Builds the workspace once, with all targets that the tests need, including the binary.
test: setup ## Run all tests.
	cargo build --locked --workspace --all-targets
	@$(MAKE) --no-print-directory without test-guests python-env node-env python-guest python-light javascript
ifneq ($(nextest),)
	cargo nextest run $(without) --lib
	@rm -f target/nextest/all/tests.xml
	@cargo nextest run --locked --workspace --profile all --test-threads $(test_threads); failed=$$?; scripts/slowest.py; exit $$failed
else
	@echo "cargo-nextest is not installed: using cargo test"
	cargo test $(without) --lib --no-fail-fast
	cargo test --locked --workspace --all-targets --no-fail-fast
endif
	cargo test --locked --doc --workspace
	scripts/examples.sh examples test --quiet
	@SANDMILL_CACHE_DIR=$(CURDIR)/target/science-cache target/debug/sandmill doctor | grep -q 'ok *Python scripts, science' || \
		echo "skipped: the tests of the science runtime, which make test-science installs"

# The end-to-end tests also run this binary.
without:
	cargo build $(without) --lib --tests --bin sandmill-without

# Builds the guests that the end-to-end tests run, in target/guests.
test-guests:
	CARGO_TARGET_DIR=$(guest_target) target/debug/sandmill build tests/guests --examples
	CARGO_TARGET_DIR=$(guest_target) target/debug/sandmill build tests/guests/tables --examples

# Installs ONNX Runtime and the other Python packages of the tests, and nats-server, the broker of jobs on several
# machines.
python-env:
	@scripts/python-env.sh

# Installs Azurite, a server that emulates Azure Blob Storage.
node-env:
	@scripts/node-env.sh

python-guest: $(python_guest)

$(python_guest): $(shell find tests/guests/python wit -type f -not -path '*/__pycache__/*' 2>/dev/null) scripts/python-env.sh
	@scripts/python-env.sh
	@mkdir -p $(@D)
	target/venv/bin/componentize-py -d wit -w entry-script componentize app -p tests/guests/python -o $@.part
	@mv $@.part $@

# Installs the runtime of JavaScript scripts in the cache of the tests. It uses the npm that also installs
# Azurite.
javascript: node-env
	@SANDMILL_CACHE_DIR=$(CURDIR)/target/test-cache target/debug/sandmill javascript install

# Installs the light runtime of Python scripts in the cache of the tests. Does nothing if this version is
# installed.
python-light: python-env
	@SANDMILL_CACHE_DIR=$(CURDIR)/target/test-cache VIRTUAL_ENV=$(CURDIR)/target/venv target/debug/sandmill python install light

# Installs both runtimes in a separate cache: compiling numpy, pandas and the others takes minutes and 2.2 GB
# of memory.
python-science: python-light
	@mkdir -p -m 700 target/science-cache
	@SANDMILL_CACHE_DIR=$(CURDIR)/target/science-cache VIRTUAL_ENV=$(CURDIR)/target/venv target/debug/sandmill python install light --from target/test-cache/runtimes
	@SANDMILL_CACHE_DIR=$(CURDIR)/target/science-cache VIRTUAL_ENV=$(CURDIR)/target/venv target/debug/sandmill python install science

# Runs the tests that need the science runtime. `make test` skips them if it is not installed.
test-science:
	cargo build --locked --workspace --all-targets
	@$(MAKE) --no-print-directory python-science
	SANDMILL_SCIENCE=required cargo test --locked --workspace --test science -- --test-threads 1

test-frameworks: ## Run entry scripts from Ray Data and Spark; downloads both (600 MB). After `make test`.
	@scripts/frameworks.sh

wheel: ## Make the package for pip, with the program for glibc 2.28 and later, in target/wheel.
	@scripts/wheel.sh

bench: setup ## Measure against native code; needs python3.
	cargo build --profile dist --locked --package sandmill
	python3 benches/run.py

gpu: ## Test and measure what needs a GPU; for a machine without cargo see scripts/gpu.sh.
	@scripts/gpu.sh

fuzz: ## Fuzz each target for a few seconds; needs cargo-fuzz and a nightly toolchain.
	@scripts/fuzz.sh smoke

fmt: ## Format all Rust code.
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml
	cargo fmt --manifest-path benches/peers/Cargo.toml --all
	@scripts/examples.sh all fmt

lint: ## Check formatting, clippy, documentation, scripts and dependencies.
	@scripts/lint.sh

setup:
	@scripts/setup.sh

clean: ## Delete all build outputs.
	rm -rf target
