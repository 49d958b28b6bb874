//! Checks the declarations of variables and parameters: types, state spaces, sizes and linking
//! directives.

use super::check::Sink;
use super::functions;
use super::header::Header;
use crate::ast::{
    Attribute, InitializerKind, Linkage, Module, ScalarType, StateSpace, Variable, VectorSize,
    Version,
};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::source::Span;

/// The place of a declaration, which determines the rules that the declaration must satisfy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DeclarationSite {
    Module,
    Body,
    EntryParameter,
    FuncParameter,
    Prototype,
}

/// The code and the message of the diagnostic for a declaration that violates a rule.
type Problem = (Code, String);

/// The maximum size of a variable in bytes, which is larger than the memory of any real device. There is no limit for
/// `.global` variables at module scope.
const MAX_OBJECT_SIZE: u64 = 1 << 47;

/// The maximum alignment that a parameter of a device function may have, in bytes.
const MAX_ALIGNMENT: u64 = 128;

/// Checks the declaration of one variable or parameter, and adds the problems to `sink`.
pub(super) fn check(
    module: &Module,
    variable: &Variable,
    place: DeclarationSite,
    header: &Header,
    sink: &mut Sink,
) {
    let name = module.text(variable.name.name);
    let problem = space_problem(module, variable, place, header)
        .or_else(|| type_problem(variable, place, header))
        .or_else(|| shape_problem(module, variable, place))
        .or_else(|| attribute_problem(module, variable, place, header))
        .or_else(|| linkage_problem(variable, header));
    if let Some((code, message)) = problem {
        let message = format!("`{name}`: {message}");
        sink.report(Diagnostic::error(code, variable.name.span, message));
    }
    alignment(variable, place, sink);
    functions::attributes(&module[variable.attributes], variable.span, header, sink);
}

fn problem(code: Code, message: impl Into<String>) -> Option<Problem> {
    Some((code, message.into()))
}

fn before(header: &Header, major: u32, minor: u32) -> bool {
    header.version < (Version { major, minor })
}

fn space_problem(
    module: &Module,
    variable: &Variable,
    place: DeclarationSite,
    header: &Header,
) -> Option<Problem> {
    use StateSpace::*;
    let space = variable.space;
    if space == Tex {
        return texture_space_problem(place, header);
    }
    if let Some(bank) = variable.bank {
        let incomplete = module[variable.dimensions]
            .iter()
            .any(|dimension| dimension.length.is_none());
        return bank_problem(bank, variable, incomplete, header);
    }
    match place {
        DeclarationSite::Module if space == Param => problem(
            Code::STATE_SPACE,
            "parameters cannot be declared at module scope",
        ),
        DeclarationSite::Module if matches!(space, Reg | Local) && !before(header, 3, 0) => {
            problem(
                Code::STATE_SPACE,
                format!("`{space}` variables cannot be declared at module scope"),
            )
        }
        DeclarationSite::EntryParameter if space != Param => {
            problem(Code::PARAMETER, "a kernel's parameters must be `.param`")
        }
        DeclarationSite::FuncParameter | DeclarationSite::Prototype
            if !matches!(space, Param | Reg) =>
        {
            problem(
                Code::PARAMETER,
                "a function's parameters must be `.param` or `.reg`",
            )
        }
        _ => None,
    }
}

fn texture_space_problem(place: DeclarationSite, header: &Header) -> Option<Problem> {
    if !before(header, 1, 5) {
        let message = "`.tex` was removed in PTX 1.5; use `.global .texref`";
        return problem(Code::REMOVED_FEATURE, message);
    }
    match place {
        DeclarationSite::Module => None,
        _ => problem(Code::STATE_SPACE, "textures are declared at module scope"),
    }
}

fn bank_problem(
    bank: u64,
    variable: &Variable,
    incomplete: bool,
    header: &Header,
) -> Option<Problem> {
    if !before(header, 2, 2) {
        let message = "constant banks were removed in PTX 2.2";
        return problem(Code::REMOVED_FEATURE, message);
    }
    if bank > 10 {
        return problem(Code::DIRECTIVE_VALUE, "constant banks go from 0 to 10");
    }
    if bank > 0 && (variable.linkage != Linkage::Extern || !incomplete) {
        let message = "constant banks other than 0 hold external arrays without a size only";
        return problem(Code::STATE_SPACE, message);
    }
    None
}

