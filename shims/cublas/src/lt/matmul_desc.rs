//! Descriptors of products (`cublasLtMatmulDesc_t`).

use std::ffi::c_void;

use crate::lt::descriptor::{self, descriptor};
use crate::status::Outcome;

descriptor! {
    /// What a product computes.
    MatmulDesc 0x6d4d_756c 32;
    /// `cublasComputeType_t`.
    compute: i32 = 0;
    bias: u64 = 0;
    bias_stride: i64 = 0;
    aux: u64 = 0;
    aux_ld: i64 = 0;
    aux_stride: i64 = 0;
    alpha_vector_stride: i64 = 0;
    a_scale: u64 = 0;
    b_scale: u64 = 0;
    c_scale: u64 = 0;
    d_scale: u64 = 0;
    amax: u64 = 0;
    aux_scale: u64 = 0;
    aux_amax: u64 = 0;
    sync_in: u64 = 0;
    sync_out: u64 = 0;
    d_out_scale: u64 = 0;
    emulation: u64 = 0;
    alpha_stride: i64 = 0;
    beta_stride: i64 = 0;
    /// The type of `alpha` and `beta`.
    scale: i32 = 0;
    /// `cublasLtPointerMode_t`.
    pointer_mode: i32 = 0;
    transa: i32 = 0;
    transb: i32 = 0;
    transc: i32 = 0;
    /// `cublasFillMode_t`.
    fill: i32 = 2;
    /// `cublasLtEpilogue_t`.
    epilogue: u32 = 1;
    sm_count: i32 = 0;
    /// An attribute that NVIDIA does not document.
    reserved: i32 = 0;
    aux_kind: i32 = -1;
    bias_kind: i32 = -1;
    sync_rows: i32 = 0;
    sync_columns: i32 = 0;
    a_scale_mode: i32 = 0;
    b_scale_mode: i32 = 0;
    c_scale_mode: i32 = 0;
    d_scale_mode: i32 = 0;
    aux_scale_mode: i32 = 0;
    d_out_scale_mode: i32 = 0;
    invariance: i32 = 0x8000;
    fast_accumulation: i8 = 0;
    unused: [u8; 7] = [0; 7];
    {
        0 compute;
        1 scale;
        2 pointer_mode;
        3 transa;
        4 transb;
        5 transc;
        6 fill;
        7 epilogue;
        8 bias;
        10 bias_stride;
        11 aux;
        12 aux_ld;
        13 aux_stride;
        14 alpha_vector_stride;
        15 sm_count;
        16 reserved;
        17 a_scale;
        18 b_scale;
        19 c_scale;
        20 d_scale;
        21 amax;
        22 aux_kind;
        23 aux_scale;
        24 aux_amax;
        25 fast_accumulation;
        26 bias_kind;
        27 sync_rows;
        28 sync_columns;
        29 sync_in;
        30 sync_out;
        31 a_scale_mode;
        32 b_scale_mode;
        33 c_scale_mode;
        34 d_scale_mode;
        35 aux_scale_mode;
        36 d_out_scale;
        37 d_out_scale_mode;
        38 emulation;
        39 alpha_stride;
        40 beta_stride;
        41 invariance;
    }
}

fn described(compute: i32, scale: i32) -> MatmulDesc {
    MatmulDesc {
        compute,
        scale,
        ..MatmulDesc::default()
    }
}

/// `cublasLtMatmulDescInit`.
pub(crate) unsafe fn init(address: usize, size: usize, compute: i32, scale: i32) -> Outcome {
    descriptor::init(address, size, described(compute, scale))
}

/// `cublasLtMatmulDescCreate`.
pub(crate) unsafe fn create(place: *mut usize, compute: i32, scale: i32) -> Outcome {
    descriptor::create(place, described(compute, scale))
}

/// `cublasLtMatmulDescDestroy`.
pub(crate) unsafe fn destroy(address: usize) -> Outcome {
    descriptor::destroy::<MatmulDesc>(address)
}

/// `cublasLtMatmulDescSetAttribute`.
pub(crate) unsafe fn set(
    address: usize,
    number: i32,
    value: *const c_void,
    size: usize,
) -> Outcome {
    descriptor::set::<MatmulDesc>(address, number, value, size)
}

/// `cublasLtMatmulDescGetAttribute`.
pub(crate) unsafe fn get(
    address: usize,
    number: i32,
    value: *mut c_void,
    size: usize,
    written: *mut usize,
) -> Outcome {
    descriptor::get::<MatmulDesc>(address, number, value, size, written)
}
