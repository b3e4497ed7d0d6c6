#!/usr/bin/env bash
# Runs all static checks. $1: run only this step.
set -euo pipefail
cd "$(dirname "$0")/.."

deny_version=0.20.2

format() {
    cargo fmt --all --check
    cargo fmt --manifest-path fuzz/Cargo.toml --check
    cargo fmt --manifest-path benches/peers/Cargo.toml --all --check
    scripts/examples.sh all fmt --check
}

shell() {
    local script
    for script in scripts/*.sh .ci/run; do
        bash -n "$script"
    done
    if command -v shellcheck >/dev/null; then
        shellcheck --external-sources scripts/*.sh .ci/run
    else
        echo "shellcheck is not installed: only the scripts' syntax was checked"
    fi
    PYTHONPYCACHEPREFIX=target/pycache python3 -m py_compile scripts/*.py benches/*.py tests/formats/*.py tests/models/*.py
}

# Finds words that docs/style.md bans, because there are clearer ones.
words() { python3 scripts/words.py; }

code() {
    cargo clippy --locked --workspace --all-targets -- --deny warnings
    # The command above also enables the feature `testing`, because tests need it. The program must compile
    # without this feature.
    cargo check --locked --package sandmill --bin sandmill
}

# Checks that every set of features compiles, except the full set, which the step `code` checks. The dependencies of
# `tests/without` keep cargo from compiling other crates again.
features() {
    local name set packages=()
    for name in sandmill sandmill-guest-host sandmill-node sandmill-store sandmill-without; do
        packages+=(--package "$name")
    done
    for set in '' inference cuda stores server inference,stores; do
        set=alone${set:+,$set}
        printf -- '-- %s\n' "$set"
        cargo clippy --quiet --locked "${packages[@]}" --no-default-features \
            --features "sandmill-without/${set//,/,sandmill-without/}" --lib --bins --tests -- --deny warnings
    done
}

guests() { scripts/examples.sh all clippy --quiet --all-targets -- --deny warnings; }

documents() {
    RUSTDOCFLAGS="--deny warnings" \
        cargo doc --locked --workspace --no-deps --document-private-items
}

# Checks the dependencies. The checks of licences, sources and bans work offline. The check of security advisories
# needs a database from the network.
dependencies() {
    local deny
    if ! deny=$(command -v cargo-deny); then
        deny=$PWD/target/tools/bin/cargo-deny
        # Build without optimisation, which takes a minute and a half of CPU.
        [ -x "$deny" ] || CARGO_TARGET_DIR=$PWD/target/tools/target CARGO_PROFILE_DEV_DEBUG=0 \
            cargo install --debug --locked --quiet --root target/tools --version "$deny_version" cargo-deny
    fi
    "$deny" --locked check --hide-inclusion-graph bans licenses sources
    if "$deny" --locked fetch db 2>/dev/null; then
        "$deny" --locked check advisories
    else
        echo "the database of advisories cannot be downloaded: advisories were not checked"
    fi
}

for step in ${1:-format shell words code features guests documents dependencies}; do
    printf '== lint: %s\n' "$step"
    "$step"
done
