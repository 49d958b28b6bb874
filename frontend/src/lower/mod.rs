//! Lowers the syntax tree to IR.
//!
//! [`lower`] lowers only modules for which resolution found no errors. [`Resolution`] contains the
//! form of each instruction. Lowering does not return an error for an unsupported instruction. It
//! records the instruction in the function that contains it
//! ([`margay_ir::function::Function::unsupported`]), and a launch of a kernel that contains or
//! calls this function fails.
//!
//! A scalar parameter of a device function, or a scalar `.param` variable in a body, becomes an SSA
//! variable if every access reads or writes the whole variable. Otherwise, it is in local memory.
//! A `.param` array or vector is in local memory, and calls pass its generic address.

mod asynchronous;
mod bulk;
mod call;
mod cluster;
mod control;
mod data;
mod env;
mod function;
mod instruction;
mod lazy;
mod matrix;
mod mbarrier;
mod memory;
mod module;
mod narrow;
mod observe;
mod operand;
mod parts;
mod texture;
mod video;

use margay_ir::entity::FuncId;
use margay_ir::module::Module;
use margay_ops::types::OpType;

pub use lazy::LazyModule;
use module::ModuleLowering;

use crate::ast::ScalarType;
use crate::resolve::Resolution;
use crate::{Code, Diagnostic, Parsed, Span};

/// Lowers a parsed module. `resolution` is the result of [`crate::resolve::resolve`] for this module.
///
/// # Errors
///
/// Returns the errors in `resolution`, if there are any. Otherwise, returns the errors that
/// lowering finds.
pub fn lower(parsed: &Parsed, resolution: &Resolution) -> Result<Module, Vec<Diagnostic>> {
    lower_all(parsed, resolution, false)
}

/// Does the same as [`lower`], but also emits an op `observe.event` for each instruction.
///
/// # Errors
///
/// Returns the same errors as [`lower`].
pub fn lower_observed(parsed: &Parsed, resolution: &Resolution) -> Result<Module, Vec<Diagnostic>> {
    lower_all(parsed, resolution, true)
}

fn lower_all(
    parsed: &Parsed,
    resolution: &Resolution,
    observes: bool,
) -> Result<Module, Vec<Diagnostic>> {
    let mut lowering = begin(parsed, resolution)?;
    lowering.state.observes = observes;
    let functions: Vec<FuncId> = lowering.module.functions.keys().collect();
    let mut errors = Vec::new();
    for function in functions {
        errors.extend(lowering.define(function).err().into_iter().flatten());
    }
    match errors.is_empty() {
        true => Ok(lowering.state.module),
        false => Err(errors),
    }
}

/// Lowers the parts of a module outside function bodies.
fn begin<'p>(
    parsed: &'p Parsed,
    resolution: &'p Resolution,
) -> Result<ModuleLowering<'p>, Vec<Diagnostic>> {
    if resolution.has_errors() {
        let errors = resolution.diagnostics.iter().filter(|d| d.is_error());
        return Err(errors.cloned().collect());
    }
    ModuleLowering::new(parsed, resolution)
}

/// The result of lowering a part of a function; an error ends the lowering of the function.
type Lowered<T> = Result<T, Diagnostic>;

fn unknown(span: Span, name: &str) -> Diagnostic {
    Diagnostic::error(
        Code::UNKNOWN_SYMBOL,
        span,
        format!("`{name}` is not declared"),
    )
}

fn wrong_kind(span: Span, what: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::OPERAND_KIND, span, what)
}

/// Returns the IR's operation type for a declared type. For an opaque reference, this is the type
/// of its 64-bit handle.
fn op_type(ty: ScalarType) -> OpType {
    match ty {
        ScalarType::TexRef | ScalarType::SamplerRef | ScalarType::SurfRef => OpType::B64,
        other => OpType::from_name(other.word()).unwrap_or(OpType::B64),
    }
}
