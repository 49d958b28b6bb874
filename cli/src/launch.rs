//! `margay launch`: runs one kernel on data from the command line.
//!
//! The arguments are in the order of the kernel's parameters. For each buffer, the command keeps the element type, so
//! that it can print, save and compare the buffer. Invariant: exit status 0 means that the kernel completed and every
//! comparison succeeded.

mod argument;

use std::fmt::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use margay::{DeviceBuffer, Dim3, Image, Kernel, LaunchConfig, LoadOptions, Module, Runtime};
use margay_cli::input;
use serde_json::json;

use crate::npy::Array;
use crate::output::{Failure, Outcome, Paint, Report, paint, with_progress};
use crate::run::{ENGINE_VARIABLE, Engine, seconds, tolerance};
use argument::{Argument, Target, buffer_of};

const EXAMPLES: &str = "\
Arguments, in the order of the kernel's parameters:
  u32:5  s32:-1  u64:0x10  f32:2.5  f16:1  b8:255   a scalar
  bytes:0011aabb                                    a structure, as hexadecimal bytes
  in:FILE.npy                                       a buffer with an array's values
  raw:f32:FILE                                      a buffer with a file's bytes
  zeros:f32:1024  zeros:f32:32x32                   zeros
  fill:f32:1024:1.5                                 one value everywhere
  iota:u32:1024                                     0, 1, 2, ...
  inout:FILE.npy                                    as in:, written back afterwards
  out:f32:1024:FILE.npy                             as zeros:, written afterwards

Examples:
  margay launch saxpy.ptx --grid 4 --block 256 --arg u32:1000 --arg f32:2 \\
      --arg iota:f32:1000 --arg zeros:f32:1000 --print 3
  margay launch sum.ptx --kernel sum --grid 1 --block 32 --arg in:x.npy --arg zeros:f32:1 \\
      --expect 1=[528] --tolerance 1e-5
  margay launch blur.fatbin --kernel blur --grid 8,8 --block 16,16 --shared 4096 \\
      --arg in:image.npy --arg out:f32:128x128:blurred.npy

Files are read up to 2 GiB each. The exit status is 1 when the kernel fails or a comparison does not hold.";

/// The arguments of `margay launch`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// PTX text, a fat binary, or a program or object that contains one.
    file: PathBuf,
    /// The kernel's (mangled) name; optional if the file has one kernel only.
    #[arg(long, short, value_name = "NAME")]
    kernel: Option<String>,
    /// Blocks in the grid.
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = extents, default_value = "1")]
    grid: Dim3,
    /// Threads in a block.
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = extents, default_value = "1")]
    block: Dim3,
    /// Dynamic shared memory of a block.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    shared: u32,
    /// Launch cooperatively: all blocks are resident at once and may wait for each other.
    #[arg(long)]
    cooperative: bool,
    /// An argument of the kernel; the notation is described below.
    #[arg(long = "arg", short, value_name = "ARG", allow_hyphen_values = true)]
    args: Vec<String>,
    /// Print a buffer after the launch; arguments are counted from 0.
    #[arg(long, value_name = "INDEX")]
    print: Vec<usize>,
    /// How many values of a buffer to print.
    #[arg(long, value_name = "N", default_value_t = 32)]
    limit: usize,
    /// Write a buffer after the launch: as `.npy`, or as raw values under any other name.
    #[arg(long, value_name = "INDEX=FILE", value_parser = argument::target)]
    save: Vec<Target>,
    /// Compare a buffer with an `.npy` file or with values, as in `2=[1,2,3]`.
    #[arg(long, value_name = "INDEX=FILE|[VALUES]", value_parser = argument::target)]
    expect: Vec<Target>,
    /// Greatest difference allowed between values, multiplied by the expected value if that is above 1.
    #[arg(long, value_name = "T", default_value_t = 0.0, value_parser = tolerance)]
    tolerance: f64,
    /// Worker threads (default: one for each core).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    workers: Option<u32>,
    /// End the launch after this number of seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time_limit: Option<f64>,
    /// Select the engine that executes the kernel.
    #[arg(long, value_enum)]
    engine: Option<Engine>,
    /// Run blocks and warps in reverse order.
    #[arg(long)]
    reverse: bool,
    /// Print one JSON document with whole buffers.
    #[arg(long)]
    json: bool,
}

