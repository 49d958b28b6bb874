//! Loads and stores of a chunk.
//!
//! If the addresses of the lanes are contiguous, the code accesses whole vectors. If all lanes of a whole chunk access
//! one address, the code accesses it once. For other addresses, the code accesses memory once for each lane, in the
//! order of the lanes. For inactive lanes, it accesses a scratch cell instead.

use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Inst, Value};
use margay_ir::function::InstData;
use margay_ops::mods::StateSpace;
use margay_ops::types::{Kind, OpType};

use super::{Lanes, Slice, View, vector_type};
use crate::emit::aligned::demanded;
use crate::emit::clif_type;
use crate::emit::lane::{EmitError, Lane, device, fixed, host};
use crate::emit::memory::element_type;

/// The addresses of the lanes of an access.
pub(super) enum Places {
    /// `address` is the first lane's host address, and `stride` the distance in bytes between neighbouring lanes. If
    /// the addresses are 32-bit offsets in a window, `window` contains the base of the window and the first lane's
    /// offset.
    Strided {
        address: ir::Value,
        stride: i64,
        /// The first lane's PTX address, which has the same alignment as the host address.
        base: ir::Value,
        window: Option<(ir::Value, ir::Value)>,
    },
    /// A host address for each lane.
    Each(Vec<ir::Value>),
}

/// Returns the stride of an access with a speculatively affine address, if the access is contiguous
/// or all lanes access one address whenever the checks of the address hold. Returns `None` for
/// other accesses.
pub(super) fn run_stride(
    view: View<'_>,
    address: Value,
    data: &InstData,
    element: ir::Type,
) -> Option<i64> {
    let stride = view.speculative.stride(address)?;
    let one = data.mods.vec() == 1;
    let run = one && stride == i64::from(element.bytes()) || stride == 0;
    (run && Lane::is_weak(data) && data.mods.space() != StateSpace::Local).then_some(stride)
}

impl Slice<'_, '_> {
    /// Returns the addresses of the lanes of an access. `stride` is given if the address is speculatively affine and
    /// its check holds where the code runs.
    pub(super) fn places(
        &mut self,
        address: Value,
        space: StateSpace,
        stride: Option<i64>,
    ) -> Result<Places, EmitError> {
        let class = match stride {
            Some(stride) => Class::Affine(stride),
            None => self.class(address),
        };
        if space == StateSpace::Local {
            let first = self.lane.here;
            let kind = self.lane.function.dfg.ty(address).kind();
            let lanes = self.get(address)?;
            let mut each = Vec::new();
            for lane in 0..self.view.width {
                let bits = self.extract(&lanes, kind, lane);
                self.lane.here = self.here(lane);
                each.push(self.lane.host_address(bits, space));
                self.lane.here = first;
            }
            return Ok(Places::Each(each));
        }
        let stride = match class {
            Class::Affine(stride) => stride,
            Class::Varying => {
                let kind = self.lane.function.dfg.ty(address).kind();
                let lanes = self.get(address)?;
                let each = (0..self.view.width)
                    .map(|lane| {
                        let bits = self.extract(&lanes, kind, lane);
                        self.lane.host_address(bits, space)
                    })
                    .collect();
                return Ok(Places::Each(each));
            }
            _ => 0,
        };
        let base = self.lane.get(address);
        let window = self.lane.window(space).map(|window| {
            let offset = if self.lane.b.func.dfg.value_type(base) == types::I32 {
                base
            } else {
                self.lane.b.ins().ireduce(types::I32, base)
            };
            (window, offset)
        });
        let address = match window {
            Some((window, offset)) => {
                let wide = self.lane.b.ins().uextend(types::I64, offset);
                self.lane.b.ins().iadd(window, wide)
            }
            None => self.lane.host_address(base, space),
        };
        Ok(Places::Strided {
            address,
            stride,
            base,
            window,
        })
    }

