//! Sync points that a whole warp completes in vector registers, without the host. All 32 lanes are active, so all lanes
//! have arrived at the sync point.
//!
//! Member masks that are not constant are compared at run time. Generated code recognises two
//! cases: the mask contains all lanes, or the mask of each lane consists of the tile of 16, 8 or 4
//! neighbouring lanes to which the lane belongs, as in cooperative groups. In all other cases, the
//! host completes the collective.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, StackSlotData, StackSlotKind, types};
use margay_ir::entity::{Inst, Value};
use margay_ir::function::InstData;
use margay_ops::meaning::warp::{is_shuffle_of_width, shuffle_source};
use margay_ops::mods::{AtomOp, Mode};
use margay_ops::ops::Opcode;
use margay_ops::types::Kind;

use super::{Lanes, Slice};
use crate::abi::Helpers;
use crate::emit::lane::{EmitError, host};

/// The member mask of all lanes of a warp.
const EVERYBODY: u64 = 0xffff_ffff;
/// Numbers of lanes of the tiles that generated code recognises in member masks.
const TILES: [u32; 4] = [32, 16, 8, 4];

/// The condition under which the 32 lanes at a sync point continue without the host.
pub(super) enum Pass {
    Always,
    /// The lanes continue without the host if this value is nonzero.
    If(ir::Value),
}

/// Returns the mask of the tile of `size` lanes that contains a lane.
fn tile_of(lane: u32, size: u32) -> u32 {
    (u32::MAX >> (32 - size)) << (lane / size * size)
}

/// Returns the number of lanes in each segment of a shuffle with the operand `c`, or `None` if this number is not 4, 8,
/// 16 or 32.
fn segment(c: u32) -> Option<u32> {
    let size = 32 - (c >> 8 & 31);
    TILES.contains(&size).then_some(size)
}

impl Slice<'_, '_> {
    /// Returns the condition under which a sync point is completed in registers, if all 32 lanes wait there. Returns
    /// `None` if the host must always complete the sync point.
    pub(super) fn passing(
        &mut self,
        inst: Inst,
        data: &InstData,
    ) -> Result<Option<Pass>, EmitError> {
        let function = self.lane.function;
        let args = function.dfg.args(inst).to_vec();
        let constant = |index: usize| {
            let value = args.get(index);
            value.and_then(|&value| function.dfg.constant(value))
        };
        let watched = self.lane.request.watches();
        let (mask, sizes): (usize, &[u32]) = match (data.opcode, args.len()) {
            (Opcode::BarWarp, _) => (0, &TILES),
            (Opcode::ActiveMask, _) => return Ok(Some(Pass::Always)),
            (Opcode::Vote, 2) if is_plain_vote(data) => (1, &TILES),
            (Opcode::Redux, 2) if is_word_reduction(data) => (1, &TILES[..1]),
            (Opcode::Shfl, 4) => {
                let ty = function.dfg.ty(args[0]);
                let (Some(c), 4) = (constant(2), ty.lane_bytes()) else {
                    return Ok(None);
                };
                let Some(size) = segment(c as u32) else {
                    return Ok(None);
                };
                // The host reports other widths to checking tools.
                if watched && !is_shuffle_of_width(c as u32) {
                    return Ok(None);
                }
                // Whether each lane reads from a lane of its own segment.
                let inside = match constant(1) {
                    None if !is_any_index(data, c as u32) => return Ok(None),
                    None => true,
                    Some(distance) => (0..32).all(|lane| {
                        let mode = data.mods.mode();
                        shuffle_source(mode, lane, distance as u32, c as u32).0 / size
                            == lane / size
                    }),
                };
                if ty.kind() == Kind::Pred {
                    return Ok(None);
                }
                let smallest = if inside { size } else { 32 };
                let count = TILES.iter().filter(|&&tile| tile >= smallest).count();
                (3, &TILES[..count])
            }
            _ => return Ok(None),
        };
        // This code reports only synchronisation of whole warps to checking tools, so smaller tiles are left to the
        // host.
        let sizes = if watched { &TILES[..1] } else { sizes };
        if let Some(bits) = constant(mask) {
            let all = bits & EVERYBODY == EVERYBODY;
            return Ok(all.then_some(Pass::Always));
        }
        if let Some(known) = self.known.get(&args[mask]) {
            let named =
                |size| move |lane: usize| u64::from(tile_of(lane as u32, size)) == known[lane];
            let tiles = sizes.iter().any(|&size| (0..32).all(named(size)));
            return Ok(tiles.then_some(Pass::Always));
        }
        if self.is_uniform(args[mask]) {
            let mask = self.lane.get(args[mask]);
            let all = self.lane.b.ins().icmp_imm_s(IntCC::Equal, mask, -1);
            return Ok(Some(Pass::If(all)));
        }
        let masks = self.get(args[mask])?;
        let mut any = None;
        for &size in sizes {
            let these = self.are_tiles(&masks, size);
            any = Some(match any {
                None => these,
                Some(others) => self.lane.b.ins().bor(others, these),
            });
        }
        Ok(any.map(Pass::If))
    }

