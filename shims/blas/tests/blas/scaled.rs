//! Factors of blocks of elements, 4-bit elements, results with factors, and groups of products.

use std::ffi::c_void;

use half::bf16;
use margay_blas::matmul::{
    self, Activation, BiasGradient, BlockFormat, BlockScales, Epilogue, Factor, GroupBias,
    GroupFactor, GroupMatrices, GroupScale, Groups, Integers, Layout, Matmul, Order, OutputScales,
    Scale,
};
use margay_blas::products::Compute;
use margay_blas::{AnyScalar, Complex, DataType, Operation, Plan, Pointers};

use crate::products::decode;
use crate::run::{Random, results};

const NOTHING: Epilogue = Epilogue {
    activation: Activation::Identity,
    bias: None,
    gradient: BiasGradient::None,
    auxiliary: None,
};

const FOURS: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// The element of a matrix of a narrow type.
fn element(kind: DataType, bytes: &[u8], index: usize) -> f64 {
    if kind != DataType::E2M1 {
        return decode(kind, &bytes[index..=index]).re;
    }
    let code = bytes[index / 2] >> (index % 2 * 4) & 15;
    let sign = if code > 7 { -1.0 } else { 1.0 };
    sign * FOURS[usize::from(code % 8)]
}

/// Random codes of numbers up to about 2.
fn codes(random: &mut Random, kind: DataType, count: usize) -> Vec<u8> {
    let all: Vec<u8> = (0..=255)
        .filter(|code| match kind {
            DataType::E2M1 => true,
            _ => decode(kind, &[*code]).re.abs() <= 2.0,
        })
        .collect();
    (0..count).map(|_| random.pick(&all)).collect()
}

/// The factors of a matrix in memory, and their values by outer index and block.
struct Factors {
    format: BlockFormat,
    bytes: Vec<u8>,
    values: Vec<Vec<f64>>,
}

impl Factors {
    fn new(random: &mut Random, format: BlockFormat, outer: usize, inner: usize) -> Factors {
        let blocks = inner.div_ceil(format.length());
        let mut values = vec![vec![0.0; blocks]; outer];
        let bytes = match format {
            BlockFormat::Vector16 | BlockFormat::Vector32 => {
                let (tall, wide) = (outer.div_ceil(128), blocks.div_ceil(4));
                // From offsets in memory to indices, as cuBLAS documents it; the sign of UE4M3 is ignored.
                (0..tall * wide * 512)
                    .map(|offset| {
                        let (tile, place) = (offset / 512, offset % 512);
                        let row = tile / wide * 128 + place % 16 / 4 * 32 + place / 16;
                        let block = tile % wide * 4 + place % 4;
                        let (code, value) = match format {
                            BlockFormat::Vector32 => {
                                let exponent = random.below(7) as i32 - 3;
                                ((127 + exponent) as u8, 2f64.powi(exponent))
                            }
                            _ => {
                                let code = 0x2c + random.below(24) as u8;
                                let value = decode(DataType::E4M3, &[code]).re;
                                (code | (random.below(2) as u8) << 7, value)
                            }
                        };
                        if row < outer && block < blocks {
                            values[row][block] = value;
                        }
                        code
                    })
                    .collect()
            }
            BlockFormat::Vector128 => {
                let mut all = Vec::new();
                for block in 0..blocks {
                    for row in values.iter_mut() {
                        let value = random.real() as f32;
                        row[block] = f64::from(value);
                        all.extend(value.to_ne_bytes());
                    }
                }
                all
            }
            BlockFormat::Square128 => {
                let mut all = Vec::new();
                for square in 0..outer.div_ceil(128) {
                    for block in 0..blocks.next_multiple_of(4) {
                        let value = random.real() as f32;
                        all.extend(value.to_ne_bytes());
                        if block < blocks {
                            for row in values.iter_mut().skip(square * 128).take(128) {
                                row[block] = f64::from(value);
                            }
                        }
                    }
                }
                all
            }
        };
        assert_eq!(format.bytes(outer, inner), Some(bytes.len()));
        Factors {
            format,
            bytes,
            values,
        }
    }

    fn of(&self, outer: usize, inner: usize) -> f64 {
        self.values[outer][inner / self.format.length()]
    }

