//! Control flow of a chunk. The code of an IR block can be emitted twice: once for chunks of which
//! all lanes run, and once as masked code, for chunks of which only some lanes run.
//!
//! The masked blocks are in the order of [`Linear`]; a *position* is an index in this order. Each masked block has a
//! variable with the mask of the lanes that will run the block, and a block with an empty mask is skipped. The first
//! edge to a block, in the order of the positions, sets the block's mask and parameters, and later edges add their
//! lanes. If this first edge leaves a loop, it can add lanes in several iterations. The code then clears the mask before
//! it enters the loop, and every edge adds its lanes. Lanes that branch back to a loop's header wait at the end of the
//! loop.
//!
//! Invariant: while the block at a position runs, no lane waits at an earlier position.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use cranelift_frontend::Variable;
use margay_exec::SyncPoint;
use margay_ir::analysis::Linear;
use margay_ir::analysis::loops::Span;
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Block, Inst, Value};
use margay_ir::function::{BlockCall, Function};
use margay_ops::ops::Opcode;
use rustc_hash::{FxHashMap, FxHashSet};

use super::collective::Pass;
use super::{Lanes, NOBODY, Slice, Vars};
use crate::emit::clif_type;
use crate::emit::lane::{EmitError, host};

/// The blocks and variables of the masked code.
#[derive(Default)]
pub(super) struct Masked {
    /// For each position, the Cranelift block at which the position's code begins. The last element is the block after
    /// all positions.
    at: Vec<ir::Block>,
    /// The Cranelift blocks at the ends of loops, by loop index.
    ends: Vec<ir::Block>,
    /// For each position, the variables with the mask of the lanes that will run it.
    masks: Vec<Vars>,
    /// For each loop, by index, the variables with the mask of the lanes that wait at the loop's end for the next
    /// iteration.
    back: Vec<Vars>,
    /// For parameters of loop headers, the variables with their values in the next iteration, for the lanes in `back`.
    back_params: FxHashMap<Value, Vars>,
    back_scalars: FxHashMap<Value, Variable>,
    back_holds: FxHashMap<Value, Variable>,
    /// For each position, the code that is the first to write the position's mask.
    toucher: Vec<Toucher>,
    /// The positions whose masks the block being translated has already written.
    touched: FxHashSet<u32>,
    /// Position of the block being translated.
    here: u32,
    /// Whether any code jumps to the masked code.
    entered: bool,
}

/// The code that is the first to write the mask of a position. All other code adds lanes to this mask.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Toucher {
    /// No edge leads to the position.
    #[default]
    Nobody,
    /// The code of the IR block at this position.
    Block(u32),
    /// The code that enters the loop whose header is at a position.
    Loop(u32),
}

/// Finds the code that is the first to write the mask of each position.
fn touchers(function: &Function, linear: &Linear) -> Vec<Toucher> {
    let mut touchers = vec![Toucher::Nobody; linear.order.len()];
    let ahead = |from: Block, behind: u32| {
        linear
            .onward(function, from)
            .filter_map(|to| linear.position(to))
            .filter(move |&to| to >= behind)
    };
    for (position, &block) in linear.order.iter().enumerate() {
        let position = position as u32;
        if let Some(number) = linear.loop_at(position) {
            let span = linear.loops[number];
            for &from in &linear.order[span.start as usize..span.end as usize] {
                for to in ahead(from, span.end) {
                    if touchers[to as usize] == Toucher::Nobody {
                        touchers[to as usize] = Toucher::Loop(position);
                    }
                }
            }
        }
        for to in ahead(block, position + 1) {
            if touchers[to as usize] == Toucher::Nobody {
                touchers[to as usize] = Toucher::Block(position);
            }
        }
    }
    touchers
}

/// Maximum number of vectors that hold the masks of the blocks in loops, where a block counts once for each loop that
/// contains it. Each iteration of a loop passes the masks of its blocks on, so time and memory to compile grow with the
/// square of this number in irreducible control flow, which has a loop in almost every block. The number is below 300
/// in the benchmarks; above 2,000, compiling takes more than a second.
const MAX_IN_LOOPS: usize = 2_000;

