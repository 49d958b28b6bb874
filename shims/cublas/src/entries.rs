//! The C functions and their tables, which are generated from the lists of entry points.

#![allow(
    non_snake_case,
    clippy::too_many_arguments,
    clippy::unused_unit,
    reason = "the names and parameters are NVIDIA's, and the code is generated"
)]

use std::ffi::{c_char, c_void};
use std::sync::OnceLock;

use crate::entry::{Address, Entry, blas, free, legacy, missing, xt};
use crate::status::Status;
use crate::types::{Index, Integers, bf16, c32, c64, f16};
use crate::xt;
use crate::{copy, factor, gemm, legacy, level1, level1ex, level2, level3, library, log, lt};

include!(concat!(env!("OUT_DIR"), "/cublas.rs"));
include!(concat!(env!("OUT_DIR"), "/cublaslt.rs"));

/// Returns a size of cublasXt. Sizes that are too large become numbers that no function accepts.
fn size(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Returns the addresses of the functions that a library of a toolkit exports, in the order of their list: of `libcublas` for
/// 0, of `libcublasLt` for 1. Returns null if there are not `count`.
#[unsafe(no_mangle)]
pub extern "C" fn margay_cublas_functions(
    library: u32,
    toolkit: u32,
    count: usize,
) -> *const *const () {
    /// The addresses of each library and toolkit.
    static ADDRESSES: [OnceLock<Vec<usize>>; 4] = [const { OnceLock::new() }; 4];
    let (table, index) = match (library, toolkit) {
        (0, 12) => (CUBLAS, 0),
        (0, 13) => (CUBLAS, 1),
        (1, 12) => (CUBLAS_LT, 2),
        (1, 13) => (CUBLAS_LT, 3),
        _ => return std::ptr::null(),
    };
    let addresses = ADDRESSES[index].get_or_init(|| {
        let exported = table
            .iter()
            .filter(|entry| entry.toolkits.contains(&toolkit));
        exported.map(|entry| entry.address.0 as usize).collect()
    });
    match addresses.len() == count {
        true => addresses.as_ptr().cast(),
        false => std::ptr::null(),
    }
}
