"""Builds Extism and arrow-udf for `peers.py`, from `benches/peers`. Both run WebAssembly in a Rust program. The
first build takes some minutes, because each program compiles its own wasmtime."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import run

NAMES = ["extism", "arrow-udf"]
SOURCE = run.ROOT / "benches" / "peers"
GUEST_TARGET = "wasm32-wasip1"


@functools.cache
def command(engine):
    """The command: the program, its guest and the number of threads. If the build fails, prints a message and
    returns None."""
    print(f"building {engine} ...", file=sys.stderr)
    options, environment = guest_toolchain()
    try:
        cargo_build(f"bench-{engine}")
        cargo_build(f"bench-{engine}-guest", "--target", GUEST_TARGET, *options, **environment)
    except subprocess.CalledProcessError as error:
        print(f"{engine} is skipped: `{' '.join(error.cmd)}` failed", file=sys.stderr)
        return None
    guest = f"bench_{engine.replace('-', '_')}_guest.wasm"
    return [run.BUILDS / "release" / f"bench-{engine}", run.BUILDS / GUEST_TARGET / "release" / guest, run.WORKERS]


def cargo_build(package, *options, **environment):
    # RUSTFLAGS for native programs would override the flags of guests.
    env = {name: value for name, value in os.environ.items() if name != "RUSTFLAGS"}
    env |= {"CARGO_TARGET_DIR": str(run.BUILDS), **environment}
    build = ["cargo", "build", "--release", "--locked", "--quiet", "--package", package, *options]
    subprocess.run(build, cwd=SOURCE, env=env, check=True)


@functools.cache
def guest_toolchain():
    """The options and environment variables with which cargo builds guests. Uses rustup's target. If rustup cannot
    add the target, uses the distribution's compiler, as `sandmill build` does."""
    libraries = subprocess.run(
        ["rustc", "--print", "target-libdir", "--target", GUEST_TARGET], stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    add = ["timeout", "120", "rustup", "target", "add", GUEST_TARGET]
    if any(Path(libraries).glob("libstd-*.rlib")) or subprocess.run(add).returncode == 0:
        return ["--config", f'target.{GUEST_TARGET}.rustflags=["-C", "target-feature=+simd128"]'], {}
    return ["--config", str(SOURCE / "distribution.toml")], {"RUSTC_BOOTSTRAP": "1"}
