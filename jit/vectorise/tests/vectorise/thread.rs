//! Runs a thread of a kernel by the reference functions of the IR. It is the independent source of expected results.

use margay_ir::entity::{Entity, Value};
use margay_ir::function::{Function, payload_sreg};
use margay_ops::meaning::{Bits, Meaning, mask, sign_extend};
use margay_ops::mods::StateSpace;
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;

use crate::launch::{Launch, Memory};

/// A thread: its CTA and its coordinates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread {
    pub(crate) ctaid: [u32; 3],
    pub(crate) tid: [u32; 3],
    pub(crate) linear: u32,
}

/// How a thread ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Exit,
    Trap,
    Fault,
}

/// Runs one thread to its end.
pub(crate) fn run(
    function: &Function,
    launch: &Launch,
    thread: Thread,
    memory: &mut Memory,
) -> End {
    let dfg = &function.dfg;
    let mut values: Vec<Bits> = vec![0; dfg.values.len()];
    let mut block = function.entry();
    for _ in 0..100_000 {
        let mut next = None;
        for &inst in function.insts(block) {
            let data = &dfg.insts[inst];
            let args: Vec<Bits> = dfg.args(inst).iter().map(|v| values[v.index()]).collect();
            let mut out: [Bits; 4] = [0; 4];
            match data.opcode {
                Opcode::Exit | Opcode::Ret => return End::Exit,
                Opcode::Trap => return End::Trap,
                Opcode::Jump => next = Some(0),
                Opcode::Brif => next = Some(usize::from(args[0] & 1 == 0)),
                Opcode::BrTable => {
                    let count = dfg.targets(inst).len();
                    let index = args[0] as usize + 1;
                    next = Some(if index < count { index } else { 0 });
                }
                Opcode::Const => out[0] = Bits::from(data.payload()),
                Opcode::ParamAddr => out[0] = Bits::from(launch.params() + data.payload()),
                Opcode::SReg => out[0] = register(launch, thread, data.payload()),
                Opcode::Ld | Opcode::St => {
                    let is_load = data.opcode == Opcode::Ld;
                    let base = match data.mods.space() {
                        StateSpace::Shared => launch.shared() + (args[0] as u64 & 0xffff_ffff),
                        _ => args[0] as u64,
                    };
                    let bytes = data.ty.bits() / 8;
                    let count = if is_load {
                        dfg.results(inst).len()
                    } else {
                        args.len() - 1
                    };
                    for index in 0..count {
                        let address = base + u64::from(bytes) * index as u64;
                        if is_load {
                            let Some(bits) = memory.read(address, bytes) else {
                                return End::Fault;
                            };
                            let to = dfg.ty(dfg.results(inst)[index]).lane_bits();
                            out[index] = match data.ty.is_signed() {
                                true => sign_extend(bits, 8 * bytes) as Bits & mask(to),
                                false => bits,
                            };
                        } else if memory.write(address, bytes, args[index + 1]).is_none() {
                            return End::Fault;
                        }
                    }
                }
                _ => match data.opcode.meaning() {
                    Meaning::Pure(meaning) => {
                        meaning(&data.desc(), &args, &mut out[..dfg.results(inst).len()]);
                    }
                    _ => panic!("{} is not for these tests", data.opcode.name()),
                },
            }
            for (&result, bits) in dfg.results(inst).iter().zip(out) {
                values[result.index()] = bits & mask(dfg.ty(result).lane_bits());
            }
        }
        let call = &function.successors(block)[next.expect("a block ends")];
        let args: Vec<Bits> = call.args.iter().map(|v| values[v.index()]).collect();
        let params: &[Value] = &dfg.blocks[call.block].params;
        for (&param, bits) in params.iter().zip(args) {
            values[param.index()] = bits;
        }
        block = call.block;
    }
    panic!("a thread without end");
}

fn register(launch: &Launch, thread: Thread, payload: u64) -> Bits {
    use SpecialReg as R;
    let lane = thread.linear % 32;
    Bits::from(match payload_sreg(payload).expect("a register") {
        R::TidX => thread.tid[0],
        R::TidY => thread.tid[1],
        R::TidZ => thread.tid[2],
        R::NtidX => launch.block[0],
        R::NtidY => launch.block[1],
        R::NtidZ => launch.block[2],
        R::CtaidX => thread.ctaid[0],
        R::CtaidY => thread.ctaid[1],
        R::CtaidZ => thread.ctaid[2],
        R::NctaidX => launch.grid[0],
        R::NctaidY => launch.grid[1],
        R::NctaidZ => launch.grid[2],
        R::Laneid => lane,
        R::Warpid => thread.linear / 32,
        R::LanemaskEq => 1 << lane,
        R::LanemaskLt => (1 << lane) - 1,
        R::LanemaskLe => (2u64 << lane) as u32 - 1,
        R::LanemaskGe => !((1 << lane) - 1),
        R::LanemaskGt => !((2u64 << lane) as u32).wrapping_sub(1),
        other => panic!("{other:?} is not for these tests"),
    })
}
