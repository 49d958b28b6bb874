//! Speculatively affine values: their scalars, their checks, and their lanes if a check fails.
//!
//! A block with accesses at such addresses has two versions of its code from the first of them on. One is for the case
//! that the checks of all these addresses hold. In the other, which rarely runs, the accesses have an address for each
//! lane. The operations that compute the addresses precede both versions.

use margay_ir::analysis::speculative::Check;
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Inst, SecondaryMap, Value};
use margay_ir::function::Function;
use margay_ops::mods::{CmpOp, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType, Type};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::emitter::Emitter;
use crate::layout::NEAR;
use crate::variables::Key;
use crate::{Kernel, Refusal};

/// The maximum number of vectors that are live in chunks that alternate, and the number of bits of a vector.
const MAX_ALTERNATING: u32 = 36;
const VECTOR_BITS: u32 = 512;

/// Finds the speculatively affine values whose lanes are needed only for addresses and for other such values. Their
/// lanes can be computed from operands that are not block parameters, where they are used. The values in `certain` are
/// affine.
pub(crate) fn lazy_values(kernel: &Kernel<'_>, certain: &FxHashSet<Value>) -> FxHashSet<Value> {
    let function = kernel.function;
    let insts = || {
        let order = kernel.uniformity.loops().order.iter();
        order.flat_map(|&block| function.insts(block).iter().map(move |&inst| (block, inst)))
    };
    let mut lazy: FxHashSet<Value> = FxHashSet::default();
    for (block, inst) in insts() {
        let &[result] = function.dfg.results(inst) else {
            continue;
        };
        let is_known = |arg: &Value| {
            let class = kernel.uniformity.class_in(function, *arg, block);
            let is_known = certain.contains(arg) || lazy.contains(arg);
            class != Class::Varying || is_known && !leaves(kernel, *arg, block)
        };
        if kernel.speculative.stride(result).is_some()
            && !certain.contains(&result)
            && function.effects(inst).is_pure()
            && function.dfg.insts[inst].opcode != Opcode::Cvta
            && function.dfg.args(inst).iter().all(is_known)
        {
            lazy.insert(result);
        }
    }
    // A value with another use is computed where it is defined, and so is a value that lives across a barrier.
    let mut eager: SecondaryMap<Value, bool> = SecondaryMap::default();
    for resume_point in &kernel.regions.resume_points {
        for &value in &resume_point.live_in {
            eager[value] = true;
        }
    }
    loop {
        let before = lazy.len();
        for (block, inst) in insts() {
            let results = function.dfg.results(inst);
            let feeds_lazy = matches!(results, [result] if lazy.contains(result));
            for (index, &arg) in function.dfg.args(inst).iter().enumerate() {
                let is_address = index == 0
                    && matches!(function.dfg.insts[inst].opcode, Opcode::Ld | Opcode::St);
                if !(feeds_lazy || is_address) || leaves(kernel, arg, block) {
                    eager[arg] = true;
                }
            }
            for &arg in passed(function, inst) {
                eager[arg] = true;
            }
        }
        lazy.retain(|&value| !eager[value]);
        if lazy.len() == before {
            return lazy;
        }
    }
}

fn leaves(kernel: &Kernel<'_>, value: Value, block: margay_ir::entity::Block) -> bool {
    kernel
        .uniformity
        .leaves_apart(kernel.function, value, block)
}

fn passed(function: &Function, inst: Inst) -> impl Iterator<Item = &Value> {
    let calls = function.dfg.targets(inst).iter();
    calls.flat_map(|call| &call.args)
}

