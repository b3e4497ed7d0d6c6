#!/usr/bin/env bash
# How many rows of a job's output are the expected ones, in whatever order. Fails unless all are.
# $1: the output file; $2: the expected rows, made with scikit-learn: lines, or CSV with a header.
# Numbers count as equal when six digits after the point are.
set -euo pipefail
export LC_ALL=C

# The rows of a file in the form of an output file, sorted. $2: what stands between fields, if anything.
rows() {
    awk -F "$2" -v header="$3" 'NR > header {
        for (i = 1; i <= NF; i++) if ($i ~ /^-?[0-9]+\.[0-9]+(e-?[0-9]+)?$/) $i = sprintf("%.6f", $i)
        $1 = $1
        print
    }' "$1" | sort
}

case $2 in
*.csv) expected=$(rows "$2" , 1) ;;
*) expected=$(rows "$2" ' ' 0) ;;
esac
actual=$(rows "$1" ' ' 0)
wanted=$(wc -l <<<"$expected")
found=$(wc -l <<<"$actual")
equal=$(comm -12 <(echo "$actual") <(echo "$expected") | wc -l)
printf "%s of %s rows equal scikit-learn's predictions.\n" "$equal" "$wanted"
if [ "$equal" != "$wanted" ] || [ "$found" != "$wanted" ]; then
    printf 'error: %s holds %s rows; the first that differ:\n' "$1" "$found" >&2
    diff <(echo "$actual") <(echo "$expected") | head -n 6 >&2 || true
    exit 1
fi
