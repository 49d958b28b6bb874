//! Lowering on demand: a module whose functions get their bodies on first use.
//!
//! A program that loads a large image usually launches only a few of its kernels. Invariant: all symbols and functions
//! exist from the beginning, and their IDs never change. Copies of the module taken at different times therefore differ
//! only in the bodies and initial contents ([`LazyModule::take_contents`]) that they contain.

use std::sync::Arc;

use margay_ir::entity::{FuncId, PrimaryMap, SymbolId};
use margay_ir::function::payload_func;
use margay_ir::module::{Module, Symbol};
use margay_ops::ops::Opcode;
use rustc_hash::FxHashSet;

use super::begin;
use super::module::{ModuleLowering, ModuleState};
use crate::resolve::Resolution;
use crate::{Diagnostic, Parsed, SourceFile};

/// A module that is lowered function by function.
#[derive(Debug)]
pub struct LazyModule {
    parsed: Parsed,
    resolution: Resolution,
    state: ModuleState,
    /// Total size in bytes, as PTX text, of all functions that have been lowered.
    done: usize,
    /// Index of the first function that has not been considered for lowering ahead of its use.
    ahead: usize,
}

impl LazyModule {
    /// Creates a module without bodies.
    ///
    /// # Errors
    ///
    /// Returns the errors of the resolution, or the errors outside function bodies.
    pub fn new(mut parsed: Parsed, resolution: Resolution) -> Result<LazyModule, Vec<Diagnostic>> {
        let state = begin(&parsed, &resolution)?.state;
        // The contents of the variables are in the module now.
        parsed.module.arena.release_values();
        Ok(LazyModule {
            parsed,
            resolution,
            state,
            done: 0,
            ahead: 0,
        })
    }

    /// Returns this module, whose functions will be lowered with an `observe.event` for each instruction. The caller
    /// must call this function before it lowers any function of the module.
    #[must_use]
    pub fn observed(mut self) -> LazyModule {
        self.state.observes = true;
        self
    }

    /// Returns the source text.
    pub fn source(&self) -> &SourceFile {
        &self.parsed.source
    }

    /// Returns the source text, which can be kept longer than the module.
    pub fn text(&self) -> Arc<SourceFile> {
        Arc::clone(&self.parsed.source)
    }

    /// Returns the module with the bodies that have been lowered so far.
    pub fn module(&self) -> &Module {
        &self.state.module
    }

    /// Whether a function has a body in the text, lowered or not.
    pub fn is_defined(&self, function: FuncId) -> bool {
        let head = self.state.heads.get(&self.state.target_of(function));
        head.is_some_and(|&head| self.parsed.module[head].body.is_some())
    }

    /// Moves the initial contents of the variables out of the module, and returns all variables with their contents;
    /// see [`Module::take_contents`].
    pub fn take_contents(&mut self) -> PrimaryMap<SymbolId, Symbol> {
        self.state.module.take_contents()
    }

    /// Whether every function has been lowered, so that only the module is needed from now on.
    pub fn is_whole(&self) -> bool {
        let functions = self.state.module.functions.iter();
        let mut missing = functions.filter(|(_, function)| !function.has_body());
        missing.all(|(id, _)| !self.is_defined(id))
    }

    /// Lowers a function and all functions that it may call. Returns whether there are new bodies.
    ///
    /// If there are new bodies, the call also lowers functions ahead of their use, in module order. The text of these
    /// functions is in total about as long as that of all functions that earlier calls have lowered. A program that
    /// uses all functions of a module in turn therefore needs few calls that lower anything.
    ///
    /// # Errors
    ///
    /// Returns the errors in the requested function and the functions that it may call.
    pub fn lower(&mut self, function: FuncId) -> Result<bool, Vec<Diagnostic>> {
        let state = std::mem::take(&mut self.state);
        let mut lowering = ModuleLowering::resume(&self.parsed, &self.resolution, state);
        let asked = lower_reachable(&mut lowering, function);
        let functions = lowering.module.functions.len();
        let mut bytes = asked.as_ref().copied().unwrap_or(0);
        let enough = match bytes {
            0 => 0,
            bytes => self.done + bytes,
        };
        while bytes < enough && self.ahead < functions {
            // If this function has an error, the error is reported when the function is requested.
            bytes += define(&mut lowering, FuncId(self.ahead as u32)).unwrap_or(0);
            self.ahead += 1;
        }
        self.state = lowering.state;
        self.done += bytes;
        asked.map(|bytes| bytes > 0)
    }
}

/// Lowers a function and all functions that it may call. Returns the total size in bytes, as PTX text, of the
/// functions that were not lowered before.
fn lower_reachable(
    lowering: &mut ModuleLowering<'_>,
    function: FuncId,
) -> Result<usize, Vec<Diagnostic>> {
    let mut seen = FxHashSet::from_iter([function]);
    let mut work = vec![function];
    let mut bytes = 0;
    while let Some(id) = work.pop() {
        bytes += define(lowering, id)?;
        for callee in callees(lowering, id) {
            if seen.insert(callee) {
                work.push(callee);
            }
        }
    }
    Ok(bytes)
}

/// Lowers a function, unless it is already lowered or has no body. Returns the size of its text in bytes, or 0 if this
/// call did not lower it.
fn define(lowering: &mut ModuleLowering<'_>, id: FuncId) -> Result<usize, Vec<Diagnostic>> {
    if lowering.module.functions[id].has_body() || !lowering.is_defined(id) {
        return Ok(0);
    }
    lowering.define(id)?;
    let head = lowering.heads.get(&lowering.target_of(id));
    Ok(head.map_or(0, |&head| lowering.ast[head].whole.len() as usize))
}

/// Returns the functions that a lowered function may call.
fn callees(lowering: &ModuleLowering<'_>, id: FuncId) -> Vec<FuncId> {
    let functions = &lowering.module.functions;
    let function = &functions[id];
    let mut found = Vec::new();
    for &block in function.blocks() {
        for &inst in function.insts(block) {
            let data = &function.dfg.insts[inst];
            match data.opcode {
                Opcode::Call | Opcode::FuncAddr => found.push(payload_func(data.payload())),
                // An indirect call may call any function that is not a kernel.
                Opcode::CallIndirect => {
                    found.extend(
                        functions
                            .iter()
                            .filter(|(id, callee)| {
                                callee.kernel.is_none() && lowering.is_defined(*id)
                            })
                            .map(|(id, _)| id),
                    );
                }
                _ => {}
            }
        }
    }
    found
}