fn type_problem(variable: &Variable, place: DeclarationSite, header: &Header) -> Option<Problem> {
    let scalar = variable.scalar;
    if place == DeclarationSite::Prototype {
        return None;
    }
    if variable.space == StateSpace::Param && scalar == ScalarType::F16x2 {
        return problem(Code::PARAMETER, "`.f16x2` is not allowed in `.param`");
    }
    if scalar.is_opaque() && variable.vector != VectorSize::Scalar {
        let message = format!("vectors of `{scalar}` are not allowed");
        return problem(Code::STATE_SPACE, message);
    }
    if scalar == ScalarType::Pred {
        if variable.space != StateSpace::Reg {
            return problem(Code::STATE_SPACE, "predicates are allowed in `.reg` only");
        }
        if variable.vector != VectorSize::Scalar {
            return problem(Code::STATE_SPACE, "vectors of predicates are not allowed");
        }
    }
    if scalar.is_opaque() {
        return opaque_problem(variable, place, header);
    }
    if scalar == ScalarType::B128 && before(header, 8, 3) {
        return problem(Code::FEATURE_VERSION, "`.b128` needs PTX 8.3 or later");
    }
    let bytes = scalar.bytes().unwrap_or(0) * variable.vector.count();
    if bytes > 16 {
        return problem(Code::OBJECT_SIZE, "a vector has at most 128 bits");
    }
    if variable.space == StateSpace::Param && variable.vector != VectorSize::Scalar {
        return problem(Code::PARAMETER, "vectors are not allowed in `.param`");
    }
    None
}

fn opaque_problem(variable: &Variable, place: DeclarationSite, header: &Header) -> Option<Problem> {
    let scalar = variable.scalar;
    if before(header, 1, 5) {
        let message = format!("`{scalar}` needs PTX 1.5 or later");
        return problem(Code::FEATURE_VERSION, message);
    }
    if scalar == ScalarType::SamplerRef && !header.independent_textures {
        let message = "samplers need `.target texmode_independent`";
        return problem(Code::STATE_SPACE, message);
    }
    match place {
        DeclarationSite::Module if variable.space == StateSpace::Global => None,
        DeclarationSite::EntryParameter => None,
        _ => problem(
            Code::STATE_SPACE,
            format!(
                "`{scalar}` variables are declared in `.global` at module scope or as parameters of kernels"
            ),
        ),
    }
}

fn shape_problem(module: &Module, variable: &Variable, place: DeclarationSite) -> Option<Problem> {
    let dimensions = &module[variable.dimensions];
    if variable.space == StateSpace::Reg && !dimensions.is_empty() {
        return problem(Code::STATE_SPACE, "an array cannot be in registers");
    }
    if module.text(variable.name.name) == "_" && place == DeclarationSite::FuncParameter {
        return problem(Code::PARAMETER, "`_` is not a valid name for a parameter");
    }
    let incomplete = dimensions
        .iter()
        .any(|dimension| matches!(dimension.length, None | Some(0)));
    if incomplete {
        return incomplete_problem(variable, place);
    }
    if variable
        .range
        .is_some_and(|count| count > u64::from(u32::MAX))
    {
        return problem(Code::REGISTER_RANGE, "a range has at most 2^32 - 1 members");
    }
    match size(module, variable) {
        Some(_) => None,
        // As in ptxas, a huge global variable is accepted here. Loading the module then fails for lack of memory.
        None if place == DeclarationSite::Module && variable.space == StateSpace::Global => None,
        None => problem(Code::OBJECT_SIZE, "the variable is too large"),
    }
}

fn incomplete_problem(variable: &Variable, place: DeclarationSite) -> Option<Problem> {
    match place {
        DeclarationSite::EntryParameter => {
            problem(Code::INCOMPLETE_TYPE, "a kernel's parameter needs a size")
        }
        DeclarationSite::FuncParameter | DeclarationSite::Prototype => None,
        DeclarationSite::Module if variable.linkage == Linkage::Extern => None,
        _ if variable.initializer.is_some() => None,
        _ => problem(
            Code::INCOMPLETE_TYPE,
            "only `.extern` variables may be without a size",
        ),
    }
}

