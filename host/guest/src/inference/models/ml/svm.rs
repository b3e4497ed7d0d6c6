//! Support vector machines.

use super::attributes::{check_length, floats, int, ints, text};
use super::scores::{Labels, ScoreTransform, dot, round_to_f32, to_f64};
use super::{Classifier, Computation, OperatorRefusal, RowFunction};
use tract_onnx::pb::NodeProto;

/// The maximum number of classes. The memory per row grows with the square of this number.
const MAX_CLASSES: usize = 1000;

/// The function that compares a row with a support vector.
#[derive(Debug)]
enum Kernel {
    Linear,
    Poly,
    Rbf,
    Sigmoid,
}

/// The support vectors, with which a row is compared.
#[derive(Debug)]
struct Vectors {
    kernel: Kernel,
    gamma: f32,
    coef0: f32,
    degree: f32,
    vectors: Vec<f32>,
    columns: usize,
}

impl Vectors {
    fn read(node: &NodeProto, count: usize) -> Result<Self, OperatorRefusal> {
        let kernel = match text(node, "kernel_type") {
            b"" | b"LINEAR" => Kernel::Linear,
            b"POLY" => Kernel::Poly,
            b"RBF" => Kernel::Rbf,
            b"SIGMOID" => Kernel::Sigmoid,
            _ => return Err(OperatorRefusal::Broken("has a kernel that is not known".to_owned())),
        };
        let [gamma, coef0, degree] = match floats(node, "kernel_params") {
            [] => [0.0; 3],
            [gamma, coef0, degree] => [*gamma, *coef0, *degree],
            other => {
                return Err(OperatorRefusal::Broken(format!(
                    "has {} kernel_params; it takes 3",
                    other.len()
                )));
            }
        };
        let vectors = floats(node, "support_vectors").to_vec();
        let columns = vectors.len().checked_div(count).unwrap_or(0);
        if columns == 0 || columns.checked_mul(count) != Some(vectors.len()) {
            let numbers = vectors.len();
            return Err(OperatorRefusal::Broken(format!(
                "has {count} support vectors with {numbers} numbers in total"
            )));
        }
        Ok(Self { kernel, gamma, coef0, degree, vectors, columns })
    }

    /// The kernel's value for a row and each vector.
    fn kernel_values<'a>(&'a self, x: &'a [f32]) -> impl Iterator<Item = f32> + 'a {
        self.vectors.chunks_exact(self.columns).map(move |vector| match self.kernel {
            Kernel::Linear => dot(x, vector),
            Kernel::Poly => (self.gamma * dot(x, vector) + self.coef0).powf(self.degree),
            Kernel::Sigmoid => (self.gamma * dot(x, vector) + self.coef0).tanh(),
            Kernel::Rbf => {
                let distance: f32 = x.iter().zip(vector).map(|(a, b)| (a - b) * (a - b)).sum();
                (-self.gamma * distance).exp()
            }
        })
    }
}

#[derive(Debug)]
struct SvmClassifier {
    vectors: Vectors,
    /// The index at which the vectors of each class begin. The last entry is the end of the last class.
    starts: Vec<usize>,
    coefficients: Vec<f32>,
    rho: Vec<f32>,
    /// For each pair of classes, the coefficients of its sigmoid; `None` if the scores are not probabilities.
    probabilities: Option<Vec<(f32, f32)>>,
}

