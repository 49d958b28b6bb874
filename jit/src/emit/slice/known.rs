//! Lane constants: values that depend on the lane's index only, such as the masks of tiles. If a chunk has 32 lanes, it
//! is a whole warp, so these values are computed at compile time.

use cranelift_codegen::ir::{self, types};
use margay_ir::entity::{Inst, Value};
use margay_ir::function::payload_sreg;
use margay_ops::meaning::{Bits, Meaning};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use margay_ops::types::Kind;

use super::{Lanes, Slice};

/// The value of each lane of a warp.
pub(super) type Known = Box<[u64; 32]>;

fn register(register: SpecialReg) -> Option<Known> {
    let of_lane: fn(u64) -> u64 = match register {
        SpecialReg::Laneid => |lane| lane,
        SpecialReg::LanemaskEq => |lane| 1 << lane,
        SpecialReg::LanemaskLt => |lane| (1 << lane) - 1,
        SpecialReg::LanemaskLe => |lane| (2 << lane) - 1,
        SpecialReg::LanemaskGt => |lane| 0xffff_fffe << lane & 0xffff_ffff,
        SpecialReg::LanemaskGe => |lane| 0xffff_ffff << lane & 0xffff_ffff,
        _ => return None,
    };
    Some(Box::new(std::array::from_fn(|lane| of_lane(lane as u64))))
}

impl Slice<'_, '_> {
    /// Finds the lane constants of the function.
    pub(super) fn find_known(&mut self) {
        if self.view.width != 32 {
            return;
        }
        let function = self.lane.function;
        for &block in &self.view.linear.order {
            for &inst in function.insts(block) {
                if let (&[result], Some(lanes)) = (function.dfg.results(inst), self.tells(inst)) {
                    self.known.insert(result, lanes);
                }
            }
        }
    }

    fn tells(&self, inst: Inst) -> Option<Known> {
        let function = self.lane.function;
        let data = &function.dfg.insts[inst];
        if data.opcode == Opcode::SReg {
            return register(payload_sreg(data.payload())?);
        }
        let (Meaning::Pure(meaning), args) = (data.opcode.meaning(), function.dfg.args(inst))
        else {
            return None;
        };
        if !args.iter().any(|arg| self.known.contains_key(arg)) {
            return None;
        }
        let operand = |arg: &Value, lane: usize| match self.known.get(arg) {
            Some(lanes) => Some(lanes[lane]),
            None => function.dfg.constant(*arg),
        };
        let mut lanes: Known = Box::new([0; 32]);
        for (lane, bits) in lanes.iter_mut().enumerate() {
            let args: Option<Vec<Bits>> = args
                .iter()
                .map(|arg| operand(arg, lane).map(Bits::from))
                .collect();
            let mut out = [0];
            meaning(&data.desc(), &args?, &mut out);
            *bits = out[0] as u64;
        }
        let result = function.dfg.results(inst)[0];
        matches!(
            function.dfg.ty(result).kind(),
            Kind::Pred | Kind::B32 | Kind::B64
        )
        .then_some(lanes)
    }

    /// Returns the lanes of a value as vector constants; `None` if the value is not a lane constant.
    pub(super) fn known_lanes(&mut self, value: Value) -> Option<Lanes> {
        let known = self.known.get(&value)?.clone();
        let kind = self.lane.function.dfg.ty(value).kind();
        let ty: ir::Type = match kind {
            Kind::B64 => types::I64X2,
            _ => types::I32X4,
        };
        let bytes = ty.lane_type().bytes() as usize;
        let data: Vec<u8> = known
            .iter()
            .flat_map(|&bits| {
                let bits = match kind {
                    Kind::Pred => (bits & 1).wrapping_neg(),
                    _ => bits,
                };
                bits.to_le_bytes().into_iter().take(bytes)
            })
            .collect();
        let vectors = data.chunks(16);
        Some(vectors.map(|data| self.vector_constant(ty, data)).collect())
    }
}
