//! The element types of tensors.

use std::fmt;

/// The type of a tensor's elements: one of the seven types of `wasi:nn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorType {
    /// 16-bit floats of IEEE 754: [`F16`].
    F16,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
    /// 16-bit floats with the exponents of `f32`: [`Bf16`].
    Bf16,
    /// `u8`. Booleans are 0 and 1 of this type.
    U8,
    /// `i32`.
    I32,
    /// `i64`.
    I64,
}

/// Writes for example `f32` or `i64`.
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Bf16 => "bf16",
            Self::U8 => "u8",
            Self::I32 => "i32",
            Self::I64 => "i64",
        })
    }
}

/// A floating-point number of 16 bits (IEEE 754). It holds the bits, and does not calculate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct F16(pub u16);

/// A floating-point number with the upper 16 bits of an `f32`. It holds the bits, and does not calculate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(pub u16);

impl F16 {
    /// Rounds to the nearest number of 16 bits; between two equally near numbers, to the one whose last bit is
    /// 0. Numbers that are too large become infinite.
    #[expect(clippy::cast_possible_truncation, reason = "the rest has 16 bits")]
    pub fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let sign = bits >> 16 & 0x8000;
        let magnitude = bits & 0x7FFF_FFFF;
        let half = if magnitude > 0x7F80_0000 {
            // This bit keeps the number a NaN, even if all other bits of the fraction are cut off.
            0x7E00 | magnitude >> 13 & 0x3FF
        } else if magnitude >= 0x4780_0000 {
            0x7C00
        } else if magnitude >= 0x3880_0000 {
            // The exponent counts from 2^-14 instead of 2^-126.
            round_off(magnitude - 0x3800_0000, 13)
        } else if magnitude >= 0x3300_0000 {
            let shift = 126 - (magnitude >> 23);
            round_off(magnitude & 0x7F_FFFF | 0x80_0000, shift)
        } else {
            0
        };
        F16((sign | half) as u16)
    }

    /// The same number as `f32`.
    pub fn to_f32(self) -> f32 {
        let bits = u32::from(self.0);
        let sign = (bits & 0x8000) << 16;
        let exponent = bits >> 10 & 0x1F;
        let fraction = bits & 0x3FF;
        let magnitude = match exponent {
            // A multiple of 2^-24, which an `f32` represents exactly.
            0 => (f32::from(self.0 & 0x3FF) / 16_777_216.0).to_bits(),
            0x1F => 0x7F80_0000 | fraction << 13,
            _ => (exponent + 112) << 23 | fraction << 13,
        };
        f32::from_bits(sign | magnitude)
    }
}

impl Bf16 {
    /// The nearest number of 16 bits, with ties to even.
    #[expect(clippy::cast_possible_truncation, reason = "the rest has 16 bits")]
    pub fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        Bf16(if value.is_nan() { bits >> 16 | 0x40 } else { round_off(bits, 16) } as u16)
    }

    /// The same number as `f32`.
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

/// Divides by a power of two and rounds to nearest, with ties to even.
fn round_off(bits: u32, shift: u32) -> u32 {
    let kept = bits >> shift;
    let rest = bits & ((1 << shift) - 1);
    let half = 1 << (shift - 1);
    kept + u32::from(rest > half || rest == half && kept & 1 == 1)
}

/// A type that a tensor's elements can have. Only [`F16`], `f32`, `f64`, [`Bf16`], `u8`, `i32` and `i64`
/// implement it.
pub trait Element: sealed::PlainNumber {
    /// The type as a value.
    const TYPE: TensorType;
}

/// The elements of a tensor in row-major order.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    F16(Vec<F16>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bf16(Vec<Bf16>),
    U8(Vec<u8>),
    I32(Vec<i32>),
    I64(Vec<i64>),
}

mod sealed {
    use super::Values;

    /// Plain numbers: they have no padding, and every bit pattern is valid.
    pub trait PlainNumber: Copy + PartialEq + std::fmt::Debug + Send + Sync + 'static {
        fn store(values: Vec<Self>) -> Values;
        fn view(values: &Values) -> Option<&[Self]>;
        fn from_values(values: Values) -> Option<Vec<Self>>;
    }
}

macro_rules! elements {
    ($($element:ty => $variant:ident),*) => {
        $(
            impl Element for $element {
                const TYPE: TensorType = TensorType::$variant;
            }

            impl sealed::PlainNumber for $element {
                fn store(values: Vec<Self>) -> Values {
                    Values::$variant(values)
                }

                fn view(values: &Values) -> Option<&[Self]> {
                    if let Values::$variant(values) = values { Some(values) } else { None }
                }

                fn from_values(values: Values) -> Option<Vec<Self>> {
                    if let Values::$variant(values) = values { Some(values) } else { None }
                }
            }
        )*

        impl Values {
            pub(crate) fn ty(&self) -> TensorType {
                match self {
                    $(Values::$variant(_) => TensorType::$variant,)*
                }
            }

            pub(crate) fn len(&self) -> usize {
                match self {
                    $(Values::$variant(values) => values.len(),)*
                }
            }
        }
    };
}

