//! Lowers instructions: calls the lowering function that the instruction's form specifies, lowers
//! guards, and lowers the instructions that become one op.

use margay_ir::entity::Value;
use margay_ops::meaning::Desc;
use margay_ops::mods::{Mode, Mods, StateSpace};
use margay_ops::ops::{Effects, Opcode};
use margay_ops::types::{OpType, Type};
use margay_ptx::{Action, Lowering};
use smallvec::SmallVec;

use super::Lowered;
use super::function::FunctionLowering;
use super::matrix::words_of;
use super::operand::{Destination, bits_type};
use super::parts::Parts;
use super::video;
use crate::ast::{self, Operand, OperandKind, Prefix};
use crate::resolve::ResolvedInstruction;
use crate::{Code, Diagnostic};

impl FunctionLowering<'_, '_> {
    /// Lowers one instruction, for which resolution has selected a form.
    pub(super) fn instruction(
        &mut self,
        instruction: &ast::Instruction,
        resolved: &ResolvedInstruction,
    ) -> Lowered<()> {
        self.mark(instruction);
        let ast = self.ast;
        let operands = &ast[instruction.operands];
        let action = resolved.action();
        let guard = self.guard_value(instruction)?;
        if self.m.observes {
            self.observe(instruction, resolved, guard);
        }
        let merges = match action {
            Action::Becomes(opcode) => {
                opcode.effects().is_pure() || opcode.effects() == Effects::TIME
            }
            Action::Nothing => true,
            _ => false,
        };
        let Some(guard) = guard else {
            return self.dispatch(instruction, resolved, operands);
        };
        if merges {
            self.guard = Some(guard);
            let result = self.dispatch(instruction, resolved, operands);
            self.guard = None;
            return result;
        }
        if self.branch_guarded(action, guard, operands)? {
            return Ok(());
        }
        let (then, next) = (self.b.create_block(), self.b.create_block());
        self.b.brif(guard, then, next);
        self.b.switch_to(then);
        let result = self.dispatch(instruction, resolved, operands);
        self.go_on_in(next);
        result
    }

    fn guard_value(&mut self, instruction: &ast::Instruction) -> Lowered<Option<Value>> {
        let Some(id) = instruction.guard else {
            return Ok(None);
        };
        let guard = self.ast[id];
        let operand = Operand {
            kind: OperandKind::Name(guard.register.name),
            span: guard.register.span,
        };
        let value = self.read(&operand, OpType::Pred)?;
        if self.b.function.dfg.ty(value) != Type::PRED {
            let message = "a guard must be a predicate register";
            return Err(Diagnostic::error(Code::GUARD, guard.register.span, message));
        }
        Ok(Some(if guard.negated {
            self.b.simple(Opcode::Not, OpType::Pred, &[value])
        } else {
            value
        }))
    }

    fn dispatch(
        &mut self,
        instruction: &ast::Instruction,
        resolved: &ResolvedInstruction,
        operands: &[Operand],
    ) -> Lowered<()> {
        match resolved.action() {
            Action::Nothing => {
                for (operand, role) in operands.iter().zip(resolved.roles()) {
                    if role.pattern.is_dest() {
                        let place = self.place(operand)?;
                        let zero = self.b.constant(role.ty.held(), 0);
                        self.write(place, zero, role.ty);
                    }
                }
                Ok(())
            }
            Action::LeftOut(_) => {
                let line = self.line_of(instruction.span.start);
                let what = self.ast.spelling(instruction);
                self.b.function.unsupported.push((line, what));
                Ok(())
            }
            Action::Lowers(lowering) => self.lowers(lowering, instruction, resolved, operands),
            Action::Becomes(Opcode::Mma) => self.product(instruction, resolved, operands),
            Action::Becomes(
                opcode @ (Opcode::Tex | Opcode::Txq | Opcode::Suld | Opcode::Sust | Opcode::Sured),
            ) => self.texture(opcode, instruction, resolved, operands),
            Action::Becomes(opcode) => {
                self.operation(opcode, resolved, operands)?;
                if opcode == Opcode::Fence {
                    self.proxy_fence(&words_of(self.ast, instruction));
                }
                Ok(())
            }
        }
    }

