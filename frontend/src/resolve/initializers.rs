//! Checks that the initialiser of each variable agrees with the variable's type, dimensions and
//! state space.

use super::check::Sink;
use super::scope::Scopes;
use super::symbol::{Lookup, Symbol};
use crate::ast::{
    Initializer, InitializerKind, Linkage, Module, Name, Property, PropertyValue, ScalarType,
    StateSpace, Variable,
};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::source::Span;

/// For each opaque type, the names of the properties that an initialiser may contain.
const PROPERTIES: &[(ScalarType, &[&str])] = &[
    (ScalarType::TexRef, &TEXTURE_PROPERTIES),
    (ScalarType::SamplerRef, &SAMPLER_PROPERTIES),
    (ScalarType::SurfRef, &SURFACE_PROPERTIES),
];

const SURFACE_PROPERTIES: [&str; 7] = [
    "width",
    "height",
    "depth",
    "channel_data_type",
    "channel_order",
    "array_size",
    "memory_layout",
];

const SAMPLER_PROPERTIES: [&str; 5] = [
    "addr_mode_0",
    "addr_mode_1",
    "addr_mode_2",
    "filter_mode",
    "force_unnormalized_coords",
];

const TEXTURE_PROPERTIES: [&str; 13] = [
    "width",
    "height",
    "depth",
    "channel_data_type",
    "channel_order",
    "normalized_coords",
    "addr_mode_0",
    "addr_mode_1",
    "addr_mode_2",
    "filter_mode",
    "array_size",
    "num_mipmap_levels",
    "num_samples",
];

/// Checks the initialiser of a variable, if the variable has one, and adds the problems to `sink`.
pub(super) fn check(module: &Module, variable: &Variable, scopes: &Scopes<'_>, sink: &mut Sink) {
    let Some(id) = variable.initializer else {
        return;
    };
    let initializer = &module[id];
    let name = module.text(variable.name.name);
    let forbidden = match variable.space {
        _ if variable.linkage == Linkage::Extern => Some(format!("the external variable `{name}`")),
        StateSpace::Global | StateSpace::Const => match variable.scalar {
            ScalarType::F16 => Some("a variable of type `.f16`".to_owned()),
            _ => None,
        },
        space => Some(format!("`{name}` in `{space}`")),
    };
    if let Some(what) = forbidden {
        let message = format!("{what} cannot have an initial value");
        let span = initializer.span;
        sink.report(Diagnostic::error(
            Code::INITIALIZER_NOT_ALLOWED,
            span,
            message,
        ));
        return;
    }
    let lengths: Vec<Option<u64>> = module[variable.dimensions]
        .iter()
        .map(|d| d.length)
        .collect();
    let checker = Checker {
        module,
        variable,
        scopes,
    };
    checker.array(initializer, &lengths, sink);
}

struct Checker<'a, 'm> {
    module: &'m Module,
    variable: &'a Variable,
    scopes: &'a Scopes<'m>,
}

impl Checker<'_, '_> {
    /// Checks `value`, the initial value of an array with these dimensions, outermost first. If
    /// `lengths` is empty, `value` is the initial value of one element. The parser limits the
    /// nesting of initialisers, so the recursion is limited.
    fn array(&self, value: &Initializer, lengths: &[Option<u64>], sink: &mut Sink) {
        let Some((&length, inner)) = lengths.split_first() else {
            return self.element(value, sink);
        };
        let InitializerKind::List(list) = value.kind else {
            return mismatch(value.span, "an array's value is a list in braces", sink);
        };
        if length.is_some_and(|length| list.len() as u64 > length) {
            let message = format!(
                "{} values for an array of {}",
                list.len(),
                length.unwrap_or(0)
            );
            return mismatch(value.span, message, sink);
        }
        for value in self.module.values(list) {
            if sink.is_full() {
                return;
            }
            self.array(&value, inner, sink);
        }
    }

    /// Checks `value`, the initial value of one element, which is a scalar or a vector.
    fn element(&self, value: &Initializer, sink: &mut Sink) {
        let count = self.variable.vector.count();
        if count == 1 {
            return self.scalar(value, sink);
        }
        let InitializerKind::List(list) = value.kind else {
            return mismatch(value.span, "a vector's value is a list in braces", sink);
        };
        if list.len() as u64 != u64::from(count) {
            let message = format!("{} values for a vector of {count}", list.len());
            return mismatch(value.span, message, sink);
        }
        for value in self.module.values(list) {
            self.scalar(&value, sink);
        }
    }