impl Emitter<'_> {
    /// Emits the scalar and the check of a speculatively affine value. Returns false if the value is not computed in this
    /// way.
    pub(crate) fn speculate(&mut self, inst: Inst, result: Value) -> bool {
        if !self.lazy.contains(&result) {
            return false;
        }
        let data = self.source.dfg.insts[inst];
        let scalar = self.of_first(inst, &data)[0];
        self.set_scalar(result, scalar);
        let own = self.kernel.speculative.check(inst);
        let own = own.map(|check| match check {
            Check::NoWrap { value, signed, .. } if self.derived.contains_key(&result) => {
                self.does_not_wrap_in_cta(value, signed)
            }
            _ => self.checked(check),
        });
        let args = self.source.dfg.args(inst).iter();
        let args: SmallVec<[Value; 4]> = args
            .copied()
            .filter(|arg| self.class(*arg) == Class::Varying)
            .collect();
        let mut all: SmallVec<[Value; 4]> = own.into_iter().collect();
        for arg in args {
            all.push(self.holds(arg));
        }
        let all = all
            .into_iter()
            .reduce(|a, b| self.logic(Opcode::And, &[a, b]));
        let holds = match all {
            Some(all) => all,
            None => self.constant(Type::PRED, 1),
        };
        self.write(Key::Holds(result), holds);
        true
    }

    /// Emits the instructions of a block without its terminator.
    pub(crate) fn body(&mut self, body: &[Inst]) -> Result<(), Refusal> {
        let late = self.dependent(body);
        let addresses = self.speculative_addresses(&late);
        let roots = self.window_roots(&late);
        let (early, late) = self.divided(body, addresses.iter().chain(&roots));
        self.instructions(&early)?;
        let Some(holds) = self.all_hold(&addresses, &roots) else {
            return self.instructions(&late);
        };
        let [run, each, join] = std::array::from_fn(|_| self.new_block());
        self.brif(holds, run, each);
        let (made, aligned) = (self.made.clone(), self.aligned.clone());
        let reached = self.reached.clone();
        for (version, is_assumed) in [(run, true), (each, false)] {
            if !self.variables.is_reached(version) {
                continue;
            }
            match is_assumed {
                true => self.enter(version),
                false => self.enter_cold(version),
            }
            self.made.clone_from(&made);
            self.aligned.clone_from(&aligned);
            self.reached.clone_from(&reached);
            if is_assumed {
                self.assumed.extend(&addresses);
                self.near.extend(&roots);
            }
            let is_rare = std::mem::replace(&mut self.is_rare, !is_assumed);
            self.instructions(&late)?;
            self.is_rare = is_rare;
            self.jump(join);
            self.assumed.clear();
            self.near.clear();
        }
        self.enter(join);
        self.made = made;
        self.aligned = aligned;
        self.reached = reached;
        Ok(())
    }

    /// Returns whether an instruction runs once for all chunks: all threads of the CTA do the same.
    fn is_shared(&self, inst: Inst) -> bool {
        let dfg = &self.source.dfg;
        let is_equal = |class: Class| matches!(class, Class::Launch | Class::Cta);
        let mut results = dfg.results(inst).iter();
        let mut args = dfg.args(inst).iter();
        // Equal addresses in local memory are those of other bytes for each thread.
        let is_local = dfg.insts[inst].mods.space() == StateSpace::Local;
        match dfg.insts[inst].opcode {
            Opcode::Fence => true,
            Opcode::St => !is_local && args.all(|&arg| is_equal(self.class(arg))),
            Opcode::Ld => {
                results.all(|&result| is_equal(self.own_class(result)))
                    && args.all(|&arg| is_equal(self.class(arg)))
            }
            opcode => {
                opcode.effects().is_pure()
                    && results.all(|&result| is_equal(self.own_class(result)))
            }
        }
    }

    /// Emits instructions. Between two accesses that run once for all chunks, the chunks run one after the other, which needs
    /// fewer registers than if they alternated.
    fn instructions(&mut self, insts: &[Inst]) -> Result<(), Refusal> {
        let dfg = &self.source.dfg;
        let mut run: Vec<Inst> = Vec::new();
        let alternate = self.may_alternate(insts);
        for &inst in insts {
            if !self.is_shared(inst) {
                run.push(inst);
                if alternate {
                    self.chunk_by_chunk(&std::mem::take(&mut run))?;
                }
                continue;
            }
            let is_result = |arg: &Value| run.iter().any(|&of| dfg.results(of).contains(arg));
            if !dfg.insts[inst].opcode.effects().is_pure() || dfg.args(inst).iter().any(is_result) {
                self.chunk_by_chunk(&std::mem::take(&mut run))?;
            }
            self.set_place(inst);
            self.shared_operation(inst)?;
        }
        self.chunk_by_chunk(&run)
    }

    /// Returns whether the values of instructions stay in registers if the chunks alternate. Chunks that alternate share what
    /// they load from the same addresses.
    fn may_alternate(&self, insts: &[Inst]) -> bool {
        if !self.is_whole() || self.chunk_count == 1 {
            return true;
        }
        let dfg = &self.source.dfg;
        let varies = |value: &Value| self.class(*value) == Class::Varying;
        // Values that are live from the start, or from their definitions, to their last uses.
        let mut live: FxHashSet<Value> = FxHashSet::default();
        let (mut most, mut words) = (0, 0u32);
        let size = |value: Value| match self.kind(value) {
            Kind::Pred => 0,
            kind => kind.bits().max(8) * self.kernel.width,
        };
        for &inst in insts.iter().rev() {
            for &result in dfg.results(inst) {
                if live.remove(&result) {
                    words -= size(result);
                }
            }
            for &arg in dfg.args(inst).iter().filter(|arg| varies(arg)) {
                if live.insert(arg) {
                    words += size(arg);
                    most = most.max(words);
                }
            }
        }
        most * self.chunk_count <= MAX_ALTERNATING * VECTOR_BITS
    }

    /// Emits instructions for each chunk that may run lanes.
    fn chunk_by_chunk(&mut self, insts: &[Inst]) -> Result<(), Refusal> {
        self.each_chunk(|e| {
            let mut due = insts.iter().filter(|&&inst| e.is_due(inst));
            let due: SmallVec<[Inst; 8]> = due.by_ref().copied().collect();
            due.into_iter().try_for_each(|inst| {
                e.set_place(inst);
                e.operation(inst)
            })
        })
        .map(drop)
    }

    /// Returns whether an instruction is emitted for the chunk: not if no lane runs, or if the results are derived from those
    /// of the first chunk.
    fn is_due(&self, inst: Inst) -> bool {
        let results = self.source.dfg.results(inst);
        let is_derived = |result: &Value| self.derived.contains_key(result);
        let derived = self.is_whole() && !results.is_empty() && results.iter().all(is_derived);
        if derived {
            return self.chunk == 0;
        }
        !self.is_idle()
    }

    /// Emits an operation that runs once for all chunks. The lanes of all chunks execute it.
    fn shared_operation(&mut self, inst: Inst) -> Result<(), Refusal> {
        let mask = self.mask;
        if matches!(self.source.dfg.insts[inst].opcode, Opcode::Ld | Opcode::St) {
            let masks = self.of_chunks(|e| e.mask);
            self.mask = self.combined(Opcode::Or, &masks);
            if self.mask != mask {
                self.masks_of_chunks = masks;
            }
        }
        let made = self.operation(inst);
        self.mask = mask;
        self.masks_of_chunks.clear();
        made
    }

    /// Returns the instructions of a block that are not pure, and those that depend on them.
    fn dependent(&self, body: &[Inst]) -> Vec<Inst> {
        let dfg = &self.source.dfg;
        let mut results: FxHashSet<Value> = FxHashSet::default();
        let depends = |&inst: &Inst| {
            let depends = dfg.args(inst).iter().any(|arg| results.contains(arg))
                || !dfg.insts[inst].opcode.effects().is_pure();
            if depends {
                results.extend(dfg.results(inst));
            }
            depends
        };
        body.iter().copied().filter(depends).collect()
    }

    /// Divides the instructions of a block into those that compute some values, and the others.
    fn divided<'v>(
        &self,
        body: &[Inst],
        values: impl Iterator<Item = &'v Value>,
    ) -> (Vec<Inst>, Vec<Inst>) {
        let dfg = &self.source.dfg;
        let mut needed: FxHashSet<Value> = values.copied().collect();
        let mut early: FxHashSet<Inst> = FxHashSet::default();
        for &inst in body.iter().rev() {
            if dfg
                .results(inst)
                .iter()
                .any(|result| needed.contains(result))
            {
                needed.extend(dfg.args(inst));
                early.insert(inst);
            }
        }
        body.iter().copied().partition(|inst| early.contains(inst))
    }

    /// Returns the speculatively affine addresses of accesses that other instructions have computed.
    fn speculative_addresses(&self, insts: &[Inst]) -> Vec<Value> {
        self.roots_outside(insts, |_, address| {
            let is_speculative =
                self.class(address) == Class::Varying && self.lazy.contains(&address);
            is_speculative.then_some(address)
        })
    }

    /// Returns the values from which the addresses of accesses to windows are computed by the addition of constants, and
    /// which other instructions have computed.
    fn window_roots(&self, insts: &[Inst]) -> Vec<Value> {
        self.roots_outside(insts, |space, address| {
            let address = Some(address).filter(|_| space == StateSpace::Shared)?;
            let (root, _) = self.window_root(address)?;
            (!self.is_always_near(root)).then_some(root)
        })
    }

    /// Returns the values that `root` returns for the spaces and addresses of accesses, without those that these
    /// instructions compute, each once.
    fn roots_outside(
        &self,
        insts: &[Inst],
        root: impl Fn(StateSpace, Value) -> Option<Value>,
    ) -> Vec<Value> {
        let dfg = &self.source.dfg;
        let results = insts.iter().flat_map(|&inst| dfg.results(inst));
        let defined: FxHashSet<Value> = results.copied().collect();
        let mut roots: Vec<Value> = Vec::new();
        for &inst in insts {
            let data = &dfg.insts[inst];
            let is_access = matches!(data.opcode, Opcode::Ld | Opcode::St);
            let address = dfg.args(inst).first().filter(|_| is_access);
            if let Some(root) = address.and_then(|&address| root(data.mods.space(), address))
                && !defined.contains(&root)
                && !roots.contains(&root)
            {
                roots.push(root);
            }
        }
        roots
    }

    /// Returns whether the checks of all these addresses hold, and all these offsets in windows are below [`NEAR`];
    /// `None` if there are neither.
    fn all_hold(&mut self, addresses: &[Value], roots: &[Value]) -> Option<Value> {
        let mut all: Option<Value> = None;
        let and = |e: &mut Self, all: Option<Value>, one: Value| match all {
            Some(all) if all != one => e.logic(Opcode::And, &[all, one]),
            _ => one,
        };
        for &address in addresses {
            for one in self.of_chunks(|e| e.holds(address)) {
                all = Some(and(self, all, one));
            }
        }
        for &root in roots {
            let tests = self.of_chunks(|e| {
                let root = e.scalar(root);
                let root = e.low_word(root);
                let limit = e.constant(Type::B32, NEAR);
                e.compare((CmpOp::Lo, OpType::U32), root, limit)
            });
            for one in tests {
                all = Some(and(self, all, one));
            }
        }
        all
    }

    /// Returns whether the checks of a lazily computed value hold.
    pub(crate) fn holds(&mut self, value: Value) -> Value {
        if self.is_derived(value) {
            let key = (Key::Holds(value), 0);
            let pred = Type::PRED;
            return self.variables.get(&mut self.out, (key, pred), self.at);
        }
        self.read(Key::Holds(value), Type::PRED)
    }

    /// Computes the lanes of a speculatively affine value from its operands.
    pub(crate) fn recomputed(&mut self, value: Value) -> Value {
        let inst = self
            .source
            .dfg
            .def_inst(value)
            .expect("a lazy value is a result");
        let data = self.source.dfg.insts[inst];
        let args = self.source.dfg.args(inst).iter();
        let args: SmallVec<[Value; 4]> = args.map(|&arg| self.operand(arg)).collect();
        self.mapped(inst, &data, self.kernel.width, &args)[0]
    }

    /// Emits a check.
    pub(crate) fn checked(&mut self, check: Check) -> Value {
        match check {
            Check::NoWrap {
                value,
                stride,
                signed,
            } => {
                let first = self.scalar(value);
                self.does_not_wrap(first, stride, signed).0
            }
            Check::Chosen {
                value,
                stride,
                signed,
                bound,
                is_min,
            } => {
                let first = self.scalar(value);
                let (holds, last) = self.does_not_wrap(first, stride, signed);
                let bound = self.scalar(bound);
                let cmp = match (is_min, signed) {
                    (true, true) => CmpOp::Le,
                    (true, false) => CmpOp::Ls,
                    (false, true) => CmpOp::Ge,
                    (false, false) => CmpOp::Hs,
                };
                let on = if signed { OpType::S32 } else { OpType::U32 };
                let ends = [first, last].map(|end| self.compare((cmp, on), end, bound));
                let both = self.logic(Opcode::And, &ends);
                self.logic(Opcode::And, &[holds, both])
            }
        }
    }

    /// Emits the test whether a 32-bit value does not wrap between the first and the last lane. Returns the result, and
    /// the value in the last lane.
    fn does_not_wrap(&mut self, first: Value, stride: i64, signed: bool) -> (Value, Value) {
        let (narrow, wide) = match signed {
            true => (OpType::S32, OpType::S64),
            false => (OpType::U32, OpType::U64),
        };
        let apart = stride.wrapping_mul(i64::from(self.kernel.width) - 1);
        let last = self.add_constant(first, apart);
        let ends = [first, last].map(|end| self.convert(wide, narrow, end));
        let expected = self.add_constant(ends[0], apart);
        let holds = self.compare((CmpOp::Eq, OpType::U64), expected, ends[1]);
        (holds, last)
    }
}