    /// Emits a test that ends the launch if the address that [`Self::guarded`] returned for a lane is not aligned to
    /// `bytes`. If one test covers all lanes, tests the first lane's address instead.
    fn demand(
        &mut self,
        inst: Inst,
        places: &Places,
        (address, offset): (ir::Value, i32),
        bytes: u32,
    ) {
        if bytes < 2 || self.examined {
            return;
        }
        let whole = self.lane.function.dfg.args(inst)[0];
        let Some(root) = self.lane.low_bits_of(inst, whole, bytes) else {
            return;
        };
        if self.mask.is_none() {
            let class = self.class(root);
            let step = match (places, class) {
                (&Places::Strided { stride, .. }, _) => stride,
                (_, Class::Affine(stride)) => stride,
                (_, Class::Varying) => 1,
                _ => 0,
            };
            // If the first lane's address is aligned, the addresses of all lanes are aligned.
            if step % i64::from(bytes) == 0 {
                let low = match (places, class) {
                    (&Places::Strided { base, .. }, Class::Varying) => base,
                    _ => self.lane.get(root),
                };
                return self.lane.demand_multiple(low, bytes);
            }
        }
        let at = match offset {
            0 => address,
            _ => self.lane.b.ins().iadd_imm_s(address, i64::from(offset)),
        };
        self.lane.demand_multiple(at, bytes);
    }

    /// Returns the address of a lane's access plus `beyond` bytes, as a base and a constant offset.
    fn place(&mut self, places: &Places, lane: u32, beyond: i32) -> (ir::Value, i32) {
        match places {
            Places::Each(each) => (each[lane as usize], beyond),
            &Places::Strided {
                address,
                stride,
                window,
                ..
            } => {
                let step = stride.wrapping_mul(i64::from(lane));
                // The first lane's address may be outside the window if the first lane is not active. The offsets of
                // the other lanes are therefore computed modulo 2^32.
                if let (Some((base, offset)), true) = (window, self.mask.is_some()) {
                    let here = self.lane.b.ins().iadd_imm_s(offset, i64::from(step as i32));
                    let wide = self.lane.b.ins().uextend(types::I64, here);
                    return (self.lane.b.ins().iadd(base, wide), beyond);
                }
                match i32::try_from(step.wrapping_add(i64::from(beyond))) {
                    Ok(offset) => (address, offset),
                    Err(_) => (self.lane.b.ins().iadd_imm_s(address, step), beyond),
                }
            }
        }
    }

    fn contiguous(places: &Places, bytes: i64) -> bool {
        matches!(places, Places::Strided { stride, .. } if *stride == bytes)
    }

    /// Returns an address that is the given address if the lane is active, otherwise the address of a scratch cell.
    fn guarded(&mut self, (address, offset): (ir::Value, i32), lane: u32) -> (ir::Value, i32) {
        let Some(mask) = self.mask.clone() else {
            return (address, offset);
        };
        let word = mask[lane as usize / 4];
        let bit = self.lane.b.ins().extractlane(word, (lane % 4) as u8);
        let scratch = self.scratch();
        let address = if offset == 0 {
            address
        } else {
            self.lane.b.ins().iadd_imm_s(address, i64::from(offset))
        };
        (self.lane.b.ins().select(bit, address, scratch), 0)
    }

    /// Records, for fault reports, that the code emitted next belongs to an instruction and a lane.
    pub(super) fn mark(&mut self, inst: Inst, lane: u32) {
        self.lane
            .b
            .set_srcloc(ir::SourceLoc::new(crate::function::place_word(inst, lane)));
    }

    pub(super) fn load(&mut self, inst: Inst, data: &InstData) -> Result<(), EmitError> {
        let function = self.lane.function;
        let results = function.dfg.results(inst);
        let uniformity = self.view.uniformity;
        if results
            .iter()
            .all(|&value| uniformity.class(value) != Class::Varying)
        {
            // A fault report must name an active lane.
            self.note_first();
            return self.lane.operation(inst);
        }
        let Some(element) = element_type(data.ty) else {
            return self.lane.refuse(data);
        };
        if element == types::I128 || Lane::is_whole(element, data) {
            return self.each_lane(inst);
        }
        let address = function.dfg.args(inst)[0];
        if let Some(check) = self.take_pending_check(address) {
            return self.checked_access(check, (inst, data, element), |s, places, _| {
                let lanes = s.loaded(inst, data, element, places)?;
                let mut results = results.iter().zip(&lanes);
                results.try_for_each(|(&value, lanes)| s.set(value, lanes))
            });
        }
        let load = |s: &mut Self, stride| {
            let places = s.places(address, data.mods.space(), stride)?;
            s.demand_reach(inst, data, &places)?;
            let lanes = s.loaded(inst, data, element, &places)?;
            let mut results = results.iter().zip(&lanes);
            results.try_for_each(|(&value, lanes)| s.set(value, lanes))
        };
        match self.guarded_run(address, data, element) {
            Some((None, stride)) => load(self, Some(stride)),
            Some((Some(holds), stride)) => {
                self.in_a_run(inst, holds, |s| load(s, Some(stride)))?;
                results.iter().for_each(|value| {
                    self.made.remove(value);
                });
                Ok(())
            }
            None => load(self, None),
        }
    }

