//! The machine instructions of a kernel: one line of static data for each line that a warp can write to a trace.

use margay::observe::{Launch, TextOperand, TextOperandKind};
use margay_accelsim::{Instruction, Opcode, Opcodes, Register, Sources};
use rustc_hash::FxHashMap;

use smallvec::SmallVec;

use super::registers::{Numbers, Registers, words};
use super::sass::{self, Architecture, Memory, Step, Uses};

/// Bytes between the addresses of two instructions.
const INSTRUCTION_BYTES: u64 = 16;
/// The largest number of sources that the simulator reads.
const SOURCES: usize = 4;

/// A machine instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Line {
    /// The line without mask and addresses. The width is not 0 if the line has addresses.
    pub(super) template: Instruction,
    /// The addresses of the line.
    pub(super) memory: Option<Memory>,
    /// Whether the lanes that execute the line exit.
    pub(super) is_exit: bool,
    /// Whether the line is an atomic operation.
    pub(super) is_atomic: bool,
}

/// The machine instructions of a kernel.
#[derive(Debug)]
pub(super) struct Listing {
    lines: Vec<Line>,
    /// For each function: for each PTX instruction, the index of its first line. The last element is the end.
    starts: FxHashMap<u32, Vec<u32>>,
    /// An estimate of the number of registers that a thread needs.
    pub(super) registers: u32,
    /// The instruction of an access to memory that a GPU keeps in registers.
    pub(super) register_move: Opcode,
    /// The exit of lanes that reach the end of the kernel without an instruction.
    pub(super) exit: Line,
}

/// A PTX instruction that the simulator has no name for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Unsupported {
    pub(super) opcode: String,
    pub(super) ptx_line: u32,
}

impl Listing {
    /// Creates the listing of a launch's kernel and the functions that it calls.
    pub(super) fn new(launch: &Launch, architecture: Architecture) -> Result<Listing, Unsupported> {
        let functions = launch.functions();
        let kernel = functions.first().map_or(0, |&(function, _)| function);
        let mut builder = Builder {
            launch,
            architecture,
            kernel,
            registers: define_all(launch, &functions),
            opcodes: Opcodes::new(),
            lines: Vec::new(),
        };
        let mut starts = FxHashMap::default();
        for &(function, count) in &functions {
            let mut of_function = vec![builder.lines.len() as u32];
            for index in 0..count {
                builder.add(function, index)?;
                of_function.push(builder.lines.len() as u32);
            }
            starts.insert(function, of_function);
        }
        let [register_move, exit] = ["MOV", "EXIT"].map(|name| builder.opcode(name));
        let pc = builder.end();
        Ok(Listing {
            registers: builder.registers.pressure(),
            lines: builder.lines,
            starts,
            register_move,
            exit: Line {
                template: Instruction::new(pc, 0, exit),
                memory: None,
                is_exit: true,
                is_atomic: false,
            },
        })
    }

    /// Returns the lines of a PTX instruction.
    pub(super) fn lines(&self, function: u32, index: u32) -> &[Line] {
        let range = self.starts.get(&function).and_then(|starts| {
            let index = index as usize;
            Some(*starts.get(index)? as usize..*starts.get(index + 1)? as usize)
        });
        range.map_or(&[], |range| &self.lines[range])
    }
}

/// A listing that is being created.
struct Builder<'a> {
    launch: &'a Launch,
    architecture: Architecture,
    kernel: u32,
    registers: Registers,
    opcodes: Opcodes,
    lines: Vec<Line>,
}

impl Builder<'_> {
    /// Returns the byte offset of the end of the code.
    fn end(&self) -> u64 {
        self.lines.len() as u64 * INSTRUCTION_BYTES
    }

    fn opcode(&mut self, name: &str) -> Opcode {
        let opcode = self.opcodes.intern(name.as_bytes());
        opcode.expect("the names of the mapping are opcodes")
    }

    /// Adds the lines of a PTX instruction.
    fn add(&mut self, function: u32, index: u32) -> Result<(), Unsupported> {
        let launch = self.launch;
        let Some((opcode, position)) = launch.instruction(function, index) else {
            return Ok(());
        };
        let operands = launch.operands(function, index);
        let in_kernel = function == self.kernel;
        let steps = sass::steps(opcode, operands, self.architecture, in_kernel);
        let steps = steps.map_err(|sass::Unsupported| Unsupported {
            opcode: opcode.to_owned(),
            ptx_line: position.ptx_line(),
        })?;
        let source_line = launch
            .source(position)
            .map_or(position.ptx_line(), |line| line.line);
        for step in steps {
            let opcode = self.opcode(&step.name);
            let operands = Operands {
                function,
                all: operands,
                registers: &self.registers,
            };
            let (destination, sources) = operands.numbers(&step);
            let width = step.memory.map_or(0, |_| opcode.width());
            let is_exit = opcode.text() == "EXIT";
            let is_atomic = ["ATOM", "ATOMG", "ATOMS", "RED"].contains(&opcode.name());
            self.lines.push(Line {
                template: Instruction {
                    line: Some(source_line),
                    destination: destination.and_then(register),
                    sources: Sources::first(
                        &sources.into_iter().filter_map(register).collect::<Vec<_>>(),
                    ),
                    width,
                    immediate: match step.has_immediate {
                        true => operands.immediate() as i64,
                        false => 0,
                    },
                    ..Instruction::new(self.end(), 0, opcode)
                },
                memory: step.memory,
                is_exit,
                is_atomic,
            });
        }
        Ok(())
    }
}

