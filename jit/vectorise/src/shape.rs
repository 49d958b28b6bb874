//! Kernels for CTAs of one shape.

use margay_ir::analysis::Cfg;
use margay_ir::entity::Inst;
use margay_ir::function::{Function, payload_sreg};
use margay_ir::pass::simplify::become_constant;
use margay_ops::meaning::{Bits, Meaning};
use margay_ops::ops::{Effects, Opcode};
use margay_ops::sreg::SpecialReg;
use margay_ops::types::Kind;
use smallvec::SmallVec;

/// Makes a kernel one for CTAs of `shape`: sets its `.reqntid`, and replaces the reads of the sizes and what is computed from
/// constants by constants. The values of the kernel keep their numbers.
pub fn assume_shape(function: &mut Function, shape: [u32; 3]) {
    if let Some(kernel) = &mut function.kernel {
        kernel.reqntid = Some(shape);
    }
    for block in Cfg::new(function).rpo().to_vec() {
        for index in 0..function.insts(block).len() {
            let inst = function.insts(block)[index];
            if let Some(bits) = known(function, shape, inst) {
                let result = function.dfg.results(inst)[0];
                let kind = function.dfg.ty(result).kind();
                become_constant(function, inst, kind, bits);
            }
        }
    }
}

/// Returns the result of an instruction, if it is known.
fn known(function: &Function, shape: [u32; 3], inst: Inst) -> Option<u64> {
    use SpecialReg as R;
    let data = &function.dfg.insts[inst];
    let &[result] = function.dfg.results(inst) else {
        return None;
    };
    let kind = function.dfg.ty(result).kind();
    if kind == Kind::B128 || data.opcode == Opcode::Const {
        return None;
    }
    if data.opcode == Opcode::SReg {
        let register = payload_sreg(data.payload())?;
        let size = match register {
            R::NtidX => shape[0],
            R::NtidY => shape[1],
            R::NtidZ => shape[2],
            _ => return None,
        };
        return Some(u64::from(size));
    }
    let effects = data.opcode.effects();
    let Meaning::Pure(meaning) = data.opcode.meaning() else {
        return None;
    };
    if !effects.is_pure() || effects.contains(Effects::PAYLOAD) {
        return None;
    }
    let args = function.dfg.args(inst).iter();
    let args: SmallVec<[Bits; 4]> = args
        .map(|&arg| function.dfg.constant(arg).map(Bits::from))
        .collect::<Option<_>>()?;
    let mut results = [0];
    meaning(&data.desc(), &args, &mut results);
    u64::try_from(results[0]).ok()
}
