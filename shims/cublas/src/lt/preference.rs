//! Preferences of the search for algorithms (`cublasLtMatmulPreference_t`).

use std::ffi::c_void;

use crate::lt::descriptor::{self, descriptor};
use crate::status::Outcome;

descriptor! {
    /// What a program wants of an algorithm, in the size of CUDA 12.
    Preference 0x6d50_7265 8;
    search_mode: u32 = 0;
    workspace: u64 = 0;
    mask: u64 = u64::MAX;
    reduction_schemes: u32 = 7;
    alignment_a: u32 = 256;
    alignment_b: u32 = 256;
    alignment_c: u32 = 256;
    alignment_d: u32 = 256;
    waves: f32 = 0.0;
    extended: u32 = 0;
    unused: u32 = 0;
    {
        0 search_mode;
        1 workspace;
        3 reduction_schemes;
        5 alignment_a;
        6 alignment_b;
        7 alignment_c;
        8 alignment_d;
        9 waves;
        12 mask;
    }
}

descriptor! {
    /// A preference with the attributes of grouped matrices (CUDA 13). It begins with the fields of [`Preference`].
    Extended 0x6d50_7265 12;
    search_mode: u32 = 0;
    workspace: u64 = 0;
    mask: u64 = u64::MAX;
    reduction_schemes: u32 = 7;
    alignment_a: u32 = 256;
    alignment_b: u32 = 256;
    alignment_c: u32 = 256;
    alignment_d: u32 = 256;
    waves: f32 = 0.0;
    extended: u32 = 1;
    unused: u32 = 0;
    reduction_dimension: u64 = 0;
    rows: u64 = 0;
    columns: u64 = 0;
    {
        0 search_mode;
        1 workspace;
        3 reduction_schemes;
        5 alignment_a;
        6 alignment_b;
        7 alignment_c;
        8 alignment_d;
        9 waves;
        12 mask;
        13 reduction_dimension;
        14 rows;
        15 columns;
    }
}

/// `cublasLtMatmulPreferenceInit`.
pub(crate) unsafe fn init(address: usize, size: usize) -> Outcome {
    match size >= size_of::<Extended>() {
        true => descriptor::init(address, size, Extended::default()),
        false => descriptor::init(address, size, Preference::default()),
    }
}

/// `cublasLtMatmulPreferenceCreate`.
pub(crate) unsafe fn create(place: *mut usize) -> Outcome {
    descriptor::create(place, Extended::default())
}

/// `cublasLtMatmulPreferenceDestroy`.
pub(crate) unsafe fn destroy(address: usize) -> Outcome {
    descriptor::destroy::<Extended>(address)
}

/// Whether the preference at an address has the attributes of grouped matrices.
fn is_extended(address: usize) -> Result<bool, crate::status::Status> {
    Ok(descriptor::load::<Preference>(address)?.extended == 1)
}

/// `cublasLtMatmulPreferenceSetAttribute`.
pub(crate) unsafe fn set(
    address: usize,
    number: i32,
    value: *const c_void,
    size: usize,
) -> Outcome {
    match is_extended(address)? {
        true => descriptor::set::<Extended>(address, number, value, size),
        false => descriptor::set::<Preference>(address, number, value, size),
    }
}

/// `cublasLtMatmulPreferenceGetAttribute`.
pub(crate) unsafe fn get(
    address: usize,
    number: i32,
    value: *mut c_void,
    size: usize,
    written: *mut usize,
) -> Outcome {
    match is_extended(address)? {
        true => descriptor::get::<Extended>(address, number, value, size, written),
        false => descriptor::get::<Preference>(address, number, value, size, written),
    }
}
