//! Reads, writes and converts the lanes of a chunk's values, which are in variables, vectors, masks
//! and frames.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::Value;
use margay_ops::types::Kind;
use smallvec::smallvec;

use super::{Lanes, Slice, Vars, cast_flags, vector_type};
use crate::emit::lane::{EmitError, host};

impl Slice<'_, '_> {
    pub(super) fn declare(&mut self, ty: ir::Type) -> Vars {
        (0..self.count(ty))
            .map(|_| self.lane.b.declare_var(ty))
            .collect()
    }

    pub(super) fn vars(&mut self, value: Value) -> Result<Vars, EmitError> {
        if let Some(vars) = self.vars.get(&value) {
            return Ok(vars.clone());
        }
        let ty = vector_type(self.lane.function.dfg.ty(value))?;
        let vars = self.declare(ty);
        self.vars.insert(value, vars.clone());
        Ok(vars)
    }

    pub(super) fn frozen(&mut self, value: Value) -> Result<Vars, EmitError> {
        if let Some(vars) = self.frozen.get(&value) {
            return Ok(vars.clone());
        }
        let ty = vector_type(self.lane.function.dfg.ty(value))?;
        let vars = self.declare(ty);
        self.frozen.insert(value, vars.clone());
        Ok(vars)
    }

    pub(super) fn use_vars(&mut self, vars: &Vars) -> Lanes {
        vars.iter().map(|&var| self.lane.b.use_var(var)).collect()
    }

    pub(super) fn def_vars(&mut self, vars: &Vars, lanes: &Lanes) {
        for (&var, &bits) in vars.iter().zip(lanes) {
            self.lane.b.def_var(var, bits);
        }
    }

    /// Returns the lanes that a value has for code in the block being translated. If lanes have left the value's loop
    /// in different iterations, these are the lanes that were saved when they left.
    pub(crate) fn get(&mut self, value: Value) -> Result<Lanes, EmitError> {
        if let Some(lanes) = self.made.get(&value) {
            return Ok(lanes.clone());
        }
        let function = self.lane.function;
        let uniformity = self.view.uniformity;
        if uniformity.leaves_apart(function, value, self.block) {
            let vars = self.frozen(value)?;
            return Ok(self.use_vars(&vars));
        }
        self.own(value)
    }

    /// Returns the lanes of a value as its latest definition computed them.
    pub(super) fn own(&mut self, value: Value) -> Result<Lanes, EmitError> {
        let uniformity = self.view.uniformity;
        if let Some(lanes) = self.lazy_lanes(value)? {
            return Ok(lanes);
        }
        match uniformity.class(value) {
            Class::Varying if self.in_memory(value) => self.lanes_in_memory(value),
            Class::Varying => {
                let vars = self.vars(value)?;
                Ok(self.use_vars(&vars))
            }
            class => {
                let base = self.lane.get(value);
                let stride = match class {
                    Class::Affine(stride) => stride,
                    _ => 0,
                };
                let lanes = self.affine(value, base, stride)?;
                self.made.insert(value, lanes.clone());
                Ok(lanes)
            }
        }
    }

    /// Returns the lanes of an affine value whose first lane is `base`.
    pub(super) fn affine(
        &mut self,
        value: Value,
        base: ir::Value,
        stride: i64,
    ) -> Result<Lanes, EmitError> {
        let of = self.lane.function.dfg.ty(value);
        let ty = vector_type(of)?;
        let base = self.widened(base, of.kind());
        let splat = self.lane.b.ins().splat(ty, base);
        if stride == 0 {
            return Ok(smallvec![splat; self.count(ty)]);
        }
        let steps = self.steps(ty, stride);
        Ok(steps
            .into_iter()
            .map(|step| {
                let lanes = self.lane.b.ins().iadd(splat, step);
                self.narrowed(lanes, of.kind())
            })
            .collect())
    }

    /// Emits code that clears the bits of 32-bit lanes beyond the width of a narrow integer.
    pub(super) fn narrowed(&mut self, lanes: ir::Value, kind: Kind) -> ir::Value {
        let bits = match kind {
            Kind::B8 => 0xff,
            Kind::B16 => 0xffff,
            _ => return lanes,
        };
        let mask = self.constant(types::I32X4, bits);
        self.lane.b.ins().band(lanes, mask)
    }

    /// Sets the lanes of a varying value. Does nothing for other values.
    pub(crate) fn set(&mut self, value: Value, lanes: &Lanes) -> Result<(), EmitError> {
        if self.view.uniformity.class(value) != Class::Varying {
            return Ok(());
        }
        self.made.remove(&value);
        if self.in_memory(value) {
            return self.keep_in_memory(value, lanes);
        }
        let vars = self.vars(value)?;
        self.def_vars(&vars, lanes);
        Ok(())
    }

