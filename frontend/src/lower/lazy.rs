//! Lowering on demand: the body of a function is lowered when the function is first used, or earlier.
//!
//! Lowering on demand saves time, because a program that loads a large image usually launches only
//! a few of its kernels. Invariant: all symbols and functions exist in the IR module from the
//! beginning, some functions without a body, and their IDs never change. Copies of the module from
//! different times therefore differ only in which bodies and initial contents
//! ([`LazyModule::take_contents`]) they contain.

use std::sync::Arc;

use margay_ir::entity::{FuncId, PrimaryMap, SymbolId};
use margay_ir::function::{Function, Linkage, payload_func};
use margay_ir::module::{Module, Symbol};
use margay_ops::mods::StateSpace;
use margay_ops::ops::Opcode;
use rustc_hash::FxHashSet;

use super::begin;
use super::module::{ModuleLowering, ModuleState};
use crate::ast::{self, Id, List};
use crate::parser::{self, read_bodies};
use crate::resolve::{Resolution, resolve, resolve_bodies};
use crate::{Diagnostic, Parsed, SourceFile};

/// A module whose functions are lowered one by one when they are needed.
#[derive(Debug)]
pub struct LazyModule {
    parsed: Parsed,
    resolution: Resolution,
    state: ModuleState,
    /// Total length in bytes of the PTX text of all functions that have been lowered.
    done: usize,
    /// The index of the first function that has not been considered for lowering before its use.
    ahead: usize,
    /// Whether the function bodies are parsed when they are needed.
    is_outlined: bool,
    /// Whether the module's external variables have been defined ([`LazyModule::define_external_variables`]).
    defines_externals: bool,
    /// How many further calls of [`LazyModule::lower`] lower only the requested functions.
    exact: u32,
}

/// The number of calls of [`LazyModule::lower`] that lower only the requested functions, if function bodies are parsed
/// when they are needed. Most programs launch fewer kernels of such a module.
const EXACT: u32 = 8;

