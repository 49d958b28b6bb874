//! The engine that runs native kernels ([`NativeKernel`]).
//!
//! The parameters of a launch contain the native kernel ([`Params::native`](crate::params::Params)), and unit `u` of the
//! launch is the kernel's task `u`. A task never parks.
//!
//! Invariant: a launch drops its reference to the native kernel before the launch is complete.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use margay_ir::module::Module;
use parking_lot::Mutex;

use crate::checks::{self, Access, Finding, Findings, Kind, Tool, grouped_bytes};
use crate::engine::{
    Engine, KernelInfo, KernelSizes, LaunchShape, ParkedUnit, PreparedLaunch, RunOutcome, Worker,
};
use crate::error::{Error, Fault, FaultKind, Result};
use crate::fault::{self, AccessKind, Trap, TrapKind};
use crate::launch::Dim3;
use crate::memory::Visible;
use crate::native_kernel::{MemoryRange, NativeAccess, NativeKernel, TaskError};
use crate::observe::{Launch, LaunchSink, Observers, Shape, Tools};
use crate::service::HostFunctionGuard;

/// The engine of all native kernels with one name.
pub(crate) struct NativeEngine {
    info: KernelInfo,
    observers: Option<Arc<Observers>>,
}

impl NativeEngine {
    /// Returns the engine of the native kernels with the name `name`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if a tool requests an event that is not implemented.
    pub(crate) fn new(name: &str, tools: &Arc<Tools>) -> Result<NativeEngine> {
        let info = KernelInfo {
            name: name.to_owned(),
            ..KernelInfo::default()
        };
        let observers = tools.observers(&info)?;
        Ok(NativeEngine { info, observers })
    }

    fn sink(&self, shape: &LaunchShape) -> Option<LaunchSink> {
        let observers = self.observers.as_ref().filter(|all| all.is_open())?;
        let observed = Shape {
            id: shape.grid_id,
            kernel_id: observers.id,
            grid: shape.grid,
            block: shape.block,
            cluster: shape.cluster,
            static_shared: 0,
            dynamic_shared: 0,
        };
        let launch = Launch::new(&self.info, &Arc::new(Module::default()), &observed);
        LaunchSink::new(observers, launch)
    }
}

impl Engine for NativeEngine {
    fn info(&self) -> &KernelInfo {
        &self.info
    }

    fn sizes(&self, _: Option<Instant>) -> Result<KernelSizes> {
        Ok(KernelSizes::default())
    }

    fn is_native(&self) -> bool {
        true
    }

    fn prepare(&self, mut shape: LaunchShape) -> Result<Arc<dyn PreparedLaunch>> {
        let kernel = shape.params.take_native();
        let kernel =
            kernel.ok_or_else(|| Error::invalid("a native kernel without its function"))?;
        Ok(Arc::new(NativeLaunch {
            sink: self.sink(&shape),
            accesses: kernel.ranges().iter().copied().collect(),
            name: self.info.name.as_str().into(),
            kernel: Mutex::new(Some(kernel)),
            begun: OnceLock::new(),
            shape,
        }))
    }
}

/// A launch of a native kernel.
struct NativeLaunch {
    name: Arc<str>,
    /// The kernel; `None` after the launch has ended.
    kernel: Mutex<Option<Arc<NativeKernel>>>,
    accesses: Box<[NativeAccess]>,
    shape: LaunchShape,
    /// The result of the checks that precede the first task.
    begun: OnceLock<Result<(), Box<Fault>>>,
    /// The receiver of the launch's events; `None` if no tool observes the launch.
    sink: Option<LaunchSink>,
}

impl NativeLaunch {
    /// Prepares the process for the tasks, and checks the memory that they access.
    fn begin(&self) -> Result<(), Box<Fault>> {
        // A task can cause any of the fault signals. For workers, the scheduler reinstalls only the handlers of signals
        // that generated code causes.
        fault::keep();
        let findings = self.shape.findings.as_deref();
        if let Some(visible) = &self.shape.visible
            && let Some(refused) = Refused::first(visible, &self.name, &self.accesses)
        {
            if let Some(findings) = findings {
                findings.ends(self.shape.grid_id);
                refused.report(findings, self.shape.call.as_ref());
            }
            return Err(Box::new(refused.fault));
        }
        if let Some(findings) = findings {
            self.report_unwritten(findings);
        }
        Ok(())
    }