    /// Emits the test whether the mask of each lane is the tile of `size` lanes that contains the lane.
    fn are_tiles(&mut self, masks: &Lanes, size: u32) -> ir::Value {
        let mut all = None;
        for (i, &four) in masks.iter().enumerate() {
            let wanted = tile_of(4 * i as u32, size);
            let wanted = self.constant(types::I32X4, u64::from(wanted));
            let equal = self.lane.b.ins().icmp(IntCC::Equal, four, wanted);
            all = Some(match all {
                None => equal,
                Some(others) => self.lane.b.ins().band(others, equal),
            });
        }
        let all = all.unwrap_or_else(|| self.constant(types::I32X4, u64::MAX));
        self.lane.b.ins().vall_true(all)
    }

    /// Emits the computation of a sync point's results in registers.
    pub(super) fn complete(&mut self, inst: Inst, data: &InstData) -> Result<(), EmitError> {
        if self.lane.request.order && data.opcode != Opcode::ActiveMask {
            let warp = self.lane.b.ins().ushr_imm_u(self.lane.here.thread, 5);
            let args = [self.lane.fixed.ctx, warp];
            let offset = offset_of!(Helpers, synchronised);
            self.lane.helper("synchronised", offset, &args, None);
        }
        match data.opcode {
            Opcode::Shfl => self.shuffle(inst, data),
            Opcode::Vote => self.vote(inst, data),
            Opcode::Redux => self.reduction(inst, data),
            Opcode::ActiveMask => {
                let all = self.lane.b.ins().iconst(types::I32, -1);
                self.give_all(inst, all)
            }
            _ => Ok(()),
        }
    }

