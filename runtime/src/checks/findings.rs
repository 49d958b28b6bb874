//! The table of findings of a machine, and the log of a checking run.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use indexmap::IndexMap;
use margay_ir::observe::AccessMode;
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::json;

use super::filter::LaunchFilter;
use super::log::Log;
use super::{
    Access, AfterError, Finding, Kind, Options, Place, Shadow, ThreadPlace, Tools, more_specific,
};
use crate::call_stack::{CallStack, HostFrame};
use crate::error::{Fault, FaultKind};
use crate::launch::LaunchConfig;

/// Maximum number of findings that are kept.
const MOST: usize = 1 << 14;

/// The key of a finding. Findings with equal keys count as one finding that occurred several times.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Key {
    kind: Kind,
    kernel: Option<String>,
    place: Place,
    access: Option<Access>,
    /// The place of the second access of a race.
    other: Option<Place>,
    /// For a finding that refers to a call of the host and to no instruction of a kernel: the
    /// memory address that the finding names, the message, and the call stack of the host. For
    /// objects that the program does not destroy, only the call stack that created them counts.
    host: Option<(Option<u64>, String, Vec<usize>)>,
}

/// Returns the part of a place that identifies a finding: the position in the source or, if it is unknown, the PTX
/// line. If the source position is known, the result does not contain the PTX line, because loops
/// that the compiler has unrolled have several PTX lines for one line of the source.
fn location(place: &Place) -> Place {
    Place {
        ptx_line: place.ptx_line.filter(|_| place.source.is_none()),
        source: place.source.clone(),
    }
}

impl Key {
    fn of(finding: &Finding, call: Option<&CallStack>) -> Key {
        let at_host = finding.kernel.is_none();
        Key {
            kind: finding.kind,
            kernel: finding.kernel.clone(),
            place: location(&finding.place),
            access: finding.access,
            other: finding.other.as_ref().map(|other| location(&other.place)),
            host: at_host.then(|| {
                let addresses = call.map_or(&[][..], CallStack::addresses);
                let (address, text) = match finding.kind {
                    // A call in a loop can create thousands of objects.
                    Kind::LeakedObject if !addresses.is_empty() => (None, String::new()),
                    _ => (finding.address, finding.text.clone()),
                };
                (address, text, addresses.to_vec())
            }),
        }
    }
}

/// A finding in the table.
#[derive(Debug)]
struct Entry {
    finding: Finding,
    /// The number of the finding, which identifies it in the log.
    id: u64,
    /// The number of occurrences of the finding that was last written to the log.
    logged: u64,
}

impl Entry {
    fn add(&mut self, again: &Finding) {
        self.finding.count += again.count;
        self.finding.severity = self.finding.severity.max(again.severity);
        self.finding.missing = more_specific(self.finding.missing, again.missing);
    }
}

/// The findings of all launches of a machine.
#[derive(Debug, Default)]
pub struct Findings {
    found: Mutex<IndexMap<Key, Entry>>,
    /// The index in `found` of each finding. The key is the number of the finding (`Entry::id`).
    places: Mutex<FxHashMap<u64, usize>>,
    next: AtomicU64,
    /// Whether the count of at least one finding may differ from the count that the log states.
    changed: AtomicBool,
    /// Number of findings that were dropped because the table was full.
    lost: AtomicU64,
    /// Whether the run has printed the message that the order in which threads ran determined which
    /// threads synchronised ([`Findings::ran_in_one_order`]).
    ordered: AtomicBool,
    /// Whether the run has printed the message that memory was not examined for leaks
    /// ([`Findings::note_unexamined_leaks`]).
    unexamined_leaks: AtomicBool,
    /// Whether the run has printed the message that kernels did not run
    /// ([`Findings::note_skipped_kernels`]).
    skipped_kernels: AtomicBool,
    /// Whether the run has printed the message that the race detector has stopped
    /// ([`Detector::has_given_up`]).
    ///
    /// [`Detector::has_given_up`]: margay_shadow::race::Detector::has_given_up
    gave_up: AtomicBool,
    log: Option<Log>,
    tools: Tools,
    options: Options,
    filter: LaunchFilter,
    /// Two addresses of device memory that suppressed accesses use instead of their own addresses: one address for
    /// accesses with the mode `Load`, and one for all other accesses.
    spare: OnceLock<[u64; 2]>,
    /// The launches that a finding has ended.
    ended: Mutex<FxHashSet<u64>>,
    /// See [`Findings::suppressed`].
    suppressed: Mutex<FxHashMap<u64, Fault>>,
    /// The kinds of the errors that contexts return because of suppressed accesses, or because of
    /// faults that findings report.
    explained: Mutex<FxHashSet<FaultKind>>,
    shadow: Shadow,
}

