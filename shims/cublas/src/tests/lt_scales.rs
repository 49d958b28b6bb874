//! Factors of blocks, 4-bit elements and groups of matrices in cuBLASLt.

use half::bf16;

use super::lt::{at, create, invoke, set};

const R32F: usize = 0;
const R16BF: usize = 14;
const E4M3: usize = 28;
const E2M1: usize = 33;
const COMPUTE_32F: usize = 68;
/// Statuses.
const INVALID_VALUE: usize = 7;
const NOT_SUPPORTED: usize = 15;
/// Attributes of `cublasLtMatmulDesc_t`.
const POINTER_MODE: usize = 2;
const TRANSA: usize = 3;
const EPILOGUE: usize = 7;
const BIAS_POINTER: usize = 8;
const BIAS_STRIDE: usize = 10;
const A_SCALE: usize = 17;
const B_SCALE: usize = 18;
const D_SCALE: usize = 20;
const A_MODE: usize = 31;
const B_MODE: usize = 32;
const D_OUT_SCALE: usize = 36;
const D_OUT_MODE: usize = 37;
const ALPHA_STRIDE: usize = 39;
const BETA_STRIDE: usize = 40;
/// Attributes of `cublasLtMatrixLayout_t`.
const KIND: usize = 0;
const BATCH_COUNT: usize = 5;

/// A product of which the left matrix is transposed.
struct Product {
    handle: usize,
    desc: usize,
    layouts: [usize; 4],
}

impl Product {
    fn new(layouts: [usize; 4]) -> Product {
        let desc = create("cublasLtMatmulDescCreate", &[COMPUTE_32F, R32F]);
        assert_eq!(set("MatmulDesc", desc, TRANSA, 1_i32), 0);
        Product {
            handle: create("cublasLtCreate", &[]),
            desc,
            layouts,
        }
    }

    fn set<T>(&self, number: usize, value: T) {
        assert_eq!(set("MatmulDesc", self.desc, number, value), 0, "{number}");
    }

    /// Computes the product with the addresses of `alpha`, `A`, `B`, `beta`, `C` and `D`.
    fn run(&self, [alpha, a, b, beta, c, d]: [usize; 6]) -> usize {
        let [of_a, of_b, of_c, of_d] = self.layouts;
        let arguments = [
            self.handle,
            self.desc,
            alpha,
            a,
            of_a,
            b,
            of_b,
            beta,
            c,
            of_c,
            d,
            of_d,
            0,
            0,
            0,
            0,
        ];
        invoke("cublasLtMatmul", &arguments)
    }

    /// The status of a search for an algorithm.
    fn search(&self) -> usize {
        let preference = create("cublasLtMatmulPreferenceCreate", &[]);
        let (mut results, mut count) = ([0_u64; 12], 0_i32);
        let [of_a, of_b, of_c, of_d] = self.layouts;
        let arguments = [
            self.handle,
            self.desc,
            of_a,
            of_b,
            of_c,
            of_d,
            preference,
            1,
            at(&mut results),
            at(&mut count),
        ];
        let status = invoke("cublasLtMatmulAlgoGetHeuristic", &arguments);
        assert_eq!(count, i32::from(status == 0));
        assert_eq!(invoke("cublasLtMatmulPreferenceDestroy", &[preference]), 0);
        status
    }
}

impl Drop for Product {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        assert_eq!(invoke("cublasLtMatmulDescDestroy", &[self.desc]), 0);
        for layout in self.layouts {
            assert_eq!(invoke("cublasLtMatrixLayoutDestroy", &[layout]), 0);
        }
        assert_eq!(invoke("cublasLtDestroy", &[self.handle]), 0);
    }
}

fn layout(kind: usize, rows: usize, columns: usize) -> usize {
    create("cublasLtMatrixLayoutCreate", &[kind, rows, columns, rows])
}

