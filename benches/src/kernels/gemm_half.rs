//! A matrix product of half-precision matrices, accumulated in single precision: one kernel uses tiles in shared
//! memory, the other kernel uses matrix instructions.

use crate::case::{Case, Group, Scale, Sources, sources};
use crate::data::Random;
use crate::work::{Buffer, Values, Work, args};

use super::matmul::product;

pub(super) const TILED: Case = Case {
    name: "matrix product, f16",
    size: "512 x 512 x 512 f16 to f32",
    group: Group::More,
    sources: SOURCES,
    make: tiled,
};

pub(super) const MATRIX: Case = Case {
    name: "matrix product, f16, wmma",
    size: "512 x 512 x 512 f16 to f32",
    group: Group::More,
    sources: SOURCES,
    make: matrix,
};

const SOURCES: Sources = sources!("benches/cuda/gemm_half.ptx", "gemm_half");
const TILE: usize = 16;

/// Returns work without a launch, and the buffers of the three matrices: two factors and the
/// product.
fn product_of(rows: usize, inner: usize, columns: usize) -> (Work, [Buffer; 3]) {
    let mut random = Random::new(19);
    let mut values = |n| random.fill(n, |r| r.below(17) as f32 - 8.0);
    let (a, b) = (values(rows * inner), values(inner * columns));
    let want = product(&a, &b, inner, columns);
    let mut work = Work::on(rows * columns);
    let halves = |values: &[f32]| -> Vec<u16> { values.iter().map(|v| half(*v)).collect() };
    let (a, b) = (work.input(&halves(&a)), work.input(&halves(&b)));
    let c = work.output::<f32>(rows * columns);
    work.numbers([rows, inner, columns]);
    work.operations = Some(2.0 * (rows * inner * columns) as f64);
    work.expect(c, Values::exact(&want));
    (work, [a, b, c])
}

/// Returns the half-precision bits of `value`, which must be a small integer.
fn half(value: f32) -> u16 {
    if value == 0.0 {
        return 0;
    }
    // Half precision has ten mantissa bits instead of 23, and an exponent bias of 15 instead of 127.
    let bits = value.to_bits();
    let (sign, exponent) = (bits >> 16 & 0x8000, (bits >> 23 & 0xff) + 15 - 127);
    (sign | exponent << 10 | bits >> 13 & 0x3ff) as u16
}

fn tiled(scale: Scale) -> Work {
    let [rows, inner, columns] = [50, 37, 61].map(|small| scale.pick(512, small));
    let (mut work, [a, b, c]) = product_of(rows, inner, columns);
    let grid = (columns.div_ceil(TILE), rows.div_ceil(TILE));
    let arguments = args![a, b, c, rows as i32, inner as i32, columns as i32];
    work.launch("gemm_half", grid, (TILE, TILE), arguments);
    work
}

fn matrix(scale: Scale) -> Work {
    let [rows, inner, columns] = [48, 32, 80].map(|small| scale.pick(512, small));
    let (mut work, [a, b, c]) = product_of(rows, inner, columns);
    // A block has four warps, and each warp computes one tile.
    let grid = (columns.div_ceil(4 * TILE), rows / TILE);
    let arguments = args![a, b, c, rows as i32, inner as i32, columns as i32];
    work.launch("gemm_matrix", grid, 128, arguments);
    work
}

#[cfg(test)]
mod tests {
    #[test]
    fn small_integers_as_halves() {
        // The expected encodings follow IEEE 754-2008, 3.4.
        assert_eq!(
            [1.0, -2.0, 8.0, -7.0, 0.0].map(super::half),
            [0x3c00, 0xc000, 0x4800, 0xc700, 0]
        );
    }
}
