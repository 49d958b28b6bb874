//! The delivery of a launch's records to tools.
//!
//! Each worker appends records to the buffer of the CTA that it runs. When CTAs have ended, a worker delivers the
//! records of the ended CTAs in grid order, up to the first CTA that has not ended. Only one worker at a time delivers
//! records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use margay_ir::observe::{AccessMode, ObservedEvent};
use margay_jit::counters::Counters;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustc_hash::FxHashMap;

use super::buffer::{CtaBuffer, Storage};
use super::event::{Cta, Event, Events};
use super::raw::{self, RawAccess, RawAddresses, RawEvent};
use super::request::EventKind;
use super::tally::{Tally, Totals};
use super::tools::{Observers, Receiver};
use super::worker::{Idle, Workers};
use super::{AccessCount, AccessKind, Launch, Request, Space};

/// The records of a launch that have not been delivered to the tools, and the tools that receive
/// them.
pub(crate) struct LaunchSink {
    launch: Launch,
    /// The tools that receive the launch's events by [`super::Tool::events`].
    receivers: Vec<Arc<Receiver>>,
    /// The tools that receive the events of CTAs by [`super::Worker`].
    immediate: Vec<Arc<Receiver>>,
    idle: Idle,
    /// What is counted for tools, and the tallies that no thread uses at the moment.
    counting: Counting,
    tallies: Mutex<Vec<Tally>>,
    storage: Storage,
    /// For each CTA that no worker runs at the moment, its records that have not been delivered.
    buffers: Mutex<FxHashMap<u64, CtaBuffer>>,
    state: Mutex<State>,
    /// A condition that is signalled when records have been delivered.
    delivered: Condvar,
    /// Whether records were lost because the temporary file of `storage` could not be read.
    lost: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Whether the event of the kernel's beginning has been delivered.
    begun: bool,
    /// The linear index of the first CTA in grid order whose records have not been delivered.
    next: u64,
    /// Ranges of CTAs that have ended: the first CTA and the number of CTAs.
    ended: BTreeMap<u64, u64>,
    /// Whether a worker is delivering records.
    delivering: bool,
}

/// What is counted for the tools of a launch.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counting {
    /// Whether runs of instructions are counted.
    pub(crate) runs: bool,
    /// Whether the instructions of each warp are counted.
    pub(crate) warps: bool,
    /// For each kind of access, a mask of the spaces whose accesses are counted.
    accesses: [u8; AccessKind::ALL.len()],
}

impl Counting {
    fn of<'a>(requests: impl Iterator<Item = &'a Request> + Clone) -> Counting {
        let any = |counts: &dyn Fn(&Request) -> bool| requests.clone().any(counts);
        let counts = |space, kind| any(&|request| request.counts_access(space, kind));
        Counting {
            runs: any(&Request::counts_runs),
            warps: any(&Request::counts_warps),
            accesses: AccessKind::ALL.map(|kind| {
                let spaces = Space::ALL.into_iter().filter(|&space| counts(space, kind));
                spaces.fold(0, |all, space| all | 1 << space as u32)
            }),
        }
    }

    /// Returns whether anything is counted.
    pub(crate) fn any(self) -> bool {
        self.runs || self.accesses != [0; AccessKind::ALL.len()]
    }

    /// Returns whether accesses with the mode `mode` to the space `space` are counted.
    pub(crate) fn has_access(self, space: Space, mode: AccessMode) -> bool {
        self.accesses[raw::kind_of(mode) as usize] >> space as u32 & 1 != 0
    }
}

/// What the sink delivers next: the beginning of the kernel, or the records of a range of CTAs.
enum Delivery {
    Begin,
    Ctas(u64, u64),
}

impl LaunchSink {
    /// Creates the sink of a launch; returns `None` if no tool wants the launch's events.
    pub(crate) fn new(observers: &Observers, launch: Launch) -> Option<LaunchSink> {
        let all = observers.of_launch(&launch);
        if all.is_empty() {
            return None;
        }
        let mut workers = Vec::new();
        let (mut receivers, mut immediate) = (Vec::new(), Vec::new());
        for receiver in all {
            match receiver.worker(&launch) {
                None => receivers.push(receiver),
                Some(worker) => {
                    workers.push((Arc::clone(&receiver), worker));
                    immediate.push(receiver);
                }
            }
        }
        let all = receivers.iter().chain(&immediate);
        let counting = Counting::of(all.map(|receiver| &receiver.request));
        Some(LaunchSink {
            launch,
            counting,
            tallies: Mutex::default(),
            receivers,
            immediate,
            idle: Idle::new(workers),
            storage: Storage::new(observers.limit()),
            buffers: Mutex::default(),
            state: Mutex::default(),
            delivered: Condvar::new(),
            lost: AtomicBool::new(false),
        })
    }

