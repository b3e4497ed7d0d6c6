#!/usr/bin/env bash
# Runs a cargo command in each crate outside of the workspace: the examples, and with `all` also the guests of
# the tests and benchmarks. All these crates build into target/outside. $1: `examples` or `all`. The other
# arguments: the cargo command, e.g. `test --quiet`.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR=$PWD/target/outside
scope=$1
shift

crates=(examples/*/Cargo.toml)
if [ "$scope" = all ]; then
    crates+=(tests/guests/Cargo.toml tests/guests/*/Cargo.toml benches/guests/*/Cargo.toml benches/native/Cargo.toml)
fi
for manifest in "${crates[@]}"; do
    [ -e "$manifest" ] || continue
    # examples/embed is a member of the workspace.
    [ "$manifest" != examples/embed/Cargo.toml ] || continue
    printf '   %s: cargo %s\n' "${manifest%/Cargo.toml}" "$*"
    (cd "${manifest%/Cargo.toml}" && cargo "$@")
done
