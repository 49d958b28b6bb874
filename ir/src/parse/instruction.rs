//! Parses instructions: results, op, payload or modifiers, operands, targets and source position.

use smallvec::SmallVec;

use super::Parsed;
use super::cursor::{Cursor, entity_number};
use super::function::FunctionParser;
use crate::entity::{Block, Entity, Inst, SymbolId, Value};
use crate::function::{BlockCall, InstData, SourceLoc, ValueDef, symbol_payload};
use crate::print::words::{type_of, with_modifier};
use crate::syscall::Syscall;
use margay_ops::meaning::Desc;
use margay_ops::mods::Mods;
use margay_ops::ops::{Effects, Opcode};
use margay_ops::sreg::SpecialReg;
use margay_ops::texture::Access;
use margay_ops::types::OpType;

/// Returns the op and the types that a word such as `cp.async` or `cvt.f32.s32` specifies. The name of an op may
/// contain dots, so this function chooses the longest op name with which the word begins.
fn head(word: &str) -> Option<(Opcode, OpType, OpType)> {
    let mut end = word.len();
    loop {
        if let Some(opcode) = Opcode::from_name(&word[..end]) {
            let mut types = word[end..].split('.').skip(1).map(type_of);
            let ty = types.next().unwrap_or(Some(OpType::None))?;
            let src = types.next().unwrap_or(Some(OpType::None))?;
            return types.next().is_none().then_some((opcode, ty, src));
        }
        end = word[..end].rfind('.')?;
    }
}

/// Parses the description of an operation without a payload: its op, types and modifiers, such as `fma.f32{rn}`.
///
/// # Errors
///
/// Returns the first error in the text.
pub fn desc(c: &mut Cursor<'_>) -> Parsed<Desc> {
    let known = |word: &str| head(word).filter(|(op, ..)| !op.effects().contains(Effects::PAYLOAD));
    let (opcode, ty, src) = c.word_as("an operation with its types", known)?;
    let mods = modifiers(c)?;
    Ok(Desc {
        opcode,
        ty,
        src,
        mods,
    })
}

fn modifiers(c: &mut Cursor<'_>) -> Parsed<Mods> {
    let mut mods = Mods::NONE;
    if !c.accept("{") {
        return Ok(mods);
    }
    let at = c.position();
    for word in c.until('}')?.split_whitespace() {
        mods = with_modifier(mods, word)
            .ok_or_else(|| c.error_at(at, format!("`{word}` is not a modifier")))?;
    }
    Ok(mods)
}

/// The operands and branch targets of an instruction.
type Operands = (SmallVec<[Value; 8]>, SmallVec<[BlockCall; 2]>);

impl FunctionParser<'_, '_> {
    pub(super) fn instruction(&mut self, block: Block) -> Parsed<()> {
        let inst = Inst::new(self.function.dfg.insts.len());
        let results = self.results(inst)?;
        let (opcode, ty, src) = self.c.word_as("an operation with its types", head)?;
        let mods = if opcode.effects().contains(Effects::PAYLOAD) {
            Mods(self.payload(opcode)?)
        } else {
            modifiers(self.c)?
        };
        let (args, targets) = self.operands()?;
        let loc = self.loc()?;
        let dfg = &mut self.function.dfg;
        let args = dfg.pool.push(&args);
        let made = dfg.insts.push(InstData {
            opcode,
            ty,
            src,
            args,
            mods,
        });
        debug_assert_eq!(made, inst);
        dfg.results[inst] = dfg.pool.push(&results);
        if !targets.is_empty() {
            dfg.targets.insert(inst, targets);
        }
        if loc != SourceLoc::default() {
            dfg.locs[inst] = loc;
        }
        self.function.append_inst(block, inst);
        Ok(())
    }

