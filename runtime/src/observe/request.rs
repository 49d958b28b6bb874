//! Requests of tools. A request states which events a tool wants to receive.

use margay_ir::observe::{AccessMode, Selection};
use margay_ops::mods::StateSpace;

use super::{Access, AccessCount, AccessKind, Event, Space};

/// A kind of event that a tool can name in a request.
///
/// [`EventKind::is_implemented`] states which kinds this version of Margay records.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// The beginning and the end of each CTA.
    Ctas,
    /// Barriers and collectives (`bar`, `barrier.cluster`, `shfl`, `vote`).
    Synchronisation,
    /// Operations on groups of asynchronous copies.
    AsynchronousCopies,
    /// Fences.
    Fences,
    /// Each instruction that lanes of a warp reach, with the mask of the lanes that execute it.
    Instructions,
    /// Runs of instructions that follow one another, each with the mask of the lanes that execute
    /// the run. They cost less than [`EventKind::Instructions`].
    InstructionRuns,
    /// Branches, each with the mask of the lanes that take the branch.
    Branches,
    /// Calls of functions, and returns from functions.
    Calls,
    /// Accesses to textures and surfaces.
    Textures,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [EventKind; 9] = [
        EventKind::Ctas,
        EventKind::Synchronisation,
        EventKind::AsynchronousCopies,
        EventKind::Fences,
        EventKind::Instructions,
        EventKind::InstructionRuns,
        EventKind::Branches,
        EventKind::Calls,
        EventKind::Textures,
    ];

    /// Returns the name of the kind, for messages.
    pub fn name(self) -> &'static str {
        match self {
            EventKind::Ctas => "CTAs",
            EventKind::Synchronisation => "synchronisation",
            EventKind::AsynchronousCopies => "asynchronous copies",
            EventKind::Fences => "fences",
            EventKind::Instructions => "instructions",
            EventKind::InstructionRuns => "runs of instructions",
            EventKind::Branches => "branches",
            EventKind::Calls => "calls",
            EventKind::Textures => "textures",
        }
    }

    /// Returns whether this version of Margay records events of the kind. If a tool requests a kind
    /// that is not implemented, launches of the kernel fail.
    ///
    /// ```
    /// use margay::observe::EventKind;
    ///
    /// assert!(EventKind::Ctas.is_implemented());
    /// assert!(!EventKind::Textures.is_implemented());
    /// ```
    pub fn is_implemented(self) -> bool {
        !matches!(self, EventKind::Calls | EventKind::Textures)
    }

    fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// The events that a tool wants to receive from launches of a kernel.
///
/// The default value requests no events. A tool whose request for a kernel is empty receives no
/// events of the kernel. All other tools receive the beginning and the end of each launch.
///
/// ```
/// use margay::observe::{AccessKind, EventKind, Request, Space};
///
/// let request = Request::none()
///     .accesses(&[Space::Shared], &AccessKind::ALL)
///     .events(EventKind::Ctas)
///     .whole_warps();
/// assert!(!request.is_empty());
/// assert!(Request::none().is_empty());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Request {
    /// For each kind of access, a mask of the requested spaces. The bit of a space has the number
    /// `Space as u32`.
    accesses: [u8; AccessKind::ALL.len()],
    /// Bits of [`EventKind`].
    kinds: u16,
    whole_warps: bool,
    launches: bool,
    counts: bool,
}

impl Request {
    /// Returns a request for no events.
    pub fn none() -> Request {
        Request::default()
    }

    /// Adds the beginning and the end of launches to the request. A request for any other events
    /// includes these two events.
    #[must_use]
    pub fn launches(mut self) -> Request {
        self.launches = true;
        self
    }

    /// Adds to the request the accesses of all kinds in `kinds` to all spaces in `spaces`. An
    /// access with a generic address counts as an access to the space that contains the address.
    ///
    /// Some accesses are not recorded: accesses to parameters and textures, accesses by `printf`,
    /// `malloc` and the device runtime, and accesses to local variables at a constant offset,
    /// because GPUs keep such variables in registers.
    #[must_use]
    pub fn accesses(mut self, spaces: &[Space], kinds: &[AccessKind]) -> Request {
        for &kind in kinds {
            for &space in spaces {
                self.accesses[kind as usize] |= 1 << space as u32;
            }
        }
        self
    }

