//! The data of events other than accesses.

use margay_ir::observe::ObservedEvent;
use margay_ops::mods::Mode;
use margay_ops::ops::Opcode;

use super::raw::Place;
use super::{Event, MemoryOrder, MemoryScope, Position};

/// Lanes of a warp that are about to execute a barrier or a collective.
///
/// The event occurs when the lanes arrive. If the lanes of a warp arrive at a barrier in several
/// groups, each group causes an event.
///
/// ```
/// use margay::observe::{SyncOperation, Synchronisation};
///
/// fn is_barrier(event: &Synchronisation) -> bool {
///     matches!(event.operation, SyncOperation::Barrier { .. })
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Synchronisation {
    /// The position of the instruction in the source.
    pub position: Position,
    /// The operation with which the lanes synchronise.
    pub operation: SyncOperation,
    /// The warp's index in the CTA.
    pub warp: u32,
    /// The mask of the lanes that are about to execute the instruction.
    pub mask: u32,
}

/// How lanes synchronise.
///
/// ```
/// use margay::observe::SyncOperation;
///
/// fn name(operation: &SyncOperation) -> &str {
///     match operation {
///         SyncOperation::Collective { name, .. } => name,
///         _ => "barrier",
///     }
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum SyncOperation {
    /// `bar` or `barrier`, without `.cluster`.
    Barrier {
        /// The number of the barrier.
        number: u32,
        /// The number of threads that take part; `None` if all threads of the CTA take part.
        threads: Option<u32>,
        /// Whether the lanes wait at the barrier, and whether the barrier combines a predicate of
        /// all threads.
        kind: BarrierKind,
    },
    /// `barrier.cluster`.
    ClusterBarrier {
        /// Whether the lanes arrive (`.arrive`) or wait (`.wait`).
        arrives: bool,
    },
    /// An operation that lanes of a warp execute together: `shfl`, `vote`, `match`, `redux`, `bar.warp.sync`, `elect`,
    /// `mma`.
    Collective {
        /// The PTX name of the operation.
        name: &'static str,
        /// The member mask; `None` for a form without `.sync`.
        members: Option<u32>,
    },
}

/// Whether lanes wait at a barrier, and whether the barrier combines a predicate of all threads.
///
/// ```
/// use margay::observe::{BarrierKind, SyncOperation};
///
/// fn waits(operation: &SyncOperation) -> bool {
///     !matches!(operation, SyncOperation::Barrier { kind: BarrierKind::Arrive, .. })
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BarrierKind {
    /// The lanes wait (`.sync`).
    Sync,
    /// The lanes do not wait (`.arrive`).
    Arrive,
    /// The lanes wait, and the barrier combines a predicate of all threads (`.red`).
    Reduce,
}

/// Lanes of a warp that are about to execute a fence. Fences between proxies do not cause this event.
///
/// ```
/// use margay::observe::{Fence, MemoryScope};
///
/// fn is_local(fence: &Fence) -> bool {
///     fence.scope == MemoryScope::Cta
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Fence {
    /// The position of the instruction in the source.
    pub position: Position,
    /// The memory order.
    pub order: MemoryOrder,
    /// The scope.
    pub scope: MemoryScope,
    /// The warp's index in the CTA.
    pub warp: u32,
    /// The mask of the lanes that are about to execute the instruction.
    pub mask: u32,
}

/// Lanes of a warp that are about to execute an operation on groups of asynchronous copies.
///
/// ```
/// use margay::observe::{CopyGroup, CopyOperation};
///
/// fn ends_group(event: &CopyGroup) -> bool {
///     event.operation == CopyOperation::Commit
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct CopyGroup {
    /// The position of the instruction in the source.
    pub position: Position,
    /// The operation.
    pub operation: CopyOperation,
    /// The warp's index in the CTA.
    pub warp: u32,
    /// The mask of the lanes that are about to execute the instruction.
    pub mask: u32,
}

/// An operation on groups of asynchronous copies.
///
/// ```
/// use margay::observe::CopyOperation;
///
/// /// Returns the number of groups that may be incomplete after a wait.
/// fn pending(operation: CopyOperation) -> Option<u32> {
///     match operation {
///         CopyOperation::Wait(count) | CopyOperation::BulkWait(count) => Some(count),
///         CopyOperation::WaitAll => Some(0),
///         _ => None,
///     }
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CopyOperation {
    /// `cp.async.commit_group`.
    Commit,
    /// `cp.async.wait_group`: at most this number of groups may be incomplete afterwards.
    Wait(u32),
    /// `cp.async.wait_all`.
    WaitAll,
    /// A bulk operation (`cp.async.bulk`, `cp.reduce.async.bulk`, `st.async`, `red.async`) begins.
    /// The accesses of the operation follow until the event [`CopyOperation::BulkEnd`].
    BulkBegin,
    /// The event after the last access of a bulk operation.
    BulkEnd,
    /// `cp.async.bulk.commit_group`.
    BulkCommit,
    /// `cp.async.bulk.wait_group`.
    BulkWait(u32),
    /// `cp.async.bulk.wait_group.read`.
    BulkWaitRead(u32),
    /// `fence.proxy.async`.
    ProxyFence,
}

