// The guest and the native program include this file, so that they do the same arithmetic.

use std::sync::LazyLock;

const INPUTS: usize = 10;
const HIDDEN: usize = 128;

/// The model. For speed, the arrays have a fixed length and start at a cache line.
#[repr(align(64))]
struct PerceptronWeights {
    first: [[f32; HIDDEN]; INPUTS],
    second: [[f32; HIDDEN]; HIDDEN],
    last: [f32; HIDDEN],
}

static WEIGHTS: LazyLock<Box<PerceptronWeights>> = LazyLock::new(|| {
    let mut state = 0x5eed_0003_u32;
    let mut weight = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as f32 / 65_536.0 - 0.5
    };
    Box::new(PerceptronWeights {
        first: std::array::from_fn(|_| std::array::from_fn(|_| weight())),
        second: std::array::from_fn(|_| std::array::from_fn(|_| weight() / 8.0)),
        last: std::array::from_fn(|_| weight() / 8.0),
    })
});

/// Computes a perceptron with two hidden layers of 128 neurons for each row, and writes the results to `out`.
pub fn perceptron(columns: &[&[f64]], rows: usize, out: &mut Vec<f64>) {
    out.clear();
    let weights = &**WEIGHTS;
    for row in 0..rows {
        let mut first = [0.0; HIDDEN];
        for (column, weights) in columns.iter().zip(&weights.first) {
            add_products(&mut first, column[row] as f32, weights);
        }
        let mut second = [0.0; HIDDEN];
        for (x, weights) in first.iter().zip(&weights.second) {
            add_products(&mut second, x.max(0.0), weights);
        }
        let products = second.iter().zip(&weights.last).map(|(x, weight)| x.max(0.0) * weight);
        // Always adds in the same order, so that the guest and the native program get the same last digits.
        out.push(f64::from(products.fold(0.0, |sum, product| sum + product)));
    }
}

fn add_products(sums: &mut [f32; HIDDEN], x: f32, weights: &[f32; HIDDEN]) {
    for (sum, weight) in sums.iter_mut().zip(weights) {
        *sum += x * weight;
    }
}