    fn stack(&mut self, bytes: u32) -> ir::Value {
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 4);
        let slot = self.lane.b.create_sized_stack_slot(data);
        self.lane.b.ins().stack_addr(types::I64, slot, 0)
    }

    /// Emits `shfl` with a constant `c` operand. If the operand `b` (the distance or index) is also constant, the
    /// source lane of each lane is known at compile time.
    fn shuffle(&mut self, inst: Inst, data: &InstData) -> Result<(), EmitError> {
        let function = self.lane.function;
        let args = function.dfg.args(inst).to_vec();
        let results = function.dfg.results(inst).to_vec();
        let constant = |index: usize| function.dfg.constant(args[index]).map(|bits| bits as u32);
        let clamps = constant(2).unwrap_or_default();
        let Some(distance) = constant(1) else {
            return self.indexed_shuffle(&args, &results, segment(clamps).unwrap_or(32));
        };
        let sources: Vec<(u32, bool)> = (0..32)
            .map(|lane| shuffle_source(data.mods.mode(), lane, distance, clamps))
            .collect();
        let lanes = self.get(args[0])?;
        let ty = self.lane.b.func.dfg.value_type(lanes[0]);
        let words = self.cast(&lanes, types::I32X4);
        let moved: Lanes = sources
            .chunks(4)
            .map(|four| {
                let from: Vec<u32> = four.iter().map(|&(from, _)| from).collect();
                self.picked(&words, &from)
            })
            .collect();
        let moved = self.cast(&moved, ty);
        if let Some(&value) = results.first() {
            self.set(value, &moved)?;
        }
        if let Some(&value) = results.get(1) {
            let mask: Lanes = sources
                .chunks(4)
                .map(|four| {
                    let data: Vec<u8> = four
                        .iter()
                        .flat_map(|&(_, inside)| [if inside { 0xff } else { 0 }; 4])
                        .collect();
                    self.vector_constant(types::I32X4, &data)
                })
                .collect();
            self.set(value, &mask)?;
        }
        Ok(())
    }

    /// Returns a vector of the four lanes of a value that have the indices `from`.
    fn picked(&mut self, lanes: &Lanes, from: &[u32]) -> ir::Value {
        let first = from[0] / 4;
        if from
            .iter()
            .enumerate()
            .all(|(i, &lane)| lane == 4 * first + i as u32)
        {
            return lanes[first as usize];
        }
        let second = from.iter().map(|lane| lane / 4).find(|&v| v != first);
        let second = second.unwrap_or(first);
        if from
            .iter()
            .all(|lane| [first, second].contains(&(lane / 4)))
        {
            let at = |lane: u32| {
                let base = if lane / 4 == first { 0 } else { 16 };
                base + lane as u8 % 4 * 4
            };
            let begins = std::array::from_fn(|i| at(from[i]));
            let (a, b) = (lanes[first as usize], lanes[second as usize]);
            return self.joined(a, b, begins, types::I32X4);
        }
        let scalars: Vec<ir::Value> = from
            .iter()
            .map(|&lane| self.extract(lanes, Kind::B32, lane))
            .collect();
        self.gathered(&scalars, types::I32X4)[0]
    }

    /// Emits `shfl.idx` within segments: stores all lanes to memory, and loads each lane's source.
    fn indexed_shuffle(
        &mut self,
        args: &[Value],
        results: &[Value],
        size: u32,
    ) -> Result<(), EmitError> {
        let lanes = self.get(args[0])?;
        let ty = self.lane.b.func.dfg.value_type(lanes[0]);
        let cells = self.stack(128);
        for (i, &vector) in lanes.iter().enumerate() {
            self.lane
                .b
                .ins()
                .store(host(), vector, cells, 16 * i as i32);
        }
        let read = |s: &mut Self, index: ir::Value, lane: u32| {
            let b = &mut *s.lane.b;
            let index = b.ins().band_imm_u(index, i64::from(size - 1));
            let index = b.ins().uextend(types::I64, index);
            let offset = b.ins().ishl_imm_u(index, 2);
            let at = b.ins().iadd(cells, offset);
            let first = lane / size * size;
            b.ins().load(ty.lane_type(), host(), at, 4 * first as i32)
        };
        let moved = if self.is_uniform(args[1]) {
            let index = self.lane.get(args[1]);
            let mut splat = None;
            (0..self.count(ty) as u32)
                .map(|i| match splat {
                    Some(known) if !(4 * i).is_multiple_of(size) => known,
                    _ => {
                        let word = read(self, index, 4 * i);
                        *splat.insert(self.lane.b.ins().splat(ty, word))
                    }
                })
                .collect()
        } else {
            let indices = self.get(args[1])?;
            let scalars: Vec<ir::Value> = (0..32)
                .map(|lane| {
                    let index = self.extract(&indices, Kind::B32, lane);
                    read(self, index, lane)
                })
                .collect();
            self.gathered(&scalars, ty)
        };
        if let Some(&value) = results.first() {
            self.set(value, &moved)?;
        }
        if let Some(&value) = results.get(1) {
            // The source is always a lane of the same segment, so the second result is true in all lanes.
            let all = self.all_lanes();
            self.set(value, &all)?;
        }
        Ok(())
    }

    fn vote(&mut self, inst: Inst, data: &InstData) -> Result<(), EmitError> {
        let function = self.lane.function;
        let (args, results) = (function.dfg.args(inst), function.dfg.results(inst));
        let (&[arg, mask], &[result]) = (args, results) else {
            return Ok(());
        };
        let lanes = self.get(arg)?;
        let bits = self.bits(&lanes);
        if !self.is_uniform(mask) {
            return self.vote_of_tiles(bits, mask, result, data);
        }
        let b = &mut *self.lane.b;
        let scalar = match data.mods.mode() {
            Mode::Ballot => bits,
            Mode::Any => b.ins().icmp_imm_s(IntCC::NotEqual, bits, 0),
            Mode::All => b.ins().icmp_imm_s(IntCC::Equal, bits, -1),
            _ => {
                let all = b.ins().icmp_imm_s(IntCC::Equal, bits, -1);
                let none = b.ins().icmp_imm_s(IntCC::Equal, bits, 0);
                b.ins().bor(all, none)
            }
        };
        self.give_all(inst, scalar)
    }

    /// Sets the result of the sync point `inst` to `scalar` in all lanes.
    fn give_all(&mut self, inst: Inst, scalar: ir::Value) -> Result<(), EmitError> {
        let function = self.lane.function;
        let &[result] = function.dfg.results(inst) else {
            return Ok(());
        };
        if self.view.uniformity.class(result).is_uniform() {
            self.lane.set(result, scalar);
            return Ok(());
        }
        let wide = self.widened(scalar, function.dfg.ty(result).kind());
        let lanes = self.splat_word(wide);
        self.set(result, &lanes)
    }

    /// Emits code that applies the reduction operation to two words, or to the elements of two
    /// vectors of words.
    fn reduced(&mut self, data: &InstData, x: ir::Value, y: ir::Value) -> ir::Value {
        let (b, signed) = (&mut *self.lane.b, data.ty.is_signed());
        match data.mods.atom_op() {
            AtomOp::Add => b.ins().iadd(x, y),
            AtomOp::And => b.ins().band(x, y),
            AtomOp::Or => b.ins().bor(x, y),
            AtomOp::Xor => b.ins().bxor(x, y),
            AtomOp::Min if signed => b.ins().smin(x, y),
            AtomOp::Min => b.ins().umin(x, y),
            _ if signed => b.ins().smax(x, y),
            _ => b.ins().umax(x, y),
        }
    }

    /// Emits `redux` of words. The code reduces all vectors to one vector, and then the lanes of
    /// this vector to one word.
    fn reduction(&mut self, inst: Inst, data: &InstData) -> Result<(), EmitError> {
        let lanes = self.get(self.lane.function.dfg.args(inst)[0])?;
        let four = lanes.iter().copied();
        let Some(four) = four.reduce(|x, y| self.reduced(data, x, y)) else {
            return Ok(());
        };
        let words: [ir::Value; 4] =
            std::array::from_fn(|lane| self.lane.b.ins().extractlane(four, lane as u8));
        let word = words.into_iter().reduce(|x, y| self.reduced(data, x, y));
        word.map_or(Ok(()), |word| self.give_all(inst, word))
    }

    /// Emits a vote in which the mask of each lane selects the lanes that vote.
    fn vote_of_tiles(
        &mut self,
        bits: ir::Value,
        mask: Value,
        result: Value,
        data: &InstData,
    ) -> Result<(), EmitError> {
        let bits = self.lane.b.ins().splat(types::I32X4, bits);
        let none = self.constant(types::I32X4, 0);
        let masks = self.get(mask)?;
        let b = &mut *self.lane.b;
        let lanes: Lanes = masks
            .iter()
            .map(|&members| {
                let votes = b.ins().band(bits, members);
                match data.mods.mode() {
                    Mode::Ballot => votes,
                    Mode::Any => b.ins().icmp(IntCC::NotEqual, votes, none),
                    Mode::All => b.ins().icmp(IntCC::Equal, votes, members),
                    _ => {
                        let all = b.ins().icmp(IntCC::Equal, votes, members);
                        let no = b.ins().icmp(IntCC::Equal, votes, none);
                        b.ins().bor(all, no)
                    }
                }
            })
            .collect();
        self.set(result, &lanes)
    }
}

/// Returns whether a vote has an explicit member mask and one of the modes `ballot`, `any`, `all`
/// and `uni`.
fn is_plain_vote(data: &InstData) -> bool {
    let modes = [Mode::Ballot, Mode::Any, Mode::All, Mode::Uni];
    !data.mods.flag() && modes.contains(&data.mods.mode())
}

/// Returns whether a `redux` reduces 32-bit integers.
fn is_word_reduction(data: &InstData) -> bool {
    let ops = [
        AtomOp::Add,
        AtomOp::And,
        AtomOp::Or,
        AtomOp::Xor,
        AtomOp::Min,
        AtomOp::Max,
    ];
    data.ty.is_integer() && data.ty.bits() == 32 && ops.contains(&data.mods.atom_op())
}

/// Returns whether a `shfl` selects its source lane by index and can select any lane of the
/// segment.
fn is_any_index(data: &InstData, c: u32) -> bool {
    data.mods.mode() == Mode::Idx && c & 31 == 31
}