    fn scale(&self) -> Scale {
        Scale::Blocks(BlockScales {
            data: self.bytes.as_ptr().cast(),
            format: self.format,
        })
    }
}

/// A narrow matrix with factors of blocks: `outer` rows of `op(A)` or columns of `op(B)`, and `inner` values of k.
struct Narrow {
    kind: DataType,
    bytes: Vec<u8>,
    /// Whether values of k are contiguous.
    along_k: bool,
    outer: usize,
    inner: usize,
    factors: Factors,
}

impl Narrow {
    fn new(
        random: &mut Random,
        kind: DataType,
        format: BlockFormat,
        along_k: bool,
        (outer, inner): (usize, usize),
    ) -> Narrow {
        Narrow {
            kind,
            bytes: codes(random, kind, outer * inner),
            along_k,
            outer,
            inner,
            factors: Factors::new(random, format, outer, inner),
        }
    }

    fn layout(&self) -> Layout {
        let (rows, columns) = match self.along_k {
            true => (self.inner, self.outer),
            false => (self.outer, self.inner),
        };
        column(self.bytes.as_ptr(), self.kind, rows, columns)
    }

    fn at(&self, outer: usize, inner: usize) -> f64 {
        let index = match self.along_k {
            true => inner + outer * self.inner,
            false => outer + inner * self.outer,
        };
        element(self.kind, &self.bytes, index)
    }

    fn scaled(&self, outer: usize, inner: usize) -> f64 {
        self.at(outer, inner) * self.factors.of(outer, inner)
    }
}

fn column<T>(data: *const T, kind: DataType, rows: usize, columns: usize) -> Layout {
    Layout {
        data: Pointers::Strided {
            base: data.cast::<c_void>().cast_mut(),
            stride: 0,
        },
        kind,
        order: Order::Column,
        rows,
        columns,
        ld: rows,
        plane: 0,
    }
}

fn number(value: f64) -> Factor {
    Factor::Scalar(AnyScalar::Value(Complex::new(value, 0.0)))
}

fn plan(arguments: Matmul) -> Plan {
    assert!(matmul::supports(&arguments));
    // SAFETY: the caller keeps the operands until the plan has run.
    unsafe { matmul::matmul(arguments) }.unwrap()
}

/// `D = 2 A B - C` with `C` and `D` in f32.
fn arguments(a: &Narrow, b: &Narrow, c: *const f32, d: *mut f32) -> Matmul {
    let operation = |transposed| match transposed {
        true => Operation::Transpose,
        false => Operation::None,
    };
    Matmul {
        operation_a: operation(a.along_k),
        operation_b: operation(!b.along_k),
        k: a.inner,
        alpha: number(2.0),
        a: a.layout(),
        b: b.layout(),
        beta: number(-1.0),
        c: column(c, DataType::R32F, a.outer, b.outer),
        d: column(d, DataType::R32F, a.outer, b.outer),
        batch: 1,
        compute: Compute::F32,
        scale: DataType::R32F,
        scales: [
            a.factors.scale(),
            b.factors.scale(),
            Scale::None,
            Scale::None,
        ],
        output_scales: None,
        amax: std::ptr::null_mut(),
        epilogue: NOTHING,
    }
}

/// Calls `body` with the value, and the sum of magnitudes, of each element of a scaled product.
fn each(a: &Narrow, b: &Narrow, mut body: impl FnMut(usize, usize, f64, f64)) {
    let scaled = |matrix: &Narrow| -> Vec<Vec<f64>> {
        let row = |outer| {
            (0..matrix.inner)
                .map(move |k| matrix.scaled(outer, k))
                .collect()
        };
        (0..matrix.outer).map(row).collect()
    };
    let (left, right) = (scaled(a), scaled(b));
    for (j, column) in right.iter().enumerate() {
        for (i, row) in left.iter().enumerate() {
            let terms = row.iter().zip(column).map(|(x, y)| x * y);
            let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| {
                (sum + term, size + f64::abs(term))
            });
            body(i, j, sum, size);
        }
    }
}

use BlockFormat::{Square128, Vector16, Vector32, Vector128};
use DataType::{E2M1, E4M3, E5M2};

