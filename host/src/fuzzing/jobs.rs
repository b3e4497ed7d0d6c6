//! Job files.

use super::scratch::with_file;
use crate::spec;

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
    with_file("script.wasm", b"", |folder| {
        match spec::load_text(&folder.join("job.yaml"), file, &overrides) {
            Ok(job) => assert!(!job.name.is_empty()),
            Err(errors) => assert!(!errors.to_string().is_empty()),
        }
    });
}
