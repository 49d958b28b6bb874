//! The state of the translation, and the emission of single instructions.

use margay_ir::analysis::coordinates::{Form, Sum};
use margay_ir::analysis::uniformity::Class;
use margay_ir::analysis::{Cfg, Coordinates, Loops};
use margay_ir::entity::{Block, Inst, SecondaryMap, Slot, SymbolId, Value};
use margay_ir::function::{BlockCall, Function};
use margay_ops::meaning::Desc;
use margay_ops::mods::{CmpOp, Half, Mods};
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::builder::Builder;
use margay_vir::data::{Access, Data};
use margay_vir::function::Function as VirFunction;
use margay_vir::ops::Op;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::flow::{Flow, PlaceIndex};
use crate::layout::LocalLayout;
use crate::phases::Phase;
use crate::runs::{Row, Runs};
use crate::variables::{Key, Variables};
use crate::{Group, Kernel, Refusal};

/// What is known about the lanes at the places of the version of the code for chunks whose lanes run
/// together ([`crate::together`]).
#[derive(Debug)]
pub(crate) struct Together {
    /// The mask of all lanes.
    pub(crate) all: Value,
    /// Places to which an edge leads that some lanes may not take.
    pub(crate) partial: FxHashSet<PlaceIndex>,
}

impl Together {
    pub(crate) fn new(all: Value) -> Together {
        Together {
            all,
            partial: FxHashSet::default(),
        }
    }
}

/// What differs between the chunks that the code runs together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkState {
    pub(crate) thread: Value,
    pub(crate) mask: Value,
    pub(crate) frame: Value,
    pub(crate) frame_lane: Value,
}

/// The difference between the values of neighbouring threads along an axis.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The same number in all launches.
    Constant(i64),
    /// A number that is computed at the start of the program.
    Value(Value),
}

/// The steps along the axes x and y.
pub(crate) type Steps = [Step; 2];

/// A test of a value: the value, the chunk to which it belongs, and the lanes for which it was tested. It says nothing about
/// other lanes, because the code skips what the test finds if none of its lanes runs.
pub(crate) type Tested = (Value, u32, Value);