    /// Returns `stride * lane` for each lane of the chunk.
    fn steps(&mut self, ty: ir::Type, stride: i64) -> Lanes {
        let per = ty.lane_count();
        let bytes = ty.lane_type().bytes() as usize;
        (0..self.count(ty) as u32)
            .map(|chunk| {
                let lanes = chunk * per..(chunk + 1) * per;
                let data: Vec<u8> = lanes
                    .flat_map(|lane| {
                        let step = stride.wrapping_mul(i64::from(lane)).to_le_bytes();
                        step.into_iter().take(bytes)
                    })
                    .collect();
                self.vector_constant(ty, &data)
            })
            .collect()
    }

    pub(super) fn vector_constant(&mut self, ty: ir::Type, data: &[u8]) -> ir::Value {
        let constant = self.lane.b.func.dfg.constants.insert(data.into());
        self.lane.b.ins().vconst(ty, constant)
    }

    /// Returns a vector with the same bits in every lane.
    pub(crate) fn constant(&mut self, ty: ir::Type, bits: u64) -> ir::Value {
        let bytes = ty.lane_type().bytes() as usize;
        let data: Vec<u8> = bits.to_le_bytes()[..bytes].repeat(ty.lane_count() as usize);
        self.vector_constant(ty, &data)
    }

    /// Emits the conversion of a scalar to the form that it has as a lane of a vector.
    pub(crate) fn widened(&mut self, bits: ir::Value, kind: Kind) -> ir::Value {
        match kind {
            Kind::Pred => {
                let wide = self.lane.b.ins().uextend(types::I32, bits);
                self.lane.b.ins().ineg(wide)
            }
            Kind::B8 | Kind::B16 => self.lane.b.ins().uextend(types::I32, bits),
            _ => bits,
        }
    }

    /// Emits code that extracts a lane of a value and converts it to the scalar form that
    /// [`crate::emit::Lane`] uses.
    pub(crate) fn extract(&mut self, lanes: &Lanes, kind: Kind, lane: u32) -> ir::Value {
        let ty = self.lane.b.func.dfg.value_type(lanes[0]);
        let per = ty.lane_count();
        let vector = lanes[(lane / per) as usize];
        let bits = self.lane.b.ins().extractlane(vector, (lane % per) as u8);
        self.unwidened(bits, kind)
    }

    /// Emits the conversion of a lane of a vector to scalar form; the inverse of
    /// [`Slice::widened`].
    pub(crate) fn unwidened(&mut self, bits: ir::Value, kind: Kind) -> ir::Value {
        match kind {
            Kind::Pred => {
                let byte = self.lane.b.ins().ireduce(types::I8, bits);
                self.lane.b.ins().band_imm_u(byte, 1)
            }
            Kind::B8 => self.lane.b.ins().ireduce(types::I8, bits),
            Kind::B16 => self.lane.b.ins().ireduce(types::I16, bits),
            _ => bits,
        }
    }

    /// Emits code that builds the vectors whose lanes are the given scalars.
    pub(crate) fn gathered(&mut self, scalars: &[ir::Value], ty: ir::Type) -> Lanes {
        let per = ty.lane_count() as usize;
        scalars
            .chunks(per)
            .map(|group| {
                let mut vector = self.lane.b.ins().scalar_to_vector(ty, group[0]);
                for (i, &scalar) in group.iter().enumerate().skip(1) {
                    vector = self.lane.b.ins().insertlane(vector, scalar, i as u8);
                }
                vector
            })
            .collect()
    }

    /// Emits bitcasts of vectors to type `ty`, which has the same lane width.
    pub(crate) fn cast(&mut self, lanes: &Lanes, ty: ir::Type) -> Lanes {
        lanes
            .iter()
            .map(|&vector| self.cast_one(vector, ty))
            .collect()
    }

    pub(crate) fn cast_one(&mut self, vector: ir::Value, ty: ir::Type) -> ir::Value {
        if self.lane.b.func.dfg.value_type(vector) == ty {
            vector
        } else {
            self.lane.b.ins().bitcast(ty, cast_flags(), vector)
        }
    }

