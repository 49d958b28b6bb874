//! Inserts a `check.access` in front of each access that a checking run examines, and an `observe.access` in front of
//! each access that a tool observes. Also inserts a `check.fence` for fences, and an `observe.event` for other events
//! that tools observe. A checked access uses the address that `check.access` returns. An observed access keeps its
//! address.
//!
//! The pass runs on functions as they were lowered, so that the interpreter and native code examine the same accesses.
//! Accesses to a local variable at a constant offset inside the variable are not examined, because they are always
//! valid. An inserted operation would also use the variable's address, so that the variable could not be promoted to an
//! SSA value. Accesses to parameters are not examined either.

mod flow;
mod runs;
mod speculated;

use std::ops::Range;

use margay_ops::meaning::Desc;
use margay_ops::mods::{AtomOp, MemOrder, Mode, Mods, Scope, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;
use rustc_hash::FxHashSet;

use self::flow::Flow;
use super::simplify;
use crate::analysis::Cfg;
use crate::analysis::loops::Loops;
use crate::entity::{Inst, Value};
use crate::function::{Function, InstData, payload_slot};
use crate::observe::{AccessMode, ObservedAccess, ObservedEvent, Selection};
use crate::syscall::Syscall;

/// The checks and observations that checking runs and tools request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Request {
    /// Whether to insert a `check.access` in front of accesses.
    pub accesses: bool,
    /// Whether to detect races. If so, each `check.access` passes the access of every lane to the race detector, with
    /// the operands of the access, and each fence except proxy fences gets a `check.fence`.
    pub order: bool,
    /// Whether to check that the bytes that a thread reads have been written.
    pub initialisation: bool,
    /// Whether to check synchronisation. The CTA scheduler performs this check. Therefore, if only
    /// some threads of the warp or CTA execute a collective or barrier together, native code lets
    /// the scheduler execute it.
    pub synchronisation: bool,
    /// The events that tools observe.
    pub selection: Selection,
}

impl Request {
    /// Returns whether [`run`] inserts operations.
    pub fn inserts(self) -> bool {
        self.accesses || !self.selection.is_empty()
    }

    /// Returns whether a requested check needs to know which synchronisation operations the kernel
    /// executes.
    pub fn watches(self) -> bool {
        self.order || self.synchronisation
    }
}

/// Removes each `check.group` and `observe.event` that the front end created and that neither checks nor tools need.
/// If tools observe runs of instructions, first creates the events of the runs.
pub fn strip(function: &mut Function, request: Request) {
    if request.selection.instruction_runs {
        runs::insert(function);
    }
    for block in function.blocks().to_vec() {
        let insts = &function.dfg.insts;
        let is_kept = |inst: &Inst| {
            let data = &insts[*inst];
            match data.opcode {
                Opcode::CheckGroup => request.order,
                Opcode::ObserveEvent => {
                    let event = ObservedEvent::from_payload(data.payload());
                    event.is_some_and(|event| request.selection.contains_event(event))
                }
                _ => true,
            }
        };
        function.layout.insts[block].retain(is_kept);
    }
}

