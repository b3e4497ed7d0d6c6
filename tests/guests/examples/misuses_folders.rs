//! A hostile guest: misuses its output folder or its log folder as `--do WHAT` says. `init` creates the file
//! `labels` and the folder `made` in the output folder. `run` writes `made/ID.txt`, and returns the name of
//! each item as a row.
//!
//! The values of WHAT:
//!
//! - `change` changes `labels`, in the first attempt at mini-batch 0.
//! - `remove` removes `made`, in the same attempt.
//! - `deep` nests thousands of folders, in the same attempt.
//! - `huge` creates a file of 100 GiB, in the same attempt.
//! - `keep` writes to a file that stays open, in every mini-batch.
//! - `link` tries to create symbolic links to `--target` and hard links to `labels`, in both folders, in
//!   `init`.

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
                for result in [test_guests::symlink(target, &link), fs::hard_link(labels, &link)] {
                    let text =
                        result.map_or_else(|error| error.to_string(), |()| "made".to_owned());
                    println!("{text}");
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
            self.misuse_once(&out)?;
        }
        let names: Result<Vec<String>> = files.iter().map(|file| test_guests::name(file)).collect();
        Ok(names?.into())
    }
}

impl Guest {
    fn misuse_once(&self, out: &Path) -> Result<()> {
        match self.what.as_str() {
            "change" => fs::write(out.join("labels"), "cat dog bird")?,
            "remove" => fs::remove_dir_all(out.join("made"))?,
            "deep" => nest_folders(out)?,
            "huge" => File::create(out.join("huge"))?.set_len(100 << 30)?,
            _ => {}
        }
        Ok(())
    }
}

/// Nests folders deeper than the longest possible path, by moving one chain of folders to the end of another.
fn nest_folders(out: &Path) -> Result<()> {
    let mut earlier_chain: Option<PathBuf> = None;
    for number in 0..3 {
        let top = out.join(format!("{number}"));
        fs::create_dir(&top)?;
        let mut end = top.clone();
        for _ in 0..700 {
            end.push("d");
            fs::create_dir(&end)?;
        }
        if let Some(earlier_chain) = earlier_chain {
            fs::rename(earlier_chain, end.join("e"))?;
        }
        earlier_chain = Some(top);
    }
    Ok(())
}

sandmill_guest::export!(Guest);
