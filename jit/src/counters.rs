//! The counters with which generated code counts events, instead of calling the host for each event.
//!
//! If a tool requests counts ([`Selection::counts_runs`], [`Selection::counted_spaces`]), vector code counts runs of
//! instructions and most accesses of whole chunks of 32 lanes in an array of 64-bit words
//! ([`NativeContext::counters`](crate::abi::NativeContext::counters)). Each native call has an array of its own, so no
//! counter is shared between threads. The host reads the arrays when the launch ends. All other events call the host,
//! which counts them itself.
//!
//! The array contains, in this order:
//! - the number of instructions that each warp of the current CTA has executed ([`WARPS`]);
//! - [`RUN_WORDS`] words for each run of instructions ([`run`]);
//! - for each group of accesses, the address of the [`Pattern`] that its last request had.
//!
//! A *group* contains accesses of one block whose addresses have constant distances from each other, with no operation
//! between them at which the active lanes can change. The pattern of the first access is therefore the pattern of all of
//! them, and one counter serves the whole group.

use margay_ir::entity::{Inst, Value};
use margay_ir::function::Function;
use margay_ir::observe::{AccessMode, ObservedAccess, ObservedEvent, Selection};
use margay_ops::mods::StateSpace;
use margay_ops::ops::{Effects, Opcode};
use margay_ops::types::Kind;
use rustc_hash::{FxHashMap, FxHashSet};

/// The index of the first of [`MAX_WARPS`] words with the number of instructions of each warp. The host reads and clears
/// them when another CTA begins.
pub const WARPS: usize = 0;
/// The maximum number of warps of a CTA.
pub const MAX_WARPS: usize = 32;
/// The index of the first word of runs.
const RUNS: usize = WARPS + MAX_WARPS;
/// The number of words of a run.
pub const RUN_WORDS: usize = 5;

/// The indices of the words of a run.
pub mod run {
    /// Number of executions by all 32 lanes of a warp.
    pub const WHOLE: usize = 0;
    /// Number of other executions by a chunk.
    pub const PARTS: usize = 1;
    /// Number of lanes that reached the run in these other executions.
    pub const ACTIVE: usize = 2;
    /// If the run has a guard: number of lanes whose guard was true.
    pub const EXECUTED: usize = 3;
    /// If the run has a guard: number of executions in which the guard was true for some of the lanes and not for others.
    pub const SPLIT: usize = 4;
}

/// Addresses of the lanes of a warp are counted modulo this number of bytes.
pub const PERIOD: usize = 128;

/// A pattern of addresses, and the number of requests of a group with this pattern.
#[derive(Clone, Debug)]
#[repr(C, align(16))]
pub struct Pattern {
    /// For each lane, the distance of its address from the address of the first lane, modulo 2^64.
    pub distances: [u64; 32],
    /// The low halves of `distances`, for addresses with 32 bits.
    pub narrow: [u32; 32],
    /// The common distance of neighbouring lanes; [`IRREGULAR`] if there is none.
    pub stride: i64,
    /// The number of requests by the address of the first lane modulo [`PERIOD`].
    pub counts: [u64; PERIOD],
}

/// The value of [`Pattern::stride`] if the lanes have no common distance.
pub const IRREGULAR: i64 = i64::MIN;

impl Pattern {
    /// Creates a pattern without requests from the distances of its lanes.
    pub fn new(distances: [u64; 32]) -> Pattern {
        let stride = distances[1] as i64;
        let is_strided = (0..32).all(|lane| distances[lane as usize] == of_lane(stride, lane));
        Pattern {
            narrow: distances.map(|distance| distance as u32),
            stride: if is_strided { stride } else { IRREGULAR },
            distances,
            counts: [0; PERIOD],
        }
    }

    /// Creates a pattern without requests whose lanes have a common distance.
    pub fn strided(stride: i64) -> Pattern {
        Pattern::new(std::array::from_fn(|lane| of_lane(stride, lane as u64)))
    }
}

fn of_lane(stride: i64, lane: u64) -> u64 {
    (stride as u64).wrapping_mul(lane)
}

/// A run of instructions that generated code counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Run {
    /// The payload of its `observe.event` ([`ObservedEvent::to_payload`]).
    pub payload: u64,
    /// The packed source position.
    pub loc: u64,
    /// Whether the run is one instruction with a guard.
    pub has_guard: bool,
}

/// An access of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// The packed properties of the access ([`ObservedAccess::to_bits`]).
    pub access: u64,
    /// The packed source position.
    pub loc: u64,
    /// The distance of its address from the address of the group's first access.
    pub offset: i64,
}

/// Accesses whose addresses have constant distances.
#[derive(Clone, Debug)]
pub struct Group {
    /// Whether addresses have 32 bits.
    pub narrow: bool,
    /// The accesses; the first one is the first that runs.
    pub members: Vec<Member>,
}

