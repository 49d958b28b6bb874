//! Loads and stores.
//!
//! Lanes at a constant distance are one `load` or `store`, other lanes a `gather` or `scatter`, under the mask of the
//! lanes that execute the block.

use margay_ir::analysis::Reach;
use margay_ir::analysis::coordinates::CtaClass;
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Inst, Value};
use margay_ir::function::{InstData, split_symbol_payload};
use margay_ops::mods::{CmpOp, Half, MemOrder, Mods, Scope, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::data::{Access, Data};
use margay_vir::ops::Op;
use smallvec::SmallVec;

use crate::Refusal;
use crate::alignment::size_of;
use crate::emitter::Emitter;
use crate::layout::NOTED;

/// The number of `trap.if` at accesses that are not aligned.
pub(crate) const MISALIGNED: u64 = 1;

/// The host addresses `address + displacement + stride * lane`.
#[derive(Clone, Copy)]
pub(crate) struct Strided {
    pub(crate) address: Value,
    pub(crate) displacement: i32,
    pub(crate) stride: i64,
}

/// Where the lanes of an access are, as host addresses.
#[derive(Clone, Copy)]
pub(crate) enum Places {
    /// At a constant distance.
    Strided(Strided),
    /// At `base + scale * offset`, with an offset for each lane.
    Each {
        base: Value,
        offsets: Value,
        scale: i64,
    },
}

/// An element of an access: its position, its type in memory, and the IR value that holds it.
#[derive(Clone, Copy)]
pub(crate) struct Element {
    pub(crate) offset: i32,
    pub(crate) memory: OpType,
    pub(crate) value: Value,
}

impl Emitter<'_> {
    /// Returns the type in memory of an element that values of kind `kind` hold; `None` if they cannot.
    pub(crate) fn memory_type(&self, ty: OpType, kind: Kind) -> Option<OpType> {
        let held = ty.held();
        if kind == Kind::Pred || ty.bits() < 8 {
            return None;
        }
        if held.kind() == kind {
            return Some(ty);
        }
        if ty.bits() == kind.bits() {
            return Some(kind.op_type());
        }
        let is_integer = held.kind() != Kind::F32 && held.kind() != Kind::F64;
        (is_integer && kind != Kind::F32 && kind != Kind::F64 && ty.bits() < kind.bits())
            .then_some(ty)
    }

    /// Returns the elements of a load or store.
    fn elements(&self, data: &InstData, values: &[Value]) -> Result<Vec<Element>, Refusal> {
        let name = data.opcode.name();
        let bytes = (data.ty.bits() / 8) as i32;
        let element = |(offset, &value): (i32, &Value)| {
            let memory = self.memory_type(data.ty, self.kind(value));
            let memory = memory.ok_or(Refusal::Operation(name))?;
            Ok(Element {
                offset: offset * bytes,
                memory,
                value,
            })
        };
        (0..).zip(values).map(element).collect()
    }

    /// Refuses accesses of kinds that are not vectorised, and tests the alignment of the others.
    fn prepare_access(&mut self, inst: Inst, data: &InstData) -> Result<(), Refusal> {
        let space = data.mods.space();
        let is_weak = matches!(data.mods.order(), MemOrder::None | MemOrder::Weak)
            || matches!(
                space,
                StateSpace::Shared | StateSpace::Param | StateSpace::Local
            );
        if !is_weak || data.mods.order() == MemOrder::Volatile {
            return Err(Refusal::Operation("a strong access"));
        }
        let address = self.kind(self.source.dfg.args(inst)[0]);
        if !matches!(address, Kind::B32 | Kind::B64) {
            return Err(Refusal::Operation(data.opcode.name()));
        }
        self.demand_aligned(inst, size_of(data));
        Ok(())
    }

    /// Emits a trap if the address of an access is not a multiple of `bytes`.
    pub(crate) fn demand_aligned(&mut self, inst: Inst, bytes: u32) {
        if !(2..=32).contains(&bytes) {
            return;
        }
        let Some(root) = self.kernel.facts.alignment_root(inst, bytes) else {
            return;
        };
        // The run or the block already contains this test.
        if self.always_aligned.contains(&(root, bytes)) {
            return;
        }
        // The test for the first chunk shows it for all.
        if self.is_derived(root) && self.all_run() && self.differs_by_multiples(root, bytes) {
            return;
        }
        if !self.aligned.insert((self.test_of(root), bytes)) {
            return;
        }
        let stride = match self.class(root) {
            Class::Affine(stride) => Some(stride),
            Class::Varying if self.lazy.contains(&root) => self.kernel.speculative.stride(root),
            Class::Varying => None,
            _ => Some(0),
        };
        // If the stride is a multiple of the size, all lanes have the low bits of the first lane.
        let is_equal = stride.is_some_and(|stride| stride % i64::from(bytes) == 0);
        let address = match is_equal {
            true => self.scalar(root),
            false => self.lanes(root),
        };
        let ty = self.out.ty(address);
        let on = match ty.lane_bits() {
            64 => OpType::B64,
            _ => OpType::B32,
        };
        let scalar = Type::scalar(ty.kind());
        let low = self.constant(scalar, u64::from(bytes) - 1);
        let low = self.simple(Opcode::And, on, ty, &[address, low]);
        let zero = self.constant(scalar, 0);
        let wrong = self.compare((CmpOp::Ne, on), low, zero);
        let (any, lanes) = if is_equal {
            let wrong = match self.running() {
                Some(running) => self.logic(Opcode::And, &[wrong, running]),
                None => wrong,
            };
            (wrong, self.mask)
        } else {
            let wrong = self.logic(Opcode::And, &[self.mask, wrong]);
            let any = self.value(Op::Any, self.mask_type(), Data::Nothing, &[wrong]);
            (any, wrong)
        };
        let [trap, next] = std::array::from_fn(|_| self.new_block());
        self.brif(any, trap, next);
        self.enter_cold(trap);
        self.note_lane(lanes);
        self.trap(MISALIGNED);
        self.enter(next);
    }

    /// Returns whether a lane of the chunk runs; `None` if this is certain.
    fn running(&mut self) -> Option<Value> {
        let is_certain = self.chunk_count == 1 || self.out.constant(self.mask) == Some(1);
        (!is_certain).then(|| self.value(Op::Any, self.mask_type(), Data::Nothing, &[self.mask]))
    }

    /// Prepares an instruction that faults for `lanes` together: the place, or the context, names the first of them.
    fn note_lane(&mut self, lanes: Value) {
        self.place &= !NOTED;
        if self.out.constant(lanes) == Some(1) {
            return;
        }
        self.place |= NOTED;
        if self.noted == Some((self.at, lanes, self.chunk)) {
            return;
        }
        self.noted = Some((self.at, lanes, self.chunk));
        let lane = match self.masks_of_chunks.clone() {
            masks if masks.is_empty() => {
                let lane = self.value(Op::First, self.mask_type(), Data::Nothing, &[lanes]);
                self.add_constant(lane, i64::from(self.chunk * self.kernel.width))
            }
            masks => self.first_lane_of(&masks),
        };
        self.set_field(self.kernel.layout.lane, lane);
    }

    /// Returns the number of the first lane that is in the mask of its chunk. There is at least one.
    pub(crate) fn first_lane_of(&mut self, masks: &[Value]) -> Value {
        let mut first: Option<Value> = None;
        for chunk in (0..masks.len()).rev() {
            let args = [masks[chunk]];
            let lane = self.value(Op::First, self.mask_type(), Data::Nothing, &args);
            let chunk = i64::from(self.first_chunk) + chunk as i64;
            let lane = self.add_constant(lane, chunk * i64::from(self.kernel.width));
            first = Some(match first {
                None => lane,
                Some(later) => {
                    let any = self.value(Op::Any, self.mask_type(), Data::Nothing, &args);
                    self.simple(Opcode::Selp, OpType::B32, Type::B32, &[lane, later, any])
                }
            });
        }
        first.expect("there is a chunk")
    }

    /// Returns the host address of the first lane's access, and a displacement.
    fn first_address(
        &mut self,
        address: Value,
        space: StateSpace,
    ) -> Result<(Value, i32), Refusal> {
        let Some(base) = self.window(space)? else {
            let first = self.scalar(address);
            return Ok((self.widened(first), 0));
        };
        let (root, displacement) = match self.window_root(address) {
            Some((root, displacement)) if self.is_near(root) => (root, displacement),
            _ => (address, 0),
        };
        let distance = self.distance_in_window(root);
        let (root, displacement) = match distance {
            Some(distance) => (self.scalar_of_first(root), displacement + distance),
            None => (self.scalar(root), displacement),
        };
        let offset = self.low_word(root);
        let offset = self.convert(OpType::U64, OpType::U32, offset);
        Ok((self.sum(base, offset), displacement))
    }

    /// Returns whether an offset in a window is below [`NEAR`](crate::layout::NEAR).
    fn is_near(&self, root: Value) -> bool {
        self.near.contains(&root) || self.is_always_near(root)
    }

    /// Returns whether an offset in a window is below [`NEAR`](crate::layout::NEAR) for all threads, because it is the
    /// address of a variable plus a small number.
    pub(crate) fn is_always_near(&self, root: Value) -> bool {
        let function = self.kernel.function;
        let found = Reach::new(function).of(root, &|_| true);
        let def = function.dfg.def_inst(found.value);
        let variable = def.is_some_and(|inst| {
            let data = &function.dfg.insts[inst];
            data.opcode == Opcode::SymbolAddr && split_symbol_payload(data.payload()).1 < 1 << 29
        });
        variable && found.offset.low >= 0 && found.offset.high < 1 << 29
    }

    /// Returns the distance in bytes between an offset in a window and that of the first of the chunks that run together, if
    /// it is a small constant.
    fn distance_in_window(&self, root: Value) -> Option<i32> {
        match self.derived_distance(root) {
            Some(distance) if (0..1 << 20).contains(&distance) && self.is_always_near(root) => {
                Some(distance as i32)
            }
            Some(_) => None,
            None => self.row_distance(root),
        }
    }

    /// Returns this distance for an offset whose scalars are not derived.
    fn row_distance(&self, root: Value) -> Option<i32> {
        let all = self.together.as_ref()?.all;
        let CtaClass::Affine(form) = self.coordinates?.class(root) else {
            return None;
        };
        let group = self.kernel.group;
        let steps = group.offset_of(self.chunk, self.kernel.width);
        let mut distance = 0i64;
        for (step, sum) in steps.into_iter().zip(&form.coefficients) {
            if step != 0 {
                distance = distance.checked_add(sum.as_constant()?.checked_mul(step)?)?;
            }
        }
        (self.chunk > self.first_chunk
            && self.mask == all
            && form.is_unconditional()
            && self.is_always_near(root)
            && (0..1 << 20).contains(&distance))
        .then_some(distance as i32)
    }

    /// Returns a value from which the address of an access to a window is computed by the addition of a constant, and the
    /// constant. The sum does not wrap if the value is below [`NEAR`](crate::layout::NEAR). Returns `None` if the lanes of
    /// the access may be at lower addresses than the value.
    pub(crate) fn window_root(&self, address: Value) -> Option<(Value, i32)> {
        let is_ascending = match self.class(address) {
            Class::Affine(stride) => (0..1 << 20).contains(&stride),
            Class::Varying => false,
            _ => true,
        };
        let dfg = &self.source.dfg;
        let (mut root, mut sum) = (address, 0i64);
        // The operands of an operation of an earlier phase are not available.
        while let Some(inst) = dfg
            .def_inst(root)
            .filter(|_| !self.restored.contains(&root))
            && dfg.insts[inst].opcode == Opcode::Add
            && let &[a, b] = dfg.args(inst)
            && let Some(by) = dfg.constant(b)
            && self.class(a) == self.class(root)
        {
            sum += i64::from(by as i32);
            root = a;
        }
        (is_ascending && (0..1 << 20).contains(&sum)).then_some((root, sum as i32))
    }

    /// Returns the places of lanes whose addresses have a constant distance.
    fn strided(
        &mut self,
        address: Value,
        stride: i64,
        space: StateSpace,
    ) -> Result<Places, Refusal> {
        let root = self.window_root(address);
        let direct = stride == 0 || root.is_some_and(|(root, _)| self.is_near(root));
        let Some(base) = self.window(space)?.filter(|_| !direct) else {
            let (address, displacement) = self.first_address(address, space)?;
            return Ok(Places::Strided(Strided {
                address,
                displacement,
                stride,
            }));
        };
        let first = self.scalar(address);
        // The offset of the chunk's first lane may have wrapped if the lane does not run, so the first lane that runs
        // determines the position of the others.
        let lane = self.value(Op::First, self.mask_type(), Data::Nothing, &[self.mask]);
        let narrow = self.low_word(first);
        let step = self.constant(Type::B32, stride as u64 & u64::from(u32::MAX));
        let apart = self.product(lane, step);
        let offset = self.add(narrow, apart);
        let offset = self.convert(OpType::U64, OpType::U32, offset);
        let there = self.sum(base, offset);
        let lane = self.convert(OpType::U64, OpType::U32, lane);
        let step = self.constant(Type::B64, stride as u64);
        let apart = self.product(lane, step);
        let address = self.simple(Opcode::Sub, OpType::U64, Type::B64, &[there, apart]);
        Ok(Places::Strided(Strided {
            address,
            displacement: 0,
            stride,
        }))
    }

    /// Returns the places of lanes with any addresses.
    fn each(&mut self, address: Value, space: StateSpace) -> Result<Places, Refusal> {
        if let Some(base) = self.window(space)? {
            let lanes = self.lanes(address);
            let offsets = self.low_word(lanes);
            let offsets = self.convert(OpType::U64, OpType::U32, offsets);
            return Ok(Places::Each {
                base,
                offsets,
                scale: 1,
            });
        }
        if let Some(places) = self.indexed(address) {
            return Ok(places);
        }
        let base = self.constant(Type::B64, 0);
        let lanes = self.lanes(address);
        let offsets = self.widened(lanes);
        Ok(Places::Each {
            base,
            offsets,
            scale: 1,
        })
    }

    /// Returns the places of lanes whose address is a uniform base plus a 32-bit index, extended with its sign, times a
    /// constant.
    fn indexed(&mut self, address: Value) -> Option<Places> {
        let dfg = &self.source.dfg;
        let operation = |value: Value, opcode: Opcode| {
            // The operands of an operation of an earlier phase are not available.
            let inst = dfg
                .def_inst(value)
                .filter(|_| !self.restored.contains(&value))?;
            (dfg.insts[inst].opcode == opcode).then(|| (dfg.insts[inst], dfg.args(inst)))
        };
        if !self.is_available(address) {
            return None;
        }
        let (_, &[a, b]) = operation(address, Opcode::Add)? else {
            return None;
        };
        let is_uniform = |value: Value| self.class(value).is_uniform();
        let (base, offset) = match (is_uniform(a), is_uniform(b)) {
            (true, false) => (a, b),
            (false, true) => (b, a),
            _ => return None,
        };
        let (index, scale) = if let Some((data, &[index, by])) = operation(offset, Opcode::Mul) {
            let is_wide = data.mods.half() == Half::Wide && data.ty == OpType::S32;
            (index, is_wide.then(|| dfg.constant(by))?? as i32)
        } else {
            let (widened, scale) = match operation(offset, Opcode::Shl) {
                Some((_, &[value, by])) => (value, 1 << dfg.constant(by).filter(|&by| by < 8)?),
                _ => (offset, 1),
            };
            let (data, args) = operation(widened, Opcode::Cvt)?;
            let is_extension = data.ty == OpType::S64 && data.src == OpType::S32;
            (is_extension.then_some(args[0])?, scale)
        };
        if self.kind(index) != Kind::B32 || !self.is_available(index) {
            return None;
        }
        let base = self.scalar(base);
        let offsets = self.lanes(index);
        Some(Places::Each {
            base,
            offsets,
            scale: i64::from(scale),
        })
    }

    /// Returns whether the lanes of an operand of an earlier operation still have the values of that operation.
    pub(crate) fn is_available(&self, value: Value) -> bool {
        let uniformity = self.kernel.uniformity;
        !uniformity.leaves_apart(self.source, value, self.block)
    }

    /// Emits a fence. The threads of a cluster run on one host thread, which executes the accesses of a phase in an order
    /// that the fences of the kernel permit.
    pub(crate) fn fence(&mut self, mods: Mods) {
        if !matches!(mods.scope(), Scope::Cta | Scope::Cluster) {
            self.effect(Op::Fence, &[]);
        }
    }

    /// Prepares an access that runs once for all lanes. Returns its address, a displacement, and the condition under which
    /// it accesses memory, if there is one.
    fn single_access(
        &mut self,
        inst: Inst,
        space: StateSpace,
    ) -> Result<(Value, i32, Option<Value>), Refusal> {
        let address = self.source.dfg.args(inst)[0];
        let (address, displacement) = self.first_address(address, space)?;
        let place = Strided {
            address,
            displacement,
            stride: 0,
        };
        self.demand_reach(inst, Places::Strided(place))?;
        self.note_lane(self.mask);
        Ok((address, displacement, self.running()))
    }

    /// Emits a load.
    pub(crate) fn load_inst(&mut self, inst: Inst, data: &InstData) -> Result<(), Refusal> {
        let source = self.source;
        let results = source.dfg.results(inst);
        if results.iter().all(|result| self.fixed.contains_key(result)) {
            return Ok(());
        }
        self.prepare_access(inst, data)?;
        let (address, space) = (source.dfg.args(inst)[0], data.mods.space());
        let elements = self.elements(data, results)?;
        if space == StateSpace::Local {
            return self.load_local(inst, elements);
        }
        let is_uniform = |result: &Value| self.own_class(*result).is_uniform();
        if results.iter().all(is_uniform) {
            let (address, displacement, running) = self.single_access(inst, space)?;
            for element in elements {
                let ty = source.dfg.ty(element.value);
                let access = element.access(0, displacement);
                let args: SmallVec<[Value; 2]> = [address].into_iter().chain(running).collect();
                let bits = self.load(Op::Load, ty, access, &args);
                self.set_scalar(element.value, bits);
            }
            return Ok(());
        }
        let places = self.places(address, space)?;
        self.demand_reach(inst, places)?;
        if let [element] = elements.as_slice() {
            let bytes = i64::from(element.memory.bits() / 8);
            self.access_adjacent((address, places, bytes), |e, places| {
                let lanes = e.load_lanes(places, element);
                e.set_lanes(element.value, lanes);
            });
            return Ok(());
        }
        self.load_elements(places, &elements);
        Ok(())
    }

    /// Emits a store.
    pub(crate) fn store_inst(&mut self, inst: Inst, data: &InstData) -> Result<(), Refusal> {
        let source = self.source;
        self.prepare_access(inst, data)?;
        let args = source.dfg.args(inst);
        let (address, space) = (args[0], data.mods.space());
        let elements = self.elements(data, &args[1..])?;
        if space == StateSpace::Local {
            return self.store_local(inst, elements);
        }
        let is_uniform = args.iter().all(|&arg| self.class(arg).is_uniform());
        if is_uniform {
            let (address, displacement, running) = self.single_access(inst, space)?;
            for element in elements {
                let (ty, bits) = (source.dfg.ty(element.value), self.scalar(element.value));
                let access = element.access(0, displacement);
                let args: SmallVec<[Value; 3]> =
                    [address, bits].into_iter().chain(running).collect();
                self.store(Op::Store, ty, access, &args);
            }
            return Ok(());
        }
        let places = self.places(address, space)?;
        self.demand_reach(inst, places)?;
        if let [element] = elements.as_slice() {
            let bytes = i64::from(element.memory.bits() / 8);
            let lanes = self.lanes(element.value);
            self.access_adjacent((address, places, bytes), |e, places| {
                e.store_lanes(places, element, lanes);
            });
            return Ok(());
        }
        self.store_elements(places, &elements);
        Ok(())
    }

    /// Returns the places of the lanes of an access.
    pub(crate) fn places(&mut self, address: Value, space: StateSpace) -> Result<Places, Refusal> {
        let stride = match self.class(address) {
            Class::Affine(stride) => Some(stride),
            Class::Varying if self.assumed.contains(&address) => {
                self.kernel.speculative.stride(address)
            }
            Class::Varying => None,
            _ => Some(0),
        };
        match stride {
            Some(stride) => self.strided(address, stride, space),
            None => self.each(address, space),
        }
    }

    /// Emits the load of an element.
    pub(crate) fn load_lanes(&mut self, places: Places, element: &Element) -> Value {
        let ty = self.vector(self.kind(element.value));
        self.load_as(places, element, ty)
    }

    /// Emits the load of an element as lanes of type `ty`.
    pub(crate) fn load_as(&mut self, places: Places, element: &Element, ty: Type) -> Value {
        let mask = self.mask;
        match places {
            Places::Strided(Strided {
                address,
                displacement,
                stride,
            }) => {
                let access = element.access(stride, displacement);
                self.load(Op::Load, ty, access, &[address, mask])
            }
            Places::Each {
                base,
                offsets,
                scale,
            } => self.load(
                Op::Gather,
                ty,
                element.access(scale, 0),
                &[base, offsets, mask],
            ),
        }
    }

    /// Emits the store of an element.
    pub(crate) fn store_lanes(&mut self, places: Places, element: &Element, lanes: Value) {
        let (ty, mask) = (self.out.ty(lanes), self.mask);
        match places {
            Places::Strided(Strided {
                address,
                displacement,
                stride,
            }) => {
                let args = [address, lanes, mask];
                self.store(Op::Store, ty, element.access(stride, displacement), &args);
            }
            Places::Each {
                base,
                offsets,
                scale,
            } => {
                let args = [base, offsets, lanes, mask];
                self.store(Op::Scatter, ty, element.access(scale, 0), &args);
            }
        }
    }
}

impl Element {
    /// Returns the access of the element, for lanes at a distance of `stride` bytes or with offsets that are multiples
    /// of it, with an additional displacement.
    fn access(&self, stride: i64, displacement: i32) -> Access {
        Access {
            displacement: self.offset + displacement,
            ..Access::new(self.memory, stride)
        }
    }
}