/// Inserts the checks and observations that `request` contains. If races or initialisation are
/// checked, first makes speculative loads conditional ([`speculated`]).
pub fn run(function: &mut Function, request: Request) {
    if !function.has_body() {
        return;
    }
    let mut unneeded = FxHashSet::default();
    if request.order || request.initialisation {
        // In lowered functions, a loop's header has block parameters even for variables that the loop does not change.
        // These parameters would hide uses and conditions from `speculated`.
        simplify::remove_redundant_params(function);
        unneeded = speculated::run(function);
    }
    let (computed, used, whole) = used_values(function);
    let order = request.order.then(|| {
        let loops = Loops::new(function, &Cfg::new(function));
        (Flow::new(function), loops)
    });
    for block in function.blocks().to_vec() {
        let before = std::mem::take(&mut function.layout.insts[block]);
        let mut insts = Vec::with_capacity(before.len());
        for inst in before {
            let access = examined(function, inst);
            if let Some(access) = access.filter(|access| request.selection.contains(access)) {
                insts.push(observation(function, inst, access));
            }
            if let Some(access) = access.filter(|_| request.accesses) {
                let results = function.dfg.results(inst);
                let only_copied =
                    !results.is_empty() && results.iter().all(|result| !computed.contains(result));
                let unused = match unneeded.contains(&inst) {
                    true => ObservedAccess::UNNEEDED,
                    false => unused_elements(function, inst, &used),
                };
                let halves = unused == 0 && !only_copied && uses_low_half(function, inst, &whole);
                let is_strong = access.order != MemOrder::Weak;
                let polls = is_strong
                    && order
                        .as_ref()
                        .is_some_and(|(flow, loops)| flow.is_polled(function, loops, inst));
                let expected = access.mode == AccessMode::Load
                    && matches!(access.order, MemOrder::Weak | MemOrder::Volatile)
                    && order
                        .as_ref()
                        .is_some_and(|(flow, _)| flow.is_expected_by_swap(function, inst));
                let check = check(function, inst, (access, only_copied), request);
                let data = &mut function.dfg.insts[check];
                data.mods = data.mods.with_noftz(polls).with_unused_elements(unused);
                if expected {
                    // If the loaded value is no longer current, the swap fails. The load therefore counts as a relaxed
                    // load, which does not race with other atomic accesses.
                    data.mods = data
                        .mods
                        .with_order(MemOrder::Relaxed)
                        .with_scope(Scope::Gpu);
                }
                if halves {
                    // The check describes the load as a load of two 32-bit elements, of which the second is not used.
                    data.ty = OpType::U32;
                    data.mods = data.mods.with_vec_log2(1).with_unused_elements(2);
                }
                insts.push(check);
            }
            insts.extend(observed_event(function, inst, request.selection));
            match function.dfg.insts[inst].opcode {
                Opcode::Syscall if request.accesses && is_free(function, inst) => {
                    insts.push(check_free(function, inst, request));
                }
                Opcode::CpAsync => {
                    insts.extend(observed_copy(function, inst, request.selection));
                    if request.accesses {
                        insts.extend(check_copy(function, inst, request));
                    }
                }
                Opcode::Fence if request.order => insts.extend(check_fence(function, inst)),
                _ => {}
            }
            insts.push(inst);
        }
        function.layout.insts[block] = insts;
    }
}

/// Returns the access of an instruction; `None` if there is no access or if the access need not be examined.
fn examined(function: &Function, inst: Inst) -> Option<ObservedAccess> {
    let data = &function.dfg.insts[inst];
    if matches!(data.opcode, Opcode::CheckAccess | Opcode::ObserveAccess) {
        return None;
    }
    let access = ObservedAccess::of(data)?;
    let address = function.dfg.resolve(function.dfg.args(inst)[0]);
    let skipped = match access.space {
        StateSpace::Param | StateSpace::ParamFunc => true,
        _ => is_inside_variable(function, address, access.bytes),
    };
    (!skipped).then_some(access)
}

/// Returns whether an access of `bytes` bytes is at a constant offset in a local variable and inside the variable.
fn is_inside_variable(function: &Function, address: Value, bytes: u32) -> bool {
    let dfg = &function.dfg;
    let (base, offset) = match dfg.def_inst(address) {
        Some(inst) if dfg.insts[inst].opcode == Opcode::Add => {
            let [a, b] = [0, 1].map(|i| dfg.resolve(dfg.args(inst)[i]));
            match dfg.constant(b) {
                Some(offset) => (a, offset),
                None => return false,
            }
        }
        _ => (address, 0),
    };
    let Some(inst) = dfg.def_inst(base) else {
        return false;
    };
    let data = &dfg.insts[inst];
    if data.opcode != Opcode::LocalAddr {
        return false;
    }
    let size = function.slots[payload_slot(data.payload())].size;
    let end = offset.checked_add(u64::from(bytes));
    end.is_some_and(|end| end <= u64::from(size))
}

/// Returns the modifiers with which a check or an observation describes an access.
fn properties(data: &InstData, access: ObservedAccess) -> Mods {
    let mode = match access.mode {
        AccessMode::Load | AccessMode::Copy | AccessMode::Release => Mode::Load,
        AccessMode::Store => Mode::Store,
        AccessMode::Update => Mode::Update,
    };
    Mods::NONE
        .with_space(access.space)
        .with_order(data.mods.order())
        .with_scope(data.mods.scope())
        .with_vec_log2(data.mods.vec_log2())
        .with_atom_op(data.mods.atom_op())
        .with_mode(mode)
}

