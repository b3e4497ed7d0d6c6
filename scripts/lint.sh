#!/usr/bin/env bash
# Everything that is checked without running it. $1: only this step.
set -euo pipefail
cd "$(dirname "$0")/.."

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
    PYTHONPYCACHEPREFIX=target/pycache python3 -m py_compile benches/*.py tests/formats/*.py tests/models/*.py
}

code() {
    cargo clippy --locked --workspace --all-targets -- --deny warnings
    # Beside the tests, the crates below have their feature `testing`. The program must do without.
    cargo check --locked --package sandmill --bin sandmill
}

# All sets of features but that of all, which `code` has. Beside `tests/without` no other crate is compiled anew.
features() {
    local name set packages=()
    for name in sandmill sandmill-guest-host sandmill-node sandmill-store sandmill-without; do
        packages+=(--package "$name")
    done
    for set in '' inference cuda stores inference,stores; do
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

dependencies() {
    if command -v cargo-deny >/dev/null; then
        cargo deny --locked check
    else
        echo "cargo-deny is not installed: licences and advisories were not checked"
    fi
}

for step in ${1:-format shell code features guests documents dependencies}; do
    printf '== lint: %s\n' "$step"
    "$step"
done