#[test]
fn elements_have_the_factors_of_their_blocks() {
    let mut random = Random::new(80);
    for ([of_a, of_b], kinds) in [
        ([Vector32, Vector32], [E4M3, E5M2]),
        ([Vector16, Vector16], [E2M1, E2M1]),
        ([Vector128, Square128], [E4M3, E4M3]),
        ([Square128, Vector128], [E5M2, E4M3]),
        ([Vector128, Vector128], [E4M3, E4M3]),
    ] {
        for (m, n, k) in [(2, 4, 16), (130, 34, 200), (34, 260, 530), (128, 128, 128)] {
            for along_k in [[true, true], [false, false]] {
                let a = Narrow::new(&mut random, kinds[0], of_a, along_k[0], (m, k));
                let b = Narrow::new(&mut random, kinds[1], of_b, along_k[1], (n, k));
                let c: Vec<f32> = random.values(m * n);
                let got = results(&c, |d| plan(arguments(&a, &b, c.as_ptr(), d)));
                each(&a, &b, |i, j, sum, size| {
                    let got = f64::from(got[i + j * m]);
                    let want = 2.0 * sum - f64::from(c[i + j * m]);
                    assert!(
                        (got - want).abs() <= 1e-6 * (2.0 * size + 1.0),
                        "{of_a:?} {of_b:?} ({i}, {j}): {got} instead of {want}"
                    );
                });
            }
        }
    }
}

/// The code of the nearest number of a type, ties to the even code.
fn nearest(kind: DataType, value: f64) -> u8 {
    let top = if kind == E2M1 { 8 } else { 0x7f };
    let size = |code: u8| match kind {
        E2M1 => FOURS[usize::from(code)],
        _ => decode(kind, &[code]).re,
    };
    let best = (0..top)
        .filter(|code| size(*code).is_finite())
        .min_by(|x, y| {
            let far = |code: u8| (size(code) - value.abs()).abs();
            far(*x).total_cmp(&far(*y)).then((x % 2).cmp(&(y % 2)))
        })
        .unwrap();
    let sign = if value.is_sign_negative() {
        top.next_power_of_two()
    } else {
        0
    };
    best | sign
}

#[test]
fn results_are_divided_by_the_factors_of_their_blocks() {
    let mut random = Random::new(81);
    for (kind, format, most) in [
        (E4M3, Vector32, 448.0),
        (E5M2, Vector32, 57344.0),
        (E2M1, Vector16, 6.0),
    ] {
        for (m, n, k) in [(2, 3, 32), (150, 140, 64)] {
            let (input, of_input) = if kind == E2M1 {
                (E2M1, Vector16)
            } else {
                (E4M3, Vector32)
            };
            let a = Narrow::new(&mut random, input, of_input, true, (m, k));
            let b = Narrow::new(&mut random, input, of_input, true, (n, k));
            let mut unscaled = vec![0.0_f32; m * n];
            let c: Vec<f32> = (0..m * n)
                .map(|index| {
                    if index % m / 16 == 1 {
                        0.0
                    } else {
                        random.real() as f32
                    }
                })
                .collect();
            plan(arguments(&a, &b, c.as_ptr(), unscaled.as_mut_ptr())).run();
            let factor = 3.0_f32;
            let mut d = vec![0xaa_u8; m * n];
            let mut scales = vec![0xaa_u8; format.bytes(n, m).unwrap()];
            let wanted = Matmul {
                d: column(d.as_mut_ptr(), kind, m, n),
                scales: [
                    a.factors.scale(),
                    b.factors.scale(),
                    Scale::None,
                    Scale::Tensor(&factor),
                ],
                output_scales: Some(OutputScales {
                    data: scales.as_mut_ptr().cast(),
                    format,
                }),
                ..arguments(&a, &b, c.as_ptr(), std::ptr::null_mut())
            };
            plan(wanted).run();
            for j in 0..n {
                for first in (0..m).step_by(format.length()) {
                    let rows = first..m.min(first + format.length());
                    let value = |i: usize| 3.0 * unscaled[i + j * m];
                    let largest = rows.clone().map(|i| value(i).abs()).fold(0.0, f32::max);
                    let (block, wide) = (first / format.length(), m.div_ceil(4 * format.length()));
                    let place = (j / 128 * wide + block / 4) * 512
                        + j % 32 * 16
                        + j % 128 / 32 * 4
                        + block % 4;
                    let got = scales[place];
                    let wanted = f64::from(largest / most as f32);
                    let scale = match kind {
                        E2M1 => {
                            assert_eq!(got, nearest(E4M3, wanted), "{largest}");
                            decode(E4M3, &[got]).re
                        }
                        _ => {
                            let exponent = (-127..=127).find(|e| 2f64.powi(*e) >= wanted).unwrap();
                            assert_eq!(i32::from(got), exponent + 127, "{largest}");
                            2f64.powi(exponent)
                        }
                    };
                    for i in rows {
                        let index = i + j * m;
                        let want = nearest(kind, f64::from(value(i) * (1.0 / scale as f32)));
                        let got = match kind {
                            E2M1 => d[index / 2] >> (index % 2 * 4) & 15,
                            _ => d[index],
                        };
                        assert_eq!(got, want, "{kind:?} ({i}, {j}): {} by {scale}", value(i));
                    }
                }
            }
        }
    }
}

