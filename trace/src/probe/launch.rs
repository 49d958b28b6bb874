//! The probes of a launch: the memory of the maps before it, and the result file after it.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use margay::probe::{Beginning, Block, Ended, LaunchProbes, Memory, ProbedLaunch, Probes};
use margay::{Error, Result};
use margay_probe::{
    Capacity, Event, Geometry, HEADER_BYTES, LayoutError, MapLayout, Offsets, ResultFile, Section,
    Storage,
};
use parking_lot::Mutex;

use super::kernel::Kernel;
use super::{Mode, Shared};

/// Number of bytes of a dynamic map's memory, if the device has that much. Only pages that probes write use memory of
/// the host.
const DYNAMIC_BYTES: u64 = 1 << 30;

/// A map of a launch.
struct Map {
    layout: MapLayout,
    /// The bytes of a slot of a dynamic map, in the original engine's manner.
    slot: Option<u32>,
}

impl Map {
    fn block(&self, launch: &Geometry) -> std::result::Result<Block, LayoutError> {
        let least = match self.slot {
            Some(slot) => self.layout.plain_bytes(launch, slot)?,
            None => self.layout.device_bytes(launch)?,
        };
        let bytes = match (self.layout.capacity, self.layout.storage) {
            (Capacity::Dynamic, Storage::Counted) => least.max(DYNAMIC_BYTES),
            _ => least,
        };
        Ok(Block { bytes, least })
    }

    /// Reads the used part of the map's memory.
    fn memory(&self, memory: &dyn Memory, index: usize, bytes: u64) -> Result<Vec<u8>> {
        let used = match self.layout.storage {
            Storage::Counted => {
                let header = memory.read(index, 0, HEADER_BYTES)?;
                self.layout.used_bytes(&header, bytes)
            }
            Storage::Plain => bytes,
        };
        memory.read(index, 0, used)
    }

    fn section<'m>(
        &self,
        memory: &'m [u8],
        launch: &Geometry,
    ) -> std::result::Result<Section<'m>, LayoutError> {
        match self.slot {
            Some(slot) => self.layout.plain_section(memory, launch, slot),
            None => self.layout.section(memory, launch),
        }
    }
}

/// A result file that was written.
struct Saved {
    path: String,
    /// The size of the file.
    bytes: u64,
    /// The maps that had no space for all records, and the number of records that are missing.
    dropped: Vec<(String, u64)>,
}

/// The probes of a launch.
pub(super) struct Run {
    shared: Arc<Shared>,
    original: Arc<Mutex<Option<Duration>>>,
    shape: Geometry,
    maps: Vec<Map>,
    blocks: Vec<Block>,
    /// The sizes of the blocks that were allocated.
    sizes: Mutex<Vec<u64>>,
    arguments: Vec<u64>,
    /// When the launch was submitted, and how long its preparation took.
    submitted: (SystemTime, Instant),
    prologue: Mutex<Duration>,
}

impl Run {
    /// Begins a launch. `counted` is the result of the counting run.
    pub(super) fn new(
        kernel: &Kernel,
        shape: Geometry,
        layouts: Vec<MapLayout>,
        counted: Option<u32>,
        arguments: &[u8],
    ) -> Result<Run> {
        let submitted = (SystemTime::now(), Instant::now());
        let maps: Vec<Map> = layouts
            .into_iter()
            .map(|layout| Map {
                slot: counted.filter(|_| layout.capacity == Capacity::Dynamic),
                layout,
            })
            .collect();
        let mode = kernel.shared.settings.mode;
        let blocks = match mode {
            Mode::Memory => Ok(Vec::new()),
            _ => maps.iter().map(|map| map.block(&shape)).collect(),
        };
        let blocks =
            blocks.map_err(|error: LayoutError| Error::LaunchOutOfResources(error.to_string()))?;
        if mode == Mode::Benchmark {
            clear_caches();
        }
        let (words, _) = arguments.as_chunks::<8>();
        Ok(Run {
            shared: Arc::clone(&kernel.shared),
            original: Arc::clone(&kernel.original),
            shape,
            maps,
            blocks,
            sizes: Mutex::default(),
            arguments: words.iter().map(|&word| u64::from_le_bytes(word)).collect(),
            submitted,
            prologue: Mutex::default(),
        })
    }

