//! A hostile guest: exceeds the limit that `--do WHAT` names. It does so in `run`, or in `init` with
//! `--when init`. With `--do moderate`, each call of `run` stays within all limits, but all calls together do
//! not.

use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::path::PathBuf;

const MEGABYTE: usize = 1 << 20;

struct Guest {
    what: String,
    output: PathBuf,
}

impl EntryScript for Guest {
    type Input = Files;

    fn init(job: &Job) -> Result<Self> {
        let what = job.argument("--do").unwrap_or_default().to_owned();
        let guest = Guest { what, output: job.output_dir().to_owned() };
        if job.argument("--when") == Some("init") {
            guest.misbehave(&[])?;
        }
        Ok(guest)
    }

    fn run(&mut self, files: &[PathBuf], context: &MiniBatchContext) -> Result<Results> {
        if self.what == "moderate" {
            return self.moderate(files, &format!("sub{}", context.id));
        }
        self.misbehave(files)
    }
}

impl Guest {
    fn misbehave(&self, files: &[PathBuf]) -> Result<Results> {
        let numbered_path = |number: usize| self.output.join(format!("f{number}"));
        match self.what.as_str() {
            "memory" => {
                (0..u64::MAX).for_each(|_| std::mem::forget(black_box(vec![1_u8; MEGABYTE])))
            }
            "stack" => return Ok(Results::rows([recurse(black_box(1 << 40)).to_string()])),
            "time" => std::thread::sleep(std::time::Duration::from_secs(3600)),
            "fuel" => loop {
                black_box(0);
            },
            "read" => drop(sandmill_guest::read(&files[0])?),
            "results" => return Ok(Results::rows((0..4).map(|_| "r".repeat(MEGABYTE)))),
            "row" => return Ok(Results::rows(["short".to_owned(), "r".repeat(MEGABYTE)])),
            "stdout" => (0..u64::MAX).for_each(|_| println!("{}", "o".repeat(1000))),
            "stderr" => (0..u64::MAX).for_each(|_| eprintln!("{}", "e".repeat(1000))),
            "log" => (0..u64::MAX).for_each(|_| sandmill_guest::log::info!("{}", "l".repeat(1000))),
            "one-line" => (0..u64::MAX).for_each(|_| print!("{}", "o".repeat(1000))),
            "output" => self.fill()?,
            "output-append" => self.append()?,
            "output-size" => File::create(numbered_path(0))?.set_len(4 << 20)?,
            "output-hole" => {
                use std::io::{Seek, SeekFrom};
                let mut file = File::create(numbered_path(0))?;
                file.seek(SeekFrom::Start(4 << 20))?;
                file.write_all(b"far away")?;
            }
            "files" => {
                for number in 0.. {
                    File::create(numbered_path(number))?;
                }
            }
            "folders" => {
                for number in 0.. {
                    fs::create_dir(numbered_path(number))?;
                }
            }
            "handles" => {
                let open = |_| File::open(&files[0]);
                drop((0..).map(open).collect::<std::io::Result<Vec<_>>>()?);
            }
            "transfer" => drop(File::open("/output/".to_owned() + &"p".repeat(2 * MEGABYTE))),
            other => return Err(format!("--do {other}: unknown value").into()),
        }
        Ok(Results::rows(["it is still running"]))
    }

    fn fill(&self) -> Result<()> {
        let mut file = File::create(self.output.join("f"))?;
        loop {
            file.write_all(&[b'x'; 10_000])?;
        }
    }

    fn append(&self) -> Result<()> {
        loop {
            let file = self.output.join("f");
            let mut file = File::options().create(true).append(true).open(file)?;
            file.write_all(&[b'x'; 10_000])?;
        }
    }

    /// Creates a folder with 5 files, opens each file three times, writes 600 KB in total to the files and
    /// 600 KB to stdout, and lists the folder.
    fn moderate(&self, files: &[PathBuf], folder: &str) -> Result<Results> {
        let folder = self.output.join(folder);
        fs::create_dir(&folder)?;
        for number in 0..5 {
            let file = folder.join(format!("f{number}"));
            fs::write(&file, "")?;
            fs::write(&file, "x".repeat(120_000))?;
            File::options().create(true).append(true).open(&file)?;
            println!("{}", "o".repeat(120_000));
        }
        let is_refused = File::create_new(folder.join("f0")).is_err();
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = if entry.file_type()?.is_file() { "file" } else { "other" };
            names.push(format!("{} {kind}", entry.file_name().to_string_lossy()));
        }
        names.sort();
        let is_file = fs::read_dir(&files[0]).is_err();
        let names = names.join(", ");
        Ok(Results::rows([format!("{names}; refused {is_refused}; no folder {is_file}")]))
    }
}

/// Recurses `number` times. Uses only the engine's stack, not the stack in linear memory.
fn recurse(number: u64) -> u64 {
    if number == 0 { 0 } else { recurse(number - 1).wrapping_mul(31) ^ number }
}

sandmill_guest::export!(Guest);
