#!/usr/bin/env bash
# Installs the compiler for entry scripts: a Rust toolchain that can build for WebAssembly. It first tries
# `rustup target add wasm32-wasip2`, then Debian's packages. It does nothing if the toolchain is installed.
# `make` runs this script. Run it again after you changed the toolchain.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

target=wasm32-wasip2
packages="rustc-web rust-web-src wasi-libc lld"
# After a failure, rustup is not tried again for a day, because an attempt takes up to $rustup_seconds seconds.
rustup_failed=target/setup/rustup-cannot-add-$target
rustup_seconds=120

has_rustup_target() {
    local libraries
    libraries=$(rustc --print target-libdir --target $target 2>/dev/null) || return 1
    compgen -G "$libraries/libstd-*.rlib" >/dev/null
}

has_debian_packages() {
    have dpkg-query || return 1
    local package
    for package in $packages; do
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || return 1
    done
}

add_rustup_target() {
    have rustup || { why="rustup is not installed"; return 1; }
    if [ -n "$(find "$rustup_failed" -mtime -1 2>/dev/null)" ]; then
        why="rustup could not add $target earlier today ($rustup_failed says why; delete it to try again)"
        return 1
    fi
    say "adding Rust's $target target (rustup target add $target)"
    mkdir -p target/setup
    # The log is renamed only after a failure, so that an interrupted attempt does not count as a failure.
    if timeout "$rustup_seconds" rustup target add "$target" >"$rustup_failed.part" 2>&1 &&
        has_rustup_target; then
        rm -f "$rustup_failed.part" "$rustup_failed"
        return 0
    fi
    mv "$rustup_failed.part" "$rustup_failed"
    why="rustup could not add $target ($(grep -v '^ *$' "$rustup_failed" | tail -n 1 | cut -c1-200))"
    return 1
}

check_rust() {
    have rustc && have cargo || fail "Rust is missing; install it from https://rustup.rs"
    have cc || fail "a C compiler is missing; install it with: apt-get install gcc"
    local required found
    required=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    found=$(rustc --version | sed 's/^rustc \([0-9.]*\).*/\1/')
    [ "$(printf '%s\n' "$required" "$found" | sort -V | head -n 1)" = "$required" ] ||
        fail "Rust $required or newer is needed, and $found is installed; update it with: rustup update stable"
}

check_rust
has_rustup_target && exit 0
has_debian_packages && exit 0
why=""
add_rustup_target && exit 0
say "$why; trying the packages of the distribution"
# shellcheck disable=SC2086 # a list of words
apt_install $packages ||
    fail "no compiler for WebAssembly: $why, and $apt_why. Install one by hand: rustup target add $target, or the packages $packages"
