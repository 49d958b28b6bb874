//! The code at resume points, which loads the live values from frames, and the stores of these values before sync
//! points.
//!
//! The lanes that continue after a sync point can come from different iterations of a loop. Therefore values that are
//! classified as uniform or affine may have lanes from different iterations. Generated code
//! compares the values of these lanes. A lane waits if its values do not match the values of the
//! first lane. No comparison is needed after a barrier if all threads of the CTA have reached the
//! barrier the same number of times, and if the analysis proves that such threads are always in the
//! same iterations of all loops. For a speculatively affine value, the frame also contains a note
//! for each chunk that records whether the check held.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use cranelift_frontend::Variable;
use margay_ir::analysis::regions::ResumePoint;
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Block, Inst, Value};
use rustc_hash::FxHashSet;

use super::ops::int_of;
use super::{Lanes, Slice};
use crate::emit::clif_type;
use crate::emit::lane::{EmitError, host};

impl Slice<'_, '_> {
    /// Emits the code after a sync point. The code loads the live values from the frame. The code
    /// continues with the lanes of `bits` whose uniform and affine values match the values of the
    /// lowest lane. It adds the other lanes to `rest`.
    pub(crate) fn behind_point(
        &mut self,
        entry: &ResumePoint,
        bits: ir::Value,
        rest: Variable,
    ) -> Result<(), EmitError> {
        self.block = entry.block;
        self.mask = None;
        self.made.clear();
        // The check variables are cleared, because a check that held for another chunk may fail for this chunk.
        let guards: Vec<Variable> = self.holds.values().copied().collect();
        let no = self.lane.b.ins().iconst(types::I8, 0);
        for var in guards {
            self.lane.b.def_var(var, no);
        }
        let first = self.lane.b.ins().ctz(bits);
        let mut same: Option<Lanes> = None;
        for &value in &entry.live_in {
            if self.hoisted.has(value) {
                let lanes = self.own(value)?;
                self.freeze_all(value, &lanes)?;
                continue;
            }
            let class = self.class(value);
            if class == Class::Varying {
                self.take_varying(value)?;
                continue;
            }
            let Some(lanes) = self.take_stored(value)? else {
                continue;
            };
            let base = self.first_stored(value, first, class);
            if let Some(base) = base {
                self.lane.set(value, base);
            }
            let wanted = self.get(value)?;
            let int = int_of(self.lane.b.func.dfg.value_type(lanes[0]));
            let (lanes, wanted) = (self.cast(&lanes, int), self.cast(&wanted, int));
            let equal: Lanes = lanes
                .iter()
                .zip(&wanted)
                .map(|(&a, &b)| self.lane.b.ins().icmp(IntCC::Equal, a, b))
                .collect();
            let equal = self.narrow_mask(equal);
            same = Some(match same {
                None => equal,
                Some(so_far) => self.and(&so_far, &equal),
            });
        }
        self.again(entry)?;
        let group = match same {
            None => bits,
            Some(same) => {
                let same = self.bits(&same);
                let group = self.lane.b.ins().band(bits, same);
                let left = self.lane.b.ins().band_not(bits, same);
                let base = self.lane.b.ins().ireduce(types::I32, self.lane.here.lane);
                let left = self.lane.b.ins().ishl(left, base);
                let more = self.lane.b.use_var(rest);
                let more = self.lane.b.ins().bor(more, left);
                self.lane.b.def_var(rest, more);
                group
            }
        };
        self.start(entry.block, group);
        Ok(())
    }

