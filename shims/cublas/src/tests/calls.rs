//! Calls whose results are known, and what a call of each form, pointer mode and kind of result does.

use std::ffi::{CStr, c_char};

use super::raw::{MOST, call, entries, entry};
use crate::library::number;

/// A handle of cuBLAS for a test.
struct Handle(usize);

impl Handle {
    fn new() -> Handle {
        let mut handle = 0_usize;
        assert_eq!(
            invoke("cublasCreate_v2", &[(&raw mut handle).expose_provenance()]),
            0
        );
        assert_ne!(handle, 0);
        Handle(handle)
    }

    /// Calls a function whose first argument is the handle.
    fn call(&self, name: &str, rest: &[usize]) -> usize {
        let arguments: Vec<usize> = [self.0].iter().chain(rest).copied().collect();
        invoke(name, &arguments)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        assert_eq!(self.call("cublasDestroy_v2", &[]), 0);
    }
}

fn invoke(name: &str, arguments: &[usize]) -> usize {
    let mut all = [0; MOST];
    all[..arguments.len()].copy_from_slice(arguments);
    call(entry(name), &all, 0.0) & 0xffff_ffff
}

fn at<T: ?Sized>(place: *const T) -> usize {
    std::hint::black_box(place.cast::<u8>().expose_provenance())
}

const A: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
const B: [f32; 6] = [7.0, 8.0, 9.0, 10.0, 11.0, 12.0];
/// `A` is 2 by 3 and `B` 3 by 2, by columns.
const PRODUCT: [f32; 4] = [76.0, 100.0, 103.0, 136.0];

#[test]
fn products_are_computed_in_all_forms() {
    let handle = Handle::new();
    let (one, zero) = ([1.0_f32], [0.0_f32]);
    for name in ["cublasSgemm_v2", "cublasSgemm_v2_64"] {
        let mut c = [f32::NAN; 4];
        let sizes = [0, 0, 2, 2, 3];
        let rest = [at(&one), at(&A), 2, at(&B), 3, at(&zero), at(&mut c), 2];
        assert_eq!(handle.call(name, &[sizes.as_slice(), &rest].concat()), 0);
        assert_eq!(c, PRODUCT, "{name}");
    }
    // The same with scalars in device memory.
    assert_eq!(handle.call("cublasSetPointerMode_v2", &[1]), 0);
    let mut c = [1.0_f32; 4];
    let (two, minus) = ([2.0_f32], [-1.0_f32]);
    let arguments = [
        0,
        0,
        2,
        2,
        3,
        at(&two),
        at(&A),
        2,
        at(&B),
        3,
        at(&minus),
        at(&mut c),
        2,
    ];
    assert_eq!(handle.call("cublasSgemm_v2", &arguments), 0);
    assert_eq!(c, PRODUCT.map(|x| 2.0 * x - 1.0));
    // cublasXt.
    let mut xt = 0_usize;
    assert_eq!(invoke("cublasXtCreate", &[at(&mut xt)]), 0);
    let mut c = [f32::NAN; 4];
    let arguments = [
        xt,
        0,
        0,
        2,
        2,
        3,
        at(&one),
        at(&A),
        2,
        at(&B),
        3,
        at(&zero),
        at(&mut c),
        2,
    ];
    assert_eq!(invoke("cublasXtSgemm", &arguments), 0);
    assert_eq!(c, PRODUCT);
    // Matrices that are not readable: status 13, EXECUTION_FAILED.
    for (index, address) in [(7, 0), (7, 8), (9, 1 << 62), (12, 64)] {
        let mut arguments = arguments;
        arguments[index] = address;
        assert_eq!(invoke("cublasXtSgemm", &arguments), 13, "{index}");
    }
    assert_eq!(
        handle.call("cublasSgemm_v2", &arguments[1..]),
        0,
        "a handle of cuBLAS"
    );
    assert_eq!(
        invoke("cublasSgemm_v2", &arguments),
        1,
        "a handle of cublasXt"
    );
    assert_eq!(invoke("cublasXtDestroy", &[xt]), 0);
    assert_eq!(invoke("cublasXtSgemm", &arguments), 1);
}

