//! Translation of IR instructions for one lane.

use cranelift_codegen::ir::{self, BlockArg, InstBuilder, MemFlagsData, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use margay_exec::SyncPoint;
use margay_ir::analysis::{Multiples, Pointers, Regions};
use margay_ir::entity::{Block, Inst, SecondaryMap, SigId, Slot, SymbolId, Value};
use margay_ir::function::{Function, InstData, SourceLoc};
use margay_ir::pass::instrument::Request;
use margay_ops::meaning::Meaning;
use margay_ops::ops::{Effects, Opcode};
use rustc_hash::{FxHashMap, FxHashSet};

use super::clif_type;
use super::joint::InFrame;
use super::reach::Tested;
use crate::addresses::DescTable;
use crate::counters::Counters;
use crate::emit::fast;
use crate::error::CompileError;
use crate::fallback::Fallbacks;
use crate::variables::NamedVariable;

/// An error of the translation to Cranelift's IR. If translation to vector code fails, scalar code or vector code for
/// narrower chunks is compiled instead. If translation to scalar code fails, the interpreter runs the function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum EmitError {
    /// Native code does not support the operation that the field names.
    Unsupported(String),
    /// The code would be too large. The field states the cause.
    TooLarge(&'static str),
}

impl From<EmitError> for CompileError {
    fn from(error: EmitError) -> CompileError {
        match error {
            EmitError::Unsupported(what) => CompileError::Unsupported(what),
            EmitError::TooLarge(what) => CompileError::Budget(what.to_owned()),
        }
    }
}

/// Cranelift values that are equal for all lanes of a CTA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fixed {
    /// Address of the `NativeContext`.
    pub(crate) ctx: ir::Value,
    /// CTA coordinates, if the form keeps them in registers.
    pub(crate) ctaid: Option<[ir::Value; 3]>,
    /// Base of the CTA's window of shared memory, if the form keeps this base in a register.
    pub(crate) shared: Option<ir::Value>,
}

impl Fixed {
    /// Creates the values for code that keeps only the context's address in a register.
    pub(crate) fn of(ctx: ir::Value) -> Fixed {
        Fixed {
            ctx,
            ctaid: None,
            shared: None,
        }
    }
}

/// The lane that the emitted code runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here {
    /// Linear index of the thread in the CTA.
    pub(crate) thread: ir::Value,
    /// Frame of the lane's warp; `None` in forms without frames.
    pub(crate) frame: Option<ir::Value>,
    /// Index of the lane in its warp, as a pointer-sized value.
    pub(crate) lane: ir::Value,
    /// Offset of the function's stack slots in the thread's local memory.
    pub(crate) local: ir::Value,
}

impl Here {
    /// Returns zeros, for code that runs before the loops over threads and reads nothing of a thread.
    pub(crate) fn none(b: &mut FunctionBuilder<'_>) -> Here {
        let zero = b.ins().iconst(types::I32, 0);
        Here {
            thread: zero,
            frame: None,
            lane: b.ins().iconst(types::I64, 0),
            local: zero,
        }
    }
}

/// The blocks to which control goes when a lane leaves the code being emitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leave {
    /// Block to which a lane jumps when it stops or exits. The block's parameter is the number of the sync point.
    pub(crate) next: ir::Block,
    /// Block that returns its parameter as the function's status.
    pub(crate) abort: ir::Block,
}

