//! The interpreter: the slow engine that is always right.
//!
//! It executes any function the IR can hold, calls, recursion and synchronisation inside functions
//! included, by the op table's meanings, and is the oracle for native code. A [`Machine`] gives it
//! memory, clocks and system calls; [`Interpreter`] is a [`Runner`], so [`CtaState`](crate::exec::CtaState)
//! drives it.
//!
//! Invariant: a lane that stopped at a point stands behind it: its top frame's position is the
//! instruction after the point, its operands are still the point's.

mod code;
mod control;
mod memory;

use smallvec::SmallVec;

use crate::entity::{Block, Entity, FuncId, Inst, Value};
use crate::exec::{CtaInfo, Fault, FaultKind, LaunchInfo, Point, Runner, Stop, lanes};
use crate::meaning::{Bits, Meaning, mask};
use crate::module::Module;
use crate::syscall::Syscall;
use crate::texture::{Access, Results};

pub use code::Code;

/// What the interpreter needs from outside. Addresses are host addresses.
pub trait Machine {
    /// Reads `bytes` bytes (1 to 16).
    fn load(&mut self, address: u64, bytes: u32) -> Result<Bits, FaultKind>;
    /// Writes the low `bytes` bytes.
    fn store(&mut self, address: u64, bytes: u32, value: Bits) -> Result<(), FaultKind>;
    /// Replaces `bytes` bytes in one atomic step and returns the old ones.
    fn update(
        &mut self,
        address: u64,
        bytes: u32,
        new: &mut dyn FnMut(Bits) -> Bits,
    ) -> Result<Bits, FaultKind>;
    /// Asked at every branch: an error ends the launch (a stop from outside).
    fn poll(&mut self) -> Result<(), FaultKind> {
        Ok(())
    }
    /// Orders memory accesses of this host thread.
    fn fence(&mut self);
    /// Nanoseconds of a steady clock.
    fn clock(&mut self) -> u64;
    /// A call from device code to the system. `cta` and `thread` say who calls.
    fn syscall(
        &mut self,
        cta: &CtaInfo,
        thread: u32,
        which: Syscall,
        args: &[Bits],
    ) -> Result<SmallVec<[Bits; 1]>, FaultKind>;
    /// Performs a texture or surface access.
    fn texture(&mut self, access: &Access, _args: &[Bits]) -> Result<Results, FaultKind> {
        Err(FaultKind::InvalidReference {
            what: format!("there is nothing for {access}"),
        })
    }
}

/// An activation of a function in one thread.
#[derive(Clone, Debug)]
struct Frame {
    func: FuncId,
    block: Block,
    position: usize,
    values: Vec<Bits>,
    /// Offset of this activation's slots in the thread's local memory.
    local: u32,
    /// Where the next activation or `alloca` goes.
    stack: u32,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    frames: Vec<Frame>,
}

/// Where the threads of a CTA stand between two turns.
#[derive(Clone, Debug, Default)]
pub struct Threads(Vec<Thread>);

impl Threads {
    /// So many threads that have not started.
    pub fn new(count: u32) -> Threads {
        Threads(vec![Thread::default(); count as usize])
    }
}

/// Runs the lanes of one CTA.
pub struct Interpreter<'a, M> {
    module: &'a Module,
    code: &'a Code,
    kernel: FuncId,
    launch: &'a LaunchInfo,
    cta: CtaInfo,
    machine: &'a mut M,
    threads: Vec<Thread>,
    /// Turns of waiting loops left before a lane gives way.
    turns: u32,
}

/// Turns of a waiting loop that a lane may take before it gives way.
const TURNS: u32 = 64;

/// What a lane does after an instruction.
enum Flow {
    Next,
    Moved,
    Stop(Stop),
}

impl<'a, M: Machine> Interpreter<'a, M> {
    /// An interpreter with every thread of the CTA at the kernel's start.
    pub fn new(
        module: &'a Module,
        code: &'a Code,
        kernel: FuncId,
        launch: &'a LaunchInfo,
        cta: CtaInfo,
        machine: &'a mut M,
    ) -> Self {
        let threads = Threads::new(launch.threads());
        Interpreter::resume((module, code), kernel, launch, cta, machine, threads)
    }

    /// An interpreter that goes on where [`Interpreter::into_threads`] left off.
    pub fn resume(
        (module, code): (&'a Module, &'a Code),
        kernel: FuncId,
        launch: &'a LaunchInfo,
        cta: CtaInfo,
        machine: &'a mut M,
        threads: Threads,
    ) -> Self {
        Interpreter {
            module,
            code,
            kernel,
            launch,
            cta,
            machine,
            threads: threads.0,
            turns: 0,
        }
    }

    /// The threads, for a later turn.
    pub fn into_threads(self) -> Threads {
        Threads(self.threads)
    }

    fn enter(&self, func: FuncId, args: &[Bits], local: u32) -> Frame {
        let function = &self.module.functions[func];
        let mut values = vec![0; function.dfg.values.len()];
        for (param, &arg) in function.dfg.blocks[function.entry()]
            .params
            .iter()
            .zip(args)
        {
            values[param.index()] = arg;
        }
        let stack = local.saturating_add(self.code.local_bytes(func));
        Frame {
            func,
            block: function.entry(),
            position: 0,
            values,
            local,
            stack,
        }
    }

    fn frame(&self, thread: u32) -> &Frame {
        self.threads[thread as usize]
            .frames
            .last()
            .expect("a running thread has a frame")
    }

    fn frame_mut(&mut self, thread: u32) -> &mut Frame {
        self.threads[thread as usize]
            .frames
            .last_mut()
            .expect("a running thread has a frame")
    }

