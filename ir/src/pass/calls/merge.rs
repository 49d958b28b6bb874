//! Copies function bodies into the kernel and turns calls and returns into jumps.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::code::{Code, with};
use super::{Body, saves};
use crate::analysis::Cfg;
use crate::analysis::callees::with_handles;
use crate::entity::{Block, FuncId, Inst, SigId, Value};
use crate::function::{BlockCall, Function, SourceLoc, payload_func, payload_sig};
use crate::module::Module;
use crate::pass::copy::{Copier, jump, new_block};
use margay_ops::mods::{CmpOp, Mode, Mods};
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};

/// A class of functions that return through one common block: either all functions with a signature that is called
/// through handles, or a single function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Class {
    Signature(usize),
    Function(FuncId),
}

/// A call in the kernel after all bodies are copied. In its block, only a jump follows the call.
#[derive(Debug)]
struct Call {
    block: Block,
    inst: Inst,
    /// The block with the code after the call.
    tail: Block,
    class: Class,
}

/// The first block of the copy of a function, and the size of the function's frame in bytes.
#[derive(Clone, Copy, Debug)]
struct Entry {
    block: Block,
    frame: u32,
}

/// Copies `bodies`, the functions that a kernel reaches, into the kernel, and replaces all calls in
/// the kernel and in the copies by jumps.
pub(super) fn merge(kernel: &mut Function, module: &Module, mut bodies: Vec<Body>) {
    saves::keep(kernel);
    for body in &mut bodies {
        body.frame = saves::keep(&mut body.function);
    }
    let mut merger = Merger {
        module,
        indirect: signatures(kernel, module, &bodies),
        entries: FxHashMap::default(),
        returns: FxHashMap::default(),
        kernel,
    };
    let mut order = Order::default();
    let mut parts: Vec<Vec<Block>> = vec![merger.kernel.blocks().to_vec()];
    order.kernel = program_order(merger.kernel);
    for body in &bodies {
        let blocks = merger.copy(body);
        let copies: FxHashMap<Block, Block> = body
            .function
            .blocks()
            .iter()
            .copied()
            .zip(blocks.iter().copied())
            .collect();
        let ordered = program_order(&body.function);
        let ordered = ordered.iter().map(|block| copies[block]).collect();
        order.functions.insert(body.id, ordered);
        parts.push(blocks);
    }
    let calls = merger.calls(&parts);
    let mut numbers = merger.returns(&calls);
    for call in &calls {
        let number = numbers.remove(&call.tail).unwrap_or(0);
        let before = merger.kernel.blocks().len();
        let callees = merger.replace(call, number);
        let mut after = merger.kernel.blocks()[before..].to_vec();
        // If no function has the signature of the call, nothing returns.
        after.extend(merger.returns.get(&call.class));
        order.calls.insert(call.block, (callees, after));
    }
    order.apply(merger.kernel);
    for body in bodies {
        merger.kernel.unsupported.extend(body.function.unsupported);
    }
}

/// Returns the reachable blocks of a function in reverse postorder, and then its other blocks.
fn program_order(function: &Function) -> Vec<Block> {
    let cfg = Cfg::new(function);
    let rest = function.blocks().iter().copied();
    let rest = rest.filter(|&block| !cfg.is_reachable(block));
    cfg.rpo().iter().copied().chain(rest).collect()
}

/// The order of the program: the blocks of a function follow the first call of the function.
#[derive(Default)]
struct Order {
    /// The blocks of the kernel.
    kernel: Vec<Block>,
    /// The blocks of the copy of each function.
    functions: FxHashMap<FuncId, Vec<Block>>,
    /// For each block that ends with a call: the functions that it may call, and the blocks that were added for the
    /// call.
    calls: FxHashMap<Block, (Vec<FuncId>, Vec<Block>)>,
}

impl Order {
    fn apply(mut self, kernel: &mut Function) {
        let mut order = Vec::with_capacity(kernel.blocks().len());
        let mut seen: FxHashSet<Block> = FxHashSet::default();
        // The blocks that are still to be added, the next one last.
        let mut work = self.kernel;
        work.reverse();
        while let Some(block) = work.pop() {
            if !seen.insert(block) {
                continue;
            }
            order.push(block);
            let Some((callees, added)) = self.calls.remove(&block) else {
                continue;
            };
            work.extend(added.into_iter().rev());
            for callee in callees.iter().rev() {
                let blocks = self.functions.remove(callee).unwrap_or_default();
                work.extend(blocks.into_iter().rev());
            }
        }
        let rest = kernel.blocks().iter().copied();
        order.extend(rest.filter(|&block| seen.insert(block)));
        kernel.layout.order = order;
        kernel.layout.in_program_order = true;
    }
}

/// Returns the signatures that are called through handles, without duplicates.
fn signatures(kernel: &Function, module: &Module, bodies: &[Body]) -> Vec<SigId> {
    let mut found: Vec<SigId> = Vec::new();
    for function in std::iter::once(kernel).chain(bodies.iter().map(|body| &body.function)) {
        for &inst in function.blocks().iter().flat_map(|&b| function.insts(b)) {
            let data = &function.dfg.insts[inst];
            let id = payload_sig(data.payload());
            let same = |known: &SigId| module.signatures[*known] == module.signatures[id];
            if data.opcode == Opcode::CallIndirect && !found.iter().any(same) {
                found.push(id);
            }
        }
    }
    found
}