#[test]
fn eight_bit_results_have_factors_of_blocks() {
    let (m, n, k) = (32, 16, 64);
    let product = Product::new([
        layout(E4M3, k, m),
        layout(E4M3, k, n),
        layout(R16BF, m, n),
        layout(E4M3, m, n),
    ]);
    // All elements are 1; the factors are 2 for A, and 1/4 and 1/8 for the two blocks of B.
    let (a, b) = (vec![0x38_u8; k * m], vec![0x38_u8; k * n]);
    let of_a = vec![128_u8; 512];
    let of_b: Vec<u8> = (0..512)
        .map(|place| if place % 4 == 0 { 125 } else { 124 })
        .collect();
    let (mut d, mut of_d) = (vec![0_u8; m * n], vec![0xaa_u8; 512]);
    let (alpha, beta, c) = (1.0_f32, 1.0_f32, vec![bf16::from_f32(4.0); m * n]);
    let (d_at, of_d_at) = (at(d.as_mut_ptr()), at(of_d.as_mut_ptr()));
    let addresses = [
        at(&alpha),
        at(a.as_ptr()),
        at(b.as_ptr()),
        at(&beta),
        at(c.as_ptr()),
        d_at,
    ];
    product.set(A_MODE, 2_i32);
    product.set(B_MODE, 2_i32);
    product.set(D_OUT_MODE, 2_i32);
    assert_eq!(product.search(), 0);
    assert_eq!(product.run(addresses), INVALID_VALUE, "no factors");
    product.set(A_SCALE, at(of_a.as_ptr()));
    product.set(B_SCALE, at(of_b.as_ptr()));
    assert_eq!(product.run(addresses), INVALID_VALUE, "no factors of D");
    product.set(D_OUT_SCALE, of_d_at);
    assert_eq!(product.search(), 0);
    assert_eq!(product.run(addresses), 0);
    // 32 (2 / 4 + 2 / 8) + 4 = 28, and 28 / 448 = 1 / 16: the elements are 448.
    assert_eq!(d, vec![0x7e_u8; m * n]);
    for column in 0..n {
        assert_eq!(of_d[column * 16], 127 - 4, "column {column}");
    }
    assert_eq!(of_d[n * 16], 0xaa, "no other column");
    let status = |number, value: i32, back: i32| {
        product.set(number, value);
        let status = product.run(addresses);
        product.set(number, back);
        status
    };
    assert_eq!(
        status(A_MODE, 0, 2),
        NOT_SUPPORTED,
        "one factor and factors of blocks"
    );
    assert_eq!(
        status(A_MODE, 4, 2),
        NOT_SUPPORTED,
        "blocks of different sizes"
    );
    assert_eq!(
        status(A_MODE, 1, 2),
        NOT_SUPPORTED,
        "factors of 4-bit elements"
    );
    assert_eq!(status(A_MODE, 12, 2), NOT_SUPPORTED, "packed exponents");
    assert_eq!(status(A_MODE, 7, 2), INVALID_VALUE, "no mode");
    assert_eq!(status(D_OUT_MODE, 0, 2), INVALID_VALUE);
    let one = 1.0_f32;
    product.set(D_SCALE, at(&one));
    assert_eq!(product.run(addresses), INVALID_VALUE, "another factor of D");
    product.set(D_SCALE, 0_usize);
    // With factors of 128 elements, results are not narrow.
    product.set(A_MODE, 5_i32);
    product.set(B_MODE, 4_i32);
    assert_eq!(product.run(addresses), NOT_SUPPORTED);
    assert_eq!(
        set("MatrixLayout", product.layouts[3], KIND, R16BF as u32),
        0
    );
    assert_eq!(product.search(), INVALID_VALUE, "factors of a wide result");
    product.set(D_OUT_SCALE, 0_usize);
    assert_eq!(product.search(), 0);
    product.set(B_MODE, 5_i32);
    assert_eq!(product.search(), NOT_SUPPORTED, "two matrices with squares");
    product.set(B_MODE, 4_i32);
    for layout in product.layouts {
        assert_eq!(set("MatrixLayout", layout, BATCH_COUNT, 2_i32), 0);
    }
    assert_eq!(product.search(), NOT_SUPPORTED, "factors of a batch");
}

