//! Makes the light runtime: componentize-py builds a component from the sources in this program.

use super::Runtime;
use super::error::InstallError;
use super::fetch::{fetch, python, run, tool};
use super::sources::{WORLD_FILE, write_light};
use std::path::Path;

/// Runs componentize-py, like its own start script.
const SCRIPT: &str = "import sys; from componentize_py import script; sys.exit(script())";

/// Makes the runtime, with temporary files in `scratch`.
pub(super) fn make(
    scratch: &Path,
    component: &Path,
    from: Option<&Path>,
    say: &mut dyn FnMut(&str),
) -> Result<(), InstallError> {
    write_light(scratch).map_err(InstallError::write(scratch))?;
    let python = python()?;
    let packages = fetch(Runtime::Light, &python, scratch, from, say)?;
    say("making the light runtime: CPython and its standard library, about 15 seconds");
    let mut make = tool(&python, scratch)?;
    make.env("PYTHONPATH", &packages).args(["-c", SCRIPT, "-d"]);
    make.arg(scratch.join("wit")).arg("-d").arg(scratch.join(WORLD_FILE));
    make.args(["-w", "sandmill:python/light", "componentize", "light", "-p"]);
    make.arg(scratch.join("runtime")).arg("-o").arg(component);
    run(&mut make)
}