    /// Lowers an instruction for which the syntax table names a lowering function: control flow, or an instruction that
    /// becomes several ops.
    fn lowers(
        &mut self,
        lowering: Lowering,
        instruction: &ast::Instruction,
        resolved: &ResolvedInstruction,
        operands: &[Operand],
    ) -> Lowered<()> {
        let parts = Parts {
            resolved,
            operands,
            words: words_of(self.ast, instruction),
        };
        match lowering {
            Lowering::Branch => self.branch(operands),
            Lowering::IndexedBranch => self.branch_indexed(operands),
            Lowering::Call => self.call(instruction),
            Lowering::MbarrierInit => self.init_object(&parts),
            Lowering::MbarrierInval => self.touch_object(&parts),
            Lowering::MbarrierPendingCount => self.pending_count(&parts),
            Lowering::MbarrierArrive => self.arrive(&parts),
            Lowering::MbarrierWait => self.has_passed(&parts),
            Lowering::CopyArrive => self.arrive_after_copies(&parts),
            Lowering::CopyCommit => self.copy_group(&parts, Mode::Arrive),
            Lowering::CopyWait => self.copy_group(&parts, Mode::Sync),
            Lowering::CopyWaitAll => self.copy_group(&parts, Mode::All),
            Lowering::BulkCommit => self.copy_group(&parts, Mode::BulkArrive),
            Lowering::BulkWait if parts.has("read") => self.copy_group(&parts, Mode::BulkRead),
            Lowering::BulkWait => self.copy_group(&parts, Mode::BulkSync),
            Lowering::BulkCopy => self.copy_bulk(&parts),
            Lowering::BulkReduction => self.reduce_bulk(&parts),
            Lowering::BulkClear => self.clear_bulk(&parts),
            Lowering::AsyncStore => self.store_and_signal(&parts),
            Lowering::AsyncReduction => self.reduce_and_signal(&parts),
            Lowering::MapShared => self.mapa(&parts),
            Lowering::ClusterRank => self.rank_of_address(&parts),
            Lowering::TileLoad
            | Lowering::TileStore
            | Lowering::MatrixLoad
            | Lowering::MatrixStore
            | Lowering::MatrixTranspose => self.matrix(lowering, instruction, resolved, operands),
        }
    }

    fn operation(
        &mut self,
        opcode: Opcode,
        resolved: &ResolvedInstruction,
        operands: &[Operand],
    ) -> Lowered<()> {
        match opcode {
            Opcode::Ret => {
                self.emit_ret();
                Ok(())
            }
            Opcode::Exit | Opcode::Trap => {
                self.b.end(opcode, &[]);
                Ok(())
            }
            Opcode::Ld => self.load(resolved, operands),
            Opcode::St => self.store(resolved, operands),
            Opcode::Atom | Opcode::Red => self.atomic(opcode, resolved, operands),
            Opcode::CpAsync => self.copy_async(resolved, operands),
            Opcode::Cvta => self.cvta(resolved, operands),
            Opcode::Bar => self.barrier(resolved, operands),
            Opcode::Pack => self.pack(resolved, operands),
            Opcode::Unpack => self.unpack(resolved, operands),
            Opcode::Bitcast => self.mov(resolved, operands),
            Opcode::Alloca => self.alloca(resolved, operands),
            _ => self.generic(opcode, resolved, operands),
        }
    }

    /// Lowers an instruction to a single op. The op has the operands and results of the instruction
    /// in the same order.
    fn generic(
        &mut self,
        opcode: Opcode,
        resolved: &ResolvedInstruction,
        operands: &[Operand],
    ) -> Lowered<()> {
        let mut desc = resolved.desc();
        desc.opcode = opcode;
        let mut places: SmallVec<[(Destination, OpType); 2]> = SmallVec::new();
        let mut args: SmallVec<[Value; 6]> = SmallVec::new();
        for (index, (operand, role)) in operands.iter().zip(resolved.roles()).enumerate() {
            if role.pattern.is_dest() {
                self.destinations(operand, role.ty, &mut places)?;
            } else if opcode != Opcode::Fence {
                // The address operand of a proxy fence is ignored, because on a CPU all proxies access memory in the
                // same way.
                self.selectors(operand, index, &mut desc)?;
                for part in self.parts(operand) {
                    args.push(self.read(&part, role.ty)?);
                }
            }
        }
        if desc.mods.dsel() == 0
            && let Some(first) = operands.first()
        {
            desc.mods = desc.mods.with_dsel(self.selector_of(first));
        }
        if let Some(lanes) = video::lanes(opcode) {
            self.select_lanes(lanes, operands, &mut desc, &mut args);
        }
        if opcode == Opcode::Isspacep && self.m.resolution.is_narrow() {
            args[0] = self.wide_address(args[0], StateSpace::None);
        }
        self.complete(opcode, &mut desc, &mut args, &mut places);
        let types: SmallVec<[Type; 2]> = places.iter().map(|(_, ty)| ty.held()).collect();
        let inst = self.b.inst(desc, &args, &types);
        let results: SmallVec<[Value; 2]> = SmallVec::from_slice(self.b.function.dfg.results(inst));
        for (&(place, ty), value) in places.iter().zip(results) {
            self.write(place, value, ty);
        }
        Ok(())
    }

