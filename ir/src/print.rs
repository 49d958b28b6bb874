//! Prints the IR's text form, which [`crate::parse`] reads.
//!
//! ```text
//! module version 8.0 target sm_80
//! file "saxpy.cu"
//! loc 0 12:5
//! sym0 = global @table visible size 16 align 8 init "0102"
//!   address at 8 of fn0 size 8
//!
//! fn0 = kernel @saxpy visible registers 9 {
//!   parameters 32
//!   parameter @n offset 0 size 4 align 4
//!   slot0 = local 16 align 8 @buffer
//! block0:
//!   v0: b32 = sreg.u32 %tid.x  ; 17 loc 1
//!   v2: f32 = fma.f32{rn} v5, v6, v7
//!   brif v3, block1(v2), block2
//! ...
//! }
//! ```
//!
//! An instruction consists of its results with their types, the op with its types, the payload or the modifiers in
//! braces, the operands, and the branch targets with their arguments. After `;`, the text contains
//! the line of the PTX text and the number of the source position: its index in
//! [`Module::locs`](crate::module::Module::locs) plus 1. `//` begins a comment. The printer does
//! not renumber values and blocks, so that a reader can compare the texts before and after a pass.
//!
//! Invariant: the text of a module that passes [`crate::verify`] is complete. If it is parsed and printed again, the
//! result is the same text. The text does not contain `Layout::in_program_order` and
//! [`Module::instructions`](crate::module::Module::instructions).

mod module;
pub(crate) mod words;

use std::fmt::{self, Write};

use crate::entity::{Block, Inst};
use crate::function::{Function, InstData, KernelData, payload_sreg, split_symbol_payload};
use crate::syscall::Syscall;
use margay_ops::meaning::Desc;
use margay_ops::ops::{Effects, Opcode};
use margay_ops::texture::Access;
use margay_ops::types::{OpType, Type};

use words::linkage_word;
pub use words::{modifier_words, name};

/// Comments for a listing, printed after instructions and after the labels of blocks.
pub trait Notes {
    /// Returns the comment for an instruction.
    fn inst(&self, inst: Inst) -> Option<String>;
    /// Returns the comment for a block.
    fn block(&self, block: Block) -> Option<String>;
}

/// An implementation of [`Notes`] that returns no comments.
struct Silent;

impl Notes for Silent {
    fn inst(&self, _: Inst) -> Option<String> {
        None
    }

    fn block(&self, _: Block) -> Option<String> {
        None
    }
}

/// Returns the text of a function with comments.
pub fn with_notes(function: &Function, notes: &dyn Notes) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_function(&mut text, function, notes);
    text
}

/// Writes the op and the types of an operation and, unless the op has a payload, the modifiers.
///
/// # Errors
///
/// Returns the errors of `f`.
pub fn write_desc(f: &mut impl Write, desc: &Desc) -> fmt::Result {
    write!(f, "{}", desc.opcode.name())?;
    if desc.ty != OpType::None || desc.src != OpType::None {
        write!(f, ".{}", words::type_word(desc.ty))?;
    }
    if desc.src != OpType::None {
        write!(f, ".{}", desc.src)?;
    }
    let words = match desc.opcode.effects().contains(Effects::PAYLOAD) {
        true => Vec::new(),
        false => modifier_words(desc.mods),
    };
    if !words.is_empty() {
        write!(f, "{{{}}}", words.join(" "))?;
    }
    Ok(())
}

fn write_head(f: &mut impl Write, data: &InstData) -> fmt::Result {
    write_desc(f, &data.desc())?;
    match data.opcode.effects().contains(Effects::PAYLOAD) {
        true => write_payload(f, data),
        false => Ok(()),
    }
}

fn write_payload(f: &mut impl Write, data: &InstData) -> fmt::Result {
    let payload = data.payload();
    match data.opcode {
        Opcode::SReg | Opcode::Clock => match payload_sreg(payload) {
            Some(register) => write!(f, " {}", register.name()),
            None => write!(f, " %{payload}"),
        },
        Opcode::SymbolAddr => {
            let (symbol, addend) = split_symbol_payload(payload);
            write!(f, " {symbol}{addend:+}")
        }
        Opcode::LocalAddr => write!(f, " slot{payload}"),
        Opcode::Call | Opcode::FuncAddr => write!(f, " fn{payload}"),
        Opcode::CallIndirect => write!(f, " sig{payload}"),
        Opcode::Const => write!(f, " {payload:#x}"),
        Opcode::Syscall => match Syscall::from_payload(payload) {
            Some(which) => write!(f, " {}", which.name()),
            None => write!(f, " {payload}"),
        },
        Opcode::Tex | Opcode::Txq | Opcode::Suld | Opcode::Sust | Opcode::Sured => {
            match Access::from_payload(payload) {
                Some(access) => write!(f, " {access}"),
                None => write!(f, " {payload}"),
            }
        }
        _ => write!(f, " {payload}"),
    }
}