impl LazyModule {
    /// Creates a module in which no function body is lowered yet.
    ///
    /// # Errors
    ///
    /// Returns the errors of the resolution or, if there are none, the errors that lowering finds outside function
    /// bodies.
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
            is_outlined: false,
            defines_externals: false,
            exact: 0,
        })
    }

    /// Creates a module from a text whose function bodies are parsed and checked when they are needed. An error in a
    /// body is therefore an error of [`LazyModule::lower`]. Also returns the warnings outside the bodies.
    ///
    /// # Errors
    ///
    /// Returns the errors outside function bodies, and the errors in bodies that have to be parsed at once.
    pub fn outline(
        source: Arc<SourceFile>,
    ) -> Result<(LazyModule, Vec<Diagnostic>), Vec<Diagnostic>> {
        let mut parsed = parser::outline(source);
        let mut diagnostics = std::mem::take(&mut parsed.diagnostics);
        if diagnostics.iter().any(Diagnostic::is_error) {
            return Err(diagnostics);
        }
        let mut resolution = resolve(&parsed);
        diagnostics.append(&mut resolution.diagnostics);
        if diagnostics.iter().any(Diagnostic::is_error) {
            return Err(diagnostics);
        }
        let mut module = LazyModule::new(parsed, resolution)?;
        module.is_outlined = true;
        module.exact = EXACT;
        Ok((module, diagnostics))
    }

    /// Whether the module uses 32-bit addresses ([`Resolution::is_narrow`]). If function bodies are parsed when they
    /// are needed, the result covers the bodies that have been parsed so far.
    pub fn is_narrow(&self) -> bool {
        self.resolution.is_narrow()
    }

    /// Enables the emission of an op `observe.event` for each lowered instruction, and returns the
    /// module. The caller must call this function before any function of the module is lowered.
    #[must_use]
    pub fn observed(mut self) -> LazyModule {
        self.state.observes = true;
        self
    }

    /// Whether the function bodies are parsed when they are needed ([`LazyModule::outline`]).
    pub fn is_outlined(&self) -> bool {
        self.is_outlined
    }

    /// Whether [`LazyModule::define_external_variables`] has defined the module's external variables.
    pub fn defines_externals(&self) -> bool {
        self.defines_externals
    }

    /// Returns the source text.
    pub fn source(&self) -> &SourceFile {
        &self.parsed.source
    }

    /// Returns a reference-counted pointer to the source text, which remains valid when the module
    /// is dropped.
    pub fn text(&self) -> Arc<SourceFile> {
        Arc::clone(&self.parsed.source)
    }

    /// Returns the IR module, in which the functions that have not been lowered have no bodies.
    pub fn module(&self) -> &Module {
        &self.state.module
    }

    /// Whether the PTX text contains a body of the function. The result does not depend on whether
    /// the body has been lowered.
    pub fn is_defined(&self, function: FuncId) -> bool {
        let head = self.state.heads.get(&self.state.target_of(function));
        head.is_some_and(|&head| self.parsed.module[head].body.is_some())
    }

    /// Defines all undefined external variables in this module, filled with zeros, as `ptxas` does when it compiles a
    /// whole program. External variables in shared memory become static shared memory if they have
    /// a size; without a size, they are the dynamic shared memory of a launch. Call this function
    /// only if no other module can define these variables. Returns the names of the variables that
    /// become defined.
    ///
    /// # Errors
    ///
    /// If some of these variables have no size, returns their names and defines nothing.
    pub fn define_external_variables(&mut self) -> Result<Vec<String>, Vec<String>> {
        let symbols = self.state.module.symbols.values_mut();
        let is_shared = |symbol: &Symbol| {
            symbol.linkage == Linkage::Extern
                && symbol.space == StateSpace::Shared
                && symbol.size != 0
        };
        let externals = symbols.filter(|symbol| symbol.is_undefined() || is_shared(symbol));
        let (unsized_, sized): (Vec<&mut Symbol>, Vec<&mut Symbol>) =
            externals.partition(|symbol| symbol.size == 0);
        if !unsized_.is_empty() {
            return Err(unsized_.iter().map(|symbol| symbol.name.clone()).collect());
        }
        self.defines_externals = true;
        let define = |symbol: &mut Symbol| {
            symbol.linkage = Linkage::Visible;
            symbol.name.clone()
        };
        Ok(sized.into_iter().map(define).collect())
    }

    /// Removes the initial contents of all variables from the module, and returns the variables
    /// with these contents; see [`Module::take_contents`].
    pub fn take_contents(&mut self) -> PrimaryMap<SymbolId, Symbol> {
        self.state.module.take_contents()
    }

    /// Whether every function with a body in the PTX text has been lowered. Once this is true, only
    /// [`LazyModule::module`] is needed.
    pub fn is_whole(&self) -> bool {
        let functions = self.state.module.functions.iter();
        let mut missing = functions.filter(|(_, function)| !function.has_body());
        missing.all(|(id, _)| !self.is_defined(id))
    }

    /// Adds bodies that another process has lowered from the same text in the same way. Such a body refers to no source
    /// position (`.loc`) and to no signature. Ignores the bodies of functions that have been lowered.
    pub fn adopt(&mut self, bodies: Vec<(FuncId, Function)>) {
        for (id, body) in bodies {
            let known = self.state.module.functions.get(id);
            if known.is_some_and(|known| !known.has_body()) {
                self.state.module.functions[id] = body;
            }
        }
    }

    /// Lowers a function and all functions that it may call, directly or indirectly. Returns whether this call lowered
    /// any body.
    ///
    /// Parses the bodies first if the module was created by [`LazyModule::outline`].
    ///
    /// If this call lowered a body, it usually also lowers other functions before they are used, in the
    /// order of the module, until the total length of the PTX text of all lowered functions has
    /// about doubled. Therefore, if a program uses all functions of a module one after another,
    /// only a few calls of this function lower anything.
    ///
    /// # Errors
    ///
    /// Lowering stops at the first function that has errors, which is the requested function or a
    /// function that it may call. Returns the errors of this function. Functions that were lowered
    /// before the error keep their bodies.
    pub fn lower(&mut self, function: FuncId) -> Result<bool, Vec<Diagnostic>> {
        let asked = self.lower_reachable(function);
        let functions = self.state.module.functions.len();
        let mut bytes = asked.as_ref().copied().unwrap_or(0);
        let enough = match bytes {
            0 => 0,
            _ if self.exact > 0 => {
                self.exact -= 1;
                0
            }
            bytes => self.done + bytes,
        };
        let mut ahead = Vec::new();
        let mut expected = bytes;
        while expected < enough && self.ahead < functions {
            let id = FuncId(self.ahead as u32);
            if !self.state.module.functions[id].has_body() {
                expected += self.text_bytes(id);
                ahead.push(id);
            }
            self.ahead += 1;
        }
        // Errors in these functions are ignored here. They are reported when the functions are requested.
        if self.read(&ahead).is_ok() {
            for id in ahead {
                bytes += self.define(id).unwrap_or(0);
            }
        }
        self.done += bytes;
        asked.map(|bytes| bytes > 0)
    }

    /// Lowers a function and all functions that it may call. Returns the total length in bytes of the PTX text of the
    /// functions that this call lowered.
    fn lower_reachable(&mut self, function: FuncId) -> Result<usize, Vec<Diagnostic>> {
        let mut seen = FxHashSet::from_iter([function]);
        let mut work = vec![function];
        let mut bytes = 0;
        let mut through_handles = false;
        while !work.is_empty() {
            self.read(&work)?;
            let mut found = Vec::new();
            for id in std::mem::take(&mut work) {
                bytes += self.define(id)?;
                let (mut called, has_indirect) = callees(&self.state.module, id);
                if has_indirect && !through_handles {
                    through_handles = true;
                    // An indirect call may call any function that is not a kernel.
                    let functions = self.state.module.functions.iter();
                    let callable = functions
                        .filter(|(id, callee)| callee.kernel.is_none() && self.is_defined(*id));
                    called.extend(callable.map(|(id, _)| id));
                }
                found.append(&mut called);
            }
            work.extend(found.into_iter().filter(|&callee| seen.insert(callee)));
        }
        Ok(bytes)
    }

    /// Lowers a function if it has a body that is not lowered yet. Returns the length in bytes of the function's PTX
    /// text, or 0 if this call did not lower the function. The body has been read.
    fn define(&mut self, id: FuncId) -> Result<usize, Vec<Diagnostic>> {
        if self.state.module.functions[id].has_body() || !self.is_defined(id) {
            return Ok(0);
        }
        let state = std::mem::take(&mut self.state);
        let mut lowering = ModuleLowering::resume(&self.parsed, &self.resolution, state);
        let defined = lowering.define(id);
        self.state = lowering.state;
        defined?;
        Ok(self.text_bytes(id))
    }

    /// Returns the length in bytes of a function's PTX text.
    fn text_bytes(&self, id: FuncId) -> usize {
        let head = self.state.heads.get(&self.state.target_of(id));
        head.map_or(0, |&head| self.parsed.module[head].whole.len() as usize)
    }

    /// Parses and resolves the bodies of the functions that have not been parsed.
    ///
    /// # Errors
    ///
    /// Returns the errors in these bodies. The bodies then count as not parsed.
    fn read(&mut self, functions: &[FuncId]) -> Result<(), Vec<Diagnostic>> {
        let heads = functions.iter().filter_map(|&id| {
            if self.state.module.functions[id].has_body() {
                return None;
            }
            let head = *self.state.heads.get(&self.state.target_of(id))?;
            Some((head, self.parsed.module[head].unread?))
        });
        let mut unread: Vec<(Id<ast::Function>, ast::Unread)> = heads.collect();
        // A function and its alias have the same body.
        unread.sort_by_key(|(head, _)| head.index());
        unread.dedup_by_key(|(head, _)| head.index());
        if unread.is_empty() {
            return Ok(());
        }
        let mut problems = read_bodies(&mut self.parsed, &unread);
        if !problems.iter().any(Diagnostic::is_error) {
            let heads: Vec<Id<ast::Function>> = unread.iter().map(|&(head, _)| head).collect();
            problems = resolve_bodies(&self.parsed, &mut self.resolution, &heads);
        }
        let failed = problems.iter().any(Diagnostic::is_error);
        for (head, body) in unread {
            let function = &mut self.parsed.module.arena[head];
            if failed {
                function.body = Some(List::EMPTY);
                continue;
            }
            function.unread = None;
            let parsed = function.body.unwrap_or_default();
            let again = parser::variables_of_module(&self.parsed.module, parsed);
            for (id, known) in again.into_iter().zip(body.variables.ids()) {
                if let Some(&symbol) = self.state.inner_symbols.get(&known) {
                    self.state.inner_symbols.insert(id, symbol);
                }
            }
        }
        match failed {
            true => Err(problems),
            false => Ok(()),
        }
    }
}

/// Returns the functions that the lowered function `id` calls directly or whose address it uses.
/// The bool is true if the function contains an indirect call.
fn callees(module: &Module, id: FuncId) -> (Vec<FuncId>, bool) {
    let function = &module.functions[id];
    let mut found = Vec::new();
    let mut has_indirect = false;
    for &block in function.blocks() {
        for &inst in function.insts(block) {
            let data = &function.dfg.insts[inst];
            match data.opcode {
                Opcode::Call | Opcode::FuncAddr => found.push(payload_func(data.payload())),
                Opcode::CallIndirect => has_indirect = true,
                _ => {}
            }
        }
    }
    (found, has_indirect)
}