struct Merger<'a> {
    kernel: &'a mut Function,
    module: &'a Module,
    indirect: Vec<SigId>,
    entries: FxHashMap<FuncId, Entry>,
    /// The block through which the functions of each class return.
    returns: FxHashMap<Class, Block>,
}

impl Merger<'_> {
    fn class(&self, id: FuncId) -> Class {
        let signature = &self.module.functions[id].signature;
        let same = |known: &SigId| self.module.signatures[*known] == *signature;
        let index = self.indirect.iter().position(same);
        index.map_or(Class::Function(id), Class::Signature)
    }

    /// Copies a function into the kernel and returns the copied blocks.
    fn copy(&mut self, body: &Body) -> Vec<Block> {
        let class = self.class(body.id);
        let back = match self.returns.get(&class) {
            Some(&block) => block,
            None => {
                let block = new_block(self.kernel);
                let types = self.module.functions[body.id].signature.returns.iter();
                for &ty in types.chain(&[Type::B32, Type::B64]) {
                    self.kernel.dfg.append_param(block, ty);
                }
                self.returns.insert(class, block);
                self.kernel.layout.order.push(block);
                block
            }
        };
        let mut copier = Copier::new(self.kernel, &body.function, back);
        copier.copy_blocks();
        let blocks: Vec<Block> = body
            .function
            .blocks()
            .iter()
            .map(|b| copier.blocks[b])
            .collect();
        self.kernel.layout.order.extend_from_slice(&blocks);
        let entry = Entry {
            block: blocks[0],
            frame: body.frame,
        };
        self.entries.insert(body.id, entry);
        blocks
    }

    /// Returns all calls, grouped by the function that contains them.
    fn calls(&self, parts: &[Vec<Block>]) -> Vec<Call> {
        let mut found = Vec::new();
        for &block in parts.iter().flatten() {
            let &[.., inst, onward] = self.kernel.insts(block) else {
                continue;
            };
            let data = &self.kernel.dfg.insts[inst];
            let class = match data.opcode {
                Opcode::Call => self.class(payload_func(data.payload())),
                Opcode::CallIndirect => {
                    let called = &self.module.signatures[payload_sig(data.payload())];
                    let same = |known: &SigId| self.module.signatures[*known] == *called;
                    let index = self.indirect.iter().position(same);
                    Class::Signature(index.unwrap_or(0))
                }
                _ => continue,
            };
            found.push(Call {
                block,
                inst,
                tail: self.kernel.dfg.targets(onward)[0].block,
                class,
            });
        }
        found
    }

    /// Adds a branch to the continuations to the return block of each class, and returns the index
    /// of each continuation. The first block of a continuation identifies it.
    fn returns(&mut self, calls: &[Call]) -> FxHashMap<Block, u32> {
        let mut numbers = FxHashMap::default();
        let order = self.kernel.blocks().iter().zip(0..);
        let place: FxHashMap<Block, usize> = order.map(|(&block, at)| (block, at)).collect();
        let mut entries: Vec<usize> = self.entries.values().map(|e| place[&e.block]).collect();
        entries.sort_unstable();
        // Continuations in the kernel come before continuations in the functions that it calls. Within a function, a
        // continuation that is later in the code comes first.
        let key = |tail: &Block| {
            let at = place[tail];
            (
                entries.partition_point(|&entry| entry <= at),
                usize::MAX - at,
            )
        };
        let mut blocks: Vec<(Class, Block)> = self.returns.iter().map(|(&c, &b)| (c, b)).collect();
        blocks.sort_unstable_by_key(|&(_, block)| block);
        for (class, block) in blocks {
            // The target that a depth-first walk visits first is last in reverse postorder. If the kernel itself calls
            // functions of the class, this target is the continuation of the last of these calls.
            let tails = calls.iter().filter(|call| call.class == class);
            let mut tails: Vec<Block> = tails.map(|call| call.tail).collect();
            tails.sort_by_key(key);
            let last = tails.len() as u32;
            for (&tail, number) in tails.iter().zip(0..) {
                // The first continuation is the default target. Its index is the smallest one that is out of range of
                // the branch table.
                numbers.insert(tail, if number == 0 { last - 1 } else { number - 1 });
            }
            self.branch_back(block, &tails);
        }
        numbers
    }

    fn branch_back(&mut self, block: Block, tails: &[Block]) {
        let params = self.kernel.dfg.blocks[block].params.clone();
        let [results @ .., number, pointer] = &params[..] else {
            return;
        };
        let args: SmallVec<[Value; 4]> = results.iter().chain([pointer]).copied().collect();
        let to = |&block: &Block| BlockCall {
            block,
            args: args.clone(),
        };
        let targets: SmallVec<[BlockCall; 2]> = tails.iter().map(to).collect();
        let mut code = Code::new(self.kernel, SourceLoc::default());
        let (opcode, operand) = match tails.len() {
            0 => (Opcode::Unreachable, None),
            1 => (Opcode::Jump, None),
            2 => {
                let first = code.constant(Type::B32, 1);
                let equal = code.equal(OpType::B32, *number, first);
                (Opcode::Brif, Some(equal))
            }
            _ => (Opcode::BrTable, Some(*number)),
        };
        let args: SmallVec<[Value; 1]> = operand.into_iter().collect();
        let end = code.inst(with(opcode, OpType::None, Mods::NONE), &args, &[]);
        let insts = code.insts;
        if !targets.is_empty() {
            self.kernel.dfg.targets.insert(end, targets);
        }
        self.kernel.layout.insts[block] = insts;
    }

    /// Replaces a call by jumps to the functions that it may call, and returns these functions. They return to the
    /// continuation `number`.
    fn replace(&mut self, call: &Call, number: u32) -> Vec<FuncId> {
        let insts = &mut self.kernel.layout.insts[call.block];
        insts.truncate(insts.len() - 2);
        let data = self.kernel.dfg.insts[call.inst];
        let args: SmallVec<[Value; 8]> = SmallVec::from_slice(self.kernel.dfg.args(call.inst));
        if data.opcode == Opcode::Call {
            let callee = payload_func(data.payload());
            self.enter(call, call.block, callee, &args, number);
            return vec![callee];
        }
        let signature = &self.module.signatures[payload_sig(data.payload())];
        let all: Vec<FuncId> = with_handles(self.module, signature).collect();
        let (handle, args) = (args[0], &args[1..]);
        let mut work = vec![(call.block, &all[..])];
        while let Some((block, functions)) = work.pop() {
            match functions {
                [] => self.end(call, block, Opcode::InvalidPc, &[handle]),
                &[only] => {
                    let [hit, miss] = [self.block(), self.block()];
                    self.compare(call, block, (CmpOp::Eq, handle, only), [hit, miss]);
                    self.enter(call, hit, only, args, number);
                    self.end(call, miss, Opcode::InvalidPc, &[handle]);
                }
                _ => {
                    let (low, high) = functions.split_at(functions.len() / 2);
                    let [below, beyond] = [self.block(), self.block()];
                    self.compare(call, block, (CmpOp::Lt, handle, high[0]), [below, beyond]);
                    work.extend([(below, low), (beyond, high)]);
                }
            }
        }
        all
    }

    fn block(&mut self) -> Block {
        self.kernel.append_block()
    }

    fn compare(
        &mut self,
        call: &Call,
        block: Block,
        (cmp, handle, with_handle_of): (CmpOp, Value, FuncId),
        [then, other]: [Block; 2],
    ) {
        let mut code = self.code(call);
        let desc = with(
            Opcode::FuncAddr,
            OpType::U64,
            Mods(u64::from(with_handle_of.0)),
        );
        let known = code.op(desc, &[], Type::B64);
        let holds = code.compare(cmp, OpType::U64, handle, known);
        let end = code.inst(with(Opcode::Brif, OpType::None, Mods::NONE), &[holds], &[]);
        let mut insts = code.insts;
        let targets = SmallVec::from_iter([BlockCall::to(then), BlockCall::to(other)]);
        self.kernel.dfg.targets.insert(end, targets);
        self.kernel.layout.insts[block].append(&mut insts);
    }

    fn code(&mut self, call: &Call) -> Code<'_> {
        let loc = self.kernel.dfg.locs[call.inst];
        Code::new(self.kernel, loc)
    }

    /// Ends `block` with a jump to the copy of `callee`. `args` contains the arguments of the call,
    /// followed by the callee's stack pointer. `number` is the index of the continuation.
    fn enter(&mut self, call: &Call, block: Block, callee: FuncId, args: &[Value], number: u32) {
        let Some((&pointer, args)) = args.split_last() else {
            return;
        };
        let entry = self.entries[&callee];
        let mut code = self.code(call);
        if entry.frame > 0 {
            let end = code.beyond(pointer, entry.frame);
            let end = code.cvta(end, Mode::To);
            code.inst(
                with(Opcode::StackCheck, OpType::None, Mods::NONE),
                &[end],
                &[],
            );
        }
        let number = code.constant(Type::B32, u64::from(number));
        let mut insts = code.insts;
        self.kernel.layout.insts[block].append(&mut insts);
        let mut all: SmallVec<[Value; 8]> = SmallVec::from_slice(args);
        all.extend([number, pointer]);
        let inst = jump(self.kernel, block, entry.block, &all);
        self.kernel.dfg.locs[inst] = self.kernel.dfg.locs[call.inst];
    }

    fn end(&mut self, call: &Call, block: Block, opcode: Opcode, args: &[Value]) {
        let mut code = self.code(call);
        code.inst(with(opcode, OpType::None, Mods::NONE), args, &[]);
        let mut insts = code.insts;
        self.kernel.layout.insts[block].append(&mut insts);
    }
}
