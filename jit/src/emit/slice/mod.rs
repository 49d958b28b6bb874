//! Vector code: translation for a *chunk* of 4, 8, 16 or 32 neighbouring lanes of a warp.
//!
//! Of values that [`Uniformity`] classifies as uniform or affine, only the value of the chunk's first lane is computed.
//! [`Lane`] emits this code, as it does in scalar code. Varying values are [`Lanes`]: 128-bit vectors of four 32-bit
//! lanes or two 64-bit lanes. Predicates are masks of 32 bits per lane; narrower integers are zero-extended to 32 bits.
//! Operations without a vector form run lane by lane ([`each`]).
//!
//! The code of an IR block can be emitted twice ([`control`]): once with real branches, for chunks
//! whose lanes are all active, and once as masked code, in the order of [`Linear`]. A branch at
//! which the lanes diverge leads from the code with real branches to the masked code. Where all
//! lanes have reconverged, the masked code branches back. Lanes stop at a sync point, except at a `yield` while turns
//! are left, and except if a whole warp can complete the sync point in registers ([`collective`]).
//!
//! Invariant: inactive lanes access no memory except a scratch cell of the function.

mod brief;
mod check;
pub(crate) mod collective;
pub(crate) mod control;
pub(crate) mod convert;
mod count;
pub(crate) mod decide;
pub(crate) mod directed;
pub(crate) mod each;
pub(crate) mod entries;
pub(crate) mod extent;
pub(crate) mod float;
pub(crate) mod guard;
pub(crate) mod halves;
pub(crate) mod hoist;
mod known;
pub(crate) mod memory;
mod observe;
pub(crate) mod ops;
mod reach;
mod table;
mod texture;
pub(crate) mod values;

use cranelift_codegen::ir::{self, InstBuilder, StackSlotData, StackSlotKind, types};
use cranelift_frontend::Variable;
use margay_exec::SyncPoint;
use margay_ir::analysis::{Linear, SpeculativeAffine, Uniformity};
use margay_ir::entity::{Block, Inst, Value};
use margay_ir::function::InstData;
use margay_ops::ops::{Effects, Opcode};
use margay_ops::types::{Kind, Type};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::atomic::is_plain_update;
use super::lane::{EmitError, Here, Lane};
use super::sweep::Sweep;
use control::Masked;
use hoist::Hoisted;

/// The vectors with the lanes of a value, lowest lanes first.
pub(crate) type Lanes = SmallVec<[ir::Value; 8]>;
/// Variables that hold the vectors of a value.
pub(crate) type Vars = SmallVec<[Variable; 8]>;

/// The results of the analyses that vector code needs, and the chunk width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) uniformity: &'a Uniformity,
    pub(crate) linear: &'a Linear,
    pub(crate) speculative: &'a SpeculativeAffine,
    /// For each resume point, whether lanes that have reached it the same number of times are in
    /// the same iterations of all loops.
    pub(crate) converged: &'a [bool],
    /// Number of lanes of a chunk.
    pub(crate) width: u32,
}

/// The block to which the code for a chunk jumps when all active lanes have stopped at sync points or exited, and the
/// variables in which this code records these sync points.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends<'a> {
    /// Block that is reached when all active lanes have stopped.
    pub(crate) done: ir::Block,
    /// Sync point at which the lanes of the warp stopped; [`NOBODY`] before the first lane has stopped. `None` in forms
    /// without frames.
    pub(crate) common: Option<Variable>,
    /// Nonzero if lanes stopped at different sync points.
    pub(crate) diverged: Option<Variable>,
    /// The uniform path of the CTA, if there is one.
    pub(crate) sweep: Option<&'a Sweep>,
}

/// Value of [`Ends::common`] while no lane has stopped.
pub(crate) const NOBODY: i32 = -2;