#[test]
fn legacy_functions_have_an_implicit_handle() {
    type Gemm = unsafe extern "C" fn(
        c_char,
        c_char,
        i32,
        i32,
        i32,
        f32,
        *const f32,
        i32,
        *const f32,
        i32,
        f32,
        *mut f32,
        i32,
    );
    type Dot = unsafe extern "C" fn(i32, *const f32, i32, *const f32, i32) -> f32;
    // SAFETY: the functions have these types.
    let gemm = unsafe { std::mem::transmute::<*const (), Gemm>(entry("cublasSgemm").address.0) };
    // SAFETY: as above.
    let dot = unsafe { std::mem::transmute::<*const (), Dot>(entry("cublasSdot").address.0) };
    let mut c = [f32::NAN; 4];
    let letter = |letter: u8| letter.cast_signed() as c_char;
    let mut run_with = |n, a: *const f32| {
        // SAFETY: the matrices have their sizes, or the address is wrong, which the function accepts.
        unsafe {
            gemm(
                letter(b'n'),
                letter(n),
                2,
                2,
                3,
                1.0,
                a,
                2,
                B.as_ptr(),
                3,
                0.0,
                c.as_mut_ptr(),
                2,
            );
        }
    };
    run_with(b'N', A.as_ptr());
    assert_eq!(invoke("cublasGetError", &[]), 1, "not initialised");
    assert_eq!(invoke("cublasGetError", &[]), 0, "the failure was told");
    assert_eq!(invoke("cublasInit", &[]), 0);
    run_with(b'?', A.as_ptr());
    run_with(b'N', 64 as *const f32);
    run_with(b'N', A.as_ptr());
    assert_eq!(invoke("cublasGetError", &[]), 7, "the first failure");
    assert_eq!(c, PRODUCT);
    // SAFETY: the vectors have their sizes.
    assert_eq!(unsafe { dot(6, A.as_ptr(), 1, B.as_ptr(), 1) }, 217.0);
    // SAFETY: as above.
    assert_eq!(unsafe { dot(0, A.as_ptr(), 1, B.as_ptr(), 1) }, 0.0);
    assert_eq!(invoke("cublasShutdown", &[]), 0);
}

#[test]
fn results_are_stored_in_both_pointer_modes() {
    let handle = Handle::new();
    for mode in [0, 1] {
        assert_eq!(handle.call("cublasSetPointerMode_v2", &[mode]), 0);
        let mut sum = [f32::NAN];
        assert_eq!(
            handle.call("cublasSasum_v2", &[6, at(&A), 1, at(&mut sum)]),
            0
        );
        assert_eq!(sum, [21.0]);
        let mut index = [-1_i64];
        assert_eq!(
            handle.call("cublasIsamax_v2_64", &[6, at(&A), 1, at(&mut index)]),
            0
        );
        assert_eq!(index, [6]);
        let mut narrow = [-1_i32, -1];
        assert_eq!(
            handle.call("cublasIsamin_v2", &[3, at(&A), 2, at(&mut narrow)]),
            0
        );
        assert_eq!(narrow, [1, -1], "32 bits are written");
        // No elements.
        for (n, increment) in [
            (0, 1),
            (-1_isize as usize, 1),
            (6, 0),
            (6, -2_isize as usize),
        ] {
            sum = [f32::NAN];
            let arguments = [n, at(&A), increment, at(&mut sum)];
            assert_eq!(handle.call("cublasSnrm2_v2", &arguments), 0);
            assert_eq!(sum, [0.0]);
        }
        let mut rotation = [3.0_f32, 4.0, 0.0, 0.0];
        let places: Vec<usize> = rotation.iter_mut().map(|place| at(place)).collect();
        assert_eq!(handle.call("cublasSrotg_v2", &places), 0);
        // r, z, c, s of the reference BLAS.
        assert_eq!(
            rotation.map(|x| (x * 1e5).round()),
            [5e5, 166_667.0, 6e4, 8e4]
        );
    }
}

#[test]
fn mixed_types_are_values() {
    const R16F: usize = 2;
    const R32F: usize = 0;
    const COMPUTE_32F: usize = 68;
    let handle = Handle::new();
    let half = |x: f32| half::f16::from_f32(x).to_bits();
    let (a, b) = (A.map(half), B.map(half));
    let (one, zero) = ([1.0_f32], [0.0_f32]);
    let mut c = [f32::NAN; 4];
    let algorithm = -1_isize as usize;
    let mut arguments = vec![
        0,
        0,
        2,
        2,
        3,
        at(&one),
        at(&a),
        R16F,
        2,
        at(&b),
        R16F,
        3,
        at(&zero),
        at(&mut c),
        R32F,
        2,
        COMPUTE_32F,
        algorithm,
    ];
    assert_eq!(handle.call("cublasGemmEx", &arguments), 0);
    assert_eq!(c, PRODUCT);
    // There is no product of half and single precision.
    arguments[10] = R32F;
    assert_eq!(handle.call("cublasGemmEx", &arguments), 15);
    let (mut x, alpha) = ([half(1.5), half(-2.0)], [2.0_f32]);
    assert_eq!(
        handle.call(
            "cublasScalEx",
            &[2, at(&alpha), R32F, at(&mut x), R16F, 1, R32F]
        ),
        0
    );
    assert_eq!(x, [half(3.0), half(-4.0)]);
    let mut result = [f32::NAN, 77.0];
    let arguments = [
        2,
        at(&x),
        R16F,
        1,
        at(&x),
        R16F,
        1,
        at(&mut result),
        R16F,
        R32F,
    ];
    assert_eq!(handle.call("cublasDotEx", &arguments), 0);
    assert_eq!(result[0].to_bits() & 0xffff, u32::from(half(25.0)));
    assert_eq!(result[1], 77.0, "two bytes are written");
}

