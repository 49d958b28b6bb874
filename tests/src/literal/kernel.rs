//! Writes the kernel that executes all cases of an instruction, and the kernel's directives.
//!
//! The grid has a block for each case. Every thread executes the instruction twice (see [`Choice`])
//! and stores its results in its own elements of the result buffers.

use std::fmt::{Result, Write};

use margay_cli::filetest::value::{Expected, Tolerance, Type};
use margay_ops::meaning::Bits;
use margay_ops::types::OpType;

use super::support::{Case, values};
use super::{Instruction, Operand, place};

/// Number of threads in a block: one warp.
const LANES: usize = 32;

/// A kernel to be written: an instruction and all cases that it executes.
pub(super) struct Kernel {
    pub(super) name: String,
    pub(super) instruction: Instruction,
    pub(super) cases: Vec<Case>,
}

/// The rule that determines which case a thread executes.
#[derive(Clone, Copy)]
enum Choice {
    /// Every thread executes the case of its block, so the operands are uniform.
    Block,
    /// Each lane executes the case that follows the case of the previous lane.
    Lane,
}

impl Choice {
    const ALL: [Choice; 2] = [Choice::Block, Choice::Lane];

    /// Returns the prefix of the names of the result buffers.
    fn name(self) -> &'static str {
        match self {
            Choice::Block => "block",
            Choice::Lane => "lane",
        }
    }

    fn case(self, thread: usize, cases: usize) -> usize {
        let (block, lane) = (thread / LANES, thread % LANES);
        match self {
            Choice::Block => block,
            Choice::Lane => (block + lane) % cases,
        }
    }
}

impl Kernel {
    /// Writes the cases as comments, the directives and the kernel.
    pub(super) fn write(&self, text: &mut String) -> Result {
        writeln!(text)?;
        for case in &self.cases {
            writeln!(text, "// {}", place(case))?;
        }
        writeln!(text, "//@ kernel: {}", self.name)?;
        writeln!(text, "//@ grid: {}", self.cases.len())?;
        writeln!(text, "//@ block: {LANES}")?;
        for (index, ty) in self.registers() {
            self.operand(text, index, ty)?;
        }
        for choice in Choice::ALL {
            for (index, &ty) in self.instruction.results.iter().enumerate() {
                self.result(text, index, ty, choice)?;
            }
        }
        self.head(text)?;
        for choice in Choice::ALL {
            match choice {
                Choice::Block => writeln!(text, "    mov.u32 %case, %block;")?,
                Choice::Lane => {
                    writeln!(text, "    add.u32 %case, %block, %lane;")?;
                    writeln!(text, "    rem.u32 %case, %case, {};", self.cases.len())?;
                }
            }
            self.load(text)?;
            self.execute(text)?;
            self.store(text, choice)?;
        }
        writeln!(text, "    ret;\n}}")
    }

    /// Returns the position and the type of each operand that is a register.
    fn registers(&self) -> impl Iterator<Item = (usize, OpType)> {
        let operands = self.instruction.operands.iter().enumerate();
        operands.filter_map(|(index, operand)| match operand {
            Operand::Register(ty) => Some((index, *ty)),
            Operand::Constant(_) => None,
        })
    }

    /// Writes the directive of an operand's buffer, with the operand's value in each case.
    fn operand(&self, text: &mut String, index: usize, ty: OpType) -> Result {
        write!(text, "//@ buffer: b{}", 8 * bytes(ty))?;
        for case in &self.cases {
            write!(text, " {:#x}", values(&case.operands)[index])?;
        }
        writeln!(text)
    }

    /// Writes the directives of a result's buffer and of its expected content.
    fn result(&self, text: &mut String, index: usize, ty: OpType, choice: Choice) -> Result {
        let threads = self.cases.len() * LANES;
        let results = self.cases.iter().map(|case| values(&case.results)[index]);
        let results: Vec<Bits> = results.collect();
        let element = element(ty);
        writeln!(text, "//@ buffer: b{} 0*{threads}", 8 * bytes(ty))?;
        write!(text, "//@ expect: {}", element.name())?;
        for thread in 0..threads {
            let bits = results[choice.case(thread, results.len())];
            for part in 0..bytes(ty) / element.bytes() {
                let size = 8 * element.bytes();
                let bits = bits >> (part * size) & Bits::MAX >> (128 - size);
                match element.agrees(bits, Expected::Nan, Tolerance::Absolute(0.0)) {
                    true => write!(text, " nan")?,
                    false => write!(text, " {bits:#x}")?,
                }
            }
        }
        writeln!(text)
    }

