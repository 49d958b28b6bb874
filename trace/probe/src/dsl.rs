//! Compiles probes that are written as Python programs.
//!
//! The language is a subset of Python: module-level declarations of registers (`name: nl.u64 = 0`), maps (classes with
//! the decorator `@Map`) and probes (functions with the decorator `@probe`), whose bodies assign, calculate and save.
//! The compiler writes a probe file in TOML, which [`load_toml`](crate::load_toml) loads. Invariant: each statement
//! has an effect or is an error.

mod body;
mod items;
mod write;

use ruff_python_ast::{Expr, Stmt};
use ruff_python_parser::parse_module;
use ruff_text_size::Ranged;

use crate::error::{Error, line_of};
use crate::model::{Level, ProbeFile};

/// The maximum length of a program in bytes.
const MAX_TEXT: usize = 1 << 20;
/// The maximum number of operators that directly follow each other, which limits the depth of expressions.
const MAX_OPERATORS: usize = 256;

/// Whose faults the compiler has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Faults {
    /// None.
    #[default]
    Fixed,
    /// Those of the original compiler: assignments of numbers have no effect, registers have no first value,
    /// multiplication gives an instruction that PTX does not have, negation is an error, the fields of maps are sorted
    /// by width while the values to save are not, and texts of merged probes are joined without a line break.
    Original,
}

/// A map of the program.
struct MapItem {
    name: String,
    line: u32,
    level: Level,
    record: u64,
    /// `None` means `"dynamic"`.
    capacity: Option<u64>,
    fields: Vec<(String, String)>,
}

/// A probe of the program, or several merged ones.
struct ProbeItem {
    name: String,
    line: u32,
    level: Level,
    position: String,
    before: Option<String>,
    after: Option<String>,
}

/// What a program declares.
#[derive(Default)]
struct Program {
    callback: Option<String>,
    /// The names of `neutrino.language` in the program.
    languages: Vec<String>,
    /// The shared registers and their first values.
    registers: Vec<(String, u64)>,
    maps: Vec<MapItem>,
    probes: Vec<ProbeItem>,
    /// The number of registers that the probes need.
    needed: usize,
}

/// Compiles a program. `name` is the file's name for messages.
///
/// # Errors
///
/// Returns the first error in the program.
pub fn load_dsl(name: &str, text: &str, faults: Faults) -> Result<ProbeFile, Error> {
    let compiler = Compiler { name, text, faults };
    if text.len() > MAX_TEXT {
        return Err(Error::new(
            name,
            0,
            format!("the program has more than {MAX_TEXT} bytes"),
        ));
    }
    compiler.check_depth()?;
    let parsed = parse_module(text).map_err(|error| {
        compiler.error(error.location.start().to_usize(), error.error.to_string())
    })?;
    let program = compiler.program(parsed.suite())?;
    let toml = write::toml(&program, faults);
    let loaded = crate::toml_file::load(name, &toml).map_err(|error| {
        // The lines of errors are those of the program, not of the TOML text.
        let line = error
            .subject
            .as_deref()
            .and_then(|subject| program.line_of(subject));
        Error {
            line: line.unwrap_or(0),
            ..error
        }
    })?;
    Ok(loaded)
}

impl Program {
    fn line_of(&self, subject: &str) -> Option<u32> {
        let maps = self.maps.iter().map(|map| (&map.name, map.line));
        let mut all = maps.chain(self.probes.iter().map(|probe| (&probe.name, probe.line)));
        all.find(|(name, _)| *name == subject).map(|(_, line)| line)
    }
}

struct Compiler<'t> {
    name: &'t str,
    text: &'t str,
    faults: Faults,
}

impl Compiler<'_> {
    fn error(&self, offset: usize, message: impl Into<String>) -> Error {
        Error::new(self.name, line_of(self.text, offset), message)
    }

    fn at(&self, node: &impl Ranged, message: impl Into<String>) -> Error {
        self.error(node.range().start().to_usize(), message)
    }

    fn line(&self, node: &impl Ranged) -> u32 {
        line_of(self.text, node.range().start().to_usize())
    }

    /// Refuses programs whose expressions are too deep for recursive functions: long chains of operators or brackets.
    fn check_depth(&self) -> Result<(), Error> {
        let (mut operators, mut brackets) = (0_usize, 0_usize);
        let mut words = 0_usize;
        for (offset, byte) in self.text.bytes().enumerate() {
            match byte {
                b'(' | b'[' | b'{' => brackets += 1,
                b')' | b']' | b'}' => brackets = brackets.saturating_sub(1),
                b'+' | b'-' | b'*' | b'/' | b'~' | b'<' | b'>' | b'%' | b'&' | b'|' | b'^'
                | b'@' | b'.' | b'=' | b':' | b'"' | b'\'' => operators += 1,
                b'\n' if brackets == 0 => (operators, words) = (0, 0),
                b' ' => words += 1,
                _ => {}
            }
            // Words such as `not` and `lambda` are operators too.
            if operators > MAX_OPERATORS || brackets > MAX_OPERATORS || words > 16 * MAX_OPERATORS {
                return Err(self.error(offset, "the statement is too long"));
            }
        }
        Ok(())
    }

    fn program(&self, statements: &[Stmt]) -> Result<Program, Error> {
        let mut program = Program::default();
        for statement in statements {
            self.item(statement, &mut program)?;
        }
        if program.probes.is_empty() || program.maps.is_empty() {
            return Err(Error::new(
                self.name,
                0,
                "a program needs at least one map and one probe",
            ));
        }
        Ok(program)
    }

    fn string(&self, expr: &Expr, what: &str) -> Result<String, Error> {
        match expr {
            Expr::StringLiteral(text) => Ok(text.value.to_str().to_owned()),
            other => Err(self.at(other, format!("{what} must be a string"))),
        }
    }
}
