//! Ordinary tests that replay each corpus, and inputs made from it. So they check without a fuzzer that
//! the problems that fuzzing once found stay fixed. `SANDMILL_FUZZ=100000` sets the number of inputs made
//! from each corpus.

use super::{Mutator, columns, frames, jobs, recovery, results, rows, stores, streams, tables};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

/// Calls `target` with each file in `fuzz/corpus/NAME`, and with `count` inputs made from these files.
fn replay(name: &str, target: fn(&[u8]), count: u64) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let inputs: Vec<_> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    assert!(!inputs.is_empty(), "{} is empty", folder.display());
    for (file, input) in files.iter().zip(&inputs) {
        run(target, input, &file.display().to_string());
    }
    let requested = std::env::var("SANDMILL_FUZZ").ok().and_then(|text| text.parse().ok());
    for seed in 0..requested.unwrap_or(count) {
        let bytes = Mutator::new(seed).mutated(&inputs);
        run(target, &bytes, &format!("seed {seed}"));
    }
}

fn run(target: fn(&[u8]), bytes: &[u8], name: &str) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| target(bytes))) {
        eprintln!("{name}: {:?}", bytes.escape_ascii().to_string());
        resume_unwind(payload);
    }
}

#[test]
fn frames_corpus_and_mutations_pass() {
    replay("frames", frames, 20_000);
}

#[test]
fn job_files_corpus_and_mutations_pass() {
    replay("jobs", jobs, 2_000);
}

#[test]
fn tables_corpus_and_mutations_pass() {
    replay("tables", tables, 5_000);
}

#[test]
fn results_corpus_and_mutations_pass() {
    // The code under test catches the panics of the decoder; do not print them.
    std::panic::set_hook(Box::new(|_| ()));
    replay("results", results, 5_000);
}

#[test]
fn rows_corpus_and_mutations_pass() {
    replay("rows", rows, 3_000);
}

#[test]
fn columns_corpus_and_mutations_pass() {
    // The code under test catches the panics of the readers; do not print them.
    std::panic::set_hook(Box::new(|_| ()));
    replay("columns", columns, 1_000);
}

#[test]
fn store_messages_corpus_and_mutations_pass() {
    replay("stores", stores, 20_000);
}

#[test]
fn streams_corpus_and_mutations_pass() {
    // The code under test catches the panics of the decoder; do not print them.
    std::panic::set_hook(Box::new(|_| ()));
    replay("streams", streams, 3_000);
}

#[test]
fn recovery_corpus_and_mutations_pass() {
    replay("recovery", recovery, 60);
}