    fn scalar(&self, value: &Initializer, sink: &mut Sink) {
        let scalar = self.variable.scalar;
        match value.kind {
            InitializerKind::Constant(constant) => {
                use ScalarType::*;
                let fits = match scalar {
                    F32 | F64 => constant.is_float(),
                    B8 | B16 | B32 | B64 | B128 => true,
                    F16 | F16x2 | Pred | TexRef | SamplerRef | SurfRef => false,
                    _ => !constant.is_float(),
                };
                if !fits {
                    let message = format!("this constant is not a value of type `{scalar}`");
                    mismatch(value.span, message, sink);
                }
            }
            InitializerKind::Address {
                name,
                offset,
                generic,
                byte,
            } => self.address(value.span, name, (offset, generic, byte), sink),
            InitializerKind::List(list) => {
                if !(list.is_empty() && scalar.is_opaque()) {
                    let message = format!("a list is not a value of type `{scalar}`");
                    mismatch(value.span, message, sink);
                }
            }
            InitializerKind::Properties(list) => self.properties(&self.module[list], sink),
        }
    }

    fn address(
        &self,
        span: Span,
        name: Name,
        (offset, generic, byte): (i64, bool, Option<u8>),
        sink: &mut Sink,
    ) {
        use ScalarType::{U8, U32, U64};
        let scalar = self.variable.scalar;
        let whole = matches!(scalar, U32 | U64);
        if !whole && (byte.is_none() || scalar != U8) {
            let message = format!("an address is not a value of type `{scalar}`");
            return mismatch(span, message, sink);
        }
        let text = self.module.text(name);
        match self.scopes.lookup(name) {
            Some(Symbol::Function(_)) if generic || offset != 0 => {
                mismatch(
                    span,
                    "a function's address cannot have an offset or `generic`",
                    sink,
                );
            }
            Some(Symbol::Function(_)) => {}
            Some(Symbol::Variable(id)) => {
                let space = self.module[id].space;
                if !matches!(space, StateSpace::Global | StateSpace::Const) {
                    let message = format!("the address of `{text}` in `{space}` is not constant");
                    mismatch(span, message, sink);
                }
            }
            _ => {
                let message = format!("`{text}` is not a variable or function declared before");
                sink.report(Diagnostic::error(Code::UNKNOWN_SYMBOL, span, message));
            }
        }
    }

    fn properties(&self, properties: &[Property], sink: &mut Sink) {
        let scalar = self.variable.scalar;
        let row = PROPERTIES.iter().find(|row| row.0 == scalar);
        for property in properties {
            let key = self.module.text(property.key.name);
            if !row.is_some_and(|row| row.1.contains(&key)) {
                let message = format!("`{scalar}` has no property `{key}`");
                let span = property.key.span;
                sink.report(Diagnostic::error(Code::INITIALIZER, span, message));
            } else if let PropertyValue::Word(word) = property.value {
                self.property_word(key, word.name, word.span, sink);
            }
        }
    }

    fn property_word(&self, key: &str, word: Name, span: Span, sink: &mut Sink) {
        let words: &[&str] = match key {
            "filter_mode" => &["nearest", "linear"],
            "addr_mode_0" | "addr_mode_1" | "addr_mode_2" => &[
                "wrap",
                "mirror",
                "clamp_ogl",
                "clamp_to_edge",
                "clamp_to_border",
            ],
            "channel_data_type" | "channel_order" | "memory_layout" => return,
            _ => &["a number"],
        };
        let text = self.module.text(word);
        if !words.contains(&text) {
            let message = format!("`{text}` is not a value of `{key}`");
            let diagnostic = Diagnostic::error(Code::INITIALIZER, span, message);
            sink.report(diagnostic.with_note(format!("it takes {}", words.join(", "))));
        }
    }
}

fn mismatch(span: Span, message: impl Into<String>, sink: &mut Sink) {
    sink.report(Diagnostic::error(Code::INITIALIZER, span, message));
}
