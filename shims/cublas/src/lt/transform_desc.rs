//! Descriptors of transforms (`cublasLtMatrixTransformDesc_t`).

use std::ffi::c_void;

use crate::lt::descriptor::{self, descriptor};
use crate::status::Outcome;

descriptor! {
    /// What a transform computes.
    TransformDesc 0x6d54_7266 8;
    /// The type of `alpha` and `beta`.
    scale: i32 = 0;
    /// `cublasLtPointerMode_t`.
    pointer_mode: i32 = 0;
    transa: i32 = 0;
    transb: i32 = 0;
    {
        0 scale;
        1 pointer_mode;
        2 transa;
        3 transb;
    }
}

/// `cublasLtMatrixTransformDescInit`.
pub(crate) unsafe fn init(address: usize, size: usize, scale: i32) -> Outcome {
    let described = TransformDesc {
        scale,
        ..TransformDesc::default()
    };
    descriptor::init(address, size, described)
}

/// `cublasLtMatrixTransformDescCreate`.
pub(crate) unsafe fn create(place: *mut usize, scale: i32) -> Outcome {
    let described = TransformDesc {
        scale,
        ..TransformDesc::default()
    };
    descriptor::create(place, described)
}

/// `cublasLtMatrixTransformDescDestroy`.
pub(crate) unsafe fn destroy(address: usize) -> Outcome {
    descriptor::destroy::<TransformDesc>(address)
}

/// `cublasLtMatrixTransformDescSetAttribute`.
pub(crate) unsafe fn set(
    address: usize,
    number: i32,
    value: *const c_void,
    size: usize,
) -> Outcome {
    descriptor::set::<TransformDesc>(address, number, value, size)
}

/// `cublasLtMatrixTransformDescGetAttribute`.
pub(crate) unsafe fn get(
    address: usize,
    number: i32,
    value: *mut c_void,
    size: usize,
    written: *mut usize,
) -> Outcome {
    descriptor::get::<TransformDesc>(address, number, value, size, written)
}
