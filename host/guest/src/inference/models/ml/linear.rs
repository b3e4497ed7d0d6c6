//! Linear classifiers.

use super::attributes::{check_length, floats};
use super::scores::{Labels, ScoreTransform, dot, index_of_largest, logistic};
use super::{Classifier, Computation, OperatorRefusal};
use tract_onnx::pb::NodeProto;

/// A linear classifier. It has one row of coefficients per class; for two classes, one row is enough.
#[derive(Debug)]
struct Linear {
    coefficients: Vec<f32>,
    intercepts: Vec<f32>,
    columns: usize,
    transform: ScoreTransform,
}

pub(super) fn classifier(node: &NodeProto) -> Result<Computation, OperatorRefusal> {
    let labels = Labels::read(node, "classlabels_ints")?;
    let transform = ScoreTransform::read(node)?;
    let coefficients = floats(node, "coefficients").to_vec();
    let intercepts = floats(node, "intercepts").to_vec();
    if intercepts.is_empty() {
        return Err(OperatorRefusal::Unsupported("without intercepts"));
    }
    if intercepts.len() == 1 && labels.len() == 2 {
        if transform != ScoreTransform::Logistic {
            return Err(OperatorRefusal::Unsupported(
                "of two classes without post_transform LOGISTIC",
            ));
        }
    } else {
        check_length("intercepts", intercepts.len(), labels.len())?;
    }
    let columns = coefficients.len() / intercepts.len();
    if columns == 0 {
        return Err(OperatorRefusal::Broken("has fewer coefficients than classes".to_owned()));
    }
    check_length("coefficients", coefficients.len(), columns * intercepts.len())?;
    let linear = Linear { coefficients, intercepts, columns, transform };
    Ok(Computation::Classes(Box::new(linear), labels))
}

impl Classifier for Linear {
    fn width(&self) -> usize {
        if self.intercepts.len() == 1 { 2 } else { self.intercepts.len() }
    }

    fn takes(&self, columns: usize) -> bool {
        columns == self.columns
    }

    fn row(&self, x: &[f32], scores: &mut [f32]) -> usize {
        let rows = self.coefficients.chunks_exact(self.columns).zip(&self.intercepts);
        for (score, (coefficients, intercept)) in scores.iter_mut().zip(rows) {
            *score = dot(x, coefficients) + intercept;
        }
        if self.intercepts.len() == 1 {
            let score = scores[0];
            scores[1] = logistic(score);
            scores[0] = 1.0 - scores[1];
            return usize::from(score > 0.0);
        }
        let class = index_of_largest(scores);
        self.transform.apply(scores);
        class
    }
}