/// Translates a kernel.
pub(crate) struct Emitter<'a> {
    pub(crate) kernel: &'a Kernel<'a>,
    /// The control flow of the kernel.
    pub(crate) cfg: &'a Cfg,
    /// How values depend on the coordinates of the threads; `None` if the kernel has no barriers and its chunks do not run
    /// together.
    pub(crate) coordinates: Option<&'a Coordinates>,
    /// The kernel's function, divided into phases.
    pub(crate) source: &'a Function,
    /// The phase being translated.
    pub(crate) phase: &'a Phase,
    /// The resume point behind each barrier.
    pub(crate) behind: &'a FxHashMap<Inst, usize>,
    /// The values that the phase has loaded from the frames.
    pub(crate) restored: FxHashSet<Value>,
    /// The values whose bases are in variables of the program.
    pub(crate) based: FxHashMap<Value, &'a Form>,
    /// The values whose scalars are computed from that of the first chunk.
    pub(crate) derived: FxHashMap<Value, Steps>,
    /// The sums that are computed at the start of the program; `None` if it cannot compute them.
    pub(crate) steps_at_start: FxHashMap<(Sum, Type), Option<Value>>,
    /// The 32-bit values that do not wrap in the CTA, as signed integers if the flag is set.
    pub(crate) sure: FxHashSet<(Value, bool)>,
    /// Derived scalars that are available in the VIR block `at`.
    pub(crate) chained: FxHashMap<(Value, u32), Value>,
    /// The values for which there are variables of the program that the phase may change.
    pub(crate) changed: Vec<Value>,
    /// Whether the frames contain the lanes that have not exited.
    pub(crate) keeps_alive: bool,
    /// Whether lanes may yield in loops.
    pub(crate) may_yield: bool,
    pub(crate) out: VirFunction,
    pub(crate) variables: Variables,
    /// The VIR block that receives instructions.
    pub(crate) at: Block,
    /// The place of the instructions being emitted.
    pub(crate) place: u64,
    /// The block of the kernel being translated.
    pub(crate) block: Block,
    /// The lanes that execute the block.
    pub(crate) mask: Value,
    /// The block at the start of the function, which is complete only at the end of the translation.
    pub(crate) start: Block,
    /// The address of the context.
    pub(crate) ctx: Value,
    /// The coordinates of the CTA.
    pub(crate) ctaid: [Value; 3],
    /// The number of chunks that the code runs together, and the chunk of them whose code is being emitted.
    pub(crate) chunk_count: u32,
    pub(crate) chunk: u32,
    /// The first of these chunks: not 0 if the chunks of the CTA have code of their own.
    pub(crate) first_chunk: u32,
    /// Whether the chunks have code of their own in the version of the code that is being emitted.
    pub(crate) takes_turns: bool,
    /// The thread of the first lane of the first of these chunks.
    pub(crate) first_thread: Value,
    /// The lanes of each chunk that execute an operation which runs once for all chunks; empty if they are the lanes of the
    /// mask.
    pub(crate) masks_of_chunks: SmallVec<[Value; 4]>,
    /// The state of the chunks whose code is not being emitted.
    pub(crate) others: Vec<ChunkState>,
    /// The thread of the chunk's first lane.
    pub(crate) thread: Value,
    /// The address of the frame of the chunk's warp, and the number in the warp of the chunk's first lane.
    pub(crate) frame: Value,
    pub(crate) frame_lane: Value,
    /// Values of the context's fields, by offset, and of the kernel's parameters: loaded at the start.
    pub(crate) fields: FxHashMap<(u32, Type), Value>,
    /// The addresses of module variables, loaded at the start.
    pub(crate) symbols: FxHashMap<SymbolId, Value>,
    /// Values of the kernel that are computed at the start.
    pub(crate) fixed: FxHashMap<Value, Value>,
    /// Vectors that are available in the VIR block `at`.
    pub(crate) made: FxHashMap<(Value, u32), Value>,
    /// The tests of alignment in the block being translated, with their sizes in bytes.
    pub(crate) aligned: FxHashSet<(Tested, u32)>,
    /// The values that are aligned wherever the code being emitted runs, with the sizes in bytes.
    pub(crate) always_aligned: FxHashSet<(Value, u32)>,
    /// What is known about the lanes, in the version of the code for chunks whose lanes run together.
    pub(crate) together: Option<Together>,
    /// The tests in the block being translated whether values are addresses of device memory.
    pub(crate) reached: FxHashSet<Tested>,
    /// Whether the code being emitted rarely runs.
    pub(crate) is_rare: bool,
    /// The tests in the block being translated whether offsets are in local memory, with the sizes of the accesses in bytes.
    pub(crate) tested_local: FxHashSet<(Tested, u32)>,
    /// The layout of local memory, and the offsets of the variables in it.
    pub(crate) local: LocalLayout,
    pub(crate) slots: SecondaryMap<Slot, u32>,
    /// Whether the code being emitted may have such a version.
    pub(crate) may_divide: bool,
    /// The VIR block, and the lanes of a chunk, whose first lane the context contains, for faults.
    pub(crate) noted: Option<(Block, Value, u32)>,
    /// The speculatively affine addresses whose checks hold where the code being emitted runs.
    pub(crate) assumed: FxHashSet<Value>,
    /// The offsets in windows that are below the limit of near offsets where the code being emitted runs.
    pub(crate) near: FxHashSet<Value>,
    /// The speculatively affine values that are affine in the version of the code being emitted.
    pub(crate) certain: FxHashSet<Value>,
    /// How the chunks of a run of CTAs are visited, and the number of threads of its rows; `None` where the code visits the
    /// chunks of one CTA after the other.
    pub(crate) runs: Option<(Runs, Value)>,
    /// The row whose chunks the code runs.
    pub(crate) row: Option<Row>,
    /// Speculatively affine values whose lanes are computed where they are used.
    pub(crate) lazy: FxHashSet<Value>,
    /// The values that lanes carry out of loops in different iterations, each with the loop that defines it.
    pub(crate) leaving: Vec<(Value, usize)>,
    /// For each block, the block whose edge is the first to it, if this edge need not keep lanes of other edges.
    pub(crate) first_edges: FxHashMap<Block, Option<Block>>,
    /// The number of edges back to each loop header.
    pub(crate) back_edges: SecondaryMap<Block, u32>,
    /// The VIR blocks in the order of the code; blocks that rarely run follow at the end.
    pub(crate) hot: Vec<Block>,
    pub(crate) cold: Vec<Block>,
}

