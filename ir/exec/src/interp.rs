//! The interpreter: a slow engine that runs kernels without native code. Tests compare its results
//! with those of native code.
//!
//! The interpreter can execute every function that the IR can represent, including calls, recursion and synchronisation
//! inside functions. It computes results with the reference functions of the op table. A [`Machine`] provides memory,
//! clocks and system calls. [`Interpreter`] implements [`Runner`], through which [`CtaState`](crate::CtaState) runs
//! lanes.
//!
//! The interpreter decodes a function into steps when a thread first enters the function
//! (`decode`). Lanes of a warp that are at the same step execute this step together (`groups`). For
//! common ops without side effects, one call computes the results of all these lanes (`batch`).
//! Memory operations access memory for one lane after the other, in the order of the lane numbers.
//! Values are stored in rows of 32 lanes (`registers`); `allocate` keeps the number of rows small.
//!
//! Invariant: the position of a lane that is stopped at a sync point is the step after the sync point, and the lane's
//! registers still contain the operands of the sync point.

mod allocate;
mod batch;
mod code;
mod control;
mod decode;
mod groups;
mod memory;
mod registers;
mod structure;
mod warp;

use smallvec::{SmallVec, smallvec};

use crate::collective::shape;
use crate::{
    CtaInfo, Fault, FaultKind, LaunchInfo, Runner, SyncEvent, SyncPoint, SyncPointData, lanes,
};
use margay_ir::entity::FuncId;
use margay_ir::function::SourceLoc;
use margay_ir::module::Module;
use margay_ir::observe::{ObservedAccess, ObservedEvent};
use margay_ir::syscall::Syscall;
use margay_ops::meaning::{Bits, Meaning, WarpLanes};
use margay_ops::mods::{MemOrder, Mode, Scope};
use margay_ops::ops::Opcode;
use margay_ops::texture::{Access, Results};

use decode::{Body, Step};
use registers::Rows;
use warp::{Caller, Warp};

pub use code::Code;

