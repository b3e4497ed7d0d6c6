//! Makes the JavaScript runtime. The user's npm downloads tools, which build a component from the sources
//! that this program contains.

use super::error::InstallError;
use super::fetch::{run, tool};
use super::sources::{JAVASCRIPT_WORLD, write_javascript};
use crate::compile::in_path;
use std::path::Path;

/// Makes the runtime, with temporary files in `scratch`.
pub(super) fn make(
    scratch: &Path,
    component: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(), InstallError> {
    let [npm, node] = ["npm", "node"].map(|name| in_path(name).ok_or(InstallError::NoNode));
    let (npm, node) = (npm?, node?);
    let folder = scratch.join("javascript");
    write_javascript(&folder).map_err(InstallError::write(&folder))?;
    say("fetching componentize-qjs, esbuild and sucrase from npm, 20 MB");
    let mut fetch = tool(&npm, scratch)?;
    // npm checks the downloads against the digests in the lock file. Scripts of packages do not run.
    fetch.current_dir(&folder).args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    run(fetch.arg("--loglevel=error"))?;
    say("making the JavaScript runtime: QuickJS, some seconds");
    let packages = folder.join("node_modules");
    let bundle = folder.join("bundle.js");
    let mut bundling = tool(&node, scratch)?;
    bundling.arg(packages.join("esbuild/bin/esbuild")).arg(folder.join("runtime/main.js"));
    bundling.args(["--bundle", "--format=esm", "--platform=neutral", "--main-fields=module,main"]);
    bundling.args(["--external:sandmill:*", "--external:wasi:*", "--log-level=warning"]);
    let mut outfile = std::ffi::OsString::from("--outfile=");
    outfile.push(&bundle);
    run(bundling.arg(outfile))?;
    let mut making = tool(&node, scratch)?;
    // Without --sync, the component would import WASI's asynchronous interfaces.
    making.arg(packages.join("componentize-qjs/bin/componentize-qjs")).arg("--sync");
    making.arg("--wit").arg(folder.join("wit")).args(["--world", JAVASCRIPT_WORLD]);
    run(making.arg("--js").arg(&bundle).arg("--output").arg(component))
}