pub(super) fn classifier(node: &NodeProto) -> Result<Computation, OperatorRefusal> {
    let labels = Labels::read(node, "classlabels_ints")?;
    if ScoreTransform::read(node)? != ScoreTransform::None {
        return Err(OperatorRefusal::Unsupported("with post_transform"));
    }
    let per_class = ints(node, "vectors_per_class");
    if per_class.is_empty() {
        return Err(OperatorRefusal::Unsupported("without support vectors"));
    }
    let classes = labels.len();
    if !(2..=MAX_CLASSES).contains(&classes) {
        return Err(OperatorRefusal::Unsupported("of one class, or of more than 1000"));
    }
    check_length("numbers in vectors_per_class", per_class.len(), classes)?;
    let mut starts = vec![0_usize];
    for count in per_class {
        let before = starts.last().copied().unwrap_or(0);
        let next = usize::try_from(*count).ok().and_then(|count| before.checked_add(count));
        let bad = || OperatorRefusal::Broken(format!("has a class with {count} support vectors"));
        starts.push(next.ok_or_else(bad)?);
    }
    let count = starts.last().copied().unwrap_or(0);
    let vectors = Vectors::read(node, count)?;
    let coefficients = floats(node, "coefficients").to_vec();
    check_length("coefficients", coefficients.len(), count.saturating_mul(classes - 1))?;
    let pairs = classes * (classes - 1) / 2;
    let rho = floats(node, "rho").to_vec();
    check_length("numbers in rho", rho.len(), pairs)?;
    let (a, b) = (floats(node, "prob_a"), floats(node, "prob_b"));
    let probabilities = if a.is_empty() && b.is_empty() {
        None
    } else {
        check_length("numbers in prob_a", a.len(), pairs)?;
        check_length("numbers in prob_b", b.len(), pairs)?;
        Some(a.iter().copied().zip(b.iter().copied()).collect())
    };
    let svm = SvmClassifier { vectors, starts, coefficients, rho, probabilities };
    Ok(Computation::Classes(Box::new(svm), labels))
}

impl SvmClassifier {
    fn classes(&self) -> usize {
        self.starts.len() - 1
    }

    /// Computes a score for each pair of classes. A positive score is a vote for the first class of the pair.
    fn pairs(&self, x: &[f32]) -> Vec<f32> {
        let values: Vec<f32> = self.vectors.kernel_values(x).collect();
        let classes = self.classes();
        // The sum over the vectors of one class, with the coefficients of one row.
        let class_sum = |class: usize, row: usize| -> f64 {
            let vectors = self.starts[class]..self.starts[class + 1];
            let row = &self.coefficients[row * values.len()..][..values.len()];
            row[vectors.clone()].iter().zip(&values[vectors]).map(|(a, b)| f64::from(a * b)).sum()
        };
        let mut scores = Vec::with_capacity(self.rho.len());
        for i in 0..classes {
            for j in i + 1..classes {
                let rho = f64::from(self.rho[scores.len()]);
                scores.push(round_to_f32(class_sum(i, j - 1) + class_sum(j, i) + rho));
            }
        }
        scores
    }
}

impl Classifier for SvmClassifier {
    fn width(&self) -> usize {
        match self.classes() {
            2 => 2,
            classes if self.probabilities.is_some() => classes,
            _ => self.rho.len(),
        }
    }

    fn takes(&self, columns: usize) -> bool {
        columns == self.vectors.columns
    }

    fn row(&self, x: &[f32], scores: &mut [f32]) -> usize {
        let pairs = self.pairs(x);
        let classes = self.classes();
        let mut votes = vec![0_usize; classes];
        let mut scores_of_pairs = pairs.iter();
        for i in 0..classes {
            for j in i + 1..classes {
                let is_first = scores_of_pairs.next().is_some_and(|score| *score > 0.0);
                votes[if is_first { i } else { j }] += 1;
            }
        }
        match &self.probabilities {
            Some(sigmoids) => probabilities(&pairs, sigmoids, scores),
            None if classes == 2 => scores.copy_from_slice(&[-pairs[0], pairs[0]]),
            None => scores.copy_from_slice(&pairs),
        }
        // If several classes have the most votes, the first one wins.
        let most = votes.iter().copied().max().unwrap_or(0);
        votes.iter().position(|votes| *votes == most).unwrap_or(0)
    }
}

