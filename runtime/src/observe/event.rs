//! The events that tools receive.

use margay_ops::mods::{MemOrder, Scope};

use super::raw::{self, Decoded};
use super::{
    AccessCount, Branch, CopyGroup, Fence, Instruction, InstructionCount, InstructionRun, Position,
    Request, Synchronisation,
};

/// An event that tools receive.
///
/// ```
/// use margay::observe::{Event, Events};
///
/// fn accesses(events: Events<'_>) -> usize {
///     events.filter(|event| matches!(event, Event::Access(_))).count()
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The first CTAs of the launch are about to run.
    KernelBegin,
    /// A CTA begins.
    CtaBegin(Cta),
    /// Lanes of a warp access memory.
    Access(Access<'a>),
    /// Lanes of a warp are about to execute a barrier or a collective.
    Synchronisation(Synchronisation),
    /// Lanes of a warp are about to execute a fence.
    Fence(Fence),
    /// Lanes of a warp are about to execute an operation on groups of asynchronous copies.
    CopyGroup(CopyGroup),
    /// Lanes of a warp are about to execute an instruction.
    Instruction(Instruction),
    /// Lanes of a warp are about to execute a run of instructions.
    InstructionRun(InstructionRun),
    /// Lanes of a warp are about to execute a branch.
    Branch(Branch),
    /// How often a run of instructions was executed ([`Request::counts`]).
    InstructionCount(InstructionCount),
    /// How often an instruction accessed memory with a pattern of addresses ([`Request::counts`]).
    AccessCount(AccessCount<'a>),
    /// A CTA has ended.
    CtaEnd {
        /// The CTA.
        cta: Cta,
        /// Whether all threads of the CTA have run to their end. It is false if the launch failed
        /// before that.
        completed: bool,
    },
    /// The launch has ended.
    KernelEnd {
        /// Whether all CTAs of the launch have run to their end. It is false if the launch failed.
        completed: bool,
        /// Whether records of the launch were lost because the temporary file could not be read. In
        /// this case, the runtime has printed a message with the reason.
        lost: bool,
    },
}

/// Identifies a CTA of a launch.
///
/// ```
/// use margay::observe::{Cta, Events};
///
/// fn first_of(events: &Events<'_>) -> bool {
///     matches!(events.cta(), Some(Cta { linear: 0, .. }))
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cta {
    /// The coordinates of the CTA in the grid (`%ctaid`).
    pub index: [u32; 3],
    /// The linear index of the CTA in the grid; x varies fastest.
    pub linear: u64,
}

/// The kind of memory that an address refers to.
///
/// ```
/// use margay::observe::Space;
///
/// assert_eq!(Space::ALL[1], Space::Shared);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Space {
    /// Global memory. Addresses are those of the driver API.
    Global,
    /// Shared memory of the thread's own CTA. Addresses are offsets in this memory.
    Shared,
    /// Shared memory of another CTA of the cluster. Addresses are offsets in the window of `.shared::cluster`.
    SharedCluster,
    /// Local memory. Addresses are offsets in the memory of the thread.
    Local,
    /// Constant memory. Addresses are generic.
    Constant,
}

impl Space {
    /// All spaces.
    pub const ALL: [Space; 5] = [
        Space::Global,
        Space::Shared,
        Space::SharedCluster,
        Space::Local,
        Space::Constant,
    ];
}

/// Whether an access reads memory, writes memory, or does both.
///
/// ```
/// use margay::observe::{AccessKind, Request, Space};
///
/// let writes = Request::none().accesses(&Space::ALL, &[AccessKind::Store, AccessKind::Atomic]);
/// assert!(!writes.is_empty());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum AccessKind {
    /// The access reads.
    Load,
    /// The access writes.
    Store,
    /// The access reads and writes atomically (`atom`, `red`).
    Atomic,
}

impl AccessKind {
    /// All kinds.
    pub const ALL: [AccessKind; 3] = [AccessKind::Load, AccessKind::Store, AccessKind::Atomic];
}

/// The memory order of an access, with the name that PTX uses.
///
/// ```
/// use margay::observe::{Access, MemoryOrder};
///
/// fn is_plain(access: &Access<'_>) -> bool {
///     access.order == MemoryOrder::Weak
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum MemoryOrder {
    /// The access is weak (`.weak`), the default of loads and stores.
    Weak,
    /// `.volatile`.
    Volatile,
    /// `.mmio`.
    Mmio,
    /// `.relaxed`, the default of atomic operations.
    Relaxed,
    /// `.acquire`.
    Acquire,
    /// `.release`.
    Release,
    /// `.acq_rel`.
    AcquireRelease,
    /// `.sc`.
    SequentiallyConsistent,
}

impl MemoryOrder {
    pub(super) fn of(order: MemOrder) -> MemoryOrder {
        match order {
            MemOrder::None | MemOrder::Weak => MemoryOrder::Weak,
            MemOrder::Volatile => MemoryOrder::Volatile,
            MemOrder::Mmio => MemoryOrder::Mmio,
            MemOrder::Relaxed => MemoryOrder::Relaxed,
            MemOrder::Acquire => MemoryOrder::Acquire,
            MemOrder::Release => MemoryOrder::Release,
            MemOrder::AcqRel => MemoryOrder::AcquireRelease,
            MemOrder::Sc => MemoryOrder::SequentiallyConsistent,
        }
    }
}