/// How generated code counts an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counted {
    /// A run of instructions: the index of its first word, and the number of instructions by which to increase the count
    /// of the warp. The number is that of all runs up to the next operation at which active lanes can change, and 0 for
    /// the other ones of these runs.
    Run { at: usize, instructions: u64 },
    /// The first access of a group: the group's index, and the index of its word.
    First { group: u32, at: usize },
    /// Another access of a group. It needs no code if the first one was counted.
    Other,
}

/// The counters of a kernel.
#[derive(Clone, Default, Debug)]
pub struct Counters {
    runs: Vec<Run>,
    groups: Vec<Group>,
    counted: FxHashMap<Inst, Counted>,
    /// The values that only tell counted runs which lanes their guards choose, and the guards.
    guards: FxHashMap<Value, Value>,
    counts_warps: bool,
}

/// Maximum number of counted runs. The events of further runs call the host.
const MOST_RUNS: usize = 1 << 16;
/// Maximum number of groups. Further accesses call the host.
const MOST_GROUPS: usize = 1 << 12;

impl Counters {
    /// Returns the counters for the events that a function contains.
    pub fn of(function: &Function, selection: Selection) -> Counters {
        let mut counters = Counters {
            counts_warps: selection.counts_warps,
            ..Counters::default()
        };
        if selection.counts_runs {
            counters.add_runs(function);
            counters.add_guards(function);
        }
        if selection.counted_spaces != 0 && selection.whole_warps {
            counters.add_groups(function, selection);
        }
        counters
    }

    /// Returns the number of words of the array of counters; 0 if generated code counts nothing.
    pub fn words(&self) -> usize {
        match self.runs.is_empty() && self.groups.is_empty() {
            true => 0,
            false => self.group_word(self.groups.len()),
        }
    }

    /// Returns the counted runs, each with the index of its first word.
    pub fn runs(&self) -> impl Iterator<Item = (usize, &Run)> {
        (RUNS..).step_by(RUN_WORDS).zip(&self.runs)
    }

    /// Returns the groups of accesses.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Returns the index of the word with the pattern of a group.
    pub fn group_word(&self, group: usize) -> usize {
        RUNS + RUN_WORDS * self.runs.len() + group
    }

    /// Returns whether generated code counts the instructions of warps.
    pub(crate) fn counts_warps(&self) -> bool {
        self.counts_warps
    }

    /// Returns how an operation is counted; `None` if it calls the host.
    pub(crate) fn get(&self, inst: Inst) -> Option<Counted> {
        self.counted.get(&inst).copied()
    }

    /// Returns the predicate from which the operand of a counted run was computed, if nothing else uses the operand.
    pub(crate) fn guard(&self, operand: Value) -> Option<Value> {
        self.guards.get(&operand).copied()
    }

    /// If an operation only computes the operand of counted runs, returns the predicate from which it is computed.
    pub(crate) fn guard_of(&self, function: &Function, inst: Inst) -> Option<Value> {
        let result = function.dfg.results(inst).first();
        result.and_then(|&result| self.guard(result))
    }

    fn add_runs(&mut self, function: &Function) {
        let mut known: FxHashMap<Run, usize> = FxHashMap::default();
        for &block in function.blocks() {
            // The first run since the last operation at which the active lanes can change.
            let mut first: Option<Inst> = None;
            for &inst in function.insts(block) {
                if changes_lanes(function, inst) {
                    first = None;
                }
                let Some((run, count)) = run_of(function, inst) else {
                    continue;
                };
                let next = self.runs.len();
                if next >= MOST_RUNS {
                    return;
                }
                let index = *known.entry(run).or_insert(next);
                if index == next {
                    self.runs.push(run);
                }
                let at = RUNS + RUN_WORDS * index;
                self.counted.insert(
                    inst,
                    Counted::Run {
                        at,
                        instructions: 0,
                    },
                );
                let first = *first.get_or_insert(inst);
                if let Some(Counted::Run { instructions, .. }) = self.counted.get_mut(&first) {
                    *instructions += count;
                }
            }
        }
    }

    /// Finds the operands of runs, `selp 1, 0, guard`, that nothing else uses and that are not live where lanes wait.
    fn add_guards(&mut self, function: &Function) {
        let dfg = &function.dfg;
        let mut others: FxHashSet<Value> = FxHashSet::default();
        let mut operands: FxHashSet<Value> = FxHashSet::default();
        for &block in function.blocks() {
            // The values of this block that were computed since the last operation at which lanes can wait.
            let mut near: FxHashSet<Value> = FxHashSet::default();
            for &inst in function.insts(block) {
                if changes_lanes(function, inst) {
                    near.clear();
                }
                near.extend(dfg.results(inst));
                let args = dfg.args(inst).iter().map(|&value| dfg.resolve(value));
                match self.counted.get(&inst) {
                    Some(Counted::Run { .. }) => {
                        let (known, far): (Vec<_>, Vec<_>) =
                            args.partition(|arg| near.contains(arg));
                        operands.extend(known);
                        others.extend(far);
                    }
                    _ => others.extend(args),
                }
                for call in dfg.targets(inst) {
                    others.extend(call.args.iter().map(|&value| dfg.resolve(value)));
                }
            }
        }
        for &operand in operands.difference(&others) {
            let Some(inst) = dfg.def_inst(operand) else {
                continue;
            };
            let &[one, zero, guard] = dfg.args(inst) else {
                continue;
            };
            let is_choice = dfg.insts[inst].opcode == Opcode::Selp
                && dfg.constant(one).is_some_and(|bits| bits != 0)
                && dfg.constant(zero) == Some(0);
            if is_choice {
                self.guards.insert(operand, dfg.resolve(guard));
            }
        }
    }

