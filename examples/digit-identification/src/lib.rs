//! Identifies handwritten digits: returns a row `NAME: DIGIT` for each image.
//!
//! One call of the job's model `digits` classifies all images of a mini-batch. With `--weights FILE`, which
//! names a trained network in a side input, the entry script computes the network instead.

mod mlp;

use mlp::Mlp;
use sandmill_guest::nn::{Model, Tensor};
use sandmill_guest::{Context, EntryScript, Files, Job, MiniBatchContext, Result, Results, log};
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// An image is 8 x 8 pixels.
const PIXELS: usize = 64;

enum DigitIdentification {
    /// The host runs the network as a model.
    Model(Model),
    /// The entry script computes the network.
    Network(Mlp),
}

impl EntryScript for DigitIdentification {
    type Input = Files;

    fn init(job: &Job) -> Result<Self> {
        let Some(weights) = job.argument("--weights") else {
            let model = Model::load("digits")?;
            log::info!("the model digits runs on {} by {}", model.device(), model.backend());
            return Ok(Self::Model(model));
        };
        let network = Mlp::load(weights)?;
        if network.inputs() != PIXELS {
            return Err(format!(
                "{weights}: a network for images of {} pixels, not of {PIXELS}",
                network.inputs()
            )
            .into());
        }
        Ok(Self::Network(network))
    }

    fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
        let images: Vec<Result<Image>> = files.iter().map(|file| Image::read(file)).collect();
        // If an image cannot be read, only its item fails. All other images are classified together.
        let mut digits = self.digits(images.iter().flatten())?.into_iter();
        Ok(Results::each(images, |image| {
            let name = image?.name;
            let digit = digits.next().context("the model gave fewer rows than there are images")?;
            Ok(format!("{name}: {digit}"))
        }))
    }
}

sandmill_guest::export!(DigitIdentification);

impl DigitIdentification {
    /// The digit of each image.
    fn digits<'a>(&self, images: impl Iterator<Item = &'a Image>) -> Result<Vec<usize>> {
        match self {
            Self::Network(network) => {
                Ok(images.map(|image| network.predict(&image.shades).into()).collect())
            }
            Self::Model(model) => {
                let pixels = Tensor::stack([PIXELS], images.map(Image::as_f32))?;
                // If no image could be read, do not call the model: it may not support empty inputs.
                if pixels.is_empty() {
                    return Ok(Vec::new());
                }
                let outputs = model.run(&[("pixels", pixels)])?;
                let probabilities = outputs.get("probabilities")?.rows::<f32>()?;
                Ok(probabilities.map(most_likely).collect())
            }
        }
    }
}

fn most_likely(probabilities: &[f32]) -> usize {
    let more_likely =
        |best, digit| if probabilities[digit] > probabilities[best] { digit } else { best };
    (0..probabilities.len()).reduce(more_likely).unwrap_or(0)
}

struct Image {
    name: String,
    /// The grey values, from 0 to 1.
    shades: Vec<f64>,
}

impl Image {
    fn read(file: &Path) -> Result<Self> {
        let name = file.file_name().context("a file without a name")?.display().to_string();
        let shades = grey_image(&sandmill_guest::read(file)?).context(&name)?;
        if shades.len() != PIXELS {
            return Err(format!("{name}: {} pixels, not {PIXELS}", shades.len()).into());
        }
        Ok(Image { name, shades })
    }

    /// The shades in the model's input type. Each shade is a multiple of a sixteenth, so the conversion is
    /// exact.
    fn as_f32(&self) -> Vec<f32> {
        self.shades.iter().map(|shade| *shade as f32).collect()
    }
}

/// Decodes a PNG image with 8-bit grey values. Returns values from 0 to 1 in steps of a sixteenth, as in
/// scikit-learn's data set.
fn grey_image(png: &[u8]) -> Result<Vec<f64>> {
    let mut decoder = png::Decoder::new(Cursor::new(png));
    // Expand grey values of 1, 2 and 4 bits to 8 bits.
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
    // `examples/make_data.py` multiplied the data set's 17 shades by 15.
    Ok(pixels.into_iter().map(|grey| f64::from(grey) / 15.0 / 16.0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandmill_guest::nn::Description;
    use sandmill_guest::test::{TestHost, TestScript};

    const WEIGHTS: &str = "data/weights/mlp.json";

    /// Makes the entry script that computes the network.
    fn by_weights() -> TestScript<DigitIdentification> {
        TestHost::new().arguments(["--weights", WEIGHTS]).init().unwrap()
    }

    /// Makes the entry script that runs the model. Only a job can load the ONNX file, so in tests the network
    /// replaces it.
    fn by_model() -> TestScript<DigitIdentification> {
        let network = Mlp::load(WEIGHTS).unwrap();
        let digits = Description::new("digits").input::<f32>("pixels", &["?", "64"]);
        let host = TestHost::new().model(digits, move |inputs| {
            let mut probabilities = Vec::new();
            for image in inputs.get("pixels")?.rows::<f32>()? {
                let image: Vec<f64> = image.iter().map(|shade| f64::from(*shade)).collect();
                let digit = network.predict(&image);
                probabilities.push((0..10).map(|d| f32::from(d == digit)).collect::<Vec<_>>());
            }
            Ok(vec![("probabilities", Tensor::stack([10], probabilities)?)])
        });
        host.init().unwrap()
    }

    #[test]
    fn predictions_equal_those_of_scikit_learn() {
        let rows: Vec<&str> = include_str!("../expected/digits.txt").lines().collect();
        let name = |row: &&str| Path::new("data/images").join(row.split(':').next().unwrap());
        let files: Vec<PathBuf> = rows.iter().map(name).collect();
        assert_eq!(rows.len(), 1797);
        let expected = Results::outcomes(rows.into_iter().map(Ok::<_, String>));
        assert_eq!(by_weights().run_files(&files).unwrap(), expected);
        assert_eq!(by_model().run_files(&files).unwrap(), expected);
    }

    #[test]
    fn a_file_that_is_not_an_image_fails_alone() {
        for mut script in [by_weights(), by_model()] {
            let files = ["data/images/img_0003.png", WEIGHTS, "data/images/img_0007.png"];
            let Results::Outcomes(outcomes) = script.run_files(&files).unwrap() else { panic!() };
            assert_eq!(outcomes[0], Ok("img_0003.png: 3".to_owned()));
            assert!(outcomes[1].as_ref().unwrap_err().starts_with("mlp.json: "), "{outcomes:?}");
            assert_eq!(outcomes[2], Ok("img_0007.png: 7".to_owned()));
            let results = script.run_files(&[WEIGHTS]).unwrap();
            let Results::Outcomes(only_failed) = results else { panic!() };
            assert_eq!(only_failed, outcomes[1..2]);
        }
    }

    #[test]
    fn init_reports_what_is_missing() {
        let error = TestHost::new().init::<DigitIdentification>().err().unwrap().to_string();
        assert!(error.starts_with("there is no model \"digits\""), "{error}");
        let host = TestHost::new().argument("--weights=src/lib.rs");
        let error = host.init::<DigitIdentification>().err().unwrap().to_string();
        assert!(error.starts_with("src/lib.rs: expected value at line 1"), "{error}");
    }
}
