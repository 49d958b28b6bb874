//! Runs file tests on the runtime.
//!
//! Invariant: each launch of a file has its own buffers, and runs in a context in which no earlier launch has faulted.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use margay::checks::{Kind, Tool};
use margay::{
    DeviceBuffer, Dim3, EngineChoice, Error, Image, LaunchConfig, LoadOptions, Module, Runtime,
};

mod textures;

use super::directive::{self, Argument, Buffer, FileTest, Launch, Outcome, Rejection};
use super::texels::Texels;

/// The settings with which a launch runs: engine, number of workers, order of blocks and warps, and whether checks are
/// on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    engine: EngineChoice,
    workers: usize,
    reverse: bool,
    check: bool,
}

impl Setting {
    /// Every setting with which a launch runs.
    pub const ALL: [Setting; 6] = [
        Setting::new(EngineChoice::Interpreter, 1, false),
        Setting::new(EngineChoice::Native, 1, false),
        Setting::new(EngineChoice::Interpreter, 3, true),
        Setting::new(EngineChoice::Native, 3, true),
        Setting::new(EngineChoice::Interpreter, 1, false).checking(),
        Setting::new(EngineChoice::Native, 1, false).checking(),
    ];

    const fn new(engine: EngineChoice, workers: usize, reverse: bool) -> Setting {
        Setting {
            engine,
            workers,
            reverse,
            check: false,
        }
    }

    const fn checking(mut self) -> Setting {
        self.check = true;
        self
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = match self.engine {
            EngineChoice::Interpreter => "interpreter",
            _ => "native",
        };
        write!(f, "{engine}, {} worker(s)", self.workers)?;
        if self.reverse {
            f.write_str(", reverse")?;
        }
        if self.check {
            f.write_str(", checking")?;
        }
        Ok(())
    }
}

