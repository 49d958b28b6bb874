//! The product and the transform of cuBLASLt.

use std::ffi::c_void;

use half::f16;
use margay_blas::matmul::{
    self, Activation, Auxiliary, Bias, BiasGradient, Epilogue, Factor, Layout, Matmul, Order,
    Scale, Transform,
};
use margay_blas::products::Compute;
use margay_blas::{AnyScalar, Complex, DataType, Operation, Plan, Pointers};

use crate::products::{decode, encode, epsilon};
use crate::run::{Random, results};

const NOTHING: Epilogue = Epilogue {
    activation: Activation::Identity,
    bias: None,
    gradient: BiasGradient::None,
    auxiliary: None,
};

fn number(value: f64) -> Factor {
    Factor::Scalar(AnyScalar::Value(Complex::new(value, 0.0)))
}

fn layout<T>(
    data: *const T,
    kind: DataType,
    order: Order,
    rows: usize,
    columns: usize,
    ld: usize,
) -> Layout {
    let data = Pointers::Strided {
        base: data.cast::<c_void>().cast_mut(),
        stride: (ld
            * if order == Order::Column {
                columns
            } else {
                rows
            }) as i64,
    };
    Layout {
        data,
        kind,
        order,
        rows,
        columns,
        ld,
        plane: 0,
    }
}

fn column<T>(data: *const T, kind: DataType, rows: usize, columns: usize) -> Layout {
    layout(data, kind, Order::Column, rows, columns, rows)
}

fn plan(arguments: Matmul) -> Plan {
    assert!(matmul::supports(&arguments));
    // SAFETY: the caller keeps the operands until the plan has run.
    unsafe { matmul::matmul(arguments) }.unwrap()
}

/// A product of f32 matrices in columns: A is m by k, B is k by n, D is m by n and equals C.
struct Case {
    m: usize,
    n: usize,
    k: usize,
    batch: usize,
    a: Vec<f32>,
    b: Vec<f32>,
    d: Vec<f32>,
}

impl Case {
    fn new(random: &mut Random, m: usize, n: usize, k: usize, batch: usize) -> Case {
        Case {
            m,
            n,
            k,
            batch,
            a: random.values(m * k * batch),
            b: random.values(k * n * batch),
            d: random.values(m * n * batch),
        }
    }

    fn arguments(&self, d: *mut f32) -> Matmul {
        let kind = DataType::R32F;
        Matmul {
            operation_a: Operation::None,
            operation_b: Operation::None,
            k: self.k,
            alpha: number(2.0),
            a: column(self.a.as_ptr(), kind, self.m, self.k),
            b: column(self.b.as_ptr(), kind, self.k, self.n),
            beta: number(-1.0),
            c: column(d, kind, self.m, self.n),
            d: column(d, kind, self.m, self.n),
            batch: self.batch,
            compute: Compute::F32,
            scale: kind,
            scales: [Scale::None; 4],
            output_scales: None,
            amax: std::ptr::null_mut(),
            epilogue: NOTHING,
        }
    }

    /// The product of an item without factors.
    fn product(&self, item: usize, i: usize, j: usize) -> f64 {
        let (a, b) = (
            &self.a[item * self.m * self.k..],
            &self.b[item * self.k * self.n..],
        );
        (0..self.k)
            .map(|p| f64::from(a[i + p * self.m]) * f64::from(b[p + j * self.k]))
            .sum()
    }

    fn old(&self, item: usize, i: usize, j: usize) -> f64 {
        f64::from(self.d[item * self.m * self.n + i + j * self.m])
    }

    #[track_caller]
    fn check(&self, got: &[f32], want: impl Fn(usize, usize, usize) -> f64) {
        for item in 0..self.batch {
            for j in 0..self.n {
                for i in 0..self.m {
                    let got = f64::from(got[item * self.m * self.n + i + j * self.m]);
                    let want = want(item, i, j);
                    assert!(
                        (got - want).abs() <= 1e-6 * (self.k as f64 + 4.0),
                        "({item}, {i}, {j}): {got} instead of {want}"
                    );
                }
            }
        }
    }
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}