#[test]
fn blocks_without_magnitude_are_zero() {
    // The factor of A is the least one, and that of the results is 0 as UE4M3.
    let (a, b) = (vec![0x22_u8; 16 * 8], vec![0x22_u8; 2 * 8]);
    let mut d = [0xaa_u8; 16];
    let (small, mut scales) = (vec![1_u8; 512], vec![0xaa_u8; 512]);
    let blocks = |data: &[u8]| {
        Scale::Blocks(BlockScales {
            data: data.as_ptr().cast(),
            format: Vector16,
        })
    };
    let mut product = Matmul {
        operation_a: Operation::Transpose,
        operation_b: Operation::None,
        k: 16,
        alpha: number(1.0),
        a: column(a.as_ptr(), E2M1, 16, 16),
        b: column(b.as_ptr(), E2M1, 16, 2),
        beta: number(0.0),
        c: column(d.as_ptr(), DataType::R16BF, 16, 2),
        d: column(d.as_mut_ptr(), E2M1, 16, 2),
        batch: 1,
        compute: Compute::F32,
        scale: DataType::R32F,
        scales: [blocks(&small), blocks(&small), Scale::None, Scale::None],
        output_scales: Some(OutputScales {
            data: scales.as_mut_ptr().cast(),
            format: Vector16,
        }),
        amax: std::ptr::null_mut(),
        epilogue: NOTHING,
    };
    plan(product).run();
    assert_eq!((d, scales[0], scales[16]), ([0; 16], 0, 0));
    // Elements and factors that do not belong together.
    let refused = |product: &Matmul| assert!(!matmul::supports(product));
    product.batch = 2;
    refused(&product);
    product.batch = 1;
    product.output_scales = None;
    refused(&product);
    product.d.kind = DataType::R16BF;
    assert!(matmul::supports(&product));
    product.scales[0] = Scale::None;
    refused(&product);
    product.scales[0] = blocks(&small);
    product.scales[3] = blocks(&small);
    refused(&product);
    product.scales[3] = Scale::None;
    product.a.kind = DataType::R16F;
    refused(&product);
}

/// The matrices of groups: their elements, addresses and dimensions.
struct Matrices {
    elements: Vec<Vec<u8>>,
    addresses: Vec<*mut c_void>,
    dimensions: [Vec<i64>; 3],
    narrow: [Vec<i32>; 3],
    kind: DataType,
}

impl Matrices {
    fn new(random: &mut Random, kind: DataType, shapes: &[(usize, usize)]) -> Matrices {
        let mut elements: Vec<Vec<u8>> = shapes
            .iter()
            .map(|(rows, columns)| match kind {
                DataType::R16BF => (0..(rows + 2) * columns)
                    .flat_map(|_| bf16::from_f64(random.real()).to_ne_bytes())
                    .collect(),
                DataType::R32F => vec![0x7f; (rows + 2) * columns * 4],
                kind => codes(random, kind, (rows + 2) * columns),
            })
            .collect();
        let all = |value: fn(&(usize, usize)) -> usize| -> Vec<i64> {
            shapes.iter().map(|shape| value(shape) as i64).collect()
        };
        let dimensions = [
            all(|shape| shape.0),
            all(|shape| shape.1),
            all(|shape| shape.0 + 2),
        ];
        let addresses = elements
            .iter_mut()
            .map(|data| data.as_mut_ptr().cast())
            .collect();
        Matrices {
            narrow: dimensions
                .each_ref()
                .map(|values| values.iter().map(|value| *value as i32).collect()),
            elements,
            addresses,
            dimensions,
            kind,
        }
    }