/// Creates the check of an access, and makes the access use the result of the check as its address.
fn check(
    function: &mut Function,
    inst: Inst,
    (access, only_copied): (ObservedAccess, bool),
    request: Request,
) -> Inst {
    let data = function.dfg.insts[inst];
    let mods = properties(&data, access)
        .with_flag(request.order)
        .with_nc(only_copied && access.mode == AccessMode::Load);
    let args = function.dfg.args(inst).to_vec();
    let operands = if request.order { &args[1..] } else { &[] };
    let desc = described(data.ty, mods);
    let (check, checked) = create(function, inst, desc, args[0], operands);
    replace(function, inst, 0, checked);
    check
}

/// Creates the `observe.access` for the access that `inst` makes.
fn observation(function: &mut Function, inst: Inst, access: ObservedAccess) -> Inst {
    let data = function.dfg.insts[inst];
    let mods = properties(&data, access);
    let address = function.dfg.args(inst)[0];
    observe(function, inst, (data.ty, mods), &[address])
}

/// Creates the observation of a barrier, collective, fence or operation on groups of copies. Returns `None` for other
/// instructions and for events that are not selected.
fn observed_event(function: &mut Function, inst: Inst, selection: Selection) -> Option<Inst> {
    let data = function.dfg.insts[inst];
    let (event, operands) = match data.opcode {
        Opcode::Fence if data.mods.scope() != Scope::None => {
            let (order, scope) = (data.mods.order(), data.mods.scope());
            (ObservedEvent::Fence { order, scope }, 0..0)
        }
        Opcode::CheckGroup => {
            let mode = data.mods.mode();
            (ObservedEvent::CopyGroup { mode }, 0..1)
        }
        opcode => {
            let mode = match opcode {
                Opcode::Bar | Opcode::ClusterBar => data.mods.mode(),
                _ => Mode::None,
            };
            let event = ObservedEvent::Synchronisation { opcode, mode };
            (event, synchronisation_operands(&data)?)
        }
    };
    if !selection.contains_event(event) {
        return None;
    }
    let operands = function.dfg.args(inst).get(operands);
    let operands = operands.unwrap_or_default().to_vec();
    let operands: Vec<Value> = operands
        .into_iter()
        .map(|value| function.dfg.resolve(value))
        .collect();
    let observation = function
        .dfg
        .make_inst(described_event(event), &operands, &[]);
    function.dfg.locs[observation] = function.dfg.locs[inst];
    Some(observation)
}

fn described_event(event: ObservedEvent) -> Desc {
    Desc {
        opcode: Opcode::ObserveEvent,
        ty: OpType::None,
        src: OpType::None,
        mods: Mods(event.to_payload()),
    }
}

/// Returns the range of the operands of a barrier or collective that tools receive: the barrier's number and thread
/// count, or the collective's member mask. Returns `None` for other operations.
fn synchronisation_operands(data: &InstData) -> Option<Range<usize>> {
    Some(match data.opcode {
        Opcode::Bar => 0..2,
        Opcode::ClusterBar => 0..0,
        // The forms without `.sync` have no member mask.
        Opcode::Shfl | Opcode::Vote | Opcode::Match if data.mods.flag() => 0..0,
        Opcode::BarWarp | Opcode::Elect | Opcode::Mma => 0..1,
        Opcode::Vote | Opcode::Match | Opcode::Redux => 1..2,
        Opcode::Shfl => 3..4,
        _ => return None,
    })
}