/// Translates the code of one IR function for one lane.
pub(crate) struct Lane<'a, 'b> {
    pub(crate) b: &'a mut FunctionBuilder<'b>,
    pub(crate) function: &'a Function,
    pub(crate) regions: Option<&'a Regions>,
    pub(crate) descs: &'a mut DescTable,
    pub(crate) slots: &'a SecondaryMap<Slot, u32>,
    pub(crate) has_fma: bool,
    /// Whether generated code tests that accesses stay in the kernel's memory (`reach`).
    pub(crate) isolated: bool,
    /// Whether the specialisation trusts addresses ([`Specialisation::trusted`](crate::Specialisation::trusted)):
    /// pointer parameters contain addresses of device memory, and shared memory ends exactly at the end of its
    /// accessible pages.
    pub(crate) trusted: bool,
    /// The checks and events that checking runs and tools request.
    pub(crate) request: Request,
    /// The counters for events of which tools request counts.
    pub(crate) counters: &'a Counters,
    /// The result of the analysis of the pointers from which addresses of device memory are computed.
    pub(crate) pointers: &'a Pointers,
    /// The values that are multiples of powers of two if the specialisation trusts addresses.
    pub(crate) multiples: &'a Multiples,
    /// The module variables to which the function refers.
    pub(crate) symbols: &'a FxHashMap<SymbolId, NamedVariable>,
    /// IDs of the signatures of the function's calls through handles.
    pub(crate) called_signatures: &'a FxHashMap<SigId, u64>,
    /// Counts the reasons why slower code than usual is generated.
    pub(crate) fallbacks: &'a Fallbacks,
    pub(crate) fixed: Fixed,
    pub(crate) here: Here,
    pub(crate) leave: Leave,
    /// Sync points at which lanes may stop in the code emitted so far, without duplicates.
    pub(crate) sync_points: Vec<SyncPoint>,
    /// The Cranelift variables of IR values that are set at several positions in the code. Other values get no
    /// variables, because the builder keeps a list of blocks for each variable; with many variables, its memory would
    /// grow quadratically with a function's size.
    pub(crate) vars: FxHashMap<Value, Variable>,
    /// Variables that earlier code no longer uses, so that later code can reuse them.
    pub(crate) spare: FxHashMap<ir::Type, Vec<Variable>>,
    /// The Cranelift values of IR values that are set at only one position in the code. [`Lane::emit_from`] uses these
    /// Cranelift values instead of variables.
    known: FxHashMap<Value, ir::Value>,
    /// The operations whose results are in `known` before the code of the lane begins ([`super::invariant`]).
    moved: FxHashSet<Inst>,
    /// `%tid.x`, if the form keeps it in a register.
    pub(crate) tid_x: Option<ir::Value>,
    /// The values that need variables in code of [`Lane::emit_from`], because this code loads them from the frame and
    /// also computes them. `None` in other code, in which all values have variables.
    several: Option<FxHashSet<Value>>,
    /// The values that stay in the frame; `None` in code other than the joint warp form.
    pub(crate) in_frame: Option<InFrame>,
    blocks: FxHashMap<Block, ir::Block>,
    /// Values that have already been rematerialised: at the start of the region or, if `per_block` is not empty, at the
    /// start of the block being emitted.
    again: FxHashSet<Value>,
    /// Values that are rematerialised in each block that uses them. Empty if all values are rematerialised at the start
    /// of the region.
    per_block: FxHashSet<Value>,
    work: Vec<Block>,
    /// Source position of the instruction being emitted.
    pub(crate) at: SourceLoc,
    /// The address at which a device function stores its results.
    pub(crate) results_to: Option<ir::Value>,
    /// Signatures of helpers by name. Each signature is imported once per function.
    pub(crate) signatures: FxHashMap<&'static str, ir::SigRef>,
    /// The alignment tests in the code of one block: the block, and the tested addresses, each with the tested
    /// alignment in bytes.
    pub(crate) aligned: (Option<ir::Block>, Vec<(ir::Value, u32)>),
    /// Whether only the operands of the current instruction have the values of the lane that runs. All other IR values
    /// may still have the values of other lanes.
    pub(crate) operands_only: bool,
    /// The access tests in the code of one block (`reach`): the block, and the results of the tests.
    pub(crate) reached: (Option<ir::Block>, Vec<(Tested, ir::Value)>),
    /// An IR block, and the hull of its accesses for each root, which is the value from which
    /// addresses are computed. A hull is a range of offsets from the root: from the first accessed
    /// byte to the byte after the last accessed byte.
    pub(crate) hulls: (Option<Block>, FxHashMap<Value, (i128, i128)>),
    /// The number of the permitted range ([`super::permitted`]) for each root, that is, for each
    /// value from which addresses are computed.
    pub(crate) ranges: FxHashMap<Value, usize>,
    /// The block of each instruction of the function.
    pub(crate) homes: &'a SecondaryMap<Inst, Option<Block>>,
    /// Stack slots that all slow paths of the function share: one slot for operands and one slot for results.
    pub(crate) areas: [Option<ir::StackSlot>; 2],
}

