//! Hostile: misuses its output folder or its log folder as `--do WHAT` says. `init` creates the file `labels`
//! and the folder `made` in the output folder. Each mini-batch writes `made/ID.txt`, and returns the name of
//! each of its items as a row.
//!
//! In the first attempt at mini-batch 0, `change` changes the file of `init`, `remove` removes the folder of
//! `init`, `deep` nests thousands of folders, and `huge` creates a file of 100 GiB. In every mini-batch,
//! `keep` writes to a file that stays open. In `init`, `link` tries to create symbolic links to `--target`
//! and hard links to a file, in both folders.

use sandmill_guest::{Context, EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

struct Guest {
    job: Job,
    what: String,
    kept: Option<File>,
}

impl EntryScript for Guest {
    type Input = Files;

    fn init(job: &Job) -> Result<Self> {
        let what = job.argument("--do").context("--do WHAT is missing")?.to_owned();
        let out = job.output_dir();
        fs::create_dir(out.join("made"))?;
        fs::write(out.join("labels"), "cat dog")?;
        if what == "link" {
            let target = job.argument("--target").context("--target is missing")?;
            for folder in [job.log_dir(), out] {
                let link = folder.join("link");
                let labels = out.join("labels");
                for made in [test_guests::symlink(target, &link), fs::hard_link(labels, &link)] {
                    let result =
                        made.map_or_else(|error| error.to_string(), |()| "made".to_owned());
                    println!("{result}");
                }
            }
        }
        Ok(Guest { job: job.clone(), what, kept: None })
    }

    fn run(&mut self, files: &[PathBuf], context: &MiniBatchContext) -> Result<Results> {
        let out = self.job.output_dir().to_owned();
        fs::write(out.join(format!("made/{}.txt", context.id)), "whole")?;
        if self.what == "keep" {
            if self.kept.is_none() {
                self.kept = Some(File::create(out.join(format!("kept-{}.txt", context.id)))?);
            }
            let mut kept = self.kept.as_ref().context("no file is kept")?;
            writeln!(kept, "of {}", context.id)?;
        } else if context.id == 0 && context.attempt == 1 {
            self.once(&out)?;
        }
        let names: Result<Vec<String>> = files.iter().map(|file| test_guests::name(file)).collect();
        Ok(names?.into())
    }
}

impl Guest {
    fn once(&self, out: &Path) -> Result<()> {
        match self.what.as_str() {
            "change" => fs::write(out.join("labels"), "cat dog bird")?,
            "remove" => fs::remove_dir_all(out.join("made"))?,
            "deep" => deep(out)?,
            "huge" => File::create(out.join("huge"))?.set_len(100 << 30)?,
            _ => {}
        }
        Ok(())
    }
}

/// Nests folders deeper than the longest possible path, by moving one chain of folders to the end of another.
fn deep(out: &Path) -> Result<()> {
    let mut before: Option<PathBuf> = None;
    for number in 0..3 {
        let top = out.join(format!("{number}"));
        fs::create_dir(&top)?;
        let mut end = top.clone();
        for _ in 0..700 {
            end.push("d");
            fs::create_dir(&end)?;
        }
        if let Some(before) = before {
            fs::rename(before, end.join("e"))?;
        }
        before = Some(top);
    }
    Ok(())
}

sandmill_guest::export!(Guest);
