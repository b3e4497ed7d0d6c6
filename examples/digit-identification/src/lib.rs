//! Tells handwritten digits apart: one row `NAME: DIGIT` for each image.
//!
//! `--weights FILE` names the trained network, which comes in as a side input.

mod mlp;

use mlp::Mlp;
use sandmill_guest::{Context, EntryScript, Files, Job, MiniBatchContext, Result, Results, log};
use std::io::Cursor;
use std::path::{Path, PathBuf};

struct DigitIdentification {
    network: Mlp,
}

impl EntryScript for DigitIdentification {
    type Input = Files;

    fn init(job: &Job) -> Result<Self> {
        let weights = job.argument("--weights").context("--weights FILE is missing")?;
        let network = Mlp::load(weights)?;
        log::info!("{weights}: a network for images of {} pixels", network.inputs());
        Ok(DigitIdentification { network })
    }

    fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
        Ok(Results::each(files, |file| self.identify(file)))
    }
}

sandmill_guest::export!(DigitIdentification);

impl DigitIdentification {
    /// The row of one image. An error fails this image alone.
    fn identify(&self, file: &Path) -> Result<String> {
        let name = file.file_name().context("a file without a name")?.display();
        let shades = grey_image(&sandmill_guest::read(file)?).context(name.to_string())?;
        if shades.len() != self.network.inputs() {
            let (found, wanted) = (shades.len(), self.network.inputs());
            return Err(format!("{name}: {found} pixels, the network takes {wanted}").into());
        }
        Ok(format!("{name}: {}", self.network.predict(&shades)))
    }
}

/// The pixels of a PNG image with 8-bit grey values, from 0 to 1 in steps of a sixteenth, as in
/// scikit-learn's data set.
fn grey_image(png: &[u8]) -> Result<Vec<f64>> {
    let mut decoder = png::Decoder::new(Cursor::new(png));
    // Grey values of 1, 2 and 4 bits come as 8 bits.
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut image = decoder.read_info()?;
    let mut pixels = vec![0; image.output_buffer_size().context("a picture far too large")?];
    let frame = image.next_frame(&mut pixels)?;
    if (frame.color_type, frame.bit_depth) != (png::ColorType::Grayscale, png::BitDepth::Eight) {
        return Err(format!(
            "{:?} pixels of {:?} bits, not 8-bit grey",
            frame.color_type, frame.bit_depth
        )
        .into());
    }
    pixels.truncate(frame.buffer_size());
    Ok(pixels.into_iter().map(|grey| f64::from(grey) / 15.0 / 16.0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandmill_guest::test::{TestHost, TestScript};

    fn script() -> TestScript<DigitIdentification> {
        TestHost::new().arguments(["--weights", "data/weights/mlp.json"]).init().unwrap()
    }

    #[test]
    fn every_digit_is_what_scikit_learn_says() {
        let rows: Vec<&str> = include_str!("../expected/digits.txt").lines().collect();
        let name = |row: &&str| Path::new("data/images").join(row.split(':').next().unwrap());
        let files: Vec<PathBuf> = rows.iter().map(name).collect();
        let results = script().run_files(&files).unwrap();
        assert_eq!(rows.len(), 1797);
        assert_eq!(results, Results::outcomes(rows.into_iter().map(Ok::<_, String>)));
    }

    #[test]
    fn a_file_that_is_no_image_fails_alone() {
        let files = ["data/weights/mlp.json", "data/images/img_0007.png"];
        let Results::Outcomes(outcomes) = script().run_files(&files).unwrap() else { panic!() };
        assert!(outcomes[0].as_ref().unwrap_err().starts_with("mlp.json: "), "{outcomes:?}");
        assert_eq!(outcomes[1], Ok("img_0007.png: 7".to_owned()));
    }

    #[test]
    fn init_says_what_is_missing() {
        let error = TestHost::new().init::<DigitIdentification>().err().unwrap();
        assert_eq!(error.to_string(), "--weights FILE is missing");
        let host = TestHost::new().argument("--weights=src/lib.rs");
        let error = host.init::<DigitIdentification>().err().unwrap().to_string();
        assert!(error.starts_with("src/lib.rs: expected value at line 1"), "{error}");
    }
}