    /// Parses the results, such as `v0: b32, v1: pred =`; returns an empty list if there are none.
    fn results(&mut self, inst: Inst) -> Parsed<SmallVec<[Value; 4]>> {
        let mut results = SmallVec::new();
        if entity_number(self.c.peek_word(), "v").is_none() {
            return Ok(results);
        }
        loop {
            let Ok(number) = u16::try_from(results.len()) else {
                return Err(self.c.expected("no more than 65,536 results"));
            };
            results.push(self.define(ValueDef::Result(inst, number))?);
            if !self.c.more_before("=")? {
                return Ok(results);
            }
        }
    }

    fn payload(&mut self, opcode: Opcode) -> Parsed<u64> {
        let c = &mut *self.c;
        Ok(match opcode {
            Opcode::SReg | Opcode::Clock => {
                c.word_as("a special register", SpecialReg::from_name)? as u64
            }
            Opcode::SymbolAddr => {
                let symbol = c.entity("sym", "a symbol such as `sym0`")?;
                symbol_payload(SymbolId(symbol), c.signed()?)
            }
            Opcode::LocalAddr => c.entity("slot", "a slot such as `slot0`")?.into(),
            Opcode::Call | Opcode::FuncAddr => c.entity("fn", "a function such as `fn0`")?.into(),
            Opcode::CallIndirect => c.entity("sig", "a signature such as `sig0`")?.into(),
            Opcode::Const => c.hex()?,
            Opcode::Syscall => c.word_as("a system call", Syscall::from_name)? as u64,
            Opcode::Tex | Opcode::Txq | Opcode::Suld | Opcode::Sust | Opcode::Sured => {
                c.word_as("a texture access", Access::from_words)?.payload()
            }
            _ => c.number("a number")?,
        })
    }

    /// Parses the operands and then the branch targets.
    fn operands(&mut self) -> Parsed<Operands> {
        let (mut args, mut targets) = (SmallVec::new(), SmallVec::new());
        if self.c.at_line_end() || self.c.peek() == Some(';') {
            return Ok((args, targets));
        }
        loop {
            if self.c.peek_word().starts_with("block") {
                let target = self.target()?;
                targets.push(target);
            } else if targets.is_empty() {
                args.push(self.value()?);
            } else {
                return Err(self.c.expected("a block such as `block0`"));
            }
            if !self.c.accept(",") {
                return Ok((args, targets));
            }
        }
    }

    fn target(&mut self) -> Parsed<BlockCall> {
        let at = self.c.position();
        let block = Block(self.c.entity("block", "a block such as `block0`")?);
        self.open_blocks.push((block, at));
        let mut call = BlockCall::to(block);
        if self.c.accept("(") {
            loop {
                call.args.push(self.value()?);
                if !self.c.more_before(")")? {
                    break;
                }
            }
        }
        Ok(call)
    }

    /// Parses the source position `; line loc number`, if the text contains one.
    fn loc(&mut self) -> Parsed<SourceLoc> {
        let mut loc = SourceLoc::default();
        if self.c.accept(";") {
            loc.ptx_line = self.c.number("a line of the PTX text")?;
            if self.c.accept_word("loc") {
                loc.loc = self.c.number("a source position")?;
            }
        }
        Ok(loc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_with_dots_are_told_from_types() {
        let none = OpType::None;
        assert_eq!(head("cp.async"), Some((Opcode::CpAsync, none, none)));
        let cvt = (Opcode::Cvt, OpType::F32, OpType::S32);
        assert_eq!(head("cvt.f32.s32"), Some(cvt));
        let pack = (Opcode::CvtPack, OpType::U8, OpType::S32);
        assert_eq!(head("cvt.pack.u8.s32"), Some(pack));
        assert_eq!(head("add.none.f16"), Some((Opcode::Add, none, OpType::F16)));
        for wrong in ["", ".", "add.", "add.x", "add.u32.u32.u32", "cp"] {
            assert_eq!(head(wrong), None, "{wrong}");
        }
    }
}
