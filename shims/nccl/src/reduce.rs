//! The data types and the reductions.
//!
//! A reduction combines the values of the ranks in the order of the ranks, so all ranks and all runs get the same bits.
//! Integers wrap. Types with fewer bits than `f32` are summed as `f32` and rounded once. `max` and `min` prefer numbers
//! to NaN. An average is the sum divided by the number of ranks; for integers the quotient is rounded towards zero.

use half::{bf16, f16};

/// An `ncclDataType_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum DataType {
    I8,
    U8,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
    Bf16,
    E4m3,
    E5m2,
}

impl DataType {
    const ALL: [DataType; 12] = [
        DataType::I8,
        DataType::U8,
        DataType::I32,
        DataType::U32,
        DataType::I64,
        DataType::U64,
        DataType::F16,
        DataType::F32,
        DataType::F64,
        DataType::Bf16,
        DataType::E4m3,
        DataType::E5m2,
    ];

    /// Returns the type with NCCL's number.
    pub(crate) fn of(number: i32) -> Option<DataType> {
        DataType::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Returns the size of a value.
    pub(crate) fn bytes(self) -> usize {
        match self {
            DataType::I8 | DataType::U8 | DataType::E4m3 | DataType::E5m2 => 1,
            DataType::F16 | DataType::Bf16 => 2,
            DataType::I32 | DataType::U32 | DataType::F32 => 4,
            DataType::I64 | DataType::U64 | DataType::F64 => 8,
        }
    }
}

/// A reduction. The numbers are NCCL's, and [`PRE_MUL_SUM`](Self::PRE_MUL_SUM) is the first number of the operations
/// that programs create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Sum,
    Product,
    Max,
    Min,
    Average,
    /// The sum of the products of each rank's values and its factor.
    PreMulSum,
}

impl Reduction {
    /// The first number of created operations.
    pub(crate) const PRE_MUL_SUM: i32 = 5;

    /// Returns the built-in operation with NCCL's number.
    pub(crate) fn built_in(number: i32) -> Option<Reduction> {
        let all = [
            Reduction::Sum,
            Reduction::Product,
            Reduction::Max,
            Reduction::Min,
            Reduction::Average,
        ];
        all.get(usize::try_from(number).ok()?).copied()
    }
}