    /// Emits two versions of an access. If the check `holds`, the code that `run` emits accesses whole vectors.
    /// Otherwise a loop over the lanes makes the access, because a loop needs few registers.
    fn in_a_run(
        &mut self,
        inst: Inst,
        holds: ir::Value,
        run: impl FnOnce(&mut Self) -> Result<(), EmitError>,
    ) -> Result<(), EmitError> {
        let [whole, each, join] = std::array::from_fn(|_| self.lane.b.create_block());
        self.lane.b.ins().brif(holds, whole, &[], each, &[]);
        let made = self.made.clone();
        self.lane.b.switch_to_block(whole);
        run(self)?;
        self.lane.b.ins().jump(join, &[]);
        self.made.clone_from(&made);
        self.lane.b.switch_to_block(each);
        self.each_lane(inst)?;
        self.lane.b.ins().jump(join, &[]);
        self.made = made;
        self.lane.b.switch_to_block(join);
        Ok(())
    }

    /// For an access that is contiguous or at one address if the check of its address holds, returns the check and the
    /// stride. The check is `None` if CTA range analysis has proved it. Returns `None` for other accesses.
    fn guarded_run(
        &mut self,
        address: Value,
        data: &InstData,
        element: ir::Type,
    ) -> Option<(Option<ir::Value>, i64)> {
        let stride = run_stride(self.view, address, data, element)?;
        self.is_guarded(address)
            .then(|| (self.holds(address), stride))
    }

    /// Emits the loads of the lanes of all results of a load, and returns these lanes.
    fn loaded(
        &mut self,
        inst: Inst,
        data: &InstData,
        element: ir::Type,
        places: &Places,
    ) -> Result<Vec<Lanes>, EmitError> {
        let function = self.lane.function;
        let results = function.dfg.results(inst);
        let flags = match data.mods.space() {
            StateSpace::Param => fixed(),
            _ => device(),
        };
        let strong = !Lane::is_weak(data);
        if results.len() == 1 && !strong && Self::contiguous(places, i64::from(element.bytes())) {
            return Ok(vec![
                self.load_run(inst, places, results[0], data.ty, flags)?,
            ]);
        }
        if let Places::Strided { stride: 0, .. } = places
            && !strong
            && self.mask.is_none()
        {
            let at = self.place(places, 0, 0);
            self.demand(inst, places, at, demanded(data));
            return results
                .iter()
                .enumerate()
                .map(|(i, &value)| {
                    let at = (at.0, at.1 + i as i32 * element.bytes() as i32);
                    let bits = self
                        .lane
                        .load_element(element, at, (false, flags), (value, data));
                    self.affine(value, bits, 0)
                })
                .collect();
        }
        let types: Vec<ir::Type> = results
            .iter()
            .map(|&value| vector_type(function.dfg.ty(value)))
            .collect::<Result<_, _>>()?;
        let mut lanes: Vec<Lanes> = vec![Lanes::new(); results.len()];
        for four in 0..self.view.width / 4 {
            let vectors = self.if_any(four, &types, |s| {
                let mut found: Vec<Vec<ir::Value>> = vec![Vec::new(); results.len()];
                for lane in 4 * four..4 * four + 4 {
                    s.mark(inst, lane);
                    let at = s.place(places, lane, 0);
                    let (address, offset) = s.guarded(at, lane);
                    s.demand(inst, places, (address, offset), demanded(data));
                    for (i, (&value, found)) in results.iter().zip(&mut found).enumerate() {
                        let at = (address, offset + i as i32 * element.bytes() as i32);
                        let bits = s
                            .lane
                            .load_element(element, at, (strong, flags), (value, data));
                        found.push(s.widened(bits, function.dfg.ty(value).kind()));
                    }
                }
                let gathered = found.iter().zip(&types);
                gathered.map(|(found, &ty)| s.gathered(found, ty)).collect()
            });
            for (lanes, vectors) in lanes.iter_mut().zip(vectors) {
                lanes.extend(vectors);
            }
        }
        Ok(lanes)
    }