    /// Adds all events of a kind to the request.
    #[must_use]
    pub fn events(mut self, kind: EventKind) -> Request {
        self.kinds |= kind.bit();
        self
    }

    /// Requests one record for all lanes of a warp that execute an instruction together. As on a
    /// GPU, lanes that take different branches reconverge where the branches join. Without this
    /// setting, a record can describe only some of these lanes, because kernels also run lane by
    /// lane or in chunks of 4 to 32 lanes.
    ///
    /// The setting has a cost: kernels run in the interpreter unless all threads of a CTA are certain to reach each
    /// barrier and collective together. Kernels with waiting loops or function calls run in the interpreter, too.
    #[must_use]
    pub fn whole_warps(mut self) -> Request {
        self.whole_warps = true;
        self
    }

    /// Requests counts of runs of instructions and of accesses instead of an event for each of them. The tool receives
    /// [`Event::InstructionCount`] and [`Event::AccessCount`] before the end of the launch. Most events then cost a few
    /// instructions of generated code and no call of the tool.
    ///
    /// An access whose pattern of addresses is one of many is not counted and causes [`Event::Access`]. The tool must
    /// add both. If another tool requests the same events without counts, all of them call the host, but this tool
    /// receives the same counts.
    ///
    /// If the request also contains [`EventKind::Ctas`] and [`EventKind::InstructionRuns`], and whole warps,
    /// [`super::Worker::instructions`] receives the number of instructions of each warp.
    ///
    /// ```
    /// use margay::observe::{EventKind, Request};
    ///
    /// let request = Request::none().events(EventKind::InstructionRuns).whole_warps().counts();
    /// assert!(!request.is_empty());
    /// ```
    #[must_use]
    pub fn counts(mut self) -> Request {
        self.counts = true;
        self
    }

    /// Returns whether the request contains no events.
    pub fn is_empty(&self) -> bool {
        self.accesses == [0; 3] && self.kinds == 0 && !self.launches
    }

    /// Returns the first requested kind of event that is not implemented, if there is one.
    pub(super) fn unsupported(&self) -> Option<EventKind> {
        let kinds = EventKind::ALL.into_iter();
        let mut wanted = kinds.filter(|kind| self.kinds & kind.bit() != 0);
        wanted.find(|kind| !kind.is_implemented())
    }

    /// Returns whether the request contains the accesses of the kind `kind` to the space `space`.
    pub(super) fn has_access(&self, space: Space, kind: AccessKind) -> bool {
        self.accesses[kind as usize] >> space as u32 & 1 != 0
    }

    /// Returns whether the request contains all events of a kind.
    pub(super) fn has(&self, kind: EventKind) -> bool {
        self.kinds & kind.bit() != 0
    }

    /// Returns whether the tool receives counts instead of events that can be counted.
    pub(super) fn receives_counts(&self) -> bool {
        self.counts
    }

    /// Returns whether the request contains the counts of runs of instructions.
    pub(super) fn counts_runs(&self) -> bool {
        self.counts && self.has(EventKind::InstructionRuns)
    }

    /// Returns whether the request contains the number of instructions of each warp.
    pub(super) fn counts_warps(&self) -> bool {
        self.counts_runs() && self.has(EventKind::Ctas) && self.whole_warps
    }

    /// Returns whether the request contains the counts of accesses of the kind `kind` to the space `space`.
    pub(super) fn counts_access(&self, space: Space, kind: AccessKind) -> bool {
        self.counts && self.has_access(space, kind)
    }

    /// Returns whether the tool receives an event for each access of the kind `kind` to the space `space`, although
    /// `is_counted` states that other tools receive the counts of such accesses.
    pub(super) fn has_each(&self, space: Space, kind: AccessKind, is_counted: bool) -> bool {
        self.has_access(space, kind) && !(self.counts && is_counted)
    }

