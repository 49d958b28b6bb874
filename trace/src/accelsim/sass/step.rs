//! The lines that an instruction becomes, before registers and addresses are known.

use std::borrow::Cow;

use smallvec::SmallVec;

/// The architecture whose opcodes a trace contains, by the number in its header (`-binary version`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Architecture {
    /// `sm_70`.
    Volta70,
    /// `sm_75`.
    Turing75,
    /// `sm_80`.
    Ampere80,
    /// `sm_86`.
    Ampere86,
}

impl Architecture {
    /// All architectures.
    pub const ALL: [Architecture; 4] = [
        Architecture::Volta70,
        Architecture::Turing75,
        Architecture::Ampere80,
        Architecture::Ampere86,
    ];

    /// Returns the number of the architecture: 70, 75, 80 or 86.
    pub fn number(self) -> u32 {
        match self {
            Architecture::Volta70 => 70,
            Architecture::Turing75 => 75,
            Architecture::Ampere80 => 80,
            Architecture::Ampere86 => 86,
        }
    }

    /// Returns the newest architecture whose number is at most `target`, the number of a PTX target such as 86 for
    /// `sm_86`. Returns Volta for older targets.
    pub fn of_target(target: u32) -> Architecture {
        let newest = Architecture::ALL.into_iter().rev();
        let mut fitting = newest.filter(|architecture| architecture.number() <= target);
        fitting.next().unwrap_or(Architecture::Volta70)
    }

    pub(super) fn is_turing(self) -> bool {
        self >= Architecture::Turing75
    }

    pub(super) fn is_ampere(self) -> bool {
        self >= Architecture::Ampere80
    }
}

/// The registers that a line names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Uses {
    /// The first register of each operand.
    Operands,
    /// The word with this number of each operand.
    Word(usize),
    /// A link of a chain: the first link reads the operands, each other link reads the result of the link before it and
    /// the first operand, and the last link writes the destination.
    Link {
        /// Whether this is the last link.
        is_last: bool,
        /// The number of the link.
        number: usize,
    },
    /// No registers.
    None,
}

/// The addresses that a line contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    /// The addresses of all accesses of the instruction.
    Any,
    /// The addresses of the accesses to global memory.
    Global,
    /// The addresses of the accesses to shared memory.
    Shared,
    /// Part `number` of `count` parts of the accesses of each lane.
    Part {
        /// The number of the part.
        number: usize,
        /// The number of parts.
        count: usize,
    },
}

/// A line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// The opcode.
    pub(crate) name: Cow<'static, str>,
    /// The registers.
    pub(crate) uses: Uses,
    /// Whether the line writes the destination of the instruction.
    pub(crate) writes: bool,
    /// The addresses; `None` if the opcode accesses no memory.
    pub(crate) memory: Option<Memory>,
    /// Whether the immediate number of the line is the first constant operand of the instruction.
    pub(crate) has_immediate: bool,
}

/// The lines of an instruction.
pub(crate) type Steps = SmallVec<[Step; 2]>;

/// A line that uses the operands of the instruction.
pub(super) fn step(name: impl Into<Cow<'static, str>>) -> Step {
    Step {
        name: name.into(),
        uses: Uses::Operands,
        writes: true,
        memory: None,
        has_immediate: false,
    }
}

/// No lines: the instruction does not exist in machine code.
pub(super) fn nothing() -> Steps {
    Steps::new()
}

/// One line.
pub(super) fn one(name: impl Into<Cow<'static, str>>) -> Steps {
    Steps::from_iter([step(name)])
}

/// One line that names no registers.
pub(super) fn bare(name: impl Into<Cow<'static, str>>) -> Steps {
    Steps::from_iter([Step {
        uses: Uses::None,
        writes: false,
        ..step(name)
    }])
}

/// One line that reads registers and writes none.
pub(super) fn reading(name: impl Into<Cow<'static, str>>) -> Steps {
    Steps::from_iter([Step {
        writes: false,
        ..step(name)
    }])
}

/// A line for each 32-bit word of a value. If there are more words than names, the last name repeats.
pub(super) fn words(count: usize, names: &[&'static str]) -> Steps {
    let last = names.last().copied().unwrap_or("NOP");
    let steps = (0..count).map(|word| Step {
        uses: Uses::Word(word),
        ..step(names.get(word).copied().unwrap_or(last))
    });
    steps.collect()
}

/// Lines of which each uses the result of the line before it.
pub(super) fn chain(names: &[&'static str]) -> Steps {
    let steps = names.iter().enumerate().map(|(number, &name)| Step {
        uses: Uses::Link {
            is_last: number + 1 == names.len(),
            number,
        },
        ..step(name)
    });
    steps.collect()
}

/// A line that accesses memory. `writes` states whether it writes a register.
pub(super) fn access(name: impl Into<Cow<'static, str>>, memory: Memory, writes: bool) -> Step {
    Step {
        memory: Some(memory),
        writes,
        ..step(name)
    }
}