    /// Emits code for four lanes, the group of lanes with index `four`, and returns the vectors
    /// that this code computes. If none of these lanes is active, the code is skipped and the
    /// vectors are zero.
    fn if_any(
        &mut self,
        four: u32,
        types: &[ir::Type],
        code: impl FnOnce(&mut Self) -> Vec<Lanes>,
    ) -> Vec<Lanes> {
        let Some(mask) = &self.mask else {
            return code(self);
        };
        let word = mask[four as usize];
        let any = self.lane.b.ins().vany_true(word);
        let [body, skip, join] = std::array::from_fn(|_| self.lane.b.create_block());
        self.lane.b.ins().brif(any, body, &[], skip, &[]);
        let made = self.made.clone();
        self.lane.b.switch_to_block(body);
        let vectors = code(self);
        let args: Vec<ir::BlockArg> = vectors.iter().flatten().map(|&v| v.into()).collect();
        self.lane.b.ins().jump(join, &args);
        self.made = made;
        self.lane.b.switch_to_block(skip);
        let zeros: Vec<ir::BlockArg> = types
            .iter()
            .flat_map(|&ty| {
                let zero = self.constant(ty, 0);
                vec![zero.into(); (4 / ty.lane_count()) as usize]
            })
            .collect();
        self.lane.b.ins().jump(join, &zeros);
        self.lane.b.switch_to_block(join);
        let param = |&ty: &ir::Type| {
            (0..4 / ty.lane_count())
                .map(|_| self.lane.b.append_block_param(join, ty))
                .collect()
        };
        types.iter().map(param).collect()
    }

    /// Emits the store of the first active lane's thread index to the context. If all lanes are active, the context
    /// already contains this index.
    pub(super) fn note_first(&mut self) {
        if self.mask.is_none() {
            return;
        }
        let bits = self.active_bits();
        let b = &mut *self.lane.b;
        let first = b.ins().ctz(bits);
        let thread = b.ins().iadd(self.lane.here.thread, first);
        let at = std::mem::offset_of!(crate::abi::NativeContext, thread) as i32;
        b.ins().store(host(), thread, self.lane.fixed.ctx, at);
    }

    /// Emits an operation that runs only once, for the first active lane.
    pub(super) fn of_first(&mut self, inst: Inst) -> Result<(), EmitError> {
        let here = self.lane.here;
        if self.mask.is_some() {
            let bits = self.active_bits();
            let b = &mut *self.lane.b;
            let first = b.ins().ctz(bits);
            self.lane.here.thread = b.ins().iadd(here.thread, first);
            let wide = b.ins().uextend(types::I64, first);
            self.lane.here.lane = b.ins().iadd(here.lane, wide);
        }
        let done = self.lane.operation(inst);
        self.lane.here = here;
        done
    }

    /// Emits the load of one element for each lane from contiguous addresses.
    fn load_run(
        &mut self,
        inst: Inst,
        places: &Places,
        value: Value,
        ty: OpType,
        flags: MemFlagsData,
    ) -> Result<Lanes, EmitError> {
        let function = self.lane.function;
        let kind = function.dfg.ty(value).kind();
        let to = vector_type(function.dfg.ty(value))?;
        let element = element_type(ty).unwrap_or(types::I32);
        let same = element.bits() == to.lane_bits();
        if self.mask.is_none() {
            let (address, offset) = self.place(places, 0, 0);
            self.mark(inst, 0);
            self.demand(inst, places, (address, offset), element.bytes());
            if same {
                return Ok((0..self.count(to))
                    .map(|i| {
                        self.mark(inst, i as u32 * to.lane_count());
                        let at = offset + 16 * i as i32;
                        self.lane.b.ins().load(to, flags, address, at)
                    })
                    .collect());
            }
            let narrow = matches!(kind, Kind::B8 | Kind::B16 | Kind::B32);
            if narrow && element.bits() < 32 {
                let lanes =
                    self.load_narrow(address, offset, element.bytes(), ty.is_signed(), flags);
                return Ok(lanes
                    .iter()
                    .map(|&four| self.narrowed(four, kind))
                    .collect());
            }
        }
        // Vectors whose lanes are all active are loaded as a whole. Other vectors are loaded lane by lane.
        let per = to.lane_count();
        let mut lanes = Lanes::new();
        for i in 0..self.count(to) as u32 {
            let first = i * per;
            let whole = same.then(|| self.whole_vector(first, per)).flatten();
            let Some(whole) = whole else {
                lanes.push(self.load_some(inst, places, (value, ty), (first, per), flags)?);
                continue;
            };
            let [vector, single, join] = std::array::from_fn(|_| self.lane.b.create_block());
            let result = self.lane.b.append_block_param(join, to);
            self.lane.b.ins().brif(whole, vector, &[], single, &[]);
            self.lane.b.switch_to_block(vector);
            self.mark(inst, first);
            let (address, offset) = self.place(places, first, 0);
            self.demand(inst, places, (address, offset), element.bytes());
            let loaded = self.lane.b.ins().load(to, flags, address, offset);
            self.lane.b.ins().jump(join, &[loaded.into()]);
            self.lane.b.switch_to_block(single);
            self.unless_none(first, (join, Some(to)));
            let loaded = self.load_some(inst, places, (value, ty), (first, per), flags)?;
            self.lane.b.ins().jump(join, &[loaded.into()]);
            self.lane.b.switch_to_block(join);
            lanes.push(result);
        }
        Ok(lanes)
    }

