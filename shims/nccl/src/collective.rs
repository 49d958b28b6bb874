//! Operations in which all ranks take part.
//!
//! An operation is a kernel in the stream of each rank (*arrive*), a wait until all ranks have arrived, a second kernel,
//! which does the rank's part, and a wait until all ranks have done theirs. No worker waits.
//!
//! If all ranks belong to one process, the second kernel reads and writes the memory of all ranks: each rank reduces a part
//! of the values for all. Otherwise each rank copies its values into its window of the shared memory when it arrives, and
//! reads the windows of the others; an operation that does not fit into the windows is cut into rounds. Both ways combine the
//! values in the order of the ranks.

use std::ffi::CStr;
use std::ops::Range as Span;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::comm::{Comm, Value};
use crate::control::WINDOW;
use crate::driver::{Driver, Range, driver};
use crate::launch::{LAUNCH_FAILED, range, submit};
use crate::reduce::{DataType, Reduce, Reduction};
use crate::status::{Outcome, Status, failure, need};

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    AllReduce,
    Reduce,
    Broadcast,
    AllGather,
    ReduceScatter,
}

/// A call of a collective function. `count` is the number of values of one block.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) kind: Kind,
    pub(crate) send: usize,
    pub(crate) receive: usize,
    pub(crate) count: usize,
    pub(crate) data_type: DataType,
    pub(crate) reduction: Reduction,
    pub(crate) factor: Value,
    pub(crate) root: usize,
}

impl Call {
    fn name(&self) -> &'static CStr {
        match self.kind {
            Kind::AllReduce => c"ncclAllReduce",
            Kind::Reduce => c"ncclReduce",
            Kind::Broadcast => c"ncclBroadcast",
            Kind::AllGather => c"ncclAllGather",
            Kind::ReduceScatter => c"ncclReduceScatter",
        }
    }

    fn reduces(&self) -> bool {
        !matches!(self.kind, Kind::Broadcast | Kind::AllGather)
    }

    /// Returns the numbers of values that a rank sends and receives.
    fn counts(&self, comm: &Comm) -> Option<(usize, usize)> {
        let count = self.count;
        let all = count.checked_mul(comm.ranks)?;
        let at_root = if comm.rank == self.root { count } else { 0 };
        Some(match self.kind {
            Kind::AllReduce => (count, count),
            Kind::Reduce => (count, at_root),
            Kind::Broadcast => (at_root, count),
            Kind::AllGather => (count, all),
            Kind::ReduceScatter => (all, count),
        })
    }

    fn ranges(&self, comm: &Comm) -> Option<Vec<Range>> {
        let (send, receive) = self.counts(comm)?;
        let size = self.data_type.bytes();
        Some(vec![
            range(self.send, send.checked_mul(size)?, false),
            range(self.receive, receive.checked_mul(size)?, true),
        ])
    }

    /// Returns what must be the same for all ranks.
    fn signature(&self) -> [u64; 2] {
        let words = [
            self.kind as u32,
            self.data_type as u32,
            self.reduction as u32,
            self.root as u32,
        ];
        let first = words
            .iter()
            .rev()
            .fold(0u64, |all, &word| all << 12 | u64::from(word));
        [first, self.count as u64]
    }
}

/// Submits a call to a stream.
pub(crate) fn collective(comm: &Arc<Comm>, stream: usize, call: Call) -> Outcome {
    if call.count == 0 {
        return Ok(());
    }
    let ranges = call.ranges(comm);
    need(
        ranges.as_ref().is_some_and(|ranges| {
            let ends = |range: &Range| range.address.addr().checked_add(range.bytes).is_some();
            ranges.iter().all(ends)
        }),
        "the number of values is too large",
    )?;
    let ranges = ranges.unwrap_or_default();
    let null = |range: &Range| range.address.is_null() && range.bytes != 0;
    need(!ranges.iter().any(null), "a buffer is null")?;
    let size = call.data_type.bytes();
    // Without a window, all values are one round.
    let most = match comm.local() {
        Some(_) => call.count,
        None if call.kind == Kind::ReduceScatter => WINDOW / size / comm.ranks,
        None => WINDOW / size,
    };
    let sends = call.counts(comm).is_some_and(|counts| counts.0 != 0);
    if comm.local().is_none() && sends {
        let provided = comm.control.provide(comm.control.window(comm.rank), WINDOW);
        if !provided {
            let text = "there is no memory for the data between processes (/dev/shm is full)";
            return Err(failure(Status::SYSTEM, text));
        }
    }
    comm.in_order(stream, |driver| {
        let mut start = 0;
        while start < call.count {
            let end = start + most.min(call.count - start);
            round(driver, comm, stream, call, &ranges, start..end)?;
            start = end;
        }
        Ok(())
    })
}

