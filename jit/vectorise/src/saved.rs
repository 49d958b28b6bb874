//! The values that live across barriers.
//!
//! A value that is equal for all threads of the CTA stays in a variable of the program, and so does the base of a value
//! that is affine in the coordinates of the threads ([`crate::bases`]). Other values are in the frames of the warps, in the
//! layout of [`Regions`]: an array of 32 elements for each value. Of a value that is equal or affine for the lanes of a
//! chunk, only the element of the chunk's first lane is in use. Values that [`Regions`] rematerialises are computed again in
//! each phase that uses them.

use margay_ir::analysis::Regions;
use margay_ir::analysis::coordinates::Form;
use margay_ir::analysis::regions::FRAME_ALIVE;
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Block, Inst, Value};
use margay_ir::sync_point::SyncPoint;
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::data::{Access, Data};
use margay_vir::ops::Op;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Refusal;
use crate::emitter::{Emitter, scalar_access};
use crate::phases::{Phase, defined_in};
use crate::variables::{Counter, Key};

/// How a value lives across barriers.
#[derive(Clone, Copy)]
enum Storage<'a> {
    /// In a variable of the program.
    Cta,
    /// A variable of the program contains its base.
    Base(&'a Form),
    /// The first lane's element of an array.
    First,
    /// All elements of an array.
    Lanes,
}

