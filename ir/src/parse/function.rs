//! Parses functions: head, attributes, slots and blocks.

use rustc_hash::FxHashSet;

use super::Parsed;
use super::cursor::{Cursor, entity_number};
use super::module::linkage;
use crate::entity::{Block, Entity, Slot, Value};
use crate::function::{
    BlockData, Function, KernelData, KernelParam, Signature, SlotData, ValueData, ValueDef,
};
use margay_ops::types::Type;

/// The state of the parser while it parses a function.
pub(super) struct FunctionParser<'a, 'b> {
    pub(super) c: &'a mut Cursor<'b>,
    pub(super) function: Function,
    placed: FxHashSet<Block>,
    /// Each use of a value, with its position in the text. All these values must be defined when the function ends.
    pub(super) open: Vec<(Value, usize)>,
    /// Each branch target, with its position in the text. All these blocks must be defined when the function ends.
    pub(super) open_blocks: Vec<(Block, usize)>,
}

pub(super) fn function(c: &mut Cursor<'_>) -> Parsed<Function> {
    let mut function = Function::default();
    if c.accept_word("kernel") {
        function.kernel = Some(KernelData::default());
        function.name = c.name()?;
    } else if c.accept_word("func") {
        function.name = c.name()?;
        let params = types(c)?;
        c.mark("->")?;
        let returns = types(c)?;
        function.signature = Signature { params, returns };
    } else {
        return Err(c.expected("`kernel` or `func`"));
    }
    function.linkage = linkage(c);
    if c.accept_word("registers") {
        function.declared_registers = c.number("a number of registers")?;
    }
    c.mark("{")?;
    c.line_end()?;
    let mut parser = FunctionParser {
        c,
        function,
        placed: FxHashSet::default(),
        open: Vec::new(),
        open_blocks: Vec::new(),
    };
    parser.attributes()?;
    parser.body()?;
    Ok(parser.function)
}

