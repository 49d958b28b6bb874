//! Records the events of CTAs for tools.

use margay_exec::interp::{ObservedLaneEvent, ObservedLanes};
use margay_exec::{CtaInfo, LaunchInfo};
use margay_ir::function::SourceLoc;
use margay_ir::observe::{AccessMode, ObservedAccess, ObservedEvent};
use margay_ops::mods::StateSpace;
use smallvec::SmallVec;

use crate::native::launch::PtxLaunch;
use crate::observe::{CtaBuffer, LaunchSink, RawAccess, RawAddresses, RawEvent, Space, Workers};

/// Records the events of those CTAs that run one after the other in the same window.
pub(in crate::native) struct Recorder<'a> {
    sink: &'a LaunchSink,
    info: &'a LaunchInfo,
    cta: CtaInfo,
    /// The linear index of the current CTA, and the records of this CTA.
    current: Option<(u64, CtaBuffer)>,
    /// The receivers of tools that want events without delay.
    workers: Option<Workers>,
    /// Whether events are recorded for other tools.
    records: bool,
}

impl<'a> Recorder<'a> {
    pub(in crate::native) fn new(
        launch: &'a PtxLaunch,
        sink: &'a LaunchSink,
        cta: CtaInfo,
    ) -> Recorder<'a> {
        Recorder {
            sink,
            info: launch.info_for(&cta),
            cta,
            current: None,
            workers: sink.take_workers(),
            records: sink.records(),
        }
    }

    /// Records an access by lanes of a warp of the CTA with linear index `cta`.
    pub(in crate::native) fn access(&mut self, cta: u64, lanes: &ObservedLanes<'_>) {
        self.move_to(cta);
        match lanes
            .lengths
            .filter(|_| lanes.access.mode == AccessMode::Copy)
        {
            None => self.sized(lanes, lanes.access, lanes.mask),
            Some(lengths) => {
                // A copy can read fewer bytes than it writes.
                let mut rest = lanes.mask;
                while rest != 0 {
                    let bytes = lengths[rest.trailing_zeros() as usize];
                    let same = mask_of(rest, |lane| lengths[lane] == bytes);
                    rest &= !same;
                    let access = ObservedAccess {
                        bytes: bytes as u32,
                        ..*lanes.access
                    };
                    if bytes != 0 {
                        self.sized(lanes, &access, same);
                    }
                }
            }
        }
    }

    /// Records an event other than an access in lanes of a warp of the CTA with linear index `cta`.
    pub(in crate::native) fn event(&mut self, cta: u64, lanes: &ObservedLaneEvent<'_>) {
        let at = (lanes.event, lanes.loc);
        if lanes.event.is_choice()
            && let [values] = lanes.operands
        {
            let chosen = mask_of(lanes.mask, |lane| values[lane] as u32 != 0);
            return self.choice(cta, at, (lanes.first, lanes.mask), chosen);
        }
        self.move_to(cta);
        let operand = |index: usize, lane: usize| lanes.operands[index][lane] as u32;
        let mut rest = lanes.mask;
        while rest != 0 {
            let first = rest.trailing_zeros() as usize;
            let count = lanes.operands.len();
            let operands: SmallVec<[u32; 2]> =
                (0..count).map(|index| operand(index, first)).collect();
            let is_same = |lane| (0..count).all(|i| operand(i, lane) == operands[i]);
            let same = mask_of(rest, is_same);
            rest &= !same;
            self.event_of(at, (lanes.first, same), &operands);
        }
    }

    /// Records an event of the lanes in `mask`, whose operand states for each lane whether it is in `chosen`
    /// ([`ObservedEvent::is_choice`]). Bit 0 of the masks belongs to the thread `first`.
    pub(in crate::native) fn choice(
        &mut self,
        cta: u64,
        at: (ObservedEvent, SourceLoc),
        (first, mask): (u32, u32),
        chosen: u32,
    ) {
        self.move_to(cta);
        self.event_of(at, (first, mask), &[chosen << (first % 32)]);
    }

    /// Records an event that occurs in several lanes with the same operands.
    fn event_of(
        &mut self,
        (event, loc): (ObservedEvent, SourceLoc),
        (first, mask): (u32, u32),
        operands: &[u32],
    ) {
        let what = RawEvent {
            event,
            loc,
            warp: first / 32,
            mask: mask << (first % 32),
            operands,
        };
        if let Some(workers) = &mut self.workers {
            workers.event(&what);
        }
        if let Some((_, buffer)) = self.current.as_mut().filter(|_| self.records) {
            self.sink.record_event(buffer, &what);
        }
    }

    /// Records an access by lanes whose addresses have a common stride. In the state space of the
    /// access, the address of thread `first + n` is `base + n * stride`. Bit `n` of `mask` states
    /// whether this thread accesses memory. Returns false if the access was not recorded and the
    /// caller must record it with [`Recorder::access`].
    pub(in crate::native) fn strided(
        &mut self,
        cta: u64,
        (access, loc): (&ObservedAccess, SourceLoc),
        (first, mask): (u32, u32),
        (base, stride): (u64, i64),
    ) -> bool {
        let Some(space) = self.space_of_all(access.space) else {
            return false;
        };
        let lane = first % 32;
        let is_offset = matches!(space, Space::Shared | Space::Local);
        let last = base.wrapping_add((stride as u64).wrapping_mul(31));
        if access.mode == AccessMode::Copy || is_offset && (base | last) >> 32 != 0 {
            return false;
        }
        self.move_to(cta);
        let start = base.wrapping_sub((stride as u64).wrapping_mul(lane.into()));
        self.record(&RawAccess {
            access,
            loc,
            space,
            warp: first / 32,
            mask: mask << lane,
            addresses: RawAddresses::Strided(start, stride),
        });
        true
    }

    /// Returns the memory to which all addresses in a state space refer; `None` if the memory depends on the address.
    fn space_of_all(&self, space: StateSpace) -> Option<Space> {
        match space {
            StateSpace::Global => Some(Space::Global),
            StateSpace::Const => Some(Space::Constant),
            StateSpace::Local => Some(Space::Local),
            StateSpace::Shared | StateSpace::SharedCluster => {
                (self.info.cluster_size() == 1).then_some(Space::Shared)
            }
            _ => None,
        }
    }

    fn record(&mut self, what: &RawAccess<'_>) {
        if let Some(workers) = &mut self.workers {
            workers.access(what);
        }
        if let Some((_, buffer)) = self.current.as_mut().filter(|_| self.records) {
            self.sink.record(buffer, what);
        }
    }

    /// Records an access in which each lane accesses the same number of bytes.
    fn sized(&mut self, lanes: &ObservedLanes<'_>, access: &ObservedAccess, mask: u32) {
        let mut addresses = *lanes.addresses;
        let first = lanes.first % 32;
        let mut what = RawAccess {
            access,
            loc: lanes.loc,
            space: Space::Global,
            warp: lanes.first / 32,
            mask: mask << first,
            addresses: RawAddresses::Strided(0, 0),
        };
        if let Some(space) = self.space_of_all(access.space) {
            if matches!(space, Space::Shared | Space::Local) {
                addresses = addresses.map(|address| u64::from(address as u32));
            }
            addresses.rotate_right(first as usize);
            what.space = space;
            what.addresses = RawAddresses::Each(&addresses);
            return self.record(&what);
        }
        let mut spaces = [Space::Global; 32];
        for lane in (0..32).filter(|lane| mask >> lane & 1 != 0) {
            let thread = lanes.first + lane as u32;
            (spaces[lane], addresses[lane]) =
                self.resolve(access.space, thread, lanes.addresses[lane]);
        }
        addresses.rotate_right(first as usize);
        let mut rest = mask;
        while rest != 0 {
            what.space = spaces[rest.trailing_zeros() as usize];
            let same = mask_of(rest, |lane| spaces[lane] == what.space);
            rest &= !same;
            what.mask = same << first;
            what.addresses = RawAddresses::Each(&addresses);
            self.record(&what);
        }
    }

    /// Returns the memory to which an instruction's address in `space` refers, and the address in this memory.
    fn resolve(&self, space: StateSpace, thread: u32, address: u64) -> (Space, u64) {
        let local = self.cta.local_base + u64::from(thread) * u64::from(self.cta.local_stride);
        match space {
            StateSpace::Shared | StateSpace::SharedCluster => {
                self.in_window(u64::from(address as u32))
            }
            StateSpace::Local => (Space::Local, u64::from(address as u32)),
            StateSpace::Const => (Space::Constant, address),
            StateSpace::None if self.info.is_shared(&self.cta, address, true) => {
                self.in_window(address.wrapping_sub(self.cta.shared_base))
            }
            StateSpace::None if address.wrapping_sub(local) < u64::from(self.cta.local_stride) => {
                (Space::Local, address - local)
            }
            _ => (Space::Global, address),
        }
    }

    /// Returns the memory that contains the byte at `offset` in the shared-memory window of the
    /// cluster, and the offset of the byte in this memory.
    fn in_window(&self, offset: u64) -> (Space, u64) {
        if self.info.cluster_size() == 1 {
            return (Space::Shared, offset);
        }
        let shift = self.info.shared_shift();
        let own = u64::from(self.info.cluster_rank(&self.cta));
        match offset >> shift == own {
            true => (Space::Shared, offset - (own << shift)),
            false => (Space::SharedCluster, offset),
        }
    }

    /// Makes the CTA with linear index `cta` the current CTA.
    fn move_to(&mut self, cta: u64) {
        if self
            .current
            .as_ref()
            .is_some_and(|(known, _)| *known == cta)
        {
            return;
        }
        self.close();
        self.cta.linear = cta;
        self.cta.index = self.info.cta_index(cta);
        if let Some(workers) = &mut self.workers {
            workers.enter(&self.sink.cta(cta));
        }
        let buffer = match self.records {
            true => self.sink.open(cta),
            false => CtaBuffer::default(),
        };
        self.current = Some((cta, buffer));
    }

    fn close(&mut self) {
        if let Some((cta, buffer)) = self.current.take() {
            if let Some(workers) = &mut self.workers {
                workers.leave(&self.sink.cta(cta));
            }
            if self.records {
                self.sink.close(cta, buffer);
            }
        }
    }
}

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        self.close();
        if let Some(workers) = self.workers.take() {
            self.sink.put_workers(workers);
        }
    }
}

/// Returns the mask of those lanes in `mask` for which `condition` returns true.
fn mask_of(mask: u32, condition: impl Fn(usize) -> bool) -> u32 {
    (0..32)
        .filter(|&lane| mask >> lane & 1 != 0 && condition(lane))
        .fold(0, |all, lane| all | 1 << lane)
}