impl Slice<'_, '_> {
    /// Creates the blocks and variables of the masked code. After this call, other code may jump to the masked code.
    ///
    /// # Errors
    /// Returns [`EmitError::TooLarge`] if the loops would pass too many masks from one iteration to
    /// the next.
    pub(crate) fn prepare(&mut self) -> Result<(), EmitError> {
        let spans = self.view.linear.loops.iter();
        let inside: usize = spans.map(|span| (span.end - span.start) as usize).sum();
        if inside * (self.view.width as usize / 4) > MAX_IN_LOOPS {
            return Err(EmitError::TooLarge("too many blocks in nested loops"));
        }
        let positions = self.view.linear.order.len();
        let loops = self.view.linear.loops.len();
        self.masked.at = (0..=positions)
            .map(|_| self.lane.b.create_block())
            .collect();
        self.masked.ends = (0..loops).map(|_| self.lane.b.create_block()).collect();
        self.masked.masks = (0..positions).map(|_| self.declare(types::I32X4)).collect();
        self.masked.back = (0..loops).map(|_| self.declare(types::I32X4)).collect();
        self.masked.toucher = touchers(self.lane.function, self.view.linear);
        Ok(())
    }

    /// Emits code that clears the masks of all positions whose masks are first written by the code
    /// `toucher`.
    fn none_touched(&mut self, toucher: Toucher) {
        let all = self.masked.toucher.iter().zip(&self.masked.masks);
        let vars: Vec<Vars> = all
            .filter(|(first, _)| **first == toucher)
            .map(|(_, vars)| vars.clone())
            .collect();
        if vars.is_empty() {
            return;
        }
        let none = self.no_lanes();
        for vars in vars {
            self.def_vars(&vars, &none);
        }
    }

