//! Products of mixed types.

use std::ffi::c_void;

use half::{bf16, f16};
use margay_blas::products::{self, AnyMatrix, Compute, GemmEx, SyrkEx, Types};
use margay_blas::{AnyScalar, Complex, DataType, Operation, Pointers, Triangle};

use crate::run::Random;

/// A column-major matrix of a type, with its numbers in double precision.
pub(crate) struct Any {
    pub(crate) bytes: Vec<u8>,
    pub(crate) kind: DataType,
    pub(crate) rows: usize,
}

/// A number in the bytes of a type, rounded.
pub(crate) fn encode(kind: DataType, value: Complex<f64>) -> Vec<u8> {
    use DataType::*;
    let part = |value: f64| match kind.real() {
        R32F => (value as f32).to_ne_bytes().to_vec(),
        R64F => value.to_ne_bytes().to_vec(),
        R16F => f16::from_f64(value).to_ne_bytes().to_vec(),
        R16BF => bf16::from_f64(value).to_ne_bytes().to_vec(),
        R8I => (value as i8).to_ne_bytes().to_vec(),
        R32I => (value as i32).to_ne_bytes().to_vec(),
        // The nearest code, found by search.
        E4M3 | E5M2 => vec![
            (0..=u8::MAX)
                .min_by(|a, b| {
                    (decode_small(kind, *a) - value)
                        .abs()
                        .total_cmp(&(decode_small(kind, *b) - value).abs())
                })
                .unwrap(),
        ],
        kind => panic!("{kind:?}"),
    };
    let mut bytes = part(value.re);
    if kind.is_complex() {
        bytes.extend(part(value.im));
    }
    bytes
}

fn decode_small(kind: DataType, code: u8) -> f64 {
    if kind == DataType::E5M2 {
        return f16::from_bits(u16::from(code) << 8).to_f64();
    }
    let (exponent, fraction) = (i32::from(code >> 3 & 15), f64::from(code & 7));
    let magnitude = match (exponent, code & 7) {
        (15, 7) => f64::NAN,
        (0, _) => fraction / 512.0,
        _ => (1.0 + fraction / 8.0) * 2f64.powi(exponent - 7),
    };
    if code & 0x80 != 0 {
        -magnitude
    } else {
        magnitude
    }
}

/// The number in bytes of a type.
pub(crate) fn decode(kind: DataType, bytes: &[u8]) -> Complex<f64> {
    use DataType::*;
    let size = kind.real().size();
    let part = |bytes: &[u8]| match kind.real() {
        R32F => f64::from(f32::from_ne_bytes(bytes.try_into().unwrap())),
        R64F => f64::from_ne_bytes(bytes.try_into().unwrap()),
        R16F => f16::from_ne_bytes(bytes.try_into().unwrap()).to_f64(),
        R16BF => bf16::from_ne_bytes(bytes.try_into().unwrap()).to_f64(),
        R8I => f64::from(bytes[0] as i8),
        R32I => f64::from(i32::from_ne_bytes(bytes.try_into().unwrap())),
        E4M3 | E5M2 => decode_small(kind, bytes[0]),
        kind => panic!("{kind:?}"),
    };
    Complex::new(
        part(&bytes[..size]),
        if kind.is_complex() {
            part(&bytes[size..2 * size])
        } else {
            0.0
        },
    )
}

/// The distance of a type's numbers near 1.
pub(crate) fn epsilon(kind: DataType) -> f64 {
    match kind.real() {
        DataType::R32F => 1.2e-7,
        DataType::R64F => 2.3e-16,
        DataType::R16F => 9.8e-4,
        DataType::R16BF => 7.9e-3,
        DataType::E4M3 => 0.125,
        DataType::E5M2 => 0.25,
        _ => 0.0,
    }
}

impl Any {
    /// Integers up to `largest`; other types up to 1.
    pub(crate) fn random_below(
        random: &mut Random,
        kind: DataType,
        rows: usize,
        columns: usize,
        largest: f64,
    ) -> Any {
        let integers = matches!(kind.real(), DataType::R8I | DataType::R32I);
        let number = |random: &mut Random| {
            if integers {
                (random.real() * largest).round()
            } else {
                random.real()
            }
        };
        let bytes = (0..rows * columns)
            .flat_map(|_| encode(kind, Complex::new(number(random), number(random))))
            .collect();
        Any { bytes, kind, rows }
    }

    pub(crate) fn at(&self, i: usize, j: usize) -> Complex<f64> {
        decode(
            self.kind,
            &self.bytes[(i + j * self.rows) * self.kind.size()..],
        )
    }

