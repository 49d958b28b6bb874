//! Prints the text form of functions, which [`crate::parse`] reads.
//!
//! ```text
//! func @name(b64, predx16) -> (b32) {
//!   private 0
//!   helper0 = @table (b32) -> (f32)
//!   helper1 = @count () -> (b32) nomemory
//!   slot0 = 64 align 64
//! block0(v0: b64, v1: predx16):
//!   v2: b32x16 = load.b32x16{u8 1 +64} v0, v1  ; 17
//!   brif v3, block1(v2), block2
//! ...
//! }
//! ```
//!
//! An instruction consists of its results with their types, the op with its type, the data in braces, the operands and
//! the branch targets with their arguments. The data of an access is the type in memory, the stride and, if it is not 0,
//! the displacement with its sign. The number after `;` is the place of the instruction.

use std::fmt::{self, Write};

use margay_ir::entity::{Block, Inst, Value};
use margay_ir::function::Signature;
use margay_ir::print::{name, write_desc};

use crate::data::{Access, Data};
use crate::function::Function;
use crate::ops::DataKind;

fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    texts.join(", ")
}

fn write_signature(f: &mut impl Write, signature: &Signature) -> fmt::Result {
    write!(
        f,
        "({}) -> ({})",
        list(&signature.params),
        list(&signature.returns)
    )
}

fn write_access(f: &mut impl Write, access: Access) -> fmt::Result {
    write!(f, "{{{} {}", access.memory, access.stride)?;
    match access.displacement {
        0 => f.write_char('}'),
        displacement => write!(f, " {displacement:+}}}"),
    }
}

impl Function {
    fn typed(&self, values: &[Value]) -> String {
        list(
            values
                .iter()
                .map(|&value| format!("{value}: {}", self.ty(value))),
        )
    }

    fn write_data(&self, f: &mut impl Write, inst: Inst) -> fmt::Result {
        let data = &self.insts[inst];
        match data.data {
            Data::Nothing => Ok(()),
            Data::Number(number) if data.op.row().data == DataKind::Bits => {
                write!(f, "{{{number:#x}}}")
            }
            Data::Number(number) => write!(f, "{{{number}}}"),
            Data::Lane(desc) => {
                f.write_char('{')?;
                write_desc(f, &desc)?;
                f.write_char('}')
            }
            Data::Access(access) => write_access(f, access),
        }
    }

    fn write_inst(&self, f: &mut impl Write, inst: Inst) -> fmt::Result {
        let data = &self.insts[inst];
        write!(f, "  ")?;
        let results = self.results(inst);
        if !results.is_empty() {
            write!(f, "{} = ", self.typed(results))?;
        }
        write!(f, "{}", data.op.row().name)?;
        if let Some(ty) = data.ty {
            write!(f, ".{ty}")?;
        }
        self.write_data(f, inst)?;
        let args = self.args(inst).iter().map(ToString::to_string);
        let targets = self
            .targets(inst)
            .iter()
            .map(|call| match call.args.is_empty() {
                true => call.block.to_string(),
                false => format!("{}({})", call.block, list(&call.args)),
            });
        let operands: Vec<String> = args.chain(targets).collect();
        if !operands.is_empty() {
            write!(f, " {}", operands.join(", "))?;
        }
        match self.places[inst] {
            0 => writeln!(f),
            place => writeln!(f, "  ; {place}"),
        }
    }

    fn write_block(&self, f: &mut impl Write, block: Block) -> fmt::Result {
        let params = &self.blocks[block];
        match params.is_empty() {
            true => writeln!(f, "{block}:")?,
            false => writeln!(f, "{block}({}):", self.typed(params))?,
        }
        self.body[block]
            .iter()
            .try_for_each(|&inst| self.write_inst(f, inst))
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "func {}", name(&self.name))?;
        write_signature(f, &self.signature)?;
        writeln!(f, " {{")?;
        for number in &self.private {
            writeln!(f, "  private {number}")?;
        }
        for (number, helper) in self.helpers.iter().enumerate() {
            write!(f, "  helper{number} = {} ", name(&helper.name))?;
            write_signature(f, &helper.signature)?;
            writeln!(f, "{}", if helper.no_memory { " nomemory" } else { "" })?;
        }
        for (slot, data) in self.slots.iter() {
            writeln!(f, "  {slot} = {} align {}", data.size, data.align)?;
        }
        self.order
            .iter()
            .try_for_each(|&block| self.write_block(f, block))?;
        writeln!(f, "}}")
    }
}