#[test]
fn missing_factors_of_sums_are_zero() {
    let handle = Handle::new();
    let two = [2.0_f32];
    let mut c = [f32::NAN; 6];
    // The transpose of A; cuSOLVER copies matrices in this way.
    let arguments = [2, 2, 3, 2, at(&two), at(&A), 2, 0, at(&A), 2, at(&mut c), 3];
    assert_eq!(handle.call("cublasSgeam", &arguments), 0);
    assert_eq!(c, [2.0, 6.0, 10.0, 4.0, 8.0, 12.0]);
}

#[test]
fn wrong_counts_are_answered_as_documented() {
    let handle = Handle::new();
    let (one, zero) = ([1.0_f32], [0.0_f32]);
    let mut y = [0.0_f32; 4];
    let minus = -1_isize as usize;
    let mut gemv = |m, n, incx, incy| {
        let arguments = [
            0,
            m,
            n,
            at(&one),
            at(&A),
            2,
            at(&B),
            incx,
            at(&zero),
            at(&mut y),
            incy,
        ];
        handle.call("cublasSgemv_v2", &arguments)
    };
    assert_eq!(gemv(2, 3, 1, 1), 0);
    assert_eq!(
        [
            gemv(minus, 3, 1, 1),
            gemv(2, minus, 1, 1),
            gemv(2, 3, 0, 1),
            gemv(2, 3, 1, 0)
        ],
        [7; 4]
    );
    // More elements than an address space has.
    let many = 1 << 62;
    let arguments = [
        0,
        0,
        many,
        many,
        many,
        at(&one),
        at(&A),
        many,
        at(&B),
        many,
        at(&zero),
        at(&A),
        many,
    ];
    assert_eq!(handle.call("cublasSgemm_v2_64", &arguments), 7);
    let large = 1 << 40;
    let arguments = [
        0,
        0,
        large,
        large,
        1,
        at(&one),
        at(&A),
        large,
        at(&B),
        1,
        at(&zero),
        at(&A),
        large,
    ];
    assert_eq!(handle.call("cublasSgemm_v2_64", &arguments), 7);
    // Memory that is not the device's.
    let arguments = [
        0,
        0,
        2,
        2,
        3,
        at(&one),
        64,
        2,
        at(&B),
        3,
        at(&zero),
        at(&A),
        2,
    ];
    assert_eq!(handle.call("cublasSgemm_v2", &arguments), 13);
    // A scalar that cannot be read.
    let arguments = [
        0,
        0,
        2,
        2,
        3,
        64,
        at(&A),
        2,
        at(&B),
        3,
        at(&zero),
        at(&A),
        2,
    ];
    assert_eq!(handle.call("cublasSgemm_v2", &arguments), 7);
}

#[test]
fn vectors_and_matrices_are_copied_with_their_strides() {
    let mut y = [0.0_f32; 7];
    let arguments = [3, 4, at(&A), 2, at(&mut y), 3];
    for name in ["cublasSetVector", "cublasGetVector", "cublasSetVector_64"] {
        y = [0.0; 7];
        assert_eq!(invoke(name, &arguments), 0);
        assert_eq!(y, [1.0, 0.0, 0.0, 3.0, 0.0, 0.0, 5.0], "{name}");
    }
    let mut b = [0.0_f32; 8];
    let arguments = [2, 3, 4, at(&A), 2, at(&mut b), 3, 0];
    assert_eq!(invoke("cublasSetMatrixAsync", &arguments), 0);
    assert_eq!(b, [1.0, 2.0, 0.0, 3.0, 4.0, 0.0, 5.0, 6.0]);
    assert_eq!(
        invoke("cublasSetMatrix", &[2, 3, 4, at(&A), 1, at(&mut b), 3]),
        7,
        "lda"
    );
    assert_eq!(
        invoke("cublasSetMatrix", &[2, 3, 0, at(&A), 2, at(&mut b), 3]),
        7,
        "elemSize"
    );
    assert_eq!(
        invoke("cublasSetVector", &[3, 4, at(&A), 0, at(&mut y), 3]),
        7,
        "incx"
    );
    assert_eq!(
        invoke("cublasSetVector", &[3, 4, 0, 1, at(&mut y), 3]),
        11,
        "no source"
    );
    let huge = 1 << 62;
    assert_eq!(
        invoke(
            "cublasSetVector_64",
            &[huge, huge, at(&A), 1, at(&mut y), 1]
        ),
        7
    );
}

