#!/usr/bin/env bash
# Installs the compiler for entry scripts: a Rust toolchain that can build for WebAssembly. It first tries
# `rustup target add wasm32-wasip2`, then Debian's packages. It does nothing if the toolchain is installed.
# `make` runs it. Run it again after a change of toolchains.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

target=wasm32-wasip2
packages="rustc-web rust-web-src wasi-libc lld"
# After a failure, rustup is not tried again for a day, because an attempt takes up to $rustup_seconds.
rustup_failed=target/setup/rustup-cannot-add-$target
rustup_seconds=120

rustup_target_is_there() {
    local libraries
    libraries=$(rustc --print target-libdir --target $target 2>/dev/null) || return 1
    compgen -G "$libraries/libstd-*.rlib" >/dev/null
}

debian_packages_are_there() {
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
    # The log gets its name only after a failure, so that an interrupted attempt does not count as a failed
    # one.
    if timeout "$rustup_seconds" rustup target add "$target" >"$rustup_failed.part" 2>&1 &&
        rustup_target_is_there; then
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
    local wanted found
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    found=$(rustc --version | sed 's/^rustc \([0-9.]*\).*/\1/')
    [ "$(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1)" = "$wanted" ] ||
        fail "Rust $wanted or newer is needed, this is $found; update it with: rustup update stable"
}

check_rust
rustup_target_is_there && exit 0
debian_packages_are_there && exit 0
why=""
add_rustup_target && exit 0
say "$why; trying the packages of the distribution"
# shellcheck disable=SC2086 # a list of words
apt_install $packages ||
    fail "no compiler for WebAssembly: $why, and $apt_why. Install one by hand: rustup target add $target, or the packages $packages"
