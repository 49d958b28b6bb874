//! Builds functions from code with mutable variables (PTX registers). The caller appends instructions block by block,
//! and may read and write variables at any point. [`FunctionBuilder::finish`] turns the variables into SSA values
//! with block parameters.
//!
//! While a function is built, a read of a variable that the current block has not written returns a placeholder value.
//! For each variable, `finish` adds block parameters at the iterated dominance frontiers of the writes, in blocks where
//! the variable is live. It then walks the dominator tree and replaces each placeholder. A variable that is read before
//! any write has the value zero. PTX leaves this value undefined; Margay defines it, so that every run computes the
//! same bits.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::analysis::{Cfg, Dominators, Joins, cfg::remove_unreachable};
use crate::entity::{Block, Entity, Inst, PrimaryMap, SecondaryMap, SigId, Slot, Value};
use crate::function::{BlockCall, Function, SlotData, SourceLoc, ValueData, ValueDef};
use margay_ops::meaning::{self, Desc};
use margay_ops::mods::Mods;
use margay_ops::ops::{Effects, Opcode};
use margay_ops::sreg::SpecialReg;
use margay_ops::types::{OpType, Type};

/// A mutable variable of the function being built.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Variable(pub u32);

impl Entity for Variable {
    fn new(index: usize) -> Self {
        Variable(index as u32)
    }
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Appends instructions to a function and records the reads and writes of its variables.
#[derive(Debug)]
pub struct FunctionBuilder {
    /// The function under construction.
    pub function: Function,
    variables: PrimaryMap<Variable, Type>,
    /// For each block and variable, the value of the variable after the instructions that the block contains so far.
    /// There is no entry if the block has neither read nor written the variable.
    current: FxHashMap<(Block, Variable), Value>,
    /// The placeholder for the value of a variable at the start of a block.
    incoming: FxHashMap<(Block, Variable), Value>,
    /// For each block, the variables that the block reads before it writes them. The order of the reads is kept, so
    /// that the output is deterministic.
    reads: SecondaryMap<Block, Vec<Variable>>,
    writes: PrimaryMap<Variable, Vec<Block>>,
    block: Option<Block>,
    loc: SourceLoc,
    /// Total number of targets of all branch tables of the function so far.
    table_targets: usize,
}

impl FunctionBuilder {
    /// Creates a builder whose current block is the entry block. The entry block has one parameter
    /// for each parameter of the signature.
    pub fn new(mut function: Function) -> FunctionBuilder {
        let entry = function.append_block();
        for ty in function.signature.params.clone() {
            function.dfg.append_param(entry, ty);
        }
        FunctionBuilder {
            function,
            variables: PrimaryMap::default(),
            current: FxHashMap::default(),
            incoming: FxHashMap::default(),
            reads: SecondaryMap::default(),
            writes: PrimaryMap::default(),
            block: Some(entry),
            loc: SourceLoc::default(),
            table_targets: 0,
        }
    }

    /// Declares a variable of the type `ty` and returns it.
    pub fn declare(&mut self, ty: Type) -> Variable {
        self.writes.push(Vec::new());
        self.variables.push(ty)
    }

    /// Returns the type of a variable.
    pub fn variable_type(&self, variable: Variable) -> Type {
        self.variables[variable]
    }

    /// Sets the source position of the instructions that are appended after this call.
    pub fn set_loc(&mut self, loc: SourceLoc) {
        self.loc = loc;
    }

    /// Returns the source position that [`Self::set_loc`] has set.
    pub fn loc(&self) -> SourceLoc {
        self.loc
    }

    /// Creates a block at the end of the layout, without making it the current block.
    pub fn create_block(&mut self) -> Block {
        self.function.append_block()
    }

    /// Makes `block` the current block. Blocks may be filled in any order, but each block only once.
    pub fn switch_to(&mut self, block: Block) {
        self.block = Some(block);
    }

    /// Returns whether there is a current block that has no terminator yet.
    pub fn is_open(&self) -> bool {
        self.block.is_some()
    }

    /// Returns the current block. If the last instruction was a terminator, creates a new, unreachable block and makes
    /// it the current block.
    pub fn current_block(&mut self) -> Block {
        match self.block {
            Some(block) => block,
            None => {
                let block = self.create_block();
                self.block = Some(block);
                block
            }
        }
    }