#[test]
fn settings_are_kept_and_checked() {
    let handle = Handle::new();
    let mut value = [-1_i32];
    let settings = [
        ("PointerMode_v2", 0, 1, 2),
        ("AtomicsMode", 0, 1, 2),
        ("MathMode", 0, 3 | 16, 7),
        ("SmCountTarget", 0, 64, 65),
        ("EmulationStrategy", 0, 2, 3),
    ];
    for (name, first, good, bad) in settings {
        let get = format!("cublasGet{name}");
        let set = format!("cublasSet{name}");
        assert_eq!(handle.call(&get, &[at(&mut value)]), 0);
        assert_eq!(value, [first], "{name}");
        assert_eq!(handle.call(&set, &[good]), 0, "{name}");
        assert_eq!(handle.call(&set, &[bad]), 7, "{name}");
        assert_eq!(handle.call(&set, &[-1_isize as usize]), 7, "{name}");
        assert_eq!(handle.call(&get, &[at(&mut value)]), 0);
        assert_eq!(value, [good as i32], "{name}");
        assert_eq!(handle.call(&get, &[0]), 7, "{name}");
    }
    let mut stream = 0_usize;
    assert_eq!(handle.call("cublasSetStream_v2", &[0x1230]), 0);
    assert_eq!(handle.call("cublasGetStream_v2", &[at(&mut stream)]), 0);
    assert_eq!(stream, 0x1230);
    for wrong in [0, 1, handle.0 + 1, handle.0 ^ 16, usize::MAX] {
        assert_eq!(invoke("cublasGetStream_v2", &[wrong, at(&mut stream)]), 1);
        assert_eq!(invoke("cublasDestroy_v2", &[wrong]), 1);
    }
    let other = Handle::new();
    let number = other.0;
    drop(other);
    assert_eq!(
        invoke("cublasGetStream_v2", &[number, at(&mut stream)]),
        1,
        "destroyed"
    );
}

#[test]
fn versions_are_those_of_the_toolkits() {
    assert_eq!((number::<12>(), number::<13>()), (120_903, 131_000));
    for toolkit in [12, 13] {
        let of = |name: &str| {
            let mut all = entries().filter(|entry| entry.toolkits == [toolkit]);
            all.find(|entry| entry.name == name).expect(name)
        };
        let mut version = [0_i32];
        let mut arguments = [0; MOST];
        arguments[1] = at(&mut version);
        assert_eq!(call(of("cublasGetVersion_v2"), &arguments, 0.0) as i32, 0);
        assert_eq!(version, [if toolkit == 12 { 120_903 } else { 131_000 }]);
        assert_eq!(
            call(of("cublasLtGetVersion"), &arguments, 0.0),
            version[0] as usize
        );
        let mut part = |kind| {
            arguments[0] = kind;
            let status = call(of("cublasGetProperty"), &arguments, 0.0) as i32;
            (status, version[0])
        };
        assert_eq!(part(0), (0, toolkit as i32));
        assert_eq!(part(3).0, 7);
    }
    type Text = unsafe extern "C" fn(i32) -> *const c_char;
    for (name, text) in [
        ("cublasGetStatusName", c"CUBLAS_STATUS_NOT_SUPPORTED"),
        (
            "cublasLtGetStatusString",
            c"the functionality is not supported",
        ),
    ] {
        // SAFETY: the function has this type.
        let function = unsafe { std::mem::transmute::<*const (), Text>(entry(name).address.0) };
        // SAFETY: the function returns a C string.
        assert_eq!(unsafe { CStr::from_ptr(function(15)) }, text);
        // SAFETY: as above.
        assert_eq!(
            // SAFETY: the function returns a C string.
            unsafe { CStr::from_ptr(function(2)) },
            c"unrecognized status"
        );
    }
}

#[test]
fn libraries_get_as_many_functions_as_nvidias_export() {
    let counts = [
        ((0, 12), 746),
        ((0, 13), 756),
        ((1, 12), 180),
        ((1, 13), 222),
    ];
    for ((library, toolkit), count) in counts {
        let found = crate::margay_cublas_functions(library, toolkit, count);
        assert!(!found.is_null(), "{library} {toolkit}");
        assert!(crate::margay_cublas_functions(library, toolkit, count + 1).is_null());
    }
    assert!(crate::margay_cublas_functions(0, 11, 746).is_null());
    assert!(crate::margay_cublas_functions(2, 12, 746).is_null());
}

#[test]
fn missing_functions_say_so() {
    let handle = Handle::new();
    for entry in entries().filter(|entry| entry.missing) {
        let mut arguments = [0; MOST];
        arguments[0] = handle.0;
        assert_eq!(call(entry, &arguments, 0.0) as i32, 15, "{}", entry.name);
    }
}