fn gelu_derivative(x: f64) -> f64 {
    (gelu(x + 1e-6) - gelu(x - 1e-6)) / 2e-6
}

fn bias(values: &mut [f32], stride: i64) -> Option<Bias> {
    Some(Bias {
        data: values.as_mut_ptr().cast(),
        kind: DataType::R32F,
        batch_stride: stride,
    })
}

const SIZES: [(usize, usize, usize, usize); 5] = [
    (1, 1, 1, 1),
    (5, 3, 7, 2),
    (70, 50, 33, 2),
    (33, 130, 0, 1),
    (12, 9, 20_000, 1),
];

#[test]
fn epilogues_with_bias_and_activation() {
    let mut random = Random::new(60);
    for (m, n, k, batch) in SIZES {
        let case = Case::new(&mut random, m, n, k, batch);
        let mut added: Vec<f32> = random.values(m * batch);
        for (activation, function) in [
            (Activation::Identity, (|x| x) as fn(f64) -> f64),
            (Activation::Relu, |x| x.max(0.0)),
            (Activation::Gelu, gelu),
        ] {
            let epilogue = Epilogue {
                activation,
                bias: bias(&mut added, m as i64),
                ..NOTHING
            };
            let got = results(&case.d, |d| {
                plan(Matmul {
                    epilogue,
                    ..case.arguments(d)
                })
            });
            case.check(&got, |item, i, j| {
                function(
                    2.0 * case.product(item, i, j) - case.old(item, i, j)
                        + f64::from(added[item * m + i]),
                )
            });
        }
    }
}

#[test]
fn relu_writes_and_reads_its_mask() {
    let mut random = Random::new(61);
    for (m, n, k, batch) in SIZES {
        let case = Case::new(&mut random, m, n, k, batch);
        let ld = m.next_multiple_of(128);
        let mut mask = vec![0xaau8; ld / 8 * n * batch];
        let auxiliary = Some(Auxiliary {
            data: mask.as_mut_ptr().cast(),
            kind: DataType::R32F,
            ld,
            batch_stride: (ld * n) as i64,
            scale: Scale::None,
            amax: std::ptr::null_mut(),
        });
        let epilogue = Epilogue {
            activation: Activation::Relu,
            auxiliary,
            ..NOTHING
        };
        let value = |item, i, j| 2.0 * case.product(item, i, j) - case.old(item, i, j);
        let got = results(&case.d, |d| {
            plan(Matmul {
                epilogue,
                ..case.arguments(d)
            })
        });
        case.check(&got, |item, i, j| value(item, i, j).max(0.0));
        let bit = |item: usize, i: usize, j: usize| {
            mask[item * ld / 8 * n + j * ld / 8 + i / 8] >> (i % 8) & 1
        };
        for (item, i, j) in
            (0..batch).flat_map(|item| (0..n).flat_map(move |j| (0..m).map(move |i| (item, i, j))))
        {
            assert!(
                value(item, i, j).abs() < 1e-3
                    || (bit(item, i, j) == 1) == (value(item, i, j) > 0.0),
                "bit of ({item}, {i}, {j})"
            );
        }
        // The gradient reads the mask; the gradient of the bias is the sum of each row.
        let mut sums = vec![f32::NAN; m * batch];
        let sums_at = bias(&mut sums, m as i64);
        let epilogue = Epilogue {
            activation: Activation::ReluGradient,
            auxiliary,
            bias: sums_at,
            gradient: BiasGradient::Result,
        };
        let got = results(&case.d, |d| {
            plan(Matmul {
                epilogue,
                ..case.arguments(d)
            })
        });
        case.check(&got, |item, i, j| {
            value(item, i, j) * f64::from(bit(item, i, j))
        });
        check_sums(&case, &sums, &got);
    }
}

