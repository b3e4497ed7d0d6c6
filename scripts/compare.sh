#!/usr/bin/env bash
# Prints how many rows of a job's output are equal to the expected rows, in any order. Fails unless all are.
# $1: the output file. $2: the expected rows, made with scikit-learn: lines, or CSV with a header.
# Numbers are equal if their first six decimal places are.
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
wanted=$(wc -l <<<"$expected")
found=$(wc -l <<<"$actual")
equal=$(comm -12 <(echo "$actual") <(echo "$expected") | wc -l)
printf "%s of %s rows equal scikit-learn's predictions.\n" "$equal" "$wanted"
if [ "$equal" != "$wanted" ] || [ "$found" != "$wanted" ]; then
    printf 'error: %s holds %s rows; the first that differ:\n' "$1" "$found" >&2
    diff <(echo "$actual") <(echo "$expected") | head -n 6 >&2 || true
    exit 1
fi
