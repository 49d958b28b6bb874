//! Parses the text form of functions (see [`mod@crate::print`]).
//!
//! The parser is for tests and for people who write programs by hand. It stops at the first error. It checks that names
//! exist and that each value and block is defined exactly once; [`crate::verify`] checks everything else.
//!
//! Invariant: the parser does not panic on any text. The numbers of values and blocks may have gaps, whose total
//! [`margay_ir::parse::MAX_GAPS`] limits.

use margay_ir::entity::{Block, Entity, Inst, Value};
use margay_ir::function::{BlockCall, Signature, ValueDef};
use margay_ir::parse::cursor::{Cursor, entity_number};
use margay_ir::parse::{ParseError, Parsed, desc};
use margay_ops::types::{OpType, Type};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::data::{Access, Data};
use crate::function::{Function, Helper, InstData, SlotData, ValueData};
use crate::ops::{DataKind, Op};

/// Parses a function.
///
/// # Errors
///
/// Returns the first error in the text.
pub fn function(text: &str) -> Result<Function, ParseError> {
    let mut c = Cursor::new(text);
    c.skip_lines();
    let mut function = Function::default();
    c.keyword("func")?;
    function.name = c.name()?;
    function.signature = signature(&mut c)?;
    c.mark("{")?;
    c.line_end()?;
    let mut parser = Parser {
        c: &mut c,
        function,
        defined: FxHashSet::default(),
        placed: FxHashSet::default(),
        used: Vec::new(),
        targets: Vec::new(),
    };
    parser.head()?;
    parser.body()?;
    let function = parser.function;
    c.skip_lines();
    c.end_of_text()?;
    Ok(function)
}

fn ty(c: &mut Cursor<'_>) -> Parsed<Type> {
    c.word_as("a type such as f32x16", Type::parse)
}

fn signature(c: &mut Cursor<'_>) -> Parsed<Signature> {
    let params = types(c)?;
    c.mark("->")?;
    let returns = types(c)?;
    Ok(Signature { params, returns })
}

fn types(c: &mut Cursor<'_>) -> Parsed<Vec<Type>> {
    c.mark("(")?;
    let mut types = Vec::new();
    if c.accept(")") {
        return Ok(types);
    }
    loop {
        types.push(ty(c)?);
        if !c.more_before(")")? {
            return Ok(types);
        }
    }
}

/// Returns the op and the type that a word such as `load.f32x16` specifies. The names of ops may contain dots.
fn head(word: &str) -> Option<(Op, Option<Type>)> {
    if let Some(op) = Op::from_name(word) {
        return Some((op, None));
    }
    let (name, ty) = word.rsplit_once('.')?;
    Some((Op::from_name(name)?, Some(Type::parse(ty)?)))
}

struct Parser<'a, 'b> {
    c: &'a mut Cursor<'b>,
    function: Function,
    defined: FxHashSet<Value>,
    placed: FxHashSet<Block>,
    /// Each use of a value, with its position in the text.
    used: Vec<(Value, usize)>,
    /// Each branch target, with its position in the text.
    targets: Vec<(Block, usize)>,
}

impl Parser<'_, '_> {
    fn head(&mut self) -> Parsed<()> {
        loop {
            let word = self.c.peek_word();
            if word == "private" {
                let number = self.c.number_of("private")?;
                self.function.private.push(number);
            } else if word.starts_with("helper") {
                self.c
                    .keyword(&format!("helper{}", self.function.helpers.len()))?;
                self.c.mark("=")?;
                let name = self.c.name()?;
                let signature = signature(self.c)?;
                let no_memory = self.c.accept("nomemory");
                self.function.helpers.push(Helper {
                    name,
                    signature,
                    no_memory,
                });
            } else if word.starts_with("slot") {
                self.c
                    .keyword(&format!("slot{}", self.function.slots.len()))?;
                self.c.mark("=")?;
                let size = self.c.number("a number of bytes")?;
                let align = self.c.number_of("align")?;
                self.function.slots.push(SlotData { size, align });
            } else {
                return Ok(());
            }
            self.c.line_end()?;
        }
    }

    fn body(&mut self) -> Parsed<()> {
        let mut current = None;
        while !self.c.accept("}") {
            if let Some(number) = entity_number(self.c.peek_word(), "block") {
                current = Some(self.label(Block(number))?);
            } else if let Some(block) = current {
                self.instruction(block)?;
            } else {
                return Err(self.c.expected("`}` or a block such as `block0:`"));
            }
            self.c.line_end()?;
        }
        if let Some(&(value, at)) = self
            .used
            .iter()
            .find(|(value, _)| !self.defined.contains(value))
        {
            return Err(self.c.error_at(at, format!("{value} is never defined")));
        }
        if let Some(&(block, at)) = self
            .targets
            .iter()
            .find(|(block, _)| !self.placed.contains(block))
        {
            return Err(self.c.error_at(at, format!("{block} is never defined")));
        }
        Ok(())
    }

