//! Algorithms: the search for one, and its attributes.
//!
//! Searches find one algorithm, with the number 0. It needs no workspace, and its configuration has no effect on the
//! product. Programs may also name an algorithm that they chose on a GPU; its number has no effect either.

use std::ffi::c_void;

use margay_blas::products::{self, Types};

use crate::gemm::compute;
use crate::handle;
use crate::host::{self, Plain};
use crate::lt::descriptor::give;
use crate::lt::library::OWNERS;
use crate::lt::matmul::{NO_ADDRESSES, Problem};
use crate::lt::operands::data_type;
use crate::lt::preference::Preference;
use crate::memory::Memory;
use crate::status::{Failure, Outcome, Status, need};

/// The number of the algorithm that searches find.
const NUMBER: i32 = 0;
/// Numbers of NVIDIA's algorithms are below this one. NVIDIA does not document the numbers; the highest that programs
/// contain are near 70.
const NUMBERS: i32 = 128;

/// An algorithm (`cublasLtMatmulAlgo_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Algorithm {
    mark: u32,
    number: i32,
    tile: u32,
    split_k: i32,
    reduction_scheme: u32,
    swizzle: u32,
    custom: u32,
    stages: u32,
    inner_shape: u16,
    cluster_shape: u16,
    unused: [u32; 7],
}

// SAFETY: all fields are numbers without gaps.
unsafe impl Plain for Algorithm {}

const _: () = assert!(size_of::<Algorithm>() == 64);

impl Algorithm {
    /// The first word of each algorithm.
    const MARK: u32 = 0x6d41_6c67;

    fn new(number: i32) -> Algorithm {
        Algorithm {
            mark: Algorithm::MARK,
            number,
            tile: 0,
            split_k: 1,
            reduction_scheme: 0,
            swizzle: 0,
            custom: 0,
            stages: 0,
            inner_shape: 0,
            cluster_shape: 0,
            unused: [0; 7],
        }
    }

    /// Returns the algorithm at an address.
    ///
    /// # Errors
    /// `INVALID_VALUE` if there is none.
    pub(crate) fn load(address: *const c_void) -> Result<Algorithm, Status> {
        let found = host::read(address.cast::<Algorithm>());
        let found = found.filter(|found| found.mark == Algorithm::MARK);
        found.ok_or(Status::INVALID_VALUE)
    }

    fn store(self, address: *mut c_void) -> Outcome {
        need(host::write(address.cast(), self).is_some(), 0)
    }
}

/// The result of a search (`cublasLtMatmulHeuristicResult_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Found {
    algorithm: Algorithm,
    workspace: usize,
    state: i32,
    waves: f32,
    reserved: [i32; 4],
}

// SAFETY: all fields are numbers without gaps.
unsafe impl Plain for Found {}

const _: () = assert!(size_of::<Found>() == 96);

/// Checks that the product of the descriptors is supported.
fn check_problem(handle: usize, desc: usize, layouts: [usize; 4]) -> Outcome {
    handle::get(handle, OWNERS)?;
    let problem = Problem::load(desc, layouts)?;
    let mut memory = Memory::default();
    let arguments = problem.arguments(None, NO_ADDRESSES, &mut memory)?;
    match arguments.are_supported() {
        true => Ok(()),
        false => Err(Status::NOT_SUPPORTED.into()),
    }
}

fn found(algorithm: Algorithm) -> Found {
    Found {
        algorithm,
        workspace: 0,
        state: Status::SUCCESS.0,
        waves: 1.0,
        reserved: [0; 4],
    }
}

/// `cublasLtMatmulAlgoGetHeuristic`: finds the algorithm.
///
/// # Safety
/// None. The same holds for the other functions of this module.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn heuristic(
    handle: usize,
    desc: usize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    preference: usize,
    requested: i32,
    results: *mut c_void,
    count: *mut i32,
) -> Outcome {
    handle::get(handle, OWNERS)?;
    need(host::write(count, 0).is_some(), 0)?;
    need(requested > 0 && !results.is_null(), 0)?;
    crate::lt::descriptor::load::<Preference>(preference)?;
    check_problem(handle, desc, [a, b, c, d])?;
    let result = found(Algorithm::new(NUMBER));
    need(host::write(results.cast(), result).is_some(), 0)?;
    need(host::write(count, 1).is_some(), 0)
}

/// `cublasLtMatmulAlgoGetHeuristicForStream`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn heuristic_for_stream(
    handle: usize,
    desc: usize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    preference: usize,
    requested: i32,
    results: *mut c_void,
    count: *mut i32,
    _stream: usize,
) -> Outcome {
    // SAFETY: the function accepts all addresses.
    unsafe {
        heuristic(
            handle, desc, a, b, c, d, preference, requested, results, count,
        )
    }
}

/// Checks that some product has these types.
fn check_types(compute_type: i32, scale: i32, [a, b, c, d]: [i32; 4]) -> Outcome {
    let types = Types {
        a: data_type(a)?,
        b: data_type(b)?,
        c: data_type(c)?,
        compute: compute(compute_type).ok_or(Status::NOT_SUPPORTED)?,
        scale: data_type(scale)?,
    };
    let of_d = Types {
        c: data_type(d)?,
        ..types
    };
    match products::computes(types) || products::computes(of_d) {
        true => Ok(()),
        false => Err(Status::NOT_SUPPORTED.into()),
    }
}

