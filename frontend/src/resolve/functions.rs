//! Checks the heads of functions: their directives, the size of their parameters, repeated
//! declarations, and aliases.

use super::check::Sink;
use super::declarations;
use super::header::Header;
use crate::ast::{
    Alias, Attribute, Directive, DirectiveKind, Function, FunctionKind, Id, Linkage, List, Module,
    StateSpace, Variable, Version,
};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::source::Span;

/// The maximum number of registers that a function can preserve (`.abi_preserve`). The next
/// constant is the maximum number of control registers (`.abi_preserve_control`).
const MAX_PRESERVED: u64 = 238;
const MAX_PRESERVED_CONTROL: u64 = 15;
/// The maximum total size of a kernel's parameters, in bytes.
const MAX_PARAMETER_BYTES: u64 = 0x7ffc;

/// Checks the head of a function, and adds the problems to `sink`.
pub(super) fn check(module: &Module, function: &Function, header: &Header, sink: &mut Sink) {
    directives(module, function, header, sink);
    if function.kind == FunctionKind::Entry {
        parameter_space(module, function, sink);
    }
    returns(module, function.returns, function.name.span, sink);
    attributes(&module[function.attributes], function.span, header, sink);
    if function.linkage == Linkage::Extern && function.body.is_some() {
        let name = module.text(function.name.name);
        let message = format!("`{name}` is `.extern` and cannot have a body");
        let span = function.name.span;
        sink.report(Diagnostic::error(Code::LINKAGE, span, message));
    }
    if function.linkage == Linkage::Weak && header.version < (Version { major: 3, minor: 1 }) {
        sink.report(Diagnostic::error(
            Code::FEATURE_VERSION,
            function.span,
            "`.weak` needs PTX 3.1 or later",
        ));
    }
}

/// Checks the return parameters of a function or prototype. If there are several return parameters, they must be
/// registers. A return parameter that is an array must have a size.
pub(super) fn returns(module: &Module, returns: List<Variable>, span: Span, sink: &mut Sink) {
    let in_memory = |variable: &Variable| variable.space == StateSpace::Param;
    if returns.len() > 1 && module[returns].iter().any(in_memory) {
        let message = "several return parameters must be in `.reg`";
        sink.report(Diagnostic::error(Code::PARAMETER, span, message));
    }
    for variable in &module[returns] {
        let mut dimensions = module[variable.dimensions].iter();
        if dimensions.any(|dimension| matches!(dimension.length, None | Some(0))) {
            let message = "a return parameter needs a size";
            let span = variable.name.span;
            sink.report(Diagnostic::error(Code::INCOMPLETE_TYPE, span, message));
        }
    }
}

/// Checks that the module's target has the features that the attributes in `.attribute(...)` need.
pub(super) fn attributes(attributes: &[Attribute], span: Span, header: &Header, sink: &mut Sink) {
    let unified = attributes
        .iter()
        .any(|attribute| matches!(attribute, Attribute::Unified(..)));
    if unified && header.architecture < 90 {
        let message = "`.unified` needs `sm_90` or later";
        sink.report(Diagnostic::error(Code::FEATURE_VERSION, span, message));
    }
}

/// Returns the name of a directive and the lowest PTX version and architecture that support it. Returns `None` if every
/// PTX version and architecture supports the directive.
fn requirement(kind: &DirectiveKind) -> Option<(&'static str, Version, u32)> {
    use DirectiveKind::*;
    let version = |major, minor| Version { major, minor };
    Some(match kind {
        RequiredCtasPerCluster(_) => (".reqnctapercluster", version(7, 8), 90),
        ExplicitCluster => (".explicitcluster", version(7, 8), 90),
        MaxClusterRank(_) => (".maxclusterrank", version(7, 8), 90),
        BlocksAreClusters => (".blocksareclusters", version(9, 0), 90),
        NoReturn => (".noreturn", version(6, 4), 30),
        AbiPreserve(_) => (".abi_preserve", version(9, 0), 80),
        AbiPreserveControl(_) => (".abi_preserve_control", version(9, 0), 80),
        _ => return None,
    })
}

