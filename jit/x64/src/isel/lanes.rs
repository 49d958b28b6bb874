//! Operations that move lanes.

use margay_ops::types::{Kind, Type};
use margay_vir::ops::Op as VirOp;
use regalloc2::{RegClass, VReg};
use smallvec::SmallVec;

use super::pieces::Source;
use super::prim::{ADD, for_width, length};
use super::{Regs, Selector, Val, one};
use crate::asm::{Op, Width};
use crate::features::Features;
use crate::mach::{Action, Base, Inst, Mem};

impl Selector<'_> {
    pub(crate) fn splat(&mut self) {
        let (val, ty) = (self.vals()[0].clone(), self.result_types()[0]);
        let regs = self.splat_of(&val, ty);
        self.define(0, regs);
    }

    /// Returns a vector whose lanes are all equal to a scalar.
    pub(crate) fn splat_of(&mut self, val: &Val, ty: Type) -> Regs {
        if ty.lanes() == 1 {
            return self.regs_of(val);
        }
        if ty.kind() == Kind::B128 {
            return self.wide_splat(val, ty);
        }
        let count = self.register_count(ty);
        let lanes = ty.lanes() / count;
        let piece = self.piece(val, lanes, 0);
        let reg = self.reg(&piece);
        (0..count).map(|_| reg).collect()
    }

    /// Returns the number of vector or mask registers of a vector.
    pub(crate) fn register_count(&self, ty: Type) -> u32 {
        match ty.kind() {
            Kind::Pred => 1,
            _ => (ty.lane_bits() * ty.lanes()).div_ceil(self.width),
        }
    }

    fn wide_splat(&mut self, val: &Val, ty: Type) -> Regs {
        let regs = self.regs_of(val);
        let low = self.vector_of_gpr(regs[0], 64);
        let high = self.vector_of_gpr(regs[1], 64);
        let lane = self.v2(Op::Vpunpcklqdq, Width::L128, low, high);
        let count = self.register_count(ty);
        let whole = match ty.lanes() * 128 / count {
            128 => lane,
            256 => self.v2i(Op::Vinserti32x4, Width::L256, lane, lane, 1),
            _ => {
                let half = self.v2i(Op::Vinserti32x4, Width::L256, lane, lane, 1);
                self.v2i(Op::Vinserti64x4, Width::L512, half, half, 1)
            }
        };
        (0..count).map(|_| whole).collect()
    }

    pub(crate) fn affine(&mut self, stride: u64) {
        let (val, ty) = (self.vals()[0].clone(), self.result_types()[0]);
        let bits = ty.lane_bits();
        if ty.lanes() == 1 {
            let regs = self.regs_of(&val);
            return self.define(0, regs);
        }
        let count = self.register_count(ty);
        let lanes = ty.lanes() / count;
        let base = self.piece(&val, lanes, 0);
        let base = self.reg(&base);
        let filled = lanes.max(128 / bits);
        let regs = (0..count)
            .map(|number| {
                let first = u64::from(number * lanes);
                let steps = (0..u64::from(filled)).map(|n| stride.wrapping_mul(first + n));
                let steps = self.vector_constant(bits, steps);
                self.by_width(&ADD, bits, lanes, base, steps)
            })
            .collect();
        self.define(0, regs);
    }

    pub(crate) fn extract(&mut self, lane: u32) {
        let val = self.vals()[0].clone();
        let ty = val.ty;
        if ty.lanes() == 1 || val.bits.is_some() {
            let scalar = Val {
                ty: Type::scalar(ty.kind()),
                ..val
            };
            let regs = self.regs_of(&scalar);
            return self.define(0, regs);
        }
        let regs = self.lane_of(&val, lane);
        self.define(0, regs);
    }

    /// Returns a lane of a vector as a scalar.
    pub(crate) fn lane_of(&mut self, val: &Val, lane: u32) -> Regs {
        let ty = val.ty;
        match ty.kind() {
            Kind::Pred => {
                let bits = self.gpr_of_mask(val.regs[0]);
                let moved = match lane {
                    0 => bits,
                    _ => self.g2i(Op::Shr, Width::W64, bits, lane.into()),
                };
                one(self.g2i(Op::And, Width::W32, moved, 1))
            }
            Kind::B128 => {
                let part = self.part(&val.regs, 128, lane);
                let low = self.gpr_of_vector(part, 64);
                let high = self.v1i(Op::Vpshufd, Width::L128, part, 0b1110);
                let high = self.gpr_of_vector(high, 64);
                [low, high].into_iter().collect()
            }
            Kind::F32 | Kind::F64 => one(self.part(&val.regs, ty.lane_bits(), lane)),
            _ => {
                let part = self.part(&val.regs, ty.lane_bits(), lane);
                one(self.gpr_of_vector(part, ty.lane_bits()))
            }
        }
    }

    pub(crate) fn insert(&mut self, lane: u32) {
        let vals = self.vals();
        let ty = vals[0].ty;
        if ty.lanes() == 1 {
            let regs = self.regs_of(&vals[1]);
            return self.define(0, regs);
        }
        let mut regs = self.regs_of(&vals[0]);
        match ty.kind() {
            Kind::Pred => {
                let bits = self.gpr_of_mask(regs[0]);
                let others = self.g2i(Op::Btr, Width::W64, bits, lane.into());
                let new = self.gpr(&vals[1]);
                let new = match lane {
                    0 => new,
                    _ => self.g2i(Op::Shl, Width::W64, new, lane.into()),
                };
                let whole = self.g2(Op::Or, Width::W64, others, new);
                regs[0] = self.mask_of_gpr(whole);
            }
            Kind::B128 => {
                let parts = self.regs_of(&vals[1]);
                for (half, part) in (0..).zip(parts) {
                    self.insert_lane(&mut regs, 64, 2 * lane + half, part);
                }
            }
            kind => {
                let new = self.regs_of(&vals[1])[0];
                self.insert_lane(&mut regs, kind.bits(), lane, new);
            }
        }
        self.define(0, regs);
    }

    /// Replaces a lane of registers by the scalar in a general or a vector register.
    fn insert_lane(&mut self, regs: &mut Regs, bits: u32, lane: u32, new: VReg) {
        let per = self.width / bits;
        let (number, lane) = ((lane / per) as usize, lane % per);
        if !self.has_masks() {
            let scalar = Type::scalar(match new.class() {
                RegClass::Int => bits_kind(bits),
                _ if bits == 32 => Kind::F32,
                _ => Kind::F64,
            });
            let all = self.avx2_broadcast(&Val::new(scalar, one(new)));
            let own = (0..u64::from(per)).map(|n| if n == u64::from(lane) { u64::MAX } else { 0 });
            let own = self.vector_constant(bits, own);
            self.mask_widths.insert(own, bits);
            regs[number] = self.avx2_select(own, bits, per, all, regs[number]);
            return;
        }
        let op = match (new.class(), bits) {
            (RegClass::Int, 8) => Op::VpbroadcastbFromGpr,
            (RegClass::Int, 16) => Op::VpbroadcastwFromGpr,
            (RegClass::Int, 32) => Op::VpbroadcastdFromGpr,
            (RegClass::Int, _) => Op::VpbroadcastqFromGpr,
            (_, 32) => Op::Vpbroadcastd,
            _ => Op::Vpbroadcastq,
        };
        let mask = self.mask_constant(1 << lane);
        let len = self.widest();
        regs[number] = self.masked1(op, len, mask, Some(regs[number]), new);
    }

    pub(crate) fn half(&mut self, number: u32) {
        let (val, ty) = (self.vals()[0].clone(), self.result_types()[0]);
        let half = self.half_of(&val, ty, number);
        let regs = self.regs_of(&half);
        self.define(0, regs);
    }

    /// Returns the lower or the upper half of a vector; `ty` is the type of the half.
    pub(crate) fn half_of(&mut self, val: &Val, ty: Type, number: u32) -> Val {
        if val.bits.is_some() {
            return Val { ty, ..val.clone() };
        }
        if ty.lanes() == 1 {
            return Val::new(ty, self.lane_of(val, number));
        }
        if ty.kind() == Kind::Pred {
            let lanes = ty.lanes();
            let part = self.mask_part(val.regs[0], 2 * lanes, lanes, number);
            let mask = match number {
                1 => part,
                // The bits beyond the lanes must be zero.
                _ => {
                    let known = self.mask_constant(u64::MAX >> (64 - lanes));
                    self.mask_and(part, known)
                }
            };
            return Val::new(ty, one(mask));
        }
        let bits = ty.lane_bits() * ty.lanes();
        let regs = match bits >= self.width {
            true => {
                let half = val.regs.len() / 2;
                val.regs[half * number as usize..][..half].into()
            }
            false => one(self.part(&val.regs, bits, number)),
        };
        Val::new(ty, regs)
    }

    pub(crate) fn join(&mut self) {
        let (vals, ty) = (self.vals(), self.result_types()[0]);
        let regs = self.join_of(&vals[0], &vals[1], ty);
        self.define(0, regs);
    }

    fn join_of(&mut self, low: &Val, high: &Val, ty: Type) -> Regs {
        let lanes = ty.lanes() / 2;
        if low.ty.kind() == Kind::B128 {
            return self.wide_join(low, high, ty);
        }
        let bits = ty.lane_bits();
        if lanes * bits >= self.width && ty.kind() != Kind::Pred {
            let (low, high) = (self.regs_of(low), self.regs_of(high));
            return low.into_iter().chain(high).collect();
        }
        let pieces = [low, high].map(|val| {
            let piece = self.piece(val, lanes, 0);
            self.reg(&piece)
        });
        self.joined(ty, lanes, &pieces)
    }

    fn wide_join(&mut self, low: &Val, high: &Val, ty: Type) -> Regs {
        let lanes = ty.lanes() / 2;
        let mut both = [low, high].map(|val| self.regs_of(val));
        if lanes == 1 {
            for regs in &mut both {
                let ends = [0, 1].map(|n| self.vector_of_gpr(regs[n], 64));
                *regs = one(self.v2(Op::Vpunpcklqdq, Width::L128, ends[0], ends[1]));
            }
        }
        let [low, high] = both;
        if lanes * 128 >= self.width {
            return low.into_iter().chain(high).collect();
        }
        self.joined(ty, lanes, &[low[0], high[0]])
    }

    pub(crate) fn permute(&mut self) {
        let (vals, ty) = (self.vals(), self.result_types()[0]);
        let (index, sources) = vals.split_last().expect("permute has indices");
        if ty.lanes() == 1 && sources.len() == 1 {
            let regs = self.regs_of(&sources[0]);
            return self.define(0, regs);
        }
        if ty.kind() == Kind::Pred {
            let words = Type::vector(Kind::B32, ty.lanes()).expect("the lanes of a type");
            let sources: SmallVec<[Val; 2]> = sources.iter().map(|val| self.words_of_mask(val, words)).collect();
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
                let op = for_width(&[Op::Vpermi2b, Op::Vpermi2w, Op::Vpermi2d, Op::Vpermi2q], bits);
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
        let index_lane = if index.is_scalar() { self.imm(0) } else { body.lane };
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

    /// Compresses or expands lanes one by one, in memory.
    fn moved_in_memory(&mut self, op: VirOp, ty: Type, val: &Val, mask: &Val) -> Regs {
        let bytes = ty.lane_bytes();
        let size = bytes * ty.lanes();
        let (source, result, number) = (0, size, 2 * size);
        self.reserve(number + 8);
        let bits = self.mask_reg(mask);
        match (ty.kind(), val.bits) {
            (Kind::B128, Some(bits)) => {
                let regs = self.wide_constant(ty, bits);
                self.spill_value(&Val::new(ty, regs), source);
            }
            _ => self.spill_value(val, source),
        }
        self.clear(ty, result);
        let zero = self.imm(0);
        let counter = Mem::at(Base::Scratch, number as i32);
        self.effect(Self::general_store(64, zero, counter));
        let body = self.lane_loop(bits);
        let next = self.load_general(64, counter);
        let (from, to) = match op {
            VirOp::Compress => (body.lane, next),
            _ => (next, body.lane),
        };
        let (from, to) = (self.lane_address(source, bytes, from), self.lane_address(result, bytes, to));
        for half in 0..bytes.div_ceil(8) {
            let word = self.load_general((8 * bytes).min(64), Mem::at(from, 8 * half as i32));
            self.effect(Self::general_store((8 * bytes).min(64), word, Mem::at(to, 8 * half as i32)));
        }
        let next = self.g2i(Op::Add, Width::W64, next, 1);
        self.effect(Self::general_store(64, next, counter));
        self.end_loop(body.label, body.rest, body.exit);
        self.reload_value(ty, result)
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
            self.store_vector(Op::Vmovdqu64Store, Width::L128, moved, Mem::at(Base::Scratch, (results + 16 * lane) as i32));
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

    /// Returns the address of a slot.
    pub(crate) fn slot_address(&mut self, number: u32) {
        let address = self.address_of(Mem::at(Base::Slot(number), 0));
        self.define(0, one(address));
    }

    pub(crate) fn compress(&mut self) {
        self.compress_or_expand(VirOp::Compress);
    }

    pub(crate) fn expand(&mut self) {
        self.compress_or_expand(VirOp::Expand);
    }

    fn compress_or_expand(&mut self, op: VirOp) {
        let (vals, ty) = (self.vals(), self.result_types()[0]);
        let regs = match ty.kind() {
            _ if ty.lanes() == 1 => self.kept_if(&vals[0], &vals[1]),
            Kind::Pred if !self.has_masks() => {
                let (val, mask) = (self.mask_reg(&vals[0]), self.mask_reg(&vals[1]));
                let op = if op == VirOp::Compress { Op::Pext } else { Op::Pdep };
                one(self.g3(op, Width::W64, val, mask))
            }
            _ if !self.has_masks() => self.moved_in_memory(op, ty, &vals[0], &vals[1]),
            Kind::Pred => {
                let words = Type::vector(Kind::B32, ty.lanes()).expect("the lanes of a type");
                let val = self.words_of_mask(&vals[0], words);
                let regs = self.moved(op, words, &val, &vals[1]);
                self.mask_of_words(words, &regs)
            }
            Kind::B128 => self.moved_wide(op, ty, &vals[0], &vals[1]),
            _ => self.moved(op, ty, &vals[0], &vals[1]),
        };
        self.define(0, regs);
    }

    /// Returns a scalar if a predicate is true, and zero otherwise.
    fn kept_if(&mut self, val: &Val, pred: &Val) -> Regs {
        let pred = self.gpr(pred);
        let regs = self.regs_of(val);
        regs.into_iter()
            .map(|reg| match reg.class() {
                RegClass::Int => {
                    let all = self.g1(Op::Neg, Width::W64, pred);
                    self.g2(Op::And, Width::W64, all, reg)
                }
                _ => {
                    let wide = match self.has_masks() {
                        true => {
                            let mask = self.mask_of_pred(pred, 1);
                            self.ones_in(mask, 64, 1)
                        }
                        false => self.expanded_pred(pred, 64),
                    };
                    self.v2(Op::Vpandd, Width::L128, wide, reg)
                }
            })
            .collect()
    }

    /// Compresses or expands lanes of 8 to 64 bits: each register separately, through memory if there are several.
    fn moved(&mut self, op: VirOp, ty: Type, val: &Val, mask: &Val) -> Regs {
        let bits = ty.lane_bits();
        let direct = bits >= 32 || self.features.contains(Features::VBMI2);
        let wide = if direct { bits } else { 32 };
        let chunk = ty.lanes().min(self.width / wide);
        let count = ty.lanes() / chunk;
        let ops: [Op; 4] = match op {
            VirOp::Compress => [Op::Vpcompressb, Op::Vpcompressw, Op::Vpcompressd, Op::Vpcompressq],
            _ => [Op::Vpexpandb, Op::Vpexpandw, Op::Vpexpandd, Op::Vpexpandq],
        };
        let op_of = for_width(&ops, wide);
        let len = length(wide, chunk);
        let bytes = wide / 8;
        let size = ty.lanes() * bytes;
        let masks: Regs = (0..count)
            .map(|number| {
                let piece = self.piece(mask, chunk, number);
                self.reg(&piece)
            })
            .collect();
        let sources: Regs = (0..count)
            .map(|number| {
                let piece = self.piece(val, chunk, number);
                let piece = self.reg(&piece);
                self.resized(piece, bits, wide, false, chunk)
            })
            .collect();
        let pieces: Regs = if count == 1 {
            one(self.masked1(op_of, len, masks[0], None, sources[0]))
        } else if op == VirOp::Compress {
            self.compressed_in_memory(op_of, len, size, bytes, &masks, &sources)
        } else {
            self.expanded_from_memory(op_of, len, size, bytes, &masks, &sources)
        };
        if wide == bits {
            return pieces;
        }
        let narrow: Regs = pieces.iter().map(|&reg| self.resized(reg, wide, bits, false, chunk)).collect();
        self.joined(ty, chunk, &narrow)
    }

    /// Returns the offset in bytes behind the lanes of a mask, from the offset before them.
    fn behind(&mut self, offset: Option<VReg>, mask: VReg, lanes: u32, bytes: u32) -> VReg {
        let bits = self.gpr_of_mask(mask);
        let known = match lanes {
            64 => bits,
            _ => {
                let ones = self.imm((1 << lanes) - 1);
                self.g2(Op::And, Width::W64, bits, ones)
            }
        };
        let count = self.g_of(Op::Popcnt, Width::W64, known);
        let size = match bytes {
            1 => count,
            _ => self.g2i(Op::Shl, Width::W64, count, bytes.trailing_zeros().into()),
        };
        match offset {
            None => size,
            Some(offset) => self.g2(Op::Add, Width::W64, offset, size),
        }
    }

    fn compressed_in_memory(&mut self, op: Op, len: Width, size: u32, bytes: u32, masks: &[VReg], sources: &[VReg]) -> Regs {
        let lanes = len.bytes() / bytes;
        // A register that is stored at an offset may end behind the vector.
        self.reserve(size + len.bytes());
        let zero = self.splat_constant(0, 64);
        let step = len.bytes();
        for number in 0..size / step {
            self.store_vector(Op::Vmovdqu64Store, len, zero, Mem::at(Base::Scratch, (number * step) as i32));
        }
        let base = self.address_of(Mem::at(Base::Scratch, 0));
        let mut offset = None;
        for (&mask, &source) in masks.iter().zip(sources) {
            let packed = self.masked1(op, len, mask, None, source);
            let mem = match offset {
                None => Mem::at(Base::Scratch, 0),
                Some(offset) => Selector::indexed(base, offset, 1, 0),
            };
            self.store_vector(Op::Vmovdqu64Store, len, packed, mem);
            offset = Some(self.behind(offset, mask, lanes, bytes));
        }
        (0..size / step)
            .map(|number| self.load_vector(Op::Vmovdqu64, len, Mem::at(Base::Scratch, (number * step) as i32)))
            .collect()
    }

    fn expanded_from_memory(&mut self, op: Op, len: Width, size: u32, bytes: u32, masks: &[VReg], sources: &[VReg]) -> Regs {
        let lanes = len.bytes() / bytes;
        self.reserve(size + len.bytes());
        for (number, &source) in (0..).zip(sources) {
            self.store_vector(Op::Vmovdqu64Store, len, source, Mem::at(Base::Scratch, (number * len.bytes()) as i32));
        }
        let base = self.address_of(Mem::at(Base::Scratch, 0));
        let mut offset = None;
        let mut regs = Regs::new();
        for &mask in masks {
            let mem = match offset {
                None => Mem::at(Base::Scratch, 0),
                Some(offset) => Selector::indexed(base, offset, 1, 0),
            };
            let loaded = self.load_vector(Op::Vmovdqu64, len, mem);
            regs.push(self.masked1(op, len, mask, None, loaded));
            offset = Some(self.behind(offset, mask, lanes, bytes));
        }
        regs
    }

    /// Compresses or expands lanes of 128 bits as pairs of lanes of 64 bits.
    fn moved_wide(&mut self, op: VirOp, ty: Type, val: &Val, mask: &Val) -> Regs {
        // Each bit of the mask becomes two.
        let mask = self.mask_reg(mask);
        let bits = self.gpr_of_mask(mask);
        let spread = self.imm(0x5555_5555_5555_5555);
        let even = self.g3(Op::Pdep, Width::W64, bits, spread);
        let odd = self.g2i(Op::Shl, Width::W64, even, 1);
        let both = self.g2(Op::Or, Width::W64, even, odd);
        if ty.lanes() <= 32 {
            let words = Type::vector(Kind::B64, 2 * ty.lanes()).expect("at most 64 lanes");
            let pairs = Val::new(words, self.regs_of(val));
            let pairs_mask = Val::new(
                Type::vector(Kind::Pred, 2 * ty.lanes()).expect("at most 64 lanes"),
                one(self.mask_of_gpr(both)),
            );
            return self.moved(op, words, &pairs, &pairs_mask);
        }
        let upper = self.g2i(Op::Shr, Width::W64, bits, 32);
        let even = self.g3(Op::Pdep, Width::W64, upper, spread);
        let odd = self.g2i(Op::Shl, Width::W64, even, 1);
        let upper = self.g2(Op::Or, Width::W64, even, odd);
        let lanes = self.width / 64;
        let masks: Regs = [both, upper]
            .into_iter()
            .flat_map(|bits| {
                let whole = self.mask_of_gpr(bits);
                (0..64 / lanes)
                    .map(|number| self.mask_part(whole, 64, lanes, number))
                    .collect::<Regs>()
            })
            .collect();
        let sources = self.regs_of(val);
        let len = self.widest();
        match op {
            VirOp::Compress => self.compressed_in_memory(Op::Vpcompressq, len, 16 * ty.lanes(), 8, &masks, &sources),
            _ => self.expanded_from_memory(Op::Vpexpandq, len, 16 * ty.lanes(), 8, &masks, &sources),
        }
    }

    /// Whether a piece is a constant, for lowerings that fold it.
    #[allow(dead_code, reason = "used by lowerings that fold constants")]
    fn is_constant(source: Source) -> bool {
        matches!(source, Source::Constant(_))
    }
}

/// Returns the integer kind with a number of bits.
pub(crate) fn bits_kind(bits: u32) -> Kind {
    match bits {
        8 => Kind::B8,
        16 => Kind::B16,
        32 => Kind::B32,
        64 => Kind::B64,
        _ => Kind::B128,
    }
}