impl Findings {
    pub(crate) fn new(tools: Tools) -> Findings {
        let findings = Findings {
            tools,
            shadow: Shadow::new(tools),
            log: Log::from_env(),
            options: Options::from_env(),
            filter: LaunchFilter::from_env(),
            ..Findings::default()
        };
        findings.log_event(json!({"event": "start"}));
        findings
    }

    /// Returns the options of the checking run.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Decides whether a launch must end after it has performed an operation that would end the
    /// launch on a GPU. If the launch must end, records the launch for [`Findings::spares_context`]
    /// and returns true.
    pub(crate) fn ends(&self, launch: u64) -> bool {
        let ends = matches!(
            self.options.after_error,
            AfterError::EndKernel | AfterError::EndContext
        );
        if ends {
            self.ended.lock().insert(launch);
        }
        ends
    }

    /// Records the fault that a suppressed access of a launch would cause on a GPU, unless a fault
    /// of an earlier access of the launch is already recorded. Does nothing unless the option
    /// `after_error` is [`AfterError::SetError`].
    pub(crate) fn suppressed(&self, launch: u64, fault: impl FnOnce() -> Fault) {
        if self.options.after_error == AfterError::SetError {
            self.suppressed.lock().entry(launch).or_insert_with(fault);
        }
    }

    /// Removes and returns the fault of the first suppressed access of a launch that is over, and records its kind for
    /// [`Findings::explains`]. Returns `None` unless the options make such a fault an error of the context
    /// ([`AfterError::SetError`]).
    pub(crate) fn take_suppressed(&self, launch: u64) -> Option<Fault> {
        let fault = self.suppressed.lock().remove(&launch)?;
        self.explained.lock().insert(fault.kind);
        Some(fault)
    }

    /// Returns whether `is` is true for the kind of an error that contexts return because of a
    /// suppressed access, or because of a fault that a finding reports. The tool apicheck does not
    /// report calls that fail with such an error, because the run has already reported the cause.
    pub(crate) fn explains(&self, is: impl Fn(FaultKind) -> bool) -> bool {
        self.explained.lock().iter().any(|&kind| is(kind))
    }

    /// Returns whether the context stays usable after a launch that has ended with a fault. The
    /// context stays usable if a finding has ended the launch, and the options state that a finding
    /// ends only its kernel ([`AfterError::EndKernel`]). Must be called at most once for each
    /// launch.
    pub(crate) fn spares_context(&self, launch: u64) -> bool {
        let by_finding = self.ended.lock().remove(&launch);
        by_finding && self.options.after_error == AfterError::EndKernel
    }

    /// Returns whether the checking run examines a launch. Adds the launch to the log if the options require this. Must
    /// be called exactly once for each launch, because each call counts one launch.
    pub(crate) fn selects(&self, kernel: &str, config: &LaunchConfig) -> bool {
        if self.options.list_launches {
            let array = |d: crate::launch::Dim3| [d.x, d.y, d.z];
            self.log_event(json!({
                "event": "launch", "kernel": kernel, "grid": array(config.grid),
                "block": array(config.block), "shared": config.shared,
            }));
        }
        self.filter.selects(kernel)
    }