    pub(crate) fn op(&self, operation: Operation, i: usize, j: usize) -> Complex<f64> {
        let Complex { re, im } = match operation {
            Operation::None | Operation::Conjugate => self.at(i, j),
            Operation::Transpose | Operation::Adjoint => self.at(j, i),
        };
        Complex::new(
            re,
            if matches!(operation, Operation::Adjoint | Operation::Conjugate) {
                -im
            } else {
                im
            },
        )
    }

    fn matrix(&self, data: *const c_void) -> AnyMatrix {
        AnyMatrix {
            data: Pointers::Strided {
                base: data.cast_mut(),
                stride: 0,
            },
            kind: self.kind,
            ld: self.rows.max(1),
        }
    }
}

fn case(random: &mut Random, types: Types, [m, n, k]: [usize; 3]) {
    let Types {
        a,
        b,
        c,
        compute,
        scale,
    } = types;
    let operations = [Operation::None, Operation::Transpose, Operation::Adjoint];
    let (operation_a, operation_b) = (random.pick(&operations), random.pick(&operations));
    let shape = |operation, rows, columns| {
        if operation == Operation::None {
            (rows, columns)
        } else {
            (columns, rows)
        }
    };
    let ((rows_a, columns_a), (rows_b, columns_b)) =
        (shape(operation_a, m, k), shape(operation_b, k, n));
    let largest = if compute == Compute::I32 { 127.0 } else { 3.0 };
    let a = Any::random_below(random, a, rows_a, columns_a, largest);
    let b = Any::random_below(random, b, rows_b, columns_b, largest);
    let c = Any::random_below(random, c, m, n, largest);
    let narrow_result = c.kind == DataType::R8I;
    let (alpha, beta) = if compute == Compute::I32 && !narrow_result {
        (3.0, -2.0)
    } else if narrow_result {
        (0.0125, 0.5)
    } else {
        (0.75, -0.5)
    };
    let alpha_bytes = encode(scale, Complex::new(alpha, 0.0));
    let alpha_at = AnyScalar::At {
        address: alpha_bytes.as_ptr().cast(),
        kind: scale,
    };
    let mut result = c.bytes.clone();
    let arguments = GemmEx {
        operation_a,
        operation_b,
        m,
        n,
        k,
        alpha: alpha_at,
        a: a.matrix(a.bytes.as_ptr().cast()),
        b: b.matrix(b.bytes.as_ptr().cast()),
        beta: AnyScalar::Value(Complex::new(beta, 0.0)),
        c: c.matrix(result.as_mut_ptr().cast()),
        batch: 1,
        compute,
        scale,
    };
    // SAFETY: the matrices live until the plan has run.
    unsafe { products::gemm_ex(arguments) }.unwrap().run();
    let result = Any { bytes: result, ..c };
    let sums_epsilon = if compute == Compute::F64 {
        2.3e-16
    } else {
        1.2e-7
    };
    for j in 0..n {
        for i in 0..m {
            let old = decode(c.kind, &c.bytes[(i + j * m) * c.kind.size()..]);
            let (mut re, mut im, mut size) = (
                beta * old.re,
                beta * old.im,
                beta.abs() * (old.re.abs() + old.im.abs()),
            );
            for p in 0..k {
                let (x, y) = (a.op(operation_a, i, p), b.op(operation_b, p, j));
                re += alpha * (x.re * y.re - x.im * y.im);
                im += alpha * (x.re * y.im + x.im * y.re);
                size += alpha.abs() * (x.re.abs() + x.im.abs()) * (y.re.abs() + y.im.abs());
            }
            if narrow_result {
                re = re.round_ties_even().clamp(-128.0, 127.0);
            }
            let got = result.at(i, j);
            let limit = (4.0 + k as f64 / 8.0) * sums_epsilon * size
                + 0.51 * epsilon(c.kind) * re.abs().max(im.abs())
                + if c.kind == DataType::E4M3 {
                    1.0 / 1024.0
                } else {
                    1e-7
                };
            let limit = if compute == Compute::I32 {
                if narrow_result { 1.0 } else { 0.0 }
            } else {
                limit
            };
            assert!(
                (got.re - re).abs() <= limit && (got.im - im).abs() <= limit,
                "{types:?} {m} {n} {k}: {got:?} instead of {re} {im}, allowed {limit:e}"
            );
        }
    }
}

