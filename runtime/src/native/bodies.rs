//! The functions of a loaded image, which are lowered when they are first needed.
//!
//! Invariant: the IDs of entities do not change from one [`Snapshot`] to the next. A later snapshot contains the bodies
//! of the earlier one and more, and its further source positions follow those of the earlier one.

use std::sync::{Arc, OnceLock};

use margay_exec::interp::Code;
use margay_frontend::LazyModule;
use margay_ir::entity::FuncId;
use margay_ir::module::Module;
use margay_ir::pass;
use margay_ir::pass::instrument::Request;
use parking_lot::Mutex;

use super::image::invalid;
use crate::error::{Error, Result};

/// The functions of an image.
pub(super) struct Bodies(Mutex<BodiesState>);

struct BodiesState {
    /// The module from which further functions are lowered; `None` if all functions are lowered.
    source: Option<Box<LazyModule>>,
    latest: Option<Arc<Snapshot>>,
    /// What the checking tools observe.
    request: Request,
}

impl Bodies {
    /// Wraps a module in which all functions are lowered.
    pub(super) fn whole(module: Module, request: Request) -> Bodies {
        Bodies(Mutex::new(BodiesState {
            source: None,
            latest: Some(Arc::new(Snapshot::new(module, request))),
            request,
        }))
    }

    /// Wraps a module whose functions are lowered on demand.
    pub(super) fn lazy(module: Box<LazyModule>, request: Request) -> Bodies {
        Bodies(Mutex::new(BodiesState {
            source: Some(module),
            latest: None,
            request,
        }))
    }

    /// Returns a module in which `function`, and all defined functions that it can call, have bodies.
    ///
    /// # Errors
    /// [`Error::InvalidPtx`] if one of these functions is not valid PTX.
    pub(super) fn with(&self, function: FuncId) -> Result<Arc<Snapshot>> {
        let mut state = self.0.lock();
        let BodiesState {
            source,
            latest,
            request,
        } = &mut *state;
        if let Some(lazy) = source {
            let new = lazy.lower(function);
            let new = new.map_err(|errors| invalid(&errors, lazy.source()))?;
            if new || latest.is_none() {
                *latest = Some(Arc::new(Snapshot::new(lazy.module().clone(), *request)));
                if lazy.is_whole() {
                    *source = None;
                }
            }
        }
        let missing = || Error::Internal("an image without a module".into());
        latest.clone().ok_or_else(missing)
    }
}

/// A module in which some functions have bodies.
pub(super) struct Snapshot {
    pub(super) module: Arc<Module>,
    /// What the checking tools observe.
    pub(super) request: Request,
    interpreted: OnceLock<(Arc<Module>, Arc<Code>)>,
}

impl Snapshot {
    fn new(mut module: Module, request: Request) -> Snapshot {
        let ids: Vec<FuncId> = module.functions.iter().map(|(id, _)| id).collect();
        for id in ids {
            let function = &mut module.functions[id];
            if !request.order {
                pass::instrument::strip(function);
            }
            if request.accesses {
                pass::instrument::run(function, request);
            }
        }
        Snapshot {
            module: Arc::new(module),
            request,
            interpreted: OnceLock::new(),
        }
    }

    /// Returns the module for the interpreter, and its precomputed data; the first call creates both. The module
    /// contains the sync points that PTX leaves implicit and those of waiting loops. The compiler of native code
    /// inserts its own sync points, after inlining.
    pub(super) fn interpreted(&self) -> (Arc<Module>, Arc<Code>) {
        let made = self.interpreted.get_or_init(|| {
            let mut made = Module::clone(&self.module);
            for (id, function) in self.module.functions.iter() {
                if function.has_body() {
                    pass::merge::run(&mut made.functions[id]);
                    pass::waiting::run(&mut made.functions[id], &self.module);
                    pass::sync_points::run(&mut made.functions[id], &self.module);
                }
            }
            let code = Code::new(&made);
            (Arc::new(made), Arc::new(code))
        });
        (Arc::clone(&made.0), Arc::clone(&made.1))
    }
}
