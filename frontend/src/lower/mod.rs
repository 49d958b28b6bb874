//! Syntax tree to IR.
//!
//! [`lower`] takes the form of each instruction from [`Resolution`]; only what resolution found no
//! error in is lowered. An instruction that is left out does not fail the module: its
//! function remembers it by name ([`margay_ir::function::Function::unsupported`]) and launching that
//! function is the error.
//!
//! `.param` variables of calls and scalar parameters become SSA values when every access is a whole
//! one; otherwise, and for arrays, they live in local memory and are passed by generic address.

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

/// Lowers a parsed module with what [`crate::resolve::resolve`] found in it.
///
/// # Errors
///
/// Everything that keeps the module from having a meaning, at its place: first of all the errors of
/// the resolution.
pub fn lower(parsed: &Parsed, resolution: &Resolution) -> Result<Module, Vec<Diagnostic>> {
    let mut lowering = begin(parsed, resolution)?;
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

/// A module without bodies.
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

/// A problem that ends the lowering of one statement.
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

/// The operation type of a declared type.
fn op_type(ty: ScalarType) -> OpType {
    match ty {
        ScalarType::TexRef | ScalarType::SamplerRef | ScalarType::SurfRef => OpType::B64,
        other => OpType::from_name(other.word()).unwrap_or(OpType::B64),
    }
}
