#!/usr/bin/env bash
# Brings componentize-py, which makes the Python entry script that the tests run, into a virtual
# environment below target/. Does nothing where it is there.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

version=0.25.1
env=target/venv
stamp=$env/componentize-py-$version
# A virtual environment breaks when the Python that it was made with goes away.
if [ -e "$stamp" ] && "$env/bin/python" -c '' 2>/dev/null; then
    exit 0
fi

make_env() { python3 -m venv --clear "$env" >target/setup/venv.log 2>&1; }

mkdir -p target/setup
say "installing componentize-py $version from PyPI into $env"
if ! have python3 || ! make_env; then
    apt_install python3 python3-venv && make_env ||
        fail "no Python to make the Python entry script with: ${apt_why:-see target/setup/venv.log}. Install python3 and python3-venv"
fi
"$env/bin/python" -m pip install --quiet --disable-pip-version-check "componentize-py==$version" \
    >target/setup/pip.log 2>&1 </dev/null ||
    fail "pip could not install componentize-py $version ($(grep -i error target/setup/pip.log | tail -n 1 | cut -c1-200)); target/setup/pip.log says more"
touch "$stamp"