    /// Returns what is counted.
    pub(crate) fn counting(&self) -> Counting {
        self.counting
    }

    /// Returns a tally for the calling thread, which runs native code with these counters.
    pub(crate) fn take_tally(&self, counters: Option<&Counters>) -> Tally {
        let known = self.tallies.lock().pop();
        known.unwrap_or_else(|| Tally::new(counters))
    }

    /// Stores a tally that [`LaunchSink::take_tally`] has returned.
    pub(crate) fn put_tally(&self, tally: Tally) {
        self.tallies.lock().push(tally);
    }

    /// Passes the counts of the launch to the tools that request them.
    fn tell_counts(&self, counters: Option<&Counters>) {
        let mut totals = Totals::default();
        for tally in std::mem::take(&mut *self.tallies.lock()) {
            tally.add_to(&mut totals, counters);
        }
        for (run, count) in totals.runs {
            self.tell(Event::InstructionCount(run.event(count)));
        }
        for ((instruction, shape), places) in totals.accesses {
            let (access, loc) = instruction.unpack();
            for (place, &requests) in places.iter().enumerate().filter(|(_, count)| **count != 0) {
                let what = RawAccess {
                    access: &access,
                    loc,
                    space: instruction.space,
                    warp: 0,
                    mask: shape.mask,
                    addresses: RawAddresses::Each(&shape.addresses(place)),
                    is_counted: false,
                };
                let mut addresses = [0; 32];
                let access = raw::access_of(&what, &mut addresses);
                self.tell(Event::AccessCount(AccessCount { access, requests }));
            }
        }
    }

    /// Returns whether a tool without receivers of its own wants an access of the kind `kind` to the space `space` as an
    /// event. `is_counted` states whether the access was counted for tools that request counts.
    fn wants(&self, space: Space, kind: AccessKind, is_counted: bool) -> bool {
        let mut requests = self.receivers.iter().map(|receiver| receiver.request);
        requests.any(|request| request.has_each(space, kind, is_counted))
    }

    /// Returns whether a tool receives recorded events of CTAs.
    pub(crate) fn records(&self) -> bool {
        !self.receivers.is_empty()
    }

    /// Returns the receivers to which the calling thread passes events without delay. `None` if no
    /// tool has such receivers.
    pub(crate) fn take_workers(&self) -> Option<Workers> {
        self.idle.take(&self.launch, &self.immediate)
    }

    /// Returns the receivers that [`LaunchSink::take_workers`] has returned, for another thread.
    pub(crate) fn put_workers(&self, workers: Workers) {
        self.idle.put(workers);
    }

    /// Returns the CTA with linear index `linear`.
    pub(crate) fn cta(&self, linear: u64) -> Cta {
        Cta {
            index: self.launch.grid.position(linear),
            linear,
        }
    }

    /// Appends an access to the records of a CTA, if a tool wants the access.
    pub(crate) fn record(&self, buffer: &mut CtaBuffer, what: &RawAccess<'_>) {
        if self.wants(what.space, raw::kind_of(what.access.mode), what.is_counted) {
            buffer.access(&self.storage, what);
        }
    }

    /// Appends an event other than an access to the records of a CTA, unless it is a run of instructions that was only
    /// counted.
    pub(crate) fn record_event(&self, buffer: &mut CtaBuffer, what: &RawEvent<'_>) {
        let is_run = matches!(what.event, ObservedEvent::InstructionRun { .. });
        let wants = |receiver: &Arc<Receiver>| {
            let request = &receiver.request;
            request.has(EventKind::InstructionRuns) && !request.receives_counts()
        };
        if !is_run || self.receivers.iter().any(wants) {
            buffer.event(&self.storage, what);
        }
    }

    /// Removes from the sink the records that a CTA has caused so far, and returns them. A worker
    /// calls this function before it starts or continues the CTA.
    pub(crate) fn open(&self, cta: u64) -> CtaBuffer {
        self.buffers.lock().remove(&cta).unwrap_or_default()
    }

    /// Stores in the sink the records of a CTA that no longer runs on the calling worker.
    pub(crate) fn close(&self, cta: u64, mut buffer: CtaBuffer) {
        buffer.seal(&self.storage);
        self.buffers.lock().insert(cta, buffer);
    }

    /// Delivers the event of the kernel's beginning, unless it has been delivered before.
    pub(crate) fn begin(&self) {
        let state = self.state.lock();
        if !state.begun {
            self.deliver_all(state);
        }
    }

