//! What is simulated: the parameters of a GPU.
//!
//! A configuration is built in, or it comes from files in the syntax of the simulator (`-option value`). The built-in ones
//! have the values that the simulator's own files have for the same GPUs.

mod builtin;
mod lexer;
mod options;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::ConfigError;

/// The parameters of a GPU.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Config {
    /// The name of the built-in configuration, or the names of the files.
    pub name: String,
    /// The number of clusters of cores.
    pub clusters: u32,
    /// The number of cores of a cluster.
    pub cores_per_cluster: u32,
    /// What a core has.
    pub core: CoreShape,
    /// The execution units of a core.
    pub units: Units,
    /// Kernel launches.
    pub launch: LaunchShape,
    /// The data cache of a core.
    pub l1: L1Shape,
    /// Shared memory.
    pub shared: SharedShape,
    /// The second cache.
    pub l2: L2Shape,
    /// Device memory.
    pub dram: DramShape,
    /// The clocks in MHz.
    pub clocks: Clocks,
    /// Whether copies to device memory fill the second cache (`-gpgpu_perf_sim_memcpy`).
    pub copies_fill_l2: bool,
    /// The options of files that the model does not use.
    pub ignored: Vec<IgnoredOption>,
}

/// The resources of a core, which limit its resident CTAs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CoreShape {
    /// The number of threads.
    pub threads: u32,
    /// The number of CTAs.
    pub ctas: u32,
    /// The number of registers.
    pub registers: u32,
    /// The number of schedulers.
    pub schedulers: u32,
    /// How a scheduler chooses a warp.
    pub policy: Policy,
    /// Whether each scheduler has its own units.
    pub sub_cores: bool,
}

/// How a scheduler chooses among the warps that can issue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// The next warp after the one that issued last.
    LooseRoundRobin,
    /// The warp that issued last, or else the one that has been resident for longest.
    GreedyThenOldest,
}

/// The timing of a kind of unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Unit {
    /// The number of units of a core.
    pub count: u32,
    /// Cycles from the start to the result, without the stages of the pipeline around the unit.
    pub latency: u32,
    /// Cycles from one start to the next one.
    pub interval: u32,
}

/// The units of a core.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Units {
    /// Single precision.
    pub fp32: Unit,
    /// Integers.
    pub integer: Unit,
    /// Double precision.
    pub fp64: Unit,
    /// Special functions.
    pub special: Unit,
    /// The four optional units: branches, textures, matrices, uniform operations. A count of 0 means that integer units
    /// execute these instructions.
    pub specialized: [Unit; 4],
}

/// Kernel launches.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LaunchShape {
    /// Cycles from a launch to its first CTA.
    pub kernel_latency: u64,
    /// Additional cycles for each CTA.
    pub cta_latency: u64,
    /// The number of kernels that may run at the same time.
    pub max_kernels: u32,
    /// Whether CTAs of different kernels may be resident in the same core.
    pub share_cores: bool,
}

/// The shape of a cache. Lines have 128 bytes and 4 sectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct CacheShape {
    /// The number of sets.
    pub sets: u32,
    /// The number of lines of a set.
    pub ways: u32,
    /// Whether the set index is a hash of the address.
    pub hashed: bool,
    /// The number of outstanding sectors.
    pub outstanding: u32,
    /// The number of reads that can wait for an outstanding sector, with the one that requested it.
    pub merges: u32,
    /// The number of requests that wait to leave the cache.
    pub miss_queue: u32,
}

/// The data cache of a core.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct L1Shape {
    /// The cache.
    pub cache: CacheShape,
    /// Cycles to a hit.
    pub latency: u32,
    /// The number of banks, which are interleaved by sectors. A power of two.
    pub banks: u32,
    /// Whether a kernel begins with an empty cache.
    pub flush: bool,
    /// Whether accesses to global memory bypass the cache.
    pub skip_global: bool,
    /// Whether the cache gets what shared memory leaves of [`L1Shape::unified_bytes`].
    pub adaptive: bool,
    /// The bytes that the cache and shared memory divide.
    pub unified_bytes: u32,
    /// The sizes of shared memory in bytes that a division may have, in ascending order.
    pub shared_options: Vec<u32>,
}

/// Shared memory.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SharedShape {
    /// The bytes of a core.
    pub bytes: u32,
    /// Cycles to the data.
    pub latency: u32,
    /// The number of banks of 4 bytes.
    pub banks: u32,
}

/// The second cache, which has slices.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct L2Shape {
    /// The cache of a slice.
    pub cache: CacheShape,
    /// Cycles before the cache is accessed.
    pub latency: u32,
    /// The number of slices of a channel of device memory.
    pub slices_per_channel: u32,
    /// Whether the slice is a hash of the address.
    pub hashed: bool,
}