/// The scope of a memory order, with the name that PTX uses. For accesses with
/// [`MemoryOrder::Weak`], the scope has no meaning.
///
/// ```
/// use margay::observe::{Access, MemoryScope};
///
/// fn reaches_host(access: &Access<'_>) -> bool {
///     access.scope == MemoryScope::System
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MemoryScope {
    /// `.cta`.
    Cta,
    /// `.cluster`.
    Cluster,
    /// `.gpu`, the default.
    Gpu,
    /// `.sys`.
    System,
}

impl MemoryScope {
    pub(super) fn of(scope: Scope) -> MemoryScope {
        match scope {
            Scope::Cta => MemoryScope::Cta,
            Scope::Cluster => MemoryScope::Cluster,
            Scope::None | Scope::Gpu => MemoryScope::Gpu,
            Scope::Sys => MemoryScope::System,
        }
    }
}

/// An access to memory by lanes of a warp.
///
/// If the lanes of an instruction with a generic address access several kinds of memory
/// ([`Space`]), the instruction causes one event for each kind.
///
/// ```
/// use margay::observe::Access;
///
/// /// Returns the number of sectors of 32 bytes that a warp accesses.
/// fn sectors(access: &Access<'_>) -> usize {
///     let last = u64::from(access.bytes) - 1;
///     let all = access.lanes().flat_map(|(_, at)| at / 32..=(at + last) / 32);
///     all.collect::<std::collections::BTreeSet<u64>>().len()
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Access<'a> {
    /// The position of the instruction in the source.
    pub position: Position,
    /// Whether the instruction reads memory, writes memory, or does both.
    pub kind: AccessKind,
    /// The kind of memory that the instruction accesses.
    pub space: Space,
    /// Whether the instruction has a generic address.
    pub is_generic: bool,
    /// Whether the access belongs to a `cp.async`.
    pub is_asynchronous: bool,
    /// Number of bytes that each lane accesses: the size of an element times the number of elements.
    pub bytes: u32,
    /// Number of bytes of each element that a lane accesses.
    pub element_bytes: u32,
    /// The memory order.
    pub order: MemoryOrder,
    /// The scope of the memory order.
    pub scope: MemoryScope,
    /// The PTX name of the operation of an atomic access, such as `add` or `cas`; empty for other
    /// accesses.
    pub operation: &'static str,
    /// The warp's index in the CTA.
    pub warp: u32,
    /// The mask of the lanes that access memory; never 0.
    pub mask: u32,
    /// The address of each lane in the mask.
    pub addresses: Addresses<'a>,
}

impl Access<'_> {
    /// Returns the lanes that access memory with their addresses, the lowest lane first.
    pub fn lanes(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let lanes = (0..32).filter(|lane| self.mask >> lane & 1 != 0);
        lanes.map(|lane| (lane, self.addresses.of(self.mask, lane)))
    }
}

/// The addresses of the lanes that access memory.
///
/// ```
/// use margay::observe::{Access, Addresses};
///
/// fn is_contiguous(access: &Access<'_>) -> bool {
///     matches!(access.addresses, Addresses::Strided { stride, .. } if stride == i64::from(access.bytes))
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addresses<'a> {
    /// The address of lane `n` is `base + stride * n`. Additions wrap.
    Strided {
        /// The address of lane 0 according to the formula, even if lane 0 does not access memory.
        base: u64,
        /// The distance in bytes between the addresses of neighbouring lanes.
        stride: i64,
    },
    /// The addresses of the lanes in the mask, the lowest lane first.
    Each(&'a [u64]),
}

impl Addresses<'_> {
    /// Returns the address of `lane`, which must be a lane of `mask`.
    fn of(&self, mask: u32, lane: u32) -> u64 {
        match self {
            Addresses::Strided { base, stride } => {
                base.wrapping_add((*stride as u64).wrapping_mul(lane.into()))
            }
            Addresses::Each(all) => {
                let before = mask & ((1 << lane) - 1);
                all.get(before.count_ones() as usize).copied().unwrap_or(0)
            }
        }
    }
}

/// Events of one launch in the order in which they occurred. A value contains all events of a CTA,
/// some of the events of a CTA, or the beginning or the end of the kernel.
///
/// ```
/// use margay::observe::{Event, Events};
///
/// fn ends_kernel(mut events: Events<'_>) -> bool {
///     events.any(|event| matches!(event, Event::KernelEnd { .. }))
/// }
/// ```
pub struct Events<'a> {
    /// Two events: the event before those in the records and the event after them.
    pub(super) first: Option<Event<'a>>,
    pub(super) last: Option<Event<'a>>,
    pub(super) records: &'a [u64],
    pub(super) request: &'a Request,
    pub(super) cta: Option<Cta>,
}

impl Events<'_> {
    /// Returns the CTA that caused the events; `None` for the beginning and the end of a kernel.
    pub fn cta(&self) -> Option<Cta> {
        self.cta
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Event<'a>;

    fn next(&mut self) -> Option<Event<'a>> {
        loop {
            let event = match self.first.take() {
                Some(event) => event,
                None => match raw::decode(self.records) {
                    Some(Decoded {
                        event,
                        rest,
                        is_counted,
                    }) => {
                        self.records = rest;
                        if is_counted && self.request.receives_counts() {
                            continue;
                        }
                        event
                    }
                    None => self.last.take()?,
                },
            };
            if self.request.contains(&event) {
                return Some(event);
            }
        }
    }
}
