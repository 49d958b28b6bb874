//! The IR's text form.
//!
//! ```text
//! kernel @saxpy params 32 {
//! block0:
//!   v0: b32 = sreg.u32 %tid.x
//!   v2: f32 = fma.f32{rn} v5, v6, v7
//!   brif v3, block1(v2), block2
//! }
//! ```

use std::fmt::{self, Write};

use crate::entity::{Block, Inst};
use crate::function::{Function, InstData, payload_sreg, split_symbol_payload};
use crate::mods::{
    AtomOp, BoolOp, CmpOp, Half, MemOrder, Mode, Mods, Precision, Rounding, Scope, StateSpace,
};
use crate::ops::{Effects, Opcode};

/// Words for the modifiers that are set, in a fixed order.
pub fn modifier_words(mods: Mods) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = |key: &str, text: &str| {
        if !text.is_empty() {
            words.push(if key.is_empty() {
                text.to_owned()
            } else {
                format!("{key}:{text}")
            });
        }
    };
    word(
        "",
        if mods.rounding() == Rounding::None {
            ""
        } else {
            mods.rounding().name()
        },
    );
    word(
        "",
        if mods.precision() == Precision::None {
            ""
        } else {
            mods.precision().name()
        },
    );
    word(
        "cmp",
        if mods.cmp() == CmpOp::None {
            ""
        } else {
            mods.cmp().name()
        },
    );
    word(
        "bool",
        if mods.bool_op() == BoolOp::None {
            ""
        } else {
            mods.bool_op().name()
        },
    );
    word(
        "half",
        if mods.half() == Half::None {
            ""
        } else {
            mods.half().name()
        },
    );
    word(
        "space",
        if mods.space() == StateSpace::None {
            ""
        } else {
            mods.space().name()
        },
    );
    word(
        "order",
        if mods.order() == MemOrder::None {
            ""
        } else {
            mods.order().name()
        },
    );
    word(
        "scope",
        if mods.scope() == Scope::None {
            ""
        } else {
            mods.scope().name()
        },
    );
    word(
        "op",
        if mods.atom_op() == AtomOp::None {
            ""
        } else {
            mods.atom_op().name()
        },
    );
    word(
        "mode",
        if mods.mode() == Mode::None {
            ""
        } else {
            mods.mode().name()
        },
    );
    for (on, text) in [
        (mods.ftz(), "ftz"),
        (mods.sat(), "sat"),
        (mods.satfinite(), "satfinite"),
        (mods.relu(), "relu"),
        (mods.nan(), "nan"),
        (mods.xorsign_abs(), "xorsign_abs"),
        (mods.carry_out(), "cc"),
        (mods.flag(), "flag"),
        (mods.nc(), "nc"),
        (mods.noftz(), "noftz"),
    ] {
        word("", if on { text } else { "" });
    }
    for (value, key) in [
        (mods.vec_log2(), "vec"),
        (mods.asel(), "asel"),
        (mods.bsel(), "bsel"),
        (mods.dsel(), "dsel"),
        (mods.negate(), "negate"),
    ] {
        if value != 0 {
            words.push(format!("{key}:{value}"));
        }
    }
    words
}

fn write_head(f: &mut impl Write, data: &InstData) -> fmt::Result {
    write!(f, "{}", data.opcode.name())?;
    for ty in [data.ty, data.src] {
        if ty != crate::types::OpType::None {
            write!(f, ".{ty}")?;
        }
    }
    if data.opcode.effects().contains(Effects::PAYLOAD) {
        return write_payload(f, data);
    }
    let words = modifier_words(data.mods);
    if !words.is_empty() {
        write!(f, "{{{}}}", words.join(" "))?;
    }
    Ok(())
}

fn write_payload(f: &mut impl Write, data: &InstData) -> fmt::Result {
    let payload = data.payload();
    match data.opcode {
        Opcode::SReg | Opcode::Clock => match payload_sreg(payload) {
            Some(register) => write!(f, " {}", register.name()),
            None => write!(f, " %?{payload}"),
        },
        Opcode::SymbolAddr => {
            let (symbol, addend) = split_symbol_payload(payload);
            write!(f, " {symbol}{addend:+}")
        }
        Opcode::LocalAddr => write!(f, " slot{payload}"),
        Opcode::Call | Opcode::FuncAddr => write!(f, " fn{payload}"),
        Opcode::CallIndirect => write!(f, " sig{payload}"),
        Opcode::Const => write!(f, " {payload:#x}"),
        _ => write!(f, " {payload}"),
    }
}

fn write_inst(f: &mut impl Write, function: &Function, inst: Inst) -> fmt::Result {
    let dfg = &function.dfg;
    write!(f, "  ")?;
    let results = dfg.results(inst);
    for (i, &value) in results.iter().enumerate() {
        write!(
            f,
            "{}{value}: {}",
            if i == 0 { "" } else { ", " },
            dfg.ty(value)
        )?;
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
    if loc.ptx_line != 0 {
        write!(f, "  ; {}", loc.ptx_line)?;
    }
    writeln!(f)
}

fn write_block(f: &mut impl Write, function: &Function, block: Block) -> fmt::Result {
    write!(f, "{block}")?;
    let params = &function.dfg.blocks[block].params;
    if !params.is_empty() {
        let list: Vec<String> = params
            .iter()
            .map(|&v| format!("{v}: {}", function.dfg.ty(v)))
            .collect();
        write!(f, "({})", list.join(", "))?;
    }
    writeln!(f, ":")?;
    function
        .insts(block)
        .iter()
        .try_for_each(|&inst| write_inst(f, function, inst))
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kernel {
            Some(kernel) => write!(f, "kernel @{} params {}", self.name, kernel.param_bytes)?,
            None => {
                let list = |types: &[crate::types::Type]| {
                    types
                        .iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                        .join(", ")
                };
                let signature = &self.signature;
                write!(
                    f,
                    "func @{}({}) -> ({})",
                    self.name,
                    list(&signature.params),
                    list(&signature.returns)
                )?;
            }
        }
        writeln!(f, " {{")?;
        for (slot, data) in self.slots.iter() {
            writeln!(f, "  {slot} = local {} align {}", data.size, data.align)?;
        }
        self.blocks()
            .iter()
            .try_for_each(|&block| write_block(f, self, block))?;
        writeln!(f, "}}")
    }
}
