//! The machine instructions that stand for a PTX instruction in a trace.
//!
//! The simulator knows only names of machine instructions. This module maps each PTX instruction to the instructions
//! that NVIDIA's assembler usually makes of it. The numbers of instructions in a trace are thus those of a model of the
//! machine code: an assembler fuses instructions, folds constants and spills registers differently.

mod control;
mod convert;
mod float;
mod integer;
mod memory;
mod opcode;
mod step;
mod tensor;
mod texture;
mod video;

#[cfg(test)]
mod tests;

pub use self::step::Architecture;
pub(crate) use self::step::{Memory, Step, Steps, Uses};

use margay::observe::TextOperand;

use self::opcode::Words;

/// The reason for which an instruction has no equivalent in the opcode maps of the simulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unsupported;

/// What a mapping function knows about an instruction.
struct Subject<'a> {
    words: Words<'a>,
    operands: &'a [TextOperand],
    architecture: Architecture,
    /// Whether the instruction belongs to the kernel and not to a function that the kernel calls.
    in_kernel: bool,
}

/// Returns the lines of an instruction with the opcode `opcode`. `in_kernel` states whether the instruction belongs to
/// the kernel and not to a function that the kernel calls.
pub(crate) fn steps(
    opcode: &str,
    operands: &[TextOperand],
    architecture: Architecture,
    in_kernel: bool,
) -> Result<Steps, Unsupported> {
    let subject = Subject {
        words: Words::of(opcode),
        operands,
        architecture,
        in_kernel,
    };
    let families: [fn(&Subject<'_>) -> Option<Steps>; 8] = [
        memory::steps,
        float::steps,
        integer::steps,
        convert::steps,
        control::steps,
        tensor::steps,
        texture::steps,
        video::steps,
    ];
    families
        .iter()
        .find_map(|family| family(&subject))
        .ok_or(Unsupported)
}