#[test]
fn four_bit_elements_have_factors() {
    let (m, n, k) = (16, 2, 32);
    let product = Product::new([
        layout(E2M1, k, m),
        layout(E2M1, k, n),
        layout(R16BF, m, n),
        layout(R16BF, m, n),
    ]);
    // The elements of A are 1 and 3, those of B are 2 and -1. The factors are 2 and 0.5; signs of factors are ignored.
    let (a, b) = (vec![0x52_u8; k * m / 2], vec![0xa4_u8; k * n / 2]);
    let (of_a, of_b) = (vec![0xc0_u8; 512], vec![0x30_u8; 512]);
    let mut d = vec![bf16::NAN; m * n];
    let (alpha, beta, d_at) = (3.0_f32, 0.0_f32, at(d.as_mut_ptr()));
    let addresses = [
        at(&alpha),
        at(a.as_ptr()),
        at(b.as_ptr()),
        at(&beta),
        0,
        d_at,
    ];
    assert_eq!(product.run(addresses), NOT_SUPPORTED, "no factors");
    product.set(A_MODE, 1_i32);
    product.set(B_MODE, 1_i32);
    product.set(A_SCALE, at(of_a.as_ptr()));
    product.set(B_SCALE, at(of_b.as_ptr()));
    assert_eq!(product.run(addresses), 0);
    // 3 * 2 * 0.5 * 16 (1 * 2 - 3 * 1)
    assert_eq!(d, vec![bf16::from_f32(-48.0); m * n]);
    // Results of 4 bits: 48 / 6 = 8 is the factor of the blocks, and the elements are -6.
    let mut of_d = vec![0_u8; 512];
    let factor = 1.0_f32;
    assert_eq!(
        set("MatrixLayout", product.layouts[3], KIND, E2M1 as u32),
        0
    );
    product.set(D_OUT_MODE, 1_i32);
    product.set(D_OUT_SCALE, at(of_d.as_mut_ptr()));
    product.set(D_SCALE, at(&factor));
    assert_eq!(product.run(addresses), 0);
    let bytes = d.iter().flat_map(|value| value.to_ne_bytes());
    assert!(bytes.take(m * n / 2).all(|byte| byte == 0xff));
    assert_eq!((of_d[0], of_d[16], of_d[32]), (0x50, 0x50, 0));
    // Two rows share a byte.
    assert_eq!(set("MatrixLayout", product.layouts[0], 2, 31_u64), 0);
    assert_eq!(product.run(addresses), NOT_SUPPORTED);
}

/// The matrices of groups.
struct Groups {
    /// 32-bit or 64-bit numbers.
    rows: Vec<i32>,
    columns: Vec<i32>,
    ld: Vec<i64>,
    data: Vec<Vec<bf16>>,
    addresses: Vec<usize>,
}

impl Groups {
    fn new(shapes: [(usize, usize); 2], value: f32) -> Groups {
        let data = shapes.map(|(rows, columns)| vec![bf16::from_f32(value); rows * columns]);
        let addresses = data.iter().map(|data| at(data.as_ptr())).collect();
        Groups {
            rows: shapes.iter().map(|shape| shape.0 as i32).collect(),
            columns: shapes.iter().map(|shape| shape.1 as i32).collect(),
            ld: shapes.iter().map(|shape| shape.0 as i64).collect(),
            data: data.into(),
            addresses,
        }
    }

    fn layout(&self) -> usize {
        let arrays = [
            at(self.rows.as_ptr()),
            at(self.columns.as_ptr()),
            at(self.ld.as_ptr()),
        ];
        let arguments = [R16BF, 2, arrays[0], arrays[1], arrays[2]];
        let layout = create("cublasLtGroupedMatrixLayoutCreate", &arguments);
        assert_eq!(
            set("MatrixLayout", layout, 13, 1_i32),
            0,
            "64-bit leading dimensions"
        );
        layout
    }

    fn address(&self) -> usize {
        at(self.addresses.as_ptr())
    }
}

