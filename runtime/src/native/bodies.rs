//! The functions of a loaded image, lowered when they are first needed.
//!
//! Invariant: entities keep their numbers from one [`Snapshot`] to the next; a later one has more bodies, and
//! more source positions behind the earlier ones.

use std::sync::{Arc, OnceLock};

use margay_exec::interp::Code;
use margay_frontend::LazyModule;
use margay_ir::entity::FuncId;
use margay_ir::module::Module;
use margay_ir::pass;
use parking_lot::Mutex;

use super::image::invalid;
use crate::error::{Error, Result};

/// The functions of an image.
pub(super) struct Bodies(Mutex<BodiesState>);

struct BodiesState {
    /// Where more bodies come from; nothing when all are there.
    source: Option<Box<LazyModule>>,
    latest: Option<Arc<Snapshot>>,
}

impl Bodies {
    /// Functions that are all there.
    pub(super) fn whole(module: Module) -> Bodies {
        Bodies(Mutex::new(BodiesState {
            source: None,
            latest: Some(Arc::new(Snapshot::new(module))),
        }))
    }

    /// Functions that are lowered on demand.
    pub(super) fn lazy(module: Box<LazyModule>) -> Bodies {
        Bodies(Mutex::new(BodiesState {
            source: Some(module),
            latest: None,
        }))
    }

    /// A module in which a function and all that it may call have their bodies.
    ///
    /// # Errors
    /// [`Error::InvalidPtx`] when one of them has no meaning.
    pub(super) fn with(&self, function: FuncId) -> Result<Arc<Snapshot>> {
        let mut state = self.0.lock();
        let BodiesState { source, latest } = &mut *state;
        if let Some(lazy) = source {
            let new = lazy.lower(function);
            let new = new.map_err(|errors| invalid(&errors, lazy.source()))?;
            if new || latest.is_none() {
                *latest = Some(Arc::new(Snapshot::new(lazy.module().clone())));
                if lazy.is_whole() {
                    *source = None;
                }
            }
        }
        let missing = || Error::Internal("an image without a module".into());
        latest.clone().ok_or_else(missing)
    }
}

/// A module with some of its bodies.
pub(super) struct Snapshot {
    pub(super) module: Arc<Module>,
    interpreted: OnceLock<(Arc<Module>, Arc<Code>)>,
}

impl Snapshot {
    fn new(module: Module) -> Snapshot {
        Snapshot {
            module: Arc::new(module),
            interpreted: OnceLock::new(),
        }
    }

    /// The module as the interpreter runs it: with the points that PTX leaves implicit and those of
    /// waiting loops. Native code makes its own, after inlining. Made when it is first needed.
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