    /// Returns the value of a variable after the instructions that have been appended to the current block so far.
    /// The value may be a placeholder.
    pub fn read(&mut self, variable: Variable) -> Value {
        let block = self.current_block();
        if let Some(&value) = self.current.get(&(block, variable)) {
            return value;
        }
        let ty = self.variables[variable];
        let value = self.function.dfg.values.push(ValueData {
            ty,
            def: ValueDef::Pending,
        });
        self.incoming.insert((block, variable), value);
        self.reads[block].push(variable);
        self.current.insert((block, variable), value);
        value
    }

    /// Records that a variable has the value `value` from the current position in the current block
    /// on. The value must have the variable's type.
    pub fn write(&mut self, variable: Variable, value: Value) {
        debug_assert_eq!(self.function.dfg.ty(value), self.variables[variable]);
        let block = self.current_block();
        self.current.insert((block, variable), value);
        let blocks = &mut self.writes[variable];
        if blocks.last() != Some(&block) {
            blocks.push(block);
        }
    }

    /// Appends an instruction to the current block and returns the instruction.
    pub fn inst(&mut self, desc: Desc, args: &[Value], results: &[Type]) -> Inst {
        let block = self.current_block();
        let inst = self.function.dfg.make_inst(desc, args, results);
        if self.loc != SourceLoc::default() {
            self.function.dfg.locs[inst] = self.loc;
        }
        self.function.append_inst(block, inst);
        if desc.opcode.effects().contains(Effects::TERMINATOR) {
            self.block = None;
        }
        inst
    }

    /// Appends an instruction with one result to the current block and returns the result.
    pub fn op(&mut self, desc: Desc, args: &[Value], result: Type) -> Value {
        let inst = self.inst(desc, args, &[result]);
        self.function.dfg.results(inst)[0]
    }

    /// Appends an op with one type and no modifiers, and returns its result.
    pub fn simple(&mut self, opcode: Opcode, ty: OpType, args: &[Value]) -> Value {
        self.op(
            Desc {
                opcode,
                ty,
                src: OpType::None,
                mods: Mods::NONE,
            },
            args,
            ty.held(),
        )
    }

    /// Appends an op with a payload and no operands, and returns its result.
    pub fn payload(&mut self, opcode: Opcode, ty: OpType, payload: u64, result: Type) -> Value {
        self.op(
            Desc {
                opcode,
                ty,
                src: OpType::None,
                mods: Mods(payload),
            },
            &[],
            result,
        )
    }

    /// Appends a constant and returns it; `bits` contains the low 64 bits of the constant.
    pub fn constant(&mut self, ty: Type, bits: u64) -> Value {
        let kind = ty.kind();
        let bits = bits & meaning::mask(kind.bits()) as u64;
        self.payload(Opcode::Const, kind.op_type(), bits, ty)
    }

    /// Appends a read of a special register and returns the result.
    pub fn sreg(&mut self, register: SpecialReg) -> Value {
        let opcode = if register.is_time() {
            Opcode::Clock
        } else {
            Opcode::SReg
        };
        let ty = register.ty();
        self.payload(opcode, ty, register as u64, ty.held())
    }

    /// Reinterprets the bits of a value as another type of the same width. Returns `value` itself if it already has
    /// that type.
    pub fn bitcast(&mut self, value: Value, to: Type) -> Value {
        let from = self.function.dfg.ty(value);
        if from == to {
            return value;
        }
        debug_assert_eq!(from.lane_bits(), to.lane_bits());
        let desc = Desc {
            opcode: Opcode::Bitcast,
            ty: to.kind().op_type(),
            src: from.kind().op_type(),
            mods: Mods::NONE,
        };
        self.op(desc, &[value], to)
    }

    fn terminator(&mut self, opcode: Opcode, args: &[Value], calls: SmallVec<[BlockCall; 2]>) {
        let desc = Desc {
            opcode,
            ty: OpType::None,
            src: OpType::None,
            mods: Mods::NONE,
        };
        let inst = self.inst(desc, args, &[]);
        if !calls.is_empty() {
            self.function.dfg.targets.insert(inst, calls);
        }
    }

    /// Ends the current block with a jump to `target`.
    pub fn jump(&mut self, target: Block) {
        self.terminator(
            Opcode::Jump,
            &[],
            SmallVec::from_iter([BlockCall::to(target)]),
        );
    }

    /// Ends the current block with a branch to `then` if `cond` is true, and to `other` otherwise.
    pub fn brif(&mut self, cond: Value, then: Block, other: Block) {
        let calls = SmallVec::from_iter([BlockCall::to(then), BlockCall::to(other)]);
        self.terminator(Opcode::Brif, &[cond], calls);
    }

