//! Records the events of CTAs for tools.

use margay_exec::interp::{ObservedLaneEvent, ObservedLanes};
use margay_exec::{CtaInfo, LaunchInfo};
use margay_ir::function::SourceLoc;
use margay_ir::observe::{AccessMode, ObservedAccess, ObservedEvent};
use margay_jit::counters::Counters;
use margay_ops::mods::StateSpace;
use smallvec::SmallVec;

use crate::native::launch::PtxLaunch;
use crate::observe::{
    Counting, CtaBuffer, LaunchSink, RawAccess, RawAddresses, RawEvent, Space, Tally, Workers,
};

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
    /// The counts for tools that request counts.
    tally: Option<Tally>,
    counters: Option<&'a Counters>,
    counting: Counting,
}

impl<'a> Recorder<'a> {
    pub(in crate::native) fn new(
        launch: &'a PtxLaunch,
        sink: &'a LaunchSink,
        cta: CtaInfo,
    ) -> Recorder<'a> {
        let native = launch.code.native.as_ref().ok();
        let counters = native.map(|kernel| kernel.compiled.counters());
        let counting = sink.counting();
        Recorder {
            sink,
            info: launch.info_for(&cta),
            cta,
            current: None,
            workers: sink.take_workers(),
            records: sink.records(),
            tally: counting.any().then(|| sink.take_tally(counters)),
            counters,
            counting,
        }
    }

    /// Returns the address of the counters of generated code; `None` if no tool requests counts.
    pub(in crate::native) fn counters(&mut self) -> Option<*mut u64> {
        self.tally.as_mut().map(|tally| tally.counters())
    }

    /// Returns whether the addresses of a group of accesses have 32 bits.
    pub(in crate::native) fn is_narrow(&self, group: u32) -> bool {
        let groups = self.counters.map_or(&[][..], Counters::groups);
        groups.get(group as usize).is_some_and(|group| group.narrow)
    }

    /// Counts a request of a group of accesses in all lanes of a warp.
    pub(in crate::native) fn group(&mut self, cta: u64, group: u32, first: u32, each: &[u64; 32]) {
        let (Some(tally), Some(counters)) = (&mut self.tally, self.counters) else {
            return;
        };
        if tally.group(group as usize, each) {
            return;
        }
        let Some(group) = counters.groups().get(group as usize) else {
            return;
        };
        for member in &group.members {
            let access = ObservedAccess::from_bits(member.access);
            let addresses = each.map(|address| match group.narrow {
                true => u64::from((address as u32).wrapping_add(member.offset as u32)),
                false => address.wrapping_add(member.offset as u64),
            });
            let lanes = ObservedLanes {
                access: &access,
                loc: SourceLoc::from_bits(member.loc),
                first,
                mask: u32::MAX,
                addresses: &addresses,
                lengths: None,
            };
            self.access(cta, &lanes);
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
        self.count_event((event, loc), (first, mask), operands);
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

    /// Counts a run of instructions. Passes on the number of instructions of a warp that reaches a barrier or a
    /// collective.
    fn count_event(
        &mut self,
        (event, loc): (ObservedEvent, SourceLoc),
        (first, mask): (u32, u32),
        operands: &[u32],
    ) {
        match event {
            ObservedEvent::InstructionRun { .. } if self.counting.runs => {
                let active = mask << (first % 32);
                let executed = operands.first().copied().unwrap_or(active);
                if let Some(tally) = &mut self.tally {
                    let run = (event, loc, !operands.is_empty());
                    tally.run(run, (first / 32, active, executed), self.counting.warps);
                }
            }
            ObservedEvent::Synchronisation { .. } if self.counting.warps => {
                self.flush_warp(first / 32);
            }
            _ => {}
        }
    }

    /// Passes the number of instructions of a warp to the tools that want it.
    fn flush_warp(&mut self, warp: u32) {
        let tally = self.tally.as_mut();
        let count = tally.map_or(0, |tally| tally.take_instructions(warp as usize));
        if let Some(workers) = self.workers.as_mut().filter(|_| count != 0) {
            workers.instructions(warp, count);
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
            is_counted: false,
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
        let counts = self.counting.has_access(what.space, what.access.mode);
        let tally = self.tally.as_mut().filter(|_| counts);
        let what = &RawAccess {
            is_counted: tally.is_some_and(|tally| tally.access(what)),
            ..*what
        };
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
            is_counted: false,
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
    pub(in crate::native) fn move_to(&mut self, cta: u64) {
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
            if self.counting.warps {
                (0..self.info.warps()).for_each(|warp| self.flush_warp(warp));
            }
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
        if let Some(tally) = self.tally.take() {
            self.sink.put_tally(tally);
        }
    }
}

/// Returns the mask of those lanes in `mask` for which `condition` returns true.
fn mask_of(mask: u32, condition: impl Fn(usize) -> bool) -> u32 {
    (0..32)
        .filter(|&lane| mask >> lane & 1 != 0 && condition(lane))
        .fold(0, |all, lane| all | 1 << lane)
}