/// Parses a list of types such as `(b32, b64)`.
pub(super) fn types(c: &mut Cursor<'_>) -> Parsed<Vec<Type>> {
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

pub(super) fn ty(c: &mut Cursor<'_>) -> Parsed<Type> {
    c.word_as("a type such as b32, f64 or pred", Type::parse)
}

fn shape(c: &mut Cursor<'_>) -> Parsed<[u32; 3]> {
    let mut one = || c.number("three numbers");
    Ok([one()?, one()?, one()?])
}

impl FunctionParser<'_, '_> {
    /// Parses the lines before the first block of a function.
    fn attributes(&mut self) -> Parsed<()> {
        loop {
            let word = self.c.peek_word();
            if word == "unsupported" {
                self.c.word();
                let line = self.c.number("a line")?;
                let what = self.c.quoted()?;
                self.function.unsupported.push((line, what));
            } else if word.starts_with("slot") {
                self.slot()?;
            } else if word.is_empty() || entity_number(word, "block").is_some() {
                return Ok(());
            } else {
                self.kernel_attribute(word)?;
            }
            self.c.line_end()?;
        }
    }

    fn slot(&mut self) -> Parsed<()> {
        let number = self.function.slots.len();
        self.c.keyword(&format!("slot{number}"))?;
        self.c.mark("=")?;
        let size = self.c.number_of("local")?;
        let align = self.c.number_of("align")?;
        let name = match self.c.peek() {
            Some('@') => self.c.name()?,
            _ => String::new(),
        };
        let _: Slot = self.function.slots.push(SlotData { name, size, align });
        Ok(())
    }

    fn kernel_attribute(&mut self, word: &str) -> Parsed<()> {
        const WANTED: &str = "a block, a slot, or an attribute of the function";
        let c = &mut *self.c;
        let Some(kernel) = &mut self.function.kernel else {
            return Err(c.expected(WANTED));
        };
        const KNOWN: [&str; 9] = [
            "parameters",
            "parameter",
            "maxntid",
            "reqntid",
            "cluster",
            "minnctapersm",
            "maxnreg",
            "maxclusterrank",
            "blocksareclusters",
        ];
        if !KNOWN.contains(&word) {
            return Err(c.expected(WANTED));
        }
        c.word();
        match word {
            "parameters" => kernel.param_bytes = c.number("a number of bytes")?,
            "parameter" => {
                let param = KernelParam {
                    name: c.name()?,
                    offset: c.number_of("offset")?,
                    size: c.number_of("size")?,
                    align: c.number_of("align")?,
                };
                kernel.params.push(param);
            }
            "maxntid" => kernel.maxntid = Some(shape(c)?),
            "reqntid" => kernel.reqntid = Some(shape(c)?),
            "cluster" => kernel.cluster = Some(shape(c)?),
            "minnctapersm" => kernel.minnctapersm = Some(c.number("a number")?),
            "maxnreg" => kernel.maxnreg = Some(c.number("a number")?),
            "maxclusterrank" => kernel.maxclusterrank = Some(c.number("a number")?),
            _ => kernel.blocksareclusters = true,
        }
        Ok(())
    }

    /// Parses the blocks of a function and its closing brace.
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
        let defined = |value: Value| {
            let data = self.function.dfg.values.get(value);
            data.is_some_and(|data| data.def != ValueDef::Pending)
        };
        if let Some(&(value, at)) = self.open.iter().find(|(value, _)| !defined(*value)) {
            return Err(self.c.error_at(at, format!("{value} is never defined")));
        }
        let missing = |block: &Block| !self.placed.contains(block);
        if let Some((block, at)) = self.open_blocks.iter().find(|(b, _)| missing(b)) {
            return Err(self.c.error_at(*at, format!("{block} is never defined")));
        }
        Ok(())
    }

    fn label(&mut self, block: Block) -> Parsed<Block> {
        let at = self.c.position();
        self.c.word();
        self.make_block(block, at)?;
        if !self.placed.insert(block) {
            return Err(self.c.error_at(at, format!("{block} is defined already")));
        }
        self.function.layout.order.push(block);
        if self.c.accept("(") {
            self.params(block)?;
        }
        self.c.mark(":")?;
        Ok(block)
    }

    fn params(&mut self, block: Block) -> Parsed<()> {
        loop {
            let number = self.function.dfg.blocks[block].params.len();
            let Ok(number) = u16::try_from(number) else {
                return Err(self.c.expected("no more than 65,536 parameters"));
            };
            let param = self.define(ValueDef::Param(block, number))?;
            self.function.dfg.blocks[block].params.push(param);
            if !self.c.more_before(")")? {
                return Ok(());
            }
        }
    }

    /// Adds empty blocks until a block with the number of `block` exists.
    fn make_block(&mut self, block: Block, at: usize) -> Parsed<()> {
        let blocks = &mut self.function.dfg.blocks;
        let missing = (block.index() + 1).saturating_sub(blocks.len());
        self.c.spend(at, missing)?;
        for _ in 0..missing {
            blocks.push(BlockData::default());
        }
        Ok(())
    }

    /// Adds undefined values until a value with the number of `value` exists.
    fn make_value(&mut self, value: Value, at: usize) -> Parsed<()> {
        let values = &mut self.function.dfg.values;
        let missing = (value.index() + 1).saturating_sub(values.len());
        self.c.spend(at, missing)?;
        for _ in 0..missing {
            values.push(ValueData {
                ty: Type::PRED,
                def: ValueDef::Pending,
            });
        }
        Ok(())
    }

    /// Parses the definition of a value, such as `v3: b32`.
    pub(super) fn define(&mut self, def: ValueDef) -> Parsed<Value> {
        let at = self.c.position();
        let value = Value(self.c.entity("v", "a value such as `v0`")?);
        self.make_value(value, at)?;
        self.c.mark(":")?;
        let ty = ty(self.c)?;
        let data = &mut self.function.dfg.values[value];
        if data.def != ValueDef::Pending {
            return Err(self.c.error_at(at, format!("{value} is defined already")));
        }
        *data = ValueData { ty, def };
        Ok(value)
    }

    /// Parses a use of a value.
    pub(super) fn value(&mut self) -> Parsed<Value> {
        let at = self.c.position();
        let value = Value(self.c.entity("v", "a value such as `v0`")?);
        self.open.push((value, at));
        Ok(value)
    }
}
