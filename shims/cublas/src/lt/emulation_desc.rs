//! Descriptors of the emulation of floating-point types (`cublasLtEmulationDesc_t`). Products are computed in their types, so a descriptor has no effect.

use std::ffi::c_void;

use crate::lt::descriptor::{self, descriptor};
use crate::status::Outcome;

descriptor! {
    /// How a type may be emulated.
    EmulationDesc 0x6d45_6d75 8;
    strategy: i32 = 0;
    special_values: i32 = 0xffff;
    mantissa_control: i32 = 0;
    mantissa_bits: i32 = 0;
    mantissa_offset: i32 = 0;
    mantissa_pointer: u64 = 0;
    {
        0 strategy;
        1 special_values;
        2 mantissa_control;
        3 mantissa_bits;
        4 mantissa_offset;
        5 mantissa_pointer;
    }
}

/// `cublasLtEmulationDescInit`.
pub(crate) unsafe fn init(address: usize, size: usize) -> Outcome {
    descriptor::init(address, size, EmulationDesc::default())
}

/// `cublasLtEmulationDescCreate`.
pub(crate) unsafe fn create(place: *mut usize) -> Outcome {
    descriptor::create(place, EmulationDesc::default())
}

/// `cublasLtEmulationDescDestroy`.
pub(crate) unsafe fn destroy(address: usize) -> Outcome {
    descriptor::destroy::<EmulationDesc>(address)
}

/// `cublasLtEmulationDescSetAttribute`.
pub(crate) unsafe fn set(
    address: usize,
    number: i32,
    value: *const c_void,
    size: usize,
) -> Outcome {
    descriptor::set::<EmulationDesc>(address, number, value, size)
}

/// `cublasLtEmulationDescGetAttribute`.
pub(crate) unsafe fn get(
    address: usize,
    number: i32,
    value: *mut c_void,
    size: usize,
    written: *mut usize,
) -> Outcome {
    descriptor::get::<EmulationDesc>(address, number, value, size, written)
}