    /// Ends the current block with a branch to `table[index]`, or to `default` if the index is out of range. If the
    /// branch tables of the function have more than [`MAX_TABLE_TARGETS`] targets in total, marks the function as
    /// unsupported and leaves the table out.
    pub fn br_table(&mut self, index: Value, default: Block, table: &[Block]) {
        self.table_targets += table.len();
        let is_over = self.table_targets > MAX_TABLE_TARGETS;
        if is_over && self.table_targets - table.len() <= MAX_TABLE_TARGETS {
            let what = format!("more than {MAX_TABLE_TARGETS} targets of branch tables");
            self.function.unsupported.push((self.loc.ptx_line, what));
        }
        let table = if is_over { &[] } else { table };
        let calls = std::iter::once(default)
            .chain(table.iter().copied())
            .map(BlockCall::to);
        self.terminator(Opcode::BrTable, &[index], calls.collect());
    }

    /// Ends the current block with a terminator without targets: `ret`, `exit`, `trap` or `unreachable`.
    pub fn end(&mut self, opcode: Opcode, args: &[Value]) {
        self.terminator(opcode, args, SmallVec::new());
    }

    /// Appends a call of a function through the handle `target`.
    pub fn call_indirect(
        &mut self,
        sig: SigId,
        target: Value,
        args: &[Value],
        results: &[Type],
    ) -> Inst {
        let mut all = vec![target];
        all.extend_from_slice(args);
        let desc = Desc {
            opcode: Opcode::CallIndirect,
            ty: OpType::None,
            src: OpType::None,
            mods: Mods(u64::from(sig.0)),
        };
        self.inst(desc, &all, results)
    }

    /// Adds a local-memory slot to the function and returns the slot.
    pub fn slot(&mut self, slot: SlotData) -> Slot {
        self.function.slots.push(slot)
    }

    /// Turns the variables into SSA values and returns the function. Appends `exit` to a block without a terminator in
    /// a kernel, and `ret` in other functions. Removes unreachable blocks.
    pub fn finish(mut self) -> Function {
        self.close_blocks();
        let cfg = remove_unreachable(&mut self.function);
        let dominators = Dominators::new(&cfg);
        let params = self.place_params(&cfg, &dominators);
        self.rename(&cfg, &dominators, &params);
        crate::edit::resolve_aliases(&mut self.function);
        self.function
    }

    fn close_blocks(&mut self) {
        let end = if self.function.kernel.is_some() {
            Opcode::Exit
        } else {
            Opcode::Ret
        };
        for block in self.function.layout.order.clone() {
            let closed = self
                .function
                .layout
                .terminator(block)
                .is_some_and(|inst| self.function.effects(inst).contains(Effects::TERMINATOR));
            if !closed {
                self.block = Some(block);
                let zeros: Vec<Value> = match end {
                    Opcode::Ret => {
                        let types = self.function.signature.returns.clone();
                        types.into_iter().map(|ty| self.constant(ty, 0)).collect()
                    }
                    _ => Vec::new(),
                };
                self.end(end, &zeros);
            }
        }
    }

    /// Adds block parameters for each variable: at the iterated dominance frontiers of its writes, in blocks where the
    /// variable is live.
    fn place_params(
        &mut self,
        cfg: &Cfg,
        dominators: &Dominators,
    ) -> SecondaryMap<Block, Vec<(Variable, Value)>> {
        let mut read_in: SecondaryMap<Variable, Vec<Block>> = SecondaryMap::default();
        for &block in cfg.rpo() {
            for &variable in &self.reads[block] {
                read_in[variable].push(block);
            }
        }
        let mut params: SecondaryMap<Block, Vec<(Variable, Value)>> = SecondaryMap::default();
        let (mut joins, mut lives) = (Joins::new(cfg, dominators), Lives::new());
        let (mut passed, mut many) = (0, false);
        for variable in self.variables.keys() {
            let reads = &read_in[variable];
            let writes = &self.writes[variable];
            if reads.is_empty() || is_written_once(cfg, dominators, writes, reads) {
                continue;
            }
            lives.find(cfg, variable, writes, reads);
            for join in joins.of(cfg, writes, |block| lives.live[block] == variable.0) {
                let ty = self.variables[variable];
                let value = self.function.dfg.append_param(join, ty);
                params[join].push((variable, value));
                passed += cfg.preds(join).len();
                many |= params[join].len() > MAX_PARAMS;
            }
            if many {
                let what =
                    format!("more than {MAX_PARAMS} variables that merge at the start of a block");
                self.function.unsupported.push((self.loc.ptx_line, what));
                break;
            }
            if passed > MAX_PASSED {
                let what = format!("more than {MAX_PASSED} values that branches pass to blocks");
                self.function.unsupported.push((self.loc.ptx_line, what));
                break;
            }
            if lives.marked > MAX_LIVE {
                let what = format!("variables that are live in more than {MAX_LIVE} blocks");
                self.function.unsupported.push((self.loc.ptx_line, what));
                break;
            }
        }
        params
    }