    /// Writes the beginning of the kernel: its parameters, its registers, and the code that reads
    /// the indices of block and thread.
    fn head(&self, text: &mut String) -> Result {
        let results = 0..self.instruction.results.len();
        let of = |choice: Choice| {
            results
                .clone()
                .map(move |i| format!("{}{i}", choice.name()))
        };
        let operands = self.registers().map(|(i, _)| format!("a{i}"));
        let parameters: Vec<String> = operands
            .chain(Choice::ALL.into_iter().flat_map(of))
            .map(|name| format!(".param .u64 {name}"))
            .collect();
        writeln!(
            text,
            ".visible .entry {}({})\n{{",
            self.name,
            parameters.join(", ")
        )?;
        writeln!(text, "    .reg .b64 %at; .reg .b16 %truth;")?;
        writeln!(text, "    .reg .b32 %lane, %block, %thread, %case;")?;
        for (index, ty) in self.registers() {
            writeln!(text, "    .reg .{} %a{index};", class(ty))?;
        }
        for (index, &ty) in self.instruction.results.iter().enumerate() {
            writeln!(text, "    .reg .{} %d{index};", class(ty))?;
        }
        writeln!(text, "    mov.u32 %lane, %tid.x; mov.u32 %block, %ctaid.x;")?;
        writeln!(text, "    mad.lo.u32 %thread, %block, {LANES}, %lane;")
    }

    /// Writes code that loads the operands of the case with the number `%case`.
    fn load(&self, text: &mut String) -> Result {
        for (index, ty) in self.registers() {
            write!(text, "    ld.param.u64 %at, [a{index}]; ")?;
            writeln!(text, "mad.wide.u32 %at, %case, {}, %at;", bytes(ty))?;
            if ty == OpType::Pred {
                write!(text, "    ld.global.u8 %truth, [%at]; ")?;
                writeln!(text, "setp.ne.u16 %a{index}, %truth, 0;")?;
            } else {
                writeln!(text, "    ld.global.{} %a{index}, [%at];", class(ty))?;
            }
        }
        Ok(())
    }

    fn execute(&self, text: &mut String) -> Result {
        let instruction = &self.instruction;
        let results = (0..instruction.results.len()).map(|index| format!("%d{index}"));
        let results: Vec<String> = results.collect();
        let results = results.join(if instruction.paired { "|" } else { ", " });
        write!(text, "    {} {results}", instruction.spelled)?;
        for (index, operand) in instruction.operands.iter().enumerate() {
            match operand {
                Operand::Register(_) => write!(text, ", %a{index}")?,
                Operand::Constant(bits) => write!(text, ", {bits:#x}")?,
            }
        }
        writeln!(text, ";")
    }

    fn store(&self, text: &mut String, choice: Choice) -> Result {
        for (index, &ty) in self.instruction.results.iter().enumerate() {
            write!(text, "    ld.param.u64 %at, [{}{index}]; ", choice.name())?;
            writeln!(text, "mad.wide.u32 %at, %thread, {}, %at;", bytes(ty))?;
            if ty == OpType::Pred {
                write!(text, "    selp.u16 %truth, 1, 0, %d{index}; ")?;
                writeln!(text, "st.global.u8 [%at], %truth;")?;
            } else {
                writeln!(text, "    st.global.{} [%at], %d{index};", class(ty))?;
            }
        }
        Ok(())
    }
}

/// Returns the PTX type of the registers for values of the type `ty`.
fn class(ty: OpType) -> &'static str {
    match ty.held().lane_bits() {
        _ if ty == OpType::Pred => "pred",
        8 => "b8",
        16 => "b16",
        32 => "b32",
        64 => "b64",
        _ => "b128",
    }
}

/// Returns the size in bytes of a value of the type `ty` in a buffer.
fn bytes(ty: OpType) -> usize {
    ty.held().lane_bytes() as usize
}

/// Returns the type of the elements of a result buffer for results of the type `ty`.
fn element(ty: OpType) -> Type {
    let name = match ty {
        OpType::F16 | OpType::F16x2 => "f16",
        OpType::BF16 | OpType::BF16x2 => "bf16",
        OpType::F32 | OpType::F32x2 => "f32",
        OpType::F64 => "f64",
        _ => class(ty),
    };
    Type::named(name).expect("a type of file tests")
}