fn extents(text: &str) -> Result<Dim3, String> {
    let mut all = [1; 3];
    let parts: Vec<&str> = text.split([',', 'x']).collect();
    if parts.len() > all.len() {
        return Err("at most three dimensions".to_owned());
    }
    for (extent, part) in all.iter_mut().zip(parts) {
        *extent = part
            .trim()
            .parse()
            .map_err(|_| format!("`{part}` is not a number"))?;
    }
    Ok(Dim3::new(all[0], all[1], all[2]))
}

/// A buffer in device memory and its host copy.
struct Buffer {
    memory: DeviceBuffer<u8>,
    array: Array,
    save_to: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if let Some(engine) = arguments.engine {
        choose_engine(engine)?;
    }
    let parsed = arguments.args.iter().enumerate().map(|(index, text)| {
        argument::parse(text).map_err(|e| Failure::from(format!("argument {index}: {e}")))
    });
    let parsed: Vec<Argument> = parsed.collect::<Result<_, _>>()?;
    check_indices(arguments, &parsed)?;
    let runtime = runtime(arguments)?;
    let module = load(&runtime, arguments)?;
    let kernel = kernel_of(&module, arguments)?;
    let mut packed: Vec<Packed> = Vec::new();
    let mut buffers: Vec<Option<Buffer>> = Vec::new();
    for argument in parsed {
        match argument {
            Argument::Scalar(bytes) => {
                packed.push(Packed::Scalar(bytes));
                buffers.push(None);
            }
            Argument::Buffer { array, save_to } => {
                let memory = runtime.upload(&array.bytes)?;
                packed.push(Packed::Address(memory.ptr().address()));
                buffers.push(Some(Buffer {
                    memory,
                    array,
                    save_to,
                }));
            }
        }
    }
    let elapsed = launch(&runtime, &kernel, arguments, &packed)?;
    for buffer in buffers.iter_mut().flatten() {
        buffer.memory.read(&mut buffer.array.bytes)?;
    }
    save(arguments, &buffers)?;
    report(arguments, kernel.name(), elapsed, &buffers)
}

/// Restarts this program with the environment variable for the engine, unless the variable is already set to `engine`.
/// The runtime reads the engine from the environment, and a process cannot safely change its own
/// environment.
fn choose_engine(engine: Engine) -> Result<(), Failure> {
    let name = engine.name();
    if std::env::var_os(ENGINE_VARIABLE).is_some_and(|v| v == name) {
        return Ok(());
    }
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let error = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(ENGINE_VARIABLE, name)
        .exec();
    Err(format!("cannot start again with {ENGINE_VARIABLE}={name}: {error}").into())
}

/// Checks, before the launch, that the options refer to existing buffers.
fn check_indices(arguments: &Arguments, parsed: &[Argument]) -> Result<(), Failure> {
    let targets = arguments.save.iter().chain(&arguments.expect);
    let named = arguments.print.iter().copied();
    for index in named.chain(targets.map(|target| target.index)) {
        match parsed.get(index) {
            Some(Argument::Buffer { .. }) => {}
            Some(Argument::Scalar(_)) => {
                return Err(format!("argument {index} is a scalar, not a buffer").into());
            }
            None => return Err(format!("no argument {index}").into()),
        }
    }
    Ok(())
}

fn runtime(arguments: &Arguments) -> Result<Runtime, Failure> {
    let mut builder = Runtime::builder();
    if let Some(workers) = arguments.workers {
        builder = builder.workers(workers as usize);
    }
    if let Some(limit) = arguments.time_limit {
        let limit = Duration::try_from_secs_f64(limit).map_err(|e| e.to_string())?;
        builder = builder.time_limit(limit);
    }
    if arguments.reverse {
        builder = builder.reverse();
    }
    Ok(builder.build()?)
}

