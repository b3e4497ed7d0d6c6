#!/usr/bin/env bash
# Runs the tests and measurements that need an NVIDIA GPU, with one command (`make gpu`).
#
#   scripts/gpu.sh pack    builds all that is needed into target/gpu.tar.gz, for a machine that cannot build
#   scripts/gpu.sh         on the machine with the GPU, in the root of the repository: shows the hardware,
#                          runs the tests that need a GPU, and measures throughput. If cargo is installed,
#                          builds first; otherwise unpacks target/gpu.tar.gz. Needs python3 with numpy, onnx and onnxruntime.
#                          Continues after a failure, and lists the failures at the end.
#
# SANDMILL_CUDA_LIBRARIES and CUDA_HOME name the folders of CUDA's libraries, as for any job. They are not
# needed for libraries in python3's packages.
set -euo pipefail
cd "$(dirname "$0")/.."
packed=target/gpu

pack() {
    cargo build --locked --profile dist --package sandmill
    cargo build --locked --workspace --all-targets
    make --no-print-directory test-guests
    (cd benches/native && CARGO_TARGET_DIR=../../target/outside cargo build --locked --release --features tract)
    rm -rf "$packed" "$packed.tar.gz"
    mkdir -p "$packed/guests"
    cp target/dist/sandmill "$packed/sandmill"
    strip -o "$packed/bench-native" target/outside/release/bench-native
    # shellcheck disable=SC2012
    strip -o "$packed/inference" "$(ls -t target/debug/deps/inference-* | grep -v '\.d$' | head -n 1)"
    local guests=target/guests/wasm32-wasip2/release
    local build=(env CARGO_TARGET_DIR="$PWD/target/guests" target/dist/sandmill build)
    cp "$guests"/examples/{computes,echo_files,hostile_files}.wasm "$packed/guests"
    cp "$("${build[@]}" examples/digit-identification)" "$packed/guests/digit_identification.wasm"
    cp "$("${build[@]}" benches/guests/infer)" "$packed/guests/infer.wasm"
    tar -C target -czf "$packed.tar.gz" gpu
    ls -l "$packed.tar.gz"
}

failed=()
# Runs a command. Notes if it failed, and prints how long it took.
step() {
    local begun=$SECONDS
    printf '\n#### %s\n' "$*"
    "$@" || failed+=("$*")
    printf '#### %s s\n' "$((SECONDS - begun))"
}

# Prints the folders of CUDA's toolkit, then the folders of the CUDA libraries in python3's packages.
cuda_libraries() {
    local packages folder
    packages=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    for folder in /usr/local/cuda/lib64 /usr/local/nvidia/lib64 "$packages"/nvidia/*/lib; do
        [ ! -d "$folder" ] || printf '%s:' "$folder"
    done | sed 's/:$//'
}

# Builds if cargo is installed. Otherwise unpacks.
prepare() {
    if command -v cargo >/dev/null; then
        pack
    else
        tar -C target -xf "$packed.tar.gz"
    fi
}

# Runs a job with the wall. If it fails, runs it again without the wall, which shows whether the wall blocks
# CUDA.
first_job() {
    local job=target/gpu/first data=$PWD/examples/digit-identification/data mode
    for mode in required off; do
        rm -rf "$job" && mkdir -p "$job"
        cat >"$job/job.yaml" <<END
name: digits
entry_script: $PWD/$packed/guests/digit_identification.wasm
inputs: {images: $data/images}
models: {digits: {path: $data/models/digits.onnx, backend: tract, device: gpu}}
mini_batch_size: 20
gpus: 1
process_count_per_node: 1
run_max_try: 1
os_sandbox: $mode
END
        "$packed/sandmill" run "$job/job.yaml" --job-dir "$job/job" && break
        find "$job/job/logs" -type f \( -name error.txt -o -name '*.stderr.txt' \) -exec tail -v -n 40 {} + || true
    done
    [ "$mode" = required ]
}

rust_test() { "$packed/inference" --test-threads=1 --nocapture "$@"; }

if [ "${1-}" = pack ]; then
    pack
    exit
fi
prepare
SANDMILL_CUDA_LIBRARIES=${SANDMILL_CUDA_LIBRARIES:-$(cuda_libraries)}
SANDMILL_ONNXRUNTIME=${SANDMILL_ONNXRUNTIME:-$(python3 -c 'import onnxruntime, os; print(os.path.dirname(onnxruntime.__file__))')}
SANDMILL_CACHE_DIR=$PWD/target/test-cache
export SANDMILL_CUDA_LIBRARIES SANDMILL_ONNXRUNTIME SANDMILL_CACHE_DIR
export SANDMILL_PACKED=$PWD/$packed SANDMILL_REQUIRE_GPU=1
mkdir -p target/test-cache
# When CUDA is first used, it starts a program that creates this device. Workers may not start programs, so create
# the device now.
[ -e /dev/nvidia-uvm ] || nvidia-modprobe -u -c=0 || true
step nvidia-smi
step sh -c 'uname -a; ls -l /dev/nvidia* /proc/driver/nvidia; id'
step "$packed/sandmill" doctor
step first_job
step rust_test gpu_real::
step rust_test models_on_a_gpu
# The native programs find CUDA's libraries only by LD_LIBRARY_PATH.
step env LD_LIBRARY_PATH="$SANDMILL_CUDA_LIBRARIES" python3 benches/run.py --rounds 3 gpu
if [ ${#failed[@]} = 0 ]; then
    printf '\n#### all passed\n'
else
    printf '\n#### FAILED: %s' "${failed[@]}"
    printf '\n'
    exit 1
fi
