//! The functions of a loaded image. A function is lowered when its body is first needed.
//!
//! Invariant: an IR entity (function, symbol or signature) has the same ID in every [`Snapshot`]. A
//! later snapshot of the same lowering contains all function bodies and source positions of the
//! earlier snapshots. New source positions have higher indices than the source positions of the
//! earlier snapshots. (If tools select instructions, there is a second lowering.)

use std::sync::{Arc, OnceLock};

use margay_exec::interp::Code;
use margay_frontend::{LazyModule, SourceFile};
use margay_ir::entity::FuncId;
use margay_ir::module::Module;
use margay_ir::observe::Selection;
use margay_ir::pass;
use margay_ir::pass::instrument::Request;
use margay_ir::pass::iterations::Acting;
use margay_jit::PreparedFunction;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::image::{check_addresses, invalid};
use super::kernel_store::KernelStore;
use crate::error::{Error, Result};

/// The functions of an image.
pub(super) struct Bodies {
    state: Mutex<BodiesState>,
    /// The image's kernels in the disk cache; `None` if the image's kernels are not stored.
    pub(super) store: Option<KernelStore>,
}

struct BodiesState {
    /// The parsed module, from which further functions are lowered; `None` if all functions are lowered.
    source: Option<Box<LazyModule>>,
    /// The IR module with all its functions, or `None` if functions are not lowered yet. If tools
    /// cannot need further snapshots, that is, instrumented copies for other selections of events,
    /// the first snapshot that contains all functions takes the module, and this field is `None`.
    whole: Option<Module>,
    /// The latest snapshot for each selection of events by tools.
    latest: Vec<(Selection, Arc<Snapshot>)>,
    /// The checks that the checking tools request.
    request: Request,
    /// Whether the events that tools select may differ between kernels.
    varies: bool,
    /// The text from which the module was lowered; `None` if the module was linked from several texts, or if no tool
    /// can observe its instructions (`varies` is false).
    text: Option<Arc<SourceFile>>,
    /// The prepared functions of the kernels that were read from the disk cache and are not compiled yet.
    prepared: FxHashMap<FuncId, Vec<(FuncId, PreparedFunction)>>,
    /// A second lowering of the module, which contains an observation operation for each PTX
    /// instruction. `None` until a tool selects instructions.
    observed: Option<Box<LazyModule>>,
}

impl Bodies {
    /// Creates a `Bodies` for a module in which all functions are lowered. `varies` states whether
    /// the events that tools select may differ between kernels. If it is true, the functions must
    /// contain an observation operation for each PTX instruction.
    pub(super) fn whole(module: Module, request: Request, varies: bool) -> Bodies {
        Bodies::of(BodiesState {
            source: None,
            whole: Some(module),
            latest: Vec::new(),
            request,
            varies,
            text: None,
            prepared: FxHashMap::default(),
            observed: None,
        })
    }

    fn of(state: BodiesState) -> Bodies {
        Bodies {
            state: Mutex::new(state),
            store: None,
        }
    }

    /// Creates a `Bodies` for a module whose functions are lowered on demand.
    pub(super) fn lazy(module: Box<LazyModule>, request: Request, varies: bool) -> Bodies {
        Bodies::of(BodiesState {
            text: varies.then(|| module.text()),
            source: Some(module),
            whole: None,
            latest: Vec::new(),
            request,
            varies,
            prepared: FxHashMap::default(),
            observed: None,
        })
    }

    /// Returns these functions with a store of kernels. The module must be lowered on demand, and neither checks nor
    /// tools may observe it.
    pub(super) fn with_store(self, store: Option<KernelStore>) -> Bodies {
        Bodies { store, ..self }
    }

    /// Returns the prepared functions of a kernel if the disk cache contains the kernel. Only the first call after
    /// [`Bodies::with`] returns them.
    pub(super) fn take_prepared(&self, kernel: FuncId) -> Vec<(FuncId, PreparedFunction)> {
        let taken = self.state.lock().prepared.remove(&kernel);
        taken.unwrap_or_default()
    }