    /// Notes that the CTAs `first .. first + count` have ended, and delivers all records before
    /// those of the first CTA in grid order that has not ended.
    pub(crate) fn ended(&self, first: u64, count: u64) {
        let mut state = self.state.lock();
        state.ended.insert(first, count);
        // If another worker delivers records more slowly than CTAs produce them, this worker waits.
        while state.delivering && self.storage.is_full() && !crate::fault::pending() {
            let pause = std::time::Duration::from_millis(10);
            self.delivered.wait_for(&mut state, pause);
        }
        self.deliver_all(state);
    }

    /// Delivers the remaining records, including those of CTAs that have not completed, and the
    /// event of the kernel's end. Does nothing if the event of the kernel's beginning has not been
    /// delivered. The caller ensures that no CTA of the launch runs.
    pub(crate) fn finish(&self, completed: bool, counters: Option<&Counters>) {
        let mut state = self.state.lock();
        while state.delivering {
            self.delivered.wait(&mut state);
        }
        if !state.begun {
            return;
        }
        state.delivering = true;
        let ended = std::mem::take(&mut state.ended);
        drop(state);
        let ended: BTreeSet<u64> = ended
            .into_iter()
            .flat_map(|(first, count)| first..first + count)
            .collect();
        let begun: BTreeSet<u64> = self.buffers.lock().keys().copied().collect();
        for &cta in begun.union(&ended) {
            let buffer = self.buffers.lock().remove(&cta).unwrap_or_default();
            self.deliver_cta(cta, buffer, ended.contains(&cta));
        }
        self.idle.clear();
        if self.counting.any() {
            self.tell_counts(counters);
        }
        let lost = self.lost.load(Ordering::Relaxed);
        self.tell(Event::KernelEnd { completed, lost });
    }

    fn deliver_all(&self, mut state: MutexGuard<'_, State>) {
        if state.delivering {
            return;
        }
        state.delivering = true;
        while let Some(delivery) = state.take() {
            MutexGuard::unlocked(&mut state, || match delivery {
                Delivery::Begin => self.tell(Event::KernelBegin),
                Delivery::Ctas(first, count) => self.deliver_ctas(first, count),
            });
            self.delivered.notify_all();
        }
        state.delivering = false;
        self.delivered.notify_all();
    }

    fn deliver_ctas(&self, first: u64, count: u64) {
        let wants = |receiver: &Arc<Receiver>| receiver.request.has(EventKind::Ctas);
        if !self.records() && !self.immediate.iter().any(wants) {
            return;
        }
        for cta in first..first + count {
            let buffer = self.buffers.lock().remove(&cta);
            self.deliver_cta(cta, buffer.unwrap_or_default(), true);
        }
    }

    fn deliver_cta(&self, linear: u64, buffer: CtaBuffer, completed: bool) {
        let cta = self.cta(linear);
        let mut first = Some(Event::CtaBegin(cta));
        let mut chunks = buffer.into_chunks().into_iter().peekable();
        loop {
            let words = match chunks.next().map(|chunk| self.storage.take(chunk)) {
                None => Vec::new(),
                Some(Ok(words)) => words,
                Some(Err(error)) => {
                    crate::error::tell(&format!("records of tools are lost: {error}"));
                    self.lost.store(true, Ordering::Relaxed);
                    Vec::new()
                }
            };
            let is_last = chunks.peek().is_none();
            let last = is_last.then_some(Event::CtaEnd { cta, completed });
            self.pass(Some(cta), (first.take(), last), &words);
            if is_last {
                return;
            }
        }
    }

    /// Delivers to all tools an event that belongs to no CTA.
    fn tell(&self, event: Event<'_>) {
        self.pass(None, (Some(event), None), &[]);
    }

    /// Passes to all tools the event `first`, the events in `records` and the event `last`.
    fn pass<'a>(
        &'a self,
        cta: Option<Cta>,
        (first, last): (Option<Event<'a>>, Option<Event<'a>>),
        records: &'a [u64],
    ) {
        let recorded = self.receivers.iter().map(|receiver| (receiver, records));
        let immediate = self.immediate.iter().map(|receiver| (receiver, &[][..]));
        for (receiver, records) in recorded.chain(immediate) {
            let request = &receiver.request;
            if cta.is_some() && records.is_empty() && !request.has(EventKind::Ctas) {
                continue;
            }
            let events = Events {
                first,
                last,
                records,
                request,
                cta,
            };
            receiver.receive(&self.launch, events);
        }
    }
}

impl State {
    /// Returns what must be delivered next; `None` if the next CTA in grid order has not ended.
    fn take(&mut self) -> Option<Delivery> {
        if !self.begun {
            self.begun = true;
            return Some(Delivery::Begin);
        }
        let count = self.ended.remove(&self.next)?;
        let first = self.next;
        self.next += count;
        Some(Delivery::Ctas(first, count))
    }
}

impl std::fmt::Debug for LaunchSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LaunchSink({})", self.launch.kernel.name)
    }
}
