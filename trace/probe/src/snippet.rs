//! The PTX text of a probe, split into statements.
//!
//! A snippet is PTX with scratch registers (`%NR0`), helpers (`ADDR`), and `SAVE` statements. Statements may be on one
//! line or on several, so the splitter works on tokens. It keeps the spelling of instructions, in which names are
//! separate [`Piece`]s that the rewriter replaces. Invariant: the braces of a snippet are balanced.

mod split;

pub(crate) use split::split;

use crate::width::Width;

/// A name that stands for a value of the matched instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Helper {
    /// `OUT`: the first operand.
    Out,
    /// `IN1`: the second operand.
    In1,
    /// `IN2`: the third operand.
    In2,
    /// `IN3`: the fourth operand.
    In3,
    /// `ADDR`: the address of a memory access.
    Addr,
    /// `BYTES`: the bytes of a memory access.
    Bytes,
}

impl Helper {
    /// All helpers.
    pub const ALL: [Helper; 6] = [
        Helper::Out,
        Helper::In1,
        Helper::In2,
        Helper::In3,
        Helper::Addr,
        Helper::Bytes,
    ];

    /// Returns the helper's name in probe files.
    pub fn word(self) -> &'static str {
        match self {
            Helper::Out => "OUT",
            Helper::In1 => "IN1",
            Helper::In2 => "IN2",
            Helper::In3 => "IN3",
            Helper::Addr => "ADDR",
            Helper::Bytes => "BYTES",
        }
    }

    fn from_word(word: &str) -> Option<Helper> {
        Helper::ALL.into_iter().find(|helper| helper.word() == word)
    }
}

/// A part of a statement's text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    /// Text that stays as it is, with white space.
    Text(String),
    /// The scratch register with this number.
    Scratch(u32),
    /// A helper.
    Helper(Helper),
    /// A name: a register, a special register or a label.
    Name(String),
}

/// A register that a snippet declares, or a range of registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Declared {
    /// The name, or the part before `<` of a range.
    pub name: String,
    /// The PTX type without its dot.
    pub scalar: String,
    /// The number of registers of a range.
    pub count: Option<u32>,
    /// Whether the declaration is outside all braces, so that all probes see the register.
    pub is_shared: bool,
}

impl Declared {
    /// Whether the declaration declares the register `name`. A range has one register more than its text says,
    /// because probe files count from 1 and declare too few.
    pub fn declares(&self, name: &str) -> bool {
        match self.count {
            None => self.name == name,
            Some(count) => name.strip_prefix(self.name.as_str()).is_some_and(|digits| {
                digits.parse::<u32>().is_ok_and(|number| number <= count)
                    && (digits == "0" || !digits.starts_with(['0', '+']))
            }),
        }
    }
}

/// The guard of a statement: `@p` or `@!p`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Guard {
    /// Whether the guard is `@!p`.
    pub negated: bool,
    /// The predicate register.
    pub register: Piece,
}

/// A `SAVE` statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Save {
    /// The name of the map; `None` in the artifact's dialect, where each probe has its own map.
    pub map: Option<String>,
    /// The width of all operands, as in `SAVE.u64`; `None` if the map declares the widths.
    pub width: Option<Width>,
    /// For a `SAVE` of the artifact's dialect: the index of the map's field that the first operand is.
    pub first_field: usize,
    /// The operands.
    pub operands: Vec<Vec<Piece>>,
}

/// The kinds of statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StatementKind {
    /// `{`
    Open,
    /// `}`
    Close,
    /// `.reg ...;` inside braces. Shared declarations are only in [`Snippet::declared`].
    Declare(Vec<Declared>),
    /// `name:`
    Label(String),
    /// An instruction: the opcode with its modifiers, and the whole text without guard and semicolon.
    Instruction(String, Vec<Piece>),
    /// `SAVE`.
    Save(Save),
}

/// A statement of a snippet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    /// The guard that the text gives the statement.
    pub guard: Option<Guard>,
    /// The statement.
    pub kind: StatementKind,
    /// The line in the probe file.
    pub line: u32,
}

/// The text of a probe.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snippet {
    /// The text as written.
    pub text: String,
    /// The statements.
    pub statements: Vec<Statement>,
    /// All registers that the snippet declares.
    pub declared: Vec<Declared>,
}

impl Snippet {
    /// Returns the helpers that the snippet uses, each once, in the order of [`Helper::ALL`].
    pub fn helpers(&self) -> Vec<Helper> {
        let mut used: Vec<Helper> = self
            .pieces()
            .filter_map(|piece| match piece {
                Piece::Helper(helper) => Some(*helper),
                _ => None,
            })
            .collect();
        used.sort();
        used.dedup();
        used
    }

    /// Returns the number of scratch registers that the snippet needs.
    pub fn scratch_registers(&self) -> u32 {
        let numbers = self.pieces().filter_map(|piece| match piece {
            Piece::Scratch(number) => Some(number.saturating_add(1)),
            _ => None,
        });
        numbers.max().unwrap_or(0)
    }

    /// Whether the snippet has a `SAVE` statement.
    pub fn has_save(&self) -> bool {
        self.saves().next().is_some()
    }

    /// Returns the `SAVE` statements and their lines, in order.
    pub fn saves(&self) -> impl Iterator<Item = (&Save, u32)> {
        self.statements
            .iter()
            .filter_map(|statement| match &statement.kind {
                StatementKind::Save(save) => Some((save, statement.line)),
                _ => None,
            })
    }

    /// Whether a guard cannot be copied to each statement, because a statement has its own guard or control flow.
    /// The snippet of a predicated instruction is then jumped over.
    pub fn needs_branch(&self) -> bool {
        self.statements.iter().any(|statement| {
            statement.guard.is_some()
                || match &statement.kind {
                    StatementKind::Label(_) => true,
                    StatementKind::Instruction(opcode, _) => {
                        let head = opcode.split('.').next().unwrap_or_default();
                        matches!(head, "bra" | "brx" | "call")
                    }
                    _ => false,
                }
        })
    }

    fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.statements.iter().flat_map(|statement| {
            let pieces: Vec<&Piece> = match &statement.kind {
                StatementKind::Instruction(_, pieces) => pieces.iter().collect(),
                StatementKind::Save(save) => save.operands.iter().flatten().collect(),
                _ => Vec::new(),
            };
            let guard = statement.guard.as_ref().map(|guard| &guard.register);
            pieces.into_iter().chain(guard)
        })
    }
}