    /// Adds a finding for each range that the tasks read and of which no byte has been written. (A range of which some
    /// bytes have been written can be a matrix with unused bytes between its columns.)
    fn report_unwritten(&self, findings: &Findings) {
        let Some(initialised) = &findings.shadow().initialised else {
            return;
        };
        let visible = self.shape.visible.as_deref();
        let reads = self.accesses.iter().filter(|access| !access.writes);
        for range in reads.map(|access| access.range) {
            let missing = initialised.missing(range.address, range.bytes);
            let is_unwritten = missing.is_some_and(|(_, missing, _)| missing == range.bytes);
            if !is_unwritten || !findings.options().init_global {
                continue;
            }
            let bytes = grouped_bytes(range.bytes);
            let text =
                format!("Uninitialized __global__ memory read of {bytes} by a native kernel");
            let mut finding = Finding::new(Kind::Uninitialized, text);
            finding.kernel = Some(self.name.to_string());
            finding.access = Some(Access::Read);
            finding.space = Some("__global__");
            finding.address = Some(range.address);
            finding.size = Some(range.bytes);
            finding.allocation = visible.and_then(|visible| visible.describe(range.address));
            findings.add(finding, self.shape.call.as_ref());
        }
    }

    /// Runs a task.
    fn call(&self, kernel: &NativeKernel, task: u64) -> Result<(), Fault> {
        let mut call = Call {
            kernel,
            error: None,
        };
        let context = (&raw mut call).cast::<u8>();
        // SAFETY: `run_task` follows the calling convention, takes a `Call` and does not unwind.
        let ended = unsafe { fault::enter_host_code(run_task, context, task, 0) };
        match (call.error, ended) {
            (Some(error), _) => Err(self.fault(error.kind, task).with_detail(error.detail)),
            (None, Ok(_)) => Ok(()),
            (None, Err(trap)) => Err(self.trapped(&trap, task)),
        }
    }

    fn fault(&self, kind: FaultKind, task: u64) -> Fault {
        Fault::new(kind, &*self.name).at_cta([task as u32, 0, 0])
    }

    fn trapped(&self, trap: &Trap, task: u64) -> Fault {
        let with = |kind, detail: &str| self.fault(kind, task).with_detail(detail);
        let mut fault = match trap.kind {
            TrapKind::Stopped => with(FaultKind::LaunchFailed, crate::error::STOPPED),
            TrapKind::Misaligned => with(FaultKind::MisalignedAddress, "bus error"),
            TrapKind::StackOverflow => self.fault(FaultKind::Stack, task),
            TrapKind::Arithmetic => with(
                FaultKind::LaunchFailed,
                "an arithmetic instruction failed, for example an integer division by zero (SIGFPE)",
            ),
            TrapKind::IllegalInstruction => self.fault(FaultKind::IllegalInstruction, task),
            TrapKind::Raised(code) => with(FaultKind::LaunchFailed, &format!("trap {code}")),
            TrapKind::Unmapped | TrapKind::Protected | TrapKind::NonCanonical | TrapKind::Bus => {
                self.fault(FaultKind::IllegalAddress, task)
            }
        };
        if fault.kind == FaultKind::IllegalAddress {
            fault.address = trap.address;
            fault.write = trap.access.map(|access| access == AccessKind::Write);
        }
        fault
    }

    /// Runs the tasks `first .. first + count`. Returns the number of tasks that have ended, and how the run ended.
    fn run_tasks(
        &self,
        kernel: &NativeKernel,
        worker: &dyn Worker,
        (first, count): (u64, u64),
    ) -> (u64, RunOutcome) {
        let mut workers = self.sink.as_ref().and_then(LaunchSink::take_workers);
        let mut outcome = RunOutcome::Done;
        let mut ended = 0;
        for task in first..first + count {
            if worker.stop_requested() {
                let place = String::new();
                outcome = RunOutcome::Stopped { place };
                break;
            }
            let cta = self.sink.as_ref().map(|sink| sink.cta(task));
            if let (Some(workers), Some(cta)) = (&mut workers, &cta) {
                workers.enter(cta);
            }
            let ran = self.call(kernel, task);
            if let (Some(workers), Some(cta)) = (&mut workers, &cta) {
                workers.leave(cta);
            }
            if let Err(fault) = ran {
                outcome = match fault.is_stop() {
                    true => RunOutcome::Stopped {
                        place: format!("task {task} ran"),
                    },
                    false => RunOutcome::Fault(fault),
                };
                break;
            }
            ended += 1;
        }
        if let (Some(workers), Some(sink)) = (workers, &self.sink) {
            sink.put_workers(workers);
        }
        (ended, outcome)
    }
}

impl PreparedLaunch for NativeLaunch {
    fn may_park(&self) -> bool {
        false
    }

    fn accesses(&self) -> Option<Vec<(MemoryRange, bool)>> {
        let accesses = self.accesses.iter();
        Some(
            accesses
                .map(|access| (access.range, access.writes))
                .collect(),
        )
    }