/// Submits the part of a call for the values in `span` of each block.
fn round(
    driver: &Driver,
    comm: &Arc<Comm>,
    stream: usize,
    call: Call,
    ranges: &[Range],
    span: Span<usize>,
) -> Outcome {
    let words = &comm.control.rank(comm.rank).go;
    let [arrived, left] = [&raw const words[0], &raw const words[1]].map(|word| word.addr());
    let step = Step {
        comm: Arc::clone(comm),
        call,
        span,
    };
    let arriving = step.clone();
    submit(driver, stream, c"ncclArrive", 1, ranges, move |_| {
        arriving.arrive()
    })?;
    driver.wait_for(stream, arrived, 1)?;
    let tasks = step.tasks((driver.native.workers)());
    let open = AtomicU32::new(tasks);
    submit(driver, stream, call.name(), tasks, ranges, move |task| {
        let code = step.part(task as usize, tasks as usize);
        if open.fetch_sub(1, SeqCst) == 1 {
            // A graph may run the kernel again.
            open.store(tasks, SeqCst);
            step.leave();
        }
        code
    })?;
    driver.wait_for(stream, left, 1)
}

/// A round of a call.
#[derive(Clone)]
struct Step {
    comm: Arc<Comm>,
    call: Call,
    /// The values of each block.
    span: Span<usize>,
}

impl Step {
    /// Returns the number of tasks for a rank's part. It is the same for all ranks of a process.
    fn tasks(&self, workers: u32) -> u32 {
        const BYTES: usize = 256 << 10;
        let bytes = self.span.len() * self.call.data_type.bytes();
        (bytes / BYTES).clamp(1, workers.clamp(1, 64) as usize) as u32
    }

    /// Notes that this rank has arrived. The last rank lets the streams of all ranks go on.
    fn arrive(&self) -> u32 {
        let (comm, call) = (&self.comm, &self.call);
        if !comm.begin() {
            return 0;
        }
        let (header, own) = (comm.control.header(), comm.control.rank(comm.rank));
        let [first, count] = call.signature();
        own.call[0].store(first, SeqCst);
        own.call[1].store(count, SeqCst);
        own.send.store(call.send as u64, SeqCst);
        own.receive.store(call.receive as u64, SeqCst);
        match self.factor() {
            Some(factor) => own.factor.store(factor, SeqCst),
            None => header.failed.store(1, SeqCst),
        }
        if comm.local().is_none() {
            self.fill_window();
        }
        if header.arrived.fetch_add(1, SeqCst) + 1 == comm.ranks as u32 {
            header.arrived.store(0, SeqCst);
            let same = |rank: &crate::control::Rank| {
                rank.call
                    .iter()
                    .zip([first, count])
                    .all(|(word, own)| word.load(SeqCst) == own)
            };
            if !comm.control.all().all(same) {
                header.failed.store(1, SeqCst);
            }
            comm.control
                .all()
                .for_each(|rank| rank.go[0].store(1, SeqCst));
        }
        0
    }

    /// Returns the bytes of this rank's factor; `None` if they are not in memory that kernels may access.
    fn factor(&self) -> Option<u64> {
        let bytes = self.call.data_type.bytes();
        match self.call.factor {
            Value::Bytes(bytes) => Some(bytes),
            Value::At(address) => {
                let accessible = driver().is_ok_and(|driver| driver.is_accessible(address, bytes));
                let mut value = [0; 8];
                accessible.then(|| {
                    // SAFETY: the driver knows the memory, and the array has room for a value.
                    unsafe {
                        std::ptr::copy(address as *const u8, value.as_mut_ptr(), bytes);
                    }
                    u64::from_le_bytes(value)
                })
            }
        }
    }

    /// Copies the values that this rank sends into its window: block after block.
    fn fill_window(&self) {
        let (comm, call) = (&self.comm, &self.call);
        let blocks = match call.kind {
            Kind::ReduceScatter => comm.ranks,
            Kind::Broadcast if comm.rank != call.root => 0,
            _ => 1,
        };
        let size = call.data_type.bytes();
        let bytes = self.span.len() * size;
        for block in 0..blocks {
            let from = call.send + (block * call.count + self.span.start) * size;
            copy(from, comm.control.window(comm.rank) + block * bytes, bytes);
        }
    }

