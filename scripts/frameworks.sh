#!/usr/bin/env bash
# Tests that entry scripts run inside Ray Data and Spark. Installs Ray and Spark from PyPI into a virtual environment
# of their own below target/, because they are large. Spark also needs Java. `make test` does not run this script;
# `make test-frameworks` does.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

packages="ray[data]==2.60.0 pyspark==4.3.0 pyarrow==26.0.1 pandas==3.1.1"
env=target/frameworks
stamp=$env/installed-${packages//[^a-z0-9.]/+}

if [ ! -e "$stamp" ]; then
    mkdir -p target/setup
    say "installing $packages from PyPI into $env"
    python3 -m venv --clear "$env" >target/setup/frameworks.log 2>&1 || fail "no virtual environment: target/setup/frameworks.log says why"
    # shellcheck disable=SC2086 # a list of words
    "$env/bin/python" -m pip install --quiet --disable-pip-version-check $packages >>target/setup/frameworks.log 2>&1 ||
        fail "pip could not install $packages; target/setup/frameworks.log says more"
    touch "$stamp"
fi
have java || say "Java is not installed: the test of Spark is skipped"
SANDMILL_BIN=$PWD/target/debug/sandmill SANDMILL_CACHE_DIR=$PWD/target/test-cache exec "$env/bin/python" python/tests/frameworks.py
