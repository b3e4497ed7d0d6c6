//! Makes the light runtime: componentize-py builds a component from the sources that this program contains.

use super::Runtime;
use super::error::InstallError;
use super::fetch::{fetch, python, run, tool};
use super::sources::{WORLD_FILE, write_light};
use std::path::Path;

/// The Python code that runs componentize-py, like the start script of that package.
const RUN_COMPONENTIZE_PY: &str =
    "import sys; from componentize_py import script; sys.exit(script())";

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
    make.env("PYTHONPATH", &packages).args(["-c", RUN_COMPONENTIZE_PY, "-d"]);
    make.arg(scratch.join("wit")).arg("-d").arg(scratch.join(WORLD_FILE));
    make.args(["-w", "sandmill:python/light", "componentize", "light", "-p"]);
    make.arg(scratch.join("runtime")).arg("-o").arg(component);
    run(&mut make)
}