    /// Returns whether the order in which threads ran determined which threads synchronised with
    /// each other, for example through locks or queues. If the order determined this, a run in
    /// another order may have races that this run does not have.
    pub fn ran_in_one_order(&self) -> bool {
        self.ordered.load(Ordering::Relaxed)
    }

    /// Returns the tools that the options of the checking run select.
    pub(crate) fn tools(&self) -> Tools {
        self.tools
    }

    /// Returns the shadow memory of the checking run.
    pub(crate) fn shadow(&self) -> &Shadow {
        &self.shadow
    }

    /// Records that a launch has begun.
    pub(crate) fn begin_launch(&self, launch: u64) {
        if let Some(races) = &self.shadow.races {
            races.lock().begin_launch(launch);
        }
    }

    /// Ends a launch: adds the races of the launch to the findings, and writes the counts that have changed to the log.
    pub(crate) fn end_launch(&self, launch: u64) {
        if let Some(races) = &self.shadow.races {
            let (found, scheduled) = {
                let mut races = races.lock();
                let found = races.end_launch(launch);
                if races.detector.has_given_up() && !self.gave_up.swap(true, Ordering::Relaxed) {
                    crate::error::tell(
                        &"racecheck: too many threads synchronise with each other through atomic accesses; accesses \
                          after that were not checked for races",
                    );
                }
                (found, races.detector.depends_on_schedule())
            };
            if scheduled {
                self.tell_once(
                    &self.ordered,
                    "order",
                    "racecheck: the order of the threads decides which of them synchronise (locks, queues); checked \
                     launches ran in one order",
                );
            }
            for (finding, call) in found {
                self.add(finding, call.as_ref());
            }
        }
        self.log_counts();
    }

    /// Stores the addresses of the device memory that suppressed accesses use instead of their own
    /// addresses. The memory at each address is large enough for the largest access.
    pub(crate) fn set_spare(&self, spare: [u64; 2]) {
        let _ = self.spare.set(spare);
    }

    /// Returns the address that a suppressed access uses instead of its own address. Accesses with the mode `Load` and
    /// all other accesses get different addresses. Nothing ever writes at the address for loads, so a suppressed load
    /// reads zeros. The caller must zero the other address before an atomic access.
    pub(crate) fn spare(&self, mode: AccessMode) -> u64 {
        let [loads, others] = self.spare.get().copied().unwrap_or_default();
        match mode {
            AccessMode::Load | AccessMode::Copy => loads,
            _ => others,
        }
    }

    /// Writes a completed call of the API to the log.
    pub(crate) fn log_call(&self, name: &str, arguments: &str, result: &str, call: &CallStack) {
        let host: Vec<_> = call.frames().iter().map(HostFrame::to_json).collect();
        self.log_event(json!({
            "event": "call", "name": name, "arguments": arguments, "result": result, "host": host,
        }));
    }

    /// Records a finding. If the same finding occurred before, adds its count to the known finding. `call` is the stack
    /// of the call that launched the kernel, or of the call that the finding is about.
    ///
    /// Returns the number of the finding, which the caller can pass to [`Findings::again`], or
    /// `None` if the finding is dropped. Does not return if the options state that the first
    /// finding ends the process.
    pub(crate) fn add(&self, finding: Finding, call: Option<&CallStack>) -> Option<u64> {
        if !self.tools.contains(finding.kind.tool()) || !self.options.reports(finding.kind) {
            return None;
        }
        let id = self.record(finding, call);
        if self.options.ends_at_first {
            crate::process::end_with_failure();
        }
        id
    }

