#!/usr/bin/env bash
# Makes the package for `pip install` in target/wheel: the program and the Python library. zig links the program
# against glibc 2.28 (from 2018), so that it runs on every Linux distribution with this version or a later version.
# Also writes SHA256SUMS. PROFILE names a profile of cargo. The default, dist, is the profile of releases, and takes
# many minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

profile=${PROFILE:-dist}
min_glibc=2.28
packages="maturin==1.16.0 ziglang==0.17.1"
out=$PWD/target/wheel
env=$out/env
stage=$out/package

if [ ! -e "$env/bin/maturin" ]; then
    mkdir -p "$out"
    say "installing $packages from PyPI into $env"
    python3 -m venv --clear "$env" >"$out/pip.log" 2>&1 || fail "no virtual environment: $out/pip.log says why"
    # shellcheck disable=SC2086 # a list of words
    "$env/bin/python" -m pip install --quiet --disable-pip-version-check $packages >>"$out/pip.log" 2>&1 ||
        fail "pip could not install $packages; $out/pip.log says more"
fi

# The modules that the package shares with the runtime of entry scripts are symbolic links in the repository,
# but must be files in a wheel.
rm -rf "$stage" "$out"/*.whl
mkdir -p "$stage"
cp -rL python/package/. "$stage"
find "$stage" -name __pycache__ -prune -exec rm -r {} +
cp LICENSE "$stage"
sed -i "s|^manifest-path = .*|manifest-path = \"$PWD/host/Cargo.toml\"|" "$stage/pyproject.toml"

# The build must not use packed relocations, which need glibc 2.36 or later.
export SANDMILL_PORTABLE=1
(cd "$stage" && PATH=$env/bin:$PATH "$env/bin/maturin" build --profile "$profile" --zig --target x86_64-unknown-linux-gnu \
    --compatibility "manylinux_${min_glibc/./_}" --target-dir "$out/build" --out "$out")

wheel=$(echo "$out"/*.whl)
rm -rf "$out/unpacked"
python3 -m zipfile -e "$wheel" "$out/unpacked"
program=$(find "$out/unpacked" -path '*.data/scripts/sandmill')
program_glibc=$(objdump -T "$program" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
newest=$(printf '%s\n' "GLIBC_$min_glibc" "$program_glibc" | sort -V | tail -n 1)
[ "$newest" = "GLIBC_$min_glibc" ] || fail "the program needs $program_glibc, but it must run with glibc $min_glibc"

# The program must load libraries of the machine on which it runs.
if [ -e target/venv/bin/python ]; then
    chmod +x "$program"
    found=$(VIRTUAL_ENV=$PWD/target/venv "$program" doctor || true)
    case $found in
    *"ok        onnxruntime "*) ;;
    *) fail "the program does not load ONNX Runtime of target/venv: $found" ;;
    esac
else
    say "whether the program loads ONNX Runtime was not tried: make python-env installs it"
fi
(cd "$out" && sha256sum ./*.whl >SHA256SUMS)
say "$wheel: glibc ${program_glibc#GLIBC_} and later; $(stat -c %s "$wheel") bytes"
