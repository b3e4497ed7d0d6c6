#!/usr/bin/env bash
# Runs one job on three agents of this machine, which three brokers connect. Kills an agent and then the leader with
# SIGKILL. Another agent continues the job. Compares the output with that of one machine.
# $1: the sandmill binary.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

sandmill=$PWD/$1
export CARGO_TARGET_DIR=$PWD/target/guests
demo=$PWD/target/cluster-demo
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
# Waits until a text appears in a file: $1 and $2.
await() {
    for ((try = 0; try < 1200; try++)); do
        grep -q "$1" "$2" 2>/dev/null && return
        sleep 0.05
    done
    fail "'$1' does not appear in $2"
}
urls=()
for number in 1 2 3; do
    urls+=("nats://127.0.0.1:$((port + number))")
    cat >"$demo/broker-$number.conf" <<CONF
server_name: broker-$number
listen: "127.0.0.1:$((port + number))"
cluster {
  name: demo
  listen: "127.0.0.1:$((port + 10 + number))"
  routes: ["nats://127.0.0.1:$((port + 11))", "nats://127.0.0.1:$((port + 12))", "nats://127.0.0.1:$((port + 13))"]
}
CONF
    target/venv/bin/nats-server -c "$demo/broker-$number.conf" >"$demo/broker-$number.log" 2>&1 &
    started+=($!)
done
for number in 1 2 3; do
    await "Server is ready" "$demo/broker-$number.log"
done
broker=(--broker "$(IFS=,; echo "${urls[*]}")")
agents=()
for number in 1 2 3; do
    "$sandmill" node "${broker[@]}" --name "machine-$number" --jobs-root "$demo/machine-$number" \
        2>"$demo/machine-$number.log" &
    agents+=($!)
    started+=($!)
    await "waits for jobs" "$demo/machine-$number.log"
done

printf '\n== the job begins on three machines; machine-1 and then the leader are killed\n'
"$sandmill" run "$demo/shared/job.yaml" "${broker[@]}" --job-dir "$demo/leader" --node-timeout 3 2>"$demo/leader.log" &
leader=$!
started+=("$leader")
await "note: node 2" "$demo/leader.log"
kill -9 "${agents[0]}"
wait "${agents[0]}" 2>/dev/null || true
sleep 1
kill -9 "$leader" 2>/dev/null || fail "the job has ended before its leader could be killed: choose more files"
wait "$leader" 2>/dev/null || true
grep -v "%" "$demo/leader.log" || true

printf '\n== the agent of another machine continues the job\n'
state=3
for ((try = 0; state == 3 && try < 600; try++)); do
    sleep 0.5
    state=0
    "$sandmill" status words --store "$demo/shared/jobs" --exit-code >"$demo/status.txt" || state=$?
done
cat "$demo"/machine-[23].log
cat "$demo/status.txt"
[ "$state" = 0 ] || fail "the job has not completed"

printf '\n== the same job on one machine\n'
"$sandmill" run "$demo/shared/job.yaml" --broker none --job-dir "$demo/alone" \
    --set node_count=1 --set output="$demo/alone-out" --set job_store=
rows() { sort "$1/parallel_run_step.txt"; }
if cmp <(rows "$demo/shared/out") <(rows "$demo/alone-out"); then
    printf '\nBoth outputs have the same %s rows.\n' "$(rows "$demo/alone-out" | wc -l)"
else
    fail "the outputs differ"
fi
