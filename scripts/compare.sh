#!/usr/bin/env bash
# Compares the rows of a job's output with expected rows, in any order, and prints how many are equal. Fails if any
# row differs. $1: the output file. $2: a file with the expected rows, made with scikit-learn: lines, or CSV with a
# header. Numbers are equal if the first six decimal places are equal.
set -euo pipefail
export LC_ALL=C

# Prints the rows of a file in the format of an output file, sorted. $2: the separator of fields. $3: the
# number of header lines.
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
expected_count=$(wc -l <<<"$expected")
actual_count=$(wc -l <<<"$actual")
equal_count=$(comm -12 <(echo "$actual") <(echo "$expected") | wc -l)
printf "%s of %s rows equal scikit-learn's predictions.\n" "$equal_count" "$expected_count"
if [ "$equal_count" != "$expected_count" ] || [ "$actual_count" != "$expected_count" ]; then
    printf 'error: %s has %s rows; the first rows that differ:\n' "$1" "$actual_count" >&2
    diff <(echo "$actual") <(echo "$expected") | head -n 6 >&2 || true
    exit 1
fi