    /// Returns a module in which `function` and all defined functions that `function` can call have
    /// bodies. The bodies contain operations that record the events in `selection`.
    ///
    /// # Errors
    /// [`Error::InvalidPtx`] if one of these functions is not valid PTX.
    pub(super) fn with(&self, function: FuncId, selection: Selection) -> Result<Arc<Snapshot>> {
        let mut state = self.state.lock();
        if selection.needs_lowering()
            && let Some(text) = state.text.clone()
        {
            return state.observed(&text, function, selection);
        }
        let BodiesState {
            source,
            whole,
            latest,
            request,
            varies,
            prepared,
            ..
        } = &mut *state;
        if let Some(lazy) = source {
            let is_lowered = lazy.module().functions[function].has_body();
            let stored = self.store.as_ref().filter(|_| !is_lowered);
            let new = match stored.and_then(|store| store.find(function)) {
                Some(found) => {
                    lazy.adopt(found.bodies);
                    prepared.insert(function, found.prepared);
                    true
                }
                None => lazy
                    .lower(function)
                    .map_err(|errors| invalid(&errors, lazy.source()))?,
            };
            check_addresses(lazy.is_narrow())?;
            if new {
                latest.retain(|(known, _)| known.needs_lowering());
            }
        }
        let mut known = latest.iter();
        if let Some((_, snapshot)) = known.find(|(known, _)| *known == selection) {
            return Ok(Arc::clone(snapshot));
        }
        let module = match (&*source, *varies) {
            (Some(lazy), _) => Some(lazy.module().clone()),
            (None, true) => whole.clone(),
            (None, false) => whole.take(),
        };
        let module = module.ok_or_else(|| Error::Internal("an image without a module".into()))?;
        let request = Request {
            selection,
            ..*request
        };
        let snapshot = Arc::new(Snapshot::new(module, request));
        latest.push((selection, Arc::clone(&snapshot)));
        if let Some(lazy) = source.take_if(|lazy| lazy.is_whole())
            && *varies
        {
            *whole = Some(lazy.module().clone());
        }
        Ok(snapshot)
    }
}

impl BodiesState {
    /// Does the same as [`Bodies::with`], but lowers the functions with an observation operation for each PTX
    /// instruction.
    fn observed(
        &mut self,
        text: &SourceFile,
        function: FuncId,
        selection: Selection,
    ) -> Result<Arc<Snapshot>> {
        let lazy = match &mut self.observed {
            Some(lazy) => lazy,
            none => none.insert(super::image::observed(text)?),
        };
        let new = lazy.lower(function);
        let new = new.map_err(|errors| invalid(&errors, lazy.source()))?;
        if new {
            self.latest.retain(|(known, _)| !known.needs_lowering());
        }
        let mut known = self.latest.iter();
        if let Some((_, snapshot)) = known.find(|(known, _)| *known == selection) {
            return Ok(Arc::clone(snapshot));
        }
        let request = Request {
            selection,
            ..self.request
        };
        let snapshot = Arc::new(Snapshot::new(lazy.module().clone(), request));
        self.latest.push((selection, Arc::clone(&snapshot)));
        Ok(snapshot)
    }
}

/// A module in which some functions have bodies.
pub(super) struct Snapshot {
    pub(super) module: Arc<Module>,
    /// The checks and events that tools request.
    pub(super) request: Request,
    interpreted: OnceLock<(Arc<Module>, Arc<Code>)>,
}

impl Snapshot {
    fn new(mut module: Module, request: Request) -> Snapshot {
        let ids: Vec<FuncId> = module.functions.iter().map(|(id, _)| id).collect();
        for id in ids {
            let function = &mut module.functions[id];
            if request.inserts() {
                pass::instrument::run(function, request);
            }
            pass::instrument::strip(function, request);
        }
        Snapshot {
            module: Arc::new(module),
            request,
            interpreted: OnceLock::new(),
        }
    }

    /// Returns the module for the interpreter, and the interpreter's precomputed data. The first
    /// call creates both. The module contains the sync points that are implicit in PTX, unless a
    /// tool observes whole warps, and the sync points in loops that wait for memory. The compiler of native code inserts its own sync
    /// points, after inlining.
    pub(super) fn interpreted(&self) -> (Arc<Module>, Arc<Code>) {
        let made = self.interpreted.get_or_init(|| {
            let mut made = Module::clone(&self.module);
            let acting = Acting::among(self.module.functions.iter());
            for (id, function) in self.module.functions.iter() {
                if function.has_body() {
                    pass::merge::run(&mut made.functions[id]);
                    pass::waiting::run(&mut made.functions[id], &self.module);
                    let run = match self.request.selection.whole_warps {
                        true => pass::sync_points::run_for_whole_warps,
                        false => pass::sync_points::run,
                    };
                    run(&mut made.functions[id], &self.module, &acting);
                }
            }
            let code = Code::new(&made);
            (Arc::new(made), Arc::new(code))
        });
        (Arc::clone(&made.0), Arc::clone(&made.1))
    }
}