    fn add_groups(&mut self, function: &Function, selection: Selection) {
        for &block in function.blocks() {
            // The groups of this block that further accesses can join, with the first access's distance from the root.
            let mut open: FxHashMap<Value, (usize, i64)> = FxHashMap::default();
            for &inst in function.insts(block) {
                if changes_lanes(function, inst) {
                    open.clear();
                }
                let Some(access) = counted_access(function, inst, selection) else {
                    continue;
                };
                let address = function.dfg.resolve(function.dfg.args(inst)[0]);
                let narrow = function.dfg.ty(address).kind() == Kind::B32;
                let (root, distance) = split(function, address);
                let next = self.groups.len();
                let (group, start) = *open.entry(root).or_insert((next, distance));
                let member = Member {
                    access: access.to_bits(),
                    loc: function.dfg.locs[inst].to_bits(),
                    offset: match narrow {
                        true => i64::from(distance.wrapping_sub(start) as i32),
                        false => distance.wrapping_sub(start),
                    },
                };
                if group < next {
                    self.groups[group].members.push(member);
                    self.counted.insert(inst, Counted::Other);
                    continue;
                }
                if next >= MOST_GROUPS {
                    return;
                }
                self.groups.push(Group {
                    narrow,
                    members: vec![member],
                });
                let at = self.group_word(group);
                let group = group as u32;
                self.counted.insert(inst, Counted::First { group, at });
            }
        }
    }
}

/// Returns whether the lanes that execute a block can change at an operation, or wait there.
fn changes_lanes(function: &Function, inst: Inst) -> bool {
    let opcode = function.dfg.insts[inst].opcode;
    function.effects(inst).is_sync_point()
        || opcode.effects().contains(Effects::CONVERGENT)
        || matches!(opcode, Opcode::Call | Opcode::CallIndirect)
        || is_synchronisation(function, inst)
}

/// Returns whether an operation reports a barrier or a collective. The counts of the warp must be complete there.
fn is_synchronisation(function: &Function, inst: Inst) -> bool {
    let data = &function.dfg.insts[inst];
    data.opcode == Opcode::ObserveEvent
        && matches!(
            ObservedEvent::from_payload(data.payload()),
            Some(ObservedEvent::Synchronisation { .. })
        )
}

/// Returns the run that an operation reports, and its number of instructions.
fn run_of(function: &Function, inst: Inst) -> Option<(Run, u64)> {
    let data = &function.dfg.insts[inst];
    if data.opcode != Opcode::ObserveEvent {
        return None;
    }
    match ObservedEvent::from_payload(data.payload())? {
        ObservedEvent::InstructionRun { count, .. } => Some((
            Run {
                payload: data.payload(),
                loc: function.dfg.locs[inst].to_bits(),
                has_guard: !function.dfg.args(inst).is_empty(),
            },
            count.into(),
        )),
        _ => None,
    }
}

/// Returns the access that an operation reports, if generated code may count it: an access with a constant number of
/// bytes to one kind of memory.
fn counted_access(function: &Function, inst: Inst, selection: Selection) -> Option<ObservedAccess> {
    let data = &function.dfg.insts[inst];
    if data.opcode != Opcode::ObserveAccess {
        return None;
    }
    let access = ObservedAccess::of(data)?;
    let one_kind = matches!(
        access.space,
        StateSpace::Global | StateSpace::Shared | StateSpace::Local | StateSpace::Const
    );
    let is_counted = one_kind && selection.counts_space(access.space);
    (is_counted && access.mode != AccessMode::Copy).then_some(access)
}

/// Maximum number of additions that [`split`] follows.
const DEPTH: usize = 16;

/// Splits an address into a value and a constant distance from this value.
fn split(function: &Function, address: Value) -> (Value, i64) {
    let dfg = &function.dfg;
    let (mut root, mut distance) = (address, 0i64);
    for _ in 0..DEPTH {
        let Some(inst) = dfg.def_inst(root) else {
            break;
        };
        let &[a, b] = dfg.args(inst) else {
            break;
        };
        let bits = dfg.constant(dfg.resolve(b));
        let (Opcode::Add, Some(bits)) = (dfg.insts[inst].opcode, bits) else {
            break;
        };
        let step = match dfg.ty(root).kind() {
            Kind::B32 => i64::from(bits as u32 as i32),
            _ => bits as i64,
        };
        distance = distance.wrapping_add(step);
        root = dfg.resolve(a);
    }
    (root, distance)
}

#[cfg(test)]
mod tests;