/// Creates the observations of the read and the write of an asynchronous copy. Omits an access that is not selected.
fn observed_copy(function: &mut Function, inst: Inst, selection: Selection) -> Vec<Inst> {
    let &[target, source, size, length] = function.dfg.args(inst) else {
        return Vec::new();
    };
    let size = function.dfg.resolve(size);
    let ty = copied_type(function, size);
    let mods = Mods::NONE.with_nc(true);
    let read = mods.with_space(StateSpace::Global).with_mode(Mode::Copy);
    let write = mods.with_space(StateSpace::Shared).with_mode(Mode::Store);
    let parts = [(read, vec![source, length]), (write, vec![target])];
    let mut insts = Vec::new();
    for (mods, args) in parts {
        let inst = observe(function, inst, (ty, mods), &args);
        let access = ObservedAccess::of(&function.dfg.insts[inst]);
        if access.is_some_and(|access| selection.contains(&access)) {
            insts.push(inst);
        }
    }
    insts
}

/// Creates an `observe.access` at the source position of `inst`.
fn observe(
    function: &mut Function,
    inst: Inst,
    (ty, mods): (OpType, Mods),
    args: &[Value],
) -> Inst {
    let desc = Desc {
        opcode: Opcode::ObserveAccess,
        ty,
        src: OpType::None,
        mods,
    };
    let args: Vec<Value> = args
        .iter()
        .map(|&value| function.dfg.resolve(value))
        .collect();
    let observation = function.dfg.make_inst(desc, &args, &[]);
    function.dfg.locs[observation] = function.dfg.locs[inst];
    observation
}

/// Returns a type with as many bytes as an asynchronous copy writes.
fn copied_type(function: &Function, size: Value) -> OpType {
    match function.dfg.constant(size) {
        Some(4) => OpType::B32,
        Some(8) => OpType::B64,
        _ => OpType::B128,
    }
}

/// Creates the checks of an asynchronous copy. The copy reads as many bytes as its last operand states, and writes as
/// many bytes as its third operand states.
fn check_copy(function: &mut Function, inst: Inst, request: Request) -> Vec<Inst> {
    let &[target, source, size, length] = function.dfg.args(inst) else {
        return Vec::new();
    };
    let [target, source, size, length] =
        [target, source, size, length].map(|value| function.dfg.resolve(value));
    let mods = Mods::NONE.with_flag(request.order).with_nc(true);
    let read = mods.with_space(StateSpace::Global).with_mode(Mode::Copy);
    let ty = copied_type(function, size);
    let (load, source) = create(function, inst, described(ty, read), source, &[length]);
    replace(function, inst, 1, source);
    let write = mods.with_space(StateSpace::Shared).with_mode(Mode::Store);
    let (store, target) = create(function, inst, described(ty, write), target, &[]);
    replace(function, inst, 0, target);
    vec![load, store]
}

/// Returns three sets: the values that have a use other than being stored; the values that have any use; and the values
/// that have a use other than a truncation to at most 32 bits.
fn used_values(function: &Function) -> (FxHashSet<Value>, FxHashSet<Value>, FxHashSet<Value>) {
    let mut computed = FxHashSet::default();
    let mut used = FxHashSet::default();
    let mut whole = FxHashSet::default();
    for &block in function.blocks() {
        for &inst in &function.layout.insts[block] {
            let args = function.dfg.args(inst).iter();
            used.extend(args.map(|&value| function.dfg.resolve(value)));
            if !truncates(&function.dfg.insts[inst]) {
                let args = function.dfg.args(inst).iter();
                whole.extend(args.map(|&value| function.dfg.resolve(value)));
            }
            let stores = function.dfg.insts[inst].opcode == Opcode::St;
            // The first operand of a store is the address.
            let count = if stores { 1 } else { usize::MAX };
            let args = function.dfg.args(inst).iter().take(count);
            computed.extend(args.map(|&value| function.dfg.resolve(value)));
            for call in function.dfg.targets(inst) {
                let args = call.args.iter();
                computed.extend(args.map(|&value| function.dfg.resolve(value)));
                let args = call.args.iter();
                whole.extend(args.map(|&value| function.dfg.resolve(value)));
            }
        }
    }
    used.extend(&computed);
    (computed, used, whole)
}

/// Returns whether an instruction converts a 64-bit integer to a shorter integer by dropping the upper bits.
fn truncates(data: &InstData) -> bool {
    let integers = data.ty.is_integer() && data.src.is_integer();
    let drops = data.src.bits() == 64 && data.ty.bits() <= 32;
    data.opcode == Opcode::Cvt && integers && drops && !data.mods.sat()
}