/// Translates the code of one IR function for a chunk.
pub(crate) struct Slice<'a, 'b> {
    /// Translates operations with uniform or affine results, for the chunk's first lane.
    pub(crate) lane: Lane<'a, 'b>,
    pub(crate) view: View<'a>,
    pub(crate) ends: Ends<'a>,
    /// Values that have been computed before the loop over chunks.
    hoisted: &'a Hoisted,
    /// The block being translated.
    block: Block,
    /// The lanes that run the block; `None` if all lanes run it.
    mask: Option<Lanes>,
    /// Whether the code being emitted runs only if CTA range analysis has proved the checks of contiguous accesses.
    sure: bool,
    vars: FxHashMap<Value, Vars>,
    /// For values in `leaving`, the variables that hold, for each lane, the value at the time when the lane left the
    /// loop that defines the value.
    frozen: FxHashMap<Value, Vars>,
    /// Values that must be saved for each lane when the lane leaves the loop that defines the value, each with the
    /// index of this loop.
    leaving: Vec<(Value, usize)>,
    /// Vectors computed in the block being translated.
    made: FxHashMap<Value, Lanes>,
    /// For each IR block that has code for all lanes, the Cranelift block with this code, which is translated or
    /// queued.
    full: FxHashMap<Block, ir::Block>,
    work: Vec<Block>,
    masked: Masked,
    /// For each speculatively affine value, the variable that is nonzero if the value's check holds. If the check
    /// holds, `lane` has the value of the first lane.
    holds: FxHashMap<Value, Variable>,
    /// Speculatively affine values that no other block needs. Their lanes are computed where they are used.
    lazy: FxHashSet<Value>,
    /// Speculatively affine values that need no check in the code for a chunk, see [`Slice::find_assured`].
    assured: FxHashSet<Value>,
    /// Memory for the lanes of the speculatively affine values that are not in `lazy`.
    memory: FxHashMap<Value, ir::StackSlot>,
    /// Conditions for which an endpoint test is emitted. Their lanes are computed only if the test decides nothing.
    conditions: FxHashSet<Value>,
    /// Lane constants.
    known: FxHashMap<Value, known::Known>,
    scratch: Option<ir::StackSlot>,
    /// Stack memory for the addresses of the lanes, for the case that the host must decide whether the accesses are
    /// allowed.
    asked: Option<ir::StackSlot>,
    /// A check whose code is emitted later, together with the code of the access that it checks.
    pending_check: Option<check::Pending>,
    /// Whether a check has already examined the access being translated. If so, the access needs no
    /// tests.
    examined: bool,
    /// Stack memory through which checks pass the addresses of the lanes.
    check_addresses: Option<ir::StackSlot>,
    /// Stack memory through which checks pass the operands of the lanes and receive the results of the access.
    check_operands: Option<ir::StackSlot>,
    /// Stack memory that all operations which run lane by lane share.
    cells: Vec<ir::StackSlot>,
    /// Stack memory for the operands and results of texture accesses.
    rows: Option<ir::StackSlot>,
    /// Sync points at which lanes may stop in the code emitted so far.
    pub(crate) sync_points: Vec<SyncPoint>,
    /// The barriers with lazy spills, each with the IR block that it ends.
    brief: FxHashMap<SyncPoint, Block>,
}

/// Returns the vector type that holds lanes of a type.
pub(crate) fn vector_type(ty: Type) -> Result<ir::Type, EmitError> {
    Ok(match ty.kind() {
        Kind::Pred | Kind::B8 | Kind::B16 | Kind::B32 => types::I32X4,
        Kind::F32 => types::F32X4,
        Kind::B64 => types::I64X2,
        Kind::F64 => types::F64X2,
        Kind::B128 => return Err(EmitError::Unsupported("vectors of 128-bit values".into())),
    })
}

/// Returns the flags of a bitcast between vectors with different lane types.
pub(crate) fn cast_flags() -> ir::MemFlagsData {
    ir::MemFlagsData::new().with_endianness(ir::Endianness::Little)
}

impl<'a, 'b> Slice<'a, 'b> {
    pub(crate) fn new(
        mut lane: Lane<'a, 'b>,
        view: View<'a>,
        ends: Ends<'a>,
        hoisted: &'a Hoisted,
    ) -> Self {
        let function = lane.function;
        lane.vars.extend(hoisted.vars());
        let mut slice = Slice {
            block: function.entry(),
            mask: None,
            sure: false,
            vars: FxHashMap::default(),
            frozen: FxHashMap::default(),
            leaving: Vec::new(),
            made: FxHashMap::default(),
            full: FxHashMap::default(),
            work: Vec::new(),
            masked: Masked::default(),
            holds: FxHashMap::default(),
            lazy: FxHashSet::default(),
            assured: FxHashSet::default(),
            memory: FxHashMap::default(),
            conditions: FxHashSet::default(),
            known: FxHashMap::default(),
            scratch: None,
            asked: None,
            pending_check: None,
            examined: false,
            check_addresses: None,
            check_operands: None,
            cells: Vec::new(),
            rows: None,
            sync_points: Vec::new(),
            brief: FxHashMap::default(),
            lane,
            view,
            ends,
            hoisted,
        };
        slice.find_leaving();
        slice.find_lazy();
        slice.find_assured();
        slice.find_conditions();
        slice.find_known();
        slice
    }

