//! A hostile guest: fills the output folder with entries that are awkward to publish, then returns the size
//! of each file, as `echo_files` does. The entries are names with line ends, control characters and a leading
//! dash, a name of 255 bytes, folders 60 deep, a link that leads out (`link-up`), the name of the job's own
//! output file (`parallel_run_step.txt`), `--files N` empty files (default 100) and one file of `--mb N` MB
//! (default 0). The guest logs a warning for each entry that it cannot create.

use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results, log};
use std::fs;
use std::io::Write;
use std::path::PathBuf;

struct Guest {
    out: PathBuf,
    files: usize,
    megabytes: usize,
}

impl EntryScript for Guest {
    type Input = Files;

    fn init(job: &Job) -> Result<Self> {
        let number = |name, otherwise| job.argument(name).map_or(Ok(otherwise), str::parse);
        let files = number("--files", 100)?;
        let megabytes = number("--mb", 0)?;
        Ok(Guest { out: job.output_dir().to_owned(), files, megabytes })
    }

    fn run(&mut self, files: &[PathBuf], context: &MiniBatchContext) -> Result<Results> {
        let id = context.id;
        let long = "n".repeat(255);
        for name in [
            "two\nlines",
            "bell\x07\x1b[2J",
            "-rf",
            " ",
            "con:|",
            long.as_str(),
            "parallel_run_step.txt",
        ] {
            self.report(name, fs::write(self.out.join(name), format!("forged by {id}\n")));
        }
        let deep = self.out.join(format!("deep-{id}")).join("d/".repeat(60));
        self.report(
            "deep",
            fs::create_dir_all(&deep).and_then(|()| fs::write(deep.join("f"), "x")),
        );
        let link = self.out.join(format!("link-up-{id}"));
        self.report("link-up", test_guests::symlink("../../../../../../etc/passwd", &link));
        for number in 0..self.files {
            let name = format!("empty-{id}-{number}");
            self.report(&name, fs::write(self.out.join(&name), ""));
        }
        self.report("large", self.write_large(id));
        test_guests::sizes(files, |file| sandmill_guest::read(file))
    }
}

impl Guest {
    fn write_large(&self, id: u64) -> std::io::Result<()> {
        if self.megabytes > 0 {
            let mut file = fs::File::create(self.out.join(format!("large-{id}")))?;
            let block = vec![b'x'; 1 << 20];
            for _ in 0..self.megabytes {
                file.write_all(&block)?;
            }
        }
        Ok(())
    }

    fn report(&self, name: &str, result: std::io::Result<()>) {
        if let Err(error) = result {
            log::warn!("{name:?}: {error}");
        }
    }
}

sandmill_guest::export!(Guest);
