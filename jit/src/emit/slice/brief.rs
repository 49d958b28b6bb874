//! Lazy spills: the stores of live values to the frame by whole chunks that stop at a barrier on the uniform path.
//!
//! A lazy spill of a uniform or affine value stores only the first lane. Most values that an earlier barrier has stored
//! are not stored again. After the barrier, only the uniform path and whole chunks of converged warps can read lazy
//! spills ([`Slice::behind_barrier`]). Before other code reads the frame, [`Slice::spread`] materialises all lanes.
//! Materialising is harmless if all lanes are stored already.

use margay_exec::SyncPoint;
use margay_ir::analysis::regions::ResumePoint;
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Inst, Value};

use cranelift_codegen::ir::{InstBuilder, types};

use super::{Lanes, Slice};
use crate::emit::clif_type;
use crate::emit::lane::{EmitError, Here, host};

/// How a lazy spill stores a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// All lanes.
    Lanes,
    /// The spill stores the first lane. The field is the difference between the values in
    /// neighbouring lanes.
    First(i64),
    /// The spill stores the first lane and, if the check of the speculatively affine value fails,
    /// all lanes. A note in the frame records whether the check holds. The field is the difference
    /// between the values in neighbouring lanes if the check holds.
    Guarded(i64),
}

impl Slice<'_, '_> {
    /// Returns how a lazy spill stores a value at a barrier. This depends on the classes that the value has before and
    /// after the barrier.
    fn brief_form(&mut self, value: Value, entry: &ResumePoint) -> Form {
        let function = self.lane.function;
        let here = self.class(value);
        let behind = self.view.uniformity.class_in(function, value, entry.block);
        let stride = |class| match class {
            Class::Affine(stride) => stride,
            _ => 0,
        };
        if here == Class::Varying || behind == Class::Varying {
            let noted = self.lane.regions.and_then(|r| r.note_offset(value));
            return match self.view.speculative.stride(value) {
                Some(stride)
                    if self.is_guarded(value) && !self.leaves(value) && noted.is_some() =>
                {
                    Form::Guarded(stride)
                }
                _ => Form::Lanes,
            };
        }
        if stride(here) == stride(behind) {
            Form::First(stride(behind))
        } else {
            Form::Lanes
        }
    }

    /// Emits lazy spills of the values that the region after a barrier needs.
    pub(super) fn save_briefly(&mut self, inst: Inst, stop: SyncPoint) -> Result<(), EmitError> {
        let Some(regions) = self.lane.regions else {
            return Ok(());
        };
        let entry = &regions.resume_points[stop.0 as usize];
        let results = self.lane.function.dfg.results(inst);
        for &value in entry
            .live_in
            .iter()
            .filter(|value| !results.contains(value))
        {
            if self.hoisted.has(value) {
                continue;
            }
            let stored = regions.is_stored(stop, value);
            match self.brief_form(value, entry) {
                Form::First(_) if stored => {}
                Form::First(_) => {
                    let first = self.lane.get(value);
                    self.store_first(value, first);
                }
                Form::Lanes
                    if stored
                        && self.view.uniformity.class(value) == Class::Varying
                        && self.view.speculative.stride(value).is_none() => {}
                Form::Lanes => self.store_value(value)?,
                Form::Guarded(_) => {
                    let first = self.lane.get(value);
                    self.store_first(value, first);
                    self.note(value);
                    if let Some(holds) = self.holds(value) {
                        self.unless(holds, |s| s.store_value(value))?;
                    }
                }
            }
        }
        self.brief.insert(stop, self.block);
        Ok(())
    }

    fn store_first(&mut self, value: Value, first: cranelift_codegen::ir::Value) {
        if let Some((address, offset)) = self.stored_at(value) {
            self.lane.b.ins().store(host(), first, address, offset);
        }
    }

    /// Emits code that materialises the lazy spills of a barrier, for the chunk `here`.
    pub(crate) fn spread(&mut self, stop: SyncPoint, here: Here) -> Result<(), EmitError> {
        let (Some(regions), Some(&block)) = (self.lane.regions, self.brief.get(&stop)) else {
            return Ok(());
        };
        let entry = &regions.resume_points[stop.0 as usize];
        let results: &[Value] = match entry.sync_point {
            Some(point) => self.lane.function.dfg.results(point),
            None => &[],
        };
        let before = std::mem::replace(&mut self.lane.here, here);
        self.block = block;
        self.mask = None;
        self.made.clear();
        for &value in entry
            .live_in
            .iter()
            .filter(|value| !results.contains(value))
        {
            if self.hoisted.has(value) {
                let lanes = self.own(value)?;
                self.store_lanes(value, lanes)?;
                continue;
            }
            match self.brief_form(value, entry) {
                Form::Lanes => {}
                Form::First(stride) => self.spread_one(value, stride)?,
                Form::Guarded(stride) => {
                    let Some((address, offset)) = self.note_at(value) else {
                        continue;
                    };
                    let holds = self.lane.b.ins().load(types::I8, host(), address, offset);
                    let b = &mut *self.lane.b;
                    let [some, on] = std::array::from_fn(|_| b.create_block());
                    b.ins().brif(holds, some, &[], on, &[]);
                    b.switch_to_block(some);
                    self.spread_one(value, stride)?;
                    let b = &mut *self.lane.b;
                    b.ins().jump(on, &[]);
                    b.switch_to_block(on);
                }
            }
        }
        self.made.clear();
        self.lane.here = before;
        Ok(())
    }

    fn spread_one(&mut self, value: Value, stride: i64) -> Result<(), EmitError> {
        let Some((address, offset)) = self.stored_at(value) else {
            return Ok(());
        };
        let ty = clif_type(self.lane.function.dfg.ty(value));
        let first = self.lane.b.ins().load(ty, host(), address, offset);
        let lanes: Lanes = self.affine(value, first, stride)?;
        self.store_lanes(value, lanes)
    }
}
