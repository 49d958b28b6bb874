//! Runs Neutrino's probes: rewrites the kernels that a program loads, and writes a folder of results that Neutrino's
//! programs read.
//!
//! [`Neutrino`] is a prober of the runtime ([`margay::probe`]); the crate `margay_probe` knows the formats. It is also a
//! tool, which notes allocations and launches without probes in the folder's log.

mod compat;
mod folder;
mod kernel;
mod launch;
mod settings;

use std::sync::Arc;

use margay::KernelInfo;
use margay::observe::{Events, HostEvent, Launch, Request, Tool};
use margay::probe::{ProbedKernel, Prober, PtxText, Rewritten};
use margay_frontend::{SourceFile, parse};
pub use margay_probe::LocalTime;
use margay_probe::{Event, Geometry, Outcome, rewrite};
use parking_lot::Mutex;
use rustc_hash::FxHashSet;

use folder::Folder;
use kernel::{Kernel, Texts};
pub use settings::{Mode, Settings};

/// The probes of a process, and the folder of their results.
pub struct Neutrino {
    shared: Arc<Shared>,
    /// The names of the kernels with probes.
    probed: Mutex<FxHashSet<String>>,
}

/// What all kernels share.
struct Shared {
    settings: Settings,
    folder: Folder,
}

impl Neutrino {
    /// Creates the folder of results, in the folder that the settings name. `start` is the present local time.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be created.
    pub fn new(settings: Settings, start: LocalTime) -> std::io::Result<Neutrino> {
        let folder = Folder::create(&settings, start)?;
        Ok(Neutrino {
            shared: Arc::new(Shared { settings, folder }),
            probed: Mutex::default(),
        })
    }

    /// Returns the folder of results.
    pub fn folder(&self) -> &std::path::Path {
        self.shared.folder.path()
    }
}

impl Prober for Neutrino {
    fn module(&self, text: &PtxText<'_>) -> Option<Rewritten> {
        let Shared { settings, folder } = &*self.shared;
        folder.log(&[Event::Image("ptx", text.text.len() as u64)]);
        let parsed = parse(Arc::new(SourceFile::new(text.name, text.text)));
        let rewritten = rewrite(
            &parsed,
            &settings.file,
            &settings.selection,
            settings.options,
        );
        let rewritten = match rewritten {
            Ok(rewritten) => rewritten,
            Err(error) => {
                folder.log(&[Event::Probe("failed", &error.to_string())]);
                margay::files::tell(format_args!("margay: a module has no probes: {error}"));
                return None;
            }
        };
        let is_in_place = !settings.compat && settings.mode != Mode::Memory;
        let texts = Arc::new(Texts {
            name: text.name.to_owned(),
            original: text.text.into(),
            probed: is_in_place.then(|| rewritten.text.as_str().into()),
            written: Mutex::default(),
        });
        let mut kernels = Vec::new();
        for kernel in rewritten.kernels {
            match &kernel.outcome {
                Outcome::Excluded => continue,
                Outcome::Failed(error) if !settings.compat => {
                    folder.log(&[Event::Probe("failed", &error.to_string())]);
                    margay::files::tell(format_args!(
                        "margay: {} has no probes: {error}",
                        kernel.name
                    ));
                    continue;
                }
                Outcome::Failed(_) | Outcome::Probed(_) => {}
            }
            self.probed.lock().insert(kernel.name.clone());
            let (name, parameters) = (kernel.name, kernel.parameters);
            let probes = Kernel::new(
                Arc::clone(&self.shared),
                Arc::clone(&texts),
                name.clone(),
                parameters,
            );
            kernels.push(ProbedKernel {
                name,
                parameters,
                probes: Arc::new(probes),
            });
        }
        let text = match is_in_place {
            true => rewritten.text,
            false => text.text.to_owned(),
        };
        (!kernels.is_empty()).then_some(Rewritten { text, kernels })
    }
}

impl Tool for Neutrino {
    fn name(&self) -> &str {
        "probes"
    }

    fn request(&self, _: &KernelInfo) -> Request {
        Request::default()
    }

    fn events(&self, _: &Launch, _: Events<'_>) {}

    fn observes_host(&self) -> bool {
        true
    }

    fn host(&self, event: &HostEvent<'_>) {
        let folder = &self.shared.folder;
        match *event {
            HostEvent::Allocate { address, bytes, .. } => {
                folder.log(&[Event::Alloc(0, address, bytes)]);
            }
            HostEvent::Free { address, .. } => folder.log(&[Event::Free(0, address)]),
            HostEvent::LoadModule { kernels, .. } => {
                folder.log(&[Event::Module(&format!("load {} kernels", kernels.len()))]);
            }
            HostEvent::Launch {
                kernel,
                grid,
                block,
                dynamic_shared,
                ..
            } if !self.probed.lock().contains(kernel) => {
                folder.log(&[Event::Unprobed(Geometry {
                    grid: grid.to_array(),
                    block: block.to_array(),
                    shared: dynamic_shared,
                })]);
            }
            _ => {}
        }
    }
}
