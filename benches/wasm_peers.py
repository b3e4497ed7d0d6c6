"""Builds the peers of `peers.py` that run WebAssembly in a Rust program, Extism and arrow-udf, from
`benches/peers`. The first build takes some minutes, because each peer has its own wasmtime."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import run

NAMES = ["extism", "arrow-udf"]
SOURCE = run.ROOT / "benches" / "peers"
TARGET = "wasm32-wasip1"


@functools.cache
def command(engine):
    """The command: the program, its guest and the number of threads. None, after a message, if it cannot be
    built."""
    print(f"building {engine} ...", file=sys.stderr)
    options, more = guest_toolchain()
    try:
        cargo_build(f"bench-{engine}")
        cargo_build(f"bench-{engine}-guest", "--target", TARGET, *options, **more)
    except subprocess.CalledProcessError as error:
        print(f"{engine} is left out: `{' '.join(error.cmd)}` failed", file=sys.stderr)
        return None
    guest = f"bench_{engine.replace('-', '_')}_guest.wasm"
    return [run.BUILDS / "release" / f"bench-{engine}", run.BUILDS / TARGET / "release" / guest, run.WORKERS]


def cargo_build(package, *options, **more):
    # RUSTFLAGS for native programs would override the flags of guests.
    env = {name: value for name, value in os.environ.items() if name != "RUSTFLAGS"}
    env |= {"CARGO_TARGET_DIR": str(run.BUILDS), **more}
    build = ["cargo", "build", "--release", "--locked", "--quiet", "--package", package, *options]
    subprocess.run(build, cwd=SOURCE, env=env, check=True)


@functools.cache
def guest_toolchain():
    """The options and environment with which cargo builds guests: for rustup's target, or, if rustup cannot
    add it, as `sandmill build` does."""
    libraries = subprocess.run(
        ["rustc", "--print", "target-libdir", "--target", TARGET], stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    add = ["timeout", "120", "rustup", "target", "add", TARGET]
    if any(Path(libraries).glob("libstd-*.rlib")) or subprocess.run(add).returncode == 0:
        return ["--config", f'target.{TARGET}.rustflags=["-C", "target-feature=+simd128"]'], {}
    return ["--config", str(SOURCE / "distribution.toml")], {"RUSTC_BOOTSTRAP": "1"}
