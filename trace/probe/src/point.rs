//! Decides which instructions a tracepoint selects.

use margay_frontend::ast::{Instruction, Module};
use margay_frontend::{SourceFile, Span};

use crate::options::Matching;

/// The texts of an instruction with which tracepoints are compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Texts {
    /// The opcode with its modifiers, such as `ld.global.f32`.
    pub(crate) opcode: String,
    /// The guard and a space, or an empty text.
    pub(crate) guard: String,
    /// The whole instruction with single spaces, and its semicolon.
    pub(crate) line: String,
}

impl Texts {
    pub(crate) fn of(module: &Module, source: &SourceFile, instruction: &Instruction) -> Texts {
        let guard = instruction.guard.map(|id| {
            let guard = &module[id];
            let sign = if guard.negated { "!" } else { "" };
            format!("@{sign}{} ", module.text(guard.register.name))
        });
        Texts {
            opcode: module.spelling(instruction),
            guard: guard.unwrap_or_default(),
            line: line(source, instruction.span),
        }
    }

    /// Whether the tracepoint `point` selects the instruction.
    pub(crate) fn matches(&self, point: &str, matching: Matching) -> bool {
        match matching {
            Matching::Substring => self.line.contains(point),
            Matching::Prefix if point.starts_with('@') => {
                let text = format!("{}{}", self.guard, self.opcode);
                starts_with_words(&text, point)
            }
            Matching::Prefix => starts_with_words(&self.opcode, point),
        }
    }
}

fn line(source: &SourceFile, span: Span) -> String {
    let mut words: Vec<&str> = source.slice(span).split_whitespace().collect();
    words.retain(|word| !word.is_empty());
    format!("{};", words.join(" "))
}

/// Whether `text` is `start`, or continues behind it with a dot.
fn starts_with_words(text: &str, start: &str) -> bool {
    let rest = text.strip_prefix(start);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(guard: &str, opcode: &str, operands: &str) -> Texts {
        Texts {
            opcode: opcode.to_owned(),
            guard: guard.to_owned(),
            line: format!("{guard}{opcode} {operands};"),
        }
    }

    #[test]
    fn prefixes_end_at_dots() {
        let load = texts("@%p1 ", "ld.global.nc.v4.f32", "{%f1,%f2,%f3,%f4}, [%rd1]");
        for point in ["ld", "ld.global", "ld.global.nc.v4.f32", "@%p1 ld.global"] {
            assert!(load.matches(point, Matching::Prefix), "{point}");
        }
        for point in [
            "l",
            "ld.glob",
            "global",
            "ld.global.v4",
            "@%p1",
            "@%p2 ld",
            "",
        ] {
            assert!(!load.matches(point, Matching::Prefix), "{point}");
        }
    }

    #[test]
    fn substrings_are_anywhere() {
        let load = texts("", "ld.param.u64", "%rd1, [vecadd_param_0]");
        assert!(load.matches("add", Matching::Substring));
        assert!(!load.matches("add", Matching::Prefix));
        assert!(texts("", "ret", "").line.contains("ret"));
    }
}
