//! A hostile guest: every `run` writes `--mb N` MB (default 16) to each of stdout, stderr and the log, as
//! lines of 100 bytes. `--one-line` omits the line ends and logs everything in one call. `--binary` writes
//! control characters and invalid UTF-8. Returns the size of each file, as `echo_files` does.

use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results, logging};
use std::io::Write;
use std::path::PathBuf;

struct Guest {
    bytes: usize,
    is_one_line: bool,
    is_binary: bool,
}

impl EntryScript for Guest {
    type Input = Files;

    fn init(job: &Job) -> Result<Self> {
        let mb = job.argument("--mb").map_or(Ok(16), str::parse::<usize>)?;
        let has = |name: &str| job.arguments().iter().any(|a| a == name);
        Ok(Guest { bytes: mb << 20, is_one_line: has("--one-line"), is_binary: has("--binary") })
    }

    fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
        let line: Vec<u8> = match self.is_binary {
            true => b"\x1b[2J\x00\xff\xfe\x1b]0;title\x07\r".repeat(5),
            false => vec![b'x'; 99],
        };
        let mut text = Vec::with_capacity(self.bytes + 100);
        while text.len() < self.bytes {
            text.extend_from_slice(&line);
            if !self.is_one_line {
                text.push(b'\n');
            }
        }
        // The host may refuse a part; that part is lost, and the guest continues.
        let _ = std::io::stdout().write_all(&text);
        let _ = std::io::stderr().write_all(&text);
        let log = String::from_utf8_lossy(&text);
        match self.is_one_line {
            true => logging::info(&*log),
            false => log.lines().for_each(logging::info),
        }
        test_guests::sizes(files, |file| sandmill_guest::read(file))
    }
}

sandmill_guest::export!(Guest);
