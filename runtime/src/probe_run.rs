//! Launches of kernels with probes ([`crate::probe`]).
//!
//! Before a launch, the runtime allocates the blocks that the launch's probes need, and appends the additional
//! arguments. After the last unit of the launch has ended, the probes read the blocks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::engine::{Hang, ParkedUnit, PreparedLaunch, RunOutcome, Worker};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::launch::LaunchConfig;
use crate::machine::Machine;
use crate::mem::{Allocation, Request};
use crate::params::Params;
use crate::pointer::{HostFlags, PointerKind};
use crate::probe::{Block, Ended, LaunchProbes, Memory, ProbedLaunch};
use crate::probed::{Added, Role};

/// A block that has more than its least size gets at most this part of the device's free memory: a sixteenth.
const SHARE: u64 = 16;
/// Number of bytes of a block below which the runtime waits for earlier launches to end.
const ENOUGH: u64 = 64 << 20;

/// The probes of one launch and their memory.
pub(crate) struct Session {
    machine: Arc<Machine>,
    /// The blocks, until they are freed.
    blocks: Mutex<Vec<Allocation>>,
    probes: Box<dyn LaunchProbes>,
    /// When the first unit began.
    began: OnceLock<Instant>,
}

impl Session {
    /// Begins the probes `added` of a launch, and appends their arguments to `params`. Returns `None` if the launch runs
    /// without probes.
    pub(crate) fn begin(
        added: &Added,
        kernel: &Kernel,
        config: &LaunchConfig,
        params: &mut Params,
        role: Role,
    ) -> Result<Option<Session>> {
        let begun = added.probes.launch(&ProbedLaunch {
            grid: config.grid,
            block: config.block,
            dynamic_shared: config.shared,
            arguments: params.bytes(),
            is_rehearsed: role == Role::Rehearsed,
        })?;
        let Some(probes) = begun else {
            return match added.is_in_place {
                true => Err(Error::Internal("a launch without its probes".to_owned())),
                false => Ok(None),
            };
        };
        let session = Session {
            machine: Arc::clone(kernel.module().context().machine()),
            blocks: Mutex::default(),
            probes,
            began: OnceLock::new(),
        };
        for block in session.probes.blocks() {
            let allocation = session.allocate(kernel, &block)?;
            session.blocks.lock().push(allocation);
        }
        let blocks = session.blocks.lock().clone();
        let places = blocks.iter().map(|block| (block.base, block.size));
        let beginning = session.probes.begin(&places.collect::<Vec<_>>());
        for (block, bytes) in blocks.iter().zip(&beginning.first_bytes) {
            let fits = bytes.len().min(block.size as usize);
            let space = session.machine.memory.space();
            space.write(block.base, &bytes[..fits])?;
        }
        *params = added.append(params, &beginning.arguments);
        Ok(Some(session))
    }

    /// Allocates a block of at least `block.least` bytes. A larger block gets at most a part of the free memory, because
    /// the program may submit many launches before the first one ends. If little memory is left, waits for all launches
    /// that the program has submitted.
    fn allocate(&self, kernel: &Kernel, block: &Block) -> Result<Allocation> {
        let context = kernel.module().context();
        let device = context.ordinal();
        let allocate = |size: u64| {
            self.machine.memory.allocate_zeroed(Request {
                size: size.max(1),
                kind: PointerKind::Device,
                context: context.id(),
                device,
                flags: HostFlags::default(),
                pooled: false,
                internal: true,
                constant: false,
            })
        };
        let share = || {
            let space = self.machine.memory.space();
            let (_, free) = space.device_info(usize::try_from(device).unwrap_or(0));
            block.bytes.min((free / SHARE).max(block.least))
        };
        let first = share();
        if first >= block.bytes.min(ENOUGH)
            && let Ok(allocation) = allocate(first)
        {
            return Ok(allocation);
        }
        context.settle();
        allocate(share()).or_else(|_| allocate(block.least))
    }

    fn end(&self, completed: bool) {
        let time = self.began.get().map_or(Duration::ZERO, Instant::elapsed);
        let ended = Ended {
            completed,
            time,
            memory: self,
        };
        if catch_unwind(AssertUnwindSafe(|| self.probes.end(&ended))).is_err() {
            crate::error::tell(&"the probes of a launch panicked, and their results are lost");
        }
        self.free();
    }

    /// Frees the blocks.
    fn free(&self) {
        let memory = &self.machine.memory;
        for block in self.blocks.lock().drain(..) {
            // The end of the context may have freed the block.
            let exists = memory
                .lookup(block.base)
                .is_some_and(|found| found.id == block.id);
            if exists {
                let _ = memory.release(block.base, true);
            }
        }
    }
}

impl Memory for Session {
    fn read(&self, block: usize, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let found = self.blocks.lock().get(block).copied();
        let holds = |block: &Allocation| {
            offset
                .checked_add(bytes)
                .is_some_and(|end| end <= block.size)
        };
        let found = found.filter(holds).ok_or_else(|| {
            Error::invalid(format!(
                "{bytes} bytes at byte {offset} of block {block} of a launch's probes"
            ))
        })?;
        let mut copy = Vec::new();
        let reserved = copy.try_reserve_exact(bytes as usize);
        reserved.map_err(|_| Error::OutOfMemory {
            requested: bytes,
            free: 0,
        })?;
        copy.resize(bytes as usize, 0);
        crate::fault::access::read(&mut copy, found.base + offset)
            .map_err(|_| Error::invalid("memory of probes that cannot be read"))?;
        Ok(copy)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.free();
    }
}

/// A prepared launch with probes.
pub(crate) struct ProbedRun {
    launch: Arc<dyn PreparedLaunch>,
    session: Session,
}

impl ProbedRun {
    /// Adds the probes of a launch, if it has any.
    pub(crate) fn around(
        launch: Arc<dyn PreparedLaunch>,
        session: Option<Session>,
    ) -> Arc<dyn PreparedLaunch> {
        match session {
            Some(session) => Arc::new(ProbedRun { launch, session }),
            None => launch,
        }
    }
}

impl PreparedLaunch for ProbedRun {
    fn may_park(&self) -> bool {
        self.launch.may_park()
    }

    fn contends(&self) -> bool {
        self.launch.contends()
    }

    fn window_bytes(&self) -> (u64, u64) {
        self.launch.window_bytes()
    }

    fn run(&self, worker: &mut dyn Worker, first: u64, count: u64) -> RunOutcome {
        self.session.began.get_or_init(Instant::now);
        self.launch.run(worker, first, count)
    }

    fn resume(&self, worker: &mut dyn Worker, unit: ParkedUnit) -> RunOutcome {
        self.launch.resume(worker, unit)
    }

    fn describe(&self, unit: &ParkedUnit) -> String {
        self.launch.describe(unit)
    }

    fn finish(&self, completed: bool) {
        self.launch.finish(completed);
        self.session.end(completed);
    }

    fn observe_waits(&self) {
        self.launch.observe_waits();
    }

    fn hang(&self) -> Option<Hang> {
        self.launch.hang()
    }
}
