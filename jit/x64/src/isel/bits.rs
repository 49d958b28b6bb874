//! Counts of bits in vector registers.

use regalloc2::VReg;

use super::Selector;
use super::prim::{Shift, length};
use crate::asm::Op;
use crate::features::Features;

impl Selector<'_> {
    /// Returns the numbers of one bits of elements of 32 or 64 bits.
    pub(super) fn bit_count(&mut self, bits: u32, lanes: u32, x: VReg) -> VReg {
        let len = length(bits, lanes);
        if self.features.contains(Features::VPOPCNTDQ) {
            let op = if bits == 64 {
                Op::Vpopcntq
            } else {
                Op::Vpopcntd
            };
            return self.v1(op, len, x);
        }
        let counts = self.nibble_table(len, |n| n.count_ones().into());
        let low_bits = self.splat_constant(0x0f, 8);
        let high = self.shift(Shift::Right, 32, (bits * lanes).max(128) / 32, x, 4);
        let (low, high) = (
            self.v2(Op::Vpandd, len, x, low_bits),
            self.v2(Op::Vpandd, len, high, low_bits),
        );
        let low = self.v2(Op::Vpshufb, len, counts, low);
        let high = self.v2(Op::Vpshufb, len, counts, high);
        let bytes = self.v2(Op::Vpaddb, len, low, high);
        if bits == 64 {
            let zero = self.splat_constant(0, 64);
            return self.v2(Op::Vpsadbw, len, bytes, zero);
        }
        let ones = self.splat_constant(1, 8);
        let words = self.v2(Op::Vpmaddubsw, len, bytes, ones);
        let ones = self.splat_constant(1, 16);
        self.v2(Op::Vpmaddwd, len, words, ones)
    }

    /// Returns a table of 16 bytes for `vpshufb`, in each part of 128 bits.
    pub(super) fn nibble_table(
        &mut self,
        len: crate::asm::Width,
        entry: impl Fn(u8) -> u64,
    ) -> VReg {
        let entries = (0..len.bytes()).map(|n| entry(n as u8 % 16));
        self.vector_constant(8, entries)
    }

    /// Returns the numbers of zero bits above the highest one bit of elements of 32 or 64 bits.
    pub(super) fn leading_zeros(&mut self, bits: u32, lanes: u32, x: VReg) -> VReg {
        if !self.has_masks() {
            return self.avx2_leading_zeros(bits, lanes, x);
        }
        let op = if bits == 64 {
            Op::Vplzcntq
        } else {
            Op::Vplzcntd
        };
        self.v1(op, length(bits, lanes), x)
    }
}
