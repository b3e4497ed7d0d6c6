"""The peers of `peers.py` that run WebAssembly in a Rust program, Extism and arrow-udf: builds them, from
`benches/peers`. That takes some minutes the first time, as each has a wasmtime of its own."""

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
    """The program with its guest and its threads; None, with a line that says so, where it cannot be built."""
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
    # Flags for this machine's own programs would hide those of guests.
    env = {name: value for name, value in os.environ.items() if name != "RUSTFLAGS"}
    env |= {"CARGO_TARGET_DIR": str(run.BUILDS), **more}
    build = ["cargo", "build", "--release", "--locked", "--quiet", "--package", package, *options]
    subprocess.run(build, cwd=SOURCE, env=env, check=True)


@functools.cache
def guest_toolchain():
    """How cargo builds guests: for rustup's target, or as `sandmill build` does where rustup cannot bring one."""
    libraries = subprocess.run(
        ["rustc", "--print", "target-libdir", "--target", TARGET], stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    add = ["timeout", "120", "rustup", "target", "add", TARGET]
    if any(Path(libraries).glob("libstd-*.rlib")) or subprocess.run(add).returncode == 0:
        return ["--config", f'target.{TARGET}.rustflags=["-C", "target-feature=+simd128"]'], {}
    return ["--config", str(SOURCE / "distribution.toml")], {"RUSTC_BOOTSTRAP": "1"}
