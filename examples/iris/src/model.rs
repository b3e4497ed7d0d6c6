//! A multinomial logistic regression. Computes the same as scikit-learn's `LogisticRegression`.

use sandmill_guest::{Context, Result};
use serde::Deserialize;
use std::path::Path;

/// A trained model from a file that `examples/make_data.py` wrote.
#[derive(Debug, Deserialize)]
pub struct IrisModel {
    /// The columns that the model takes, in the order of its coefficients.
    pub features: Vec<String>,
    /// A row for each class.
    coefficients: Vec<Vec<f64>>,
    intercepts: Vec<f64>,
    /// The names of the classes.
    pub classes: Vec<String>,
}

impl IrisModel {
    /// Loads a model and checks that its parts fit together.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = sandmill_guest::read(path)?;
        let model: IrisModel =
            serde_json::from_slice(&bytes).context(path.display().to_string())?;
        let classes = model.classes.len();
        if classes == 0
            || model.coefficients.len() != classes
            || model.intercepts.len() != classes
            || model.coefficients.iter().any(|row| row.len() != model.features.len())
        {
            let features = model.features.len();
            let path = path.display();
            return Err(format!("{path}: the coefficients are not {classes} x {features}").into());
        }
        Ok(model)
    }

    /// For each row, the index of the most likely class, and its probability. `columns` are in the order of
    /// `features`, and have `rows` values each.
    pub fn predict(&self, columns: &[&[f64]], rows: usize) -> Vec<(usize, f64)> {
        let score = |class: usize, row: usize| {
            let products = columns.iter().zip(&self.coefficients[class]);
            products.map(|(column, weight)| column[row] * weight).sum::<f64>()
                + self.intercepts[class]
        };
        let predict_row = |row| {
            let scores: Vec<f64> = (0..self.classes.len()).map(|class| score(class, row)).collect();
            let best = (1..scores.len()).fold(0, |a, b| if scores[b] > scores[a] { b } else { a });
            let sum: f64 = scores.iter().map(|score| (score - scores[best]).exp()).sum();
            (best, 1.0 / sum)
        };
        (0..rows).map(predict_row).collect()
    }
}
