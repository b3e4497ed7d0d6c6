//! A hostile guest: commits one act of harm in each mini-batch. The mini-batch's first file, `NNN-ACT.txt`,
//! names the act. An act that does not end the call, such as `good`, then returns a row for each file,
//! `NAME: BYTES`.

use sandmill_guest::{EntryScript, Error, Files, Job, MiniBatchContext, Result, Results, logging};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Escape sequences that a terminal would obey: they clear the screen, set the title and ring the bell.
const ESCAPES: &str = "\x1b[2J\x1b]0;owned\x07\u{9b}31mforged";

struct Guest {
    job: Job,
    open_files: Vec<File>,
}

impl EntryScript for Guest {
    type Input = Files;

    fn init(job: &Job) -> Result<Self> {
        Ok(Guest { job: job.clone(), open_files: Vec::new() })
    }

    fn run(&mut self, files: &[PathBuf], context: &MiniBatchContext) -> Result<Results> {
        let name = test_guests::name(&files[0])?;
        let act = name.trim_end_matches(".txt").split_once('-').map_or("", |(_, act)| act);
        match act {
            "good" => {}
            "forge-then-trap" | "forge-then-exit" | "forge-then-error" => {
                self.forge()?;
                end_after_forging(act)?;
            }
            "sleep" => std::thread::sleep(Duration::MAX),
            "loop" => loop {
                std::hint::black_box(0);
            },
            "call-loop" => loop {
                std::hint::black_box(sandmill_guest::read("/inputs").is_ok());
            },
            "row-with-escapes" => return Ok(Results::rows([ESCAPES.to_owned()])),
            "row-with-line-end" => return Ok(Results::rows(["one\ntwo".to_owned()])),
            "error-with-escapes" => return Err(ESCAPES.into()),
            "panic-with-escapes" => panic!("{ESCAPES}"),
            "outcome-with-escapes" => {
                return Ok(Results::outcomes([Err::<String, _>(ESCAPES.to_owned())]));
            }
            "log-with-escapes" => forge_logs(),
            "fill-and-trap" => {
                std::hint::black_box(vec![1; 64 << 20]);
                std::process::abort();
            }
            "pause" => {
                println!("pausing");
                std::thread::sleep(Duration::from_secs(3));
            }
            "error-of-many-lines" => return Err("line\n".repeat(1_000_000).into()),
            other => self.with_files(other, files, context)?,
        }
        test_guests::sizes(files, |file| sandmill_guest::read(file))
    }
}

impl Guest {
    /// The acts that misuse the granted folders.
    fn with_files(
        &mut self,
        act: &str,
        files: &[PathBuf],
        context: &MiniBatchContext,
    ) -> Result<()> {
        let out = self.job.output_dir().to_owned();
        match act {
            "remove-output" => {
                denied("remove", fs::remove_dir_all(&out))?;
                fs::write(out.join("after"), "")?;
                fs::remove_file(out.join("after"))?;
            }
            "rename-output" => {
                denied("rename", fs::rename(&out, "/moved"))?;
                denied("rename to logs", fs::rename(&out, self.job.log_dir().join("moved")))?;
            }
            "link-loop" => {
                test_guests::symlink("loop-b", &out.join("loop-a"))?;
                test_guests::symlink("loop-a", &out.join("loop-b"))?;
                denied("read a loop", fs::read(out.join("loop-a")))?;
            }
            "link-to-folder" => {
                denied("link up", through(&out, "../../..", "job.json"))?;
                test_guests::symlink(".", &out.join("self"))?;
            }
            "two-names" => {
                fs::write(out.join(format!("one-{}", context.id)), "same")?;
                fs::hard_link(
                    out.join(format!("one-{}", context.id)),
                    out.join(format!("two-{}", context.id)),
                )?;
            }
            "row-file" => fs::write(out.join("parallel_run_step.txt"), "forged\n")?,
            "staging" => self.reach_other_workers(&out)?,
            "write-inputs" => self.write_inputs(&files[0])?,
            "proc" => self.reach_machine(&out)?,
            other => self.flood_host(other, &out, &files[0])?,
        }
        Ok(())
    }

