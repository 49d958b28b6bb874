//! The counts that tools receive instead of events.

use margay_ir::function::SourceLoc;
use margay_ir::observe::ObservedEvent;

use super::{Access, Position};

/// How often the threads of a launch executed a run of instructions ([`super::InstructionRun`]).
///
/// ```
/// use margay::observe::InstructionCount;
///
/// /// Returns the number of instructions that threads executed in total.
/// fn executed(run: &InstructionCount) -> u64 {
///     u64::from(run.count) * run.executed
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct InstructionCount {
    /// The position of the first instruction in the source.
    pub position: Position,
    /// The number of the function that contains the instructions, in its module.
    pub function: u32,
    /// The index of the first instruction in its function, in the order of the text.
    pub first: u32,
    /// The number of instructions of the run.
    pub count: u32,
    /// Whether the run is one instruction with a guard.
    pub has_guard: bool,
    /// Number of executions by warps. If the tool does not request whole warps, several groups of lanes of a warp can
    /// execute the run one after the other, and each of them counts.
    pub warps: u64,
    /// Number of lanes that reached the instructions, summed over all executions.
    pub active: u64,
    /// Number of lanes that executed the instructions: those whose guard was true.
    pub executed: u64,
    /// Number of executions by warps in which the guard was true for some of the lanes and not for others.
    pub split: u64,
}

/// How often warps of a launch accessed memory with an instruction and a pattern of addresses.
///
/// Requests have the same pattern if the same lanes access memory, with the same distances between their addresses, and
/// if the addresses are equal modulo [`AccessCount::PERIOD`].
///
/// ```
/// use margay::observe::AccessCount;
///
/// fn bytes(counted: &AccessCount<'_>) -> u64 {
///     let lanes = u64::from(counted.access.mask.count_ones());
///     counted.requests * lanes * u64::from(counted.access.bytes)
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AccessCount<'a> {
    /// An access with the pattern. Its addresses are the lowest ones with this pattern, and its warp is 0.
    pub access: Access<'a>,
    /// Number of accesses by warps.
    pub requests: u64,
}

impl AccessCount<'_> {
    /// Number of bytes modulo which the addresses of the counted accesses are equal.
    pub const PERIOD: u64 = margay_jit::counters::PERIOD as u64;
}

/// The identity of a counted run, in the order of delivery.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct RunKey {
    function: u32,
    first: u32,
    count: u32,
    has_guard: bool,
    position: Position,
}

/// The counts of a run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct RunCount {
    pub(super) warps: u64,
    pub(super) active: u64,
    pub(super) executed: u64,
    pub(super) split: u64,
}

impl RunKey {
    /// Returns the key of a run; `None` for another event.
    pub(super) fn of(event: ObservedEvent, loc: SourceLoc, has_guard: bool) -> Option<RunKey> {
        let ObservedEvent::InstructionRun {
            function,
            first,
            count,
        } = event
        else {
            return None;
        };
        Some(RunKey {
            function,
            first,
            count,
            has_guard,
            position: Position::new(loc),
        })
    }

    /// Returns the event that tells a tool the counts of the run.
    pub(super) fn event(self, count: RunCount) -> InstructionCount {
        InstructionCount {
            position: self.position,
            function: self.function,
            first: self.first,
            count: self.count,
            has_guard: self.has_guard,
            warps: count.warps,
            active: count.active,
            executed: count.executed,
            split: count.split,
        }
    }
}

impl RunCount {
    /// Returns the count of one execution by the lanes in `active`, of which those in `mask` execute the run.
    pub(super) fn of(active: u32, mask: u32) -> RunCount {
        RunCount {
            warps: 1,
            active: active.count_ones().into(),
            executed: mask.count_ones().into(),
            split: u64::from(mask != 0 && mask != active),
        }
    }

    pub(super) fn add(&mut self, other: RunCount) {
        self.warps += other.warps;
        self.active += other.active;
        self.executed += other.executed;
        self.split += other.split;
    }
}