    /// Finds the values that lanes carry out of a loop in different iterations.
    fn find_leaving(&mut self) {
        let function = self.lane.function;
        let uniformity = self.view.uniformity;
        let mut seen: FxHashSet<Value> = FxHashSet::default();
        let mut note = |value: Value, block: Block, leaving: &mut Vec<_>| {
            if !seen.contains(&value)
                && uniformity.leaves_apart(function, value, block)
                && let Some(number) = uniformity.loop_of(value)
            {
                seen.insert(value);
                leaving.push((value, number));
            }
        };
        for &block in &self.view.linear.order {
            for &inst in function.insts(block) {
                for &arg in function.dfg.args(inst) {
                    note(arg, block, &mut self.leaving);
                }
                for call in function.dfg.targets(inst) {
                    for &arg in &call.args {
                        note(arg, block, &mut self.leaving);
                    }
                }
                if function.effects(inst).is_sync_point() {
                    for &value in self.lane.behind(inst).unwrap_or_default() {
                        note(value, block, &mut self.leaving);
                    }
                }
            }
        }
    }

    /// Returns the number of vectors that hold lanes of a type.
    pub(crate) fn count(&self, ty: ir::Type) -> usize {
        (self.view.width / ty.lane_count()) as usize
    }

    /// Returns the address of the scratch cell for loads and stores of inactive lanes: 64 bytes, aligned for every
    /// access. The address is aligned at run time, because the stack frame is aligned to 16 bytes only.
    pub(crate) fn scratch(&mut self) -> ir::Value {
        let slot = match self.scratch {
            Some(slot) => slot,
            None => {
                let data = StackSlotData::new(StackSlotKind::ExplicitSlot, 128, 4);
                let slot = self.lane.b.create_sized_stack_slot(data);
                self.scratch = Some(slot);
                slot
            }
        };
        let slot = self.lane.b.ins().stack_addr(types::I64, slot, 0);
        let last = self.lane.b.ins().iadd_imm_s(slot, 63);
        self.lane.b.ins().band_imm_s(last, -64)
    }

    /// Translates the instructions of a block up to the first instruction that ends it.
    fn instructions(&mut self, block: Block) -> Result<(), EmitError> {
        self.block = block;
        self.made.clear();
        let function = self.lane.function;
        for &inst in function.insts(block) {
            self.lane.at = function.dfg.locs[inst];
            self.lane.b.set_srcloc(ir::SourceLoc::new(inst.0));
            let effects = function.effects(inst);
            if effects.contains(Effects::TERMINATOR) {
                return self.terminate(inst);
            }
            if effects.is_sync_point() {
                if self.point(inst)? {
                    return Ok(());
                }
                continue;
            }
            self.operation(inst)?;
        }
        Ok(())
    }

    /// Returns whether a value is uniform in the block being translated.
    pub(crate) fn is_uniform(&self, value: Value) -> bool {
        self.class(value).is_uniform()
    }

    pub(crate) fn class(&self, value: Value) -> margay_ir::analysis::uniformity::Class {
        let function = self.lane.function;
        self.view.uniformity.class_in(function, value, self.block)
    }

    /// Returns whether the code has too many variables and blocks. The product of both numbers is limited: Cranelift's
    /// function builder keeps a value for each variable in each block. In blocks with several predecessors, these
    /// values are block parameters, and the builder removes most of them again, one by one. The product is at most
    /// 5 million in the benchmarks.
    fn is_large(&self) -> bool {
        const MOST: usize = 1 << 23;
        let vectors = self.vars.len() + self.frozen.len();
        let variables = self.lane.variables() + vectors * (self.view.width as usize / 4);
        variables.saturating_mul(self.lane.b.func.dfg.num_blocks()) > MOST
    }

