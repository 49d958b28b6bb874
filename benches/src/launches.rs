//! Measures the cost of launches. The launched kernels are empty.

use margay::{DeviceBuffer, Kernel, LaunchConfig, MemoryRange, NativeKernel, Runtime, Stream};
use serde::Serialize;

use crate::limits::waking;
use crate::measure::{self, Time};

const PTX: &str = include_str!("../cuda/empty.ptx");

/// Number of launches in a short sequence of launches.
pub const MANY: u32 = 1000;
/// Number of launches in a long sequence of launches.
pub const VERY_MANY: u32 = 10_000;

/// Empty kernels that have been launched before.
pub struct Launches {
    stream: Stream,
    plain: Kernel,
    with_arguments: Kernel,
    native: NativeKernel,
    buffer: DeviceBuffer<f32>,
}

impl Launches {
    /// Loads the kernels and launches each once.
    ///
    /// # Errors
    /// Returns the error of the runtime if the kernels cannot be loaded or launched.
    pub fn new(runtime: &Runtime) -> margay::Result<Launches> {
        let module = runtime.load_ptx(PTX)?;
        let buffer = runtime.alloc(1)?;
        let range = MemoryRange::of(buffer.ptr().address(), 4);
        let native = NativeKernel::new("empty", 1, |_| Ok(()));
        let launches = Launches {
            stream: runtime.context()?.legacy_stream(),
            plain: module.kernel("empty")?,
            with_arguments: module.kernel("empty_with_arguments")?,
            native: native.reads(range).reads(range).writes(range),
            buffer,
        };
        launches.try_empty()?;
        launches.try_arguments()?;
        launches.stream.launch_native(&launches.native)?;
        launches.stream.synchronize()?;
        Ok(launches)
    }

    fn try_empty(&self) -> margay::Result<()> {
        self.stream
            .launch(&self.plain, LaunchConfig::new(1, 32), ())
    }

    fn try_arguments(&self) -> margay::Result<()> {
        let arguments = (&self.buffer, &self.buffer, 7i32, [1u64; 14]);
        let config = LaunchConfig::new(1, 32);
        self.stream.launch(&self.with_arguments, config, arguments)
    }

    /// Launches a kernel without arguments and waits for its end.
    ///
    /// # Panics
    /// Panics if the kernel fails.
    pub fn empty(&self) {
        self.done(self.try_empty());
    }

    /// Launches a kernel with four arguments, which have 136 bytes together, and waits for its end.
    pub fn with_arguments(&self) {
        self.done(self.try_arguments());
    }

    /// Launches a native kernel with one task and three ranges of memory, and waits for its end.
    pub fn native(&self) {
        self.done(self.stream.launch_native(&self.native));
    }

    /// Submits `launches` launches of a native kernel to one stream and waits for the last launch.
    pub fn many_native(&self, launches: u32) {
        for _ in 0..launches {
            let launched = self.stream.launch_native(&self.native);
            launched.expect("the kernel ran before");
        }
        self.done(Ok(()));
    }

    /// Submits `launches` launches to one stream and waits for the last launch.
    pub fn many(&self, launches: u32) {
        for _ in 0..launches {
            self.try_empty().expect("the kernel ran before");
        }
        self.done(Ok(()));
    }

    fn done(&self, launched: margay::Result<()>) {
        let done = launched.and_then(|()| self.stream.synchronize());
        done.expect("the kernel ran before");
    }
}

/// The cost of one kind of launch.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Launched {
    pub(crate) what: &'static str,
    /// Number of launches in a run; [`Launched::time`] is the time of a run.
    pub(crate) launches: u32,
    pub(crate) time: Time,
}

/// Measures all kinds of launches, with as many workers as the machine has cores.
pub(crate) fn measure() -> Result<Vec<Launched>, String> {
    margay::files::tell(format_args!("launches"));
    let runtime = Runtime::new().map_err(|e| e.to_string())?;
    let kernels = Launches::new(&runtime).map_err(|e| e.to_string())?;
    let row = |what, launches, time| Launched {
        what,
        launches,
        time,
    };
    Ok(vec![
        row("to its end", 1, measure::alone(|| kernels.empty())),
        row(
            "with 136 bytes of arguments, to its end",
            1,
            measure::alone(|| kernels.with_arguments()),
        ),
        row(
            "to its end, after 3 ms without work",
            1,
            measure::after(waking::PAUSE, || kernels.empty()),
        ),
        row(
            "one of 1,000 in a stream",
            MANY,
            measure::alone(|| kernels.many(MANY)),
        ),
        row(
            "one of 10,000 in a stream",
            VERY_MANY,
            measure::alone(|| kernels.many(VERY_MANY)),
        ),
        row(
            "of a native kernel, to its end",
            1,
            measure::alone(|| kernels.native()),
        ),
        row(
            "of a native kernel, one of 1,000 in a stream",
            MANY,
            measure::alone(|| kernels.many_native(MANY)),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_run() {
        let runtime = Runtime::builder().workers(2).build().expect("starts");
        let launches = Launches::new(&runtime).expect("loads");
        launches.empty();
        launches.with_arguments();
        launches.many(MANY);
        launches.native();
        launches.many_native(MANY);
    }
}