#[track_caller]
fn check_sums(case: &Case, sums: &[f32], d: &[f32]) {
    for item in 0..case.batch {
        for i in 0..case.m {
            let want: f64 = (0..case.n)
                .map(|j| f64::from(d[item * case.m * case.n + i + j * case.m]))
                .sum();
            let got = f64::from(sums[item * case.m + i]);
            assert!(
                (got - want).abs() < 1e-4 * (case.k as f64 + 1.0).sqrt(),
                "sum of row {i}: {got} instead of {want}"
            );
        }
    }
}

#[test]
fn gelu_writes_and_reads_its_input() {
    let mut random = Random::new(62);
    for (m, n, k, batch) in SIZES {
        let case = Case::new(&mut random, m, n, k, batch);
        let ld = m.next_multiple_of(8);
        let mut input = vec![f16::NAN; ld * n * batch];
        let mut largest = f32::NAN;
        let auxiliary = Some(Auxiliary {
            data: input.as_mut_ptr().cast(),
            kind: DataType::R16F,
            ld,
            batch_stride: (ld * n) as i64,
            scale: Scale::None,
            amax: &mut largest,
        });
        let epilogue = Epilogue {
            activation: Activation::Gelu,
            auxiliary,
            ..NOTHING
        };
        let value = |item, i, j| 2.0 * case.product(item, i, j) - case.old(item, i, j);
        let got = results(&case.d, |d| {
            plan(Matmul {
                epilogue,
                ..case.arguments(d)
            })
        });
        case.check(&got, |item, i, j| gelu(value(item, i, j)));
        let mut want_largest: f64 = 0.0;
        for (item, i, j) in
            (0..batch).flat_map(|item| (0..n).flat_map(move |j| (0..m).map(move |i| (item, i, j))))
        {
            let stored = input[item * ld * n + j * ld + i].to_f64();
            let want = value(item, i, j);
            assert!((stored - want).abs() <= 6e-4 * want.abs() + 1e-6 * (k as f64 + 1.0));
            want_largest = want_largest.max(want.abs());
        }
        assert!(
            (f64::from(largest) - want_largest).abs() < 1e-6 * (k as f64 + 4.0),
            "{largest} {want_largest}"
        );
        let mut sums = vec![f32::NAN; m * batch];
        let sums_at = bias(&mut sums, m as i64);
        let epilogue = Epilogue {
            activation: Activation::GeluGradient,
            auxiliary,
            bias: sums_at,
            gradient: BiasGradient::Result,
        };
        let got = results(&case.d, |d| {
            plan(Matmul {
                epilogue,
                ..case.arguments(d)
            })
        });
        let stored = |item: usize, i: usize, j: usize| input[item * ld * n + j * ld + i].to_f64();
        case.check(&got, |item, i, j| {
            value(item, i, j) * gelu_derivative(stored(item, i, j))
        });
        check_sums(&case, &sums, &got);
    }
}

#[test]
fn gradients_of_the_bias_from_the_operands() {
    let mut random = Random::new(63);
    for (m, n, k, batch) in SIZES {
        let case = Case::new(&mut random, m, n, k, batch);
        for (gradient, count) in [(BiasGradient::A, m), (BiasGradient::B, n)] {
            let mut sums = vec![f32::NAN; count * batch];
            let sums_at = bias(&mut sums, count as i64);
            let epilogue = Epilogue {
                bias: sums_at,
                gradient,
                ..NOTHING
            };
            let got = results(&case.d, |d| {
                plan(Matmul {
                    epilogue,
                    ..case.arguments(d)
                })
            });
            case.check(&got, |item, i, j| {
                2.0 * case.product(item, i, j) - case.old(item, i, j)
            });
            for item in 0..batch {
                for index in 0..count {
                    let term = |p: usize| match gradient {
                        BiasGradient::A => case.a[item * m * k + index + p * m],
                        _ => case.b[item * k * n + p + index * k],
                    };
                    let want: f64 = (0..k).map(|p| f64::from(term(p))).sum();
                    assert!(
                        (f64::from(sums[item * count + index]) - want).abs()
                            < 1e-6 * (k as f64 + 4.0)
                    );
                }
            }
        }
    }
}

