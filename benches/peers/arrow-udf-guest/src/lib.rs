//! The logistic regression as a function for arrow-udf. arrow-udf calls the function once for each row.

use arrow_udf::function;

#[expect(dead_code, reason = "the kernel also has a function over columns")]
#[path = "../../../kernels/logistic.rs"]
mod kernel;

#[function(
    "logistic(float64, float64, float64, float64, float64, float64, float64, float64, float64, float64) -> float64"
)]
#[expect(clippy::too_many_arguments, reason = "a function has a parameter for each column")]
fn logistic(
    f0: f64,
    f1: f64,
    f2: f64,
    f3: f64,
    f4: f64,
    f5: f64,
    f6: f64,
    f7: f64,
    f8: f64,
    f9: f64,
) -> f64 {
    let row = [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9];
    let terms = kernel::WEIGHTS.iter().zip(row).map(|(weight, x)| weight * x);
    kernel::probability(terms.fold(kernel::BIAS, |sum, term| sum + term))
}
