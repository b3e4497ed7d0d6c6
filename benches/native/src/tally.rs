//! The job that counts the bytes, lines and words of files.

use crate::process::{Output, panicked};
use crate::tally_kernel;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const MINI_BATCH_FILES: usize = 10;

/// Counts in all files in the subfolders of `folder`.
pub(crate) fn run(folder: &Path, output: &Output, threads: usize) -> io::Result<()> {
    let files = list(folder)?;
    let mini_batches: Vec<&[PathBuf]> = files.chunks(MINI_BATCH_FILES).collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let work = || -> io::Result<()> {
            let mut bytes = Vec::new();
            let mut rows = String::new();
            while let Some(files) = mini_batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                rows.clear();
                for file in *files {
                    bytes.clear();
                    File::open(file)?.read_to_end(&mut bytes)?;
                    let name = file.file_name().unwrap_or_default().to_string_lossy();
                    rows.push_str(&tally_kernel::tally(&name, &bytes));
                    rows.push('\n');
                }
                output.append(rows.as_bytes())?;
            }
            Ok(())
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| Err(panicked())))
    })
}

fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for inner in fs::read_dir(folder)? {
        for file in fs::read_dir(inner?.path())? {
            files.push(file?.path());
        }
    }
    files.sort();
    Ok(files)
}
