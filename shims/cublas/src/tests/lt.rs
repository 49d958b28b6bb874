//! Descriptors, algorithms, products and transforms of cuBLASLt.

use super::raw::{MOST, call, entry};

pub(super) fn invoke(name: &str, arguments: &[usize]) -> usize {
    let mut all = [0; MOST];
    all[..arguments.len()].copy_from_slice(arguments);
    call(entry(name), &all, 0.0) & 0xffff_ffff
}

pub(super) fn at<T: ?Sized>(place: *const T) -> usize {
    std::hint::black_box(place.cast::<u8>().expose_provenance())
}

const R32F: usize = 0;
const COMPUTE_32F: usize = 68;

pub(super) fn create(name: &str, rest: &[usize]) -> usize {
    let mut place = 0_usize;
    let arguments: Vec<usize> = [at(&mut place)].iter().chain(rest).copied().collect();
    assert_eq!(invoke(name, &arguments), 0, "{name}");
    place
}

/// A set of an attribute of 4 or 8 bytes.
pub(super) fn set<T>(kind: &str, descriptor: usize, number: usize, value: T) -> usize {
    let name = format!("cublasLt{kind}SetAttribute");
    invoke(&name, &[descriptor, number, at(&value), size_of::<T>()])
}

fn get<T: Copy>(kind: &str, descriptor: usize, number: usize, mut value: T) -> (usize, T, usize) {
    let name = format!("cublasLt{kind}GetAttribute");
    let mut written = 0_usize;
    let arguments = [
        descriptor,
        number,
        at(&mut value),
        size_of::<T>(),
        at(&mut written),
    ];
    (invoke(&name, &arguments), value, written)
}

/// A product of a 2 by 3 and a 3 by 2 matrix of floats.
struct Product {
    handle: usize,
    desc: usize,
    layouts: [usize; 4],
}

impl Product {
    fn new() -> Product {
        let layout =
            |rows, columns, ld| create("cublasLtMatrixLayoutCreate", &[R32F, rows, columns, ld]);
        Product {
            handle: create("cublasLtCreate", &[]),
            desc: create("cublasLtMatmulDescCreate", &[COMPUTE_32F, R32F]),
            layouts: [
                layout(2, 3, 2),
                layout(3, 2, 3),
                layout(2, 2, 2),
                layout(2, 2, 2),
            ],
        }
    }

    fn run(&self, [alpha, beta]: [f32; 2], c: &[f32; 4]) -> (usize, [f32; 4]) {
        let mut d = [f32::NAN; 4];
        let [of_a, of_b, of_c, of_d] = self.layouts;
        let arguments = [
            self.handle,
            self.desc,
            at(&alpha),
            at(&A),
            of_a,
            at(&B),
            of_b,
            at(&beta),
            at(c),
            of_c,
            at(&mut d),
            of_d,
            0,
            0,
            0,
            0,
        ];
        (invoke("cublasLtMatmul", &arguments), d)
    }

