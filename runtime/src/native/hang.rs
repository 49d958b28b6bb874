//! The part of hang detection (`scheduler::hang`) that examines one launch. It determines whether the threads of the
//! launch only poll memory, and which addresses they poll.
//!
//! If the run checks races, the observed accesses show whether the threads only poll memory. In any
//! other run, this module assumes that the threads only poll memory if the loops in which they wait,
//! and the loops around them, write no memory except with atomic exchanges and compare-and-swaps. It
//! examines the loops of the kernel and of all functions that the kernel may call. A call counts as
//! a write.

use std::sync::atomic::{AtomicBool, Ordering};

use margay_ir::analysis::Cfg;
use margay_ir::analysis::callees::callees;
use margay_ir::analysis::loops::Loops;
use margay_ir::entity::Block;
use margay_ir::function::{Function, SourceLoc};
use margay_ir::module::Module;
use margay_ir::observe::AccessMode;
use margay_ops::meaning::Bits;
use margay_ops::mods::AtomOp;
use margay_ops::ops::{Effects, Opcode};
use parking_lot::Mutex;
use rustc_hash::FxHashSet;

use super::faults;
use super::launch::PtxLaunch;
use super::observe::Observed;
use super::reach::is_in_workspace;
use crate::checks::Tool;
use crate::engine::{Hang, Polling};
use crate::memory::MemoryKind;

/// Maximum number of polls in [`Waits`].
const MOST: usize = 16;

/// The observed accesses of the threads of a launch that makes no progress: the polls of the
/// threads, and whether a thread has changed memory.
#[derive(Debug, Default)]
pub(super) struct Waits {
    is_observed: AtomicBool,
    /// Whether a thread may have changed memory, or the threads have read more than [`MOST`] addresses.
    changed: AtomicBool,
    polls: Mutex<Vec<Poll>>,
}

/// A recorded read of memory by a thread that polls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Poll {
    address: u64,
    bytes: u32,
    loc: SourceLoc,
    cta: u64,
    thread: u32,
}

impl Waits {
    /// Returns whether [`Waits::note`] must be called for each access.
    #[inline]
    pub(super) fn is_observed(&self) -> bool {
        self.is_observed.load(Ordering::Relaxed)
    }

    fn begin(&self) {
        self.polls.lock().clear();
        self.changed.store(false, Ordering::SeqCst);
        self.is_observed.store(true, Ordering::SeqCst);
    }

    /// Records an access of a thread of the CTA with the linear index `cta`: whether the access changes memory and, for
    /// a read, which address it reads.
    #[cold]
    pub(super) fn note(
        &self,
        cta: u64,
        at: &Observed<'_>,
        (address, bytes): (u64, u32),
        operands: &[Bits],
    ) {
        if at.access.mode.writes() && changes(at, address, operands) {
            self.changed.store(true, Ordering::SeqCst);
        }
        if !matches!(at.access.mode, AccessMode::Load | AccessMode::Update) {
            return;
        }
        let mut polls = self.polls.lock();
        let is_known = |poll: &Poll| (poll.address, poll.loc) == (address, at.loc);
        if polls.len() < MOST && !polls.iter().any(is_known) {
            polls.push(Poll {
                address,
                bytes,
                loc: at.loc,
                cta,
                thread: at.thread,
            });
        } else if !polls.iter().any(is_known) {
            // Threads that read more than `MOST` addresses probably do more than wait.
            self.changed.store(true, Ordering::SeqCst);
        }
    }
}

/// Returns whether a write that is about to be performed may change the contents of memory.
fn changes(at: &Observed<'_>, address: u64, operands: &[Bits]) -> bool {
    let access = at.access;
    let mut bytes = [0; 16];
    let count = access.element.min(16) as usize;
    if operands.is_empty()
        || access.bytes != access.element
        || crate::fault::access::read(&mut bytes[..count], address).is_err()
    {
        return true;
    }
    let old = Bits::from_le_bytes(bytes);
    let mask = margay_ops::meaning::mask(count as u32 * 8);
    let value = operands[0] & mask;
    match (access.mode, access.op) {
        (AccessMode::Store, _) | (_, AtomOp::Exch | AtomOp::Cas) if access.op != AtomOp::Cas => {
            value != old
        }
        (_, AtomOp::Cas) => value == old,
        (_, AtomOp::Add | AtomOp::Xor) => value != 0,
        (_, AtomOp::Or) => old | value != old,
        (_, AtomOp::And) => old & value != old,
        _ => true,
    }
}

impl PtxLaunch {
    pub(super) fn begin_observing_waits(&self) {
        self.waits.begin();
    }

