//! `sandmill build PATH`: makes a component from a guest crate, C sources or a core module.

use crate::compile::{self, CompileError, Compiler};
use std::path::{Path, PathBuf};

/// Builds the folder of a guest crate or of C sources, or converts the file of a core module. Returns the
/// component's path. The path of a component is returned unchanged. With `examples`, builds the crate's
/// examples of type `cdylib` instead, each as a component. `cache_dir` is the folder for compiled code;
/// `None` means the default one. `compiler` parses the components. `say` receives the lines of the build.
///
/// This runs the crate's own build scripts on this machine, without a sandbox.
///
/// # Errors
/// If something is wrong with the path, the crate, the module or the toolchain, or if the component is not an
/// entry script. For an example that is not an entry script, only a note is printed.
pub(super) fn build(
    (path, examples): (&Path, bool),
    cache_dir: Option<&Path>,
    compiler: &Compiler,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<PathBuf>, CompileError> {
    if examples {
        let components = compile::build_guest_examples(path, cache_dir, compiler, say)?;
        for error in components.iter().filter_map(|component| check(component, compiler).err()) {
            say(&format!("note: {error}"));
        }
        return Ok(components);
    }
    let is_folder = path.is_dir();
    let component = if is_folder {
        compile::build_guest_crate(path, cache_dir, compiler, say)
    } else {
        compile::build_module(path, compiler)
    }?;
    check(&component, compiler).map_err(|error| {
        if !path.join("Cargo.toml").is_file() {
            return error;
        }
        CompileError::new(format!(
            "{error}\nDoes the crate call `sandmill_guest::export!(TYPE)` exactly once?"
        ))
    })?;
    Ok(vec![component])
}

/// Checks whether a component imports and exports only the names that the contract allows. Their types are
/// checked when the component is compiled: by `sandmill check`, and before a job.
fn check(component: &Path, compiler: &Compiler) -> Result<(), CompileError> {
    let outline = compiler.outline(component)?;
    compile::check_names(&outline.names)
        .map_err(|error| CompileError::new(format!("{}: {error}", component.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::testing;

    #[test]
    fn a_component_without_exports_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let good = file("good.wasm", &testing::component("run-only", testing::RUN_EMPTY));
        assert_eq!(build((&good, false), None, &Compiler::here(), &mut |_| {}).unwrap(), [good]);
        let empty = file("empty.wasm", &wat::parse_str("(component)").unwrap());
        let error =
            build((&empty, false), None, &Compiler::here(), &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("empty.wasm: the component exports nothing. An entry"), "{error}");
    }
}