#[test]
fn factors_of_rows_and_items() {
    let mut random = Random::new(64);
    let (m, n, k, batch) = (37, 20, 11, 3);
    let case = Case::new(&mut random, m, n, k, batch);
    let (alpha, beta): (Vec<f32>, Vec<f32>) = (random.values(m * batch), random.values(m));
    let kind = DataType::R32F;
    let got = results(&case.d, |d| {
        let alpha = Factor::Rows {
            data: alpha.as_ptr().cast(),
            kind,
            batch_stride: m as i64,
        };
        let beta = Factor::Rows {
            data: beta.as_ptr().cast(),
            kind,
            batch_stride: 0,
        };
        plan(Matmul {
            alpha,
            beta,
            ..case.arguments(d)
        })
    });
    case.check(&got, |item, i, j| {
        f64::from(alpha[item * m + i]) * case.product(item, i, j)
            + f64::from(beta[i]) * case.old(item, i, j)
    });
    let got = results(&case.d, |d| {
        let alpha = Factor::Items {
            data: alpha.as_ptr().cast(),
            kind,
            batch_stride: 2,
        };
        let beta = Factor::Items {
            data: beta.as_ptr().cast(),
            kind,
            batch_stride: 1,
        };
        plan(Matmul {
            alpha,
            beta,
            ..case.arguments(d)
        })
    });
    case.check(&got, |item, i, j| {
        f64::from(alpha[2 * item]) * case.product(item, i, j)
            + f64::from(beta[item]) * case.old(item, i, j)
    });
}

#[test]
fn scales_and_largest_values() {
    let mut random = Random::new(65);
    let (m, n, k, batch) = (40, 25, 9, 2);
    let case = Case::new(&mut random, m, n, k, batch);
    let (one, two) = ([0.5f32, 4.0], [0.25f32, 8.0]);
    let mut largest = f32::NAN;
    let largest_at = &raw mut largest;
    let scales = [
        Scale::Tensor(&one[0]),
        Scale::Tensor(&two[0]),
        Scale::Tensor(&one[1]),
        Scale::Tensor(&two[1]),
    ];
    let got = results(&case.d, |d| {
        plan(Matmul {
            scales,
            amax: largest_at,
            ..case.arguments(d)
        })
    });
    let value = |item: usize, i, j| {
        2.0 * 0.5 * f64::from(two[0]) * case.product(item, i, j) - 4.0 * case.old(item, i, j)
    };
    let mut want: f64 = 0.0;
    for (item, i, j) in
        (0..batch).flat_map(|item| (0..n).flat_map(move |j| (0..m).map(move |i| (item, i, j))))
    {
        want = want.max(value(item, i, j).abs());
        assert!((f64::from(got[item * m * n + i + j * m]) - 8.0 * value(item, i, j)).abs() < 1e-3);
    }
    assert!((f64::from(largest) - want).abs() < 1e-4);
    // Factors of rows and of columns.
    let (rows, columns): (Vec<f32>, Vec<f32>) = (random.values(m), random.values(n));
    let scales = [
        Scale::Outer(rows.as_ptr()),
        Scale::Outer(columns.as_ptr()),
        Scale::None,
        Scale::None,
    ];
    let got = results(&case.d, |d| {
        plan(Matmul {
            scales,
            ..case.arguments(d)
        })
    });
    case.check(&got, |item, i, j| {
        2.0 * f64::from(rows[i]) * f64::from(columns[j]) * case.product(item, i, j)
            - case.old(item, i, j)
    });
    // NaN is the largest value.
    let mut nans = case.d.clone();
    nans[7] = f32::NAN;
    let mut largest = 0.0;
    plan(Matmul {
        amax: &mut largest,
        ..case.arguments(nans.as_mut_ptr())
    })
    .run();
    assert!(largest.is_nan());
}