#[test]
fn groups_have_their_own_dimensions_and_factors() {
    let a = Groups::new([(8, 16), (24, 8)], 1.0);
    let b = Groups::new([(8, 8), (24, 16)], 2.0);
    let c = Groups::new([(16, 8), (8, 16)], 5.0);
    let d = Groups::new([(16, 8), (8, 16)], 0.0);
    let product = Product::new([a.layout(), b.layout(), c.layout(), d.layout()]);
    let results = |status| {
        assert_eq!(status, 0);
        d.data
            .iter()
            .for_each(|data| assert!(data.iter().all(|value| *value == data[0])));
        [d.data[0][0].to_f32(), d.data[1][0].to_f32()]
    };
    let (alpha, beta) = (0.5_f32, 0.0_f32);
    let addresses = [
        at(&alpha),
        a.address(),
        b.address(),
        at(&beta),
        0,
        d.address(),
    ];
    assert_eq!(product.search(), 0);
    assert_eq!(results(product.run(addresses)), [8.0, 24.0]);
    // Own factors and bias vectors.
    let factors = [[2.0_f32, 3.0], [1.0, -1.0]];
    let alphas = factors[0].each_ref().map(|value| at(value));
    let betas = factors[1].each_ref().map(|value| at(value));
    let bias = [vec![bf16::from_f32(1.0); 16], vec![bf16::from_f32(7.0); 8]];
    let biases = bias.each_ref().map(|bias| at(bias.as_ptr()));
    product.set(POINTER_MODE, 1_i32);
    product.set(ALPHA_STRIDE, 1_i64);
    product.set(BETA_STRIDE, 1_i64);
    product.set(EPILOGUE, 4_u32);
    product.set(BIAS_POINTER, at(&biases));
    product.set(BIAS_STRIDE, 1_i64);
    let addresses = [
        at(&alphas),
        a.address(),
        b.address(),
        at(&betas),
        c.address(),
        d.address(),
    ];
    assert_eq!(
        results(product.run(addresses)),
        [32.0 + 5.0 + 1.0, 144.0 - 5.0 + 7.0]
    );
    // One vector for all groups.
    product.set(BIAS_POINTER, biases[0]);
    product.set(BIAS_STRIDE, 0_i64);
    assert_eq!(results(product.run(addresses)), [38.0, 140.0]);
    let mut without = addresses;
    without[4] = 0;
    assert_eq!(product.run(without), INVALID_VALUE, "no C");
    product.set(ALPHA_STRIDE, 2_i64);
    assert_eq!(product.run(addresses), NOT_SUPPORTED);
    product.set(ALPHA_STRIDE, 1_i64);
    product.set(EPILOGUE, 2_u32);
    assert_eq!(product.run(addresses), NOT_SUPPORTED, "ReLU");
    product.set(EPILOGUE, 1_u32);
    for (number, value, status) in [
        (1, 1, NOT_SUPPORTED),
        (5, 3, INVALID_VALUE),
        (12, 2, INVALID_VALUE),
    ] {
        let layout = product.layouts[1];
        let mut old = 0_i32;
        let (old_at, size) = (at(&mut old), 4);
        let read = [layout, number, old_at, size, 0];
        assert_eq!(invoke("cublasLtMatrixLayoutGetAttribute", &read), 0);
        assert_eq!(set("MatrixLayout", layout, number, value), 0);
        assert_eq!(product.run(addresses), status, "{number}");
        assert_eq!(set("MatrixLayout", layout, number, old), 0);
    }
    // Groups of only some matrices, and no dimensions.
    assert_eq!(set("MatrixLayout", product.layouts[1], 8, 0_u32), 0);
    assert_eq!(product.run(addresses), INVALID_VALUE);
    assert_eq!(set("MatrixLayout", product.layouts[1], 8, 2_u32), 0);
    assert_eq!(set("MatrixLayout", product.layouts[1], 9, 0_usize), 0);
    assert_eq!(product.run(addresses), INVALID_VALUE);
}