    /// Returns the log's lines about the launch and its maps.
    fn describe(&self) -> Vec<Event<'_>> {
        let time = self.submitted.0.duration_since(UNIX_EPOCH);
        let time = time.map_or(0, |time| time.as_nanos() as u64);
        let mut lines = vec![
            Event::Arguments(time, &self.arguments),
            Event::Launch(self.shape),
        ];
        let ctas = self.shape.ctas().unwrap_or(0);
        let mut total = 0;
        for map in &self.maps {
            let slots = map.layout.slots_per_cta(&self.shape).unwrap_or(0);
            let slot = match (map.slot, map.layout.capacity) {
                (Some(slot), _) => i64::from(slot),
                (None, Capacity::Records(records)) => {
                    i64::from(records) * i64::from(map.layout.record)
                }
                (None, Capacity::Dynamic) => -1,
            };
            let bytes = map.block(&self.shape).map_or(0, |block| block.least);
            total += bytes;
            lines.push(Event::Map(map.layout.level, ctas, slots, slot, bytes));
        }
        lines.push(Event::Memory(total));
        lines
    }

    /// Writes the result file.
    fn save(&self, memory: &dyn Memory) -> std::result::Result<Saved, String> {
        let sizes = self.sizes.lock().clone();
        let sizes = sizes.iter().zip(&self.blocks);
        // A block has at least one byte, also if its map needs none.
        let sizes = sizes.map(|(&size, block)| size.min(block.bytes));
        let mut parts = Vec::new();
        for (index, (map, bytes)) in self.maps.iter().zip(sizes).enumerate() {
            let part = map.memory(memory, index, bytes);
            parts.push(part.map_err(|error| error.to_string())?);
        }
        let sections = self.maps.iter().zip(&parts);
        let sections = sections.map(|(map, part)| map.section(part, &self.shape));
        let sections = sections.collect::<std::result::Result<Vec<_>, _>>();
        let sections = sections.map_err(|error| error.to_string())?;
        let dropped = sections.iter().filter(|section| section.dropped > 0);
        let dropped = dropped
            .map(|section| (section.map.clone(), section.dropped))
            .collect();
        let result = ResultFile {
            launch: self.shape,
            sections,
            offsets: match self.shared.settings.compat {
                true => Offsets::Original,
                false => Offsets::Exact,
            },
        };
        let path = self.shared.folder.save(&result);
        let path = path.map_err(|error| error.to_string())?;
        Ok(Saved {
            path: path.to_string_lossy().into_owned(),
            bytes: result.bytes(),
            dropped,
        })
    }

    /// Saves the results, runs the callback, and adds the lines about both to the log.
    fn finish(&self, end: &Ended<'_>) {
        let began = Instant::now();
        let saved = self.save(end.memory);
        let mut lines = Vec::new();
        match &saved {
            Ok(saved) => {
                let dropped = saved.dropped.iter();
                lines.extend(dropped.map(|(map, count)| Event::Dropped(map, *count)));
                lines.push(Event::Saved(&saved.path, saved.bytes));
            }
            Err(error) => lines.push(Event::NotSaved(error)),
        }
        lines.push(Event::Times(
            millis(*self.prologue.lock()),
            millis(end.time),
            millis(began.elapsed()),
        ));
        let folder = &self.shared.folder;
        folder.log(&lines);
        match &saved {
            Ok(Saved { path, dropped, .. }) => {
                for (map, count) in dropped {
                    margay::files::tell(format_args!("margay: {map}: {count} records dropped"));
                }
                if let Some(script) = folder.callback() {
                    self.call(script, path);
                }
            }
            Err(error) => margay::files::tell(format_args!(
                "margay: the results of a launch are lost: {error}"
            )),
        }
    }

    fn call(&self, script: &Path, file: &str) {
        let python = &self.shared.settings.python;
        let folder = &self.shared.folder;
        folder.log(&[Event::Callback(
            &python.to_string_lossy(),
            &script.to_string_lossy(),
            file,
        )]);
        let succeeded = call(python, script, file, folder.path());
        if !succeeded {
            margay::files::tell(format_args!(
                "margay: the callback {} failed",
                script.display()
            ));
        }
        folder.log(&[Event::CallbackEnded(succeeded)]);
    }
}