    /// If the threads of the launch wait for a change of memory that cannot happen, returns a
    /// description of this hang.
    pub(super) fn find_hang(&self) -> Option<Hang> {
        let function = match &self.code.native {
            Ok(kernel) => &kernel.compiled.function,
            Err(_) => &self.code.module.functions[self.code.id],
        };
        let functions = with_callees(function, &self.code.module);
        let examines = self.info.spare_shared != 0;
        let findings = self.shape.findings.as_ref();
        let orders = findings.is_some_and(|findings| findings.shadow().races.is_some());
        let visible = self.shape.visible.as_ref()?;
        let is_quiet = match examines && orders {
            true => !self.waits.changed.load(Ordering::SeqCst),
            false => functions.iter().copied().all(writes_nothing_while_waiting),
        };
        if !is_quiet || functions.iter().copied().any(reads_time) {
            return None;
        }
        let polls = self.waits.polls.lock().clone();
        let by_driver_only = |kind| matches!(kind, MemoryKind::Device | MemoryKind::Pool);
        let in_window = |address: &u64| {
            visible.is_in_windows(*address) || is_in_workspace(&self.info, *address, 1)
        };
        let is_safe = match polls.is_empty() {
            true => visible.holds_only(by_driver_only),
            false => polls.iter().all(|poll| {
                in_window(&poll.address) || visible.kind(poll.address).is_some_and(by_driver_only)
            }),
        };
        if !is_safe || visible.is_exported() {
            return None;
        }
        let polling = |poll: &Poll| Polling {
            cta: self.info.cta_index(poll.cta),
            thread: self.info.thread_index(poll.thread),
            address: poll.address,
            ptx_line: (poll.loc.ptx_line != 0).then_some(poll.loc.ptx_line),
            source: faults::source_of(&self.code, poll.loc),
        };
        Some(Hang {
            ends: findings.is_some_and(|findings| findings.tools().contains(Tool::Synchronisation)),
            first: polls.first().map(polling),
            polled: polls.iter().map(|poll| self.describe_poll(poll)).collect(),
        })
    }

    fn describe_poll(&self, poll: &Poll) -> String {
        let [x, y, z] = self.info.cta_index(poll.cta);
        let [a, b, c] = self.info.thread_index(poll.thread);
        let mut bytes = [0; 16];
        let count = poll.bytes.min(16) as usize;
        let value = crate::fault::access::read(&mut bytes[..count], poll.address);
        let value = match value {
            Ok(()) => format!(", which holds {:#x}", Bits::from_le_bytes(bytes)),
            Err(_) => String::new(),
        };
        let visible = self.shape.visible.as_ref();
        let memory = visible.and_then(|visible| visible.describe(poll.address));
        let memory = memory.unwrap_or_else(|| match is_in_workspace(&self.info, poll.address, 1) {
            true => "the state of the grid barrier".to_owned(),
            false => "shared memory".to_owned(),
        });
        let place = match faults::source_of(&self.code, poll.loc) {
            Some(source) => format!(", at {source}, PTX line {}", poll.loc.ptx_line),
            // The functions of the runtime have no positions.
            None if poll.loc.ptx_line == 0 => String::new(),
            None => format!(", at PTX line {}", poll.loc.ptx_line),
        };
        format!(
            "block ({x},{y},{z}), thread ({a},{b},{c}) polls {:#x} ({memory}){value}{place}",
            poll.address
        )
    }
}

/// Returns a function, and all functions of its module that it may call.
fn with_callees<'a>(function: &'a Function, module: &'a Module) -> Vec<&'a Function> {
    let mut seen = FxHashSet::default();
    let mut found = vec![function];
    let mut at = 0;
    while let Some(&caller) = found.get(at) {
        let new = callees(module, caller).into_iter();
        let new = new.filter(|&id| seen.insert(id));
        found.extend(new.map(|id| &module.functions[id]));
        at += 1;
    }
    found
}

/// Returns whether a function reads a clock.
fn reads_time(function: &Function) -> bool {
    insts(function, function.blocks()).any(|opcode| opcode == Opcode::Clock)
}

fn insts<'a>(function: &'a Function, blocks: &'a [Block]) -> impl Iterator<Item = Opcode> + 'a {
    let insts = |&block: &Block| function.layout.insts[block].iter();
    blocks
        .iter()
        .flat_map(insts)
        .map(|&inst| function.dfg.insts[inst].opcode)
}

/// Returns true if no loop in which threads wait writes memory, and no loop that encloses such a
/// loop writes memory. Atomic exchanges and compare-and-swaps do not count as writes, because a
/// loop that polls with such an operation stores the same value in each iteration.
fn writes_nothing_while_waiting(function: &Function) -> bool {
    let loops = Loops::new(function, &Cfg::new(function));
    function.blocks().iter().all(|&block| {
        let waits = function.layout.insts[block].iter().any(|&inst| {
            let opcode = function.dfg.insts[inst].opcode;
            opcode.effects().contains(Effects::YIELDS)
        });
        let outermost = loops.and_around(loops.innermost(block)).last();
        let Some(outermost) = outermost.filter(|_| waits) else {
            return true;
        };
        loops.body(outermost).iter().all(|&block| {
            function.layout.insts[block].iter().all(|&inst| {
                let data = &function.dfg.insts[inst];
                let exchanges = matches!(data.mods.atom_op(), AtomOp::Cas | AtomOp::Exch);
                data.opcode == Opcode::Atom && exchanges
                    || !data.opcode.effects().contains(Effects::WRITES)
            })
        })
    })
}
