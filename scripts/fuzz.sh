#!/usr/bin/env bash
# Fuzzes. `smoke` fuzzes all targets, which takes about a minute. Without cargo-fuzz or a nightly toolchain,
# it runs the tests that replay the corpora instead. `run TARGET [RUNS]` fuzzes one target, for RUNS
# executions, or until you stop it. Findings are in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

targets=(frames jobs tables rows columns results stores streams recovery)

# Fuzzes one target. Uses no sanitizer, because nearly all of the fuzzed code is safe Rust. Overflows and failed
# assertions panic. An input that takes too much time or memory is also a finding.
fuzz() {
    local target=$1
    shift
    # New inputs go to target/corpus, so that the corpus in the repository stays small.
    mkdir -p "target/corpus/$target"
    local length=4096
    # For these targets, longer inputs take more time and find nothing more.
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
