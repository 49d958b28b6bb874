//! Runs each case with the checking tools, and compares the reported findings with the expected
//! findings.

use std::collections::BTreeSet;
use std::time::Duration;

use margay::checks::{Finding, Kind, Place, Severity, Tool};
use margay::{
    Context, DevicePtr, Dim3, EngineChoice, Error, HostFlags, LaunchConfig, Module, Runtime,
    StreamKind, Transfer,
};

use super::{Argument, Case, Contents, Difference, Expected, Launch, Part, Step};

/// The order in which the blocks of a grid start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Blocks start in grid order.
    Grid,
    /// The reverse order.
    Reverse,
    /// Blocks start in a random order that the number determines.
    Shuffled(u64),
}

/// The settings with which a case runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The engine that runs the kernels.
    pub engine: EngineChoice,
    /// Number of worker threads.
    pub workers: usize,
    /// The order in which the blocks of a grid start.
    pub order: Order,
    /// Whether the race detector runs. With the race detector, the runtime uses one worker and starts the blocks in
    /// grid order, whatever `workers` and `order` are.
    pub races: bool,
}

const fn setting(engine: EngineChoice, workers: usize, order: Order, races: bool) -> Setting {
    Setting {
        engine,
        workers,
        order,
        races,
    }
}

/// The settings with which each case runs. The findings must not depend on the setting. In the last
/// two settings, the race detector does not run, so that the number of workers and the order of the blocks have an
/// effect, and generated code examines more accesses itself instead of calling the host. Cases with races do not run
/// with these settings, because other findings can depend on values that a race determines.
pub const SETTINGS: [Setting; 4] = [
    setting(EngineChoice::Native, 1, Order::Grid, true),
    setting(EngineChoice::Interpreter, 1, Order::Grid, true),
    setting(EngineChoice::Native, 1, Order::Grid, false),
    setting(EngineChoice::Native, 2, Order::Reverse, false),
];

/// Returns all combinations of numbers of workers, orders and engines, with or without the race
/// detector.
pub fn all_settings(races: bool) -> Vec<Setting> {
    let mut all = Vec::new();
    for engine in [EngineChoice::Native, EngineChoice::Interpreter] {
        for workers in 1..=3 {
            for order in [Order::Grid, Order::Reverse, Order::Shuffled(5)] {
                all.push(Setting {
                    engine,
                    workers,
                    order,
                    races,
                });
            }
        }
    }
    all
}

/// Runs a case, and returns the texts of its findings, from which threads, addresses and counts are
/// removed. Omits the findings that may be reported ([`Case::allowed`]), because they can depend on
/// the order in which lanes run.
///
/// # Errors
/// Returns the text of an error, if an error other than a fault of the kernel occurs.
pub fn reports(
    setting: Setting,
    file: &str,
    ptx: &str,
    case: &Case,
) -> Result<BTreeSet<String>, String> {
    let (found, fault) = raw_findings(setting, ptx, case).map_err(|error| error.to_string())?;
    let report = |finding: &Finding| {
        let place = expected_of(file, finding);
        if case.allowed.iter().any(|one| one.agrees(&place)) {
            return None;
        }
        let access = finding.access.map(|access| access.name());
        let (space, size, missing) = (finding.space, finding.size, finding.missing);
        let kernel = finding.kernel.as_deref();
        let severity = finding.severity;
        Some(format!(
            "{place} {severity:?} {kernel:?} {access:?} {space:?} {size:?} {missing:?}"
        ))
    };
    let fault = fault.map(|fault| format!("fault {fault}"));
    Ok(found.iter().filter_map(report).chain(fault).collect())
}

/// Runs a case of a file with every setting, and returns the differences from the case's
/// directives.
pub fn run(file: &str, ptx: &str, case: &Case) -> Difference {
    let mut difference = Difference::default();
    let is_racy = case.stated().any(|one| one.tool == "racecheck");
    for setting in SETTINGS {
        let Setting {
            engine,
            workers,
            order,
            races,
        } = setting;
        if is_racy && !races {
            continue;
        }
        let order = match order {
            Order::Grid => String::new(),
            other => format!(", {other:?}"),
        };
        let tools = if races { "" } else { ", no racecheck" };
        let label = format!("{engine:?}, {workers} worker(s){order}{tools}");
        match findings(setting, file, ptx, case) {
            Ok((found, fault)) => {
                compare(case, &found, &mut difference, &label);
                if fault != case.fault && case.fault.as_deref() != Some("any") {
                    let text = |fault: &Option<String>| fault.clone().unwrap_or("none".to_owned());
                    let (found, wanted) = (text(&fault), text(&case.fault));
                    difference
                        .problems
                        .insert(format!("fault {found}, expected {wanted} ({label})"));
                }
            }
            Err(error) => {
                difference.problems.insert(format!("{error} ({label})"));
            }
        }
    }
    difference
}

