//! Code that copies a value of the program to a 64-bit register.

use std::fmt::Write;

use margay_frontend::ast::ScalarType;

use super::names::Names;

/// Collects inserted lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Code {
    text: String,
}

impl Code {
    /// Adds one statement without its semicolon.
    pub(super) fn line(&mut self, statement: impl AsRef<str>) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(self.text, "\t{};", statement.as_ref());
    }

    /// Adds one statement that runs under a guard such as `!%p1`.
    pub(super) fn guarded(&mut self, guard: Option<&str>, statement: impl AsRef<str>) {
        match guard {
            Some(guard) => self.line(format!("@{guard} {}", statement.as_ref())),
            None => self.line(statement),
        }
    }

    /// Adds a line that has no semicolon.
    pub(super) fn raw(&mut self, line: impl AsRef<str>) {
        let _ = writeln!(self.text, "\t{}", line.as_ref());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the lines as a text to insert between two statements.
    pub(super) fn into_text(self) -> String {
        format!("\n{}\t", self.text)
    }

    pub(super) fn append(&mut self, other: &Code) {
        self.text.push_str(&other.text);
    }
}

/// The numbers of the temporary registers that [`widen`] may change.
const WORD: &str = "w7";
const SHORT: &str = "s0";

/// Adds code that sets the 64-bit register `to` to the value of the register `from`: sign-extended or zero-extended.
/// Returns false if registers of this type have no value.
pub(super) fn widen(
    code: &mut Code,
    names: &Names,
    to: &str,
    from: &str,
    scalar: ScalarType,
    is_signed: bool,
) -> bool {
    let sign = if is_signed { 's' } else { 'u' };
    let (word, short) = (names.register(WORD), names.register(SHORT));
    match (scalar, scalar.bytes()) {
        (ScalarType::Pred, _) => code.line(format!("selp.u64 {to}, 1, 0, {from}")),
        (_, Some(1)) => code.line(format!("cvt.{sign}64.{sign}8 {to}, {from}")),
        (_, Some(2)) => {
            code.line(format!("mov.b16 {short}, {from}"));
            code.line(format!("cvt.{sign}64.{sign}16 {to}, {short}"));
        }
        (_, Some(4)) => {
            code.line(format!("mov.b32 {word}, {from}"));
            code.line(format!("cvt.{sign}64.{sign}32 {to}, {word}"));
        }
        (scalar, Some(8)) if !scalar.is_opaque() => code.line(format!("mov.b64 {to}, {from}")),
        (ScalarType::B128, _) => {
            let high = names.register("t7");
            code.line(format!("mov.b128 {{{to}, {high}}}, {from}"));
        }
        _ => return false,
    }
    true
}
