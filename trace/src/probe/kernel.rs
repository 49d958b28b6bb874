//! The probes of a kernel.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use margay::probe::{Code, LaunchProbes, ProbedLaunch, Probes, Variant};
use margay_probe::compat::CompatKernel;
use margay_probe::{Event, Geometry, MapLayout, Storage};
use parking_lot::Mutex;

use super::compat::{Counted, Counter};
use super::launch::{Original, Run};
use super::{Mode, Shared};

/// The texts of a module.
pub(super) struct Texts {
    pub(super) name: String,
    pub(super) original: Arc<str>,
    /// The text with probes in all kernels; `None` if the module is not loaded with it.
    pub(super) probed: Option<Arc<str>>,
    /// The file with the original text in the folder of the last kernel.
    pub(super) written: Mutex<Option<PathBuf>>,
}

/// A kernel with probes.
pub(super) struct Kernel {
    pub(super) shared: Arc<Shared>,
    texts: Arc<Texts>,
    name: String,
    parameters: usize,
    /// The kernel in the original engine's manner; `None` if the engine does not probe it.
    compat: OnceLock<Option<CompatKernel>>,
    /// The result of the last counting run, in the original engine's manner.
    counted: Arc<Counted>,
    /// The time of the last launch without probes, in benchmark mode.
    pub(super) original: Arc<Mutex<Option<Duration>>>,
}

impl Kernel {
    pub(super) fn new(
        shared: Arc<Shared>,
        texts: Arc<Texts>,
        name: String,
        parameters: usize,
    ) -> Kernel {
        Kernel {
            shared,
            texts,
            name,
            parameters,
            compat: OnceLock::new(),
            counted: Arc::default(),
            original: Arc::default(),
        }
    }

    /// Returns the kernel with probes in the original engine's manner, and says why it has none.
    fn compat(&self) -> Option<&CompatKernel> {
        let make = || {
            let Texts { name, original, .. } = &*self.texts;
            let file = &self.shared.settings.file;
            match margay_probe::compat::probe(name, original, &self.name, file) {
                Ok(kernel) => Some(kernel),
                Err(error) => {
                    let folder = &self.shared.folder;
                    folder.log(&[Event::Probe("failed", &error.to_string())]);
                    margay::files::tell(format_args!(
                        "margay: {} has no probes: {error}",
                        self.name
                    ));
                    None
                }
            }
        };
        self.compat.get_or_init(make).as_ref()
    }

    /// Creates the folder of the kernel.
    fn add_folder(&self) {
        let original = ("original.ptx", &*self.texts.original);
        let mut texts = vec![original];
        match self.compat.get() {
            Some(Some(kernel)) => {
                texts.push(("pruned.ptx", &kernel.pruned));
                texts.push(("probed.ptx", &kernel.probed));
                texts.extend(kernel.countd.as_deref().map(|text| ("countd.ptx", text)));
            }
            Some(None) => {}
            None => texts.extend(
                self.texts
                    .probed
                    .as_deref()
                    .map(|text| ("probed.ptx", text)),
            ),
        }
        // A folder that cannot be written is noted in the log; the results do not depend on it.
        let mut written = self.texts.written.lock();
        let Shared { settings, folder } = &*self.shared;
        let kernel = (&*self.name, self.parameters);
        match folder.add_kernel(kernel, &settings.file, written.as_deref(), &texts) {
            Ok(path) => {
                *written = Some(path);
                folder.log(&[Event::Probe("finish", &self.name)]);
            }
            Err(error) => folder.log(&[Event::Probe("write", &error.to_string())]),
        }
    }

    /// Returns the layouts of the maps.
    fn layouts(&self, storage: Storage) -> Vec<MapLayout> {
        let maps = self.shared.settings.file.maps.iter();
        maps.map(|map| MapLayout::new(map, storage)).collect()
    }
}

impl Probes for Kernel {
    fn code(&self) -> Code {
        let settings = &self.shared.settings;
        let code = match settings.compat && settings.mode != Mode::Memory {
            false => Code::InPlace,
            true => match self.compat() {
                Some(kernel) => Code::Separate(kernel.probed.as_str().into()),
                None => Code::Unprobed,
            },
        };
        self.add_folder();
        code
    }

    fn rehearsal(&self) -> Option<Variant> {
        let settings = &self.shared.settings;
        match settings.mode {
            Mode::Memory => None,
            Mode::Benchmark => Some(Variant {
                text: Arc::clone(&self.texts.original),
                probes: Arc::new(Original(Arc::clone(&self.original))),
            }),
            Mode::Results => {
                let text = self.compat.get()?.as_ref()?.countd.as_deref()?;
                Some(Variant {
                    text: text.into(),
                    probes: Arc::new(Counter::new(Arc::clone(&self.counted))),
                })
            }
        }
    }

    fn launch(&self, launch: &ProbedLaunch<'_>) -> margay::Result<Option<Box<dyn LaunchProbes>>> {
        let shape = geometry(launch);
        let settings = &self.shared.settings;
        let storage = match settings.compat {
            true => Storage::Plain,
            false => Storage::Counted,
        };
        let counted = match launch.is_rehearsed && settings.mode == Mode::Results {
            true => self.counted.take(),
            false => None,
        };
        if settings.compat
            && settings.file.is_dynamic()
            && counted.is_none()
            && settings.mode != Mode::Memory
        {
            // The original engine does not probe launches of graphs, and a captured launch has no counting run.
            self.shared.folder.log(&[Event::Unprobed(shape)]);
            return Ok(None);
        }
        let run = Run::new(
            self,
            shape,
            self.layouts(storage),
            counted,
            launch.arguments,
        )?;
        Ok(Some(Box::new(run)))
    }
}

pub(super) fn geometry(launch: &ProbedLaunch<'_>) -> Geometry {
    Geometry {
        grid: launch.grid.to_array(),
        block: launch.block.to_array(),
        shared: launch.dynamic_shared,
    }
}
