//! Lowering on demand: a module whose functions get their bodies when they are first needed.
//!
//! A program that brings a large image launches a few of its kernels. Invariant: symbols, functions and their
//! numbers are all there from the beginning and stay as they are, so that copies of the module taken at different
//! times agree in everything but the bodies that they have.

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
    /// Bytes of text whose functions have been lowered.
    done: usize,
    /// The first function that nobody has looked at to lower ahead.
    ahead: usize,
}

impl LazyModule {
    /// A module without bodies.
    ///
    /// # Errors
    ///
    /// Those of the resolution, and what is wrong outside of functions.
    pub fn new(parsed: Parsed, resolution: Resolution) -> Result<LazyModule, Vec<Diagnostic>> {
        let state = begin(&parsed, &resolution)?.state;
        Ok(LazyModule {
            parsed,
            resolution,
            state,
            done: 0,
            ahead: 0,
        })
    }

    /// The text.
    pub fn source(&self) -> &SourceFile {
        &self.parsed.source
    }

    /// The module with the bodies that have been lowered.
    pub fn module(&self) -> &Module {
        &self.state.module
    }

    /// Whether a function has a body, lowered or not.
    pub fn is_defined(&self, function: FuncId) -> bool {
        let head = self.state.heads.get(&self.state.target_of(function));
        head.is_some_and(|&head| self.parsed.module[head].body.is_some())
    }

    /// The variables with their initial contents, which the module loses; see [`Module::take_contents`].
    pub fn take_contents(&mut self) -> PrimaryMap<SymbolId, Symbol> {
        self.state.module.take_contents()
    }

    /// Whether every function has been lowered, so that only the module is of use from now on.
    pub fn is_whole(&self) -> bool {
        let functions = self.state.module.functions.iter();
        let mut missing = functions.filter(|(_, function)| !function.has_body());
        missing.all(|(id, _)| !self.is_defined(id))
    }

    /// Lowers a function and all that it may call. When some of it had no body before, as much text again as was
    /// ever lowered is lowered of what follows, so that a program which goes through a module does not come back
    /// for each of its functions. Whether there are new bodies.
    ///
    /// # Errors
    ///
    /// What is wrong with one of the functions that were asked for.
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
            // What is wrong is told when the function is asked for.
            bytes += define(&mut lowering, FuncId(self.ahead as u32)).unwrap_or(0);
            self.ahead += 1;
        }
        self.state = lowering.state;
        self.done += bytes;
        asked.map(|bytes| bytes > 0)
    }
}

/// Lowers a function and all that it may call; the bytes of their texts.
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

/// Lowers a function, unless that was done or it has no body; the bytes of its text.
fn define(lowering: &mut ModuleLowering<'_>, id: FuncId) -> Result<usize, Vec<Diagnostic>> {
    if lowering.module.functions[id].has_body() || !lowering.is_defined(id) {
        return Ok(0);
    }
    lowering.define(id)?;
    let head = lowering.heads.get(&lowering.target_of(id));
    Ok(head.map_or(0, |&head| lowering.ast[head].span.len() as usize))
}

/// Functions that a lowered one may call.
fn callees(lowering: &ModuleLowering<'_>, id: FuncId) -> Vec<FuncId> {
    let functions = &lowering.module.functions;
    let function = &functions[id];
    let mut found = Vec::new();
    for &block in function.blocks() {
        for &inst in function.insts(block) {
            let data = &function.dfg.insts[inst];
            match data.opcode {
                Opcode::Call | Opcode::FuncAddr => found.push(payload_func(data.payload())),
                // Through a handle anything without an own launch may be called.
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