fn directives(module: &Module, function: &Function, header: &Header, sink: &mut Sink) {
    let directives = &module[function.directives];
    for directive in directives {
        let (span, kind) = (directive.span, &directive.kind);
        if let Some((word, version, architecture)) = requirement(kind)
            && (header.version < version || header.architecture < architecture)
        {
            let message = format!(
                "`{word}` needs PTX {}.{} and `sm_{architecture}` or later",
                version.major, version.minor
            );
            sink.report(Diagnostic::error(Code::FEATURE_VERSION, span, message));
        }
        if is_out_of_range(kind) {
            let message = "this directive needs a value above zero and below 2^32";
            sink.report(Diagnostic::error(Code::DIRECTIVE_VALUE, span, message));
        }
        if *kind == DirectiveKind::NoReturn && !function.returns.is_empty() {
            let message = "a function that never returns has no return parameters";
            sink.report(Diagnostic::error(Code::DIRECTIVE_PLACE, span, message));
        }
        if let DirectiveKind::AbiPreserve(n) | DirectiveKind::AbiPreserveControl(n) = *kind {
            let limit = match kind {
                DirectiveKind::AbiPreserve(_) => MAX_PRESERVED,
                _ => MAX_PRESERVED_CONTROL,
            };
            if n > limit {
                let message = format!("{n} exceeds the limit of {limit} registers");
                sink.report(Diagnostic::error(Code::DIRECTIVE_VALUE, span, message));
            }
        }
        if let DirectiveKind::MaxCtasPerSm(_) = kind {
            max_ctas_per_sm(directive, header, sink);
        }
    }
    together(directives, sink);
}

fn max_ctas_per_sm(directive: &Directive, header: &Header, sink: &mut Sink) {
    if header.version > (Version { major: 2, minor: 0 }) {
        let message = "`.maxnctapersm` was removed in PTX 2.1; use `.minnctapersm`";
        sink.report(Diagnostic::error(
            Code::REMOVED_FEATURE,
            directive.span,
            message,
        ));
    }
}

fn is_out_of_range(kind: &DirectiveKind) -> bool {
    use DirectiveKind::*;
    let bad = |n: &u64| *n == 0 || *n > u64::from(u32::MAX);
    match kind {
        MaxRegisters(n) | MinCtasPerSm(n) | MaxCtasPerSm(n) => bad(n),
        MaxThreads(extent) | RequiredThreads(extent) => extent.iter().any(bad),
        _ => false,
    }
}

/// Checks that no two of a function's directives exclude each other, and that no directive lacks
/// another directive that it requires.
fn together(directives: &[Directive], sink: &mut Sink) {
    use DirectiveKind::*;
    let find = |wanted: fn(&DirectiveKind) -> bool| directives.iter().find(|d| wanted(&d.kind));
    let max_threads = find(|k| matches!(k, MaxThreads(_)));
    let threads = find(|k| matches!(k, RequiredThreads(_)));
    let ctas = find(|k| matches!(k, RequiredCtasPerCluster(_)));
    let rank = find(|k| matches!(k, MaxClusterRank(_)));
    let clusters = find(|k| matches!(k, BlocksAreClusters));
    let exclusive = [
        (max_threads, threads, "`.maxntid` and `.reqntid`"),
        (ctas, rank, "`.reqnctapercluster` and `.maxclusterrank`"),
    ];
    for (first, second, words) in exclusive {
        if let (Some(first), Some(second)) = (first, second) {
            let message = format!("{words} exclude each other");
            sink.report(
                Diagnostic::error(Code::DIRECTIVE_VALUE, second.span, message)
                    .with_related(first.span, "the other is here"),
            );
        }
    }
    if let Some(clusters) = clusters
        && (threads.is_none() || ctas.is_none())
    {
        let message = "`.blocksareclusters` needs `.reqntid` and `.reqnctapercluster`";
        sink.report(Diagnostic::error(
            Code::DIRECTIVE_VALUE,
            clusters.span,
            message,
        ));
    }
    let minimum = find(|k| matches!(k, MinCtasPerSm(_)));
    if let (Some(minimum), None, None) = (minimum, max_threads, threads) {
        let message = "`.minnctapersm` has no effect without `.maxntid` or `.reqntid`";
        sink.report(Diagnostic::warning(
            Code::IGNORED_DIRECTIVE,
            minimum.span,
            message,
        ));
    }
}

fn parameter_space(module: &Module, function: &Function, sink: &mut Sink) {
    let mut end = 0_u64;
    for parameter in &module[function.parameters] {
        let size = declarations::size(module, parameter).unwrap_or(0);
        let natural = u64::from(parameter.scalar.bytes().unwrap_or(1));
        let align = parameter.align.unwrap_or(natural).max(1);
        let start = end.checked_next_multiple_of(align).unwrap_or(u64::MAX);
        end = start.saturating_add(size);
    }
    if end > MAX_PARAMETER_BYTES {
        let message =
            format!("{end} bytes of parameters; a kernel has at most {MAX_PARAMETER_BYTES}");
        sink.report(Diagnostic::error(
            Code::PARAMETER,
            function.name.span,
            message,
        ));
    }
}