    fn run(&self, worker: &mut dyn Worker, first: u64, count: u64) -> RunOutcome {
        let Some(kernel) = self.kernel.lock().clone() else {
            return RunOutcome::Fault(self.fault(FaultKind::LaunchFailed, first));
        };
        if let Err(fault) = self.begun.get_or_init(|| self.begin()) {
            return RunOutcome::Fault((**fault).clone());
        }
        if let Some(sink) = &self.sink {
            sink.begin();
        }
        let _waits_are_errors = HostFunctionGuard::begin();
        let (ended, outcome) = self.run_tasks(&kernel, worker, (first, count));
        if let Some(sink) = self.sink.as_ref().filter(|_| ended > 0) {
            sink.ended(first, ended);
        }
        outcome
    }

    fn resume(&self, _: &mut dyn Worker, unit: ParkedUnit) -> RunOutcome {
        RunOutcome::Fault(self.fault(FaultKind::LaunchFailed, unit.unit))
    }

    fn finish(&self, completed: bool) {
        // The program's code that this drops can panic.
        let kernel = self.kernel.lock().take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(kernel)));
        if completed {
            for access in self.accesses.iter().filter(|access| access.writes) {
                checks::host::written(access.range.address, access.range.bytes);
            }
        }
        if let Some(sink) = &self.sink {
            sink.finish(completed, None);
        }
    }
}

/// The context of [`run_task`].
struct Call<'a> {
    kernel: &'a NativeKernel,
    error: Option<TaskError>,
}

/// Runs the task `task` and stores its error in the [`Call`] at `call`.
unsafe extern "C" fn run_task(call: *mut u8, task: u64, _: u64) -> u64 {
    // SAFETY: the only caller passes a `Call`, which nothing else uses until this function returns.
    let call = unsafe { &mut *call.cast::<Call<'_>>() };
    let ran = catch_unwind(AssertUnwindSafe(|| call.kernel.run(task as u32)));
    call.error = match ran {
        Ok(ran) => ran.err(),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            // Dropping the payload could panic again.
            std::mem::forget(panic);
            let text = text.unwrap_or_else(|| "a panic without text".to_owned());
            Some(TaskError::from(format!("a task panicked: {text}")))
        }
    };
    0
}

/// An access of a native kernel that is not permitted.
pub(crate) struct Refused {
    pub(crate) fault: Fault,
    access: NativeAccess,
    was_freed: bool,
}

impl Refused {
    /// Returns the first of `accesses` whose range is not inside memory that kernels may access in this way.
    pub(crate) fn first(
        visible: &Visible,
        kernel: &str,
        accesses: &[NativeAccess],
    ) -> Option<Refused> {
        let permitted = |access: &&NativeAccess| {
            let range = access.range;
            !visible.permits(range.address, range.bytes, access.writes)
        };
        let access = *accesses.iter().find(permitted)?;
        let (address, bytes) = (access.range.address, grouped_bytes(access.range.bytes));
        let mut fault = Fault::new(FaultKind::IllegalAddress, kernel);
        fault.address = Some(address);
        fault.write = Some(access.writes);
        fault.detail = format!("kernels may not access all of the range of {bytes}");
        if let Some(text) = visible.describe(address) {
            fault.detail += &format!("; {text}");
        }
        Some(Refused {
            was_freed: visible.was_freed(address),
            fault,
            access,
        })
    }

    /// Adds the access to the findings of a checking run.
    pub(crate) fn report(&self, findings: &Findings, call: Option<&checks::CallStack>) {
        if !findings.tools().contains(Tool::Memory) {
            return;
        }
        let (kind, access) = match (self.was_freed, self.access.writes) {
            (true, true) => (Kind::UseAfterFree, Access::Write),
            (true, false) => (Kind::UseAfterFree, Access::Read),
            (false, true) => (Kind::OutOfBounds, Access::Write),
            (false, false) => (Kind::OutOfBounds, Access::Read),
        };
        let bytes = grouped_bytes(self.access.range.bytes);
        let title = access.title().to_lowercase();
        let text = format!("Invalid __global__ {title} of {bytes} by a native kernel");
        let mut finding = Finding::new(kind, text);
        finding.explanation = Some(self.fault.detail.clone());
        finding.kernel = Some(self.fault.kernel.clone());
        finding.access = Some(access);
        finding.space = Some("__global__");
        finding.address = self.fault.address;
        finding.size = Some(self.access.range.bytes);
        findings.add(finding, call);
    }
}

/// Returns the grid and the block of a launch of `kernel`.
pub(crate) fn shape_of(kernel: &NativeKernel) -> (Dim3, Dim3) {
    (Dim3::new(kernel.tasks(), 1, 1), Dim3::new(1, 1, 1))
}
