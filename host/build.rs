//! How the program is linked.

use std::env;

/// Each worker is a process of its own, and a fifth of the processor time of its start went into
/// 62,000 relocations. In the packed form they are few bytes to read, which the C library knows since
/// 2.36. A linker that does not know it goes on without.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("HOST") == env::var("TARGET") && knows_packed_relocations() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

fn knows_packed_relocations() -> bool {
    let version = libc_version().unwrap_or_default();
    let numbers: Result<Vec<u32>, _> = version.split('.').map(str::parse).collect();
    numbers.is_ok_and(|numbers| numbers >= vec![2, 36])
}

#[cfg(target_env = "gnu")]
fn libc_version() -> Option<&'static str> {
    unsafe extern "C" {
        fn gnu_get_libc_version() -> *const std::ffi::c_char;
    }
    // SAFETY: it takes nothing and returns a text that is always there.
    unsafe { std::ffi::CStr::from_ptr(gnu_get_libc_version()) }.to_str().ok()
}

#[cfg(not(target_env = "gnu"))]
fn libc_version() -> Option<&'static str> {
    None
}