/// Checks that the head `later` agrees with `earlier`, an earlier declaration of the same name.
/// Returns true if `later` replaces `earlier`.
pub(super) fn redeclared(
    module: &Module,
    earlier: &Function,
    later: &Function,
    sink: &mut Sink,
) -> bool {
    let name = module.text(later.name.name);
    let (code, what) = if earlier.kind != later.kind {
        (
            Code::PROTOTYPE_MISMATCH,
            "is declared as a kernel and as a device function".to_owned(),
        )
    } else if earlier.body.is_some() {
        (Code::DUPLICATE_SYMBOL, "is defined already".to_owned())
    } else if earlier.linkage == Linkage::Extern && later.body.is_some() {
        (
            Code::LINKAGE,
            "is defined although declared `.extern`".to_owned(),
        )
    } else if later.linkage != Linkage::Internal && later.linkage != earlier.linkage {
        (
            Code::LINKAGE,
            "is declared with a different linkage".to_owned(),
        )
    } else if let Some(difference) = difference(module, earlier, later) {
        (
            Code::PROTOTYPE_MISMATCH,
            format!("is declared with {difference}"),
        )
    } else {
        return true;
    };
    sink.report(
        Diagnostic::error(code, later.name.span, format!("`{name}` {what}"))
            .with_related(earlier.name.span, "the earlier declaration is here"),
    );
    earlier.body.is_none()
}

/// Returns a description of the first difference between the heads of two functions, or `None` if there is none.
/// Only the return parameters, the parameters and `.noreturn` are compared.
fn difference(module: &Module, a: &Function, b: &Function) -> Option<String> {
    list_difference(module, a.returns, b.returns, "return parameter")
        .or_else(|| list_difference(module, a.parameters, b.parameters, "parameter"))
        .or_else(|| {
            let never_returns = |function: &Function| {
                let mut directives = module[function.directives].iter();
                directives.any(|d| d.kind == DirectiveKind::NoReturn)
            };
            let differ = never_returns(a) != never_returns(b);
            differ.then(|| "a different `.noreturn`".to_owned())
        })
}

fn list_difference(
    module: &Module,
    a: List<Variable>,
    b: List<Variable>,
    what: &str,
) -> Option<String> {
    if a.len() != b.len() {
        return Some(format!("a different number of {what}s"));
    }
    let pairs = module[a].iter().zip(&module[b]);
    let mut numbered = pairs.enumerate();
    numbered.find_map(|(i, (a, b))| {
        let lengths = |v: &Variable| -> Vec<Option<u64>> {
            module[v.dimensions].iter().map(|d| d.length).collect()
        };
        let difference = if a.space != b.space {
            "state space"
        } else if a.scalar != b.scalar || a.vector != b.vector || lengths(a) != lengths(b) {
            "type"
        } else if declarations::alignment_of(a) != declarations::alignment_of(b) {
            "alignment"
        } else {
            return None;
        };
        Some(format!("a different {difference} of {what} {}", i + 1))
    })
}

/// The functions to which the two names of an `.alias` directive refer. A field is `None` if no earlier function has
/// that name.
pub(super) struct AliasEnds {
    pub(super) name: Option<Id<Function>>,
    pub(super) target: Option<Id<Function>>,
}

/// Checks an alias.
pub(super) fn alias(
    module: &Module,
    alias: &Alias,
    ends: &AliasEnds,
    header: &Header,
    sink: &mut Sink,
) {
    if header.version < (Version { major: 6, minor: 3 }) {
        let message = "`.alias` needs PTX 6.3 or later";
        sink.report(Diagnostic::error(
            Code::FEATURE_VERSION,
            alias.span,
            message,
        ));
    }
    for (ident, end) in [(alias.name, ends.name), (alias.target, ends.target)] {
        let function = end.map(|id| &module[id]);
        if function.is_none_or(|function| function.kind == FunctionKind::Entry) {
            let text = module.text(ident.name);
            let message = format!("`{text}` is not a device function declared before");
            sink.report(Diagnostic::error(Code::ALIAS, ident.span, message));
        }
    }
    let (Some(name), Some(target)) = (ends.name, ends.target) else {
        return;
    };
    let text = module.text(alias.name.name);
    let message = if module[target].linkage == Linkage::Weak {
        "a `.weak` function cannot have an alias".to_owned()
    } else if name == target {
        format!("`{text}` cannot be an alias of itself")
    } else if module[name].body.is_some() {
        format!("`{text}` has a body and cannot be an alias")
    } else if let Some(difference) = difference(module, &module[name], &module[target]) {
        format!("the alias and its function differ: {difference}")
    } else {
        return;
    };
    sink.report(Diagnostic::error(Code::ALIAS, alias.span, message));
}