    /// Walks the dominator tree, replaces every placeholder by its value, and adds the arguments for the block
    /// parameters.
    fn rename(
        &mut self,
        cfg: &Cfg,
        dominators: &Dominators,
        params: &SecondaryMap<Block, Vec<(Variable, Value)>>,
    ) {
        let mut children: SecondaryMap<Block, Vec<Block>> = SecondaryMap::default();
        for &block in cfg.rpo() {
            if let Some(parent) = dominators.idom(cfg, block) {
                children[parent].push(block);
            }
        }
        let mut finals: SecondaryMap<Block, Vec<(Variable, Value)>> = SecondaryMap::default();
        let mut sorted: Vec<_> = self
            .current
            .iter()
            .map(|(&(b, v), &value)| (b, v, value))
            .collect();
        sorted.sort_unstable();
        for (block, variable, value) in sorted {
            finals[block].push((variable, value));
        }
        let mut scope: PrimaryMap<Variable, Option<Value>> = PrimaryMap::default();
        for _ in self.variables.keys() {
            scope.push(None);
        }
        enum Step {
            Enter(Block),
            Leave(Vec<(Variable, Option<Value>)>),
        }
        let mut stack = vec![Step::Enter(cfg.rpo()[0])];
        while let Some(step) = stack.pop() {
            match step {
                Step::Leave(saved) => {
                    for (variable, old) in saved.into_iter().rev() {
                        scope[variable] = old;
                    }
                }
                Step::Enter(block) => {
                    let mut saved = Vec::new();
                    for &(variable, value) in &params[block] {
                        saved.push((variable, scope[variable].replace(value)));
                    }
                    self.bind_reads(block, cfg.rpo()[0], &mut scope, &mut saved);
                    for &(variable, value) in &finals[block] {
                        saved.push((variable, scope[variable].replace(value)));
                    }
                    self.pass_arguments(block, cfg.rpo()[0], params, &mut scope, &mut saved);
                    stack.push(Step::Leave(saved));
                    stack.extend(
                        children[block]
                            .iter()
                            .rev()
                            .map(|&child| Step::Enter(child)),
                    );
                }
            }
        }
    }

    fn bind_reads(
        &mut self,
        block: Block,
        entry: Block,
        scope: &mut PrimaryMap<Variable, Option<Value>>,
        saved: &mut Vec<(Variable, Option<Value>)>,
    ) {
        for variable in self.reads[block].clone() {
            let value = self.reaching(variable, entry, scope, saved);
            let placeholder = self.incoming[&(block, variable)];
            self.function.dfg.values[placeholder].def = ValueDef::Alias(value);
        }
    }

    fn pass_arguments(
        &mut self,
        block: Block,
        entry: Block,
        params: &SecondaryMap<Block, Vec<(Variable, Value)>>,
        scope: &mut PrimaryMap<Variable, Option<Value>>,
        saved: &mut Vec<(Variable, Option<Value>)>,
    ) {
        let Some(inst) = self.function.layout.terminator(block) else {
            return;
        };
        let Some(mut calls) = self.function.dfg.targets.remove(&inst) else {
            return;
        };
        for call in &mut calls {
            for &(variable, _) in &params[call.block] {
                let value = self.reaching(variable, entry, scope, saved);
                call.args.push(value);
            }
        }
        self.function.dfg.targets.insert(inst, calls);
    }