fn load(runtime: &Runtime, arguments: &Arguments) -> Result<Module, Failure> {
    let name = arguments.file.display().to_string();
    let bytes = input::read(&arguments.file).map_err(|e| format!("{name}: {e}"))?;
    let options = LoadOptions {
        name: Some(name),
        ..LoadOptions::default()
    };
    Ok(runtime.load_image(Image::Bytes(&bytes), &options)?)
}

fn kernel_of(module: &Module, arguments: &Arguments) -> Result<Kernel, Failure> {
    let kernels = module.kernels();
    let names = || {
        let names: Vec<&str> = kernels.iter().map(Kernel::name).collect();
        names.join(", ")
    };
    match (&arguments.kernel, kernels.as_slice()) {
        (Some(name), _) => module
            .kernel(name)
            .map_err(|_| format!("no kernel {name}; the kernels are {}", names()).into()),
        (None, [only]) => Ok(only.clone()),
        (None, []) => Err(String::from("the file has no kernel").into()),
        (None, _) => Err(format!("select one with --kernel: {}", names()).into()),
    }
}

/// The value of an argument.
enum Packed {
    Scalar(Vec<u8>),
    /// The address of a buffer.
    Address(u64),
}

impl Packed {
    /// Returns the bytes of the value for a parameter of `size` bytes. A parameter can hold an address in 4 bytes if
    /// the address is below 4 GiB, as in modules with `.address_size 32`.
    fn bytes(&self, size: usize) -> Vec<u8> {
        match *self {
            Packed::Scalar(ref bytes) => bytes.clone(),
            Packed::Address(address) => {
                let is_narrow = size == 4 && address >> 32 == 0;
                address.to_le_bytes()[..if is_narrow { 4 } else { 8 }].to_vec()
            }
        }
    }
}

/// Packs the arguments at the offsets of the kernel's parameters, and runs the kernel to its end.
fn launch(
    runtime: &Runtime,
    kernel: &Kernel,
    arguments: &Arguments,
    packed: &[Packed],
) -> Result<Duration, Failure> {
    let params = kernel.params();
    if params.len() != packed.len() {
        return Err(format!(
            "{} arguments, {} takes {}",
            packed.len(),
            kernel.name(),
            params.len()
        )
        .into());
    }
    let mut space = vec![0u8; kernel.info().param_bytes as usize];
    for (index, (param, packed)) in params.iter().zip(packed).enumerate() {
        let bytes = packed.bytes(param.size as usize);
        if bytes.len() != param.size as usize {
            return Err(format!(
                "argument {index} has {} bytes, the parameter {}",
                bytes.len(),
                param.size
            )
            .into());
        }
        let start = param.offset as usize;
        let place = space.get_mut(start..start + bytes.len());
        place
            .ok_or_else(|| format!("parameter {index} is outside of the parameter buffer"))?
            .copy_from_slice(&bytes);
    }
    let config = LaunchConfig {
        grid: arguments.grid,
        block: arguments.block,
        shared: arguments.shared,
        cooperative: arguments.cooperative,
        ..LaunchConfig::default()
    };
    let start = Instant::now();
    with_progress(&format!("running {}", kernel.name()), || {
        runtime.launch(kernel, config, space.as_slice())?;
        runtime.synchronize()
    })?;
    Ok(start.elapsed())
}

fn save(arguments: &Arguments, buffers: &[Option<Buffer>]) -> Result<(), Failure> {
    let own = buffers.iter().flatten();
    let own = own.filter_map(|b| Some((&b.array, b.save_to.clone()?)));
    let asked = arguments.save.iter().filter_map(|target| {
        let buffer = buffers.get(target.index)?.as_ref()?;
        Some((&buffer.array, PathBuf::from(&target.text)))
    });
    for (array, path) in own.chain(asked) {
        array.write(&path)?;
    }
    Ok(())
}

/// The result of comparing a buffer with its expected values: the index of the buffer's argument,
/// the numbers of wrong values and of all values, and the first wrong value.
struct Comparison {
    index: usize,
    wrong: usize,
    values: usize,
    first: Option<(usize, String, String)>,
}