    fn value(&self, thread: u32, value: Value) -> Bits {
        self.frame(thread).values[value.index()]
    }

    fn set(&mut self, thread: u32, value: Value, bits: Bits) {
        let frame = self.frame(thread);
        let width = self.module.functions[frame.func].dfg.ty(value).lane_bits();
        self.frame_mut(thread).values[value.index()] = bits & mask(width);
    }

    fn arg_values(&self, thread: u32, inst: Inst) -> SmallVec<[Bits; 8]> {
        let frame = self.frame(thread);
        let dfg = &self.module.functions[frame.func].dfg;
        dfg.args(inst)
            .iter()
            .map(|value| frame.values[value.index()])
            .collect()
    }

    fn set_results(&mut self, thread: u32, inst: Inst, values: &[Bits]) {
        let func = self.frame(thread).func;
        for (&result, &bits) in self.module.functions[func]
            .dfg
            .results(inst)
            .iter()
            .zip(values)
        {
            self.set(thread, result, bits);
        }
    }

    /// Runs one thread until it stops.
    fn run_thread(&mut self, thread: u32) -> Result<Stop, Fault> {
        loop {
            let frame = self.frame(thread);
            let function = &self.module.functions[frame.func];
            let Some(&inst) = function.insts(frame.block).get(frame.position) else {
                return Err(self.fault_at(thread, None, FaultKind::IllegalInstruction));
            };
            match self.step(thread, inst) {
                Ok(Flow::Next) => self.frame_mut(thread).position += 1,
                Ok(Flow::Moved) => {}
                Ok(Flow::Stop(stop)) => return Ok(stop),
                Err(kind) => return Err(self.fault_at(thread, Some(inst), kind)),
            }
        }
    }

    fn fault_at(&self, thread: u32, inst: Option<Inst>, kind: FaultKind) -> Fault {
        let dfg = &self.module.functions[self.frame(thread).func].dfg;
        let loc = inst.map_or(Default::default(), |inst| dfg.locs[inst]);
        Fault {
            kind,
            thread: Some(thread),
            loc,
        }
    }

    fn step(&mut self, thread: u32, inst: Inst) -> Result<Flow, FaultKind> {
        let func = self.frame(thread).func;
        let dfg = &self.module.functions[func].dfg;
        let data = &dfg.insts[inst];
        let effects = data.opcode.effects();
        if let Meaning::Pure(meaning) = data.opcode.meaning() {
            let args = self.arg_values(thread, inst);
            let mut out: SmallVec<[Bits; 8]> = SmallVec::from_elem(0, dfg.results(inst).len());
            meaning(&data.desc(), &args, &mut out);
            self.set_results(thread, inst, &out);
            Ok(Flow::Next)
        } else if effects.is_point() {
            self.stop_at(thread, func, inst)
        } else if effects.contains(crate::ops::Effects::TERMINATOR) {
            self.terminate(thread, inst)
        } else if effects.contains(crate::ops::Effects::PAYLOAD) {
            self.structural(thread, inst)
        } else {
            self.access(thread, inst).map(|()| Flow::Next)
        }
    }

    fn stop_at(&mut self, thread: u32, func: FuncId, inst: Inst) -> Result<Flow, FaultKind> {
        if self.module.functions[func].dfg.insts[inst].opcode == crate::ops::Opcode::Yield {
            if self.turns > 0 {
                self.turns -= 1;
                return Ok(Flow::Next);
            }
            self.turns = TURNS;
        }
        let stop = self
            .code
            .stop_of(func, inst)
            .ok_or(FaultKind::IllegalInstruction)?;
        self.frame_mut(thread).position += 1;
        Ok(Flow::Stop(stop))
    }

    /// The instruction behind which a stopped thread stands.
    fn stopped_inst(&self, thread: u32) -> Option<(FuncId, Inst)> {
        let frame = self.threads[thread as usize].frames.last()?;
        let index = frame.position.checked_sub(1)?;
        let inst = *self.module.functions[frame.func]
            .insts(frame.block)
            .get(index)?;
        Some((frame.func, inst))
    }
}

impl<M: Machine> Runner for Interpreter<'_, M> {
    fn run(
        &mut self,
        warp: u32,
        from: Stop,
        mask: u32,
        stops: &mut [Stop; 32],
    ) -> Result<(), Fault> {
        // Not behind every point: a loop that polls through a collective, a volatile access or a
        // barrier would never be due.
        let fresh =
            from == Stop::START || self.point(from).desc.opcode == crate::ops::Opcode::Yield;
        for lane in lanes(mask) {
            let thread = warp * 32 + lane;
            if from == Stop::START {
                let frame = self.enter(self.kernel, &[], 0);
                self.threads[thread as usize].frames = vec![frame];
            }
            if fresh {
                self.turns = TURNS;
            }
            stops[lane as usize] = self.run_thread(thread)?;
        }
        Ok(())
    }

    fn point(&self, stop: Stop) -> Point {
        self.code.point(self.module, stop)
    }

    fn operand(&self, warp: u32, lane: u32, _: Stop, index: usize) -> Bits {
        let thread = warp * 32 + lane;
        let Some((func, inst)) = self.stopped_inst(thread) else {
            return 0;
        };
        match self.module.functions[func].dfg.args(inst).get(index) {
            Some(&value) => self.value(thread, value),
            None => 0,
        }
    }

    fn set_result(&mut self, warp: u32, lane: u32, _: Stop, index: usize, bits: Bits) {
        let thread = warp * 32 + lane;
        let Some((func, inst)) = self.stopped_inst(thread) else {
            return;
        };
        if let Some(&value) = self.module.functions[func].dfg.results(inst).get(index) {
            self.set(thread, value, bits);
        }
    }
}