    fn arguments(&self, wide: bool) -> GroupMatrices {
        let [rows, columns, ld] = match wide {
            true => self
                .dimensions
                .each_ref()
                .map(|data| Integers::Wide(data.as_ptr())),
            false => self
                .narrow
                .each_ref()
                .map(|data| Integers::Narrow(data.as_ptr())),
        };
        GroupMatrices {
            data: self.addresses.as_ptr(),
            kind: self.kind,
            rows,
            columns,
            ld,
        }
    }

    fn at(&self, group: usize, row: usize, column: usize) -> f64 {
        let index = row + column * self.dimensions[2][group] as usize;
        let bytes = &self.elements[group];
        match self.kind {
            DataType::R16BF => decode(self.kind, &bytes[index * 2..index * 2 + 2]).re,
            DataType::R32F => decode(self.kind, &bytes[index * 4..index * 4 + 4]).re,
            kind => element(kind, bytes, index),
        }
    }
}

/// m, n and k of groups.
const GROUPS: [(usize, usize, usize); 6] = [
    (32, 16, 48),
    (0, 16, 16),
    (16, 48, 0),
    (160, 32, 144),
    (16, 300, 16),
    (16, 0, 16),
];

#[test]
fn groups_have_their_own_dimensions() {
    let mut random = Random::new(82);
    for (kind, wide) in [
        (DataType::R16BF, true),
        (E4M3, false),
        (E2M1, true),
        (E4M3, true),
    ] {
        let blocks = match (kind, wide) {
            (E2M1, _) => Some([Vector16, Vector16]),
            (E4M3, true) => Some([Vector128, Square128]),
            _ => None,
        };
        let shapes =
            |shape: fn(&(usize, usize, usize)) -> (usize, usize)| GROUPS.each_ref().map(shape);
        // A is transposed.
        let a = Matrices::new(&mut random, kind, &shapes(|(m, _, k)| (*k, *m)));
        let b = Matrices::new(&mut random, kind, &shapes(|(_, n, k)| (*k, *n)));
        let c = Matrices::new(&mut random, DataType::R16BF, &shapes(|(m, n, _)| (*m, *n)));
        let d = Matrices::new(&mut random, DataType::R32F, &shapes(|(m, n, _)| (*m, *n)));
        let numbers: Vec<[f32; 3]> = (0..GROUPS.len())
            .map(|_| [0; 3].map(|_| random.real() as f32))
            .collect();
        let addresses = |index: usize| -> Vec<*const f32> {
            numbers
                .iter()
                .map(|of_group| &raw const of_group[index])
                .collect()
        };
        let (alphas, betas, singles) = (addresses(0), addresses(1), addresses(2));
        let biases: Vec<Vec<bf16>> = GROUPS
            .iter()
            .map(|(m, ..)| (0..*m).map(|_| bf16::from_f64(random.real())).collect())
            .collect();
        let bias: Vec<*mut c_void> = biases
            .iter()
            .map(|data| data.as_ptr().cast::<c_void>().cast_mut())
            .collect();
        let factors: Option<[Vec<Factors>; 2]> = blocks.map(|[of_a, of_b]| {
            [
                GROUPS
                    .iter()
                    .map(|(m, _, k)| Factors::new(&mut random, of_a, *m, *k))
                    .collect(),
                GROUPS
                    .iter()
                    .map(|(_, n, k)| Factors::new(&mut random, of_b, *n, *k))
                    .collect(),
            ]
        });
        let tables: Option<[Vec<*const c_void>; 2]> = factors.as_ref().map(|all| {
            all.each_ref()
                .map(|side| side.iter().map(|one| one.bytes.as_ptr().cast()).collect())
        });
        let mut scales = [GroupScale::None; 4];
        if kind == E4M3 && !wide {
            scales[0] = GroupScale::Each(singles.as_ptr());
            scales[1] = GroupScale::Shared(singles[0]);
        }
        if let (Some(tables), Some(formats)) = (&tables, blocks) {
            for side in 0..2 {
                scales[side] = GroupScale::Blocks(tables[side].as_ptr(), formats[side]);
            }
        }
        let shared = AnyScalar::Value(Complex::new(0.5, 0.0));
        let groups = Groups {
            count: GROUPS.len(),
            operation_a: Operation::Transpose,
            operation_b: Operation::None,
            alpha: GroupFactor::Each(alphas.as_ptr().cast()),
            beta: match wide {
                true => GroupFactor::Each(betas.as_ptr().cast()),
                false => GroupFactor::Shared(shared),
            },
            matrices: [
                a.arguments(wide),
                b.arguments(!wide),
                c.arguments(wide),
                d.arguments(wide),
            ],
            compute: Compute::F32,
            scale: DataType::R32F,
            scales,
            bias: Some(GroupBias {
                data: Pointers::Array(bias.as_ptr()),
                kind: DataType::R16BF,
            }),
        };
        assert!(matmul::supports_groups(&groups));
        // SAFETY: the operands live until the plan has run.
        unsafe { matmul::grouped(groups) }.unwrap().run();
        for (group, (m, n, k)) in GROUPS.into_iter().enumerate() {
            let single = match &scales[0] {
                GroupScale::Each(_) => f64::from(numbers[group][2]) * f64::from(numbers[0][2]),
                _ => 1.0,
            };
            let beta = if wide {
                f64::from(numbers[group][1])
            } else {
                0.5
            };
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let of_block = |p: usize| match &factors {
                    Some([of_a, of_b]) => of_a[group].of(i, p) * of_b[group].of(j, p),
                    None => 1.0,
                };
                let term = |p| a.at(group, p, i) * b.at(group, p, j) * of_block(p);
                let (sum, size) = (0..k).map(term).fold((0.0, 0.0), |(sum, size), term| {
                    (sum + term, size + f64::abs(term))
                });
                let alpha = f64::from(numbers[group][0]) * single;
                let want = alpha * sum + beta * c.at(group, i, j) + biases[group][i].to_f64();
                let got = d.at(group, i, j);
                assert!(
                    (got - want).abs() < 1e-6 * (size + 2.0),
                    "{kind:?} group {group} ({i}, {j}): {got} instead of {want}"
                );
            }
        }
    }
}

