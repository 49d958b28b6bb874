//! Runs a thread of a kernel by the reference functions of the IR. It is the independent source of expected results.

use margay_ir::analysis::slots;
use margay_ir::entity::{Block, Entity, Inst, Value};
use margay_ir::function::{Function, payload_slot, payload_sreg};
use margay_ops::meaning::{Bits, Meaning, mask, sign_extend};
use margay_ops::mods::{Mode, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;

use crate::launch::{LOCAL_BYTES, Launch, Memory};

/// A thread: its CTA and its coordinates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread {
    pub(crate) ctaid: [u32; 3],
    pub(crate) tid: [u32; 3],
    pub(crate) linear: u32,
}

/// Where a thread stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Exit,
    Trap,
    Fault,
    /// At a barrier.
    Barrier,
    /// At a `yield`, if the thread stops there.
    Yield,
}

/// A thread that runs.
pub(crate) struct Running<'a> {
    function: &'a Function,
    thread: Thread,
    values: Vec<Bits>,
    block: Block,
    /// The number of the next instruction of the block.
    next: usize,
    /// Whether the thread stops at `yield`.
    yields: bool,
    /// Whether the thread waits at a barrier.
    pub(crate) is_at_barrier: bool,
}

impl<'a> Running<'a> {
    /// Creates a thread at the start of a kernel.
    pub(crate) fn new(function: &'a Function, thread: Thread) -> Running<'a> {
        Running {
            function,
            thread,
            values: vec![0; function.dfg.values.len()],
            block: function.entry(),
            next: 0,
            yields: false,
            is_at_barrier: false,
        }
    }

    /// Creates a thread that continues at the block `start`, behind a sync point of the given kind, with these values, and
    /// stops at `yield`. The values that `is_made_again` names are computed from them.
    pub(crate) fn resume(
        (function, thread): (&'a Function, Thread),
        (start, sync_point): (Block, Opcode),
        values: impl IntoIterator<Item = (Value, Bits)>,
        is_made_again: impl Fn(Value) -> bool,
        (launch, memory): (&Launch, &mut Memory),
    ) -> Running<'a> {
        let mut running = Running::new(function, thread);
        for (value, bits) in values {
            running.values[value.index()] = bits;
        }
        let insts = function.blocks().iter();
        for &inst in insts.flat_map(|&block| function.insts(block)) {
            let results = function.dfg.results(inst);
            if results.iter().any(|&value| is_made_again(value)) {
                running
                    .step(inst, launch, memory)
                    .expect("the operation is pure");
            }
        }
        running.block = start;
        running.yields = true;
        running.is_at_barrier = sync_point == Opcode::Bar;
        running
    }

    /// Runs the thread to the next barrier or to its end.
    pub(crate) fn run(&mut self, launch: &Launch, memory: &mut Memory) -> End {
        for _ in 0..100_000 {
            let inst = self.function.insts(self.block)[self.next];
            self.next += 1;
            match self.step(inst, launch, memory) {
                Ok(None) => {}
                Ok(Some(target)) => self.go(target),
                Err(end) => return end,
            }
        }
        panic!("a thread without end");
    }

    fn go(&mut self, target: usize) {
        let dfg = &self.function.dfg;
        let call = &self.function.successors(self.block)[target];
        let args: Vec<Bits> = call.args.iter().map(|v| self.values[v.index()]).collect();
        let params: &[Value] = &dfg.blocks[call.block].params;
        for (&param, bits) in params.iter().zip(args) {
            self.values[param.index()] = bits;
        }
        (self.block, self.next) = (call.block, 0);
    }

    /// Executes an instruction. Returns the number of the target of a branch, or why the thread stops.
    fn step(
        &mut self,
        inst: Inst,
        launch: &Launch,
        memory: &mut Memory,
    ) -> Result<Option<usize>, End> {
        let dfg = &self.function.dfg;
        let data = &dfg.insts[inst];
        let args = dfg.args(inst).iter();
        let args: Vec<Bits> = args.map(|v| self.values[v.index()]).collect();
        let mut out: [Bits; 4] = [0; 4];
        match data.opcode {
            Opcode::Exit | Opcode::Ret => return Err(End::Exit),
            Opcode::Trap => return Err(End::Trap),
            Opcode::Bar => return Err(End::Barrier),
            Opcode::Jump => return Ok(Some(0)),
            Opcode::Yield if self.yields => return Err(End::Yield),
            Opcode::Yield => return Ok(None),
            // The threads of these tests do not communicate between barriers.
            Opcode::Converge | Opcode::BarWarp => return Ok(None),
            Opcode::Brif => return Ok(Some(usize::from(args[0] & 1 == 0))),
            Opcode::BrTable => {
                let count = dfg.targets(inst).len();
                let index = args[0] as usize + 1;
                return Ok(Some(if index < count { index } else { 0 }));
            }
            Opcode::Const => out[0] = Bits::from(data.payload()),
            Opcode::LocalAddr => {
                let slots = slots::layout(self.function).0;
                out[0] = slots[payload_slot(data.payload())].into();
            }
            Opcode::Cvta => out[0] = self.generic(inst, args[0], launch),
            Opcode::ParamAddr => out[0] = Bits::from(launch.params() + data.payload()),
            Opcode::SReg => out[0] = register(launch, self.thread, data.payload()),
            Opcode::Ld | Opcode::St => {
                let done = self.access(inst, &args, &mut out, (launch, memory));
                done.ok_or(End::Fault)?;
            }
            Opcode::Atom | Opcode::Red => {
                let address = address(launch, data.mods.space(), args[0]);
                let bytes = data.ty.bits() / 8;
                let old = memory.read(address, bytes).ok_or(End::Fault)?;
                let Meaning::Rmw(meaning) = data.opcode.meaning() else {
                    panic!("an atomic updates memory");
                };
                let new = meaning(&data.desc(), old, &args[1..]);
                memory.write(address, bytes, new).ok_or(End::Fault)?;
                out[0] = old;
            }
            _ => match data.opcode.meaning() {
                Meaning::Pure(meaning) => {
                    meaning(&data.desc(), &args, &mut out[..dfg.results(inst).len()]);
                }
                _ => panic!("{} is not for these tests", data.opcode.name()),
            },
        }
        for (&result, bits) in dfg.results(inst).iter().zip(out) {
            self.values[result.index()] = bits & mask(dfg.ty(result).lane_bits());
        }
        Ok(None)
    }

    /// Returns the result of the conversion of an address in local memory to a generic address.
    fn generic(&self, inst: Inst, address: Bits, launch: &Launch) -> Bits {
        let data = &self.function.dfg.insts[inst];
        assert_eq!(data.mods.space(), StateSpace::Local);
        assert_ne!(data.mods.mode(), Mode::To);
        (address & 0xffff_ffff) + Bits::from(launch.local(self.thread.linear))
    }

    fn access(
        &self,
        inst: Inst,
        args: &[Bits],
        out: &mut [Bits; 4],
        (launch, memory): (&Launch, &mut Memory),
    ) -> Option<()> {
        let dfg = &self.function.dfg;
        let data = &dfg.insts[inst];
        let bytes = data.ty.bits() / 8;
        let base = match data.mods.space() {
            StateSpace::Local => {
                let end = (args[0] as u64 & 0xffff_ffff) + u64::from(bytes * data.mods.vec());
                if end > LOCAL_BYTES.into() {
                    return None;
                }
                launch.local(self.thread.linear) + (args[0] as u64 & 0xffff_ffff)
            }
            space => address(launch, space, args[0]),
        };
        for (index, &bits) in args[1..].iter().enumerate() {
            memory.write(base + u64::from(bytes) * index as u64, bytes, bits)?;
        }
        for (index, &result) in dfg.results(inst).iter().enumerate() {
            let bits = memory.read(base + u64::from(bytes) * index as u64, bytes)?;
            out[index] = match data.ty.is_signed() {
                true => sign_extend(bits, 8 * bytes) as Bits & mask(dfg.ty(result).lane_bits()),
                false => bits,
            };
        }
        Some(())
    }
}

/// Returns the address of an access in memory.
fn address(launch: &Launch, space: StateSpace, address: Bits) -> u64 {
    match space {
        StateSpace::Shared => launch.shared() + (address as u64 & 0xffff_ffff),
        _ => address as u64,
    }
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