fn write_inst(
    f: &mut impl Write,
    function: &Function,
    inst: Inst,
    notes: &dyn Notes,
) -> fmt::Result {
    let dfg = &function.dfg;
    write!(f, "  ")?;
    let results = dfg.results(inst);
    for (i, &value) in results.iter().enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        write!(f, "{comma}{value}: {}", dfg.ty(value))?;
    }
    if !results.is_empty() {
        write!(f, " = ")?;
    }
    write_head(f, &dfg.insts[inst])?;
    for (i, value) in dfg.args(inst).iter().enumerate() {
        write!(f, "{}{value}", if i == 0 { " " } else { ", " })?;
    }
    for (i, call) in dfg.targets(inst).iter().enumerate() {
        let first = i == 0 && dfg.args(inst).is_empty();
        write!(f, "{}{}", if first { " " } else { ", " }, call.block)?;
        if !call.args.is_empty() {
            let args: Vec<String> = call.args.iter().map(ToString::to_string).collect();
            write!(f, "({})", args.join(", "))?;
        }
    }
    let loc = dfg.locs[inst];
    if loc != Default::default() {
        write!(f, "  ; {}", loc.ptx_line)?;
    }
    if loc.loc != 0 {
        write!(f, " loc {}", loc.loc)?;
    }
    write_note(f, notes.inst(inst))
}

fn write_note(f: &mut impl Write, note: Option<String>) -> fmt::Result {
    match note {
        // A line break in the note would end the comment.
        Some(note) => writeln!(f, "  // {}", note.replace(['\n', '\r'], " ")),
        None => writeln!(f),
    }
}

fn write_block(
    f: &mut impl Write,
    function: &Function,
    block: Block,
    notes: &dyn Notes,
) -> fmt::Result {
    write!(f, "{block}")?;
    let params = &function.dfg.blocks[block].params;
    if !params.is_empty() {
        let list: Vec<String> = params
            .iter()
            .map(|&v| format!("{v}: {}", function.dfg.ty(v)))
            .collect();
        write!(f, "({})", list.join(", "))?;
    }
    write!(f, ":")?;
    write_note(f, notes.block(block))?;
    function
        .insts(block)
        .iter()
        .try_for_each(|&inst| write_inst(f, function, inst, notes))
}

/// Returns a list of types in parentheses, such as `(b32, b64)`.
fn types(list: &[Type]) -> String {
    let texts: Vec<String> = list.iter().map(ToString::to_string).collect();
    format!("({})", texts.join(", "))
}

fn write_kernel(f: &mut impl Write, kernel: &KernelData) -> fmt::Result {
    writeln!(f, "  parameters {}", kernel.param_bytes)?;
    for param in &kernel.params {
        writeln!(
            f,
            "  parameter {} offset {} size {} align {}",
            name(&param.name),
            param.offset,
            param.size,
            param.align
        )?;
    }
    for (word, shape) in [
        ("maxntid", kernel.maxntid),
        ("reqntid", kernel.reqntid),
        ("cluster", kernel.cluster),
    ] {
        if let Some([x, y, z]) = shape {
            writeln!(f, "  {word} {x} {y} {z}")?;
        }
    }
    for (word, number) in [
        ("minnctapersm", kernel.minnctapersm),
        ("maxnreg", kernel.maxnreg),
        ("maxclusterrank", kernel.maxclusterrank),
    ] {
        if let Some(number) = number {
            writeln!(f, "  {word} {number}")?;
        }
    }
    if kernel.blocksareclusters {
        writeln!(f, "  blocksareclusters")?;
    }
    Ok(())
}

fn write_function(f: &mut impl Write, function: &Function, notes: &dyn Notes) -> fmt::Result {
    match &function.kernel {
        Some(_) => write!(f, "kernel {}", name(&function.name))?,
        None => write!(
            f,
            "func {}{} -> {}",
            name(&function.name),
            types(&function.signature.params),
            types(&function.signature.returns)
        )?,
    }
    write!(f, "{}", linkage_word(function.linkage))?;
    if function.declared_registers != 0 {
        write!(f, " registers {}", function.declared_registers)?;
    }
    writeln!(f, " {{")?;
    if let Some(kernel) = &function.kernel {
        write_kernel(f, kernel)?;
    }
    for (line, what) in &function.unsupported {
        writeln!(f, "  unsupported {line} {}", words::quoted(what))?;
    }
    for (slot, data) in function.slots.iter() {
        write!(f, "  {slot} = local {} align {}", data.size, data.align)?;
        if !data.name.is_empty() {
            write!(f, " {}", name(&data.name))?;
        }
        writeln!(f)?;
    }
    function
        .blocks()
        .iter()
        .try_for_each(|&block| write_block(f, function, block, notes))?;
    writeln!(f, "}}")
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_function(f, self, &Silent)
    }
}