    /// Returns whether the request contains events such as `event`.
    pub(super) fn contains(&self, event: &Event<'_>) -> bool {
        match event {
            Event::KernelBegin | Event::KernelEnd { .. } => true,
            Event::CtaBegin(_) | Event::CtaEnd { .. } => self.has(EventKind::Ctas),
            Event::Access(Access { space, kind, .. }) => self.has_access(*space, *kind),
            Event::Synchronisation(_) => self.has(EventKind::Synchronisation),
            Event::Fence(_) => self.has(EventKind::Fences),
            Event::CopyGroup(_) => self.has(EventKind::AsynchronousCopies),
            Event::Instruction(_) => self.has(EventKind::Instructions),
            Event::InstructionRun(_) => self.has(EventKind::InstructionRuns) && !self.counts,
            Event::InstructionCount(_) => self.counts_runs(),
            Event::AccessCount(AccessCount { access, .. }) => {
                self.counts_access(access.space, access.kind)
            }
            Event::Branch(_) => self.has(EventKind::Branches),
        }
    }

    /// Returns the selection of operations: the operations that the kernel's code must contain so
    /// that it records the requested events.
    pub(super) fn selection(&self) -> Selection {
        let mut selection = Selection::default();
        for kind in AccessKind::ALL {
            let modes: &[AccessMode] = match kind {
                AccessKind::Load => &[AccessMode::Load, AccessMode::Copy],
                AccessKind::Store => &[AccessMode::Store],
                AccessKind::Atomic => &[AccessMode::Update],
            };
            for space in Space::ALL {
                if self.has_access(space, kind) {
                    selection = selection.with_accesses(state_spaces(space), modes);
                }
            }
        }
        selection.synchronisation = self.has(EventKind::Synchronisation);
        selection.fences = self.has(EventKind::Fences);
        selection.copies = self.has(EventKind::AsynchronousCopies);
        selection.instructions = self.has(EventKind::Instructions);
        selection.instruction_runs = self.has(EventKind::InstructionRuns);
        selection.branches = self.has(EventKind::Branches);
        selection.whole_warps = self.whole_warps && !selection.is_empty();
        selection
    }
}

/// Adds to the merged selection of several requests which of their events generated code may count: those that each tool
/// requests as counts.
pub(super) fn counted(mut selection: Selection, requests: &[&Request]) -> Selection {
    let all = |has: &dyn Fn(&Request) -> bool, counts: &dyn Fn(&Request) -> bool| {
        let mut of = requests.iter().filter(|request| has(request)).peekable();
        of.peek().is_some() && of.all(|request| counts(request))
    };
    let has_runs = |request: &Request| request.has(EventKind::InstructionRuns);
    selection.counts_runs = all(&has_runs, &Request::counts_runs);
    selection.counts_warps =
        selection.counts_runs && requests.iter().any(|request| request.counts_warps());
    for space in Space::ALL {
        let has = |request: &Request| {
            let mut kinds = AccessKind::ALL.into_iter();
            kinds.any(|kind| request.has_access(space, kind))
        };
        if all(&has, &|request| request.counts) {
            selection = selection.with_counted(state_spaces(space));
        }
    }
    selection
}

/// Returns the PTX state spaces of those instructions that can access `space`, without the generic space.
fn state_spaces(space: Space) -> &'static [StateSpace] {
    match space {
        Space::Global => &[StateSpace::Global],
        Space::Shared | Space::SharedCluster => &[StateSpace::Shared, StateSpace::SharedCluster],
        Space::Local => &[StateSpace::Local],
        Space::Constant => &[StateSpace::Const],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_contain_what_was_added() {
        let request = Request::none().accesses(&[Space::Shared], &[AccessKind::Load]);
        assert!(request.has_access(Space::Shared, AccessKind::Load));
        assert!(!request.has_access(Space::Shared, AccessKind::Store));
        assert!(!request.has_access(Space::Global, AccessKind::Load));
        assert!(!request.is_empty() && !Request::none().launches().is_empty());
        // A setting without events requests nothing.
        assert!(Request::none().whole_warps().is_empty());
        assert_eq!(request.unsupported(), None);
    }

    #[test]
    fn the_first_event_that_is_not_implemented_is_named() {
        let request = Request::none()
            .events(EventKind::Ctas)
            .events(EventKind::Textures);
        let unsupported = request.unsupported();
        assert_eq!(unsupported.map(EventKind::name), Some("textures"));
    }
}