/// Returns the size of a variable in bytes. A dimension without a length counts as 1 element.
/// Returns `None` if the size exceeds [`MAX_OBJECT_SIZE`].
pub(super) fn size(module: &Module, variable: &Variable) -> Option<u64> {
    let element = variable.scalar.bytes().unwrap_or(1) * variable.vector.count();
    let dimensions = &module[variable.dimensions];
    let lengths = dimensions.iter().filter_map(|dimension| dimension.length);
    let size = lengths.chain(variable.range.filter(|_| variable.space != StateSpace::Reg));
    size.into_iter()
        .try_fold(u64::from(element), u64::checked_mul)
        .filter(|&size| size <= MAX_OBJECT_SIZE)
}

/// Returns the size of a variable in bytes. An array without a length has the length of its initialiser. Returns `None`
/// if the size does not fit in 64 bits.
pub(super) fn initialised_size(module: &Module, variable: &Variable) -> Option<u64> {
    let open = module[variable.dimensions]
        .first()
        .is_some_and(|dimension| matches!(dimension.length, None | Some(0)));
    let count = match variable.initializer.map(|id| module[id].kind) {
        _ if !open => 1,
        Some(InitializerKind::List(list)) => list.len() as u64,
        Some(_) => 1,
        None => 0,
    };
    let known = module[variable.dimensions].iter().skip(usize::from(open));
    let element = u64::from(variable.scalar.bytes().unwrap_or(1) * variable.vector.count());
    known
        .filter_map(|dimension| dimension.length)
        .chain(variable.range)
        .try_fold(element.checked_mul(count)?, u64::checked_mul)
}

fn attribute_problem(
    module: &Module,
    variable: &Variable,
    place: DeclarationSite,
    header: &Header,
) -> Option<Problem> {
    if variable.pointer.is_some() && place != DeclarationSite::EntryParameter {
        return problem(
            Code::PARAMETER,
            "`.ptr` is allowed for parameters of kernels only",
        );
    }
    let attributes = &module[variable.attributes];
    if attributes.is_empty() {
        return None;
    }
    if before(header, 4, 0) {
        return problem(Code::FEATURE_VERSION, "`.attribute` needs PTX 4.0 or later");
    }
    let managed = attributes.contains(&Attribute::Managed);
    if managed && variable.space != StateSpace::Global {
        return problem(Code::STATE_SPACE, "only `.global` variables can be managed");
    }
    None
}

fn linkage_problem(variable: &Variable, header: &Header) -> Option<Problem> {
    match variable.linkage {
        Linkage::Weak if before(header, 3, 1) => {
            problem(Code::FEATURE_VERSION, "`.weak` needs PTX 3.1 or later")
        }
        Linkage::Common if before(header, 5, 0) => {
            problem(Code::FEATURE_VERSION, "`.common` needs PTX 5.0 or later")
        }
        Linkage::Common if variable.space != StateSpace::Global => {
            problem(Code::LINKAGE, "`.common` variables must be in `.global`")
        }
        _ => None,
    }
}

/// Returns the alignment of a variable in bytes: the declared alignment if there is one, or else
/// the size of one element, which is a scalar or a vector.
pub(super) fn alignment_of(variable: &Variable) -> u64 {
    let natural = variable.scalar.bytes().unwrap_or(1) * variable.vector.count();
    variable.align.unwrap_or(u64::from(natural))
}

fn alignment(variable: &Variable, place: DeclarationSite, sink: &mut Sink) {
    if place == DeclarationSite::FuncParameter
        && variable.align.is_some_and(|align| align > MAX_ALIGNMENT)
    {
        let message = format!("a function's parameter is aligned to {MAX_ALIGNMENT} bytes at most");
        let span = variable.name.span;
        sink.report(Diagnostic::error(Code::DIRECTIVE_VALUE, span, message));
    }
    let pointer = variable.pointer.and_then(|pointer| pointer.align);
    for align in [variable.align, pointer].into_iter().flatten() {
        if !align.is_power_of_two() || align > u64::from(u32::MAX) {
            sink.report(Diagnostic::error(
                Code::DIRECTIVE_VALUE,
                Span::new(variable.span.start, variable.name.span.end),
                "an alignment must be a power of two below 2^32",
            ));
        }
    }
}
