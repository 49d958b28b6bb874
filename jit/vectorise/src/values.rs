//! The values of the kernel: where they are held, and the operations that compute them.

use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Block, Inst, Value};
use margay_ir::function::{InstData, payload_sreg};
use margay_ops::meaning::Meaning;
use margay_ops::ops::{Effects, Opcode};
use margay_ops::types::{Kind, Type};
use margay_vir::data::Data;
use margay_vir::ops::Op;
use smallvec::SmallVec;

use crate::Refusal;
use crate::emitter::Emitter;
use crate::variables::Key;

impl Emitter<'_> {
    /// Returns the class of a value in the block being translated.
    pub(crate) fn class(&self, value: Value) -> Class {
        self.class_at(value, self.block)
    }

    /// Returns the class of a value in a block.
    pub(crate) fn class_at(&self, value: Value, block: Block) -> Class {
        let uniformity = self.kernel.uniformity;
        match uniformity.class_in(self.kernel.function, value, block) {
            Class::Varying if !uniformity.leaves_apart(self.kernel.function, value, block) => {
                self.certain_class(value)
            }
            class => class,
        }
    }

    /// Returns the class of a value where it is defined.
    pub(crate) fn own_class(&self, value: Value) -> Class {
        match self.kernel.uniformity.class(value) {
            Class::Varying => self.certain_class(value),
            class => class,
        }
    }

    /// Returns the class of a value that varies unless the checks of the CTA hold.
    fn certain_class(&self, value: Value) -> Class {
        let stride = self.kernel.speculative.stride(value);
        match stride.filter(|_| self.certain.contains(&value)) {
            None => Class::Varying,
            Some(0) => Class::Warp,
            Some(stride) => Class::Affine(stride),
        }
    }

    /// Returns the kind of a value of the kernel.
    pub(crate) fn kind(&self, value: Value) -> Kind {
        self.source.dfg.ty(value).kind()
    }

    /// Returns whether the lanes have left the loop that defines a value in different iterations.
    fn has_left(&self, value: Value) -> bool {
        let uniformity = self.kernel.uniformity;
        uniformity.leaves_apart(self.source, value, self.block)
    }

    /// Returns the value that all lanes have, or the value in the first lane.
    pub(crate) fn scalar(&mut self, value: Value) -> Value {
        let ty = self.source.dfg.ty(value);
        if let Some(bits) = self.source.dfg.constant(value) {
            return self.constant(ty, bits);
        }
        match self.fixed.get(&value) {
            Some(&fixed) => fixed,
            None if self.is_derived(value) => self.derived_scalar(value),
            None => self.read(Key::Scalar(value), ty),
        }
    }

    /// Returns the value in the first lane of the first of the chunks that run together.
    pub(crate) fn scalar_of_first(&mut self, value: Value) -> Value {
        let ty = self.source.dfg.ty(value);
        let key = (Key::Scalar(value), 0);
        self.variables.get(&mut self.out, (key, ty), self.at)
    }

    /// Returns the lanes of a value as a vector.
    pub(crate) fn lanes(&mut self, value: Value) -> Value {
        let operand = self.operand(value);
        if self.out.ty(operand).lanes() > 1 || self.kernel.width == 1 {
            return operand;
        }
        let ty = self.vector(self.kind(value));
        self.value(Op::Splat, ty, Data::Nothing, &[operand])
    }

    /// Returns a value as an operand of a lane operation: a scalar if all lanes have the same value, else a vector.
    pub(crate) fn operand(&mut self, value: Value) -> Value {
        match self.class(value) {
            Class::Affine(stride) => {
                if let Some(&made) = self.made.get(&(value, self.chunk)) {
                    return made;
                }
                let (scalar, ty) = (self.scalar(value), self.vector(self.kind(value)));
                let stride = Data::Number(stride as u64);
                let lanes = self.value(Op::Affine, ty, stride, &[scalar]);
                self.made.insert((value, self.chunk), lanes);
                lanes
            }
            Class::Varying => self.varying(value),
            _ => self.scalar(value),
        }
    }

    fn varying(&mut self, value: Value) -> Value {
        let ty = self.vector(self.kind(value));
        if self.has_left(value) {
            return self.read(Key::Left(value), ty);
        }
        if !self.lazy.contains(&value) {
            return self.read(Key::Lanes(value), ty);
        }
        if let Some(&made) = self.made.get(&(value, self.chunk)) {
            return made;
        }
        let lanes = self.recomputed(value);
        self.made.insert((value, self.chunk), lanes);
        lanes
    }

    /// Sets the lanes of a value.
    pub(crate) fn set_lanes(&mut self, value: Value, lanes: Value) {
        self.write(Key::Lanes(value), lanes);
    }

    /// Sets the value that all lanes have, or the value in the first lane.
    pub(crate) fn set_scalar(&mut self, value: Value, scalar: Value) {
        self.write(Key::Scalar(value), scalar);
    }

    /// Emits an operation that does not end a block.
    pub(crate) fn operation(&mut self, inst: Inst) -> Result<(), Refusal> {
        let data = self.source.dfg.insts[inst];
        let refused = Err(Refusal::Operation(data.opcode.name()));
        if let &[result] = self.source.dfg.results(inst)
            && let Some(scalar) = self.along_row(result)
        {
            self.set_scalar(result, scalar);
            return Ok(());
        }
        match data.opcode {
            Opcode::Const => Ok(()),
            Opcode::SReg => {
                let register = payload_sreg(data.payload());
                self.special_register(inst, register.ok_or(Refusal::Operation("sreg"))?)
            }
            Opcode::SymbolAddr | Opcode::ParamAddr => self.address_of(inst, &data),
            Opcode::LocalAddr => {
                self.local_variable(inst, &data);
                Ok(())
            }
            Opcode::Cvta => self.cvta(inst, &data),
            Opcode::Ld => self.load_inst(inst, &data),
            Opcode::St => self.store_inst(inst, &data),
            Opcode::Atom | Opcode::Red => self.update(inst, &data),
            Opcode::Fence => {
                self.fence(data.mods);
                Ok(())
            }
            // The lanes of a chunk that continue together have made their accesses.
            Opcode::Converge => Ok(()),
            Opcode::BarWarp => self.demand_together(self.block, data.opcode.name()),
            Opcode::Shfl | Opcode::Vote | Opcode::Redux | Opcode::Mma | Opcode::ActiveMask => {
                self.collective(inst, &data)
            }
            _ => match data.opcode.meaning() {
                Meaning::Pure(_) if data.opcode.effects().is_pure() => {
                    self.pure(inst, &data);
                    Ok(())
                }
                _ => refused,
            },
        }
    }

    /// Emits a pure operation.
    fn pure(&mut self, inst: Inst, data: &InstData) {
        debug_assert!(!data.opcode.effects().contains(Effects::PAYLOAD));
        let source = self.source;
        let results = source.dfg.results(inst);
        let varies = |&value: &Value| self.own_class(value) == Class::Varying;
        let (some, all) = (results.iter().any(varies), results.iter().all(varies));
        if let &[result] = results
            && self.kernel.speculative.stride(result).is_some()
            && self.speculate(inst, result)
        {
            return;
        }
        if some {
            let args = source.dfg.args(inst).iter();
            let args: SmallVec<[Value; 4]> = args.map(|&arg| self.operand(arg)).collect();
            let lanes = self.mapped(inst, data, self.kernel.width, &args);
            for (&result, lanes) in results.iter().zip(lanes) {
                self.set_lanes(result, lanes);
            }
        }
        if !all {
            for (result, scalar) in results.iter().zip(self.of_first(inst, data)) {
                self.set_scalar(*result, scalar);
            }
        }
    }

    /// Emits an operation for the first lane and returns its results.
    pub(crate) fn of_first(&mut self, inst: Inst, data: &InstData) -> SmallVec<[Value; 2]> {
        let args = self.source.dfg.args(inst).iter();
        let args: SmallVec<[Value; 4]> = args.map(|&arg| self.scalar(arg)).collect();
        self.mapped(inst, data, 1, &args)
    }

    /// Emits an operation in `lanes` lanes.
    pub(crate) fn mapped(
        &mut self,
        inst: Inst,
        data: &InstData,
        lanes: u32,
        args: &[Value],
    ) -> SmallVec<[Value; 2]> {
        let results = self.source.dfg.results(inst).iter();
        let kinds: SmallVec<[Kind; 4]> = results.map(|&result| self.kind(result)).collect();
        self.map_all((data.desc(), lanes), args, &kinds)
    }

    /// Returns the lanes of `new` where `mask` is true, and those of `old` elsewhere.
    pub(crate) fn blend(&mut self, mask: Value, new: Value, old: Value, kind: Kind) -> Value {
        if new == old {
            return new;
        }
        let ty = self.vector(kind);
        if kind == Kind::Pred {
            let some = self.logic(Opcode::And, &[mask, new]);
            let not = self.logic(Opcode::Not, &[mask]);
            let others = self.logic(Opcode::And, &[not, old]);
            return self.logic(Opcode::Or, &[some, others]);
        }
        let on = Type::scalar(kind).kind().op_type();
        self.simple(Opcode::Selp, on, ty, &[new, old, mask])
    }
}
