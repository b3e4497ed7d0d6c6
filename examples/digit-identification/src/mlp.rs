//! A multi-layer perceptron. Computes the same as scikit-learn's `MLPClassifier`.

use sandmill_guest::{Context, Result};
use serde::Deserialize;
use std::path::Path;

/// A trained network from a file that `examples/make_data.py` wrote.
#[derive(Debug, Deserialize)]
pub struct Mlp {
    layers: Vec<DenseLayer>,
    classes: Vec<u8>,
}

#[derive(Debug, Deserialize)]
struct DenseLayer {
    /// For each neuron, a row with a weight for each input.
    weights: Vec<Vec<f64>>,
    biases: Vec<f64>,
}

impl Mlp {
    /// Loads a network and checks that its layers fit together.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = sandmill_guest::read(path)?;
        let mlp: Mlp = serde_json::from_slice(&bytes).context(path.display().to_string())?;
        mlp.check().context(path.display().to_string())?;
        Ok(mlp)
    }

    /// The number of inputs of the first layer.
    pub fn inputs(&self) -> usize {
        self.layers.first().and_then(|layer| layer.weights.first()).map_or(0, Vec::len)
    }

    fn check(&self) -> Result<()> {
        let mut width = self.inputs();
        for (number, layer) in self.layers.iter().enumerate() {
            if layer.weights.len() != layer.biases.len()
                || layer.weights.iter().any(|row| row.len() != width)
            {
                return Err(format!(
                    "layer {number} does not take the {width} values that it receives"
                )
                .into());
            }
            width = layer.biases.len();
        }
        if width == 0 || width != self.classes.len() {
            return Err(format!("{width} outputs for {} classes", self.classes.len()).into());
        }
        Ok(())
    }

    /// The most likely class.
    pub fn predict(&self, inputs: &[f64]) -> u8 {
        let mut values = inputs.to_vec();
        let last = self.layers.len() - 1;
        for (number, layer) in self.layers.iter().enumerate() {
            values = layer.forward(&values);
            if number < last {
                values.iter_mut().for_each(|value| *value = value.max(0.0));
            }
        }
        // Softmax is not needed, because it keeps the order: the largest output is the most likely class.
        let best = (0..values.len()).reduce(|a, b| if values[b] > values[a] { b } else { a });
        self.classes[best.unwrap_or(0)]
    }
}

impl DenseLayer {
    fn forward(&self, inputs: &[f64]) -> Vec<f64> {
        let neuron = |(row, bias): (&Vec<f64>, &f64)| {
            bias + row.iter().zip(inputs).map(|(weight, input)| weight * input).sum::<f64>()
        };
        self.weights.iter().zip(&self.biases).map(neuron).collect()
    }
}
