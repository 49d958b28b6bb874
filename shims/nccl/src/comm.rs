//! Communicators: how ranks meet, the table of handles, and the order of a communicator's work.
//!
//! The operations of a communicator run one after the other, in the order of the calls, also if they are in different
//! streams. Invariant: a handle is a number in [`TABLE`], never an address, so a wrong handle is an error.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, LazyLock, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::control::{Control, MOST_RANKS};
use crate::driver::{Driver, checked, driver};
use crate::matching::Local;
use crate::reduce::DataType;
use crate::status::{Outcome, Status, failure, need};

/// The key of a communicator, from which ranks derive the name of the file in which they meet.
pub(crate) type Key = [u8; 16];

/// One rank of a communicator.
pub(crate) struct Comm {
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    pub(crate) device: i32,
    pub(crate) context: usize,
    pub(crate) key: Key,
    pub(crate) control: Control,
    pub(crate) aborted: AtomicBool,
    /// Whether calls wait until all ranks have joined.
    pub(crate) blocking: bool,
    /// Number of communicators that were derived from this one.
    pub(crate) derived: AtomicU32,
    /// The factors of the reductions that the program has created.
    pub(crate) factors: Mutex<Vec<Option<Factor>>>,
    place: OnceLock<Option<Arc<Local>>>,
    submitted: Mutex<[Submitted; 2]>,
}

/// The factor of a reduction that the program has created.
#[derive(Clone, Copy)]
pub(crate) struct Factor {
    pub(crate) data_type: DataType,
    pub(crate) value: Value,
}

/// The bytes of a value, or its address in memory that kernels may access.
#[derive(Clone, Copy)]
pub(crate) enum Value {
    Bytes(u64),
    At(usize),
}

/// The last operation, either of those in captures or of the others.
#[derive(Default)]
struct Submitted {
    event: usize,
    /// The stream and its capture.
    last: Option<(usize, u64)>,
}

/// Where a communicator is, and who it is.
#[derive(Clone, Copy)]
pub(crate) struct Member {
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    pub(crate) device: i32,
    pub(crate) context: usize,
    pub(crate) blocking: bool,
}

static TABLE: LazyLock<Mutex<HashMap<usize, Arc<Comm>>>> = LazyLock::new(Mutex::default);
static LOCALS: LazyLock<Mutex<HashMap<Key, Weak<Local>>>> = LazyLock::new(Mutex::default);

/// Returns a number that differs between processes, also after `fork`.
fn process() -> u64 {
    static RANDOM: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0u8));
    let number = u64::from(std::process::id()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (*RANDOM ^ number) | 1
}

impl Comm {
    /// Joins a communicator. The other ranks may join later.
    pub(crate) fn join(key: Key, member: Member) -> Outcome<Arc<Comm>> {
        Comm::join_as(key, member, process())
    }

    /// Joins a communicator as a rank of the process with this number.
    pub(crate) fn join_as(key: Key, member: Member, process: u64) -> Outcome<Arc<Comm>> {
        let Member { rank, ranks, .. } = member;
        if ranks > MOST_RANKS {
            let text = format!("communicators have at most {MOST_RANKS} ranks on Margay");
            return Err(failure(Status::INVALID_USAGE, &text));
        }
        let driver = driver()?;
        let _entered = driver.enter(member.context)?;
        let control = Control::join(key, rank, ranks, process)?;
        control.register(driver)?;
        Ok(Arc::new(Comm {
            rank,
            ranks,
            device: member.device,
            context: member.context,
            key,
            control,
            aborted: AtomicBool::new(false),
            blocking: member.blocking,
            derived: AtomicU32::new(0),
            factors: Mutex::default(),
            place: OnceLock::new(),
            submitted: Mutex::default(),
        }))
    }

