//! Permutations of lanes.

use margay_ops::types::{Kind, Type};
use regalloc2::{RegClass, VReg};
use smallvec::SmallVec;

use super::lanes::bits_kind;
use super::prim::for_width;
use super::{Regs, Selector, Val, one};
use crate::asm::{Op, Width};
use crate::features::Features;
use crate::mach::{Action, Base, Inst, Mem};

impl Selector<'_> {
    pub(crate) fn permute(&mut self) {
        let (vals, ty) = (self.vals(), self.result_types()[0]);
        let (index, sources) = vals.split_last().expect("permute has indices");
        if ty.lanes() == 1 && sources.len() == 1 {
            let regs = self.regs_of(&sources[0]);
            return self.define(0, regs);
        }
        if ty.kind() == Kind::Pred {
            let words = Type::vector(Kind::B32, ty.lanes()).expect("the lanes of a type");
            let sources: SmallVec<[Val; 2]> = sources
                .iter()
                .map(|val| self.words_of_mask(val, words))
                .collect();
            let regs = self.permuted(words, &sources, index);
            let mask = self.mask_of_words(words, &regs);
            return self.define(0, mask);
        }
        if ty.kind() == Kind::B128 {
            return self.wide_permute(ty, sources, index);
        }
        let regs = self.permuted(ty, sources, index);
        self.define(0, regs);
    }

    /// Returns 32-bit lanes that are all ones where a mask is true, and zero elsewhere.
    pub(crate) fn words_of_mask(&mut self, mask: &Val, words: Type) -> Val {
        let lanes = words.lanes() / self.register_count(words);
        self.mask_bits = if self.has_masks() { 0 } else { 32 };
        let regs = (0..words.lanes() / lanes)
            .map(|number| {
                let piece = self.piece(mask, lanes, number);
                let piece = self.reg(&piece);
                self.ones_in(piece, 32, lanes)
            })
            .collect::<Regs>();
        self.mask_bits = 0;
        if words.lanes() == 1 {
            let reg = self.gpr_of_vector(regs[0], 32);
            return Val::new(words, one(reg));
        }
        Val::new(words, regs)
    }

    /// Returns the mask of 32-bit lanes whose top bits are set.
    pub(crate) fn mask_of_words(&mut self, words: Type, regs: &[VReg]) -> Regs {
        if words.lanes() == 1 {
            return one(self.g2i(Op::Shr, Width::W32, regs[0], 31));
        }
        let lanes = words.lanes() / self.register_count(words);
        let pieces: Regs = regs.iter().map(|&reg| self.signs(32, lanes, reg)).collect();
        let ty = Type::vector(Kind::Pred, words.lanes()).expect("the lanes of a type");
        self.joined(ty, lanes, &pieces)
    }

    /// Returns the lanes of one or two vectors that the indices name.
    fn permuted(&mut self, ty: Type, sources: &[Val], index: &Val) -> Regs {
        let bits = ty.lane_bits();
        if !self.has_masks() {
            return self.permuted_in_memory(ty, sources, index);
        }
        // There are no permutations of bytes without VBMI.
        if bits == 8 && !self.features.contains(Features::VBMI) {
            return self.permuted_words(ty, sources, index);
        }
        let whole: Val = match sources {
            [one] => one.clone(),
            [low, high] => {
                let ty = Type::vector(ty.kind(), 2 * ty.lanes());
                match ty {
                    Some(ty) => Val::new(ty, self.join_of(low, high, ty)),
                    // Two vectors of 64 lanes fill registers.
                    None => {
                        let mut regs = self.regs_of(low);
                        regs.extend(self.regs_of(high));
                        Val::new(low.ty, regs)
                    }
                }
            }
            _ => return Regs::new(),
        };
        let table = match whole.is_scalar() {
            true => one(self.scalar_register(&whole)),
            false => self.regs_of(&whole),
        };
        let entries = (ty.lanes() as usize * sources.len()) as u32;
        let chunk = ty.lanes().min(self.width / bits.max(32)).max(1);
        // Indices have 32 bits, and the elements may be narrower.
        let pieces: Regs = (0..ty.lanes() / chunk)
            .map(|number| {
                let piece = self.piece(index, chunk, number);
                let piece = self.reg(&piece);
                self.resized(piece, 32, bits, false, chunk)
            })
            .collect();
        let vector = Type::vector(bits_kind(bits), ty.lanes()).expect("the lanes of a type");
        let joined = match ty.lanes() {
            1 => pieces,
            _ => self.joined(vector, chunk, &pieces),
        };
        let regs: Regs = joined
            .iter()
            .map(|&index| self.looked_up(bits, entries, &table, index))
            .collect();
        match ty.lanes() {
            1 => self.joined(ty, 1, &regs),
            _ => regs,
        }
    }

    /// Returns the vector register that contains a scalar.
    fn scalar_register(&mut self, val: &Val) -> VReg {
        let piece = self.piece(val, 1, 0);
        self.reg(&piece)
    }

    /// Permutes bytes as 16-bit lanes.
    fn permuted_words(&mut self, ty: Type, sources: &[Val], index: &Val) -> Regs {
        let words = Type::vector(Kind::B16, ty.lanes()).expect("the lanes of a type");
        let chunk = ty.lanes().min(self.width / 16);
        let wide: SmallVec<[Val; 2]> = sources
            .iter()
            .map(|val| {
                let pieces: Regs = (0..ty.lanes() / chunk)
                    .map(|number| {
                        let piece = self.piece(val, chunk, number);
                        let piece = self.reg(&piece);
                        self.resized(piece, 8, 16, false, chunk)
                    })
                    .collect();
                match ty.lanes() {
                    1 => {
                        let regs = self.joined(words, 1, &pieces);
                        Val::new(words, regs)
                    }
                    _ => Val::new(words, pieces),
                }
            })
            .collect();
        let regs = self.permuted(words, &wide, index);
        let permuted = Val::new(words, regs);
        let pieces: Regs = (0..ty.lanes() / chunk)
            .map(|number| {
                let piece = self.piece(&permuted, chunk, number);
                let piece = self.reg(&piece);
                self.resized(piece, 16, 8, false, chunk)
            })
            .collect();
        self.joined(ty, chunk, &pieces)
    }

    /// Returns the elements of a table of `entries` elements that the indices name, modulo the number of entries.
    fn looked_up(&mut self, bits: u32, entries: u32, table: &[VReg], index: VReg) -> VReg {
        let len = self.widest();
        let per = self.width / bits;
        match table {
            [single] => {
                let index = match entries < per {
                    true => {
                        let low = self.splat_constant(u64::from(entries - 1), bits);
                        self.v2(Op::Vpandd, len, index, low)
                    }
                    false => index,
                };
                let op = for_width(&[Op::Vpermb, Op::Vpermw, Op::Vpermd, Op::Vpermq], bits);
                self.v2(op, len, index, *single)
            }
            [low, high] => {
                let op = for_width(
                    &[Op::Vpermi2b, Op::Vpermi2w, Op::Vpermi2d, Op::Vpermi2q],
                    bits,
                );
                self.v3(op, len, index, *low, *high, None)
            }
            _ => {
                let (low, high) = table.split_at(table.len() / 2);
                let low = self.looked_up(bits, entries / 2, low, index);
                let high = self.looked_up(bits, entries / 2, high, index);
                let bit = self.splat_constant(u64::from(entries / 2), bits);
                let lanes = per;
                let upper = self.test(bits, lanes, index, bit);
                self.select_lanes(upper, bits, lanes, high, low)
            }
        }
    }

    /// Permutes lanes one by one, in memory.
    fn permuted_in_memory(&mut self, ty: Type, sources: &[Val], index: &Val) -> Regs {
        let (lanes, bytes) = (ty.lanes(), ty.lane_bytes());
        let indices = 0;
        let table = 4 * lanes.max(16);
        let size = bytes * lanes;
        let results = table + size * sources.len() as u32;
        self.spill_value(index, indices);
        for (number, source) in (0..).zip(sources) {
            self.spill_value(source, table + number * size);
        }
        self.reserve((results + size).next_multiple_of(64));
        let all = self.imm(u64::MAX >> (64 - lanes));
        let body = self.lane_loop(all);
        let index_lane = if index.is_scalar() {
            self.imm(0)
        } else {
            body.lane
        };
        let at = self.lane_address(indices, 4, index_lane);
        let from = self.load_general(32, Mem::at(at, 0));
        let entries = i64::from(lanes) * sources.len() as i64;
        let from = self.g2i(Op::And, Width::W32, from, entries - 1);
        let at = self.lane_address(table, bytes, from);
        let word = self.load_general(8 * bytes, Mem::at(at, 0));
        let to = self.lane_address(results, bytes, body.lane);
        self.effect(Self::general_store(8 * bytes, word, Mem::at(to, 0)));
        self.end_loop(body.label, body.rest, body.exit);
        self.reload_value(ty, results)
    }

    /// Permutes lanes of 128 bits as pairs of lanes of 64 bits, in memory.
    fn wide_permute(&mut self, ty: Type, sources: &[Val], index: &Val) {
        let lanes = ty.lanes();
        let entries = lanes * sources.len() as u32;
        let start = 0;
        for (number, source) in (0..).zip(sources) {
            self.spill_value(source, start + number * 16 * lanes);
        }
        let results = 16 * entries;
        for lane in 0..lanes {
            let index = self.index_lane(index, lane);
            let index = self.g2i(Op::And, Width::W32, index, i64::from(entries) - 1);
            let offset = self.g2i(Op::Shl, Width::W64, index, 4);
            let base = self.address_of(Mem::at(Base::Scratch, 0));
            let mut inst = Inst::of(Action::Op(Op::Vmovdqu64), Width::L128);
            inst.mem = Selector::indexed(base, offset, 1, 0);
            let moved = self.result(RegClass::Float, inst);
            self.store_vector(
                Op::Vmovdqu64Store,
                Width::L128,
                moved,
                Mem::at(Base::Scratch, (results + 16 * lane) as i32),
            );
        }
        self.reserve(results + 16 * lanes);
        let regs = self.reload_value(ty, results);
        self.define(0, regs);
    }

    /// Returns a lane of indices in a general register.
    fn index_lane(&mut self, index: &Val, lane: u32) -> VReg {
        match (index.bits, index.is_scalar()) {
            (Some(bits), _) => self.imm(bits),
            (None, true) => index.regs[0],
            (None, false) => self.lane_of(index, lane)[0],
        }
    }
}
