//! Points that a whole warp passes in registers: all 32 lanes run, so all have arrived.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, StackSlotData, StackSlotKind, types};
use margay_ir::entity::{Inst, Value};
use margay_ir::function::InstData;
use margay_ir::meaning::warp::shuffle_source;
use margay_ir::mods::Mode;
use margay_ir::ops::Opcode;
use margay_ir::types::Kind;

use super::{Lanes, Slice};
use crate::emit::lane::{Unsupported, host};

/// Every lane of a warp is a member.
const EVERYBODY: u64 = 0xffff_ffff;

impl Slice<'_, '_> {
    /// Completes a point at which all 32 lanes stand, if that needs no scheduler; then they go on.
    pub(super) fn passes(&mut self, inst: Inst, data: &InstData) -> Result<bool, Unsupported> {
        let function = self.lane.function;
        let args = function.dfg.args(inst);
        let everybody = |index: usize| {
            args.get(index)
                .and_then(|&value| function.dfg.constant(value))
                .is_some_and(|bits| bits & EVERYBODY == EVERYBODY)
        };
        match data.opcode {
            Opcode::BarWarp => Ok(everybody(0)),
            Opcode::Shfl if args.len() == 4 && everybody(3) => self.shuffle(inst, data),
            Opcode::Vote if args.len() == 2 && everybody(1) => self.vote(inst, data),
            _ => Ok(false),
        }
    }

    fn stack(&mut self, bytes: u32) -> ir::Value {
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 4);
        let slot = self.lane.b.create_sized_stack_slot(data);
        self.lane.b.ins().stack_addr(types::I64, slot, 0)
    }

    /// `shfl` with a constant distance and a constant `c` operand: each lane's source is known.
    fn shuffle(&mut self, inst: Inst, data: &InstData) -> Result<bool, Unsupported> {
        let function = self.lane.function;
        let args = function.dfg.args(inst).to_vec();
        let results = function.dfg.results(inst).to_vec();
        let constant = |index: usize| function.dfg.constant(args[index]).map(|bits| bits as u32);
        let Some(clamps) = constant(2) else {
            return Ok(false);
        };
        if function.dfg.ty(args[0]).lane_bytes() != 4
            || function.dfg.ty(args[0]).kind() == Kind::Pred
        {
            return Ok(false);
        }
        let Some(distance) = constant(1) else {
            return self.indexed_shuffle(&args, &results, data, clamps);
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
        Ok(true)
    }

    /// Four lanes of a value, by their numbers.
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

    /// `shfl.idx` from the same lane for all, and other forms through memory.
    fn indexed_shuffle(
        &mut self,
        args: &[Value],
        results: &[Value],
        data: &InstData,
        clamps: u32,
    ) -> Result<bool, Unsupported> {
        if data.mods.mode() != Mode::Idx || clamps != 0x1f {
            return Ok(false);
        }
        let lanes = self.get(args[0])?;
        let ty = self.lane.b.func.dfg.value_type(lanes[0]);
        let cells = self.stack(128);
        for (i, &vector) in lanes.iter().enumerate() {
            self.lane
                .b
                .ins()
                .store(host(), vector, cells, 16 * i as i32);
        }
        let read = |s: &mut Self, index: ir::Value| {
            let b = &mut *s.lane.b;
            let index = b.ins().band_imm_u(index, 31);
            let index = b.ins().uextend(types::I64, index);
            let offset = b.ins().ishl_imm_u(index, 2);
            let at = b.ins().iadd(cells, offset);
            b.ins().load(ty.lane_type(), host(), at, 0)
        };
        let moved = if self.is_uniform(args[1]) {
            let index = self.lane.get(args[1]);
            let word = read(self, index);
            let splat = self.lane.b.ins().splat(ty, word);
            (0..self.count(ty)).map(|_| splat).collect()
        } else {
            let indices = self.get(args[1])?;
            let scalars: Vec<ir::Value> = (0..32)
                .map(|lane| {
                    let index = self.extract(&indices, Kind::B32, lane);
                    read(self, index)
                })
                .collect();
            self.gathered(&scalars, ty)
        };
        if let Some(&value) = results.first() {
            self.set(value, &moved)?;
        }
        if let Some(&value) = results.get(1) {
            // The source is always a lane of the warp.
            let all = self.all_lanes();
            self.set(value, &all)?;
        }
        Ok(true)
    }

    fn vote(&mut self, inst: Inst, data: &InstData) -> Result<bool, Unsupported> {
        let function = self.lane.function;
        let (arg, results) = (function.dfg.args(inst)[0], function.dfg.results(inst));
        if data.mods.flag() {
            return Ok(false);
        }
        let &[result] = results else {
            return Ok(false);
        };
        let lanes = self.get(arg)?;
        let bits = self.bits(&lanes);
        let b = &mut *self.lane.b;
        let scalar = match data.mods.mode() {
            Mode::Ballot => bits,
            Mode::Any => b.ins().icmp_imm_s(IntCC::NotEqual, bits, 0),
            Mode::All => b.ins().icmp_imm_s(IntCC::Equal, bits, -1),
            Mode::Uni => {
                let all = b.ins().icmp_imm_s(IntCC::Equal, bits, -1);
                let none = b.ins().icmp_imm_s(IntCC::Equal, bits, 0);
                b.ins().bor(all, none)
            }
            _ => return Ok(false),
        };
        if self.view.uniformity.class(result).is_uniform() {
            self.lane.set(result, scalar);
            return Ok(true);
        }
        let wide = self.widened(scalar, function.dfg.ty(result).kind());
        let lanes = self.splat_word(wide);
        self.set(result, &lanes)?;
        Ok(true)
    }
}
