//! What the benchmarks compare Sandmill with: the same libraries, arithmetic and mini-batches on
//! threads of one process, without a sandbox. It also makes the data.
//!
//!     bench-native make-files FOLDER COUNT
//!     bench-native make-table FILE ROWS
//!     bench-native tally FOLDER OUTPUT THREADS
//!     bench-native convert FROM.csv TO.jsonl|TO.parquet ROWS
//!     bench-native logistic|perceptron FILE OUTPUT THREADS
//!     bench-native infer LIBRARY MODEL IMAGES BATCH,BATCH.. cpu|gpu
//!     bench-native infer-tract MODEL IMAGES BATCH,BATCH..
//!
//! The last one, on a GPU, needs the feature `tract`.

mod convert;
mod generate;
mod infer;
#[cfg(feature = "tract")]
mod infer_tract;
#[path = "../../kernels/logistic.rs"]
mod logistic_kernel;
#[path = "../../kernels/perceptron.rs"]
mod perceptron_kernel;
mod table;
mod tally;
#[path = "../../kernels/tally.rs"]
mod tally_kernel;

use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;
use table::Model;

fn main() -> Result<(), Box<dyn Error>> {
    keep_memory();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["make-files", folder, count] => generate::files(Path::new(folder), count.parse()?)?,
        ["make-table", file, rows] => generate::table(Path::new(file), rows.parse()?)?,
        ["tally", folder, output, threads] => {
            tally::run(Path::new(folder), &Output::create(output)?, threads.parse()?)?;
        }
        ["convert", from, to, rows] => {
            convert::convert(Path::new(from), Path::new(to), rows.parse()?)?;
        }
        ["logistic", file, output, threads] => {
            let output = Output::create(output)?;
            table::run(Path::new(file), &output, threads.parse()?, Model::Logistic)?;
        }
        ["perceptron", file, output, threads] => {
            let output = Output::create(output)?;
            table::run(Path::new(file), &output, threads.parse()?, Model::Perceptron)?;
        }
        ["infer", library, model, images, batches, device] => {
            infer::run(library, model, images.parse()?, batches, device == "gpu")?;
        }
        #[cfg(feature = "tract")]
        ["infer-tract", model, images, batches] => {
            infer_tract::run(model, images.parse()?, batches)?;
        }
        _ => return Err("see the head of main.rs for the commands".into()),
    }
    Ok(())
}

/// Makes the allocator keep memory. Otherwise native code faults the same pages in again for every
/// mini-batch, which costs it a fifth of the table job and would flatter Sandmill.
fn keep_memory() {
    // SAFETY: mallopt only sets numbers of the allocator, and no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
}

/// The one output file that all threads append to.
struct Output(Mutex<File>);

impl Output {
    fn create(path: &str) -> io::Result<Self> {
        File::create(path).map(|file| Self(Mutex::new(file)))
    }

    fn append(&self, rows: &[u8]) -> io::Result<()> {
        let mut file = self.0.lock().map_err(|_| io::Error::other("another thread panicked"))?;
        file.write_all(rows)
    }
}