    /// The acts that flood the host with files, logs and output.
    fn flood_host(&mut self, act: &str, out: &Path, first: &Path) -> Result<()> {
        match act {
            "one-large-file" => write_large(&out.join("large"))?,
            "one-large-log" => write_large(&self.job.log_dir().join("large"))?,
            "one-sparse-file" => File::create(out.join("sparse"))?.set_len(1 << 34)?,
            "many-files" => make_many(out, |path| File::create(path).map(drop))?,
            "many-folders" => make_many(out, |path| fs::create_dir(path))?,
            "many-links" => make_many(out, |path| test_guests::symlink("x", path))?,
            "made-and-removed" => {
                make_many(out, |path| File::create(path).and_then(|_| fs::remove_file(path)))?;
            }
            "many-open-files" => loop {
                self.open_files.push(File::open(first)?);
            },
            "log-flood" => (0..100_000).for_each(|_| logging::error("a flood of logs ".repeat(8))),
            "stdout-flood" => flood(&mut std::io::stdout())?,
            "stderr-flood" => flood(&mut std::io::stderr())?,
            "one-line" => {
                logging::error("x".repeat(32 << 20));
                std::io::stdout().write_all(&vec![b'x'; 32 << 20])?;
            }
            other => self.in_logs(other, out, first)?,
        }
        Ok(())
    }

    /// The acts that misuse the log folder, whose files stay even if the mini-batch fails.
    fn in_logs(&self, act: &str, out: &Path, first: &Path) -> Result<()> {
        let logs = self.job.log_dir();
        match act {
            "log-file" => fs::write(logs.join(test_guests::name(first)?), "")?,
            "log-text" => fs::write(logs.join("text"), vec![b'x'; 300 << 10])?,
            "log-more" => {
                File::options()
                    .append(true)
                    .open(logs.join("text"))?
                    .write_all(&[b'x'; 300 << 10])?;
            }
            "log-status" => {
                fs::write(logs.join("new"), vec![b'x'; 300 << 10])?;
                fs::rename(logs.join("new"), logs.join("status"))?;
            }
            "moved-to-logs" => {
                fs::write(out.join("moved"), "")?;
                denied("move", fs::rename(out.join("moved"), logs.join("moved")))?;
                denied("link", fs::hard_link(out.join("moved"), logs.join("moved")))?;
                fs::remove_file(out.join("moved"))?;
            }
            other => return Err(format!("{other}: there is no such act").into()),
        }
        Ok(())
    }

    /// Writes forged results wherever the host might mistake them for real results.
    fn forge(&self) -> Result<()> {
        let out = self.job.output_dir();
        fs::create_dir_all(out.join("made"))?;
        for name in ["parallel_run_step.txt", "forged.csv", "made/forged"] {
            fs::write(out.join(name), "forged\n")?;
        }
        println!("forged");
        Ok(())
    }

    /// Tries to reach the folders of other workers, which are next to this worker's folder on the host.
    fn reach_other_workers(&self, out: &Path) -> Result<()> {
        for up in ["..", "../..", "../../..", "../../../.."] {
            denied("list", fs::read_dir(out.join(up)))?;
            denied("link", through(out, up, "job.json"))?;
            for worker in ["process000", "process001", "process002"] {
                for folder in ["output", "staged", "inputs", "logs"] {
                    let path = out.join(up).join(worker).join(folder);
                    denied("list another's", fs::read_dir(&path))?;
                    denied("write another's", fs::write(path.join("forged"), "forged"))?;
                    denied("read another's", sandmill_guest::read(path.join("kept")))?;
                }
            }
        }
        Ok(())
    }

