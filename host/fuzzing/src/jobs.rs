//! Job files.

use super::scratch;
use sandmill_spec as spec;
use std::path::PathBuf;

thread_local! {
    /// The path of a job file; its entry script is next to it.
    static FILE: PathBuf = scratch::file("script.wasm").with_file_name("job.yaml");
}

/// Separates the job file from each override of the command line.
const SET: &str = "\n--set ";

/// A job file, followed by overrides, each after a line that begins with `--set`. Either the job is valid, or
/// each error has a message.
pub fn jobs(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut pieces = text.split(SET);
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