fn compare(case: &Case, found: &BTreeSet<Expected>, difference: &mut Difference, label: &str) {
    let with_remarks = case.stated().any(|one| one.severity == Some("info"));
    let is_found = |one: &Expected| found.iter().any(|other| one.agrees(other));
    for one in case.expected.iter().filter(|one| !is_found(one)) {
        difference.missed.insert(format!("{one} ({label})"));
    }
    if let Some(one) = case.either.first()
        && !case.either.iter().any(is_found)
    {
        let missed = format!("{one}, or another one ({label})");
        difference.missed.insert(missed);
    }
    for one in found {
        let counts = one.severity != Some("info") || with_remarks;
        if counts && !case.stated().any(|other| other.agrees(one)) {
            difference.wrong.insert(format!("{one} ({label})"));
        }
    }
}

/// Runs a case. Returns the findings as values that can be compared with the directives, and the
/// fault if a fault ended the launch.
fn findings(
    setting: Setting,
    file: &str,
    ptx: &str,
    case: &Case,
) -> Result<(BTreeSet<Expected>, Option<String>), Error> {
    let (found, fault) = raw_findings(setting, ptx, case)?;
    let found = found.iter().map(|finding| expected_of(file, finding));
    Ok((found.collect(), fault))
}

/// Runs a case. Returns the findings, and the fault if a fault ended the launch.
fn raw_findings(
    setting: Setting,
    ptx: &str,
    case: &Case,
) -> Result<(Vec<Finding>, Option<String>), Error> {
    let mut builder = Runtime::builder()
        .engine(setting.engine)
        .workers(setting.workers)
        .time_limit(Duration::from_secs(20))
        .without_disk_cache();
    builder = match setting.order {
        Order::Grid => builder,
        Order::Reverse => builder.reverse(),
        Order::Shuffled(seed) => builder.shuffle(seed),
    };
    for tool in [Tool::Memory, Tool::Initialisation, Tool::Synchronisation] {
        builder = builder.check(tool);
    }
    if setting.races {
        builder = builder.check(Tool::Race);
    }
    let runtime = builder.build()?;
    let module = runtime.load_ptx(ptx)?;
    let fault = match perform(&runtime.context()?, &module, case) {
        Ok(()) => None,
        Err(Error::Fault(fault)) => Some(format!("{:?}", fault.kind)),
        Err(other) => return Err(other),
    };
    Ok((runtime.take_findings().0, fault))
}

fn expected_of(file: &str, finding: &Finding) -> Expected {
    let line = |place: &Place| {
        let source = place.source.as_ref()?;
        source.file.ends_with(file).then_some(source.line)
    };
    // A place that is not in the file has line 0, so that the finding differs from each expected finding.
    let in_kernel = finding.kernel.is_some();
    let mut lines: Vec<u32> = in_kernel
        .then(|| line(&finding.place).unwrap_or(0))
        .into_iter()
        .collect();
    if finding.kind == Kind::Race
        && let Some(other) = &finding.other
    {
        // A copy or fill has no place. It counts as an access at the line of the kernel's access.
        lines.push(match other.kernel {
            Some(_) => line(&other.place).unwrap_or(0),
            None => lines.first().copied().unwrap_or(0),
        });
    }
    lines.sort_unstable();
    let severity = match finding.severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    Expected {
        tool: finding.kind.tool().name(),
        kinds: vec![finding.kind.name()],
        lines,
        severity: Some(severity),
    }
}