    /// Translates an operation that neither ends a block nor synchronises.
    pub(crate) fn operation(&mut self, inst: Inst) -> Result<(), EmitError> {
        use margay_ir::analysis::uniformity::Class;
        if self.hoisted.has_inst(inst) {
            return Ok(());
        }
        if self.is_large() {
            return Err(EmitError::TooLarge("too many values and blocks"));
        }
        let data = self.lane.function.dfg.insts[inst];
        if self.is_uncomputed(inst) {
            return Ok(());
        }
        let effects = data.opcode.effects();
        match data.opcode {
            Opcode::Ld => return self.load(inst, &data),
            Opcode::St => return self.store(inst, &data),
            Opcode::Fence => return self.lane.operation(inst),
            Opcode::Tex | Opcode::Txq | Opcode::Suld | Opcode::Sust | Opcode::Sured => {
                return self.texture(inst, data.payload());
            }
            Opcode::Cvta => {}
            Opcode::CheckAccess => {
                let varies = self
                    .view
                    .uniformity
                    .class(self.lane.function.dfg.results(inst)[0])
                    == Class::Varying;
                if !varies && !data.mods.flag() {
                    return self.of_first(inst);
                }
                return self.check_lanes(inst, &data);
            }
            Opcode::ObserveEvent => return self.observe_event(inst, &data),
            Opcode::ObserveAccess => return self.observe_lanes(inst, &data),
            Opcode::CheckFence | Opcode::CheckGroup => return self.each_lane(inst),
            Opcode::Alloca | Opcode::StackSave | Opcode::StackRestore => {
                return self.lane.refuse(&data);
            }
            // These operations run in the order of the lanes.
            Opcode::Atom | Opcode::Red if self.mask.is_none() && is_plain_update(&data) => {
                return self.unrolled_access(inst, &data);
            }
            Opcode::Atom
            | Opcode::Red
            | Opcode::Clock
            | Opcode::Call
            | Opcode::CallIndirect
            | Opcode::Syscall
            | Opcode::CpAsync
            | Opcode::Brkpt => return self.each_lane(inst),
            _ if effects.intersects(Effects::READS | Effects::WRITES | Effects::MAY_TRAP) => {
                return self.each_lane(inst);
            }
            _ => {}
        }
        let function = self.lane.function;
        let results = function.dfg.results(inst);
        let uniformity = self.view.uniformity;
        let varies = |&value: &Value| uniformity.class(value) == Class::Varying;
        if !results.iter().any(varies) {
            return self.lane.operation(inst);
        }
        if let [result] = results
            && self.conditions.contains(result)
        {
            return Ok(());
        }
        if let &[result] = results
            && self.view.speculative.stride(result).is_some()
        {
            return self.guarded_result(inst, result);
        }
        self.lanes_of(inst, &data)?;
        if !results.iter().all(varies) {
            // The first lane of the result is computed after the vectors, because code that runs lane by lane
            // overwrites it.
            self.lane.operation(inst)?;
        }
        Ok(())
    }

    /// Emits the computation of all lanes of a pure operation's results.
    fn lanes_of(&mut self, inst: Inst, data: &InstData) -> Result<(), EmitError> {
        if let &[result] = self.lane.function.dfg.results(inst)
            && let Some(lanes) = self.known_lanes(result)
        {
            return self.set(result, &lanes);
        }
        if self.vector(inst, data)?.is_some() {
            return Ok(());
        }
        if self.has_fast_form(data) {
            self.unrolled(inst)
        } else {
            self.each_lane(inst)
        }
    }

    /// Returns whether the operation for one lane takes only a few instructions.
    fn has_fast_form(&self, data: &InstData) -> bool {
        matches!(data.opcode, Opcode::SReg | Opcode::LocalAddr | Opcode::Cvta)
            || crate::emit::fast::lowering(data.opcode).is_some()
    }

    /// Returns the description of the chunk's lane with index `lane`, for the translator [`Lane`].
    pub(crate) fn here(&mut self, lane: u32) -> Here {
        let first = self.lane.here;
        if lane == 0 {
            return first;
        }
        let b = &mut *self.lane.b;
        Here {
            thread: b.ins().iadd_imm_s(first.thread, i64::from(lane)),
            lane: b.ins().iadd_imm_s(first.lane, i64::from(lane)),
            ..first
        }
    }
}