    /// Selects four words of the vectors `a` and `b`, and returns them as a vector of type `ty`. `first` contains the
    /// index of the first byte of each word. The bytes of `a` have the indices 0 to 15, and the bytes of `b` the
    /// indices 16 to 31.
    pub(super) fn joined(
        &mut self,
        a: ir::Value,
        b: ir::Value,
        first: [u8; 4],
        ty: ir::Type,
    ) -> ir::Value {
        let bytes = first
            .into_iter()
            .flat_map(|first| (0..4).map(move |byte| first + byte));
        let pick: Vec<u8> = bytes.collect();
        let pick = self.lane.b.func.dfg.immediates.push(pick.as_slice().into());
        let a = self.cast_one(a, types::I8X16);
        let b = self.cast_one(b, types::I8X16);
        let words = self.lane.b.ins().shuffle(a, b, pick);
        self.cast_one(words, ty)
    }

    /// Emits the conversion of a mask with 32 bits per lane to a mask for vectors of type `ty`.
    pub(crate) fn mask_for(&mut self, mask: &Lanes, ty: ir::Type) -> Lanes {
        if ty.lane_bits() == 32 {
            return self.cast(mask, ty);
        }
        let wide: Lanes = mask
            .iter()
            .flat_map(|&four| {
                let low = self.lane.b.ins().swiden_low(four);
                [low, self.lane.b.ins().swiden_high(four)]
            })
            .collect();
        self.cast(&wide, ty)
    }

    /// Returns `a` in the lanes of the mask, and `b` in the other lanes.
    pub(crate) fn blend(&mut self, mask: &Lanes, a: &Lanes, b: &Lanes) -> Lanes {
        if a == b {
            return a.clone();
        }
        let ty = self.lane.b.func.dfg.value_type(a[0]);
        let mask = self.mask_for(mask, ty);
        mask.iter()
            .zip(a.iter().zip(b))
            .map(|(&mask, (&a, &b))| self.lane.b.ins().bitselect(mask, a, b))
            .collect()
    }

    /// Emits the test whether any lane of the mask is set.
    pub(crate) fn any(&mut self, mask: &Lanes) -> ir::Value {
        let or = self.fold(mask, |b, x, y| b.ins().bor(x, y));
        self.lane.b.ins().vany_true(or)
    }

    pub(crate) fn all(&mut self, mask: &Lanes) -> ir::Value {
        let and = self.fold(mask, |b, x, y| b.ins().band(x, y));
        self.lane.b.ins().vall_true(and)
    }

