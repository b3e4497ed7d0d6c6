#!/usr/bin/env bash
# Runs two examples as anyone would and holds what comes out against what scikit-learn predicted.
# $1: the sandmill binary.
set -euo pipefail
cd "$(dirname "$0")/.."
sandmill=$1
export CARGO_TARGET_DIR=$PWD/target/guests

for example in digit-identification iris; do
    job_dir=target/demo/$example
    printf '\n== examples/%s\n' "$example"
    "$sandmill" run "examples/$example/job.yaml" --job-dir "$job_dir" --overwrite
    # One file of output, and one of expected rows.
    actual=$(echo "$job_dir"/output/*)
    printf '\nThe first lines of %s:\n' "$actual"
    head -n 5 "$actual"
    scripts/compare.sh "$actual" "$(echo "examples/$example/expected/"*)"
done