    fn destinations(
        &mut self,
        operand: &Operand,
        ty: OpType,
        places: &mut SmallVec<[(Destination, OpType); 2]>,
    ) -> Lowered<()> {
        match operand.kind {
            OperandKind::Pair(list) => {
                let ast = self.ast;
                for (i, part) in ast[list].iter().enumerate() {
                    // The second part of a pair is always a predicate.
                    places.push((self.place(part)?, if i == 0 { ty } else { OpType::Pred }));
                }
            }
            OperandKind::Vector(list) => {
                let ast = self.ast;
                for part in &ast[list] {
                    places.push((self.place(part)?, ty));
                }
            }
            _ => places.push((self.place(operand)?, ty)),
        }
        Ok(())
    }

    /// Adds the operands and results that the op has but that the PTX instruction does not name:
    /// the carry flag, omitted predicate results, and the member mask of instructions without
    /// `.sync`.
    fn complete(
        &mut self,
        opcode: Opcode,
        desc: &mut Desc,
        args: &mut SmallVec<[Value; 6]>,
        places: &mut SmallVec<[(Destination, OpType); 2]>,
    ) {
        if matches!(opcode, Opcode::Addc | Opcode::Subc | Opcode::Madc) {
            let carry = self.carry();
            args.push(self.b.read(carry));
        }
        if desc.mods.carry_out() {
            let carry = self.carry();
            places.push((Destination::Register(carry), OpType::Pred));
        }
        let warp = matches!(opcode, Opcode::Shfl | Opcode::Vote | Opcode::Match);
        if warp && desc.mods.flag() {
            args.push(self.b.constant(Type::B32, u64::from(u32::MAX)));
        }
        let pairs = opcode == Opcode::Shfl
            || opcode == Opcode::Elect
            || (opcode == Opcode::Match && desc.mods.mode() == Mode::All);
        if pairs && places.len() == 1 {
            places.push((Destination::Sink, OpType::Pred));
        }
    }

    /// Records in `desc` the video selector and the minus sign of the operand at `index`, if it has
    /// them.
    fn selectors(&self, operand: &Operand, index: usize, desc: &mut Desc) -> Lowered<()> {
        let selector = self.selector_of(operand);
        let negative = matches!(
            operand.kind,
            OperandKind::Prefixed {
                prefix: Prefix::Minus,
                ..
            }
        );
        match index {
            1 => desc.mods = desc.mods.with_asel(selector),
            2 => desc.mods = desc.mods.with_bsel(selector),
            _ => {}
        }
        if negative {
            let bit = if index == 3 { 2 } else { 1 };
            // If both factors have a minus sign, the product is not negated.
            desc.mods = desc.mods.with_negate(desc.mods.negate() ^ bit);
        }
        Ok(())
    }

    /// Returns the number that represents the video selector of an operand in `Mods::asel`; 0 means
    /// no selector.
    fn selector_of(&self, operand: &Operand) -> u8 {
        let selector = match operand.kind {
            OperandKind::Component { selector, .. } => Some(selector),
            OperandKind::Prefixed { selector, .. } => selector,
            _ => None,
        };
        match selector.map(|name| self.ast.text(name)) {
            Some("b0") => 1,
            Some("b1") => 2,
            Some("b2") => 3,
            Some("b3") => 4,
            Some("h0") => 5,
            Some("h1") => 6,
            _ => 0,
        }
    }

    /// Lowers `mov` of a scalar, an address or a vector.
    fn mov(&mut self, resolved: &ResolvedInstruction, operands: &[Operand]) -> Lowered<()> {
        let [to, from] = operands else { return Ok(()) };
        let ty = resolved.desc().ty;
        let (to, from) = (self.parts(to), self.parts(from));
        let mut values: SmallVec<[Value; 4]> = SmallVec::new();
        for part in &from {
            values.push(self.read(part, ty)?);
        }
        for (part, value) in to.iter().zip(values) {
            let place = self.place(part)?;
            self.write(place, value, ty);
        }
        Ok(())
    }

    fn part_type(whole: OpType, parts: usize) -> OpType {
        let bits = whole.bits() / (parts.max(1) as u32);
        Type::bits_of(bits).map_or(OpType::B32, bits_type)
    }