impl<'a> Emitter<'a> {
    fn regions(&self) -> &'a Regions {
        self.kernel.regions
    }

    /// Returns how a value lives at the start of a phase, whose first block is `start`.
    fn storage(&self, value: Value, start: Block) -> Storage<'a> {
        match self.class_at(value, start) {
            Class::Launch | Class::Cta => Storage::Cta,
            Class::Warp | Class::Affine(_) => match self.based.get(&value) {
                Some(form) => Storage::Base(form),
                None => Storage::First,
            },
            Class::Varying => Storage::Lanes,
        }
    }

    /// Finds the values whose bases are in variables of the program: at all resume points where they are live.
    pub(crate) fn find_based(&mut self) {
        // Lanes that yield leave all values in their frames.
        if self.may_yield {
            return;
        }
        let mut based: FxHashMap<Value, &'a Form> = FxHashMap::default();
        let mut others: FxHashSet<Value> = FxHashSet::default();
        for resume_point in &self.regions().resume_points {
            let start = resume_point.block;
            for &value in &resume_point.live_in {
                match self.class_at(value, start) {
                    Class::Warp | Class::Affine(_)
                        if let Some(form) = self.form_at(value, start) =>
                    {
                        based.insert(value, form);
                    }
                    _ => {
                        others.insert(value);
                    }
                }
            }
        }
        based.retain(|value, _| !others.contains(value));
        self.based = based;
    }

    /// Returns the values of a resume point for which there are variables of the program.
    fn values_in_variables(&self, index: usize) -> Vec<Value> {
        let resume_point = &self.regions().resume_points[index];
        let live = resume_point.live_in.iter().copied();
        let is_in_variable = |&value: &Value| {
            let storage = self.storage(value, resume_point.block);
            matches!(storage, Storage::Cta | Storage::Base(_))
        };
        live.filter(is_in_variable).collect()
    }

    /// Returns the values for which there are variables of the program that a phase may change.
    pub(crate) fn changed_values(&self, phase: &Phase) -> Vec<Value> {
        let defined = defined_in(self.source, &phase.blocks);
        let mut changed: Vec<Value> = Vec::new();
        for &end in &phase.ends {
            let values = self.values_in_variables(end);
            changed.extend(values.into_iter().filter(|value| defined.contains(value)));
        }
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    /// Emits code at the start of a chunk that loads and computes the values that a phase needs.
    pub(crate) fn restore(&mut self, index: usize, phase: &Phase) -> Result<(), Refusal> {
        let start = self.regions().resume_points[index].block;
        let mut needed = phase.needed.clone();
        for &end in &phase.ends {
            let live = &self.regions().resume_points[end].live_in;
            let is_stale =
                |value: &&Value| !self.regions().is_stored(SyncPoint(end as u32), **value);
            needed.extend(live.iter().filter(is_stale));
        }
        self.restored.clear();
        for &value in &self.regions().resume_points[index].live_in {
            if !needed.contains(&value) {
                continue;
            }
            self.restored.insert(value);
            if self.is_derived(value) {
                continue;
            }
            match self.storage(value, start) {
                Storage::Cta => {
                    let bits = self.read(Key::Cta(value), self.source.dfg.ty(value));
                    self.set_scalar(value, bits);
                }
                Storage::Base(form) => self.restore_from_base((value, form), start)?,
                Storage::First if self.is_whole() => {
                    let bits = self.read(Key::Saved(value), self.source.dfg.ty(value));
                    self.set_scalar(value, bits);
                }
                Storage::Lanes if self.is_whole() => {
                    let lanes = self.read(Key::Saved(value), self.vector(self.kind(value)));
                    self.set_lanes(value, lanes);
                    self.write(Key::Left(value), lanes);
                }
                Storage::First => {
                    let (ty, access) = self.element(value)?;
                    let row = self.row(ty);
                    let bits = self.load(Op::Load, ty, access, &[row]);
                    let bits = self.loaded_element(value, bits);
                    self.set_scalar(value, bits);
                }
                Storage::Lanes => {
                    let (ty, access) = self.element(value)?;
                    let row = self.row(ty);
                    let stride = i64::from(ty.lane_bytes());
                    let access = Access { stride, ..access };
                    let ty = self.vector(ty.kind());
                    let lanes = self.load(Op::Load, ty, access, &[row]);
                    let lanes = self.loaded_element(value, lanes);
                    self.set_lanes(value, lanes);
                    self.write(Key::Left(value), lanes);
                }
            }
        }
        self.block = start;
        let mut done = FxHashSet::default();
        let mut needed: Vec<Value> = needed.into_iter().collect();
        needed.sort_unstable();
        for value in needed {
            self.rematerialise(value, start, &mut done)?;
        }
        self.block = start;
        Ok(())
    }

    /// Computes a value that is rematerialised, and its operands, for a phase whose first block is `start`.
    pub(crate) fn rematerialise(
        &mut self,
        value: Value,
        start: Block,
        done: &mut FxHashSet<Value>,
    ) -> Result<(), Refusal> {
        if !self.regions().is_rematerialised(value) || self.is_derived(value) || !done.insert(value)
        {
            return Ok(());
        }
        let source = self.source;
        let Some(inst) = source.dfg.def_inst(value) else {
            return Ok(());
        };
        for &arg in source.dfg.args(inst) {
            self.rematerialise(arg, start, done)?;
        }
        self.set_place(inst);
        // The value and its operands have the classes that they have where the value is defined.
        let uniformity = self.kernel.uniformity;
        self.block = uniformity.home(value).unwrap_or(start);
        self.operation(inst)?;
        if uniformity.leaves_apart(self.kernel.function, value, start) {
            let lanes = self.lanes(value);
            self.write(Key::Left(value), lanes);
        }
        Ok(())
    }

    /// Emits the arrival of the lanes that run at a barrier, behind which the resume point `index` is.
    pub(crate) fn arrive(&mut self, inst: Inst) -> Result<(), Refusal> {
        let index = self.behind[&inst];
        let resume_point = &self.regions().resume_points[index];
        for &value in &resume_point.live_in {
            let storage = self.storage(value, resume_point.block);
            if self.is_derived(value) {
                continue;
            }
            match storage {
                Storage::Cta => {
                    let bits = self.scalar(value);
                    self.write(Key::Out(value), bits);
                    continue;
                }
                Storage::Base(form) => {
                    if self.changed.contains(&value) {
                        self.arrive_with_base((value, form))?;
                    }
                    continue;
                }
                Storage::First | Storage::Lanes => {}
            }
            if self.regions().is_stored(SyncPoint(index as u32), value) {
                continue;
            }
            if self.is_whole() {
                let bits = match storage {
                    Storage::First => self.scalar(value),
                    _ => self.lanes(value),
                };
                self.write(Key::Saved(value), bits);
                continue;
            }
            let (ty, access) = self.element(value)?;
            let row = self.row(ty);
            if matches!(storage, Storage::First) {
                let bits = self.scalar(value);
                let bits = self.element_to_store(value, bits);
                self.store(Op::Store, ty, access, &[row, bits]);
            } else {
                let lanes = self.lanes(value);
                let lanes = self.element_to_store(value, lanes);
                let stride = i64::from(ty.lane_bytes());
                let ty = self.vector(ty.kind());
                let access = Access { stride, ..access };
                self.store(Op::Store, ty, access, &[row, lanes]);
            }
        }
        if self.keeps_alive {
            self.set_alive(self.mask);
        }
        let arrived = self.constant(Type::B32, index as u64);
        self.write(Key::Counter(Counter::Arrived), arrived);
        Ok(())
    }

    /// Stores the elements of a value for the lanes that run.
    pub(crate) fn save_running(&mut self, value: Value) -> Result<(), Refusal> {
        let (ty, access) = self.element(value)?;
        let row = self.row(ty);
        let lanes = self.lanes(value);
        let lanes = self.element_to_store(value, lanes);
        let access = Access {
            stride: i64::from(ty.lane_bytes()),
            ..access
        };
        let args = [row, lanes, self.mask];
        self.store(Op::Store, self.vector(ty.kind()), access, &args);
        Ok(())
    }

    /// Returns the mask of the lanes of the chunk that have not exited before this phase.
    pub(crate) fn alive(&mut self) -> Value {
        if self.is_whole() {
            return self.read(Key::Alive, self.mask_type());
        }
        let (row, access) = self.alive_row();
        let bits = self.load(Op::Load, Type::B64, access, &[row]);
        self.value(Op::Mask, self.mask_type(), Data::Nothing, &[bits])
    }

    /// Stores the mask of the chunk's lanes that have not exited.
    pub(crate) fn set_alive(&mut self, lanes: Value) {
        if self.is_whole() {
            return self.write(Key::Alive, lanes);
        }
        let bits = self.value(Op::Ballot, self.mask_type(), Data::Nothing, &[lanes]);
        let (row, access) = self.alive_row();
        self.store(Op::Store, Type::B64, access, &[row, bits]);
    }

    /// Returns where the mask of the chunk's lanes that have not exited is.
    fn alive_row(&mut self) -> (Value, Access) {
        let memory = match self.kernel.width {
            ..=8 => OpType::U8,
            16 => OpType::U16,
            _ => OpType::U32,
        };
        let lane = self.frame_lane;
        let three = self.constant(Type::B32, 3);
        let byte = self.simple(Opcode::Shr, OpType::U64, Type::B64, &[lane, three]);
        let row = self.sum(self.frame, byte);
        let access = Access {
            displacement: FRAME_ALIVE as i32,
            ..scalar_access(memory)
        };
        (row, access)
    }

    /// Returns the type of an element in memory of a value in the frame, and how to access the first lane's element.
    fn element(&self, value: Value) -> Result<(Type, Access), Refusal> {
        let offset = self.regions().offset(value);
        let offset = offset.ok_or(Refusal::Operation("a value without a place in the frame"))?;
        let kind = match self.kind(value) {
            Kind::Pred => Kind::B8,
            kind => kind,
        };
        let access = Access {
            displacement: offset as i32,
            ..scalar_access(kind.op_type())
        };
        Ok((Type::scalar(kind), access))
    }

    /// Returns the address of the first lane's element of an array of elements of type `ty` at offset 0 of the frame.
    fn row(&mut self, ty: Type) -> Value {
        let shift = self.constant(Type::B32, u64::from(ty.lane_bytes().trailing_zeros()));
        let lane = self.frame_lane;
        let bytes = self.simple(Opcode::Shl, OpType::B64, Type::B64, &[lane, shift]);
        self.sum(self.frame, bytes)
    }

    /// Converts elements in memory to a value: predicates are bytes in memory.
    fn loaded_element(&mut self, value: Value, bits: Value) -> Value {
        if self.kind(value) != Kind::Pred {
            return bits;
        }
        let zero = self.constant(Type::B8, 0);
        let wide = self.convert(OpType::U16, OpType::U8, bits);
        let zero = self.convert(OpType::U16, OpType::U8, zero);
        self.compare((margay_ops::mods::CmpOp::Ne, OpType::U16), wide, zero)
    }

    /// Converts a value to elements in memory.
    fn element_to_store(&mut self, value: Value, bits: Value) -> Value {
        if self.kind(value) != Kind::Pred {
            return bits;
        }
        let lanes = self.out.ty(bits).lanes();
        let ty = Type::vector(Kind::B16, lanes).expect("a possible number of lanes");
        let [one, zero] = [1, 0].map(|bits| self.constant(Type::B16, bits));
        let wide = self.simple(Opcode::Selp, OpType::B16, ty, &[one, zero, bits]);
        self.convert(OpType::U8, OpType::U16, wide)
    }
}