    fn label(&mut self, block: Block) -> Parsed<Block> {
        let at = self.c.position();
        self.c.word();
        let missing = (block.index() + 1).saturating_sub(self.function.blocks.len());
        self.c.spend(at, missing)?;
        for _ in 0..missing {
            self.function.blocks.push(Vec::new());
        }
        if !self.placed.insert(block) {
            return Err(self.c.error_at(at, format!("{block} is defined already")));
        }
        self.function.order.push(block);
        if self.c.accept("(") {
            loop {
                let Ok(number) = u16::try_from(self.function.blocks[block].len()) else {
                    return Err(self.c.expected("no more than 65,536 parameters"));
                };
                let param = self.define(ValueDef::Param(block, number))?;
                self.function.blocks[block].push(param);
                if !self.c.more_before(")")? {
                    break;
                }
            }
        }
        self.c.mark(":")?;
        Ok(block)
    }

    /// Parses the definition of a value, such as `v3: b32`.
    fn define(&mut self, def: ValueDef) -> Parsed<Value> {
        let at = self.c.position();
        let value = Value(self.c.entity("v", "a value such as `v0`")?);
        let missing = (value.index() + 1).saturating_sub(self.function.values.len());
        self.c.spend(at, missing)?;
        for _ in 0..missing {
            self.function.values.push(ValueData {
                ty: Type::PRED,
                def: ValueDef::Pending,
            });
        }
        self.c.mark(":")?;
        self.function.values[value] = ValueData {
            ty: ty(self.c)?,
            def,
        };
        match self.defined.insert(value) {
            true => Ok(value),
            false => Err(self.c.error_at(at, format!("{value} is defined already"))),
        }
    }

    fn value(&mut self) -> Parsed<Value> {
        let at = self.c.position();
        let value = Value(self.c.entity("v", "a value such as `v0`")?);
        self.used.push((value, at));
        Ok(value)
    }

    fn instruction(&mut self, block: Block) -> Parsed<()> {
        let inst = Inst::new(self.function.insts.len());
        let mut results: SmallVec<[Value; 4]> = SmallVec::new();
        if entity_number(self.c.peek_word(), "v").is_some() {
            loop {
                let Ok(number) = u16::try_from(results.len()) else {
                    return Err(self.c.expected("no more than 65,536 results"));
                };
                results.push(self.define(ValueDef::Result(inst, number))?);
                if !self.c.more_before("=")? {
                    break;
                }
            }
        }
        let (op, ty) = self.c.word_as("an operation with its type", head)?;
        let data = self.data(op)?;
        let mut args: SmallVec<[Value; 8]> = SmallVec::new();
        let mut targets: SmallVec<[BlockCall; 2]> = SmallVec::new();
        let mut more = !self.c.at_line_end() && self.c.peek() != Some(';');
        while more {
            match entity_number(self.c.peek_word(), "block") {
                Some(_) => targets.push(self.target()?),
                None => args.push(self.value()?),
            }
            more = self.c.accept(",");
        }
        let function = &mut self.function;
        let args = function.pool.push(&args);
        function.insts.push(InstData { op, ty, data, args });
        function.results[inst] = function.pool.push(&results);
        function.body[block].push(inst);
        if !targets.is_empty() {
            function.targets.insert(inst, targets);
        }
        if self.c.accept(";") {
            self.function.places[inst] = self.c.number("a place")?;
        }
        Ok(())
    }

    fn data(&mut self, op: Op) -> Parsed<Data> {
        let kind = op.row().data;
        if kind == DataKind::Nothing {
            return Ok(Data::Nothing);
        }
        self.c.mark("{")?;
        let data = match kind {
            DataKind::Bits => Data::Number(self.c.hex()?),
            DataKind::Lane => Data::Lane(desc(self.c)?),
            DataKind::Access => {
                let memory = self.c.word_as("a type in memory", OpType::from_name)?;
                let stride = self.c.signed()?;
                let displacement = match self.c.peek() {
                    Some('}') => 0,
                    _ => self.c.signed()?,
                };
                Data::Access(Access {
                    memory,
                    stride,
                    displacement,
                })
            }
            DataKind::Number | DataKind::Nothing => Data::Number(self.c.number("a number")?),
        };
        self.c.mark("}")?;
        Ok(data)
    }

    fn target(&mut self) -> Parsed<BlockCall> {
        let at = self.c.position();
        let mut call = BlockCall::to(Block(self.c.entity("block", "a block such as `block0`")?));
        self.targets.push((call.block, at));
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
}