    /// Translates all blocks to which emitted code jumps.
    pub(crate) fn translate(&mut self) -> Result<(), EmitError> {
        self.drain()?;
        if self.masked.entered {
            self.masked_code()?;
            self.drain()?;
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<(), EmitError> {
        while let Some(block) = self.work.pop() {
            let target = self.full[&block];
            self.lane.b.switch_to_block(target);
            self.mask = None;
            self.sure = true;
            self.instructions(block)?;
            self.sure = false;
        }
        Ok(())
    }

    /// Returns a stricter condition than `whole` for running the code for whole chunks: CTA range
    /// analysis must also have proved the checks that this code assumes to hold.
    pub(super) fn surely(&mut self, whole: ir::Value) -> ir::Value {
        match self.hoisted.extents().assured() {
            Some(assured) => {
                let assured = self.lane.b.use_var(assured);
                self.lane.b.ins().band(whole, assured)
            }
            None => whole,
        }
    }

    /// Returns the Cranelift block with the code that all lanes of a chunk run for an IR block. At the first call for
    /// an IR block, queues it for translation.
    pub(crate) fn full_block(&mut self, block: Block) -> ir::Block {
        if let Some(&known) = self.full.get(&block) {
            return known;
        }
        let new = self.lane.b.create_block();
        self.full.insert(block, new);
        self.work.push(block);
        new
    }

    /// Emits code that enters the masked code at the block `entry` with the lanes of `mask`.
    pub(crate) fn start_masked(&mut self, entry: Block, mask: &Lanes) {
        self.clear_masks();
        let Some(position) = self.view.linear.position(entry) else {
            return;
        };
        let vars = self.masked.masks[position as usize].clone();
        self.def_vars(&vars, mask);
        let at = self.masked.at[position as usize];
        self.lane.b.ins().jump(at, &[]);
    }

    fn clear_masks(&mut self) {
        self.masked.entered = true;
        let none = self.no_lanes();
        let all: Vec<Vars> = self
            .masked
            .masks
            .iter()
            .chain(&self.masked.back)
            .cloned()
            .collect();
        for vars in all {
            self.def_vars(&vars, &none);
        }
    }

    /// Emits the conversion of a mask with 32 or 64 bits per lane to a mask with 32 bits per lane.
    pub(super) fn narrow_mask(&mut self, mask: Lanes) -> Lanes {
        if self.lane.b.func.dfg.value_type(mask[0]).lane_bits() == 32 {
            return mask;
        }
        mask.chunks(2)
            .map(|pair| self.low_words(pair[0], pair[1]))
            .collect()
    }

    // Edges.

    pub(super) fn terminate(&mut self, inst: Inst) -> Result<(), EmitError> {
        let data = self.lane.function.dfg.insts[inst];
        let targets = self.lane.function.dfg.targets(inst);
        match data.opcode {
            Opcode::Jump => self.go(&targets[0]),
            Opcode::Brif => self.branch(inst, targets),
            Opcode::BrTable => self.branch_table(inst, targets),
            Opcode::Exit | Opcode::Ret => self.stop(SyncPoint::EXIT),
            Opcode::Trap => self.abort(crate::abi::status::TRAP),
            Opcode::InvalidPc => self.abort(crate::abi::status::INVALID_PC),
            _ => self.abort(crate::abi::status::UNREACHABLE),
        }
    }

    /// Emits code that stores the thread of the first active lane in the context and leaves the native function.
    fn abort(&mut self, code: i32) -> Result<(), EmitError> {
        self.note_first();
        self.lane.abort(code);
        Ok(())
    }

    /// Emits the jump along an edge that all running lanes take.
    pub(super) fn go(&mut self, call: &BlockCall) -> Result<(), EmitError> {
        match self.mask.clone() {
            None => self.full_edge(call),
            Some(mask) => {
                self.masked_edge(call, &mask, None)?;
                self.next_position();
                Ok(())
            }
        }
    }

    fn branch(&mut self, inst: Inst, targets: &[BlockCall]) -> Result<(), EmitError> {
        let condition = self.lane.function.dfg.args(inst)[0];
        if targets[0].block == targets[1].block && targets[0].args == targets[1].args {
            return self.go(&targets[0]);
        }
        let uniform = self.is_uniform(condition);
        if let Some(mask) = self.mask.clone() {
            let scalar = uniform.then(|| self.lane.get(condition));
            let lanes = self.get(condition)?;
            let taken = self.and(&mask, &lanes);
            let not = self.and_not(&mask, &lanes);
            self.masked_edge(&targets[0], &taken, scalar)?;
            let scalar = scalar.map(|c| self.lane.b.ins().bxor_imm_u(c, 1));
            self.masked_edge(&targets[1], &not, scalar)?;
            self.next_position();
            return Ok(());
        }
        let [then, other] = std::array::from_fn(|_| self.lane.b.create_block());
        if uniform {
            let scalar = self.lane.get(condition);
            self.lane.b.ins().brif(scalar, then, &[], other, &[]);
        } else {
            self.ask(condition, targets, [then, other]);
            if let Some(decided) = self.decide(condition) {
                let [not_all, unknown] = std::array::from_fn(|_| self.lane.b.create_block());
                let b = &mut *self.lane.b;
                b.ins().brif(decided.all, then, &[], not_all, &[]);
                b.switch_to_block(not_all);
                b.ins().brif(decided.none, other, &[], unknown, &[]);
                b.switch_to_block(unknown);
            }
            let lanes = self.get(condition)?;
            let all = self.all(&lanes);
            let [some, split] = std::array::from_fn(|_| self.lane.b.create_block());
            self.lane.b.ins().brif(all, then, &[], some, &[]);
            self.lane.b.switch_to_block(some);
            let any = self.any(&lanes);
            self.lane.b.ins().brif(any, split, &[], other, &[]);
            self.lane.b.switch_to_block(split);
            let every = self.all_lanes();
            let not = self.and_not(&every, &lanes);
            self.part(&[(&targets[0], lanes), (&targets[1], not)])?;
        }
        for (block, call) in [(then, &targets[0]), (other, &targets[1])] {
            self.lane.b.switch_to_block(block);
            self.made.clear();
            self.full_edge(call)?;
        }
        Ok(())
    }

    /// Emits a branch to `ways[0]` that is taken if CTA range analysis has proved the condition for
    /// the CTA, and a branch to `ways[1]` that is taken if the analysis has disproved it. Emits no
    /// branch for an edge to a block that only exits.
    fn ask(&mut self, condition: Value, targets: &[BlockCall], ways: [ir::Block; 2]) {
        if !self.conditions.contains(&condition) {
            return;
        }
        let Some(answer) = self.hoisted.extents().answer(condition) else {
            return;
        };
        let function = self.lane.function;
        let ends = |call: &BlockCall| {
            let insts = function.insts(call.block);
            matches!(insts, &[inst] if function.dfg.insts[inst].opcode == Opcode::Exit)
        };
        let answers = [(answer.all, ways[0]), (answer.none, ways[1])];
        for ((answer, way), call) in answers.into_iter().zip(targets) {
            let Some(answer) = answer else { continue };
            if ends(call) {
                continue;
            }
            let decided = self.lane.b.use_var(answer);
            let unknown = self.lane.b.create_block();
            self.lane.b.ins().brif(decided, way, &[], unknown, &[]);
            self.lane.b.switch_to_block(unknown);
        }
    }

    /// Emits an edge that all lanes of the chunk take, to code for whole chunks.
    pub(super) fn full_edge(&mut self, call: &BlockCall) -> Result<(), EmitError> {
        self.freeze(call.block, None)?;
        self.pass(call, None, None, true)?;
        let target = self.full_block(call.block);
        self.lane.b.ins().jump(target, &[]);
        Ok(())
    }

    /// Emits the edges of a branch at which lanes diverge, from code for whole chunks to masked code.
    pub(super) fn part(&mut self, ways: &[(&BlockCall, Lanes)]) -> Result<(), EmitError> {
        self.clear_masks();
        let here = self.view.linear.position(self.block);
        let mut reached: FxHashSet<(bool, u32)> = FxHashSet::default();
        let mut begin: Option<((u32, bool, u32), ir::Block)> = None;
        for (call, mask) in ways {
            let Some(to) = self.view.linear.position(call.block) else {
                continue;
            };
            let back = here.is_some_and(|here| to <= here);
            let number = self.view.linear.loop_at(to);
            let (key, start) = match number {
                Some(number) if back => {
                    let Span { start, end } = self.view.linear.loops[number];
                    // The end of an inner loop precedes the end of an outer loop.
                    ((end, false, u32::MAX - start), self.masked.ends[number])
                }
                _ => ((to, true, 0), self.masked.at[to as usize]),
            };
            let first = reached.insert((back, to));
            self.add_lanes(call, mask, None, first)?;
            if begin.is_none_or(|(known, _)| key < known) {
                begin = Some((key, start));
            }
        }
        if let Some((_, start)) = begin {
            self.lane.b.ins().jump(start, &[]);
        }
        Ok(())
    }

    /// Emits, in masked code, an edge that the lanes of `mask` take. If `taken` is given, it is a value that is zero if
    /// no lane takes this edge.
    pub(super) fn masked_edge(
        &mut self,
        call: &BlockCall,
        mask: &Lanes,
        taken: Option<ir::Value>,
    ) -> Result<(), EmitError> {
        let Some(to) = self.view.linear.position(call.block) else {
            return Ok(());
        };
        let mine = self.masked.toucher[to as usize] == Toucher::Block(self.masked.here);
        let first = mine && self.masked.touched.insert(to);
        self.add_lanes(call, mask, taken, first)
    }

    /// Emits code that adds the lanes of an edge to the mask of the edge's target. `first` is true if this edge is the
    /// first to write the mask.
    fn add_lanes(
        &mut self,
        call: &BlockCall,
        mask: &Lanes,
        taken: Option<ir::Value>,
        first: bool,
    ) -> Result<(), EmitError> {
        let Some(to) = self.view.linear.position(call.block) else {
            return Ok(());
        };
        self.freeze(call.block, Some(mask))?;
        let here = self.view.linear.position(self.block);
        let back = here.is_some_and(|here| to <= here);
        let vars = match self.view.linear.loop_at(to) {
            Some(number) if back => {
                self.pass_back(call, mask, taken)?;
                self.masked.back[number].clone()
            }
            _ => {
                self.pass(call, Some(mask), taken, first)?;
                self.masked.masks[to as usize].clone()
            }
        };
        let all = if first && !back {
            mask.clone()
        } else {
            let waiting = self.use_vars(&vars);
            self.or(&waiting, mask)
        };
        self.def_vars(&vars, &all);
        Ok(())
    }

    /// Emits code that saves, for lanes that leave a loop, the values that the loop defines and code outside the loop
    /// uses.
    fn freeze(&mut self, to: Block, mask: Option<&Lanes>) -> Result<(), EmitError> {
        let from = self.block;
        let loops = self.view.uniformity.loops();
        let leaving: Vec<Value> = self
            .leaving
            .iter()
            .filter(|&&(_, number)| loops.contains(number, from) && !loops.contains(number, to))
            .map(|&(value, _)| value)
            .collect();
        for value in leaving {
            let lanes = self.get(value)?;
            let vars = self.frozen(value)?;
            let kept = match mask {
                None => lanes,
                Some(mask) => {
                    let old = self.use_vars(&vars);
                    self.blend(mask, &lanes, &old)
                }
            };
            self.def_vars(&vars, &kept);
        }
        Ok(())
    }

    /// Emits code that sets the parameters of a block: for all lanes if there is no mask or if this is the first edge,
    /// otherwise for the lanes of the mask.
    fn pass(
        &mut self,
        call: &BlockCall,
        mask: Option<&Lanes>,
        taken: Option<ir::Value>,
        first: bool,
    ) -> Result<(), EmitError> {
        let params = self.lane.function.dfg.blocks[call.block].params.clone();
        let uniformity = self.view.uniformity;
        let mut vectors: Vec<(Value, Lanes)> = Vec::new();
        let mut in_memory: Vec<(Value, Value)> = Vec::new();
        let mut scalars: Vec<(Value, ir::Value)> = Vec::new();
        let mut guards: Vec<(Value, ir::Value)> = Vec::new();
        for (&param, &arg) in params.iter().zip(&call.args) {
            if uniformity.class(param) != Class::Varying {
                scalars.push((param, self.lane.get(arg)));
                continue;
            }
            match mask {
                None if self.in_memory(param) => in_memory.push((param, arg)),
                Some(mask) if !first => {
                    let (lanes, old) = (self.get(arg)?, self.own(param)?);
                    vectors.push((param, self.blend(mask, &lanes, &old)));
                }
                _ => vectors.push((param, self.get(arg)?)),
            }
            if self.view.speculative.stride(param).is_some() {
                let holds = self.holds_or_is(arg);
                guards.push((param, holds));
                scalars.push((param, self.lane.get(arg)));
            }
        }
        self.pass_in_memory(&in_memory)?;
        for (param, holds) in guards {
            let var = self.holds_var(param);
            self.choose(var, holds, taken.filter(|_| !first));
        }
        for (param, lanes) in vectors {
            self.set(param, &lanes)?;
        }
        for (param, bits) in scalars {
            let bits = match taken {
                Some(taken) if !first => {
                    let old = self.lane.get(param);
                    self.lane.b.ins().select(taken, bits, old)
                }
                _ => bits,
            };
            self.made.remove(&param);
            self.lane.set(param, bits);
        }
        Ok(())
    }

    /// Sets parameters whose lanes are kept in memory: emits code that writes the lanes of these parameters if the
    /// check of an argument fails.
    fn pass_in_memory(&mut self, params: &[(Value, Value)]) -> Result<(), EmitError> {
        let args: Vec<Value> = params.iter().map(|&(_, arg)| arg).collect();
        let Some(all) = self.all_hold(&args, None) else {
            return Ok(());
        };
        self.unless(all, |s| {
            let lanes: Vec<Lanes> = params
                .iter()
                .map(|&(_, arg)| s.get(arg))
                .collect::<Result<_, _>>()?;
            for (&(param, _), lanes) in params.iter().zip(&lanes) {
                s.keep_in_memory(param, lanes)?;
            }
            Ok(())
        })
    }

    /// For lanes that branch back to a loop's header, emits code that saves the arguments of the branch. These
    /// arguments become the header's parameters in the next iteration.
    fn pass_back(
        &mut self,
        call: &BlockCall,
        mask: &Lanes,
        taken: Option<ir::Value>,
    ) -> Result<(), EmitError> {
        let params = self.lane.function.dfg.blocks[call.block].params.clone();
        for (&param, &arg) in params.iter().zip(&call.args) {
            if self.view.uniformity.class(param) == Class::Varying {
                let lanes = self.get(arg)?;
                let vars = self.back_vars(param)?;
                let old = self.use_vars(&vars);
                let lanes = self.blend(mask, &lanes, &old);
                self.def_vars(&vars, &lanes);
                if self.view.speculative.stride(param).is_none() {
                    continue;
                }
                let holds = self.holds_or_is(arg);
                let var = self.back_holds(param);
                self.choose(var, holds, taken);
            }
            let bits = self.lane.get(arg);
            let var = self.back_scalar(param);
            self.choose(var, bits, taken);
        }
        Ok(())
    }

    /// Emits code that sets a variable. If `taken` is given, the code changes the variable only if `taken` is nonzero.
    fn choose(&mut self, var: Variable, bits: ir::Value, taken: Option<ir::Value>) {
        let bits = match taken {
            Some(taken) => {
                let old = self.lane.b.use_var(var);
                self.lane.b.ins().select(taken, bits, old)
            }
            None => bits,
        };
        self.lane.b.def_var(var, bits);
    }

    /// Returns a value that is nonzero if the argument for a speculatively affine parameter is affine.
    fn holds_or_is(&mut self, arg: Value) -> ir::Value {
        match self.holds(arg) {
            Some(holds) => holds,
            None => self.lane.b.ins().iconst(types::I8, 1),
        }
    }

    fn back_holds(&mut self, param: Value) -> Variable {
        match self.masked.back_holds.get(&param) {
            Some(&var) => var,
            None => {
                let var = self.lane.b.declare_var(types::I8);
                self.masked.back_holds.insert(param, var);
                var
            }
        }
    }

    fn back_vars(&mut self, param: Value) -> Result<Vars, EmitError> {
        if let Some(vars) = self.masked.back_params.get(&param) {
            return Ok(vars.clone());
        }
        let ty = super::vector_type(self.lane.function.dfg.ty(param))?;
        let vars = self.declare(ty);
        self.masked.back_params.insert(param, vars.clone());
        Ok(vars)
    }

    fn back_scalar(&mut self, param: Value) -> Variable {
        let ty = clif_type(self.lane.function.dfg.ty(param));
        match self.masked.back_scalars.get(&param) {
            Some(&var) => var,
            None => {
                let var = self.lane.b.declare_var(ty);
                self.masked.back_scalars.insert(param, var);
                var
            }
        }
    }

    // The masked code.

    fn masked_code(&mut self) -> Result<(), EmitError> {
        let linear = self.view.linear;
        for (position, &block) in linear.order.iter().enumerate() {
            let position = position as u32;
            self.turn(position, block)?;
            // Emits the ends of the loops whose last block is at this position, inner loops first.
            for number in (0..linear.loops.len()).rev() {
                if linear.loops[number].end == position + 1 {
                    self.end_of_loop(number)?;
                }
            }
        }
        let last = self.masked.at[linear.order.len()];
        self.lane.b.switch_to_block(last);
        self.lane.b.ins().jump(self.ends.done, &[]);
        Ok(())
    }

    /// Emits the masked code of a block.
    fn turn(&mut self, position: u32, block: Block) -> Result<(), EmitError> {
        let at = self.masked.at[position as usize];
        self.lane.b.switch_to_block(at);
        if let Some(number) = self.view.linear.loop_at(position) {
            let none = self.no_lanes();
            let back = self.masked.back[number].clone();
            self.def_vars(&back, &none);
        }
        self.masked.here = position;
        self.block = block;
        let vars = self.masked.masks[position as usize].clone();
        let mask = self.use_vars(&vars);
        let any = self.any(&mask);
        let [body, skip] = std::array::from_fn(|_| self.lane.b.create_block());
        self.lane.b.ins().brif(any, body, &[], skip, &[]);
        self.lane.b.switch_to_block(body);
        if self.may_have_met(position, block) {
            let all = self.all(&mask);
            let all = self.surely(all);
            let part = self.lane.b.create_block();
            let full = self.full_block(block);
            self.lane.b.ins().brif(all, full, &[], part, &[]);
            self.lane.b.switch_to_block(part);
        }
        self.mask = Some(mask);
        self.masked.touched.clear();
        self.instructions(block)?;
        self.mask = None;
        self.lane.b.switch_to_block(skip);
        self.none_touched(Toucher::Block(position));
        self.next_position();
        Ok(())
    }

    /// Returns whether lanes that took different edges may have reconverged at the start of the
    /// current block.
    fn may_have_met(&self, position: u32, block: Block) -> bool {
        let linear = self.view.linear;
        let function = self.lane.function;
        let ahead = |from: Block| linear.position(from).is_some_and(|at| at < position);
        let edges = |forwards: bool| {
            linear
                .order
                .iter()
                .filter(|&&from| ahead(from) == forwards)
                .flat_map(|&from| linear.onward(function, from))
                .filter(|&to| to == block)
                .count()
        };
        match linear.loop_at(position) {
            Some(_) => edges(false) > 1 || edges(true) > 1,
            None => edges(true) > 1,
        }
    }

    /// Emits a jump to the next position. If loops end after the current position, the jump leads to the end of the
    /// innermost of these loops instead.
    pub(super) fn next_position(&mut self) {
        let linear = self.view.linear;
        let next = self.masked.here + 1;
        let inner = (0..linear.loops.len())
            .rev()
            .find(|&number| linear.loops[number].end == next);
        match inner {
            Some(number) => {
                let end = self.masked.ends[number];
                self.lane.b.ins().jump(end, &[]);
            }
            None => self.enter_position(next),
        }
    }

    /// Emits a jump forwards to a position. If a loop begins there, the code first clears the masks
    /// whose first writer is an edge out of the loop, because such an edge can add lanes in every
    /// iteration.
    fn enter_position(&mut self, next: u32) {
        self.none_touched(Toucher::Loop(next));
        let at = self.masked.at[next as usize];
        self.lane.b.ins().jump(at, &[]);
    }

    fn end_of_loop(&mut self, number: usize) -> Result<(), EmitError> {
        let linear = self.view.linear;
        let span = linear.loops[number];
        let end = self.masked.ends[number];
        self.lane.b.switch_to_block(end);
        let vars = self.masked.back[number].clone();
        let back = self.use_vars(&vars);
        let any = self.any(&back);
        let [round, out] = std::array::from_fn(|_| self.lane.b.create_block());
        self.lane.b.ins().brif(any, round, &[], out, &[]);

        self.lane.b.switch_to_block(round);
        let header = linear.order[span.start as usize];
        let params = self.lane.function.dfg.blocks[header].params.clone();
        for param in params {
            if let Some(from) = self.masked.back_params.get(&param).cloned() {
                let lanes = self.use_vars(&from);
                self.set(param, &lanes)?;
            }
            if let Some(&var) = self.masked.back_holds.get(&param) {
                let holds = self.lane.b.use_var(var);
                let var = self.holds_var(param);
                self.lane.b.def_var(var, holds);
            }
            if let Some(&var) = self.masked.back_scalars.get(&param) {
                let bits = self.lane.b.use_var(var);
                self.lane.set(param, bits);
            }
        }
        let none = self.no_lanes();
        for position in span.start + 1..span.end {
            let vars = self.masked.masks[position as usize].clone();
            self.def_vars(&vars, &none);
        }
        let vars = self.masked.masks[span.start as usize].clone();
        self.def_vars(&vars, &back);
        let start = self.masked.at[span.start as usize];
        self.lane.b.ins().jump(start, &[]);

        self.lane.b.switch_to_block(out);
        let outer = (0..number)
            .rev()
            .find(|&outer| linear.loops[outer].end == span.end);
        match outer {
            Some(outer) => {
                let end = self.masked.ends[outer];
                self.lane.b.ins().jump(end, &[]);
            }
            None => self.enter_position(span.end),
        }
        Ok(())
    }

    // Stops.

    /// Emits code that stops the active lanes at a sync point or at the end of the kernel.
    pub(super) fn stop(&mut self, stop: SyncPoint) -> Result<(), EmitError> {
        if let Some(sweep) = self.ends.sweep {
            sweep.stop(self.lane.b, stop, self.mask.is_none());
        }
        self.stop_apart(stop)
    }

    /// Emits code that stops the active lanes. This code runs only if the uniform path is not
    /// active.
    fn stop_apart(&mut self, stop: SyncPoint) -> Result<(), EmitError> {
        if !self.sync_points.contains(&stop) {
            self.sync_points.push(stop);
        }
        self.note_stop(stop);
        match self.mask {
            None => {
                self.lane.b.ins().jump(self.ends.done, &[]);
            }
            Some(_) => {
                self.none_touched(Toucher::Block(self.masked.here));
                self.next_position();
            }
        }
        Ok(())
    }

    fn note_stop(&mut self, stop: SyncPoint) {
        let (Some(frame), Some(common), Some(diverged)) =
            (self.lane.here.frame, self.ends.common, self.ends.diverged)
        else {
            return;
        };
        let number = i64::from(stop.0 as i32);
        let words = self.constant(types::I32X4, number as u64);
        let b = &mut *self.lane.b;
        let offset = b.ins().ishl_imm_u(self.lane.here.lane, 2);
        let at = b.ins().iadd(frame, offset);
        let mask = self.mask.clone();
        for i in 0..self.count(types::I32X4) {
            let b = &mut *self.lane.b;
            let words = match &mask {
                None => words,
                Some(mask) => {
                    let old = b.ins().load(types::I32X4, host(), at, 16 * i as i32);
                    b.ins().bitselect(mask[i], words, old)
                }
            };
            b.ins().store(host(), words, at, 16 * i as i32);
        }
        let b = &mut *self.lane.b;
        let number = b.ins().iconst(types::I32, number);
        let known = b.use_var(common);
        let nobody = b.ins().icmp_imm_s(IntCC::Equal, known, i64::from(NOBODY));
        let agreed = b.ins().select(nobody, number, known);
        b.def_var(common, agreed);
        let differs = b.ins().bxor(agreed, number);
        let so_far = b.use_var(diverged);
        let now = b.ins().bor(so_far, differs);
        b.def_var(diverged, now);
    }

    /// Emits the code for a sync point. Returns true if the emitted code ends the block.
    pub(super) fn point(&mut self, inst: Inst) -> Result<bool, EmitError> {
        let data = self.lane.function.dfg.insts[inst];
        let stop = self
            .lane
            .regions
            .and_then(|regions| regions.sync_point(inst));
        let Some(stop) = stop else {
            return match data.opcode {
                // Without frames, lanes cannot wait, so only operations that do not need to wait are supported.
                Opcode::Nanosleep => Ok(false),
                _ => self.lane.refuse(&data),
            };
        };
        if data.opcode == Opcode::Yield {
            self.yield_when_due(inst, stop)?;
            return Ok(false);
        }
        if data.opcode == Opcode::Converge && self.view.width == 32 {
            // `converge` has no effect here, because the active lanes already run together.
            return Ok(false);
        }
        if self.mask.is_none() && self.view.width == 32 {
            match self.passing(inst, &data)? {
                Some(Pass::Always) => {
                    self.complete(inst, &data)?;
                    return Ok(false);
                }
                Some(Pass::If(members)) => {
                    self.stop_unless(members, inst, stop)?;
                    self.complete(inst, &data)?;
                    return Ok(false);
                }
                None => {}
            }
        }
        if let (Some(sweep), None) = (self.ends.sweep, &self.mask)
            && let Some(on) = sweep.at_barrier(self.lane.b, stop)
        {
            let made = self.made.clone();
            self.save_briefly(inst, stop)?;
            sweep.arrive(self.lane.b, stop);
            self.made = made;
            self.lane.b.switch_to_block(on);
            self.save_behind(inst)?;
            self.stop_apart(stop)?;
            return Ok(true);
        }
        self.save_behind(inst)?;
        self.stop(stop)?;
        Ok(true)
    }

    /// Emits code that stops all lanes at a sync point if `condition` is false. All lanes must be active.
    fn stop_unless(
        &mut self,
        condition: ir::Value,
        inst: Inst,
        stop: SyncPoint,
    ) -> Result<(), EmitError> {
        let [on, wait] = std::array::from_fn(|_| self.lane.b.create_block());
        self.lane.b.ins().brif(condition, on, &[], wait, &[]);
        let made = self.made.clone();
        self.lane.b.switch_to_block(wait);
        self.save_behind(inst)?;
        self.stop(stop)?;
        self.made = made;
        self.lane.b.switch_to_block(on);
        Ok(())
    }

    /// Emits code that counts the turns of one iteration of a waiting loop, and that makes the lanes yield when no
    /// turns are left.
    fn yield_when_due(&mut self, inst: Inst, stop: SyncPoint) -> Result<(), EmitError> {
        let go_on = self.lane.count_turn(inst);
        self.save_behind(inst)?;
        self.stop(stop)?;
        self.lane.b.switch_to_block(go_on);
        self.made.clear();
        Ok(())
    }

    pub(super) fn and(&mut self, a: &Lanes, b: &Lanes) -> Lanes {
        a.iter()
            .zip(b)
            .map(|(&a, &b)| self.lane.b.ins().band(a, b))
            .collect()
    }

    pub(super) fn or(&mut self, a: &Lanes, b: &Lanes) -> Lanes {
        a.iter()
            .zip(b)
            .map(|(&a, &b)| self.lane.b.ins().bor(a, b))
            .collect()
    }

    pub(super) fn and_not(&mut self, a: &Lanes, b: &Lanes) -> Lanes {
        a.iter()
            .zip(b)
            .map(|(&a, &b)| self.lane.b.ins().band_not(a, b))
            .collect()
    }
}