    /// Enters a communicator into the table, and returns its handle.
    pub(crate) fn publish(self: &Arc<Comm>) -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0x6e63_6300);
        let handle = NEXT.fetch_add(16, SeqCst);
        TABLE.lock().insert(handle, Arc::clone(self));
        handle
    }

    /// Returns the number of the process to which this rank belongs.
    pub(crate) fn process(&self) -> u64 {
        self.control.rank(self.rank).process.load(SeqCst)
    }

    /// Whether all ranks have joined.
    pub(crate) fn is_ready(&self) -> bool {
        self.control.header().joined.load(SeqCst) as usize >= self.ranks
    }

    /// Waits until all ranks have joined.
    pub(crate) fn wait_for_ranks(&self) -> Outcome {
        self.wait_until("to join", || self.is_ready())
    }

    /// Waits for the other ranks, and says so after a while.
    pub(crate) fn wait_until(&self, what: &str, holds: impl Fn() -> bool) -> Outcome {
        const PATIENCE: Duration = Duration::from_secs(30);
        let (start, mut told) = (Instant::now(), false);
        while !holds() {
            if self.aborted.load(SeqCst) {
                let text = "the communicator was aborted";
                return Err(failure(Status::INVALID_USAGE, text));
            }
            let waited = start.elapsed();
            if waited > PATIENCE && !told && std::env::var_os("MARGAY_QUIET").is_none() {
                told = true;
                let (rank, ranks) = (self.rank, self.ranks);
                eprintln!(
                    "margay: NCCL: rank {rank} of {ranks} has waited 30 s for other ranks {what}; all ranks must be \
                     processes of the same user on this host, with a common /dev/shm"
                );
            }
            let eager = waited < Duration::from_millis(2);
            std::thread::sleep(Duration::from_micros(if eager { 20 } else { 1000 }));
        }
        Ok(())
    }

    /// Returns what the ranks share if they belong to one process; `None` if they belong to several.
    pub(crate) fn local(&self) -> Option<&Arc<Local>> {
        let find = || {
            let processes = || self.control.all().map(|rank| rank.process.load(SeqCst));
            let own = self.process();
            if !processes().all(|process| process == own) {
                return None;
            }
            let mut locals = LOCALS.lock();
            locals.retain(|_, local| local.strong_count() > 0);
            if let Some(found) = locals.get(&self.key).and_then(Weak::upgrade) {
                return Some(found);
            }
            let local = Arc::new(Local::default());
            locals.insert(self.key, Arc::downgrade(&local));
            Some(local)
        };
        self.place.get_or_init(find).as_ref()
    }

    /// Submits an operation to a stream, after the earlier operations of this communicator.
    pub(crate) fn in_order(
        &self,
        stream: usize,
        submit: impl FnOnce(&'static Driver) -> Outcome,
    ) -> Outcome {
        const NO_TIMING: u32 = 2;
        let driver = driver()?;
        let _entered = driver.enter(self.context)?;
        let capture = driver.capture(stream)?;
        let mut both = self.submitted.lock();
        let submitted = &mut both[usize::from(capture != 0)];
        if submitted.event == 0 {
            // SAFETY: the variable is valid.
            let code = unsafe { (driver.create_event)(&raw mut submitted.event, NO_TIMING) };
            checked(code, "cuEventCreate")?;
        }
        let follows = |last: (usize, u64)| last != (stream, capture) && last.1 == capture;
        if submitted.last.is_some_and(follows) {
            // SAFETY: the function checks its arguments.
            let code = unsafe { (driver.wait_event)(stream, submitted.event, 0) };
            checked(code, "cuStreamWaitEvent")?;
        }
        self.control.set_unused(false);
        submit(driver)?;
        // SAFETY: the function checks its arguments.
        let code = unsafe { (driver.record_event)(submitted.event, stream) };
        checked(code, "cuEventRecord")?;
        submitted.last = Some((stream, capture));
        Ok(())
    }

    /// Lets the streams of this rank go on.
    pub(crate) fn release(&self) {
        for word in &self.control.rank(self.rank).go {
            word.store(1, SeqCst);
        }
    }

    /// Prepares the words for which the streams of this rank wait. Returns whether the communicator is in use.
    pub(crate) fn begin(&self) -> bool {
        for word in &self.control.rank(self.rank).go {
            word.store(0, SeqCst);
        }
        let aborted = self.aborted.load(SeqCst);
        if aborted {
            self.release();
        }
        !aborted
    }

    /// Ends all operations of this rank without waiting for the other ranks.
    pub(crate) fn abort(&self) {
        self.aborted.store(true, SeqCst);
        if let Some(local) = self.place.get().and_then(Option::as_ref) {
            local.forget(std::ptr::from_ref(self).addr());
        }
        self.release();
    }

    /// Frees the events. If all operations have ended, the shared memory can be freed, too.
    fn close(&self) {
        let Ok(driver) = driver() else {
            return;
        };
        let mut unused = true;
        for submitted in self
            .submitted
            .lock()
            .iter_mut()
            .filter(|one| one.event != 0)
        {
            // SAFETY: the function checks its argument.
            unused &= unsafe { (driver.query_event)(submitted.event) } == 0;
            // SAFETY: as above.
            let _ = unsafe { (driver.destroy_event)(submitted.event) };
            submitted.event = 0;
        }
        // A graph may contain operations of a capture.
        unused &= self.submitted.lock()[1].last.is_none();
        self.control.set_unused(unused);
    }
}

/// Returns the communicator of a handle.
pub(crate) fn get(handle: usize) -> Outcome<Arc<Comm>> {
    let found = TABLE.lock().get(&handle).cloned();
    need(found.is_some(), "the communicator is unknown")?;
    found.ok_or(Status::INTERNAL)
}

/// Returns the communicator of a handle if it can be used.
pub(crate) fn get_ready(handle: usize) -> Outcome<Arc<Comm>> {
    let comm = get(handle)?;
    need(
        comm.is_ready(),
        "the communicator is used before all ranks have joined",
    )?;
    Ok(comm)
}

/// Removes a communicator from the table. If `abort`, its operations end.
pub(crate) fn destroy(handle: usize, abort: bool) -> Outcome {
    let removed = TABLE.lock().remove(&handle);
    need(removed.is_some(), "the communicator is unknown")?;
    if let Some(comm) = removed {
        if abort {
            comm.abort();
        }
        comm.close();
    }
    Ok(())
}
