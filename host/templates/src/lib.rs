//! A Sandmill entry script: returns a row `NAME: WORDS` for each text file.

use sandmill_guest::{Context, EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::path::{Path, PathBuf};

struct Script;

impl EntryScript for Script {
    type Input = Files;

    // Called once per worker. Read arguments and load models here.
    fn init(_job: &Job) -> Result<Self> {
        Ok(Script)
    }

    // Called once per mini-batch. Returns a row for each file. An error fails only its file.
    fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
        Ok(Results::each(files, |file| count(file)))
    }
}

sandmill_guest::export!(Script);

fn count(file: &Path) -> Result<String> {
    let bytes = sandmill_guest::read(file)?;
    let name = file.file_name().context("a file without a name")?.display();
    let text = std::str::from_utf8(&bytes).with_context(|| format!("{name} is not text"))?;
    Ok(format!("{name}: {}", text.split_whitespace().count()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandmill_guest::test::TestHost;

    #[test]
    fn counts_words() {
        let mut script = TestHost::new().init::<Script>().unwrap();
        let results = script.run_files(&["data/hello.txt"]).unwrap();
        assert_eq!(results, Results::Outcomes(vec![Ok("hello.txt: 2".to_owned())]));
    }
}