    /// Does a part of this rank's work: part `task` of `tasks`.
    fn part(&self, task: usize, tasks: usize) -> u32 {
        let (comm, call) = (&self.comm, &self.call);
        if comm.aborted.load(SeqCst) {
            return 0;
        }
        if comm.control.header().failed.load(SeqCst) != 0 {
            return LAUNCH_FAILED;
        }
        let local = comm.local().is_some();
        let shared = matches!(call.kind, Kind::AllReduce | Kind::Reduce);
        // In one process, the ranks share the work of a reduction.
        let (part, parts) = match local && shared {
            true => (comm.rank * tasks + task, comm.ranks * tasks),
            false => (task, tasks),
        };
        let values = cut(self.span.len(), part, parts);
        if values.is_empty() {
            return 0;
        }
        if call.reduces() {
            self.reduce(&values, local);
        } else {
            self.gather(&values, local);
        }
        0
    }

    /// Returns the address of values of a rank: of those that it sends in the block `block`.
    fn source(&self, rank: usize, block: usize, values: &Span<usize>, local: bool) -> usize {
        let size = self.call.data_type.bytes();
        match local {
            true => {
                let base = self.comm.control.rank(rank).send.load(SeqCst) as usize;
                base + (block * self.call.count + self.span.start + values.start) * size
            }
            false => {
                let base = self.comm.control.window(rank);
                base + (block * self.span.len() + values.start) * size
            }
        }
    }

    fn reduce(&self, values: &Span<usize>, local: bool) {
        let (comm, call) = (&self.comm, &self.call);
        let block = if call.kind == Kind::ReduceScatter {
            comm.rank
        } else {
            0
        };
        let sources: Vec<_> = (0..comm.ranks)
            .map(|rank| self.source(rank, block, values, local))
            .collect();
        let factors: Vec<_> = comm
            .control
            .all()
            .map(|rank| rank.factor.load(SeqCst))
            .collect();
        let offset = (self.span.start + values.start) * call.data_type.bytes();
        let receive = |rank: usize| comm.control.rank(rank).receive.load(SeqCst) as usize + offset;
        let targets: Vec<_> = match call.kind {
            Kind::AllReduce if local => (0..comm.ranks).map(receive).collect(),
            Kind::Reduce if local => vec![receive(call.root)],
            Kind::Reduce if comm.rank != call.root => Vec::new(),
            _ => vec![call.receive + offset],
        };
        let reduce = Reduce {
            data_type: call.data_type,
            reduction: call.reduction,
            sources: &sources,
            factors: &factors,
            targets: &targets,
            count: values.len(),
        };
        // SAFETY: the driver has checked the buffers of each rank when the rank arrived, windows have room for a round, and
        // the streams of all ranks wait.
        unsafe { reduce.run() };
    }

    fn gather(&self, values: &Span<usize>, local: bool) {
        let (comm, call) = (&self.comm, &self.call);
        let size = call.data_type.bytes();
        let ranks = match call.kind {
            Kind::Broadcast => call.root..call.root + 1,
            _ => 0..comm.ranks,
        };
        for rank in ranks {
            let block = if call.kind == Kind::Broadcast {
                0
            } else {
                rank
            };
            let first = block * call.count + self.span.start + values.start;
            let (from, to) = (
                self.source(rank, 0, values, local),
                call.receive + first * size,
            );
            copy(from, to, values.len() * size);
        }
    }

    /// Notes that this rank has done its part. The last rank lets the streams of all ranks go on.
    fn leave(&self) {
        let comm = &self.comm;
        if comm.aborted.load(SeqCst) {
            return;
        }
        let header = comm.control.header();
        if header.left.fetch_add(1, SeqCst) + 1 == comm.ranks as u32 {
            header.left.store(0, SeqCst);
            comm.control
                .all()
                .for_each(|rank| rank.go[1].store(1, SeqCst));
        }
    }
}

/// Copies bytes of a round, unless they are already there.
fn copy(from: usize, to: usize, bytes: usize) {
    if from != to {
        // SAFETY: the driver has checked the buffers of each rank when the rank arrived, windows have room for a round, and
        // the streams of all ranks wait.
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
    }
}

/// Returns the part `part` of `parts` of the numbers below `count`.
fn cut(count: usize, part: usize, parts: usize) -> Span<usize> {
    let at = |part: usize| (count as u128 * part as u128 / parts as u128) as usize;
    at(part)..at(part + 1)
}