/// The functions that the interpreter calls to access memory, clocks and other services of its
/// host. All addresses are host addresses.
pub trait Machine {
    /// Reads `bytes` bytes (1 to 16) at `address`, and returns them zero-extended.
    fn load(&mut self, address: u64, bytes: u32) -> Result<Bits, FaultKind>;
    /// Writes the low `bytes` bytes of `value` at `address`.
    fn store(&mut self, address: u64, bytes: u32, value: Bits) -> Result<(), FaultKind>;
    /// Atomically replaces the `bytes` bytes at `address` by the result of `new` for these bytes. Returns the old
    /// bytes.
    fn update(
        &mut self,
        address: u64,
        bytes: u32,
        new: &mut dyn FnMut(Bits) -> Bits,
    ) -> Result<Bits, FaultKind>;
    /// The interpreter calls this function at every jump and branch, and after each checked access, so that the host
    /// can stop a launch. An error ends the launch.
    fn poll(&mut self) -> Result<(), FaultKind> {
        Ok(())
    }
    /// Executes a sequentially consistent fence in the host thread that runs the interpreter.
    fn fence(&mut self);
    /// Returns the time of a monotonic clock in nanoseconds.
    fn clock(&mut self) -> u64;
    /// Performs a system call of device code. `cta` and `thread` identify the caller.
    fn syscall(
        &mut self,
        cta: &CtaInfo,
        thread: u32,
        which: Syscall,
        args: &[Bits],
    ) -> Result<SmallVec<[Bits; 1]>, FaultKind>;
    /// In a checking run, checks an access of `thread` to the host address `address`. `operands`
    /// are the operands of the access, if the checking tool needs them. Returns the address that
    /// the thread must access, which differs from `address` if the access is suppressed. A machine
    /// that does not check accesses returns `address`.
    fn check_access(
        &mut self,
        _cta: &CtaInfo,
        _thread: u32,
        (_access, _loc): (&ObservedAccess, SourceLoc),
        address: u64,
        _operands: &[Bits],
    ) -> u64 {
        address
    }
    /// Tells the tools that observe the launch that lanes of a warp perform an access.
    fn observe_access(&mut self, _cta: &CtaInfo, _lanes: &ObservedLanes<'_>) {}
    /// Tells the tools that observe the launch about an event in lanes of a warp that is not an
    /// access.
    fn observe_event(&mut self, _cta: &CtaInfo, _lanes: &ObservedLaneEvent<'_>) {}
    /// Tells the tools that observe the launch that threads of a CTA have synchronised.
    fn synchronised(&mut self, _cta: &CtaInfo, _event: SyncEvent<'_>) {}
    /// Tells a checking tool that `thread` executes the op `check.group`, which represents the
    /// beginning or the end of an asynchronous operation, an operation on groups of asynchronous
    /// copies, or a fence between proxies. For example, the thread ends a group (`Mode::Arrive`),
    /// waits until at most `count` groups are incomplete (`Mode::Sync`), or waits for all copies
    /// (`Mode::All`). `count` is the operand of the `check.group`, or 0 if there is none.
    fn check_group(&mut self, _cta: &CtaInfo, _thread: u32, _mode: Mode, _count: u32) {}
    /// Tells a checking tool that `thread` is about to execute a fence with an order and a scope.
    fn check_fence(&mut self, _cta: &CtaInfo, _thread: u32, _fence: (MemOrder, Scope)) {}
    /// Performs a texture or surface access for one thread, and returns its results.
    fn texture(&mut self, access: &Access, _args: &[Bits]) -> Result<Results, FaultKind> {
        Err(FaultKind::InvalidReference {
            what: format!("no texture or surface for {access}"),
        })
    }
}

/// An access by lanes of a warp, described for the tools that observe the launch.
#[derive(Clone, Copy, Debug)]
pub struct ObservedLanes<'a> {
    /// The properties of the access that are equal in all lanes.
    pub access: &'a ObservedAccess,
    /// The source position of the instruction that performs the access.
    pub loc: SourceLoc,
    /// The linear index, in the CTA, of the warp's first thread.
    pub first: u32,
    /// The lanes that perform the access.
    pub mask: u32,
    /// For each lane, the address that it accesses, in the state space of the access.
    pub addresses: &'a [u64; 32],
    /// For [`AccessMode::Copy`](margay_ir::observe::AccessMode::Copy), the number of bytes that each lane reads.
    pub lengths: Option<&'a [u64; 32]>,
}

/// An event in lanes of a warp that is not an access, described for the tools that observe the
/// launch.
#[derive(Clone, Copy, Debug)]
pub struct ObservedLaneEvent<'a> {
    /// The event.
    pub event: ObservedEvent,
    /// The source position of the instruction that causes the event.
    pub loc: SourceLoc,
    /// The linear index, in the CTA, of the warp's first thread.
    pub first: u32,
    /// The lanes in which the event occurs.
    pub mask: u32,
    /// For each operand of the event, an array with the operand's value in each lane.
    pub operands: &'a [[u64; 32]],
}

/// The state of the threads of a CTA between two runs of the CTA.
#[derive(Clone, Debug, Default)]
pub struct Threads(Vec<Warp>);

impl Threads {
    /// Returns the state of the threads of a CTA with `count` threads before they start to run.
    pub fn new(count: u32) -> Threads {
        Threads(vec![Warp::default(); count.div_ceil(32) as usize])
    }
}

/// The interpreter of one CTA: executes steps for the lanes that the CTA scheduler selects.
pub struct Interpreter<'a, M> {
    module: &'a Module,
    code: &'a Code,
    kernel: FuncId,
    launch: &'a LaunchInfo,
    cta: CtaInfo,
    machine: &'a mut M,
    warps: Vec<Warp>,
}

/// The number of times that groups of lanes of a warp may pass a `yield` until a group must stop at
/// a `yield`.
const TURNS: u32 = 64;

/// The maximum number of bytes of host memory that the activations of called functions of a CTA may
/// occupy. A call that would exceed this number is a stack overflow. The registers of an activation
/// (a call by up to 32 lanes) occupy more memory than the call needs as local memory on a GPU. If
/// only the call depth and the local memory were limited, the activations could occupy gigabytes.
const STACK_BYTES: usize = 256 << 20;

impl<'a, M: Machine> Interpreter<'a, M> {
    /// Returns an interpreter in which every thread of the CTA is at the start of the kernel.
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