/// Maximum number of values that the start of a region rematerialises.
const MAX_AT_START: usize = 256;

/// The data from which [`Lane::new`] creates a translator.
pub(crate) struct LaneParts<'a, 'b> {
    pub(crate) b: &'a mut FunctionBuilder<'b>,
    pub(crate) function: &'a Function,
    pub(crate) regions: Option<&'a Regions>,
    pub(crate) descs: &'a mut DescTable,
    pub(crate) slots: &'a SecondaryMap<Slot, u32>,
    pub(crate) homes: &'a SecondaryMap<Inst, Option<Block>>,
    pub(crate) has_fma: bool,
    pub(crate) isolated: bool,
    pub(crate) trusted: bool,
    pub(crate) request: Request,
    pub(crate) counters: &'a Counters,
    pub(crate) pointers: &'a Pointers,
    pub(crate) multiples: &'a Multiples,
    pub(crate) symbols: &'a FxHashMap<SymbolId, NamedVariable>,
    /// IDs of the signatures of the function's calls through handles.
    pub(crate) called_signatures: &'a FxHashMap<SigId, u64>,
    pub(crate) fallbacks: &'a Fallbacks,
}

impl<'b> LaneParts<'_, 'b> {
    /// Reborrows the parts for a shorter lifetime.
    pub(crate) fn again(&mut self) -> LaneParts<'_, 'b> {
        LaneParts {
            b: &mut *self.b,
            function: self.function,
            regions: self.regions,
            descs: &mut *self.descs,
            slots: self.slots,
            homes: self.homes,
            has_fma: self.has_fma,
            isolated: self.isolated,
            trusted: self.trusted,
            request: self.request,
            counters: self.counters,
            pointers: self.pointers,
            multiples: self.multiples,
            symbols: self.symbols,
            called_signatures: self.called_signatures,
            fallbacks: self.fallbacks,
        }
    }
}

/// Returns the flags of an access to device memory, which may fault.
pub(crate) fn device() -> MemFlagsData {
    MemFlagsData::new()
}

/// Returns the flags of an access to memory of the host that is always accessible.
pub(crate) fn host() -> MemFlagsData {
    MemFlagsData::trusted()
}

/// Returns the flags of a load from memory of the host that does not change while the native function runs.
pub(crate) fn fixed() -> MemFlagsData {
    MemFlagsData::trusted().with_readonly().with_can_move()
}

impl<'a, 'b> Lane<'a, 'b> {
    pub(crate) fn new(parts: LaneParts<'a, 'b>, fixed: Fixed, here: Here, leave: Leave) -> Self {
        Lane {
            homes: parts.homes,
            b: parts.b,
            function: parts.function,
            regions: parts.regions,
            descs: parts.descs,
            slots: parts.slots,
            has_fma: parts.has_fma,
            isolated: parts.isolated,
            trusted: parts.trusted,
            request: parts.request,
            counters: parts.counters,
            pointers: parts.pointers,
            multiples: parts.multiples,
            symbols: parts.symbols,
            called_signatures: parts.called_signatures,
            fallbacks: parts.fallbacks,
            fixed,
            here,
            leave,
            sync_points: Vec::new(),
            vars: FxHashMap::default(),
            spare: FxHashMap::default(),
            known: FxHashMap::default(),
            moved: FxHashSet::default(),
            tid_x: None,
            several: None,
            in_frame: None,
            blocks: FxHashMap::default(),
            again: FxHashSet::default(),
            per_block: FxHashSet::default(),
            work: Vec::new(),
            at: SourceLoc::default(),
            results_to: None,
            signatures: FxHashMap::default(),
            aligned: Default::default(),
            operands_only: false,
            reached: Default::default(),
            hulls: Default::default(),
            ranges: FxHashMap::default(),
            areas: [None; 2],
        }
    }