    fn record(&self, mut finding: Finding, call: Option<&CallStack>) -> Option<u64> {
        let key = Key::of(&finding, call);
        if let Some(id) = self.add_to_known(&key, &finding) {
            return Some(id);
        }
        if let Some(call) = call {
            // The search for the names of frames can take long, so this function holds no lock during the search.
            finding.host = call.frames().to_vec();
        }
        let mut found = self.found.lock();
        if let Some(known) = found.get_mut(&key) {
            known.add(&finding);
            self.changed.store(true, Ordering::Relaxed);
            return Some(known.id);
        }
        if found.len() == MOST {
            if self.lost.fetch_add(1, Ordering::Relaxed) == 0 {
                let text = format_args!(
                    "{MOST} different findings were recorded; others are not recorded"
                );
                crate::error::tell(&text);
                self.log_event(json!({"event": "incomplete"}));
            }
            return None;
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.tell(&finding, id);
        let logged = finding.count;
        let entry = Entry {
            finding,
            id,
            logged,
        };
        let (index, _) = found.insert_full(key, entry);
        self.places.lock().insert(id, index);
        Some(id)
    }

    /// Records a finding about the fault that has ended a launch, unless the launch exceeded its
    /// time limit. An endless wait is always recorded. Any other fault is recorded only if the
    /// launch is examined, the host did not stop the launch, and no earlier finding has ended it.
    /// `call` is the stack of the call that submitted the launch, or `None` if the checking run
    /// does not examine the launch.
    pub(crate) fn add_fault(&self, launch: u64, fault: &Fault, call: Option<&CallStack>) {
        let finding = match fault.kind {
            FaultKind::Deadlock | FaultKind::Hang => wait_finding(fault),
            FaultKind::Timeout => return,
            _ if call.is_none() || fault.is_stop() || self.has_ended(launch) => return,
            _ => fault_finding(fault),
        };
        let kind = finding.kind;
        if self.add(finding, call).is_some() && kind == Kind::KernelFault {
            self.explained.lock().insert(fault.kind);
        }
    }

    /// Returns whether a finding has ended a launch.
    fn has_ended(&self, launch: u64) -> bool {
        self.ended.lock().contains(&launch)
    }

    /// Counts one more occurrence of the finding with the number `id`. Returns false if the finding is not in the
    /// table any more.
    pub(crate) fn again(&self, id: u64) -> bool {
        let mut found = self.found.lock();
        let index = self.places.lock().get(&id).copied();
        let entry = index.and_then(|index| found.get_index_mut(index));
        let entry = entry.map(|(_, entry)| entry).filter(|entry| entry.id == id);
        self.changed.store(true, Ordering::Relaxed);
        entry.map(|entry| entry.finding.count += 1).is_some()
    }

    /// If the table contains a finding with this key, adds the count of `finding` to the finding in
    /// the table, and returns the number of the latter.
    fn add_to_known(&self, key: &Key, finding: &Finding) -> Option<u64> {
        let mut found = self.found.lock();
        let known = found.get_mut(key)?;
        known.add(finding);
        self.changed.store(true, Ordering::Relaxed);
        Some(known.id)
    }

    /// Writes a finding to the log. If there is no log or writing to it fails, writes the finding
    /// to standard error.
    fn tell(&self, finding: &Finding, id: u64) {
        let is_logged = self.log.as_ref().is_some_and(|log| {
            let mut record = finding.to_json();
            record["id"] = id.into();
            log.write(&log.line(record))
        });
        if !is_logged {
            crate::error::tell(finding);
        }
    }

    /// Reports that the run does not search the memory of a context for leaks, because an error has
    /// ended this context. The message is written only once in a run.
    pub(crate) fn note_unexamined_leaks(&self) {
        self.tell_once(
            &self.unexamined_leaks,
            "leaks-unexamined",
            "leakcheck: memory was not examined, because an error has ended its context",
        );
    }

    /// Reports that a kernel did not run, because an error had ended its context. The message is
    /// written only once in a run.
    pub(crate) fn note_skipped_kernels(&self) {
        self.tell_once(
            &self.skipped_kernels,
            "kernels-skipped",
            "kernels that the program launched after an error did not run and were not examined",
        );
    }

    /// Writes an event to the log or, if this is not possible, writes a text to standard error.
    /// Does nothing if `told` states that the run has already written this message.
    fn tell_once(&self, told: &AtomicBool, event: &str, text: &'static str) {
        if !told.swap(true, Ordering::Relaxed) && !self.log_event(json!({"event": event})) {
            crate::error::tell(&text);
        }
    }

    /// Writes to the log that the process will call [`Findings::log_exit`] when it exits.
    pub(crate) fn log_exits(&self) {
        self.log_event(json!({"event": "exits"}));
    }

    /// Writes to the log that the process has examined everything that it examines when it exits. A process that a
    /// signal ends, or that calls `_exit`, does not write this.
    pub(crate) fn log_exit(&self) {
        self.log_event(json!({"event": "exit"}));
    }

    /// Writes an event of the process to the log. Returns false if there is no log or writing to it
    /// fails.
    fn log_event(&self, event: serde_json::Value) -> bool {
        let log = self.log.as_ref();
        log.is_some_and(|log| log.write(&log.line(event)))
    }

    /// Writes to the log how often each finding has occurred, for all findings whose count has
    /// changed since the last call.
    pub(crate) fn log_counts(&self) {
        let Some(log) = &self.log else {
            return;
        };
        if !self.changed.load(Ordering::Relaxed) {
            return;
        }
        // `add` changes counts only while it holds the lock.
        let mut found = self.found.lock();
        self.changed.store(false, Ordering::Relaxed);
        let mut text = String::new();
        for entry in found.values_mut() {
            if entry.logged == entry.finding.count {
                continue;
            }
            entry.logged = entry.finding.count;
            let severity = entry.finding.severity.name();
            let update = json!({
                "id": entry.id, "count": entry.logged, "severity": severity,
            });
            text.push_str(&log.line(update));
        }
        if !text.is_empty() {
            log.write(&text);
        }
    }

    /// Removes and returns all findings in the order in which they were recorded, and the number of dropped findings.
    pub(crate) fn take(&self) -> (Vec<Finding>, u64) {
        let found = std::mem::take(&mut *self.found.lock());
        let lost = self.lost.swap(0, Ordering::Relaxed);
        (
            found.into_values().map(|entry| entry.finding).collect(),
            lost,
        )
    }
}

/// Creates the finding about a fault of threads that wait for each other, or for memory that nothing changes.
fn wait_finding(fault: &Fault) -> Finding {
    let cause = match fault.kind {
        FaultKind::Deadlock => "Threads wait for each other",
        _ => "Threads wait for memory that nothing changes",
    };
    let text = format!("Barrier error detected. {cause}");
    let mut finding = finding_at(Kind::Deadlock, text, fault);
    finding.explanation = Some(fault.detail.replace("\n  ", "; "));
    finding
}

/// Creates the finding about a fault that is neither a deadlock nor a hang. The finding's text
/// names the cause of the fault. The finding's explanation is the detail of the fault, for example
/// the text of an assertion.
fn fault_finding(fault: &Fault) -> Finding {
    let has_detail = !fault.detail.is_empty();
    let (cause, detail) = match fault.kind {
        FaultKind::LaunchFailed if has_detail => (fault.detail.as_str(), None),
        kind => (kind.text(), has_detail.then(|| fault.detail.clone())),
    };
    let mut finding = finding_at(Kind::KernelFault, format!("Kernel fault: {cause}"), fault);
    finding.explanation = detail;
    finding.address = fault.address;
    finding
}

/// Creates a finding that contains the kernel, the position and the thread of a fault.
fn finding_at(kind: Kind, text: String, fault: &Fault) -> Finding {
    let mut finding = Finding::new(kind, text);
    finding.kernel = Some(fault.kernel.clone());
    finding.place = Place {
        ptx_line: fault.ptx_line,
        source: fault.source.clone(),
    };
    finding.thread = fault
        .cta
        .zip(fault.thread)
        .map(|(block, thread)| ThreadPlace { thread, block });
    finding
}