/// `cublasLtMatmulAlgoGetIds`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn ids(
    handle: usize,
    compute_type: i32,
    scale: i32,
    a: i32,
    b: i32,
    c: i32,
    d: i32,
    requested: i32,
    numbers: *mut i32,
    count: *mut i32,
) -> Outcome {
    handle::get(handle, OWNERS)?;
    need(requested > 0 && !numbers.is_null(), 0)?;
    need(host::write(count, 0).is_some(), 0)?;
    check_types(compute_type, scale, [a, b, c, d])?;
    need(host::write(numbers, NUMBER).is_some(), 0)?;
    need(host::write(count, 1).is_some(), 0)
}

/// `cublasLtMatmulAlgoInit`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn init(
    handle: usize,
    compute_type: i32,
    scale: i32,
    a: i32,
    b: i32,
    c: i32,
    d: i32,
    number: i32,
    algorithm: *mut c_void,
) -> Outcome {
    handle::get(handle, OWNERS)?;
    need((0..NUMBERS).contains(&number) && !algorithm.is_null(), 0)?;
    check_types(compute_type, scale, [a, b, c, d])?;
    Algorithm::new(number).store(algorithm)
}

/// `cublasLtMatmulAlgoCheck`.
pub(crate) unsafe fn check(
    handle: usize,
    desc: usize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    algorithm: *const c_void,
    result: *mut c_void,
) -> Outcome {
    handle::get(handle, OWNERS)?;
    let algorithm = Algorithm::load(algorithm)?;
    check_problem(handle, desc, [a, b, c, d])?;
    match result.is_null() {
        true => Ok(()),
        false => need(host::write(result.cast(), found(algorithm)).is_some(), 0),
    }
}

/// `cublasLtMatmulAlgoCheckForStream`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn check_for_stream(
    handle: usize,
    desc: usize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    algorithm: *const c_void,
    result: *mut c_void,
    _stream: usize,
) -> Outcome {
    // SAFETY: the function accepts all addresses.
    unsafe { check(handle, desc, a, b, c, d, algorithm, result) }
}

/// `cublasLtMatmulAlgoCapGetAttribute`.
pub(crate) unsafe fn capability(
    algorithm: *const c_void,
    number: i32,
    value: *mut c_void,
    size: usize,
    written: *mut usize,
) -> Outcome {
    Algorithm::load(algorithm)?;
    /// All pointer modes, and all epilogues.
    const POINTER_MODES: u32 = 0b1_1111;
    const EPILOGUES: u32 = 0x3ff;
    /// `FMA`, accumulators and inputs of all types.
    const NUMERICS: u64 = 0x01 | 0x0e << 8 | 0xff << 16;
    let word = |value: u32| value.to_ne_bytes().to_vec();
    let bytes = match number {
        // Split k, reduction schemes, swizzling.
        0..=2 => word(0),
        // Strided batches, results out of place.
        3 | 4 => word(1),
        // Triangles of D.
        5 => word(0),
        // Tiles: only the undefined one.
        6 => word(0),
        // The largest custom option.
        7 => word(0),
        // Orders other than by column or row.
        10 => word(1),
        11 => word(POINTER_MODES),
        12 => word(EPILOGUES),
        // Stages: only the undefined one. Negative leading dimensions.
        13 | 14 => word(0),
        15 => NUMERICS.to_ne_bytes().to_vec(),
        // Alignments: none.
        16..=19 => word(1),
        // Atomic synchronization.
        20 => word(0),
        // Arrays of addresses.
        21 => word(1),
        // Emulation, groups.
        22 | 23 => word(0),
        _ => return Err(Status::INVALID_VALUE.into()),
    };
    give(&bytes, value, size, written)
}

/// The attributes of a configuration: their offsets and sizes.
const CONFIGURATION: [(usize, usize); 9] = {
    macro_rules! places {
        ($($field:ident $size:literal),*) => {
            [$((std::mem::offset_of!(Algorithm, $field), $size)),*]
        };
    }
    places!(
        number 4,
        tile 4,
        split_k 4,
        reduction_scheme 4,
        swizzle 4,
        custom 4,
        stages 4,
        inner_shape 2,
        cluster_shape 2
    )
};

fn place(number: i32) -> Result<(usize, usize), Failure> {
    let found = usize::try_from(number)
        .ok()
        .and_then(|index| CONFIGURATION.get(index));
    found.copied().ok_or(Status::INVALID_VALUE.into())
}

/// `cublasLtMatmulAlgoConfigSetAttribute`.
pub(crate) unsafe fn set_config(
    address: *mut c_void,
    number: i32,
    value: *const c_void,
    size: usize,
) -> Outcome {
    let mut algorithm = Algorithm::load(address)?;
    let (offset, wanted) = place(number)?;
    // The algorithm's number cannot be changed.
    need(number != 0 && !value.is_null() && size == wanted, 0)?;
    let bytes = host::read_all(value.cast::<u8>(), size).ok_or(Status::INVALID_VALUE)?;
    let target = (&raw mut algorithm).cast::<u8>().wrapping_add(offset);
    // SAFETY: the attribute is inside the structure, of which all bytes are values.
    unsafe { target.copy_from(bytes.as_ptr(), size) };
    algorithm.store(address)
}

/// `cublasLtMatmulAlgoConfigGetAttribute`.
pub(crate) unsafe fn config(
    address: *const c_void,
    number: i32,
    value: *mut c_void,
    size: usize,
    written: *mut usize,
) -> Outcome {
    let algorithm = Algorithm::load(address)?;
    let (offset, len) = place(number)?;
    let source = (&raw const algorithm).cast::<u8>().wrapping_add(offset);
    // SAFETY: the attribute is inside the structure.
    let bytes = unsafe { std::slice::from_raw_parts(source, len) };
    give(bytes, value, size, written)
}