    /// Emits the code that a lane runs from the IR block `first` to the next sync points. The code
    /// begins in the current Cranelift block of the builder.
    pub(crate) fn emit_from(&mut self, first: Block, live_in: &[Value]) -> Result<(), EmitError> {
        self.several = Some(self.set_again(first, live_in));
        self.load_live(first, live_in);
        self.compute_again(first)?;
        let params = self.function.dfg.blocks[first].params.iter();
        let args: Vec<BlockArg> = params.map(|&v| BlockArg::Value(self.get(v))).collect();
        let start = self.block(first);
        self.b.ins().jump(start, &args);
        self.emit_queued()
    }

    /// Emits the blocks to which emitted code jumps.
    pub(crate) fn emit_queued(&mut self) -> Result<(), EmitError> {
        while let Some(block) = self.work.pop() {
            let target = self.blocks[&block];
            self.b.switch_to_block(target);
            self.load_for_block(block);
            self.set_params(block, target);
            self.compute_for_block(block)?;
            for &inst in self.function.insts(block) {
                if self.moved.contains(&inst) {
                    continue;
                }
                self.at = self.function.dfg.locs[inst];
                self.b.set_srcloc(ir::SourceLoc::new(inst.0));
                if self.inst(block, inst)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Finds the values that are in the frame at the resume point `first` and that the code of its region also defines.
    fn set_again(&self, first: Block, live_in: &[Value]) -> FxHashSet<Value> {
        let Some(regions) = self.regions.filter(|_| !live_in.is_empty()) else {
            return FxHashSet::default();
        };
        let live: FxHashSet<Value> = live_in.iter().copied().collect();
        let mut again = FxHashSet::default();
        for block in regions.blocks_of(self.function, first) {
            let insts = self.function.insts(block).iter();
            let results = insts.flat_map(|&inst| self.function.dfg.results(inst));
            let set = results.chain(&self.function.dfg.blocks[block].params);
            again.extend(set.filter(|value| live.contains(value)));
        }
        again
    }

    /// Emits code at the start of a block that sets the variables of the block's parameters.
    fn set_params(&mut self, block: Block, target: ir::Block) {
        for (i, &param) in self.function.dfg.blocks[block].params.iter().enumerate() {
            if self.has_variable(param) || self.keeps_in_frame(param) {
                let bits = self.b.block_params(target)[i];
                self.set(param, bits);
            }
        }
    }

    /// Emits loads from the frame of the values that a region uses, or must store at a sync point at its end. All other
    /// values that are used only after the region stay in the frame and are not loaded.
    fn load_live(&mut self, first: Block, live_in: &[Value]) {
        let Some(regions) = self.regions.filter(|_| !live_in.is_empty()) else {
            return;
        };
        let read = self.used_from(regions, first, false);
        for &value in live_in {
            if read.binary_search(&value).is_ok()
                && let Some(bits) = self.load_stored(value)
            {
                self.set(value, bits);
            }
        }
    }

    /// Emits the load of the lane's element of a value from the frame; `None` if the frame does not
    /// contain the value.
    pub(crate) fn load_stored(&mut self, value: Value) -> Option<ir::Value> {
        let (address, offset) = self.stored_at(value)?;
        let ty = clif_type(self.function.dfg.ty(value));
        Some(self.b.ins().load(ty, host(), address, offset))
    }

    /// Returns the address of the lane's element of a value in the frame, as a base and an offset.
    pub(crate) fn stored_at(&mut self, value: Value) -> Option<(ir::Value, i32)> {
        let offset = self.regions?.offset(value)?;
        let bytes = self.function.dfg.ty(value).lane_bytes();
        if let Some(base) = self.lane_base(bytes) {
            return Some((base, i32::try_from(offset).ok()?));
        }
        let scaled = self.b.ins().imul_imm_s(self.here.lane, i64::from(bytes));
        let address = self.b.ins().iadd(self.here.frame?, scaled);
        Some((address, i32::try_from(offset).ok()?))
    }

    /// Emits the store of the lane's element of a value to the frame.
    pub(crate) fn store_value(&mut self, value: Value) {
        let bits = self.get(value);
        if let Some((address, offset)) = self.stored_at(value) {
            self.b.ins().store(host(), bits, address, offset);
        }
    }

    /// Emits code that rematerialises, at the start of a region, the values that other regions
    /// define and whose computation is cheaper than storing them. If there are more than
    /// [`MAX_AT_START`] such values, each block rematerialises the values that it uses
    /// ([`compute_for_block`](Self::compute_for_block)). Otherwise the start of the region would
    /// compute the values for all paths, although a lane runs only one of them.
    fn compute_again(&mut self, first: Block) -> Result<(), EmitError> {
        let Some(regions) = self.regions else {
            return Ok(());
        };
        if first == self.function.entry() {
            return Ok(());
        }
        let mut again = self.used_from(regions, first, true);
        again.retain(|&value| regions.is_rematerialised(value));
        if again.len() > MAX_AT_START {
            self.per_block.extend(again);
            return Ok(());
        }
        for value in again {
            self.compute_value(value)?;
        }
        Ok(())
    }

    /// Chooses that each block rematerialises the values that it uses, in the code of all regions.
    pub(crate) fn rematerialise_in_blocks(&mut self, regions: &Regions) {
        self.several = Some(FxHashSet::default());
        let blocks = self.function.blocks().iter().copied();
        let mut again = self.used_in(blocks, true);
        again.retain(|&value| regions.is_rematerialised(value));
        self.per_block.extend(again);
    }

    /// Emits code that rematerialises, at the start of a block, the values of `per_block` that the
    /// block uses and does not define.
    fn compute_for_block(&mut self, block: Block) -> Result<(), EmitError> {
        if self.per_block.is_empty() {
            return Ok(());
        }
        self.again.clear();
        for value in self.used_in([block], true) {
            let defined = self.function.dfg.def_inst(value);
            if self.per_block.contains(&value)
                && defined.is_none_or(|inst| self.homes[inst] != Some(block))
            {
                self.compute_value(value)?;
            }
        }
        Ok(())
    }

    /// Returns the values used in the blocks from `first` to the next sync points, sorted. Values that are live after
    /// one of those sync points count as used, because they must be stored there. If the frame already contains such a
    /// value, it counts as used only if `stored` is true.
    fn used_from(&self, regions: &Regions, first: Block, stored: bool) -> Vec<Value> {
        self.used_in(regions.blocks_of(self.function, first), stored)
    }

    /// Returns the values used in the given blocks, by the rules of [`used_from`](Self::used_from).
    fn used_in(&self, blocks: impl IntoIterator<Item = Block>, stored: bool) -> Vec<Value> {
        let mut used = Vec::new();
        for block in blocks {
            for &inst in self.function.insts(block) {
                used.extend_from_slice(self.function.dfg.args(inst));
                let calls = self.function.dfg.targets(inst);
                used.extend(calls.iter().flat_map(|call| call.args.iter().copied()));
                if self.function.effects(inst).is_sync_point() {
                    // The values that are live after the sync point are stored here.
                    let behind = self.behind(inst).unwrap_or_default().iter().copied();
                    used.extend(behind.filter(|&value| stored || !self.is_stored(inst, value)));
                    if !self.is_yield(inst) {
                        break;
                    }
                }
            }
        }
        used.sort_unstable();
        used.dedup();
        used
    }

    /// Returns the values that must be rematerialised at the resume point `first`: those that are used before the next
    /// sync points. If `through` is set, the code may continue at those sync points without leaving the function, so
    /// values that are used after them are included.
    pub(crate) fn again_from(&self, first: Block, through: bool) -> Vec<Value> {
        let Some(regions) = self.regions else {
            return Vec::new();
        };
        if first == self.function.entry() {
            return Vec::new();
        }
        let mut starts = vec![first];
        let mut seen: FxHashMap<Block, ()> = FxHashMap::default();
        let mut used = Vec::new();
        while let Some(start) = starts.pop() {
            if seen.insert(start, ()).is_some() {
                continue;
            }
            used.extend(self.used_from(regions, start, true));
            if !through {
                continue;
            }
            for block in regions.blocks_of(self.function, start) {
                let next = margay_ir::analysis::regions::sync_point_of(self.function, block);
                starts.extend(next.map(|(_, next)| next));
            }
        }
        used.sort_unstable();
        used.dedup();
        used.retain(|&value| regions.is_rematerialised(value));
        used
    }

    fn is_yield(&self, inst: Inst) -> bool {
        self.function.dfg.insts[inst].opcode == Opcode::Yield
    }

    /// Returns the values that must be in the frame after a sync point.
    pub(crate) fn behind(&self, inst: Inst) -> Option<&'a [Value]> {
        let regions = self.regions?;
        let sync_point = regions.sync_point(inst)?;
        Some(&regions.resume_points[sync_point.0 as usize].live_in)
    }

    /// Returns whether, before a sync point stores the values that are live after it, the frame already contains
    /// `value`.
    pub(crate) fn is_stored(&self, inst: Inst, value: Value) -> bool {
        self.regions.is_some_and(|regions| {
            let sync_point = regions.sync_point(inst);
            sync_point.is_some_and(|number| regions.is_stored_by_sync_points(number, value))
        })
    }

    fn compute_value(&mut self, value: Value) -> Result<(), EmitError> {
        if !self.again.insert(value) {
            return Ok(());
        }
        let Some(inst) = self.function.dfg.def_inst(value) else {
            return Ok(());
        };
        for &arg in self.function.dfg.args(inst) {
            self.compute_value(arg)?;
        }
        self.operation(inst)
    }

    /// Returns the Cranelift block of an IR block. At the first call for an IR block, creates the Cranelift block and
    /// queues it for emission.
    pub(crate) fn block(&mut self, block: Block) -> ir::Block {
        if let Some(&known) = self.blocks.get(&block) {
            return known;
        }
        let new = self.b.create_block();
        for &param in &self.function.dfg.blocks[block].params {
            let ty = clif_type(self.function.dfg.ty(param));
            let bits = self.b.append_block_param(new, ty);
            if !self.has_variable(param) {
                self.known.insert(param, bits);
            }
        }
        self.blocks.insert(block, new);
        self.work.push(block);
        new
    }

    /// Returns the number of IR values that have variables.
    pub(crate) fn variables(&self) -> usize {
        self.vars.len()
    }

    fn var(&mut self, value: Value) -> Variable {
        let ty = clif_type(self.function.dfg.ty(value));
        match self.vars.get(&value) {
            Some(&var) => var,
            None => {
                let spare = self.spare.get_mut(&ty).and_then(Vec::pop);
                let var = spare.unwrap_or_else(|| self.b.declare_var(ty));
                self.vars.insert(value, var);
                var
            }
        }
    }

    /// Returns whether a value is held in a Cranelift variable. Only values that are set at several positions in the
    /// code need a variable. If `several` is `None`, it is not known which values these are, and all values have
    /// variables.
    fn has_variable(&self, value: Value) -> bool {
        let several = self.several.as_ref();
        several.is_none_or(|several| several.contains(&value))
    }

    /// Begins with the Cranelift values of IR values that code before this code has computed, and leaves out the
    /// operations that have computed them.
    pub(crate) fn begin_with(
        &mut self,
        known: FxHashMap<Value, ir::Value>,
        moved: FxHashSet<Inst>,
    ) {
        self.known = known;
        self.moved = moved;
        self.several = Some(FxHashSet::default());
    }

    /// Returns the Cranelift values of the IR values that are set at only one position in the code.
    pub(crate) fn take_known(self) -> FxHashMap<Value, ir::Value> {
        self.known
    }

    /// Returns the Cranelift value that holds the IR value `value` at the current position of the emitted code.
    pub(crate) fn get(&mut self, value: Value) -> ir::Value {
        if self.keeps_in_frame(value)
            && let Some(bits) = self.get_from_frame(value)
        {
            return bits;
        }
        if let Some(&bits) = self.known.get(&value) {
            return bits;
        }
        let var = self.var(value);
        self.b.use_var(var)
    }

    /// Sets the Cranelift value that holds the IR value `value` from the current position of the emitted code on.
    pub(crate) fn set(&mut self, value: Value, bits: ir::Value) {
        if self.keeps_in_frame(value) {
            self.set_in_frame(value, bits);
            return;
        }
        if !self.has_variable(value) {
            // A value that is rematerialised at the start of the region and computed again in its own block has the
            // same bits both times. The computation at the start of the region dominates all uses, so it is kept. If
            // values are rematerialised per block instead, the latest computation is in the block being emitted and
            // replaces the earlier one.
            if self.per_block.is_empty() {
                self.known.entry(value).or_insert(bits);
            } else {
                self.known.insert(value, bits);
            }
            return;
        }
        let var = self.var(value);
        self.b.def_var(var, bits);
    }

    /// Returns the Cranelift value of the operand of `inst` with index `index`.
    pub(crate) fn arg(&mut self, inst: Inst, index: usize) -> ir::Value {
        let value = self.function.dfg.args(inst)[index];
        self.get(value)
    }

    /// Sets the first result of `inst` to `bits`.
    pub(crate) fn result(&mut self, inst: Inst, bits: ir::Value) {
        if let Some(&value) = self.function.dfg.results(inst).first() {
            self.set(value, bits);
        }
    }

    /// Returns all variables and removes them from this translator, so that the code of another region can reuse them.
    pub(crate) fn take_variables(&mut self) -> FxHashMap<ir::Type, Vec<Variable>> {
        for (value, var) in self.vars.drain() {
            let ty = clif_type(self.function.dfg.ty(value));
            self.spare.entry(ty).or_default().push(var);
        }
        std::mem::take(&mut self.spare)
    }

    /// Emits a constant of an integer type.
    pub(crate) fn int(&mut self, ty: ir::Type, bits: u64) -> ir::Value {
        let shift = 64 - ty.bits().min(64);
        let signed = ((bits << shift) as i64) >> shift;
        self.b.ins().iconst(ty, signed)
    }

    /// Emits the load of a field of the context that does not change while the native function
    /// runs.
    pub(crate) fn field(&mut self, ty: ir::Type, offset: usize) -> ir::Value {
        self.b
            .ins()
            .load(ty, fixed(), self.fixed.ctx, offset as i32)
    }

    /// Emits an instruction. Returns true if the emitted code ends the block.
    fn inst(&mut self, block: Block, inst: Inst) -> Result<bool, EmitError> {
        let effects = self.function.effects(inst);
        if effects.contains(Effects::TERMINATOR) {
            self.terminate(inst)?;
            return Ok(true);
        }
        if effects.is_sync_point() {
            return self.sync_point(block, inst);
        }
        self.operation(inst)?;
        Ok(false)
    }

    /// Emits an operation that neither ends a block nor synchronises.
    pub(crate) fn operation(&mut self, inst: Inst) -> Result<(), EmitError> {
        let data = self.function.dfg.insts[inst];
        let effects = data.opcode.effects();
        if effects.contains(Effects::PAYLOAD) {
            return self.structural(inst, &data);
        }
        if let Some(lowering) = fast::lowering(data.opcode)
            && lowering(self, inst, &data).is_some()
        {
            return Ok(());
        }
        if let Meaning::Pure(_) = data.opcode.meaning() {
            self.slow_pure(inst, &data);
            return Ok(());
        }
        self.access(inst, &data)
    }

    /// Emits an operation for a single lane of a chunk. Only the operands of the operation have the values of this
    /// lane.
    pub(crate) fn operation_of_one(&mut self, inst: Inst) -> Result<(), EmitError> {
        let before = std::mem::replace(&mut self.operands_only, true);
        let done = self.operation(inst);
        self.operands_only = before;
        done
    }

    /// Returns an error which states that native code does not support this operation.
    pub(crate) fn refuse<T>(&self, data: &InstData) -> Result<T, EmitError> {
        Err(EmitError::Unsupported(data.opcode.name().to_owned()))
    }
}
