//! Inserts probes into PTX text.
//!
//! [`rewrite()`] copies a module's text and inserts text at the positions that its syntax tree gives. Each probed
//! kernel gets the parameters `.param .u64 param_NAME` for each map, in the order of the file, and then
//! `.param .u32 bytes_NAME` for each dynamic map. At its start it computes the place of the thread's slot in each map
//! (see [`MapLayout`](crate::MapLayout)), and clears the scratch registers. At each selected instruction it gets the
//! probe's text.
//!
//! Helpers are copies: the inserted code reads the operands of an instruction in front of it, so a probe behind a load
//! sees the address also if the load overwrites the register of the address. All added registers and labels have names
//! that the module does not use. `SAVE` needs no branch, so the sequences of a call stay in one basic block.
//!
//! Invariants: the result has no error that the input has not; a kernel in which a probe does not fit stays as it is,
//! and the reason is in the result. Device functions stay as they are.

mod bind;
mod check;
mod edits;
mod entry;
mod expand;
mod names;
mod prologue;
mod save;
mod uses;
mod value;

use margay_frontend::Parsed;
use margay_frontend::ast::{Function, FunctionKind, Id};
use margay_frontend::resolve::{Resolution, resolve};
use rustc_hash::FxHashMap;

use crate::error::Error;
use crate::model::ProbeFile;
use crate::options::Options;
use crate::select::Selection;
use edits::{Edits, Origin};
use names::Names;

/// What became of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The kernel is probed. The number counts the texts that were inserted at instructions, and at the start and the
    /// ends of the kernel.
    Probed(usize),
    /// The selection of kernels excludes the kernel.
    Excluded,
    /// A probe does not fit the kernel, which stays as it is.
    Failed(Error),
}

/// A kernel of a rewritten module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// The name of the kernel.
    pub name: String,
    /// The number of the kernel's own parameters.
    pub parameters: usize,
    /// What became of the kernel.
    pub outcome: Outcome,
}

/// A module with probes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rewritten {
    /// The PTX text of the module.
    pub text: String,
    /// The kernels of the module that have a body, in the order of the text.
    pub kernels: Vec<Kernel>,
}

/// Inserts the probes of `file` into the kernels of a module that `selection` includes.
///
/// # Errors
///
/// Fails if the module has errors, 32-bit addresses, or a version or target without 64-bit clocks. A probe that does
/// not fit a kernel is not an error of the module; see [`Kernel::outcome`].
pub fn rewrite(
    parsed: &Parsed,
    file: &ProbeFile,
    selection: &Selection,
    options: Options,
) -> Result<Rewritten, Error> {
    let resolution = resolve(parsed);
    check::module(parsed, &resolution)?;
    let source = parsed.source.text();
    let module = Module {
        parsed,
        resolution: &resolution,
        file,
        options,
        names: Names::new(source),
        taken: uses::addresses(&parsed.module),
    };
    let mut kernels = module.kernels(selection);
    loop {
        let edits = module.edits(&mut kernels);
        let (text, ranges) = edits.apply(source);
        let failed = check::result(parsed, file, &text, &ranges)?;
        if failed.is_empty() {
            let kernels = kernels.into_iter().map(|(_, kernel)| kernel).collect();
            return Ok(Rewritten { text, kernels });
        }
        for (function, error) in failed {
            let kernel = kernels.iter_mut().find(|(id, _)| id.index() == function);
            if let Some((_, kernel)) = kernel {
                kernel.outcome = Outcome::Failed(error);
            }
        }
    }
}

/// What the insertion of probes needs to know about a module.
struct Module<'m> {
    parsed: &'m Parsed,
    resolution: &'m Resolution,
    file: &'m ProbeFile,
    options: Options,
    names: Names,
    /// The kernels whose address the module uses, with the byte offset of a use.
    taken: FxHashMap<margay_frontend::ast::Name, u32>,
}

impl Module<'_> {
    fn kernels(&self, selection: &Selection) -> Vec<(Id<Function>, Kernel)> {
        let module = &self.parsed.module;
        let entries = module.functions().filter(|(_, function)| {
            function.kind == FunctionKind::Entry && function.body.is_some()
        });
        let kernel = |(id, function): (Id<Function>, &Function)| {
            let name = module.text(function.name.name);
            let outcome = match (
                selection.includes(name),
                self.taken.get(&function.name.name),
            ) {
                (false, _) => Outcome::Excluded,
                (true, Some(&offset)) => Outcome::Failed(self.error(
                    offset,
                    "device code uses the kernel's address and would launch it without the maps",
                )),
                (true, None) => Outcome::Probed(0),
            };
            let kernel = Kernel {
                name: name.to_owned(),
                parameters: function.parameters.len(),
                outcome,
            };
            (id, kernel)
        };
        entries.map(kernel).collect()
    }

    /// Returns the insertions for all kernels that are still to be probed.
    fn edits(&self, kernels: &mut [(Id<Function>, Kernel)]) -> Edits {
        let mut edits = Edits::default();
        for (id, kernel) in kernels {
            if !matches!(kernel.outcome, Outcome::Probed(_)) {
                continue;
            }
            let mark = edits.len();
            match self.entry(*id, &mut edits) {
                Ok(count) => kernel.outcome = Outcome::Probed(count),
                Err(error) => {
                    edits.truncate(mark);
                    kernel.outcome = Outcome::Failed(error);
                }
            }
        }
        edits
    }

    fn origin(&self, function: Id<Function>, probe: Option<usize>, place: u32) -> Origin {
        Origin {
            function: function.index(),
            probe,
            place,
        }
    }

    /// Creates an error at a byte offset of the module's text.
    fn error(&self, offset: u32, message: impl Into<String>) -> Error {
        let source = &self.parsed.source;
        Error::new(source.name(), source.line_column(offset).line, message)
    }
}