/// Returns whether an instruction is a weak load of one 64-bit integer that is used only in conversions to integers of
/// at most 32 bits, which drop the upper bits. Compilers copy structures in words of 8 bytes, and the upper half of a
/// word may be padding that no thread has written.
fn uses_low_half(function: &Function, inst: Inst, whole: &FxHashSet<Value>) -> bool {
    let data = &function.dfg.insts[inst];
    let [result] = function.dfg.results(inst) else {
        return false;
    };
    let is_word = data.ty.is_integer() && data.ty.bits() == 64;
    data.opcode == Opcode::Ld && data.mods.is_weak() && is_word && !whole.contains(result)
}

/// Returns the elements of a vector load that no operation uses, one bit for each. Compilers load whole vectors even if
/// the program reads only some of the elements. All elements count as used if none is used, if the load is not weak, or
/// if it has more than eight elements. For an atomic exchange, returns 1 if no operation uses the old value: the
/// exchange is then an atomic store.
fn unused_elements(function: &Function, inst: Inst, used: &FxHashSet<Value>) -> u8 {
    let data = &function.dfg.insts[inst];
    let results = function.dfg.results(inst);
    if data.opcode == Opcode::Atom && data.mods.atom_op() == AtomOp::Exch {
        return u8::from(!results.iter().any(|result| used.contains(result)));
    }
    if data.opcode != Opcode::Ld || !data.mods.is_weak() || !(2..=8).contains(&results.len()) {
        return 0;
    }
    let bits = results.iter().enumerate();
    let unused = bits.filter(|(_, result)| !used.contains(result));
    let unused = unused.fold(0, |all, (index, _)| all | 1 << index);
    match u32::from(unused).count_ones() as usize == results.len() {
        true => 0,
        false => unused,
    }
}

fn is_free(function: &Function, inst: Inst) -> bool {
    let payload = function.dfg.insts[inst].payload();
    Syscall::from_payload(payload) == Some(Syscall::Free)
}

/// Creates the `check.access` for a call of `free`: the check examines the pointer that the call
/// frees.
fn check_free(function: &mut Function, inst: Inst, request: Request) -> Inst {
    let pointer = function.dfg.args(inst)[0];
    let mods = Mods::NONE.with_mode(Mode::Release).with_flag(request.order);
    let (check, checked) = create(function, inst, described(OpType::B8, mods), pointer, &[]);
    replace(function, inst, 0, checked);
    check
}

/// Creates the `check.fence` that reports a fence; returns `None` for a proxy fence, because it does not order the
/// accesses of different threads.
fn check_fence(function: &mut Function, inst: Inst) -> Option<Inst> {
    let mods = function.dfg.insts[inst].mods;
    if mods.scope() == Scope::None {
        return None;
    }
    let desc = Desc {
        opcode: Opcode::CheckFence,
        ty: OpType::None,
        src: OpType::None,
        mods: Mods::NONE.with_order(mods.order()).with_scope(mods.scope()),
    };
    let check = function.dfg.make_inst(desc, &[], &[]);
    function.dfg.locs[check] = function.dfg.locs[inst];
    Some(check)
}

fn described(ty: OpType, mods: Mods) -> Desc {
    Desc {
        opcode: Opcode::CheckAccess,
        ty,
        src: OpType::None,
        mods,
    }
}

/// Creates a check of an access to `address` at the source position of `inst`. Returns the check and its result.
fn create(
    function: &mut Function,
    inst: Inst,
    desc: Desc,
    address: Value,
    operands: &[Value],
) -> (Inst, Value) {
    let address = function.dfg.resolve(address);
    let ty = function.dfg.ty(address);
    let mut args = vec![address];
    args.extend(operands.iter().map(|&value| function.dfg.resolve(value)));
    let check = function.dfg.make_inst(desc, &args, &[ty]);
    function.dfg.locs[check] = function.dfg.locs[inst];
    (check, function.dfg.results(check)[0])
}

fn replace(function: &mut Function, inst: Inst, index: usize, value: Value) {
    let args = function.dfg.insts[inst].args;
    function.dfg.pool.get_mut(args)[index] = value;
}