/// The index of an element in an order, written down from the documentation.
fn index(order: Order, ld: usize, row: usize, column: usize) -> usize {
    match order {
        Order::Column => column * ld + row,
        Order::Row => row * ld + column,
        Order::Column32 => (column / 32) * ld + row * 32 + column % 32,
        Order::Column32_2R4R4 => {
            let (r, c) = (row % 32, column % 32);
            (column / 32) * ld
                + (row / 32) * 1024
                + (((r % 8) / 2 * 4 + r / 8) * 2 + r % 2) * 32
                + c
        }
        Order::Column4_4R2_8C => {
            // A tile of 8 rows and 32 columns has 256 elements: parts of 8 columns for even rows, then for odd rows; 4 columns of 4 rows are together.
            let (r, c) = (row % 8, column % 32);
            let (parity, part, half, of_four) = (r % 2, c / 8, (c % 8) / 4, c % 4);
            (column / 32) * ld
                + (row / 8) * 256
                + parity * 128
                + part * 32
                + half * 16
                + (r / 2) * 4
                + of_four
        }
    }
}

fn ld_of(order: Order, rows: usize, columns: usize) -> usize {
    match order {
        Order::Column => rows + 1,
        Order::Row => columns + 2,
        Order::Column32 => 32 * rows,
        Order::Column4_4R2_8C => 32 * rows.next_multiple_of(8),
        Order::Column32_2R4R4 => 32 * rows.next_multiple_of(32),
    }
}

const ORDERS: [Order; 5] = [
    Order::Column,
    Order::Row,
    Order::Column32,
    Order::Column4_4R2_8C,
    Order::Column32_2R4R4,
];

/// A matrix in an order.
struct Ordered {
    bytes: Vec<u8>,
    kind: DataType,
    order: Order,
    rows: usize,
    columns: usize,
    ld: usize,
}

impl Ordered {
    fn new(
        random: &mut Random,
        kind: DataType,
        order: Order,
        rows: usize,
        columns: usize,
    ) -> Ordered {
        let ld = ld_of(order, rows, columns);
        let outer = match order {
            Order::Column => columns,
            Order::Row => rows,
            _ => columns.div_ceil(32),
        };
        let number = |random: &mut Random| (random.real() * 100.0).round();
        let bytes = (0..ld * outer)
            .flat_map(|_| encode(kind, Complex::new(number(random), number(random))))
            .collect();
        Ordered {
            bytes,
            kind,
            order,
            rows,
            columns,
            ld,
        }
    }

    fn of(&self, bytes: &[u8], i: usize, j: usize) -> Complex<f64> {
        decode(
            self.kind,
            &bytes[index(self.order, self.ld, i, j) * self.kind.size()..],
        )
    }

    fn at(&self, i: usize, j: usize) -> Complex<f64> {
        self.of(&self.bytes, i, j)
    }

    fn layout(&self, data: *const u8) -> Layout {
        let data = Pointers::Strided {
            base: data.cast::<c_void>().cast_mut(),
            stride: 0,
        };
        Layout {
            data,
            kind: self.kind,
            order: self.order,
            rows: self.rows,
            columns: self.columns,
            ld: self.ld,
            plane: 0,
        }
    }
}