    /// Emits a jump to `join` for the case that no lane of a mask vector is active. The tested
    /// vector is the mask vector that contains lane `first`. If `ty` is given, the jump passes a
    /// zero of this type.
    fn unless_none(&mut self, first: u32, (join, ty): (ir::Block, Option<ir::Type>)) {
        let Some(mask) = &self.mask else { return };
        let word = mask[first as usize / 4];
        let zero = ty.map(|ty| self.constant(ty, 0).into());
        let any = self.lane.b.ins().vany_true(word);
        let some = self.lane.b.create_block();
        let args: Vec<ir::BlockArg> = zero.into_iter().collect();
        self.lane.b.ins().brif(any, some, &[], join, &args);
        self.lane.b.switch_to_block(some);
    }

    /// Emits the test whether the `per` lanes from `first` on, which share a vector, are all active. Returns `None` if
    /// there is no mask.
    fn whole_vector(&mut self, first: u32, per: u32) -> Option<ir::Value> {
        let mask = self.mask.clone()?;
        let four = mask[first as usize / 4];
        Some(match (per, first % 4) {
            (4, _) => self.lane.b.ins().vall_true(four),
            (_, 0) => {
                let low = self.lane.b.ins().swiden_low(four);
                self.lane.b.ins().vall_true(low)
            }
            _ => {
                let high = self.lane.b.ins().swiden_high(four);
                self.lane.b.ins().vall_true(high)
            }
        })
    }

    /// Emits the load of one vector, lane by lane.
    fn load_some(
        &mut self,
        inst: Inst,
        places: &Places,
        (value, ty): (Value, OpType),
        (first, per): (u32, u32),
        flags: MemFlagsData,
    ) -> Result<ir::Value, EmitError> {
        let function = self.lane.function;
        let element = element_type(ty).unwrap_or(types::I32);
        let data = function.dfg.insts[inst];
        let mut scalars = Vec::new();
        for lane in first..first + per {
            self.mark(inst, lane);
            let at = self.place(places, lane, 0);
            let at = self.guarded(at, lane);
            self.demand(inst, places, at, element.bytes());
            let bits = self
                .lane
                .load_element(element, at, (false, flags), (value, &data));
            scalars.push(self.widened(bits, function.dfg.ty(value).kind()));
        }
        let to = vector_type(function.dfg.ty(value))?;
        Ok(self.gathered(&scalars, to)[0])
    }