    /// Returns the value of a variable at the current position of the walk. If no write has been visited, inserts a
    /// zero constant at the start of the entry block and returns it.
    fn reaching(
        &mut self,
        variable: Variable,
        entry: Block,
        scope: &mut PrimaryMap<Variable, Option<Value>>,
        saved: &mut Vec<(Variable, Option<Value>)>,
    ) -> Value {
        if let Some(value) = scope[variable] {
            return value;
        }
        let ty = self.variables[variable];
        let value = entry_zero(&mut self.function, entry, ty);
        saved.push((variable, scope[variable].replace(value)));
        value
    }
}

/// Maximum number of values that the branches of a function pass to block parameters. If `n` variables merge after a
/// switch with `n` cases, the branches pass `n * n` values. Functions that compilers generate have fewer than a million
/// such values.
const MAX_PASSED: usize = 8 << 20;

/// Maximum number of parameters of a block, whose indices have 16 bits.
const MAX_PARAMS: usize = u16::MAX as usize;

/// Maximum number of targets of all branch tables of a function. If several branches share a table of the PTX text,
/// its targets count once for each of these branches.
const MAX_TABLE_TARGETS: usize = 1 << 20;

/// Maximum number of blocks at whose start a variable is live, summed over all variables. If each of `n` variables is
/// live in all of `n` blocks, finding these blocks takes `n * n` steps.
const MAX_LIVE: usize = 1 << 28;

/// The blocks that write one variable, and the blocks at whose start it is live. The mark of a
/// block is the index of a variable, so the marks need not be cleared before the search for the
/// next variable.
struct Lives {
    written: SecondaryMap<Block, u32>,
    live: SecondaryMap<Block, u32>,
    /// Number of blocks that were marked so far, summed over all variables.
    marked: usize,
}

impl Lives {
    fn new() -> Lives {
        Lives {
            written: SecondaryMap::with_default(u32::MAX),
            live: SecondaryMap::with_default(u32::MAX),
            marked: 0,
        }
    }