    /// Emits the code after a barrier for the case that `warp_converged` is nonzero and all lanes of the chunk
    /// continue. In this case, all values that are classified as uniform or affine are uniform or affine in the chunk.
    /// After the call, the builder is in the block for all other cases.
    pub(crate) fn behind_barrier(
        &mut self,
        entry: &ResumePoint,
        bits: ir::Value,
        warp_converged: ir::Value,
    ) -> Result<(), EmitError> {
        self.block = entry.block;
        self.mask = None;
        self.made.clear();
        let all = self.active_bits();
        let b = &mut *self.lane.b;
        let [whole, others] = std::array::from_fn(|_| b.create_block());
        let every = b.ins().icmp(IntCC::Equal, bits, all);
        let every = b.ins().uextend(types::I32, every);
        let both = b.ins().band(every, warp_converged);
        let both = b.ins().icmp_imm_u(IntCC::NotEqual, both, 0);
        let both = self.surely(both);
        let b = &mut *self.lane.b;
        b.ins().brif(both, whole, &[], others, &[]);
        b.switch_to_block(whole);
        for &value in &entry.live_in {
            if self.hoisted.has(value) {
                let lanes = self.own(value)?;
                self.freeze_all(value, &lanes)?;
            } else if self.class(value) == Class::Varying {
                if self.is_guarded(value) && !self.leaves(value) {
                    self.take_note(value)?;
                } else {
                    self.take_varying(value)?;
                }
            } else {
                if let Some(first) = self.first_lane(value) {
                    self.lane.set(value, first);
                }
                if self.leaves(value) {
                    let lanes = self.get(value)?;
                    self.freeze_all(value, &lanes)?;
                }
            }
        }
        self.again(entry)?;
        let full = self.full_block(entry.block);
        self.lane.b.ins().jump(full, &[]);
        self.lane.b.switch_to_block(others);
        Ok(())
    }

    /// Emits code that rematerialises the values that the code at a resume point needs and that frames do not contain.
    fn again(&mut self, entry: &ResumePoint) -> Result<(), EmitError> {
        let mut done = FxHashSet::default();
        for value in self.lane.again_from(entry.block, self.view.width == 32) {
            self.compute_again(value, &mut done)?;
        }
        Ok(())
    }

    /// Emits code that continues at the block `entry` with the lanes whose bits are set in `bits`.
    pub(crate) fn start(&mut self, entry: Block, bits: ir::Value) {
        let all = u64::from(u32::MAX >> (32 - self.view.width));
        let all = self.lane.int(types::I32, all);
        let whole = self.lane.b.ins().icmp(IntCC::Equal, bits, all);
        let whole = self.surely(whole);
        let full = self.full_block(entry);
        let some = self.lane.b.create_block();
        self.lane.b.ins().brif(whole, full, &[], some, &[]);
        self.lane.b.switch_to_block(some);
        let mask = self.mask_of_bits(bits);
        self.start_masked(entry, &mask);
    }

    /// Emits loads of the lanes of a varying value from the frame. The code computes the check of a
    /// speculatively affine value again, because the latest check may belong to another chunk.
    fn take_varying(&mut self, value: Value) -> Result<(), EmitError> {
        if let Some(lanes) = self.take_stored(value)?
            && self.is_guarded(value)
        {
            self.guard_stored(value, &lanes)?;
        }
        Ok(())
    }

    /// Sets the first-lane value of a speculatively affine value to the first of the lanes loaded
    /// from the frame, and emits the check whether these lanes are affine.
    fn guard_stored(&mut self, value: Value, lanes: &Lanes) -> Result<(), EmitError> {
        let Some(stride) = self.view.speculative.stride(value) else {
            return Ok(());
        };
        let kind = self.lane.function.dfg.ty(value).kind();
        let first = self.extract(lanes, kind, 0);
        self.lane.set(value, first);
        let wanted = self.affine(value, first, stride)?;
        let equal: Lanes = lanes
            .iter()
            .zip(&wanted)
            .map(|(&a, &b)| self.lane.b.ins().icmp(IntCC::Equal, a, b))
            .collect();
        let holds = self.all(&equal);
        let var = self.holds_var(value);
        self.lane.b.def_var(var, holds);
        Ok(())
    }

    /// Emits the load of the value of the chunk's first lane from the frame; `None` if the value
    /// has no place in a frame.
    fn first_lane(&mut self, value: Value) -> Option<ir::Value> {
        let (address, offset) = self.stored_at(value)?;
        let ty = clif_type(self.lane.function.dfg.ty(value));
        Some(self.lane.b.ins().load(ty, host(), address, offset))
    }