fn compare(target: &Target, found: &Array, tolerance: f64) -> Result<Comparison, Failure> {
    let name = |e: String| format!("expected values of argument {}: {e}", target.index);
    let expected = buffer_of(&target.text, found).map_err(name)?;
    if (expected.element, expected.len()) != (found.element, found.len()) {
        return Err(name(format!(
            "{} of {}, the buffer has {} of {}",
            expected.len(),
            expected.element.name(),
            found.len(),
            found.element.name()
        ))
        .into());
    }
    let element = found.element;
    let pairs = found.values().zip(expected.values()).enumerate();
    let mut wrong = pairs.filter(|(_, (f, e))| !element.agree(f, e, tolerance));
    let first = wrong
        .next()
        .map(|(at, (f, e))| (at, element.show(f), element.show(e)));
    Ok(Comparison {
        index: target.index,
        wrong: wrong.count() + usize::from(first.is_some()),
        values: found.len(),
        first,
    })
}

fn report(
    arguments: &Arguments,
    kernel: &str,
    elapsed: Duration,
    buffers: &[Option<Buffer>],
) -> Outcome {
    let array = |index: usize| {
        let buffer = buffers.get(index).and_then(Option::as_ref);
        buffer
            .map(|b| &b.array)
            .ok_or_else(|| Failure::from(format!("argument {index} is not a buffer")))
    };
    let mut comparisons = Vec::new();
    for target in &arguments.expect {
        comparisons.push(compare(target, array(target.index)?, arguments.tolerance)?);
    }
    let printed: Vec<(usize, &Array)> = arguments
        .print
        .iter()
        .map(|&index| Ok((index, array(index)?)))
        .collect::<Result<_, Failure>>()?;
    let good = comparisons.iter().all(|c| c.wrong == 0);
    let text = if arguments.json {
        document(kernel, elapsed, &printed, &comparisons)
    } else {
        text(arguments, &printed, &comparisons)
    };
    Ok(Report {
        text,
        status: u8::from(!good),
    })
}

fn document(
    kernel: &str,
    elapsed: Duration,
    printed: &[(usize, &Array)],
    comparisons: &[Comparison],
) -> String {
    let buffers: Vec<_> = printed
        .iter()
        .map(|(index, array)| {
            let values: Vec<_> = array.values().map(|v| array.element.json(v)).collect();
            json!({
                "argument": index,
                "type": array.element.name(),
                "shape": array.shape,
                "values": values,
            })
        })
        .collect();
    let comparisons: Vec<_> = comparisons
        .iter()
        .map(|c| json!({"argument": c.index, "values": c.values, "wrong": c.wrong}))
        .collect();
    let document = json!({
        "kernel": kernel,
        "seconds": elapsed.as_secs_f64(),
        "buffers": buffers,
        "comparisons": comparisons,
    });
    format!("{document}\n")
}

fn text(arguments: &Arguments, printed: &[(usize, &Array)], compared: &[Comparison]) -> String {
    let mut text = String::new();
    for (index, array) in printed {
        let values: Vec<String> = array
            .values()
            .take(arguments.limit)
            .map(|value| array.element.show(value))
            .collect();
        let more = array.len().saturating_sub(values.len());
        let more = match more {
            0 => String::new(),
            more => format!(" ... {more} more"),
        };
        let head = format!("{index}: {}[{}]", array.element.name(), array.len());
        let head = paint(&head, Paint::Heading);
        let _ = writeln!(text, "{head} {}{more}", values.join(" "));
    }
    for c in compared {
        let line = match &c.first {
            None => paint(
                &format!("{}: all {} values agree", c.index, c.values),
                Paint::Good,
            ),
            Some((at, found, expected)) => paint(
                &format!(
                    "{}: {} of {} values are wrong, first at {at}: {found}, expected {expected}",
                    c.index, c.wrong, c.values
                ),
                Paint::Bad,
            ),
        };
        let _ = writeln!(text, "{line}");
    }
    text
}