#[test]
fn products_of_all_documented_types() {
    use DataType::*;
    let mut random = Random::new(50);
    let mut supported = 0;
    let all = [
        R32F, R64F, R16F, R8I, C32F, C64F, C16F, C8I, R32I, R16BF, C16BF, E4M3, E5M2,
    ];
    for compute in [Compute::F16, Compute::F32, Compute::F64, Compute::I32] {
        for scale in [R16F, R32F, R64F, R32I, C32F, C64F] {
            for a in all {
                for b in all {
                    for c in all {
                        let types = Types {
                            a,
                            b,
                            c,
                            compute,
                            scale,
                        };
                        supported += usize::from(products::supports(types));
                        assert!(!products::supports(types) || products::computes(types));
                        if products::computes(types) {
                            let size = [1 + random.below(9), 1 + random.below(9), random.below(20)];
                            case(&mut random, types, size);
                        }
                    }
                }
            }
        }
    }
    // 16F; 32I; 16BF twice, 16F twice, 8I, 32F, complex 8I and 32F; 64F real and complex.
    assert_eq!(supported, 12);
    for types in [
        Types {
            a: R16F,
            b: R16F,
            c: R16F,
            compute: Compute::F32,
            scale: R32F,
        },
        Types {
            a: R16BF,
            b: R16BF,
            c: R32F,
            compute: Compute::F32,
            scale: R32F,
        },
        Types {
            a: R8I,
            b: R8I,
            c: R32I,
            compute: Compute::I32,
            scale: R32I,
        },
        Types {
            a: C8I,
            b: C8I,
            c: C32F,
            compute: Compute::F32,
            scale: C32F,
        },
    ] {
        case(&mut random, types, [70, 65, 700]);
        case(&mut random, types, [1, 2, 5000]);
    }
}

#[test]
fn integer_products_wrap() {
    let (a, b) = (vec![-128i8; 140_000], vec![-128i8; 140_000]);
    let mut c = [0i32];
    let matrix = |data: *const c_void, kind, ld| AnyMatrix {
        data: Pointers::Strided {
            base: data.cast_mut(),
            stride: 0,
        },
        kind,
        ld,
    };
    let one = AnyScalar::Value(Complex::new(1.0, 0.0));
    let arguments = GemmEx {
        operation_a: Operation::Transpose,
        operation_b: Operation::None,
        m: 1,
        n: 1,
        k: 140_000,
        alpha: one,
        a: matrix(a.as_ptr().cast(), DataType::R8I, 140_000),
        b: matrix(b.as_ptr().cast(), DataType::R8I, 140_000),
        beta: AnyScalar::Value(Complex::new(0.0, 0.0)),
        c: matrix(c.as_mut_ptr().cast(), DataType::R32I, 1),
        batch: 1,
        compute: Compute::I32,
        scale: DataType::R32I,
    };
    // SAFETY: the matrices live until the plan has run.
    unsafe { products::gemm_ex(arguments) }.unwrap().run();
    assert_eq!(i64::from(c[0]), 140_000 * 16384 - (1 << 32));
}

#[test]
fn rank_k_updates_of_complex_integers() {
    let a: [Complex<i8>; 4] = [
        Complex::new(1, 2),
        Complex::new(3, -1),
        Complex::new(-2, 0),
        Complex::new(0, 5),
    ];
    let run = |hermitian: bool| {
        let mut c = [Complex::new(f32::NAN, 0.0); 4];
        let arguments = SyrkEx {
            triangle: Triangle::Lower,
            operation: Operation::None,
            n: 2,
            k: 2,
            alpha: AnyScalar::Value(Complex::new(2.0, 0.0)),
            a: a.as_ptr().cast(),
            a_type: DataType::C8I,
            lda: 2,
            beta: AnyScalar::Value(Complex::new(0.0, 0.0)),
            c: c.as_mut_ptr().cast(),
            c_type: DataType::C32F,
            ldc: 2,
        };
        // SAFETY: the matrices live until the plan has run.
        unsafe {
            if hermitian {
                products::herk_ex(arguments)
            } else {
                products::syrk_ex(arguments)
            }
        }
        .unwrap()
        .run();
        c
    };
    // Rows (1 + 2i, -2) and (3 - i, 5i).
    let [first, second, other, last] = run(false);
    assert_eq!(
        [first, second, last],
        [
            Complex::new(2.0, 8.0),
            Complex::new(10.0, -10.0),
            Complex::new(-34.0, -12.0)
        ]
    );
    assert!(other.re.is_nan());
    let [first, second, _, last] = run(true);
    assert_eq!(
        [first, second, last],
        [
            Complex::new(18.0, 0.0),
            Complex::new(2.0, -34.0),
            Complex::new(70.0, 0.0)
        ]
    );
}