#[test]
fn wrong_groups_are_found() {
    let mut random = Random::new(83);
    let of = |random: &mut Random, rows, columns| {
        Matrices::new(random, DataType::R16BF, &[(rows, columns)])
    };
    let matrices = [(16, 32), (32, 8), (16, 8), (16, 8)].map(|(m, n)| of(&mut random, m, n));
    let one = GroupFactor::Shared(AnyScalar::Value(Complex::new(1.0, 0.0)));
    let groups = Groups {
        count: 1,
        operation_a: Operation::None,
        operation_b: Operation::None,
        alpha: one,
        beta: one,
        matrices: matrices.each_ref().map(|all| all.arguments(true)),
        compute: Compute::F32,
        scale: DataType::R32F,
        scales: [GroupScale::None; 4],
        bias: None,
    };
    let fails = |groups: Groups| {
        let run = move || {
            // SAFETY: the operands live until the plan has run.
            unsafe { matmul::grouped(groups) }.unwrap().run();
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err()
    };
    assert!(!fails(groups));
    for (index, value) in [(0, -1_i64), (1, 9), (2, 15), (0, 1 << 50)] {
        let wrong = [value];
        let mut changed = groups;
        let matrix = &mut changed.matrices[3];
        *[&mut matrix.rows, &mut matrix.columns, &mut matrix.ld][index] =
            Integers::Wide(wrong.as_ptr());
        assert!(fails(changed), "{index} {value}");
    }
    let mut changed = groups;
    changed.matrices[1] = changed.matrices[0];
    assert!(fails(changed), "k");
    let mut changed = groups;
    changed.matrices[2] = changed.matrices[1];
    assert!(fails(changed), "C");
    // Types without such products.
    for kind in [DataType::R64F, DataType::E2M1] {
        let mut changed = groups;
        changed.matrices[0].kind = kind;
        assert!(!matmul::supports_groups(&changed));
    }
}