    fn pack(&mut self, resolved: &ResolvedInstruction, operands: &[Operand]) -> Lowered<()> {
        let [to, from] = operands else { return Ok(()) };
        let whole = Type::bits_of(resolved.desc().ty.bits()).map_or(OpType::B64, bits_type);
        let parts = self.parts(from);
        let part = Self::part_type(whole, parts.len());
        let mut args: SmallVec<[Value; 4]> = SmallVec::new();
        for operand in &parts {
            let value = self.read(operand, part)?;
            args.push(self.b.bitcast(value, part.held()));
        }
        let desc = Desc {
            opcode: Opcode::Pack,
            ty: whole,
            src: part,
            mods: Mods::NONE,
        };
        let value = self.b.op(desc, &args, whole.held());
        let place = self.place(to)?;
        self.write(place, value, whole);
        Ok(())
    }

    fn unpack(&mut self, resolved: &ResolvedInstruction, operands: &[Operand]) -> Lowered<()> {
        let [to, from] = operands else { return Ok(()) };
        let parts = self.parts(to);
        if resolved.desc().mods.vec() > 1 {
            return self.mov(resolved, operands);
        }
        let whole = Type::bits_of(resolved.desc().ty.bits()).map_or(OpType::B64, bits_type);
        let part = Self::part_type(whole, parts.len());
        let value = self.read(from, whole)?;
        let value = self.b.bitcast(value, whole.held());
        let desc = Desc {
            opcode: Opcode::Unpack,
            ty: part,
            src: whole,
            mods: Mods::NONE,
        };
        let types: SmallVec<[Type; 4]> = parts.iter().map(|_| part.held()).collect();
        let inst = self.b.inst(desc, &[value], &types);
        let results: SmallVec<[Value; 4]> = SmallVec::from_slice(self.b.function.dfg.results(inst));
        for (operand, value) in parts.iter().zip(results) {
            let place = self.place(operand)?;
            self.write(place, value, part);
        }
        Ok(())
    }

    fn barrier(&mut self, resolved: &ResolvedInstruction, operands: &[Operand]) -> Lowered<()> {
        let mut desc = resolved.desc();
        desc.opcode = Opcode::Bar;
        let mut place = None;
        let mut id = None;
        let mut count = None;
        let mut pred = None;
        for (operand, role) in operands.iter().zip(resolved.roles()) {
            if role.pattern.is_dest() {
                place = Some((self.place(operand)?, role.ty));
                continue;
            }
            let value = self.read(operand, role.ty)?;
            match role.pattern.name {
                "a" => id = Some(value),
                "b" => count = Some(value),
                _ => pred = Some(value),
            }
        }
        let zero = self.b.constant(Type::B32, 0);
        let mut args: SmallVec<[Value; 3]> =
            SmallVec::from_slice(&[id.unwrap_or(zero), count.unwrap_or(zero)]);
        args.extend(pred);
        let types: SmallVec<[Type; 1]> = place.iter().map(|(_, ty)| ty.held()).collect();
        let inst = self.b.inst(desc, &args, &types);
        if let Some((place, ty)) = place {
            let value = self.b.function.dfg.results(inst)[0];
            self.write(place, value, ty);
        }
        Ok(())
    }

    fn alloca(&mut self, resolved: &ResolvedInstruction, operands: &[Operand]) -> Lowered<()> {
        /// The alignment in bytes of the memory that [`Opcode::Alloca`] allocates.
        const OWN: u64 = 16;
        let [to, size, alignment @ ..] = operands else {
            return Ok(());
        };
        let ty = resolved.desc().ty;
        let mut size = self.read(size, ty)?;
        let alignment = match alignment {
            [alignment] => Some(self.read(alignment, ty)?),
            _ => None,
        };
        let alignment = alignment
            .and_then(|value| self.b.function.dfg.constant(value))
            .filter(|alignment| alignment.is_power_of_two() && *alignment > OWN);
        if let Some(alignment) = alignment {
            let more = self.b.constant(ty.held(), alignment);
            size = self.b.simple(Opcode::Add, ty, &[size, more]);
        }
        let mut desc = resolved.desc();
        desc.opcode = Opcode::Alloca;
        let mut value = self.b.op(desc, &[size], ty.held());
        if let Some(alignment) = alignment {
            let last = self.b.constant(ty.held(), alignment - 1);
            value = self.b.simple(Opcode::Add, ty, &[value, last]);
            let whole = self.b.constant(ty.held(), alignment.wrapping_neg());
            value = self
                .b
                .simple(Opcode::And, bits_type(ty.held()), &[value, whole]);
        }
        let place = self.place(to)?;
        self.write(place, value, ty);
        Ok(())
    }
}
