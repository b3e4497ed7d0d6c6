#!/usr/bin/env bash
# Runs one job on three agents of this machine, kills an agent and then the leader with SIGKILL, continues the job,
# and compares the output with that of one machine.
# $1: the sandmill binary.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

sandmill=$PWD/$1
export CARGO_TARGET_DIR=$PWD/target/guests
demo=target/cluster-demo
port=14222
files=6000

rm -rf "$demo"
mkdir -p "$demo/shared/in" "$demo/shared/jobs"
component=$("$sandmill" build examples/word-count)
for ((number = 0; number < files; number++)); do
    echo "file $number has words" >"$demo/shared/in/$number.txt"
done
cat >"$demo/shared/job.yaml" <<YAML
name: words
entry_script: $component
inputs: {texts: in}
mini_batch_size: 1
process_count_per_node: 2
node_count: 3
output: out
job_store: jobs
YAML

started=()
trap 'kill -9 "${started[@]}" 2>/dev/null || true' EXIT
target/venv/bin/nats-server -a 127.0.0.1 -p "$port" >"$demo/nats.log" 2>&1 &
started+=($!)
# Waits until a text appears in a file: $1 and $2.
await() {
    for ((try = 0; try < 600; try++)); do
        grep -q "$1" "$2" 2>/dev/null && return
        sleep 0.05
    done
    fail "'$1' does not appear in $2"
}
await "Server is ready" "$demo/nats.log"
broker=(--broker "nats://127.0.0.1:$port")
agents=()
for number in 1 2 3; do
    "$sandmill" node "${broker[@]}" --name "machine-$number" 2>"$demo/machine-$number.log" &
    agents+=($!)
    started+=($!)
    await "waits for jobs" "$demo/machine-$number.log"
done

printf '\n== the job begins on three machines; one machine and then the leader are killed\n'
"$sandmill" run "$demo/shared/job.yaml" "${broker[@]}" --job-dir "$demo/first" --node-timeout 3 2>"$demo/first.log" &
leader=$!
started+=("$leader")
await "note: node 2" "$demo/first.log"
kill -9 "${agents[0]}"
sleep 1
kill -9 "$leader" 2>/dev/null || true
wait "$leader" 2>/dev/null || true
grep -v "%" "$demo/first.log" || true

printf '\n== another machine continues the job\n'
"$sandmill" run "$demo/shared/job.yaml" "${broker[@]}" --job-dir "$demo/second" --node-timeout 3

printf '\n== the same job on one machine\n'
"$sandmill" run "$demo/shared/job.yaml" --broker none --job-dir "$demo/alone" \
    --set node_count=1 --set output="$PWD/$demo/alone-out" --set job_store=
rows() { sort "$1/parallel_run_step.txt"; }
if cmp <(rows "$demo/shared/out") <(rows "$demo/alone-out"); then
    printf '\nBoth outputs have the same %s rows.\n' "$(rows "$demo/alone-out" | wc -l)"
else
    fail "the outputs differ"
fi
