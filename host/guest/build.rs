//! Generates the C bindings of entry scripts from the contract (the WIT files in `wit/`). `sandmill
//! build` copies the bindings into the folder with the user's sources.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use wit_bindgen_c::Opts;
use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::Resolve;

/// The imports that an entry script in C may use. The script's component contains only the imports
/// that the script uses.
const WORLD: &str = "
package sandmill:c;

world entry-script {
    include sandmill:entry/entry-script@0.2.0;
    include sandmill:entry/inference@0.2.0;
}
";

fn main() -> anyhow::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../..");
    let contract = root.join("wit");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", contract.display());
    let target = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    write_bindings(&contract, &target)
}

/// Writes `entry_script.h`, `entry_script.c` and `entry_script_component_type.o`.
fn write_bindings(contract: &Path, target: &Path) -> anyhow::Result<()> {
    let mut resolve = Resolve::default();
    resolve.push_path(contract)?;
    let package = resolve.push_str("c.wit", WORLD)?;
    let world = resolve.select_world(&[package], Some("entry-script"))?;
    let mut files = Files::default();
    Opts::default().build().generate(&mut resolve, world, &mut files)?;
    for (name, bytes) in files.iter() {
        fs::write(target.join(name), bytes)?;
    }
    Ok(())
}