fn perform(context: &Context, module: &Module, case: &Case) -> Result<(), Error> {
    let mut buffers = Vec::new();
    let mut hosts = Vec::new();
    let mut values = Vec::new();
    for argument in &case.arguments {
        match argument {
            Argument::Buffer {
                bytes, contents, ..
            } => {
                let buffer = context.alloc(*bytes as u64)?;
                initialise(context, buffer, *bytes, *contents)?;
                values.push(buffer.address().to_le_bytes().to_vec());
                buffers.push(buffer);
            }
            Argument::Host(bytes) => {
                let memory = vec![0u8; *bytes];
                values.push((memory.as_ptr() as u64).to_le_bytes().to_vec());
                hosts.push(memory);
            }
            Argument::Pinned(bytes) => {
                let memory = context.alloc_host(*bytes, HostFlags::default())?;
                let pointer = context.host_device_pointer(memory)?;
                values.push(pointer.address().to_le_bytes().to_vec());
            }
            Argument::Managed(bytes) => {
                let pointer = context.alloc_managed(*bytes, 1)?;
                values.push(pointer.address().to_le_bytes().to_vec());
            }
            Argument::Value(bytes) => values.push(bytes.clone()),
        }
    }
    for step in &case.before {
        take(context, module, step, &buffers, &values)?;
    }
    let all = case.arguments.iter();
    let freed = all.filter_map(|argument| match argument {
        Argument::Buffer { freed, .. } => Some(*freed),
        _ => None,
    });
    for (buffer, _) in buffers.iter().zip(freed).filter(|(_, freed)| *freed) {
        context.free(*buffer)?;
    }
    launch(context, module, &case.launch, &values)?;
    context.synchronize()?;
    for step in &case.after {
        take(context, module, step, &buffers, &values)?;
    }
    context.synchronize()
}

fn initialise(
    context: &Context,
    buffer: DevicePtr,
    bytes: usize,
    contents: Contents,
) -> Result<(), Error> {
    let words = (0u32..).take(bytes.div_ceil(4));
    let mut data: Vec<u8> = match contents {
        Contents::Uninitialised => return Ok(()),
        Contents::Zero => vec![0; bytes],
        Contents::Iota => words.flat_map(u32::to_le_bytes).collect(),
        Contents::Ones => words.flat_map(|_| 1u32.to_le_bytes()).collect(),
    };
    data.truncate(bytes);
    write(context, buffer, &data)
}

fn write(context: &Context, to: DevicePtr, data: &[u8]) -> Result<(), Error> {
    let transfer = Transfer::to_device(to, data.as_ptr(), data.len() as u64);
    // SAFETY: `data` outlives the call, which returns when the copy is complete.
    unsafe { context.legacy_stream().copy(transfer) }
}

fn launch(
    context: &Context,
    module: &Module,
    launch: &Launch,
    values: &[Vec<u8>],
) -> Result<(), Error> {
    let kernel = module.kernel(&launch.kernel)?;
    let params = kernel.params();
    if params.len() != values.len() {
        let (given, wanted) = (values.len(), params.len());
        return Err(Error::invalid(format!(
            "{given} arguments for {wanted} parameters"
        )));
    }
    let mut space = vec![0u8; kernel.info().param_bytes as usize];
    for (param, value) in params.iter().zip(values) {
        if value.len() != param.size as usize {
            return Err(Error::invalid("an argument has the wrong size"));
        }
        let start = param.offset as usize;
        space[start..start + value.len()].copy_from_slice(value);
    }
    let extent = |[x, y, z]: [u32; 3]| Dim3::new(x, y, z);
    let config = LaunchConfig {
        grid: extent(launch.grid),
        block: extent(launch.block),
        shared: launch.shared,
        cluster: launch.cluster.map(extent),
        cooperative: launch.cooperative,
        priority: None,
    };
    let stream = match launch.own_stream {
        true => context.create_stream(StreamKind::NonBlocking, 0)?,
        false => context.legacy_stream(),
    };
    stream.launch(&kernel, config, space.as_slice())
}

/// Performs a step of the host before or after the launch.
fn take(
    context: &Context,
    module: &Module,
    step: &Step,
    buffers: &[DevicePtr],
    values: &[Vec<u8>],
) -> Result<(), Error> {
    let at = |part: &Part| match buffers.get(part.buffer) {
        Some(buffer) => Ok(DevicePtr::new(buffer.address() + part.offset)),
        None => Err(Error::invalid("a step names no buffer")),
    };
    let stream = context.legacy_stream();
    match step {
        Step::Set(part, bytes) => stream.fill(at(part)?, 0, 1, *bytes, 1, 0),
        Step::Write(part, bytes) => write(context, at(part)?, &vec![1; *bytes as usize]),
        Step::Copy(from, to, bytes) => {
            let transfer = Transfer::on_device(at(to)?, at(from)?, *bytes);
            // SAFETY: the runtime refuses ranges outside of device memory.
            unsafe { stream.copy(transfer) }
        }
        Step::Read(part, bytes) => {
            let mut memory = vec![0u8; *bytes as usize];
            let transfer = Transfer::to_host(memory.as_mut_ptr(), at(part)?, *bytes);
            // SAFETY: `memory` outlives the call, which returns when the copy is complete.
            unsafe { stream.copy(transfer) }
        }
        Step::Join => context.synchronize(),
        Step::Run(other) => launch(context, module, other, values),
    }
}
