// The guest and the native program include this file, so that they do the same arithmetic.

/// The model: one weight for each column after the id.
pub const WEIGHTS: [f64; 10] = [0.31, -1.27, 0.08, 0.94, -0.55, 1.71, -0.02, 0.66, -1.13, 0.49];

/// The model's constant term.
pub const BIAS: f64 = -0.125;

/// Computes the probability of each row, and writes it to `out`. Adds one column after the other, which
/// vectorizes well.
pub fn logistic<'a>(columns: impl Iterator<Item = &'a [f64]>, rows: usize, out: &mut Vec<f64>) {
    out.clear();
    out.resize(rows, BIAS);
    for (weight, column) in WEIGHTS.iter().zip(columns) {
        for (sum, x) in out.iter_mut().zip(column) {
            *sum += weight * x;
        }
    }
    for sum in out.iter_mut() {
        *sum = probability(*sum);
    }
}

/// The probability for a row's weighted sum.
pub fn probability(sum: f64) -> f64 {
    1.0 / (1.0 + exp(-sum))
}

/// The exponential function for arguments from -700 to 700. The standard library's function differs in the
/// last bit between systems, so the outputs of the native program and the guest would differ.
fn exp(x: f64) -> f64 {
    // 1.5 * 2^52. Adding and subtracting this number rounds to an integer.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    // 1/13, 1/12, ..., 1 for the Taylor series. Constants, because not every compiler unrolls a loop that
    // divides by its counter.
    const INVERSES: [f64; 13] = {
        let mut inverses = [0.0; 13];
        let mut n = 0;
        while n < 13 {
            inverses[n] = 1.0 / (13 - n) as f64;
            n += 1;
        }
        inverses
    };
    let x = x.clamp(-700.0, 700.0);
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let power = shifted - ROUND;
    let rest = x - power * LN_2_HIGH - power * LN_2_LOW;
    let mut sum = 1.0;
    for inverse in INVERSES {
        sum = 1.0 + sum * rest * inverse;
    }
    // Multiplies by 2 to the power of `power`. The low bits of `shifted` are this power as an integer. The
    // exponent of a float starts at bit 52, and has the bias 1023.
    sum * f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52))
}