    fn fold(
        &mut self,
        lanes: &Lanes,
        join: impl Fn(&mut cranelift_frontend::FunctionBuilder<'_>, ir::Value, ir::Value) -> ir::Value,
    ) -> ir::Value {
        let mut rest = lanes.clone();
        while rest.len() > 1 {
            rest = rest
                .chunks(2)
                .map(|pair| match *pair {
                    [x, y] => join(self.lane.b, x, y),
                    [x, ..] => x,
                    [] => unreachable!("chunks are never empty"),
                })
                .collect();
        }
        rest[0]
    }

    /// Emits the conversion of a mask to a word with one bit per lane. The lowest bit belongs to
    /// the first lane.
    pub(crate) fn bits(&mut self, mask: &Lanes) -> ir::Value {
        let mut whole = None;
        for (i, &four) in mask.iter().enumerate() {
            let bits = self.lane.b.ins().vhigh_bits(types::I32, four);
            let placed = self.lane.b.ins().ishl_imm_u(bits, 4 * i as i64);
            whole = Some(match whole {
                None => placed,
                Some(rest) => self.lane.b.ins().bor(rest, placed),
            });
        }
        whole.unwrap_or_else(|| self.lane.b.ins().iconst(types::I32, 0))
    }

    /// Emits the conversion of a word with one bit per lane to a mask. The lowest bit belongs to
    /// the first lane.
    pub(crate) fn mask_of_bits(&mut self, word: ir::Value) -> Lanes {
        let splat = self.lane.b.ins().splat(types::I32X4, word);
        (0..self.count(types::I32X4))
            .map(|chunk| {
                let data: Vec<u8> = (0..4)
                    .flat_map(|i| (1u32 << (4 * chunk + i)).to_le_bytes())
                    .collect();
                let bit = self.vector_constant(types::I32X4, &data);
                let hit = self.lane.b.ins().band(splat, bit);
                self.lane.b.ins().icmp(IntCC::Equal, hit, bit)
            })
            .collect()
    }

    pub(super) fn no_lanes(&mut self) -> Lanes {
        let zero = self.constant(types::I32X4, 0);
        smallvec![zero; self.count(types::I32X4)]
    }

    pub(super) fn all_lanes(&mut self) -> Lanes {
        let ones = self.constant(types::I32X4, u64::MAX);
        smallvec![ones; self.count(types::I32X4)]
    }

    /// Returns the mask of the lanes that run, as a word with one bit per lane.
    pub(crate) fn active_bits(&mut self) -> ir::Value {
        match self.mask.clone() {
            Some(mask) => self.bits(&mask),
            None => {
                let all = u64::from(u32::MAX >> (32 - self.view.width));
                self.lane.int(types::I32, all)
            }
        }
    }

    /// Returns the address and the offset of a value's lanes in the frame; `None` if the value has no place in a frame.
    pub(super) fn stored_at(&mut self, value: Value) -> Option<(ir::Value, i32)> {
        let offset = self.lane.regions?.offset(value)?;
        let bytes = self.lane.function.dfg.ty(value).lane_bytes();
        let b = &mut *self.lane.b;
        let scaled = b.ins().imul_imm_s(self.lane.here.lane, i64::from(bytes));
        let address = b.ins().iadd(self.lane.here.frame?, scaled);
        Some((address, i32::try_from(offset).ok()?))
    }

    /// Emits loads of a value's lanes from the frame; `None` if the frame has no place for the
    /// value.
    pub(super) fn load_stored(&mut self, value: Value) -> Result<Option<Lanes>, EmitError> {
        let ty = self.lane.function.dfg.ty(value);
        let to = vector_type(ty)?;
        let Some((address, offset)) = self.stored_at(value) else {
            return Ok(None);
        };
        let kind = ty.kind();
        if matches!(kind, Kind::Pred | Kind::B8 | Kind::B16) {
            let lanes = self.load_narrow(address, offset, ty.lane_bytes(), false, host());
            return Ok(Some(match kind {
                Kind::Pred => lanes
                    .iter()
                    .map(|&four| self.lane.b.ins().ineg(four))
                    .collect(),
                _ => lanes,
            }));
        }
        let count = self.count(to) as i32;
        let lanes = (0..count)
            .map(|i| self.lane.b.ins().load(to, host(), address, offset + 16 * i))
            .collect();
        Ok(Some(lanes))
    }

    /// Emits the store of the active lanes of a value to the frame.
    pub(super) fn store_value(&mut self, value: Value) -> Result<(), EmitError> {
        let lanes = self.get(value)?;
        self.store_lanes(value, lanes)
    }

    /// Emits stores of the lanes `lanes` of a value to the frame. The code stores only active
    /// lanes.
    pub(super) fn store_lanes(&mut self, value: Value, mut lanes: Lanes) -> Result<(), EmitError> {
        let ty = self.lane.function.dfg.ty(value);
        let Some((address, offset)) = self.stored_at(value) else {
            return Ok(());
        };
        if let Some(mask) = self.mask.clone()
            && let Some(old) = self.load_stored(value)?
        {
            lanes = self.blend(&mask, &lanes, &old);
        }
        match ty.kind() {
            Kind::Pred => {
                let one = self.constant(types::I32X4, 1);
                let bytes: Lanes = lanes
                    .iter()
                    .map(|&four| self.lane.b.ins().band(four, one))
                    .collect();
                self.store_narrow(&bytes, address, offset, 1, host());
            }
            Kind::B8 | Kind::B16 => {
                self.store_narrow(&lanes, address, offset, ty.lane_bytes(), host());
            }
            _ => {
                for (i, &vector) in lanes.iter().enumerate() {
                    let at = offset + 16 * i as i32;
                    self.lane.b.ins().store(host(), vector, address, at);
                }
            }
        }
        Ok(())
    }

    /// Emits code that saves all lanes of a value for code outside the loop that defines the value,
    /// because some lanes may have left the loop already.
    pub(super) fn freeze_all(&mut self, value: Value, lanes: &Lanes) -> Result<(), EmitError> {
        if self.leaves(value) {
            let vars = self.frozen(value)?;
            self.def_vars(&vars, lanes);
        }
        Ok(())
    }

    /// Returns whether lanes carry a value in different iterations out of the loop that defines it.
    pub(super) fn leaves(&self, value: Value) -> bool {
        self.leaving.iter().any(|&(leaving, _)| leaving == value)
    }

    /// Emits loads of the lanes of a value from the frame and returns the lanes. If the value is
    /// varying, also sets the value to these lanes.
    pub(super) fn take_stored(&mut self, value: Value) -> Result<Option<Lanes>, EmitError> {
        let Some(lanes) = self.load_stored(value)? else {
            return Ok(None);
        };
        self.freeze_all(value, &lanes)?;
        self.set(value, &lanes)?;
        Ok(Some(lanes))
    }
}
