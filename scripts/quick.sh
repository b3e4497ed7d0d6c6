#!/usr/bin/env bash
# Runs the unit tests of the crates that the arguments name (`data`, `leader`, ...). Without arguments, runs the unit
# tests of all crates with uncommitted changes. Takes seconds after the build.
set -euo pipefail
cd "$(dirname "$0")/.."

crates=("$@")
if [ ${#crates[@]} = 0 ]; then
    mapfile -t crates < <(git status --porcelain -- host |
        sed -nE 's|^.. host/src/.*|sandmill|p; s|^.. host/([a-z]+)/src/.*|\1|p' | grep -vx templates | sort -u)
fi
if [ ${#crates[@]} = 0 ]; then
    echo "no crate has uncommitted changes; name a crate: make quick CRATE=data" >&2
    exit 2
fi

known=$(cd host && find . -mindepth 2 -maxdepth 2 -name Cargo.toml | cut -d/ -f2 | grep -vx templates | sort | xargs)
packages=()
for crate in "${crates[@]}"; do
    case " $known sandmill " in
        *" $crate "*) ;;
        *)
            echo "there is no crate '$crate'; there are: $known, and sandmill (the command line)" >&2
            exit 2
            ;;
    esac
    case $crate in
        sandmill) packages+=(--package sandmill) ;;
        # The name `sandmill-guest` is the SDK's.
        guest) packages+=(--package sandmill-guest-host) ;;
        *) packages+=(--package "sandmill-$crate") ;;
    esac
done
if command -v cargo-nextest >/dev/null; then
    cargo nextest run --locked "${packages[@]}"
else
    cargo test --locked "${packages[@]}"
fi
