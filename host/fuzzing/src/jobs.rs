//! Job files.

use super::scratch;
use sandmill_spec as spec;
use std::path::PathBuf;

thread_local! {
    /// The path of a job file; its entry script is next to it.
    static FILE: PathBuf = scratch::file("script.wasm").with_file_name("job.yaml");
}

/// Precedes each override that follows the job file, as on the command line.
const OVERRIDE_SEPARATOR: &str = "\n--set ";

/// Reads a job file, which may be followed by overrides of the form `--set KEY=VALUE`. Either the job
/// is valid, or each error has a message.
pub fn jobs(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut pieces = text.split(OVERRIDE_SEPARATOR);
    let file = pieces.next().unwrap_or_default();
    let overrides: Vec<_> = pieces
        .filter_map(|piece| piece.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    match FILE.with(|path| spec::load_text(path, file, &overrides)) {
        Ok(job) => assert!(!job.name.is_empty()),
        Err(errors) => assert!(!errors.to_string().is_empty()),
    }
}
