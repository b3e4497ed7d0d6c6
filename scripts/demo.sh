#!/usr/bin/env bash
# Runs two examples as a user would, and compares their outputs with scikit-learn's predictions.
# $1: the sandmill binary.
set -euo pipefail
cd "$(dirname "$0")/.."
sandmill=$1
export CARGO_TARGET_DIR=$PWD/target/guests

for example in digit-identification iris; do
    job_dir=target/demo/$example
    printf '\n== examples/%s\n' "$example"
    "$sandmill" run "examples/$example/job.yaml" --job-dir "$job_dir" --overwrite
    # The output folder and the folder of expected rows have one file each.
    actual=$(echo "$job_dir"/output/*)
    printf '\nThe first lines of %s:\n' "$actual"
    head -n 5 "$actual"
    scripts/compare.sh "$actual" "$(echo "examples/$example/expected/"*)"
done