    /// Emits code that loads from the frame the first lane of a speculatively affine value, and the
    /// note that states whether the value's check holds. If the check does not hold, the code loads
    /// all lanes.
    fn take_note(&mut self, value: Value) -> Result<(), EmitError> {
        let noted = self.note_at(value);
        let (Some((address, offset)), Some(first)) = (noted, self.first_lane(value)) else {
            let no = self.lane.b.ins().iconst(types::I8, 0);
            let var = self.holds_var(value);
            self.lane.b.def_var(var, no);
            return self.take_stored(value).map(drop);
        };
        self.lane.set(value, first);
        let holds = self.lane.b.ins().load(types::I8, host(), address, offset);
        let var = self.holds_var(value);
        self.lane.b.def_var(var, holds);
        self.unless(holds, |s| s.take_stored(value).map(drop))
    }

    /// Emits the store of the note that states whether a stored speculatively affine value is affine.
    pub(super) fn note(&mut self, value: Value) {
        if self.view.speculative.stride(value).is_none() {
            return;
        }
        let holds = match (self.mask.is_none(), self.holds(value)) {
            (true, Some(holds)) => holds,
            (true, None) if self.is_assured(value) => self.lane.b.ins().iconst(types::I8, 1),
            _ => self.lane.b.ins().iconst(types::I8, 0),
        };
        if let Some((address, offset)) = self.note_at(value) {
            self.lane.b.ins().store(host(), holds, address, offset);
        }
    }

    pub(super) fn note_at(&mut self, value: Value) -> Option<(ir::Value, i32)> {
        let offset = self.lane.regions?.note_offset(value)?;
        let address = self
            .lane
            .b
            .ins()
            .iadd(self.lane.here.frame?, self.lane.here.lane);
        Some((address, i32::try_from(offset).ok()?))
    }

    /// Emits code that loads a stored uniform or affine value of lane `first`, the lowest lane that
    /// runs, and computes from it the value of the chunk's first lane.
    fn first_stored(&mut self, value: Value, first: ir::Value, class: Class) -> Option<ir::Value> {
        let ty = self.lane.function.dfg.ty(value);
        let offset = self.lane.regions?.offset(value)?;
        let frame = self.lane.here.frame?;
        let b = &mut *self.lane.b;
        let wide = b.ins().uextend(types::I64, first);
        let number = b.ins().iadd(wide, self.lane.here.lane);
        let scaled = b.ins().imul_imm_s(number, i64::from(ty.lane_bytes()));
        let address = b.ins().iadd(frame, scaled);
        let to = clif_type(ty);
        let bits = b
            .ins()
            .load(to, host(), address, i32::try_from(offset).ok()?);
        let Class::Affine(stride) = class else {
            return Some(bits);
        };
        let number = match to {
            types::I64 => wide,
            types::I32 => first,
            _ => b.ins().ireduce(to, first),
        };
        let step = b.ins().imul_imm_s(number, stride);
        Some(b.ins().isub(bits, step))
    }

    fn compute_again(
        &mut self,
        value: Value,
        done: &mut FxHashSet<Value>,
    ) -> Result<(), EmitError> {
        if !done.insert(value) {
            return Ok(());
        }
        let function = self.lane.function;
        let Some(inst) = function.dfg.def_inst(value) else {
            return Ok(());
        };
        for &arg in function.dfg.args(inst) {
            self.compute_again(arg, done)?;
        }
        // The operands must be read as in the block that defines the value, because that block may be inside other
        // loops than the current block.
        let here = self.block;
        self.block = self.view.uniformity.home(value).unwrap_or(here);
        let done = self.operation(inst);
        self.block = here;
        done?;
        // If a value outside the loop is rematerialised from this value, it reads the lanes that were saved when lanes
        // left the loop.
        if self.leaves(value) {
            let lanes = self.own(value)?;
            self.freeze_all(value, &lanes)?;
        }
        Ok(())
    }

    /// Emits stores of the operands of a sync point and of the values that are live after it.
    pub(super) fn save_behind(&mut self, inst: Inst) -> Result<(), EmitError> {
        let function = self.lane.function;
        let results = function.dfg.results(inst);
        let behind = self.lane.behind(inst).unwrap_or_default();
        for &value in behind.iter().filter(|value| !results.contains(value)) {
            self.store_value(value)?;
            self.note(value);
        }
        for &value in function.dfg.args(inst) {
            if !behind.contains(&value) && function.dfg.constant(value).is_none() {
                self.store_value(value)?;
            }
        }
        Ok(())
    }
}