/// An expectation of a file test that a run of the test did not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Line of the directive, from 1; 0 if the file cannot be read.
    pub line: usize,
    /// The kernel, if the failure concerns one kernel.
    pub kernel: Option<String>,
    /// The setting of the run, if the failure concerns one run.
    pub setting: Option<Setting>,
    /// Description of the failure.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if let Some(kernel) = &self.kernel {
            write!(f, ", kernel {kernel}")?;
        }
        if let Some(setting) = &self.setting {
            write!(f, " ({setting})")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// Returns whether `BLESS=1` is set.
pub fn bless_from_env() -> bool {
    std::env::var_os("BLESS").is_some_and(|value| value == "1")
}

/// The runtimes with which file tests run, one for each [`Setting`].
pub struct Bench {
    machines: Vec<(Setting, Runtime)>,
    bless: bool,
}

impl Bench {
    /// Builds the runtimes. If `bless` is set, runs may update the text of diagnostics in the files.
    ///
    /// # Errors
    ///
    /// Returns an error if a runtime cannot be built.
    pub fn new(bless: bool) -> Result<Bench, Error> {
        const LIMIT: Duration = Duration::from_secs(20);
        let build = |setting: Setting| {
            let mut builder = Runtime::builder()
                .engine(setting.engine)
                .workers(setting.workers)
                .time_limit(LIMIT);
            if setting.reverse {
                builder = builder.reverse();
            }
            if setting.check {
                builder = builder.check(Tool::Synchronisation);
            }
            Ok((setting, builder.build()?))
        };
        let machines = Setting::ALL
            .into_iter()
            .map(build)
            .collect::<Result<_, Error>>()?;
        Ok(Bench { machines, bless })
    }

    /// Runs the file test at `path`: launches with every setting, and a module that must be refused
    /// with the first setting only. Returns an empty list if the file meets all expectations.
    pub fn run(&self, path: &Path) -> Vec<Failure> {
        let general = |line, what| {
            vec![Failure {
                line,
                kernel: None,
                setting: None,
                what,
            }]
        };
        let text = match margay::input::read_text(path) {
            Ok(text) => text,
            Err(error) => return general(0, error.to_string()),
        };
        match directive::read(&text) {
            Err((line, what)) => general(line, what),
            Ok(FileTest::Rejected(expected)) => match self.reject(path, &text, &expected) {
                Ok(()) => Vec::new(),
                Err((line, what)) => general(line, what),
            },
            Ok(FileTest::Launches(launches)) => self
                .machines
                .iter()
                .flat_map(|(setting, runtime)| {
                    launch_all(*setting, runtime, path, &text, &launches)
                })
                .collect(),
        }
    }

    fn reject(
        &self,
        path: &Path,
        text: &str,
        expected: &[Rejection],
    ) -> Result<(), (usize, String)> {
        let (_, runtime) = &self.machines[0];
        let log = match load(runtime, path, text) {
            Err(Error::InvalidPtx { log }) => log,
            Err(other) => return Err((1, format!("refused, but not as invalid: {other}"))),
            Ok(_) => return Err((1, "the module is accepted".to_owned())),
        };
        let found = diagnostics(&log);
        let lines = |all: &[Rejection]| all.iter().map(|one| one.line).collect::<Vec<_>>();
        if lines(&found) != lines(expected) {
            return Err((
                expected.first().map_or(1, |one| one.at),
                format!(
                    "problems in the lines {:?}, expected {:?}:\n{log}",
                    lines(&found),
                    lines(expected)
                ),
            ));
        }
        let wrong = expected.iter().zip(&found).find(|(e, f)| e.text != f.text);
        match wrong {
            Some(_) if self.bless => std::fs::write(path, blessed(text, expected, &found))
                .map_err(|e| (1, e.to_string())),
            Some((expected, found)) => Err((
                expected.at,
                format!("`{}`, expected `{}`", found.text, expected.text),
            )),
            None => Ok(()),
        }
    }
}

/// Returns the text of a file test in which the `error` directives (`expected`) are replaced by the
/// diagnostics that the front end reported (`found`).
fn blessed(text: &str, expected: &[Rejection], found: &[Rejection]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (expected, found) in expected.iter().zip(found) {
        if let Some(line) = lines.get_mut(expected.at - 1) {
            *line = format!("//@ error: {}: {}", found.line, found.text);
        }
    }
    lines.join("\n") + "\n"
}

/// Returns the line number and the title of each error in `log`, which contains diagnostics as
/// text.
fn diagnostics(log: &str) -> Vec<Rejection> {
    let mut found: Vec<Rejection> = Vec::new();
    for line in log.lines() {
        if let Some(title) = line.strip_prefix("error[") {
            found.push(Rejection {
                at: 0,
                line: 0,
                text: title.replacen("]:", ":", 1),
            });
        } else if let (Some(place), Some(last)) =
            (line.trim_start().strip_prefix("--> "), found.last_mut())
            && last.line == 0
        {
            // The text has the form FILE:LINE:COLUMN.
            let line = place.rsplit(':').nth(1);
            last.line = line.and_then(|line| line.parse().ok()).unwrap_or(0);
        }
    }
    found
}

fn load(runtime: &Runtime, path: &Path, text: &str) -> Result<Module, Error> {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let options = LoadOptions {
        name,
        ..LoadOptions::default()
    };
    runtime.load_image(Image::Ptx(text), &options)
}

fn launch_all(
    setting: Setting,
    runtime: &Runtime,
    path: &Path,
    text: &str,
    launches: &[Launch],
) -> Vec<Failure> {
    let failure = |line: usize, kernel: Option<&str>, what: String| Failure {
        line,
        kernel: kernel.map(str::to_owned),
        setting: Some(setting),
        what,
    };
    let mut module = match load(runtime, path, text) {
        Ok(module) => module,
        Err(error) => return vec![failure(1, None, error.to_string())],
    };
    let mut failures = Vec::new();
    for launch in launches {
        let ended = run(runtime, &module, launch);
        let faulted = matches!(&ended, Err(Error::Fault(_)));
        let found = findings(runtime);
        let agrees = |((kind, line), (wanted, at)): (&(String, u32), &(String, Option<u32>))| {
            kind == wanted && at.is_none_or(|at| at == *line)
        };
        let expected = &launch.findings;
        let all = found.len() == expected.len() && found.iter().zip(expected).all(agrees);
        if setting.check && !all {
            let what = format!("findings {found:?}, expected {:?}", launch.findings);
            failures.push(failure(launch.at, Some(&launch.kernel), what));
        }
        if let Err(what) = judge(setting, launch, ended) {
            failures.push(failure(launch.at, Some(&launch.kernel), what));
        }
        if faulted {
            // A fault makes all later calls in its context fail, so the device must be reset before later launches.
            let again = runtime
                .device(0)
                .and_then(|device| device.primary_reset())
                .and_then(|()| load(runtime, path, text));
            match again {
                Ok(new) => module = new,
                Err(error) => {
                    failures.push(failure(launch.at, None, error.to_string()));
                    return failures;
                }
            }
        }
    }
    if let Err(error) = module.unload() {
        failures.push(failure(1, None, error.to_string()));
    }
    failures
}

/// Returns the kinds and lines of the findings since the last call, in the order of the lines.
fn findings(runtime: &Runtime) -> Vec<(String, u32)> {
    let (found, _) = runtime.take_findings();
    let mut found: Vec<(String, u32)> = found
        .iter()
        // A deadlock also ends the launch with a fault, and the `fault` directive already states this fault.
        .filter(|finding| finding.kind != Kind::Deadlock)
        .map(|finding| {
            (
                format!("{:?}", finding.kind),
                finding.place.ptx_line.unwrap_or(0),
            )
        })
        .collect();
    found.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    found
}

/// Runs a launch to its end and returns the contents of all buffers.
fn run(runtime: &Runtime, module: &Module, launch: &Launch) -> Result<Vec<Vec<u8>>, Error> {
    let kernel = module.kernel(&launch.kernel)?;
    let params = kernel.params();
    let passed = launch.arguments.iter().filter(|a| a.is_passed()).count();
    if params.len() != passed {
        return Err(Error::invalid(format!(
            "{passed} arguments for {} parameters",
            params.len()
        )));
    }
    let mut params = params.iter();
    let mut memory: Vec<Memory<'_>> = Vec::new();
    let mut space = vec![0u8; kernel.info().param_bytes as usize];
    for argument in &launch.arguments {
        let bytes = match argument {
            Argument::Scalar(bytes) => bytes.clone(),
            Argument::Buffer(buffer) => {
                let device = runtime.upload(&buffer.bytes)?;
                let address = device.ptr().address().to_le_bytes().to_vec();
                memory.push(Memory::Buffer(device));
                address
            }
            Argument::Texels(texels) => {
                let made = textures::Made::new(runtime, module, texels)?;
                let handle = made.handle();
                memory.push(Memory::Texels(made, texels));
                match handle {
                    Some(handle) => handle.to_le_bytes().to_vec(),
                    None => continue,
                }
            }
        };
        let Some(param) = params.next() else {
            return Err(Error::invalid("too many arguments"));
        };
        let start = param.offset as usize;
        match space.get_mut(start..start + bytes.len()) {
            Some(place) if bytes.len() == param.size as usize => place.copy_from_slice(&bytes),
            _ => {
                return Err(Error::invalid(format!(
                    "an argument of {} bytes for a parameter of {}",
                    bytes.len(),
                    param.size
                )));
            }
        }
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
    runtime.launch(&kernel, config, space.as_slice())?;
    runtime.synchronize()?;
    memory.into_iter().map(Memory::read).collect()
}

/// What was allocated for one argument of a launch: device memory, or texels with their texture or surface.
enum Memory<'a> {
    Buffer(DeviceBuffer<u8>),
    Texels(textures::Made, &'a Texels),
}

impl Memory<'_> {
    fn read(self) -> Result<Vec<u8>, Error> {
        match self {
            Memory::Buffer(buffer) => buffer.to_vec(),
            Memory::Texels(made, texels) => made.finish(texels),
        }
    }
}

/// Compares the result of a launch with the expected outcome.
fn judge(
    setting: Setting,
    launch: &Launch,
    ended: Result<Vec<Vec<u8>>, Error>,
) -> Result<(), String> {
    if setting.engine == EngineChoice::Native && !launch.native {
        return match ended {
            Err(Error::Unsupported { what }) if what.contains("native code") => Ok(()),
            _ => Err("native code runs it: `native: refused` is wrong".to_owned()),
        };
    }
    match (&launch.outcome, ended) {
        (Outcome::Values, Ok(contents)) => {
            let buffers = launch.arguments.iter().filter_map(Argument::buffer);
            let wrong = buffers.zip(&contents).enumerate();
            let mut wrong = wrong.filter_map(|(index, (buffer, bytes))| {
                difference(buffer, bytes, launch).map(|what| format!("buffer {index}: {what}"))
            });
            wrong.next().map_or(Ok(()), Err)
        }
        (Outcome::Fault(kind, line), Err(Error::Fault(fault))) => {
            let found = format!("{:?}", fault.kind);
            let place = line.is_none_or(|line| fault.ptx_line == Some(line));
            if *kind == found && place {
                Ok(())
            } else {
                Err(format!("{fault} ({found}), expected {kind} line {line:?}"))
            }
        }
        (Outcome::Unsupported(wanted), Err(Error::Unsupported { what }))
            if what.contains(wanted) =>
        {
            Ok(())
        }
        (wanted, Ok(_)) => Err(format!("it completes, expected {wanted:?}")),
        (_, Err(error)) => Err(error.to_string()),
    }
}

/// Describes the first elements that differ from the expected values; returns `None` if no element differs.
pub(super) fn difference(buffer: &Buffer, bytes: &[u8], launch: &Launch) -> Option<String> {
    const SHOWN: usize = 4;
    let (ty, expected) = buffer.expected.as_ref()?;
    let pairs = ty.values(bytes).zip(expected).enumerate();
    let wrong: Vec<String> = pairs
        .filter(|(_, (found, expected))| !ty.agrees(*found, **expected, launch.tolerance))
        .map(|(at, (found, expected))| {
            let wanted = match expected {
                super::value::Expected::Bits(bits) => ty.show(*bits),
                other => format!("{other:?}"),
            };
            format!("element {at} is {}, expected {wanted}", ty.show(found))
        })
        .collect();
    let count = wrong.len();
    (count > 0).then(|| {
        let shown = wrong.into_iter().take(SHOWN).collect::<Vec<_>>().join("; ");
        format!("{count} of {} wrong: {shown}", expected.len())
    })
}