/// Runs a Python program without the variables that make a program use Margay. The program can import `read`, which is
/// in `folder`. Returns whether it succeeds.
fn call(python: &OsStr, script: &Path, file: &str, folder: &Path) -> bool {
    let mut command = Command::new(python);
    command.arg(script).arg(file).stdin(Stdio::null());
    let paths = std::env::var_os("PYTHONPATH").unwrap_or_default();
    let paths = std::env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty());
    let paths = std::iter::once(folder.to_owned()).chain(paths);
    if let Ok(paths) = std::env::join_paths(paths) {
        command.env("PYTHONPATH", paths);
    }
    let ours = std::env::vars_os().map(|(name, _)| name).filter(|name| {
        let name = name.to_string_lossy();
        name.starts_with("MARGAY_") || name.starts_with("LD_") || name.starts_with("XPTI_")
    });
    for name in ours {
        command.env_remove(name);
    }
    command.status().is_ok_and(|status| status.success())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl LaunchProbes for Run {
    fn blocks(&self) -> Vec<Block> {
        self.blocks.clone()
    }

    fn begin(&self, blocks: &[(u64, u64)]) -> Beginning {
        *self.sizes.lock() = blocks.iter().map(|(_, bytes)| *bytes).collect();
        let mut beginning = Beginning::default();
        for (map, &(address, bytes)) in self.maps.iter().zip(blocks) {
            let header = match map.layout.storage {
                Storage::Counted => map.layout.header(bytes).to_vec(),
                Storage::Plain => Vec::new(),
            };
            beginning.first_bytes.push(header);
            beginning.arguments.push(address);
        }
        if !blocks.is_empty() {
            let dynamic = self.maps.iter();
            let dynamic = dynamic.filter(|map| map.layout.capacity == Capacity::Dynamic);
            let bytes = dynamic.map(|map| map.slot.unwrap_or_else(|| map.layout.chunk_bytes()));
            beginning.arguments.extend(bytes.map(u64::from));
        }
        *self.prologue.lock() = self.submitted.1.elapsed();
        beginning
    }

    fn end(&self, end: &Ended<'_>) {
        let mut lines = self.describe();
        /// `CUDA_ERROR_LAUNCH_FAILED`.
        const FAILED: u32 = 719;
        let result = if end.completed { 0 } else { FAILED };
        let folder = &self.shared.folder;
        match self.shared.settings.mode {
            Mode::Memory => folder.log(&lines),
            Mode::Benchmark => {
                let (prologue, time) = (millis(*self.prologue.lock()), millis(end.time));
                // Launches of graphs run only with probes.
                lines.push(match self.original.lock().take() {
                    Some(original) => {
                        Event::Benchmark(prologue, time, 0.0, millis(original), result)
                    }
                    None => Event::Times(prologue, time, 0.0),
                });
                folder.log(&lines);
            }
            Mode::Results => {
                lines.push(Event::Result(result));
                folder.log(&lines);
                self.finish(end);
            }
        }
    }
}

/// The launches of a kernel without probes, whose time is measured.
pub(super) struct Original(pub(super) Arc<Mutex<Option<Duration>>>);

impl Probes for Original {
    fn launch(&self, _: &ProbedLaunch<'_>) -> Result<Option<Box<dyn LaunchProbes>>> {
        clear_caches();
        Ok(Some(Box::new(Original(Arc::clone(&self.0)))))
    }
}

impl LaunchProbes for Original {
    fn blocks(&self) -> Vec<Block> {
        Vec::new()
    }

    fn begin(&self, _: &[(u64, u64)]) -> Beginning {
        Beginning::default()
    }

    fn end(&self, end: &Ended<'_>) {
        *self.0.lock() = Some(end.time);
    }
}

/// Writes 256 MiB, so that the caches of the processor contain nothing of earlier launches.
fn clear_caches() {
    const BYTES: usize = 256 << 20;
    static BUFFER: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    let mut buffer = BUFFER.lock();
    if buffer.is_empty() && buffer.try_reserve_exact(BYTES).is_err() {
        return;
    }
    buffer.clear();
    buffer.resize(BYTES, 1);
    std::hint::black_box(&*buffer);
}