/// Lanes of a warp that are about to execute an instruction of the PTX text. [`super::Launch::opcode`] returns its
/// opcode.
///
/// ```
/// use margay::observe::{Instruction, Launch};
///
/// fn is_fused(launch: &Launch, instruction: &Instruction) -> bool {
///     launch.opcode(instruction).starts_with("fma")
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Instruction {
    /// The position of the instruction in the source.
    pub position: Position,
    /// The number of the function that contains the instruction, in its module.
    pub function: u32,
    /// The index of the instruction in its function, in the order of the text.
    pub index: u32,
    /// The warp's index in the CTA.
    pub warp: u32,
    /// The mask of the lanes that reach the instruction.
    pub active: u32,
    /// The mask of the lanes that execute the instruction: the lanes of `active` whose guard is true.
    pub mask: u32,
}

/// Lanes of a warp that are about to execute instructions of the PTX text that follow one another, without a branch, a
/// label or a barrier between them. An instruction with a guard is a run of its own. The event precedes the whole run:
/// if an instruction of the run fails, the lanes do not execute the instructions after it.
///
/// ```
/// use margay::observe::InstructionRun;
///
/// /// Returns the number of instructions that the lanes execute in total.
/// fn executed(run: &InstructionRun) -> u32 {
///     run.count * run.mask.count_ones()
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct InstructionRun {
    /// The position of the first instruction in the source.
    pub position: Position,
    /// The number of the function that contains the instructions, in its module.
    pub function: u32,
    /// The index of the first instruction in its function, in the order of the text.
    pub first: u32,
    /// The number of instructions.
    pub count: u32,
    /// Whether the run is one instruction with a guard.
    pub has_guard: bool,
    /// The warp's index in the CTA.
    pub warp: u32,
    /// The mask of the lanes that reach the instructions.
    pub active: u32,
    /// The mask of the lanes that execute the instructions: the lanes of `active` whose guard is true.
    pub mask: u32,
}

/// Lanes of a warp that are about to execute a `bra`.
///
/// ```
/// use margay::observe::Branch;
///
/// fn diverges(branch: &Branch) -> bool {
///     branch.taken != 0 && branch.taken != branch.mask
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Branch {
    /// The position of the instruction in the source.
    pub position: Position,
    /// The warp's index in the CTA.
    pub warp: u32,
    /// The mask of the lanes that reach the branch.
    pub mask: u32,
    /// The mask of the lanes that take the branch, a subset of `mask`.
    pub taken: u32,
}

/// Returns the event that `event` and the recorded operands `operands` describe.
pub(super) fn of(event: ObservedEvent, place: Place, operands: &[u64]) -> Option<Event<'static>> {
    let Place {
        position,
        warp,
        mask,
    } = place;
    let operand = |index: usize| operands.get(index).map(|&operand| operand as u32);
    Some(match event {
        ObservedEvent::Synchronisation { opcode, mode } => {
            Event::Synchronisation(Synchronisation {
                position,
                operation: synchronisation(opcode, mode, operand),
                warp,
                mask,
            })
        }
        ObservedEvent::Fence { order, scope } => Event::Fence(Fence {
            position,
            order: MemoryOrder::of(order),
            scope: MemoryScope::of(scope),
            warp,
            mask,
        }),
        ObservedEvent::CopyGroup { mode } => Event::CopyGroup(CopyGroup {
            position,
            operation: copy_operation(mode, operand(0).unwrap_or(0)),
            warp,
            mask,
        }),
        ObservedEvent::Instruction { function, index } => Event::Instruction(Instruction {
            position,
            function,
            index,
            warp,
            active: mask,
            mask: operand(0).unwrap_or(mask),
        }),
        ObservedEvent::InstructionRun {
            function,
            first,
            count,
        } => Event::InstructionRun(InstructionRun {
            position,
            function,
            first,
            count,
            has_guard: !operands.is_empty(),
            warp,
            active: mask,
            mask: operand(0).unwrap_or(mask),
        }),
        ObservedEvent::Branch => Event::Branch(Branch {
            position,
            warp,
            mask,
            taken: operand(0).unwrap_or(mask),
        }),
    })
}

fn synchronisation(
    opcode: Opcode,
    mode: Mode,
    operand: impl Fn(usize) -> Option<u32>,
) -> SyncOperation {
    match opcode {
        Opcode::Bar => SyncOperation::Barrier {
            number: operand(0).unwrap_or(0),
            threads: operand(1).filter(|&threads| threads != 0),
            kind: match mode {
                Mode::Arrive => BarrierKind::Arrive,
                Mode::Red => BarrierKind::Reduce,
                _ => BarrierKind::Sync,
            },
        },
        Opcode::ClusterBar => SyncOperation::ClusterBarrier {
            arrives: mode == Mode::Arrive,
        },
        opcode => SyncOperation::Collective {
            name: opcode.name(),
            members: operand(0),
        },
    }
}

fn copy_operation(mode: Mode, count: u32) -> CopyOperation {
    match mode {
        Mode::Arrive => CopyOperation::Commit,
        Mode::Sync => CopyOperation::Wait(count),
        Mode::Begin => CopyOperation::BulkBegin,
        Mode::End => CopyOperation::BulkEnd,
        Mode::BulkArrive => CopyOperation::BulkCommit,
        Mode::BulkSync => CopyOperation::BulkWait(count),
        Mode::BulkRead => CopyOperation::BulkWaitRead(count),
        Mode::ProxyFence => CopyOperation::ProxyFence,
        _ => CopyOperation::WaitAll,
    }
}
