//! The second set: twenty kernels of other kinds. They show whether optimisations also speed up kernels for which they
//! were not written.

use crate::case::Case;

mod aes;
mod attention;
mod backprop;
mod bilateral;
mod bvh;
mod crc32;
mod fdtd;
mod fft;
mod hotspot;
mod jacobi;
mod k_means;
mod lbm;
mod merge_sort;
mod needleman_wunsch;
mod path_finder;
mod smith_waterman;
mod sobel;
mod spgemm;
mod su3;
mod tridiagonal;

/// The kernels of the second set, in the order of the rows of their table.
pub(super) const CASES: &[Case] = &[
    lbm::CASE,
    fdtd::CASE,
    fft::CASE,
    merge_sort::CASE,
    k_means::CASE,
    smith_waterman::CASE,
    su3::CASE,
    tridiagonal::CASE,
    jacobi::CASE,
    crc32::CASE,
    aes::CASE,
    sobel::CASE,
    bilateral::CASE,
    path_finder::CASE,
    hotspot::CASE,
    needleman_wunsch::CASE,
    backprop::CASE,
    bvh::CASE,
    spgemm::CASE,
    attention::CASE,
];