    /// Returns an interpreter that continues the threads that [`Interpreter::into_threads`]
    /// returned.
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
            warps: threads.0,
        }
    }

    /// Ends this interpreter and returns the state of its threads, with which [`Interpreter::resume`] can continue
    /// them.
    pub fn into_threads(self) -> Threads {
        Threads(self.warps)
    }

    /// Returns the place where a lane has stopped at a sync point: the decoded function, the step
    /// of the sync point, and the index of the activation.
    fn stopped_at(&self, warp: u32, lane: u32) -> Option<(&'a Body, &'a Step, usize)> {
        let warp = self.warps.get(warp as usize)?;
        let at = warp.at(lane)?;
        let activation = warp.activations.get(at.activation())?;
        let body = self.code.body(self.module, activation.func)?;
        let step = body.steps.get(at.pc().checked_sub(1)?)?;
        Some((body, step, at.activation()))
    }

    /// Computes the collective at a sync point for the lanes `active` of a warp, which must be at
    /// the same step of the same activation. If they are at different steps or in different
    /// activations, computes nothing and returns `None`.
    fn collective(&mut self, warp: u32, sync_point: SyncPoint, active: u32) -> Option<()> {
        let state = &self.warps[warp as usize];
        let first = active.trailing_zeros();
        let mut all = lanes(active).map(|lane| state.at(lane));
        if !all.all(|at| at == state.at(first)) {
            return None;
        }
        let (body, step, activation) = self.stopped_at(warp, first)?;
        let desc = self.sync_point_data(sync_point).desc;
        let Meaning::Warp(meaning) = desc.opcode.meaning() else {
            return None;
        };
        let (operands, results) = shape(&desc);
        let places = body.args(step);
        let mut rows = Rows {
            registers: &mut self.warps[warp as usize].activations[activation].registers,
            constants: &body.constants,
        };
        let mut args: SmallVec<[[Bits; 32]; 4]> = smallvec![[0; 32]; operands];
        for (index, values) in args.iter_mut().enumerate() {
            // A form without a mask operand has as its members all lanes that execute it together.
            match places.get(index) {
                _ if desc.mods.flag() && index + 1 == operands => values.fill(active.into()),
                Some(&place) => {
                    for lane in lanes(active).map(|lane| lane as usize) {
                        values[lane] = rows.get(place, lane);
                    }
                }
                None => {}
            }
        }
        let mut out: SmallVec<[[Bits; 32]; 2]> = smallvec![[0; 32]; results];
        let mut taking_part = WarpLanes {
            active,
            args: &args,
            results: &mut out,
        };
        meaning(&desc, &mut taking_part);
        for (&place, values) in body.results(step).iter().zip(&out) {
            for lane in lanes(active).map(|lane| lane as usize) {
                rows.set(place, lane, values[lane]);
            }
        }
        Some(())
    }
}

impl<M: Machine> Runner for Interpreter<'_, M> {
    fn synchronised(&mut self, event: SyncEvent<'_>) {
        self.machine.synchronised(&self.cta, event);
    }

    fn run(
        &mut self,
        warp: u32,
        from: SyncPoint,
        mask: u32,
        sync_points: &mut [SyncPoint; 32],
    ) -> Result<(), Fault> {
        // Only the start of the kernel and a `yield` reset the number of remaining iterations. If every sync point did,
        // a waiting loop with a collective, a volatile access or a barrier would never reach the limit and never yield.
        let fresh =
            from == SyncPoint::START || self.sync_point_data(from).desc.opcode == Opcode::Yield;
        let state = &mut self.warps[warp as usize];
        if fresh {
            state.turns = TURNS;
        }
        if from != SyncPoint::START {
            let groups = state.stopped(mask);
            return self.run_groups(warp, groups, sync_points);
        }
        let body = self.code.body(self.module, self.kernel);
        let body = body.ok_or(FaultKind::IllegalInstruction)?;
        let entered = (self.kernel, body, self.code.local_bytes(self.kernel));
        let caller = Caller {
            call: None,
            depth: 0,
            stack: [0; 32],
        };
        let at = state.enter(entered, mask, caller);
        state.stop(mask, at);
        let groups = state.stopped(mask);
        self.run_groups(warp, groups, sync_points)
    }

    fn first_in_calls(&self, warp: u32, open: u32) -> Option<u32> {
        self.warps.get(warp as usize)?.first_in_calls(open)
    }

    fn sync_point_data(&self, sync_point: SyncPoint) -> SyncPointData {
        self.code.sync_point_data(self.module, sync_point)
    }

    fn is_skipped(&self, sync_point: SyncPoint) -> bool {
        self.code.is_skipped(self.module, sync_point)
    }

    fn constant_operand(&self, sync_point: SyncPoint, index: usize) -> Option<Bits> {
        self.code.constant_operand(self.module, sync_point, index)
    }

    fn has_width(&self, sync_point: SyncPoint) -> bool {
        self.code.has_width(self.module, sync_point)
    }

    fn perform(&mut self, warp: u32, sync_point: SyncPoint, active: u32) -> bool {
        self.collective(warp, sync_point, active).is_some()
    }

    fn operand(&self, warp: u32, lane: u32, _: SyncPoint, index: usize) -> Bits {
        let Some((body, step, activation)) = self.stopped_at(warp, lane) else {
            return 0;
        };
        let registers = &self.warps[warp as usize].activations[activation].registers;
        match body.args(step).get(index) {
            Some(&place) => registers::get((registers, &body.constants), place, lane as usize),
            None => 0,
        }
    }

    fn set_result(&mut self, warp: u32, lane: u32, _: SyncPoint, index: usize, bits: Bits) {
        let Some((body, step, activation)) = self.stopped_at(warp, lane) else {
            return;
        };
        let registers = &mut self.warps[warp as usize].activations[activation].registers;
        if let Some(&place) = body.results(step).get(index) {
            let constants = &body.constants;
            let mut rows = Rows {
                registers,
                constants,
            };
            rows.set(place, lane as usize, bits);
        }
    }
}