    /// Emits the load of contiguous integers of `bytes` bytes (1 or 2), which are extended to 32 bits per lane.
    pub(super) fn load_narrow(
        &mut self,
        address: ir::Value,
        offset: i32,
        bytes: u32,
        signed: bool,
        flags: MemFlagsData,
    ) -> Lanes {
        let width = self.view.width;
        let total = width * bytes;
        let mut vectors: Vec<ir::Value> = Vec::new();
        if total >= 16 {
            for i in 0..total / 16 {
                let at = offset + 16 * i as i32;
                vectors.push(self.lane.b.ins().load(types::I8X16, flags, address, at));
            }
        } else {
            let b = &mut *self.lane.b;
            let wide = match total {
                8 => b.ins().load(types::I64, flags, address, offset),
                _ => b.ins().uload32(flags, address, offset),
            };
            let vector = b.ins().scalar_to_vector(types::I64X2, wide);
            vectors.push(self.cast_one(vector, types::I8X16));
        }
        let mut at = bytes;
        while at < 4 {
            let ty = if at == 1 { types::I8X16 } else { types::I16X8 };
            vectors = vectors
                .iter()
                .flat_map(|&vector| {
                    let vector = self.cast_one(vector, ty);
                    let b = &mut *self.lane.b;
                    if signed {
                        let low = b.ins().swiden_low(vector);
                        [low, b.ins().swiden_high(vector)]
                    } else {
                        let low = b.ins().uwiden_low(vector);
                        [low, b.ins().uwiden_high(vector)]
                    }
                })
                .collect();
            at *= 2;
        }
        vectors.truncate(self.count(types::I32X4));
        vectors.into_iter().collect()
    }

    /// Emits the store of the low `bytes` bytes (1 or 2) of each 32-bit lane to contiguous addresses.
    pub(super) fn store_narrow(
        &mut self,
        lanes: &Lanes,
        address: ir::Value,
        offset: i32,
        bytes: u32,
        flags: MemFlagsData,
    ) {
        let mut vectors: Vec<ir::Value> = lanes.to_vec();
        let mut width = 4;
        while width > bytes {
            // A shuffle that selects the low half of each element of two vectors.
            let step = width as u8;
            let pick: Vec<u8> = (0..32 / step)
                .flat_map(|i| (0..step / 2).map(move |byte| i * step + byte))
                .collect();
            let pick = self.lane.b.func.dfg.immediates.push(pick.as_slice().into());
            vectors = vectors
                .chunks(2)
                .map(|pair| {
                    let a = self.cast_one(pair[0], types::I8X16);
                    let b = pair.get(1).map_or(a, |&b| self.cast_one(b, types::I8X16));
                    self.lane.b.ins().shuffle(a, b, pick)
                })
                .collect();
            width /= 2;
        }
        let total = self.view.width * bytes;
        if total >= 16 {
            for (i, &vector) in vectors.iter().enumerate() {
                let at = offset + 16 * i as i32;
                self.lane.b.ins().store(flags, vector, address, at);
            }
            return;
        }
        let ty = if total == 8 {
            types::I64X2
        } else {
            types::I32X4
        };
        let vector = self.cast_one(vectors[0], ty);
        let word = self.lane.b.ins().extractlane(vector, 0);
        self.lane.b.ins().store(flags, word, address, offset);
    }

    pub(super) fn store(&mut self, inst: Inst, data: &InstData) -> Result<(), EmitError> {
        let function = self.lane.function;
        let Some(element) = element_type(data.ty) else {
            return self.lane.refuse(data);
        };
        if element == types::I128 || Lane::is_whole(element, data) {
            return self.each_lane(inst);
        }
        let args = function.dfg.args(inst);
        let (address, values) = (args[0], &args[1..]);
        let strong = !Lane::is_weak(data);
        let space = data.mods.space();
        if let Some(check) = self.take_pending_check(address) {
            return self.checked_access(check, (inst, data, element), |s, places, address| {
                let together = !strong && s.is_uniform(address);
                s.stored(inst, data, element, (places, together))
            });
        }
        let together = !strong && space != StateSpace::Local && self.is_uniform(address);
        if together && values.iter().all(|&value| self.is_uniform(value)) {
            self.note_first();
            return self.lane.operation(inst);
        }
        let guarded = match values {
            [_] => self.guarded_run(address, data, element),
            _ => None,
        };
        let (holds, stride) = match guarded.filter(|&(_, stride)| stride != 0) {
            Some((Some(holds), stride)) => (holds, stride),
            sure => {
                let stride = sure.map(|(_, stride)| stride);
                let places = self.places(address, space, stride)?;
                self.demand_reach(inst, data, &places)?;
                return self.stored(inst, data, element, (&places, together));
            }
        };
        for &value in values {
            // The lanes must be computed before the branch, because both versions of the access use them.
            self.get(value)?;
        }
        self.in_a_run(inst, holds, |s| {
            let places = s.places(address, space, Some(stride))?;
            s.demand_reach(inst, data, &places)?;
            s.stored(inst, data, element, (&places, false))
        })
    }