/// A value in memory.
trait Element: Copy {
    /// The type of intermediate results.
    type Wide: Copy + Default;
    fn widen(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
    fn add(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn multiply(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn larger(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn smaller(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn divide(a: Self::Wide, ranks: usize) -> Self::Wide;
}

macro_rules! integers {
    ($($name:ty)*) => {$(
        impl Element for $name {
            type Wide = $name;
            fn widen(self) -> $name {
                self
            }
            fn narrow(wide: $name) -> $name {
                wide
            }
            fn add(a: $name, b: $name) -> $name {
                a.wrapping_add(b)
            }
            fn multiply(a: $name, b: $name) -> $name {
                a.wrapping_mul(b)
            }
            fn larger(a: $name, b: $name) -> $name {
                a.max(b)
            }
            fn smaller(a: $name, b: $name) -> $name {
                a.min(b)
            }
            fn divide(a: $name, ranks: usize) -> $name {
                // The quotient of a number that the type cannot represent is 0.
                <$name>::try_from(ranks).map_or(0, |ranks| a.checked_div(ranks).unwrap_or(0))
            }
        }
    )*};
}

integers! { i8 u8 i32 u32 i64 u64 }

macro_rules! floats {
    ($($name:ty, $wide:ty, $widen:expr, $narrow:expr;)*) => {$(
        impl Element for $name {
            type Wide = $wide;
            fn widen(self) -> $wide {
                $widen(self)
            }
            fn narrow(wide: $wide) -> $name {
                $narrow(wide)
            }
            fn add(a: $wide, b: $wide) -> $wide {
                a + b
            }
            fn multiply(a: $wide, b: $wide) -> $wide {
                a * b
            }
            fn larger(a: $wide, b: $wide) -> $wide {
                a.max(b)
            }
            fn smaller(a: $wide, b: $wide) -> $wide {
                a.min(b)
            }
            fn divide(a: $wide, ranks: usize) -> $wide {
                a / ranks as $wide
            }
        }
    )*};
}

/// An 8-bit floating-point number with 4 bits of exponent and 3 of mantissa.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct E4m3(u8);

/// An 8-bit floating-point number with 5 bits of exponent and 2 of mantissa.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct E5m2(u8);

floats! {
    f32, f32, |value| value, |value| value;
    f64, f64, |value| value, |value| value;
    f16, f32, f16::to_f32, f16::from_f32;
    bf16, f32, bf16::to_f32, bf16::from_f32;
    E4m3, f32, |value: E4m3| decode_e4m3(value.0), |value| E4m3(encode(value, 3, 7, 0x7e));
    E5m2, f32, |value: E5m2| f16::from_bits(u16::from(value.0) << 8).to_f32(), |value| E5m2(encode(value, 2, 15, 0x7b));
}

fn decode_e4m3(bits: u8) -> f32 {
    let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
    let (exponent, mantissa) = (i32::from(bits >> 3 & 15), f32::from(bits & 7));
    match (exponent, bits & 7) {
        (15, 7) => f32::NAN,
        (0, _) => sign * mantissa * 2f32.powi(-9),
        _ => sign * (1.0 + mantissa / 8.0) * 2f32.powi(exponent - 7),
    }
}

/// Returns the 8-bit number nearest to `value`, ties to even. Values beyond the largest number `most` become that number.
fn encode(value: f32, mantissa: i32, bias: i32, most: u8) -> u8 {
    const NAN: u8 = 0x7f;
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    if value.is_nan() {
        return sign | NAN;
    }
    let magnitude = f64::from(value.abs());
    if magnitude >= 65536.0 {
        return sign | most;
    }
    let stored = (magnitude.to_bits() >> 52) as i32 - 1023;
    let exponent = stored.max(1 - bias);
    let steps = (magnitude * 2f64.powi(mantissa - exponent)).round_ties_even() as i32;
    // The leading one of a normal number adds one to the exponent.
    let code = ((exponent + bias - 1) << mantissa) + steps;
    sign | code.min(i32::from(most)) as u8
}

/// What a reduction reads and writes.
pub(crate) struct Reduce<'a> {
    pub(crate) data_type: DataType,
    pub(crate) reduction: Reduction,
    /// The addresses of each rank's values.
    pub(crate) sources: &'a [usize],
    /// The bytes of each rank's factor.
    pub(crate) factors: &'a [u64],
    /// The addresses that get the result.
    pub(crate) targets: &'a [usize],
    /// Number of values.
    pub(crate) count: usize,
}

impl Reduce<'_> {
    /// Performs the reduction.
    ///
    /// # Safety
    /// `count` values are readable at each source and writable at each target. A target may be a source, but must not
    /// overlap one otherwise.
    pub(crate) unsafe fn run(&self) {
        // SAFETY: the caller guarantees it for values of this type.
        unsafe {
            match self.data_type {
                DataType::I8 => self.typed::<i8>(),
                DataType::U8 => self.typed::<u8>(),
                DataType::I32 => self.typed::<i32>(),
                DataType::U32 => self.typed::<u32>(),
                DataType::I64 => self.typed::<i64>(),
                DataType::U64 => self.typed::<u64>(),
                DataType::F16 => self.typed::<f16>(),
                DataType::F32 => self.typed::<f32>(),
                DataType::F64 => self.typed::<f64>(),
                DataType::Bf16 => self.typed::<bf16>(),
                DataType::E4m3 => self.typed::<E4m3>(),
                DataType::E5m2 => self.typed::<E5m2>(),
            }
        }
    }

    /// # Safety
    /// As for `run`, with values of the type `E`.
    unsafe fn typed<E: Element>(&self) {
        const BLOCK: usize = 256;
        let mut sums = [E::Wide::default(); BLOCK];
        let mut start = 0;
        while start < self.count {
            let sums = &mut sums[..BLOCK.min(self.count - start)];
            for (rank, &source) in self.sources.iter().enumerate() {
                let source = (source as *const E).wrapping_add(start);
                let factor = self.factor::<E>(rank);
                for (index, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: the caller guarantees that the value is readable.
                    let value = unsafe { source.add(index).read_unaligned() }.widen();
                    let value = factor.map_or(value, |factor| E::multiply(value, factor));
                    *sum = match rank {
                        0 => value,
                        _ => self.combine::<E>(*sum, value),
                    };
                }
            }
            if self.reduction == Reduction::Average {
                let ranks = self.sources.len();
                sums.iter_mut()
                    .for_each(|sum| *sum = E::divide(*sum, ranks));
            }
            for &target in self.targets {
                let target = (target as *mut E).wrapping_add(start);
                for (index, &sum) in sums.iter().enumerate() {
                    // SAFETY: the caller guarantees that the value is writable.
                    unsafe { target.add(index).write_unaligned(E::narrow(sum)) };
                }
            }
            start += sums.len();
        }
    }

    fn factor<E: Element>(&self, rank: usize) -> Option<E::Wide> {
        if self.reduction != Reduction::PreMulSum {
            return None;
        }
        let bytes = self.factors[rank].to_le_bytes();
        // SAFETY: no element has more than eight bytes, and all bytes are values of an element.
        Some(unsafe { bytes.as_ptr().cast::<E>().read_unaligned() }.widen())
    }

    fn combine<E: Element>(&self, a: E::Wide, b: E::Wide) -> E::Wide {
        match self.reduction {
            Reduction::Sum | Reduction::Average | Reduction::PreMulSum => E::add(a, b),
            Reduction::Product => E::multiply(a, b),
            Reduction::Max => E::larger(a, b),
            Reduction::Min => E::smaller(a, b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduce<T: Copy + Default>(
        data_type: DataType,
        reduction: Reduction,
        values: &[&[T]],
        factors: &[u64],
    ) -> Vec<T> {
        let mut result = vec![T::default(); values[0].len()];
        let sources: Vec<_> = values.iter().map(|one| one.as_ptr() as usize).collect();
        let reduce = Reduce {
            data_type,
            reduction,
            sources: &sources,
            factors,
            targets: &[result.as_mut_ptr() as usize],
            count: result.len(),
        };
        // SAFETY: the vectors have this many values.
        unsafe { reduce.run() };
        result
    }

    #[test]
    fn integers_wrap_and_averages_round_towards_zero() {
        use Reduction as R;
        let of = |reduction| {
            reduce(
                DataType::I8,
                reduction,
                &[&[100i8, -7, 3], &[100, 0, 4]],
                &[],
            )
        };
        assert_eq!(of(R::Sum), [-56, -7, 7]);
        assert_eq!(of(R::Product), [16, 0, 12]);
        assert_eq!(of(R::Max), [100, 0, 4]);
        assert_eq!(of(R::Min), [100, -7, 3]);
        assert_eq!(of(R::Average), [-28, -3, 3]);
        let factors = [2, (-3i64).cast_unsigned()];
        let scaled = reduce(DataType::I32, R::PreMulSum, &[&[5i32], &[1]], &factors);
        assert_eq!(scaled, [7]);
        let large = reduce(DataType::U64, R::Max, &[&[u64::MAX - 1], &[5]], &[]);
        assert_eq!(large, [u64::MAX - 1]);
    }

    #[test]
    fn half_precision_is_rounded_once() {
        let one = [f16::from_f32(2048.0), f16::NAN];
        let two = [f16::from_f32(1.0), f16::from_f32(1.0)];
        let sum = reduce(DataType::F16, Reduction::Sum, &[&one, &two, &two], &[]);
        // In steps, 2048 + 1 would round to 2048 twice.
        assert_eq!(sum[0].to_f32(), 2050.0);
        let most = reduce(DataType::F16, Reduction::Max, &[&one, &two], &[]);
        assert_eq!(most[1].to_f32(), 1.0);
        let mean = reduce(
            DataType::Bf16,
            Reduction::Average,
            &[&[bf16::from_f32(3.0)], &[bf16::from_f32(6.0)]],
            &[],
        );
        assert_eq!(mean[0].to_f32(), 4.5);
    }

    #[test]
    fn eight_bit_numbers_round_to_even_and_saturate() {
        // 1.0, 1.125 (0x39), 448 (0x7e), the smallest subnormal number, NaN.
        assert_eq!(
            [0x38, 0x39, 0x7e, 1].map(decode_e4m3),
            [1.0, 1.125, 448.0, 0.001953125]
        );
        assert!(decode_e4m3(0x7f).is_nan());
        let e4m3 = |value| encode(value, 3, 7, 0x7e);
        assert_eq!(
            [1.0, 1.0625, 1.1875, 460.0, 1e9, -448.0].map(e4m3),
            [0x38, 0x38, 0x3a, 0x7e, 0x7e, 0xfe]
        );
        assert_eq!([0.001953125, 0.0009765625, 0.0].map(e4m3), [1, 0, 0]);
        for code in 0..0x7f {
            assert_eq!(e4m3(decode_e4m3(code)), code);
            let wide = f16::from_bits(u16::from(code) << 8).to_f32();
            if code <= 0x7b {
                assert_eq!(encode(wide, 2, 15, 0x7b), code);
            }
        }
        let sum = reduce(DataType::E5m2, Reduction::Sum, &[&[0x3cu8], &[0x3c]], &[]);
        assert_eq!(sum, [0x40]);
    }
}
