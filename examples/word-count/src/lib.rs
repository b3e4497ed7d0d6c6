//! Counts the lines, words and bytes of text files: returns a row `NAME: LINES WORDS BYTES` for each.

use sandmill_guest::{Context, EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::path::{Path, PathBuf};

struct WordCount;

impl EntryScript for WordCount {
    type Input = Files;

    fn init(_job: &Job) -> Result<Self> {
        Ok(WordCount)
    }

    fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
        Ok(Results::each(files, |file| count(file)))
    }
}

sandmill_guest::export!(WordCount);

/// The row of one file. If this returns an error, only this file's item fails, and the job's report has the
/// reason.
fn count(file: &Path) -> Result<String> {
    let bytes = sandmill_guest::read(file)?;
    let name = file.file_name().context("a file without a name")?.display();
    let text = std::str::from_utf8(&bytes).with_context(|| format!("{name} is not text"))?;
    let words = text.split_whitespace().count();
    Ok(format!("{name}: {} {words} {}", text.lines().count(), bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandmill_guest::test::TestHost;

    /// The expected rows have the numbers that `wc` prints for the files in `data/texts`.
    #[test]
    fn counts_like_wc() {
        let mut script = TestHost::new().init::<WordCount>().unwrap();
        let mut rows = Vec::new();
        for line in include_str!("../expected/word-count.txt").lines() {
            let name = line.split(':').next().unwrap();
            let file = Path::new("data/texts").join(name);
            assert_eq!(
                script.run_files(&[file]).unwrap(),
                Results::Outcomes(vec![Ok(line.to_owned())])
            );
            rows.push(line);
        }
        assert_eq!(rows.len(), std::fs::read_dir("data/texts").unwrap().count());
    }

    #[test]
    fn a_bad_file_fails_alone() {
        let mut script = TestHost::new().init::<WordCount>().unwrap();
        let results = script.run_files(&["none.txt", "data/texts/mill.txt"]).unwrap();
        let Results::Outcomes(outcomes) = results else { panic!("{results:?}") };
        assert!(outcomes[0].as_ref().unwrap_err().contains("none.txt"));
        assert!(outcomes[1].is_ok());
    }
}