    fn search(&self, preference: usize) -> (usize, i32, [u64; 12]) {
        let (mut results, mut count) = ([u64::MAX; 12], -1_i32);
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
        (
            invoke("cublasLtMatmulAlgoGetHeuristic", &arguments),
            count,
            results,
        )
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

const A: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
const B: [f32; 6] = [7.0, 8.0, 9.0, 10.0, 11.0, 12.0];
const C: [f32; 4] = [1.0, -1.0, 2.0, -2.0];
const AB: [f32; 4] = [76.0, 100.0, 103.0, 136.0];

#[test]
fn products_have_epilogues() {
    let product = Product::new();
    assert_eq!(product.run([1.0, 0.0], &C), (0, AB));
    assert_eq!(
        product.run([2.0, 10.0], &C),
        (0, [162.0, 190.0, 226.0, 252.0])
    );
    // The bias is added to each column, and ReLU removes what is negative.
    let bias = [-80.0_f32, 1.0];
    assert_eq!(set("MatmulDesc", product.desc, 7, 6_u32), 0);
    assert_eq!(product.run([1.0, 0.0], &C).0, 7, "no bias");
    assert_eq!(set("MatmulDesc", product.desc, 8, at(&bias)), 0);
    assert_eq!(product.run([1.0, 0.0], &C), (0, [0.0, 101.0, 23.0, 137.0]));
    // A triangle of the result, and scales of blocks, are refused.
    assert_eq!(set("MatmulDesc", product.desc, 6, 0_u32), 0);
    assert_eq!(product.run([1.0, 0.0], &C).0, 15);
    assert_eq!(set("MatmulDesc", product.desc, 6, 2_u32), 0);
    assert_eq!(set("MatmulDesc", product.desc, 31, 2_u32), 0);
    assert_eq!(set("MatmulDesc", product.desc, 17, at(&bias)), 0);
    assert_eq!(product.run([1.0, 0.0], &C).0, 15);
    assert_eq!(set("MatmulDesc", product.desc, 7, 3_u32), 0);
    assert_eq!(set("MatmulDesc", product.desc, 31, 0_u32), 0);
    assert_eq!(product.run([1.0, 0.0], &C).0, 7, "no epilogue");
}

#[test]
fn layouts_are_checked() {
    let product = Product::new();
    let [of_a, _, _, of_d] = product.layouts;
    // By rows: A is the transpose of a 3 by 2 matrix by columns.
    assert_eq!(set("MatrixLayout", of_a, 1, 1_i32), 0);
    assert_eq!(
        product.run([1.0, 0.0], &C).0,
        7,
        "ld is less than the number of columns"
    );
    assert_eq!(set("MatrixLayout", of_a, 4, 3_i64), 0);
    assert_eq!(product.run([1.0, 0.0], &C), (0, [50.0, 122.0, 68.0, 167.0]));
    assert_eq!(set("MatrixLayout", of_a, 1, 9_i32), 0);
    assert_eq!(product.run([1.0, 0.0], &C).0, 7, "no order");
    assert_eq!(set("MatrixLayout", of_a, 1, 1_i32), 0);
    assert_eq!(set("MatrixLayout", of_d, 2, 3_u64), 0);
    assert_eq!(product.run([1.0, 0.0], &C).0, 7, "ld of D");
    assert_eq!(set("MatrixLayout", of_d, 4, 3_i64), 0);
    assert_eq!(product.run([1.0, 0.0], &C).0, 7, "rows of D");
    assert_eq!(set("MatrixLayout", of_a, 2, u64::MAX), 0);
    assert_eq!(product.run([1.0, 0.0], &C).0, 7, "rows of A");
}

#[test]
fn a_handle_of_cublas_is_one_of_cublaslt() {
    let mut product = Product::new();
    let own = product.handle;
    product.handle = create("cublasCreate_v2", &[]);
    assert_eq!(product.run([1.0, 0.0], &C), (0, AB));
    assert_eq!(invoke("cublasLtDestroy", &[product.handle]), 1);
    assert_eq!(invoke("cublasDestroy_v2", &[product.handle]), 0);
    assert_eq!(product.run([1.0, 0.0], &C).0, 1);
    product.handle = own;
    let mut stream = 0_usize;
    assert_eq!(invoke("cublasGetStream_v2", &[own, at(&mut stream)]), 1);
}

#[test]
fn descriptors_can_be_copied_and_be_in_the_programs_memory() {
    let mut product = Product::new();
    let allocated = product.layouts[0];
    // As `cublasLtMatrixLayoutInit` of CUDA 12 and of CUDA 13.
    for words in [8, 14] {
        let mut own = vec![0x5555_u64; words];
        let arguments = [at(&own[0]), words * 8, R32F, 2, 3, 2];
        assert_eq!(invoke("cublasLtMatrixLayoutInit_internal", &arguments), 0);
        let copy = own.clone();
        own.fill(0);
        assert_eq!(get("MatrixLayout", at(&copy[0]), 3, 0_u64), (0, 3, 8));
        // Only CUDA 13 has grouped matrices.
        let grouped = get("MatrixLayout", at(&copy[0]), 9, 1_u64);
        assert_eq!(grouped.0, if words == 8 { 7 } else { 0 });
        product.layouts[0] = at(&copy[0]);
        assert_eq!(product.run([1.0, 0.0], &C), (0, AB), "{words}");
        assert_eq!(
            invoke("cublasLtMatrixLayoutDestroy", &[at(&copy[0])]),
            7,
            "not allocated"
        );
        product.layouts[0] = allocated;
    }
    let small = [0_u64; 4];
    let arguments = [at(&small), 32, R32F, 2, 3, 2];
    assert_eq!(invoke("cublasLtMatrixLayoutInit_internal", &arguments), 3);
    // A descriptor of another kind, and none.
    for wrong in [product.desc, product.handle, 0, 64, at(&small)] {
        let arguments = [wrong, 2, at(&small), 8];
        assert_eq!(invoke("cublasLtMatrixLayoutSetAttribute", &arguments), 7);
    }
    let layout = create("cublasLtMatrixLayoutCreate", &[R32F, 2, 3, 2]);
    assert_eq!(invoke("cublasLtMatmulDescDestroy", &[layout]), 7);
    assert_eq!(invoke("cublasLtMatrixLayoutDestroy", &[layout]), 0);
    assert_eq!(
        invoke("cublasLtMatrixLayoutDestroy", &[layout]),
        7,
        "destroyed before"
    );
    assert_eq!(invoke("cublasLtMatrixLayoutDestroy", &[0]), 0);
}

#[test]
fn attributes_have_nvidias_sizes_and_defaults() {
    // The sizes of attributes 0, 1, 2, ..., 0 where there is none, observed in cuBLAS 13.10.0 (27 to 30 in 12.9.3).
    let sizes = [
        ("MatrixLayout", "44888488488844"),
        ("MatmulDesc", "444444448088888448888848814448844444848884"),
        ("MatmulPreference", "4804044444008888"),
        ("MatrixTransformDesc", "4444"),
        ("EmulationDesc", "444448"),
    ];
    let created = [
        create("cublasLtMatrixLayoutCreate", &[R32F, 3, 4, 3]),
        create("cublasLtMatmulDescCreate", &[COMPUTE_32F, R32F]),
        create("cublasLtMatmulPreferenceCreate", &[]),
        create("cublasLtMatrixTransformDescCreate", &[R32F]),
        create("cublasLtEmulationDescCreate", &[]),
    ];
    for ((kind, sizes), descriptor) in sizes.into_iter().zip(created) {
        for (number, size) in sizes.bytes().enumerate() {
            let size = usize::from(size - b'0');
            let mut written = 77_usize;
            let name = format!("cublasLt{kind}GetAttribute");
            let status = invoke(&name, &[descriptor, number, 0, 0, at(&mut written)]);
            match size {
                0 => assert_eq!(status, 7, "{kind} {number}"),
                size => assert_eq!((status, written), (0, size), "{kind} {number}"),
            }
            // A value of the wrong size.
            let value = [0_u64; 4];
            let name = format!("cublasLt{kind}SetAttribute");
            for wrong in [0, 2, 16] {
                assert_eq!(invoke(&name, &[descriptor, number, at(&value), wrong]), 7);
            }
            assert_eq!(invoke(&name, &[descriptor, number, 0, size]), 7, "no value");
        }
        let end = sizes.len();
        assert_eq!(get(kind, descriptor, end, 0_u64).0, 7, "{kind}");
    }
    let [layout, desc, preference, ..] = created;
    assert_eq!(get("MatrixLayout", layout, 5, 0_i32).1, 1, "one item");
    assert_eq!(get("MatmulDesc", desc, 6, 0_i32).1, 2, "the whole matrix");
    assert_eq!(get("MatmulDesc", desc, 7, 0_i32).1, 1, "no epilogue");
    assert_eq!(get("MatmulDesc", desc, 22, 0_i32).1, -1);
    assert_eq!(get("MatmulDesc", desc, 25, 5_i8), (0, 0, 1));
    assert_eq!(get("MatmulDesc", desc, 41, 0_i32).1, 0x8000);
    assert_eq!(get("MatmulDesc", desc, 9, 0_i32).0, 7);
    assert_eq!(get("MatmulPreference", preference, 12, 0_u64).1, u64::MAX);
    assert_eq!(get("MatmulPreference", preference, 5, 0_u32).1, 256);
    // A larger buffer than the value.
    let mut written = 0_usize;
    let mut large = [u64::MAX; 2];
    let arguments = [preference, 1, at(&mut large), 16, at(&mut written)];
    assert_eq!(
        invoke("cublasLtMatmulPreferenceGetAttribute", &arguments),
        0
    );
    assert_eq!((written, large), (8, [0, u64::MAX]));
}

#[test]
fn a_search_finds_the_algorithm() {
    let product = Product::new();
    let preference = create("cublasLtMatmulPreferenceCreate", &[]);
    let (status, count, results) = product.search(preference);
    assert_eq!((status, count), (0, 1));
    assert_eq!(results[8], 0, "no workspace");
    assert_eq!(
        results[9],
        u64::from(1.0_f32.to_bits()) << 32,
        "success, one wave"
    );
    // The algorithm of the search, and the one that is made by its number.
    let mut made = [0_u64; 8];
    let types = [COMPUTE_32F, R32F, R32F, R32F, R32F, R32F];
    let arguments = |number| {
        let mut all = vec![product.handle];
        all.extend(types);
        all.extend([number, at(&made)]);
        all
    };
    assert_eq!(invoke("cublasLtMatmulAlgoInit", &arguments(0)), 0);
    for wrong in [-1_isize, 128] {
        assert_eq!(
            invoke("cublasLtMatmulAlgoInit", &arguments(wrong as usize)),
            7
        );
    }
    assert_eq!(made[..], results[..8]);
    // An algorithm that a program chose on a GPU.
    let mut preset = [0_u64; 8];
    let mut all = arguments(10);
    all[8] = at(&mut preset);
    assert_eq!(invoke("cublasLtMatmulAlgoInit", &all), 0);
    assert_eq!(preset[0] >> 32, 10, "its number");
    assert_eq!(preset[1..], made[1..]);
    let [of_a, of_b, of_c, of_d] = product.layouts;
    let check = [
        product.handle,
        product.desc,
        of_a,
        of_b,
        of_c,
        of_d,
        at(&preset),
        0,
    ];
    assert_eq!(invoke("cublasLtMatmulAlgoCheck", &check), 0);
    let value = 3_u32;
    assert_eq!(
        invoke(
            "cublasLtMatmulAlgoConfigSetAttribute",
            &[at(&mut made), 1, at(&value), 4]
        ),
        0
    );
    assert_eq!(
        invoke(
            "cublasLtMatmulAlgoConfigSetAttribute",
            &[at(&mut made), 0, at(&value), 4]
        ),
        7
    );
    let mut tile = 0_u32;
    assert_eq!(
        invoke(
            "cublasLtMatmulAlgoConfigGetAttribute",
            &[at(&made), 1, at(&mut tile), 4, 0]
        ),
        0
    );
    assert_eq!(tile, 3);
    let (mut numbers, mut found) = ([-1_i32; 4], 0_i32);
    let mut arguments = vec![product.handle];
    arguments.extend(types);
    arguments.extend([4, at(&mut numbers), at(&mut found)]);
    assert_eq!(invoke("cublasLtMatmulAlgoGetIds", &arguments), 0);
    assert_eq!((found, numbers), (1, [0, -1, -1, -1]));
    // A combination of types without a product.
    arguments[2] = 99;
    assert_eq!(invoke("cublasLtMatmulAlgoGetIds", &arguments), 15);
    assert_eq!(set("MatrixLayout", product.layouts[0], 0, 3_i32), 0);
    let (status, count, _) = product.search(preference);
    assert_eq!((status, count), (15, 0), "bytes times floats");
    assert_eq!(product.search(0).0, 7, "no preference");
    assert_eq!(invoke("cublasLtMatmulPreferenceDestroy", &[preference]), 0);
}

#[test]
fn transforms_change_the_order() {
    let handle = create("cublasLtCreate", &[]);
    let desc = create("cublasLtMatrixTransformDescCreate", &[R32F]);
    let by_columns = create("cublasLtMatrixLayoutCreate", &[R32F, 2, 3, 2]);
    let by_rows = create("cublasLtMatrixLayoutCreate", &[R32F, 2, 3, 3]);
    assert_eq!(set("MatrixLayout", by_rows, 1, 1_i32), 0);
    let (two, one) = ([2.0_f32], [1.0_f32]);
    let mut c = [f32::NAN; 6];
    let mut arguments = [
        handle,
        desc,
        at(&two),
        at(&A),
        by_columns,
        at(&one),
        0,
        0,
        at(&mut c),
        by_rows,
        0,
    ];
    assert_eq!(invoke("cublasLtMatrixTransform", &arguments), 0);
    assert_eq!(c, [2.0, 6.0, 10.0, 4.0, 8.0, 12.0]);
    arguments[9] = by_columns;
    (arguments[6], arguments[7]) = (at(&B), by_rows);
    assert_eq!(invoke("cublasLtMatrixTransform", &arguments), 0);
    assert_eq!(c, [9.0, 14.0, 14.0, 19.0, 19.0, 24.0]);
    let other = create("cublasLtMatrixLayoutCreate", &[R32F, 3, 2, 3]);
    arguments[9] = other;
    assert_eq!(invoke("cublasLtMatrixTransform", &arguments), 7);
    arguments[0] = 5;
    assert_eq!(invoke("cublasLtMatrixTransform", &arguments), 1);
}

#[test]
fn calls_are_logged() {
    let folder = std::env::temp_dir().join(format!("margay-cublaslt-{}", std::process::id()));
    let name = std::ffi::CString::new(folder.to_str().expect("a path")).expect("a path");
    assert_eq!(invoke("cublasLtLoggerSetLevel", &[6]), 7);
    assert_eq!(
        invoke(
            "cublasLtLoggerOpenFile",
            &[name.as_ptr().expose_provenance()]
        ),
        0
    );
    assert_eq!(invoke("cublasLtLoggerSetLevel", &[5]), 0);
    let handle = create("cublasLtCreate", &[]);
    assert_eq!(invoke("cublasLtDestroy", &[0]), 7);
    assert_eq!(invoke("cublasLtLoggerSetLevel", &[0]), 0);
    assert_eq!(invoke("cublasLtDestroy", &[handle]), 0);
    let said = std::fs::read_to_string(&folder).expect("the log");
    std::fs::remove_file(&folder).expect("the log");
    assert!(
        said.contains("[Api][cublasLtCreate] lightHandle=POINTER"),
        "{said}"
    );
    assert!(
        said.contains("[Error][cublasLtDestroy] CUBLAS_STATUS_INVALID_VALUE"),
        "{said}"
    );
    assert!(!said.contains(&format!("{handle}")), "{said}");
}
