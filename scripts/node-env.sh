#!/usr/bin/env bash
# Installs Azurite, a server that emulates Azure Blob Storage, from npm into target/node, for the tests. Does
# nothing if it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

package="azurite@3.37.0"
env=target/node
stamp=$env/$package
# Azurite consists of JavaScript files, so it also needs node.
if [ -e "$stamp" ] && have node; then
    exit 0
fi

mkdir -p target/setup "$env"
if ! have node || ! have npm; then
    apt_install nodejs npm ||
        fail "no node to run $package with: $apt_why. Install nodejs and npm"
fi
say "installing $package from npm into $env"
npm install --prefix "$env" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error "$package" \
    >target/setup/npm.log 2>&1 </dev/null ||
    fail "npm could not install $package ($(tail -n 1 target/setup/npm.log | cut -c1-200)); target/setup/npm.log says more"
touch "$stamp"
