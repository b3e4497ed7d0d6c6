//! A Sandmill entry script: runs a model on the numbers in each text file.

use sandmill_guest::nn::{Model, Tensor};
use sandmill_guest::{Context, EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::path::{Path, PathBuf};

struct Script {
    model: Model,
}

impl EntryScript for Script {
    type Input = Files;

    // Called once per worker. The job file names the model's file.
    fn init(_job: &Job) -> Result<Self> {
        Ok(Script { model: Model::load("model")? })
    }

    // Called once per mini-batch. Calls the model once for all files.
    fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
        let items = files.iter().map(|file| numbers(file)).collect::<Result<Vec<_>>>()?;
        let width = items.first().map_or(0, Vec::len);
        let input = self.model.inputs().first().context("the model has no input")?;
        let outputs = self.model.run(&[(&input.name, Tensor::stack([width], items)?)])?;
        // For the labels of a classifier, write `i64` instead of `f32`.
        let rows = outputs.at(0)?.rows::<f32>()?;
        Ok(Results::rows(files.iter().zip(rows).map(|(file, row)| {
            format!("{}: {row:?}", file.file_name().unwrap_or_default().display())
        })))
    }
}

sandmill_guest::export!(Script);

/// Reads the numbers in a file, which are separated by spaces or line breaks.
fn numbers(file: &Path) -> Result<Vec<f32>> {
    let text = String::from_utf8(sandmill_guest::read(file)?)?;
    let number = |word: &str| {
        word.parse().with_context(|| format!("{}: {word:?} is not a number", file.display()))
    };
    text.split_whitespace().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandmill_guest::nn::Description;
    use sandmill_guest::test::TestHost;

    // A function replaces the model.
    #[test]
    fn gives_the_models_numbers() {
        let model = Description::new("model").input::<f32>("x", &["?", "2"]);
        let host = TestHost::new().model(model, |inputs| {
            let x = inputs.get("x")?;
            let doubled: Vec<f32> = x.values::<f32>()?.iter().map(|x| 2.0 * x).collect();
            Ok(vec![("y", Tensor::new([2, 2], doubled)?)])
        });
        let mut script = host.init::<Script>().unwrap();
        let results = script.run_files(&["data/first.txt", "data/second.txt"]).unwrap();
        assert_eq!(results, Results::rows(["first.txt: [2.0, 4.0]", "second.txt: [6.0, 8.0]"]));
    }
}
