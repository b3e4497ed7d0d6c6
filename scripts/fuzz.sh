#!/usr/bin/env bash
# Fuzzing. `smoke`: a minute for all targets together, by the fuzzer where cargo-fuzz and a nightly
# toolchain are there, else by the tests that replay the corpora. `run TARGET [RUNS]`: one target, for
# so many executions or without end; what it finds lies in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

targets=(frames jobs tables rows columns results stores streams recovery)

# What is fuzzed is safe code but for little, so a sanitizer would find nothing for its cost. Overflows and broken
# assertions are panics here, and too much time or memory is a finding, too.
fuzz() {
    local target=$1
    shift
    # Found inputs go to a folder of their own: what is checked in stays small.
    mkdir -p "target/corpus/$target"
    local length=4096
    # Longer inputs only take longer.
    case $target in
        jobs) length=2048 ;;
        tables | rows) length=512 ;;
        recovery) length=32 ;;
    esac
    cargo +nightly fuzz run --sanitizer none --fuzz-dir . "$target" \
        "target/corpus/$target" "corpus/$target" -- "-max_len=$length" -timeout=20 -rss_limit_mb=1024 "$@"
}

smoke() {
    if cargo +nightly fuzz --version >/dev/null 2>&1; then
        cargo +nightly fuzz build --sanitizer none --fuzz-dir .
        local target
        for target in "${targets[@]}"; do
            fuzz "$target" -max_total_time=8 -verbosity=0 -print_final_stats=1
        done
    else
        echo "cargo-fuzz or a nightly toolchain is not installed: replaying the corpora by tests"
        cd ..
        cargo test --locked --package sandmill-fuzzing
    fi
}

case ${1:-} in
    smoke) smoke ;;
    run)
        fuzz "${2:?name a target: ${targets[*]}}" "-runs=${3:--1}" -print_final_stats=1
        ;;
    *)
        echo "usage: scripts/fuzz.sh smoke | run TARGET [RUNS]" >&2
        exit 2
        ;;
esac