    /// Emits the stores of all lanes. `together` is true if all lanes write to one address.
    fn stored(
        &mut self,
        inst: Inst,
        data: &InstData,
        element: ir::Type,
        (places, together): (&Places, bool),
    ) -> Result<(), EmitError> {
        let function = self.lane.function;
        let values = &function.dfg.args(inst)[1..];
        let strong = !Lane::is_weak(data);
        let bytes = element.bytes();
        if let ([value], false) = (values, strong)
            && Self::contiguous(places, i64::from(bytes))
        {
            return self.store_run(inst, places, *value, element);
        }
        let mut lanes = Vec::new();
        for &value in values {
            lanes.push((self.get(value)?, function.dfg.ty(value).kind()));
        }
        // If all lanes of a whole chunk write to one address, only the highest lane is stored, because its value would
        // overwrite the others.
        let first = if together && self.mask.is_none() {
            self.view.width - 1
        } else {
            0
        };
        for four in first / 4..self.view.width / 4 {
            self.if_any(four, &[], |s| {
                for lane in (4 * four).max(first)..4 * four + 4 {
                    s.mark(inst, lane);
                    let at = s.place(places, lane, 0);
                    let (at, offset) = s.guarded(at, lane);
                    s.demand(inst, places, (at, offset), demanded(data));
                    for (i, (lanes, kind)) in lanes.iter().enumerate() {
                        let bits = s.extract(lanes, *kind, lane);
                        let offset = offset + i as i32 * bytes as i32;
                        s.lane.store_element(element, (at, offset), strong, bits);
                    }
                }
                Vec::new()
            });
        }
        Ok(())
    }

    /// Emits the store of one element for each lane to contiguous addresses.
    fn store_run(
        &mut self,
        inst: Inst,
        places: &Places,
        value: Value,
        element: ir::Type,
    ) -> Result<(), EmitError> {
        let function = self.lane.function;
        let kind = function.dfg.ty(value).kind();
        let lanes = self.get(value)?;
        let ty = self.lane.b.func.dfg.value_type(lanes[0]);
        let same = element.bits() == ty.lane_bits()
            && element.bits() == clif_type(function.dfg.ty(value)).bits();
        if self.mask.is_none() {
            let (address, offset) = self.place(places, 0, 0);
            self.mark(inst, 0);
            self.demand(inst, places, (address, offset), element.bytes());
            if same {
                for (i, &vector) in lanes.iter().enumerate() {
                    self.mark(inst, i as u32 * ty.lane_count());
                    let at = offset + 16 * i as i32;
                    self.lane.b.ins().store(device(), vector, address, at);
                }
                return Ok(());
            }
            if element.bits() < 32 && ty == types::I32X4 && kind != Kind::Pred {
                self.store_narrow(&lanes, address, offset, element.bytes(), device());
                return Ok(());
            }
        }
        let per = ty.lane_count();
        for (i, &vector) in lanes.iter().enumerate() {
            let first = i as u32 * per;
            let whole = same.then(|| self.whole_vector(first, per)).flatten();
            let Some(whole) = whole else {
                self.store_some(inst, places, (&lanes, kind), (first, per), element);
                continue;
            };
            let [all, single, join] = std::array::from_fn(|_| self.lane.b.create_block());
            self.lane.b.ins().brif(whole, all, &[], single, &[]);
            self.lane.b.switch_to_block(all);
            self.mark(inst, first);
            let (address, offset) = self.place(places, first, 0);
            self.demand(inst, places, (address, offset), element.bytes());
            self.lane.b.ins().store(device(), vector, address, offset);
            self.lane.b.ins().jump(join, &[]);
            self.lane.b.switch_to_block(single);
            self.unless_none(first, (join, None));
            self.store_some(inst, places, (&lanes, kind), (first, per), element);
            self.lane.b.ins().jump(join, &[]);
            self.lane.b.switch_to_block(join);
        }
        Ok(())
    }

    /// Emits the store of one vector, lane by lane.
    fn store_some(
        &mut self,
        inst: Inst,
        places: &Places,
        (lanes, kind): (&Lanes, Kind),
        (first, per): (u32, u32),
        element: ir::Type,
    ) {
        for lane in first..first + per {
            self.mark(inst, lane);
            let at = self.place(places, lane, 0);
            let at = self.guarded(at, lane);
            self.demand(inst, places, at, element.bytes());
            let bits = self.extract(lanes, kind, lane);
            self.lane.store_element(element, at, false, bits);
        }
    }
}