#[test]
fn orders_of_elements() {
    let mut random = Random::new(66);
    // The order's indices are all different, and within the matrix.
    for order in ORDERS {
        let (rows, columns) = (40, 70);
        let mut indices: Vec<usize> = (0..rows * columns)
            .map(|element| {
                index(
                    order,
                    ld_of(order, rows, columns),
                    element % rows,
                    element / rows,
                )
            })
            .collect();
        indices.sort_unstable();
        indices.dedup();
        assert_eq!(indices.len(), rows * columns);
    }
    for order in ORDERS {
        for operation in [Operation::None, Operation::Transpose] {
            let (m, n, k) = (35, 41, 37);
            let (rows, columns) = if operation == Operation::None {
                (m, k)
            } else {
                (k, m)
            };
            for (kinds, compute, scale) in [
                (
                    [DataType::R8I, DataType::R32I],
                    Compute::I32,
                    DataType::R32I,
                ),
                ([DataType::R8I, DataType::R8I], Compute::I32, DataType::R32F),
                (
                    [DataType::R16F, DataType::R32F],
                    Compute::F32,
                    DataType::R32F,
                ),
            ] {
                let a = Ordered::new(&mut random, kinds[0], order, rows, columns);
                let (second, third) = (random.pick(&ORDERS), random.pick(&ORDERS));
                let b = Ordered::new(&mut random, kinds[0], second, n, k);
                let c = Ordered::new(&mut random, kinds[1], third, m, n);
                let (alpha, beta) = if scale == DataType::R32I {
                    (2.0, 3.0)
                } else {
                    (0.001, 0.5)
                };
                let mut d = c.bytes.clone();
                let arguments = Matmul {
                    operation_a: operation,
                    operation_b: Operation::Transpose,
                    k,
                    alpha: number(alpha),
                    a: a.layout(a.bytes.as_ptr()),
                    b: b.layout(b.bytes.as_ptr()),
                    beta: number(beta),
                    c: c.layout(c.bytes.as_ptr()),
                    d: c.layout(d.as_mut_ptr()),
                    batch: 1,
                    compute,
                    scale,
                    scales: [Scale::None; 4],
                    output_scales: None,
                    amax: std::ptr::null_mut(),
                    epilogue: NOTHING,
                };
                plan(arguments).run();
                for j in 0..n {
                    for i in 0..m {
                        let left = |p| {
                            if operation == Operation::None {
                                a.at(i, p)
                            } else {
                                a.at(p, i)
                            }
                        };
                        let mut want = alpha
                            * (0..k).map(|p| left(p).re * b.at(j, p).re).sum::<f64>()
                            + beta * c.at(i, j).re;
                        if c.kind == DataType::R8I {
                            want = want.round_ties_even().clamp(-128.0, 127.0);
                        }
                        let got = c.of(&d, i, j).re;
                        let limit = if scale == DataType::R32I {
                            0.0
                        } else if c.kind == DataType::R8I {
                            1.0
                        } else {
                            1e-4 * want.abs() + 1e-3
                        };
                        assert!(
                            (got - want).abs() <= limit,
                            "{order:?} {operation:?} {kinds:?} ({i}, {j}): {got} instead of {want}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn planes_of_complex_matrices() {
    let mut random = Random::new(67);
    let (m, n, k) = (5, 6, 7);
    let plane = |random: &mut Random, count: usize| -> Vec<f16> {
        (0..2 * count)
            .map(|_| f16::from_f64((random.real() * 8.0).round()))
            .collect()
    };
    let (a, b, mut d) = (
        plane(&mut random, m * k),
        plane(&mut random, k * n),
        plane(&mut random, m * n),
    );
    let with_plane = |mut layout: Layout, count: usize| {
        layout.plane = (count * 2) as i64;
        layout
    };
    let kind = DataType::C16F;
    let arguments = Matmul {
        operation_a: Operation::None,
        operation_b: Operation::Conjugate,
        k,
        alpha: Factor::Scalar(AnyScalar::Value(Complex::new(0.0, 1.0))),
        a: with_plane(column(a.as_ptr(), kind, m, k), m * k),
        b: with_plane(column(b.as_ptr(), kind, k, n), k * n),
        beta: number(0.0),
        c: with_plane(column(d.as_mut_ptr(), kind, m, n), m * n),
        d: with_plane(column(d.as_mut_ptr(), kind, m, n), m * n),
        batch: 1,
        compute: Compute::F32,
        scale: DataType::C32F,
        scales: [Scale::None; 4],
        output_scales: None,
        amax: std::ptr::null_mut(),
        epilogue: NOTHING,
    };
    plan(arguments).run();
    let at = |values: &[f16], index: usize| {
        (
            values[index].to_f64(),
            values[index + values.len() / 2].to_f64(),
        )
    };
    for j in 0..n {
        for i in 0..m {
            let (mut re, mut im) = (0.0, 0.0);
            for p in 0..k {
                let ((ar, ai), (br, bi)) = (at(&a, i + p * m), at(&b, p + j * k));
                re += ar * br + ai * bi;
                im += ai * br - ar * bi;
            }
            // Times i.
            assert_eq!(at(&d, i + j * m), (-im, re));
        }
    }
}

#[test]
fn eight_bit_floats_with_scales_and_bias() {
    let mut random = Random::new(68);
    let (m, n, k) = (48, 32, 64);
    let e4m3 = |random: &mut Random, count: usize| -> Vec<u8> {
        (0..count)
            .flat_map(|_| encode(DataType::E4M3, Complex::new(random.real(), 0.0)))
            .collect()
    };
    let (a, b) = (e4m3(&mut random, m * k), e4m3(&mut random, k * n));
    let mut d = vec![0u8; m * n];
    let mut added: Vec<f16> = (0..m).map(|_| f16::from_f64(random.real())).collect();
    let (scale_a, scale_b, scale_d) = (0.5f32, 2.0f32, 3.0f32);
    let mut largest = 0f32;
    let kind = DataType::E4M3;
    let arguments = Matmul {
        operation_a: Operation::Transpose,
        operation_b: Operation::None,
        k,
        alpha: number(1.0),
        a: column(a.as_ptr(), kind, k, m),
        b: column(b.as_ptr(), kind, k, n),
        beta: number(0.0),
        c: column(d.as_ptr(), DataType::R16F, m, n),
        d: column(d.as_mut_ptr(), kind, m, n),
        batch: 1,
        compute: Compute::F32,
        scale: DataType::R32F,
        scales: [
            Scale::Tensor(&scale_a),
            Scale::Tensor(&scale_b),
            Scale::None,
            Scale::Tensor(&scale_d),
        ],
        output_scales: None,
        amax: &mut largest,
        epilogue: Epilogue {
            activation: Activation::Relu,
            bias: Some(Bias {
                data: added.as_mut_ptr().cast(),
                kind: DataType::R16F,
                batch_stride: 0,
            }),
            ..NOTHING
        },
    };
    plan(arguments).run();
    let number = |bytes: &[u8], index: usize| decode(kind, &bytes[index..]).re;
    let mut want_largest: f64 = 0.0;
    for j in 0..n {
        for i in 0..m {
            let sum: f64 = (0..k)
                .map(|p| number(&a, p + i * k) * number(&b, p + j * k))
                .sum();
            let value = (sum + added[i].to_f64()).max(0.0);
            want_largest = want_largest.max(value);
            let got = number(&d, i + j * m);
            assert!(
                (got - 3.0 * value).abs() <= 0.51 * epsilon(kind) * 3.0 * value + 0.001,
                "({i}, {j}): {got} instead of {}",
                3.0 * value
            );
        }
    }
    assert!((f64::from(largest) - want_largest).abs() < 1e-4 * want_largest);
}

#[test]
fn unsupported_combinations_are_refused() {
    let mut random = Random::new(69);
    let case = Case::new(&mut random, 4, 4, 4, 1);
    let mut d = case.d.clone();
    let base = || case.arguments(d.as_ptr().cast_mut());
    let refused = |arguments: Matmul| {
        assert!(!matmul::supports(&arguments));
        // SAFETY: no plan runs.
        assert!(unsafe { matmul::matmul(arguments) }.is_none());
    };
    refused(Matmul {
        compute: Compute::F64,
        ..base()
    });
    refused(Matmul {
        scale: DataType::R64F,
        ..base()
    });
    refused(Matmul {
        epilogue: Epilogue {
            activation: Activation::GeluGradient,
            ..NOTHING
        },
        ..base()
    });
    refused(Matmul {
        epilogue: Epilogue {
            gradient: BiasGradient::A,
            ..NOTHING
        },
        ..base()
    });
    refused(Matmul {
        scales: [
            Scale::None,
            Scale::None,
            Scale::None,
            Scale::Outer(d.as_ptr()),
        ],
        ..base()
    });
    let mut wide = base();
    for layout in [&mut wide.a, &mut wide.b, &mut wide.c, &mut wide.d] {
        layout.kind = DataType::R64F;
    }
    (wide.compute, wide.scale) = (Compute::F64, DataType::R64F);
    assert!(matmul::supports(&wide));
    refused(Matmul {
        epilogue: Epilogue {
            activation: Activation::Relu,
            ..NOTHING
        },
        ..wide
    });
    d.clear();
}

#[test]
fn transforms_between_orders_and_types() {
    let mut random = Random::new(70);
    for (kinds, scale) in [
        (
            [DataType::R8I, DataType::R32I, DataType::R32F],
            DataType::R32F,
        ),
        (
            [DataType::R32F, DataType::R16F, DataType::R32F],
            DataType::R32F,
        ),
        (
            [DataType::C32F, DataType::C16F, DataType::C32F],
            DataType::C32F,
        ),
        (
            [DataType::R32I, DataType::R8I, DataType::R32I],
            DataType::R32I,
        ),
        ([DataType::R64F; 3], DataType::R64F),
    ] {
        for order in ORDERS {
            let (m, n) = (37, 66);
            let (operation_a, operation_b) = (
                random.pick(&[Operation::None, Operation::Adjoint]),
                random.pick(&[Operation::None, Operation::Transpose]),
            );
            let shape = |operation| {
                if operation == Operation::None {
                    (m, n)
                } else {
                    (n, m)
                }
            };
            let (other, third) = (random.pick(&ORDERS), random.pick(&ORDERS));
            let a = Ordered::new(
                &mut random,
                kinds[0],
                order,
                shape(operation_a).0,
                shape(operation_a).1,
            );
            let b = Ordered::new(
                &mut random,
                kinds[1],
                other,
                shape(operation_b).0,
                shape(operation_b).1,
            );
            let c = Ordered::new(&mut random, kinds[2], third, m, n);
            let mut result = c.bytes.clone();
            let arguments = Transform {
                operation_a,
                operation_b,
                alpha: AnyScalar::Value(Complex::new(2.0, 0.0)),
                a: Some(a.layout(a.bytes.as_ptr())),
                beta: AnyScalar::Value(Complex::new(-1.0, 0.0)),
                b: Some(b.layout(b.bytes.as_ptr())),
                c: c.layout(result.as_mut_ptr()),
                batch: 1,
                scale,
            };
            // SAFETY: the matrices live until the plan has run.
            unsafe { matmul::transform(arguments) }.unwrap().run();
            for j in 0..n {
                for i in 0..m {
                    let left = if operation_a == Operation::None {
                        a.at(i, j)
                    } else {
                        a.at(j, i)
                    };
                    let right = if operation_b == Operation::None {
                        b.at(i, j)
                    } else {
                        b.at(j, i)
                    };
                    let sign = if operation_a == Operation::None {
                        1.0
                    } else {
                        -1.0
                    };
                    let want =
                        Complex::new(2.0 * left.re - right.re, sign * 2.0 * left.im - right.im);
                    assert_eq!(c.of(&result, i, j), want, "{order:?} {other:?} {third:?}");
                }
            }
            // Without B, and with a factor that hides A.
            let only = Transform {
                b: None,
                alpha: AnyScalar::Value(Complex::new(0.0, 0.0)),
                ..arguments
            };
            // SAFETY: as above.
            unsafe { matmul::transform(only) }.unwrap().run();
            assert_eq!(c.of(&result, m - 1, n - 1), Complex::new(0.0, 0.0));
        }
    }
}
