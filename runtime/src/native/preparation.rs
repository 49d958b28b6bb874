//! Prepares a kernel and the functions that it calls for compilation, or takes them from the disk cache.

use std::cell::OnceCell;
use std::time::{Duration, Instant};

use margay_ir::entity::FuncId;
use margay_ir::module::Module;
use margay_ir::pass::inline::Inlining;
use margay_jit::{CompileError, CompiledKernel, PreparedFunction};
use rustc_hash::FxHashMap;

use super::bodies::Bodies;
use super::kernel_store::KernelStore;

/// The preparation of one kernel.
pub(super) struct Preparation<'a> {
    pub(super) module: &'a Module,
    pub(super) kernel: FuncId,
    store: Option<&'a KernelStore>,
    /// The functions from the disk cache that have not been requested yet.
    found: FxHashMap<FuncId, PreparedFunction>,
    inlining: OnceCell<Inlining>,
    /// The time that was spent on functions that the disk cache does not contain.
    spent: Duration,
}

impl<'a> Preparation<'a> {
    /// Begins the preparation of a kernel of `module`, whose functions `bodies` contains.
    pub(super) fn new(module: &'a Module, kernel: FuncId, bodies: &'a Bodies) -> Preparation<'a> {
        Preparation {
            module,
            kernel,
            store: bodies.store.as_ref(),
            found: bodies.take_prepared(kernel).into_iter().collect(),
            inlining: OnceCell::new(),
            spent: Duration::ZERO,
        }
    }

    /// Returns the inlining decisions for the kernel.
    pub(super) fn inlining(&self) -> &Inlining {
        let decide = || Inlining::of(self.module, self.kernel);
        self.inlining.get_or_init(decide)
    }

    /// Prepares the kernel or a function that it calls.
    pub(super) fn function(&mut self, id: FuncId) -> Result<CompiledKernel, CompileError> {
        let prepared = match self.found.remove(&id) {
            Some(found) => CompiledKernel::from_prepared(self.module, found),
            None => {
                let start = Instant::now();
                let made = CompiledKernel::within(self.module, id, self.inlining())?;
                self.spent += start.elapsed();
                made
            }
        };
        let store = self.store;
        let digest = store.and_then(|store| store.digest(self.module, self.kernel, id));
        Ok(match digest {
            Some(digest) => prepared.identified(digest),
            None => prepared,
        })
    }

    /// Stores the prepared kernel and the functions that it calls in the disk cache, unless they come from there.
    pub(super) fn store(&self, kernel: &CompiledKernel, called: &[(FuncId, CompiledKernel)]) {
        if let Some(store) = self.store.filter(|_| !self.spent.is_zero()) {
            let called: Vec<_> = called.iter().map(|(id, made)| (*id, made)).collect();
            store.store(self.module, (self.kernel, kernel), &called, self.spent);
        }
    }
}
