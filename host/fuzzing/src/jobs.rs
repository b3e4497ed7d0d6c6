//! Job files.

use super::scratch;
use sandmill_spec as spec;
use std::path::PathBuf;

thread_local! {
    /// A job file's path; its entry script lies beside it.
    static FILE: PathBuf = scratch::file("script.wasm").with_file_name("job.yaml");
}

/// Between a job file and what is said about it on the command line.
const SET: &str = "\n--set ";

/// A job file, and what is set besides in lines that begin with `--set`. Whatever comes of it, there
/// is a sentence for each error.
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