fn register(number: u32) -> Option<Register> {
    u16::try_from(number).ok().map(Register::general)
}

/// Gives numbers to all registers: first those that are written, in the order of the text.
fn define_all(launch: &Launch, functions: &[(u32, u32)]) -> Registers {
    let mut registers = Registers::default();
    for written in [true, false] {
        let mut place = 0;
        for &(function, count) in functions {
            for index in 0..count {
                place += 1;
                if written {
                    rename(launch, &mut registers, (function, index));
                }
                let operands = launch.operands(function, index).iter();
                for operand in operands.filter(|operand| operand.is_written || !written) {
                    for &register in &operand.registers {
                        registers.define(function, register);
                        registers.uses(function, register, place);
                    }
                }
            }
        }
    }
    registers
}

/// Gives the destination of a conversion of an address (`cvta`), and of a move that packs or unpacks registers, the
/// numbers of its source.
fn rename(launch: &Launch, registers: &mut Registers, (function, index): (u32, u32)) {
    let opcode = launch.instruction(function, index);
    let starts = |start| opcode.is_some_and(|(opcode, _)| opcode.starts_with(start));
    let [destination, source] = launch.operands(function, index) else {
        return;
    };
    let is_vector = |operand: &TextOperand| operand.kind == TextOperandKind::Vector;
    if starts("mov.") && (is_vector(destination) || is_vector(source)) {
        registers.repack(function, &destination.registers, &source.registers);
    }
    if starts("cvta")
        && let ([(destination, _)], [(source, _)]) = (&*destination.registers, &*source.registers)
    {
        registers.rename(function, *destination, *source);
    }
}

/// The operands of a PTX instruction.
struct Operands<'a> {
    function: u32,
    all: &'a [TextOperand],
    registers: &'a Registers,
}

impl Operands<'_> {
    /// Returns the destination and the sources of a line.
    fn numbers(&self, step: &Step) -> (Option<u32>, Numbers) {
        let (destination, mut sources) = match step.uses {
            Uses::None => (None, Numbers::new()),
            Uses::Operands => (self.destination(0), self.sources(0)),
            Uses::Word(word) => (self.destination(word), self.sources(word)),
            Uses::Link { is_last, number } => self.link(is_last, number),
        };
        sources.truncate(SOURCES);
        (destination.filter(|_| step.writes), sources)
    }

    fn link(&self, is_last: bool, number: usize) -> (Option<u32>, Numbers) {
        let destination = match is_last {
            true => self.destination(0),
            false => Some(self.registers.temporary(number)),
        };
        let sources = match number.checked_sub(1) {
            None => self.sources(0),
            Some(before) => {
                let mut sources = Numbers::new();
                sources.push(self.registers.temporary(before));
                sources.extend(self.sources(0).first().copied());
                sources
            }
        };
        (destination, sources)
    }

    fn destination(&self, word: usize) -> Option<u32> {
        let mut written = self.all.iter().filter(|operand| operand.is_written);
        written.find_map(|operand| self.number(operand, word))
    }

    /// Returns the first register of each source. Registers from which addresses are computed come first.
    fn sources(&self, word: usize) -> Numbers {
        let read = || self.all.iter().filter(|operand| !operand.is_written);
        let is_address = |operand: &&TextOperand| operand.kind == TextOperandKind::Address;
        // Addresses are whole values: all words of the instruction use their first register.
        let addresses = read()
            .filter(is_address)
            .filter_map(|operand| self.number(operand, 0));
        let others = read()
            .filter(|operand| !is_address(operand))
            .filter_map(|operand| self.number(operand, word));
        addresses.chain(others).collect()
    }

    fn number(&self, operand: &TextOperand, word: usize) -> Option<u32> {
        let word_of = |register: u32, word| self.registers.word(self.function, register, word);
        match operand.kind {
            // A line moves a word of the vector; short elements have one line each.
            TextOperandKind::Vector if operand.registers.iter().any(|&(_, bits)| bits > 32) => {
                let all: SmallVec<[_; 8]> = words(&operand.registers).collect();
                let found = all.get(word).or(all.last());
                found.and_then(|&(register, word)| word_of(register, word))
            }
            TextOperandKind::Vector => {
                let element = word.min(operand.registers.len().saturating_sub(1));
                operand
                    .registers
                    .get(element)
                    .and_then(|&(register, _)| word_of(register, 0))
            }
            _ => operand
                .registers
                .iter()
                .find_map(|&(register, _)| word_of(register, word)),
        }
    }

    fn immediate(&self) -> u64 {
        let constants = self.all.iter().find_map(|operand| match operand.kind {
            TextOperandKind::Constant(value) => Some(value),
            _ => None,
        });
        constants.unwrap_or(0)
    }
}