/// Device memory. Times are in cycles of its clock unless they say otherwise.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DramShape {
    /// The number of channels.
    pub channels: u32,
    /// Cycles of a core from the second cache to a channel.
    pub latency: u32,
    /// The bytes of the data bus of a channel.
    pub bus_bytes: u32,
    /// The number of transfers of a burst.
    pub burst: u32,
    /// The number of transfers in a cycle.
    pub transfers_per_cycle: u32,
    /// The number of accesses that a channel reorders.
    pub queue: u32,
    /// The number of banks of a channel.
    pub banks: u32,
    /// The number of groups of banks.
    pub bank_groups: u32,
    /// Between columns of different groups.
    pub column_to_column: u32,
    /// Between columns of a group.
    pub column_to_column_in_group: u32,
    /// Between activations of a bank.
    pub row_cycle: u32,
    /// Between activations of different banks.
    pub row_to_row: u32,
    /// From activation to access.
    pub row_to_column: u32,
    /// From precharge to activation.
    pub precharge: u32,
    /// From access to data.
    pub column_latency: u32,
}

/// Clocks in MHz.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Clocks {
    /// The cores.
    pub core: f64,
    /// Device memory.
    pub dram: f64,
}

/// An option of a file that has no effect.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct IgnoredOption {
    /// The file.
    pub path: PathBuf,
    /// The line.
    pub line: u64,
    /// The option with its minus sign.
    pub option: String,
}

impl Config {
    /// The names of the built-in configurations.
    pub const BUILTIN: [&'static str; 3] = ["SM7_QV100", "SM75_RTX2060", "SM86_RTX3070"];

    /// Returns the built-in configuration with this name. Case does not matter, and the part before `_` may be omitted:
    /// `rtx3070`.
    pub fn builtin(name: &str) -> Option<Config> {
        let matches = |known: &&&str| {
            let short = known.split_once('_').map_or(**known, |(_, short)| short);
            known.eq_ignore_ascii_case(name) || short.eq_ignore_ascii_case(name)
        };
        let name = *Config::BUILTIN.iter().find(matches)?;
        Some(match name {
            "SM75_RTX2060" => builtin::rtx2060(),
            "SM86_RTX3070" => builtin::rtx3070(),
            _ => builtin::qv100(),
        })
    }

    /// Returns the configuration that arguments describe: names of built-in ones and files. Each argument overrides the
    /// previous ones. A built-in name replaces everything before it. Without a built-in name, SM7_QV100 is the start.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if a file cannot be read, an option lacks its value, a value is malformed or out of range, or the
    /// result is inconsistent.
    pub fn load<S: AsRef<str>>(arguments: &[S]) -> Result<Config, ConfigError> {
        let mut config = builtin::qv100();
        let mut files = Vec::new();
        for argument in arguments {
            let argument = argument.as_ref();
            match Config::builtin(argument) {
                Some(builtin) => {
                    config = builtin;
                    files = vec![config.name.clone()];
                }
                None => {
                    config.apply_file(Path::new(argument))?;
                    files.push(argument.to_owned());
                }
            }
        }
        if !files.is_empty() {
            config.name = files.join(" ");
        }
        config.check(Path::new(&config.name))?;
        Ok(config)
    }

    /// Applies the options of a file.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] as for [`Config::load`].
    pub fn apply_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = lexer::read(path)?;
        self.apply(path, &text)
    }

    /// Applies the options of a text. `path` stands for it in errors.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] as for [`Config::load`].
    pub fn apply(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        for option in lexer::options(path, text)? {
            let error = |message| ConfigError {
                path: path.to_owned(),
                line: option.line,
                message: format!("option {}: {message}", option.name),
            };
            match options::find(&option.name) {
                Some(set) => set(self, &option.value).map_err(error)?,
                None => self.ignored.push(IgnoredOption {
                    path: path.to_owned(),
                    line: option.line,
                    option: option.name,
                }),
            }
        }
        self.check(path)
    }

    /// Returns the number of cores.
    pub fn cores(&self) -> u32 {
        self.clusters * self.cores_per_cluster
    }

    /// Returns the number of slices of the second cache.
    pub fn slices(&self) -> u32 {
        self.dram.channels * self.l2.slices_per_channel
    }

    /// Returns the number of warps that a core can hold.
    pub fn warps_per_core(&self) -> u32 {
        self.core.threads / 32
    }

    /// Checks what single values cannot show.
    fn check(&self, path: &Path) -> Result<(), ConfigError> {
        let limits = [
            (
                "cores",
                u64::from(self.clusters) * u64::from(self.cores_per_cluster),
                4096,
            ),
            (
                "slices of the L2 cache",
                u64::from(self.dram.channels) * u64::from(self.l2.slices_per_channel),
                4096,
            ),
            ("L1 cache lines", self.l1.cache.lines(), 1 << 20),
            ("L2 cache lines of a slice", self.l2.cache.lines(), 1 << 20),
            ("warps of a core", u64::from(self.warps_per_core()), 1024),
        ];
        let wrong = limits
            .iter()
            .find(|(_, value, limit)| !(1..=*limit).contains(value));
        wrong.map_or(Ok(()), |(what, value, limit)| {
            Err(ConfigError {
                path: path.to_owned(),
                line: 0,
                message: format!("the number of {what} is {value}, not between 1 and {limit}"),
            })
        })
    }
}

impl CacheShape {
    /// Returns the number of lines.
    pub fn lines(&self) -> u64 {
        u64::from(self.sets) * u64::from(self.ways)
    }
}