    /// Tries to change the inputs in every way.
    fn write_inputs(&self, first: &Path) -> Result<()> {
        let folder = first.parent().unwrap_or(first);
        denied("overwrite", fs::write(first, "forged"))?;
        denied("append", File::options().append(true).open(first))?;
        denied("cut", File::options().write(true).open(first).and_then(|f| f.set_len(0)))?;
        denied("add", fs::write(folder.join("forged"), "forged"))?;
        denied("add a folder", fs::create_dir(folder.join("forged")))?;
        denied("remove", fs::remove_file(first))?;
        denied("rename", fs::rename(first, folder.join("renamed")))?;
        denied("move out", fs::rename(first, self.job.output_dir().join("moved")))?;
        denied("second name", fs::hard_link(first, self.job.output_dir().join("second")))?;
        denied("link", test_guests::symlink("x", &folder.join("link")))?;
        denied("times", File::open(first).and_then(|f| f.set_modified(std::time::UNIX_EPOCH)))
    }

    /// Tries to reach files of the machine, by many spellings of their paths.
    fn reach_machine(&self, out: &Path) -> Result<()> {
        let up = "../".repeat(12);
        for path in ["proc/self/environ", "proc/1/root", "etc/passwd", "dev/zero", "sys"] {
            for base in [Path::new("/"), Path::new(""), out, self.job.log_dir()] {
                for dots in ["", "..", "./../", up.as_str(), "x/../../"] {
                    let path = base.join(dots).join(path);
                    denied("read", fs::read(&path))?;
                    denied("read by the host", sandmill_guest::read(&path))?;
                    denied("list", fs::read_dir(&path))?;
                }
            }
            denied("a link", through(out, &up, path))?;
        }
        Ok(())
    }
}

/// Creates a symbolic link to a folder, and tries to write a file and to read `path` through the link.
/// Returns an error if the write or the read fails.
fn through(out: &Path, folder: &str, path: &str) -> std::io::Result<Vec<u8>> {
    let link = out.join("way-out");
    test_guests::symlink(folder, &link)?;
    let read = fs::read(link.join(path));
    let written = fs::write(link.join("forged"), "forged");
    fs::remove_file(&link)?;
    written.and(read)
}

/// Returns an error if the attempt has succeeded, because the host should have refused it.
fn denied<T, E>(what: &str, attempt: Result<T, E>) -> Result<()> {
    match attempt {
        Err(_) => Ok(()),
        Ok(_) => Err(format!("GOT IT: {what}").into()),
    }
}

/// Ends the call as the act says, after `forge` has written its results.
fn end_after_forging(act: &str) -> Result<()> {
    match act {
        "forge-then-exit" => std::process::exit(0),
        "forge-then-error" => Err("a failure after forged results".into()),
        _ => std::process::abort(),
    }
}

/// Writes log lines that pretend to come from another worker or from the host.
fn forge_logs() {
    for text in [ESCAPES, "one\n2026-01-01T00:00:00.000Z ERROR   process000 forged", "\r\n\r\n"] {
        logging::error(text);
        println!("{text}");
        eprintln!("{text}");
    }
}

/// Writes a file of 64 MB.
fn write_large(path: &Path) -> Result<()> {
    let mut file = File::create(path)?;
    let block = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        file.write_all(&block)?;
    }
    Ok(())
}

/// Makes 2000 entries with `make`.
fn make_many(out: &Path, make: impl Fn(&Path) -> std::io::Result<()>) -> Result<()> {
    for number in 0..2000 {
        make(&out.join(format!("f{number}"))).map_err(Error::from)?;
    }
    Ok(())
}

fn flood(to: &mut dyn Write) -> Result<()> {
    let line = "a flood of lines on its way ".repeat(8) + "\n";
    for _ in 0..100_000 {
        to.write_all(line.as_bytes())?;
    }
    Ok(())
}

sandmill_guest::export!(Guest);