    /// Marks the blocks at whose start a variable is live.
    fn find(&mut self, cfg: &Cfg, variable: Variable, writes: &[Block], reads: &[Block]) {
        let mark = variable.0;
        for &block in writes {
            self.written[block] = mark;
        }
        let mut work = reads.to_vec();
        while let Some(block) = work.pop() {
            if self.live[block] != mark {
                self.live[block] = mark;
                self.marked += 1;
                let preds = cfg.preds(block).iter().copied();
                work.extend(preds.filter(|&pred| self.written[pred] != mark));
            }
        }
    }
}

/// Returns whether only one block writes the variable, and that block strictly dominates each block that reads the
/// variable before writing it. If so, the variable needs no block parameter.
fn is_written_once(cfg: &Cfg, dominators: &Dominators, writes: &[Block], reads: &[Block]) -> bool {
    match writes {
        [write] => reads
            .iter()
            .all(|read| read != write && dominators.dominates(cfg, *write, *read)),
        _ => false,
    }
}

fn entry_zero(function: &mut Function, entry: Block, ty: Type) -> Value {
    let desc = Desc {
        opcode: Opcode::Const,
        ty: ty.kind().op_type(),
        src: OpType::None,
        mods: Mods(0),
    };
    let inst = function.dfg.make_inst(desc, &[], &[ty]);
    function.layout.insts[entry].insert(0, inst);
    function.dfg.results(inst)[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop that counts a variable down: only the loop's header needs a parameter for the variable.
    #[test]
    fn loop_variable_becomes_a_header_parameter() {
        let mut b = FunctionBuilder::new(Function {
            kernel: Some(Default::default()),
            ..Default::default()
        });
        let i = b.declare(Type::B32);
        let (head, exit) = (b.create_block(), b.create_block());
        let ten = b.constant(Type::B32, 10);
        b.write(i, ten);
        b.jump(head);
        b.switch_to(head);
        let (old, one) = (b.read(i), b.constant(Type::B32, 1));
        let new = b.simple(Opcode::Sub, OpType::U32, &[old, one]);
        b.write(i, new);
        let zero = b.constant(Type::B32, 0);
        let more = b.op(
            Desc {
                opcode: Opcode::Setp,
                ty: OpType::U32,
                src: OpType::None,
                mods: Mods::NONE.with_cmp(margay_ops::mods::CmpOp::Ne),
            },
            &[new, zero],
            Type::PRED,
        );
        b.brif(more, head, exit);
        b.switch_to(exit);
        let _ = b.read(i);
        b.end(Opcode::Exit, &[]);
        let f = b.finish();
        assert_eq!(f.dfg.blocks[head].params.len(), 1);
        assert_eq!(f.dfg.blocks[exit].params.len(), 0);
        let calls = f.successors(head);
        assert_eq!(calls[0].args.as_slice(), &[new]);
        assert_eq!(f.successors(f.entry())[0].args.as_slice(), &[ten]);
    }

    #[test]
    fn unset_variables_read_as_zero() {
        let mut b = FunctionBuilder::new(Function {
            kernel: Some(Default::default()),
            ..Default::default()
        });
        let x = b.declare(Type::F32);
        let value = b.read(x);
        let sum = b.simple(Opcode::Add, OpType::F32, &[value, value]);
        b.end(Opcode::Exit, &[]);
        let f = b.finish();
        let arg = f.dfg.args(f.dfg.def_inst(sum).unwrap())[0];
        assert_eq!(f.dfg.constant(arg), Some(0));
        assert_eq!(f.dfg.ty(arg), Type::F32);
    }

    /// Builds a function with a switch over `cases` cases. The variables merge after the switch, and only the first
    /// case writes them.
    fn switch(cases: usize, variables: usize) -> Function {
        let mut b = kernel();
        let variables: Vec<Variable> = (0..variables).map(|_| b.declare(Type::B32)).collect();
        let one = b.constant(Type::B32, 1);
        variables.iter().for_each(|&v| b.write(v, one));
        let targets: Vec<Block> = (0..cases).map(|_| b.create_block()).collect();
        let join = b.create_block();
        b.br_table(one, targets[0], &targets[1..]);
        for (case, &target) in targets.iter().enumerate() {
            b.switch_to(target);
            if case == 0 {
                let two = b.constant(Type::B32, 2);
                variables.iter().for_each(|&v| b.write(v, two));
            }
            b.jump(join);
        }
        b.switch_to(join);
        for &v in &variables {
            let value = b.read(v);
            b.simple(Opcode::Add, OpType::U32, &[value, value]);
        }
        b.end(Opcode::Exit, &[]);
        b.finish()
    }

    fn assert_unsupported(function: &Function, part: &str) {
        let [(_, what)] = &function.unsupported[..] else {
            panic!("{:?}", function.unsupported);
        };
        assert!(what.contains(part), "{what}");
    }

    fn kernel() -> FunctionBuilder {
        FunctionBuilder::new(Function {
            kernel: Some(Default::default()),
            ..Default::default()
        })
    }

    #[test]
    fn too_many_values_that_merge_are_unsupported() {
        let passed = |f: &Function| {
            let targets = f.dfg.targets.values().flatten();
            targets.map(|call| call.args.len()).sum::<usize>()
        };
        let small = switch(300, 200);
        assert_eq!(passed(&small), 300 * 200);
        assert!(small.unsupported.is_empty());
        let large = switch(20_000, 20_000);
        assert!(passed(&large) <= MAX_PASSED + 20_000);
        assert_unsupported(&large, "values that branches pass");
    }

    #[test]
    fn more_parameters_of_a_block_than_indices_are_unsupported() {
        assert!(switch(2, MAX_PARAMS).unsupported.is_empty());
        assert_unsupported(&switch(2, 70_000), "merge at the start of a block");
    }

    #[test]
    fn too_many_targets_of_tables_are_unsupported() {
        let mut b = kernel();
        let one = b.constant(Type::B32, 1);
        let targets: Vec<Block> = (0..2000).map(|_| b.create_block()).collect();
        b.jump(targets[0]);
        for &target in &targets {
            b.switch_to(target);
            b.br_table(one, targets[0], &targets);
        }
        let function = b.finish();
        let edges: usize = function.dfg.targets.values().map(|calls| calls.len()).sum();
        assert!(edges <= MAX_TABLE_TARGETS + 2 * 2000, "{edges}");
        assert_unsupported(&function, "targets of branch tables");
    }

    #[test]
    fn too_many_live_variables_are_unsupported() {
        // Each variable is live in all blocks except the block `then` that writes it.
        let mut b = kernel();
        let count = 24_000;
        let variables: Vec<Variable> = (0..count).map(|_| b.declare(Type::B32)).collect();
        let one = b.constant(Type::B32, 1);
        variables.iter().for_each(|&v| b.write(v, one));
        for &variable in &variables {
            let [then, join] = std::array::from_fn(|_| b.create_block());
            b.brif(one, then, join);
            b.switch_to(then);
            b.write(variable, one);
            b.jump(join);
            b.switch_to(join);
        }
        for &v in &variables {
            let value = b.read(v);
            b.simple(Opcode::Add, OpType::U32, &[value, value]);
        }
        b.end(Opcode::Exit, &[]);
        let function = b.finish();
        assert_unsupported(&function, "variables that are live");
    }
}