elements!(
    F16 => F16, f32 => F32, f64 => F64, Bf16 => Bf16, u8 => U8, i32 => I32, i64 => I64
);

/// Converts to and from the bytes that `wasi:nn` uses. They are little-endian, like all numbers in
/// WebAssembly.
#[cfg(any(target_arch = "wasm32", all(test, target_endian = "little")))]
impl Values {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Values::F16(values) => bytes(values),
            Values::F32(values) => bytes(values),
            Values::F64(values) => bytes(values),
            Values::Bf16(values) => bytes(values),
            Values::U8(values) => values,
            Values::I32(values) => bytes(values),
            Values::I64(values) => bytes(values),
        }
    }

    /// Ignores an incomplete element at the end.
    pub(crate) fn from_bytes(ty: TensorType, bytes: Vec<u8>) -> Self {
        match ty {
            TensorType::F16 => Values::F16(each(&bytes, |b| F16(u16::from_le_bytes(b)))),
            TensorType::F32 => Values::F32(each(&bytes, f32::from_le_bytes)),
            TensorType::F64 => Values::F64(each(&bytes, f64::from_le_bytes)),
            TensorType::Bf16 => Values::Bf16(each(&bytes, |b| Bf16(u16::from_le_bytes(b)))),
            TensorType::U8 => Values::U8(bytes),
            TensorType::I32 => Values::I32(each(&bytes, i32::from_le_bytes)),
            TensorType::I64 => Values::I64(each(&bytes, i64::from_le_bytes)),
        }
    }
}

/// The elements as bytes, without a copy.
#[cfg(any(target_arch = "wasm32", all(test, target_endian = "little")))]
fn bytes<T: sealed::PlainNumber>(values: &[T]) -> &[u8] {
    // SAFETY: `PlainNumber` types have no padding, so all their bytes are initialized. The length is the
    // length of the slice in bytes.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

#[cfg(any(target_arch = "wasm32", all(test, target_endian = "little")))]
fn each<T, const SIZE: usize>(bytes: &[u8], read: impl Fn([u8; SIZE]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|chunk| read(*chunk)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bit_numbers_survive_a_round_trip() {
        for bits in 0..=u16::MAX {
            let half = F16(bits);
            let bf = Bf16(bits);
            let half_value = half.to_f32();
            let bf_value = bf.to_f32();
            // A conversion may turn a signaling NaN into a quiet one.
            assert!(F16::from_f32(half_value) == half || half_value.is_nan(), "{bits:#06x}");
            assert!(
                F16::from_f32(half_value).to_f32().is_nan() == half_value.is_nan(),
                "{bits:#06x}"
            );
            assert!(Bf16::from_f32(bf_value) == bf || bf_value.is_nan(), "{bits:#06x}");
            assert!(Bf16::from_f32(bf_value).to_f32().is_nan() == bf_value.is_nan(), "{bits:#06x}");
        }
    }

    #[test]
    fn numbers_are_rounded_to_sixteen_bits() {
        let f16 = |value: f32| F16::from_f32(value).0;
        assert_eq!([f16(1.0), f16(-2.0), f16(65504.0)], [0x3C00, 0xC000, 0x7BFF]);
        // Ties go to the even number. A number beyond the largest becomes infinite.
        assert_eq!(
            [f16(2049.0), f16(2051.0), f16(65519.0), f16(65520.0)],
            [0x6800, 0x6802, 0x7BFF, 0x7C00]
        );
        // The smallest number, half of it, a little more than half of it.
        let least = 2.0_f32.powi(-24);
        assert_eq!([f16(least), f16(least / 2.0), f16(least * 0.51), f16(0.0)], [1, 0, 1, 0]);
        assert_eq!(F16(0x3555).to_f32(), 0.333_251_95);
        assert_eq!(F16(0xFC00).to_f32(), f32::NEG_INFINITY);
        let bf16 = |value: f32| Bf16::from_f32(value).0;
        assert_eq!(
            [bf16(1.0), bf16(1.0 + 1.0 / 256.0), bf16(1.0 + 3.0 / 256.0)],
            [0x3F80, 0x3F80, 0x3F82]
        );
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn elements_convert_to_bytes_and_back() {
        let samples = [
            Values::F16(vec![F16(0x3C00), F16(1)]),
            Values::F32(vec![1.5, -0.0, f32::MAX]),
            Values::F64(vec![0.1]),
            Values::Bf16(vec![Bf16(0x3F80)]),
            Values::U8(vec![1, 2, 3]),
            Values::I32(vec![-1, i32::MIN]),
            Values::I64(vec![]),
        ];
        for values in samples {
            let bytes = values.bytes().to_vec();
            assert_eq!(Values::from_bytes(values.ty(), bytes), values);
        }
        assert_eq!(Values::I32(vec![258]).bytes(), [2, 1, 0, 0]);
        assert_eq!(Values::from_bytes(TensorType::I32, vec![1, 0, 0, 0, 9]), Values::I32(vec![1]));
    }
}