/// Writes the probability of each class to `p`. This is the second method of Wu, Lin and Weng, "Probability
/// Estimates for Multi-class Classification by Pairwise Coupling" (2004), as in libsvm.
fn probabilities(pairs: &[f32], sigmoids: &[(f32, f32)], p: &mut [f32]) {
    const MIN_PROBABILITY: f64 = 1e-7;
    let classes = p.len();
    let mut r = vec![0.0_f64; classes * classes];
    let mut rest = pairs.iter().zip(sigmoids);
    for i in 0..classes {
        for j in i + 1..classes {
            let Some((score, (a, b))) = rest.next() else { break };
            let x = f64::from(*score) * f64::from(*a) + f64::from(*b);
            let first = (1.0 / (1.0 + x.exp())).clamp(MIN_PROBABILITY, 1.0 - MIN_PROBABILITY);
            r[i * classes + j] = first;
            r[j * classes + i] = 1.0 - first;
        }
    }
    let mut q = vec![0.0_f64; classes * classes];
    for i in 0..classes {
        for j in (0..classes).filter(|j| *j != i) {
            q[i * classes + i] += r[j * classes + i] * r[j * classes + i];
            q[i * classes + j] = -r[j * classes + i] * r[i * classes + j];
        }
    }
    let tolerance = 0.005 / to_f64(classes);
    let mut estimates = vec![1.0 / to_f64(classes); classes];
    let mut products = vec![0.0_f64; classes];
    for _ in 0..classes.max(100) {
        for (product, row) in products.iter_mut().zip(q.chunks_exact(classes)) {
            *product = row.iter().zip(&estimates).map(|(q, p)| q * p).sum();
        }
        let mut total: f64 = estimates.iter().zip(&products).map(|(p, product)| p * product).sum();
        if products.iter().all(|product| (product - total).abs() < tolerance) {
            break;
        }
        for i in 0..classes {
            let diagonal = q[i * classes + i];
            let step = (total - products[i]) / diagonal;
            estimates[i] += step;
            total = (total + step * (step * diagonal + 2.0 * products[i]))
                / (1.0 + step)
                / (1.0 + step);
            for j in 0..classes {
                products[j] = (products[j] + step * q[i * classes + j]) / (1.0 + step);
                estimates[j] /= 1.0 + step;
            }
        }
    }
    for (p, estimate) in p.iter_mut().zip(estimates) {
        *p = round_to_f32(estimate);
    }
}

#[derive(Debug)]
struct SvmRegressor {
    vectors: Vectors,
    coefficients: Vec<f32>,
    rho: f32,
    one_class: bool,
}

pub(super) fn regressor(node: &NodeProto) -> Result<Computation, OperatorRefusal> {
    if ScoreTransform::read(node)? != ScoreTransform::None {
        return Err(OperatorRefusal::Unsupported("with post_transform"));
    }
    let count = usize::try_from(int(node, "n_supports").unwrap_or(0)).unwrap_or(0);
    if count == 0 {
        return Err(OperatorRefusal::Unsupported("without support vectors"));
    }
    let vectors = Vectors::read(node, count)?;
    let coefficients = floats(node, "coefficients").to_vec();
    check_length("coefficients", coefficients.len(), count)?;
    let rho = floats(node, "rho");
    check_length("numbers in rho", rho.len(), 1)?;
    let one_class = int(node, "one_class").unwrap_or(0) != 0;
    let svm = SvmRegressor { vectors, coefficients, rho: rho[0], one_class };
    Ok(Computation::Rows(Box::new(svm)))
}

impl RowFunction for SvmRegressor {
    fn width(&self, _columns: usize) -> usize {
        1
    }

    fn takes(&self, columns: usize) -> bool {
        columns == self.vectors.columns
    }

    fn row(&self, x: &[f32], y: &mut [f32]) {
        let products = self.vectors.kernel_values(x).zip(&self.coefficients);
        let sum: f64 = products.map(|(value, coefficient)| f64::from(value * coefficient)).sum();
        let score = round_to_f32(sum + f64::from(self.rho));
        y[0] = match self.one_class {
            true if score > 0.0 => 1.0,
            true => -1.0,
            false => score,
        };
    }
}