impl<'a> Emitter<'a> {
    /// Returns the planned control flow of the phase.
    pub(crate) fn flow(&self) -> &'a Flow {
        &self.phase.flow
    }

    /// Returns the loops of the phase.
    pub(crate) fn loops(&self) -> &'a Loops {
        &self.phase.loops
    }

    /// Returns a builder that appends to the current block.
    fn builder(&mut self) -> Builder<'_> {
        Builder::resume(&mut self.out, self.at, self.place)
    }

    /// Creates a VIR block.
    pub(crate) fn new_block(&mut self) -> Block {
        self.out.append_block()
    }

    /// Goes on at a VIR block, whose branches all exist.
    pub(crate) fn enter(&mut self, block: Block) {
        self.enter_open(block);
        self.variables.seal(&mut self.out, block);
    }

    /// Goes on at a VIR block to which branches are added later.
    pub(crate) fn enter_open(&mut self, block: Block) {
        self.at = block;
        self.made.clear();
        self.chained.clear();
        self.hot.push(block);
    }

    /// Goes on at a VIR block that rarely runs.
    pub(crate) fn enter_cold(&mut self, block: Block) {
        self.at = block;
        self.made.clear();
        self.chained.clear();
        self.cold.push(block);
        self.variables.seal(&mut self.out, block);
    }

    /// Reads a variable.
    pub(crate) fn read(&mut self, key: Key, ty: Type) -> Value {
        let key = (key, self.chunk_of(key));
        self.variables.get(&mut self.out, (key, ty), self.at)
    }

    /// Sets a variable.
    pub(crate) fn write(&mut self, key: Key, value: Value) {
        let key = (key, self.chunk_of(key));
        self.variables.set(key, self.at, value);
    }

    /// Returns the chunk to which a variable belongs; 0 if the chunks share it.
    fn chunk_of(&self, key: Key) -> u32 {
        match key {
            Key::Counter(_) | Key::Cta(_) | Key::Out(_) => 0,
            Key::Saved(_) | Key::Alive => self.chunk,
            Key::Scalar(value) | Key::NextScalar(value) => self.chunk_with(value),
            Key::Holds(_) | Key::Left(_) | Key::Lanes(_) | Key::NextLanes(_) | Key::Mask(_) => {
                self.chunk
            }
        }
    }

    /// Returns the chunk whose code is being emitted; 0 if all threads of the CTA have the same value.
    pub(crate) fn chunk_with(&self, value: Value) -> u32 {
        match self.own_class(value) {
            Class::Launch | Class::Cta => 0,
            _ => self.chunk,
        }
    }

    /// Returns the test of a value for the lanes that run.
    pub(crate) fn test_of(&self, value: Value) -> Tested {
        (value, self.chunk_with(value), self.mask)
    }

    /// Goes on with the code of a chunk.
    pub(crate) fn select(&mut self, chunk: u32) {
        if self.others.is_empty() {
            return;
        }
        self.others[self.chunk as usize] = ChunkState {
            thread: self.thread,
            mask: self.mask,
            frame: self.frame,
            frame_lane: self.frame_lane,
        };
        self.chunk = chunk;
        let state = self.others[chunk as usize];
        self.thread = state.thread;
        self.mask = state.mask;
        self.frame = state.frame;
        self.frame_lane = state.frame_lane;
        self.place = self.place & u64::from(u32::MAX) | u64::from(chunk) << 32;
    }

    /// Emits code for each chunk.
    pub(crate) fn each_chunk<T>(
        &mut self,
        emit: impl FnMut(&mut Self) -> Result<T, Refusal>,
    ) -> Result<SmallVec<[T; 4]>, Refusal> {
        self.of_chunks(emit).into_iter().collect()
    }

    /// Returns whether the code that is being emitted contains no loop over the chunks of the CTA.
    pub(crate) fn is_whole(&self) -> bool {
        match self.kernel.group {
            Group::All { chunks, .. } => chunks == self.chunk_count,
            Group::Each { .. } => self.takes_turns,
            Group::Line(_) | Group::Rows(_) => false,
        }
    }

    /// Returns whether the chunk whose code is being emitted runs no lane, by construction.
    pub(crate) fn is_idle(&self) -> bool {
        self.out.constant(self.mask) == Some(0)
    }

    /// Returns whether all lanes of all chunks run, by construction.
    pub(crate) fn all_run(&self) -> bool {
        let Some(all) = self.together.as_ref().map(|together| together.all) else {
            return false;
        };
        let others = self.others.iter().enumerate();
        let mut others = others.filter(|&(chunk, _)| chunk != self.chunk as usize);
        self.mask == all && others.all(|(_, state)| state.mask == all)
    }

    /// Returns the position of the chunk among those that run together.
    pub(crate) fn position(&self) -> usize {
        (self.chunk - self.first_chunk) as usize
    }

    /// Emits code for each chunk that cannot be refused.
    pub(crate) fn of_chunks<T>(
        &mut self,
        mut emit: impl FnMut(&mut Self) -> T,
    ) -> SmallVec<[T; 4]> {
        let mut results = SmallVec::new();
        let first = self.first_chunk;
        for chunk in first..first + self.chunk_count {
            self.select(chunk);
            results.push(emit(self));
        }
        self.select(first);
        results
    }

    /// Combines masks, of which there is at least one.
    pub(crate) fn combined(&mut self, opcode: Opcode, masks: &[Value]) -> Value {
        let mut all = masks[0];
        for &mask in &masks[1..] {
            if mask != all {
                all = self.logic(opcode, &[all, mask]);
            }
        }
        all
    }

    /// Sets the place of the instructions that follow.
    pub(crate) fn set_place(&mut self, inst: Inst) {
        self.place = u64::from(inst.0) | u64::from(self.chunk) << 32;
    }

    /// Returns the type of the lanes of a value.
    pub(crate) fn vector(&self, kind: Kind) -> Type {
        Type::vector(kind, self.kernel.width).expect("the width is a power of two up to 64")
    }

    /// Returns the type of masks.
    pub(crate) fn mask_type(&self) -> Type {
        self.vector(Kind::Pred)
    }

    pub(crate) fn value(&mut self, op: Op, ty: Type, data: Data, args: &[Value]) -> Value {
        self.builder().computed(op, ty, data, args)
    }

    pub(crate) fn constant(&mut self, ty: Type, bits: u64) -> Value {
        self.builder().constant(ty, bits)
    }

    pub(crate) fn map(&mut self, desc: Desc, ty: Type, args: &[Value]) -> Value {
        self.map_all((desc, ty.lanes()), args, &[ty.kind()])[0]
    }

    pub(crate) fn map_all(
        &mut self,
        (desc, lanes): (Desc, u32),
        args: &[Value],
        kinds: &[Kind],
    ) -> SmallVec<[Value; 2]> {
        self.builder().computed_map(desc, lanes, args, kinds)
    }

    /// Emits a matrix product of a warp with `count` results.
    pub(crate) fn warp_product(
        &mut self,
        desc: Desc,
        ty: Type,
        args: &[Value],
        count: usize,
    ) -> SmallVec<[Value; 8]> {
        self.builder().product(desc, ty, args, count)
    }

    /// Emits an operation without modifiers whose result has the type `ty`.
    pub(crate) fn simple(&mut self, opcode: Opcode, on: OpType, ty: Type, args: &[Value]) -> Value {
        self.map(desc(opcode, on, OpType::None, Mods::NONE), ty, args)
    }

    /// Emits an addition of integers with `bits` bits.
    pub(crate) fn add(&mut self, a: Value, b: Value) -> Value {
        let ty = self.out.ty(a);
        self.simple(Opcode::Add, unsigned(ty), ty, &[a, b])
    }

    /// Emits an addition of a constant to an integer scalar; nothing for zero.
    pub(crate) fn add_constant(&mut self, a: Value, by: i64) -> Value {
        if by == 0 {
            return a;
        }
        let ty = self.out.ty(a);
        let by = self.constant(ty, by as u64 & ones(ty));
        self.add(a, by)
    }

    /// Emits an operation on integers of the same width, of which either may be a scalar.
    pub(crate) fn on_integers(&mut self, opcode: Opcode, a: Value, b: Value) -> Value {
        let kind = self.out.ty(a).kind();
        let lanes = self.out.ty(a).lanes().max(self.out.ty(b).lanes());
        let ty = Type::vector(kind, lanes).expect("operands have possible numbers of lanes");
        let on = match opcode {
            Opcode::Add | Opcode::Sub => unsigned(ty),
            _ => kind.op_type(),
        };
        self.simple(opcode, on, ty, &[a, b])
    }

    /// Emits the low half of a product of integers of the same width, of which either may be a scalar.
    pub(crate) fn product(&mut self, a: Value, b: Value) -> Value {
        let kind = self.out.ty(a).kind();
        let lanes = self.out.ty(a).lanes().max(self.out.ty(b).lanes());
        let ty = Type::vector(kind, lanes).expect("operands have possible numbers of lanes");
        let low = Mods::NONE.with_half(Half::Lo);
        self.map(
            desc(Opcode::Mul, unsigned(ty), OpType::None, low),
            ty,
            &[a, b],
        )
    }

    /// Emits a comparison of integers.
    pub(crate) fn compare(&mut self, (cmp, on): (CmpOp, OpType), a: Value, b: Value) -> Value {
        let lanes = self.out.ty(a).lanes().max(self.out.ty(b).lanes());
        let ty = Type::vector(Kind::Pred, lanes).expect("operands have possible numbers of lanes");
        let mods = Mods::NONE.with_cmp(cmp);
        self.map(desc(Opcode::Setp, on, OpType::None, mods), ty, &[a, b])
    }

    /// Emits a conversion between integer types.
    pub(crate) fn convert(&mut self, to: OpType, from: OpType, value: Value) -> Value {
        let lanes = self.out.ty(value).lanes();
        let kind = to.held().kind();
        let ty = Type::vector(kind, lanes).expect("the operand has a possible number of lanes");
        self.map(desc(Opcode::Cvt, to, from, Mods::NONE), ty, &[value])
    }

    /// Emits an operation on masks.
    pub(crate) fn logic(&mut self, opcode: Opcode, args: &[Value]) -> Value {
        let widest = args.iter().map(|&arg| self.out.ty(arg).lanes()).max();
        let ty = Type::vector(Kind::Pred, widest.unwrap_or(1)).expect("masks have possible lanes");
        // The operand that determines the result, and the operand that does not change it.
        let special = match opcode {
            Opcode::And => Some((0, 1)),
            Opcode::Or => Some((1, 0)),
            _ => None,
        };
        if let (Some((all, neutral)), &[a, b]) = (special, args) {
            for (known, other) in [(a, b), (b, a)] {
                match self.out.constant(known) {
                    Some(bits) if bits == all => return self.constant(ty, all),
                    Some(bits) if bits == neutral && self.out.ty(other) == ty => return other,
                    _ => {}
                }
            }
            if a == b {
                return a;
            }
        }
        self.simple(opcode, OpType::Pred, ty, args)
    }

    pub(crate) fn load(&mut self, op: Op, ty: Type, access: Access, args: &[Value]) -> Value {
        self.builder().load(op, ty, access, args)
    }

    pub(crate) fn store(&mut self, op: Op, ty: Type, access: Access, args: &[Value]) {
        self.builder().store(op, ty, access, args);
    }

    /// Emits an update of memory in lanes with values of type `ty`; with `has_result`, returns the old contents.
    pub(crate) fn update_lanes(
        &mut self,
        desc: Desc,
        ty: Type,
        args: &[Value],
        has_result: bool,
    ) -> Option<Value> {
        self.builder().update(desc, ty, args, has_result)
    }

    /// Emits an instruction without type and results.
    pub(crate) fn effect(&mut self, op: Op, args: &[Value]) {
        let head = (op, None, Data::Nothing);
        self.builder().append(head, args, &[], &[]);
    }

    pub(crate) fn trap_if(&mut self, cause: u64, condition: Value) {
        self.builder().trap(cause, Some(condition));
    }

    /// Emits a call of a helper.
    pub(crate) fn call_helper(
        &mut self,
        helper: u64,
        args: &[Value],
        results: &[Type],
    ) -> Vec<Value> {
        let head = (Op::Call, None, Data::Number(helper));
        let inst: Inst = self.builder().append(head, args, results, &[]);
        self.out.results(inst).to_vec()
    }

    /// Ends a block with a trap.
    pub(crate) fn trap(&mut self, cause: u64) {
        self.builder().trap(cause, None);
    }

    pub(crate) fn ret(&mut self, values: &[Value]) {
        self.builder().ret(values);
    }

    /// Emits a terminator with targets.
    fn terminate(&mut self, op: Op, args: &[Value], targets: &[BlockCall]) {
        let inst: Inst = self
            .builder()
            .append((op, None, Data::Nothing), args, &[], targets);
        for (index, call) in targets.iter().enumerate() {
            self.variables.branch(self.at, call.block, (inst, index));
        }
    }

    pub(crate) fn jump(&mut self, to: Block) {
        self.terminate(Op::Jump, &[], &[BlockCall::to(to)]);
    }

    pub(crate) fn brif(&mut self, condition: Value, then: Block, other: Block) {
        if let Some(bits) = self.out.constant(condition) {
            return self.jump(if bits == 0 { other } else { then });
        }
        let targets = [then, other].map(BlockCall::to);
        self.terminate(Op::Brif, &[condition], &targets);
    }

    pub(crate) fn br_table(&mut self, index: Value, targets: &[Block]) {
        let targets: Vec<BlockCall> = targets.iter().copied().map(BlockCall::to).collect();
        self.terminate(Op::BrTable, &[index], &targets);
    }

    /// Runs `emit` at the start of the function.
    pub(crate) fn at_start<T>(&mut self, emit: impl FnOnce(&mut Self) -> T) -> T {
        let (at, place) = (self.at, self.place);
        (self.at, self.place) = (self.start, 0);
        let result = emit(self);
        (self.at, self.place) = (at, place);
        result
    }

    /// Returns a field of the context that does not change during a launch.
    pub(crate) fn field(&mut self, offset: u32, ty: Type) -> Value {
        if let Some(&value) = self.fields.get(&(offset, ty)) {
            return value;
        }
        let ctx = self.ctx;
        let value = self.at_start(|e| {
            let address = e.add_constant(ctx, i64::from(offset));
            e.load(Op::Load, ty, scalar_access(ty.kind().op_type()), &[address])
        });
        self.fields.insert((offset, ty), value);
        value
    }

    /// Stores a 32-bit or 64-bit scalar in a field of the context.
    pub(crate) fn set_field(&mut self, offset: u32, value: Value) {
        let ty = self.out.ty(value);
        let args = [self.ctx, value];
        self.store(Op::Store, ty, context_access(ty, offset), &args);
    }
}

/// Returns the description of an operation.
pub(crate) fn desc(opcode: Opcode, ty: OpType, src: OpType, mods: Mods) -> Desc {
    Desc {
        opcode,
        ty,
        src,
        mods,
    }
}

/// Returns the access of a scalar.
pub(crate) fn scalar_access(memory: OpType) -> Access {
    Access::new(memory, 0)
}

/// Returns the access of a field of the context.
pub(crate) fn context_access(ty: Type, offset: u32) -> Access {
    Access {
        displacement: offset as i32,
        ..scalar_access(ty.kind().op_type())
    }
}

/// Returns the unsigned integer type of operations on values of an integer type.
pub(crate) fn unsigned(ty: Type) -> OpType {
    match ty.lane_bits() {
        64 => OpType::U64,
        16 => OpType::U16,
        _ => OpType::U32,
    }
}

/// Returns a value with ones in the bits of a lane.
pub(crate) fn ones(ty: Type) -> u64 {
    u64::MAX >> (64 - ty.lane_bits().clamp(1, 64))
}
