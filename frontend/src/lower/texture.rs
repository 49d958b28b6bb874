//! Lowers texture and surface instructions. Each instruction becomes one op. The payload of the op, a
//! [`margay_ops::texture::Access`], encodes the types and all modifiers except cache operators, which have no effect.
//!
//! A variable of opaque type contains a 64-bit handle, which the runtime assigns when it loads the module.

use margay_ir::entity::Value;
use margay_ops::meaning::Desc;
use margay_ops::mods::{AtomOp, Mods, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::texture::{Access, Edge, Geometry, LevelMode, Operation, Query};
use margay_ops::types::{OpType, Type};
use smallvec::SmallVec;

use super::env::Binding;
use super::function::FunctionLowering;
use super::operand::{Destination, unsigned};
use super::{Lowered, wrong_kind};
use crate::ast::{self, Operand, OperandKind};
use crate::resolve::ResolvedInstruction;

/// The destinations of the results, and the arguments, of the op that a texture or surface
/// instruction becomes.
#[derive(Default)]
struct Parts {
    results: SmallVec<[(Destination, OpType); 5]>,
    args: SmallVec<[Value; 16]>,
}

impl FunctionLowering<'_, '_> {
    /// Lowers `tex`, `tld4`, `txq`, `suld`, `sust`, `sured`, `suq` and `istypep`.
    pub(super) fn texture(
        &mut self,
        opcode: Opcode,
        instruction: &ast::Instruction,
        resolved: &ResolvedInstruction,
        operands: &[Operand],
    ) -> Lowered<()> {
        let mut access = self.access_of(instruction, resolved);
        let mut parts = Parts::default();
        let roles = resolved.roles();
        let named = |name: &str| {
            let mut all = operands.iter().zip(roles);
            let found = all.find(|(_, role)| role.pattern.name == name);
            found.map(|(operand, _)| operand)
        };
        if named("f").is_some() {
            // Depth comparison is unsupported, because no API function creates a texture for it.
            let what = self.ast.spelling(instruction);
            return self.leave_out(instruction, format!("{what} with a depth to compare"));
        }
        if let Some((first, role)) = operands.first().zip(roles.first())
            && role.pattern.is_dest()
        {
            let ty = match access.operation {
                Operation::Txq | Operation::Suq => OpType::B32,
                Operation::Istypep => OpType::Pred,
                _ => access.ty,
            };
            access.resident = matches!(first.kind, OperandKind::Pair(_));
            self.texture_results(first, ty, &mut parts)?;
        }
        self.texture_place(&access, operands, &mut parts)?;
        let dimensions = access.geometry.dimensions();
        if let Some(level) = named("lod") {
            let ty = match access.operation {
                Operation::Txq => OpType::U32,
                _ => access.coords,
            };
            self.texture_values(level, ty, 1, &mut parts)?;
        }
        for gradient in ["x", "y"].into_iter().filter_map(named) {
            self.texture_values(gradient, OpType::F32, dimensions, &mut parts)?;
        }
        if let Some(offsets) = named("e") {
            access.offsets = true;
            self.texture_values(offsets, OpType::S32, dimensions, &mut parts)?;
        }
        match access.operation {
            Operation::Sust => {
                if let Some(values) = named("d") {
                    self.texture_values(values, access.ty, access.count(), &mut parts)?;
                }
            }
            Operation::Sured => {
                if let Some(value) = named("v") {
                    self.texture_values(value, access.ty, 1, &mut parts)?;
                }
            }
            _ => {}
        }
        let types: SmallVec<[Type; 5]> = parts.results.iter().map(|(_, ty)| ty.held()).collect();
        let desc = Desc {
            opcode,
            ty: OpType::None,
            src: OpType::None,
            mods: Mods(access.payload()),
        };
        let inst = self.b.inst(desc, &parts.args, &types);
        let values: SmallVec<[Value; 5]> = SmallVec::from_slice(self.b.function.dfg.results(inst));
        for ((place, ty), value) in parts.results.into_iter().zip(values) {
            self.write(place, value, ty);
        }
        Ok(())
    }

    /// Records in the function that is being lowered that it contains an unsupported instruction;
    /// `what` describes the unsupported feature.
    fn leave_out(&mut self, instruction: &ast::Instruction, what: String) -> Lowered<()> {
        let line = self.line_of(instruction.span.start);
        self.b.function.unsupported.push((line, what));
        Ok(())
    }

    /// Returns the [`Access`] that the modifiers and types of the instruction specify.
    fn access_of(&self, instruction: &ast::Instruction, resolved: &ResolvedInstruction) -> Access {
        let head = self.ast.text(instruction.opcode);
        let spelling = resolved.spelling();
        let types = &spelling.types;
        let given = |index: usize| types.get(index).copied().unwrap_or_default();
        let mut access = Access {
            operation: Operation::from_name(head).unwrap_or_default(),
            count_log2: spelling.desc.mods.vec_log2(),
            ..Access::default()
        };
        for &word in &spelling.modifiers {
            if let Some(geometry) = Geometry::from_name(word) {
                access.geometry = geometry;
            } else if let Some(level) = LevelMode::from_name(word) {
                access.level = level;
            } else if let Some(query) = Query::from_name(word) {
                access.query = query;
            } else if let Some(edge) = Edge::from_name(word) {
                access.edge = edge;
            } else if let Some(reduction) = AtomOp::from_name(word) {
                access.reduction = reduction;
            } else {
                match word {
                    "p" => access.formatted = true,
                    "g" => access.component = 1,
                    "b" if access.operation == Operation::Tld4 => access.component = 2,
                    "a" => access.component = 3,
                    "v2" => access.count_log2 = 1,
                    "v4" => access.count_log2 = 2,
                    _ => {}
                }
            }
        }
        if access.query == Query::None {
            access.ty = given(0);
            access.coords = match access.operation {
                Operation::Tex | Operation::Tld4 => given(1),
                _ => OpType::S32,
            };
        }
        access
    }

    fn texture_results(&mut self, operand: &Operand, ty: OpType, parts: &mut Parts) -> Lowered<()> {
        let (values, second) = match operand.kind {
            OperandKind::Pair(list) => (self.ast[list][0], self.ast[list].get(1).copied()),
            _ => (*operand, None),
        };
        for part in self.parts(&values) {
            let place = self.place(&part)?;
            parts.results.push((place, ty));
        }
        if let Some(second) = second {
            let place = self.place(&second)?;
            parts.results.push((place, OpType::Pred));
        }
        Ok(())
    }

    /// Appends the handles of the texture and the sampler, the layer and the coordinates to the
    /// arguments in `parts`.
    fn texture_place(
        &mut self,
        access: &Access,
        operands: &[Operand],
        parts: &mut Parts,
    ) -> Lowered<()> {
        let ast = self.ast;
        let place = operands.iter().find(|operand| {
            matches!(
                operand.kind,
                OperandKind::Memory { .. }
                    | OperandKind::MemoryAt(_)
                    | OperandKind::MemoryTuple(_)
                    | OperandKind::Element { .. }
            )
        });
        let list: SmallVec<[Operand; 3]> = match place.map(|place| (place, place.kind)) {
            Some((_, OperandKind::MemoryTuple(list))) => SmallVec::from_slice(&ast[list]),
            Some((place, _)) => SmallVec::from_slice(&[*place]),
            None => operands.iter().skip(1).take(1).copied().collect(),
        };
        let Some((reference, rest)) = list.split_first() else {
            return Ok(());
        };
        let handle = self.reference(reference)?;
        parts.args.push(handle);
        let (sampler, coords) = match rest {
            [sampler, coords] => (Some(sampler), Some(coords)),
            [coords] => (None, Some(coords)),
            _ => (None, None),
        };
        if matches!(
            access.operation,
            Operation::Tex | Operation::Tld4 | Operation::Txq
        ) {
            let sampler = match sampler {
                Some(sampler) => self.reference(sampler)?,
                None => self.b.constant(Type::B64, 0),
            };
            parts.args.push(sampler);
        }
        let Some(coords) = coords else { return Ok(()) };
        let all = self.parts(coords);
        let mut coords = all.iter();
        if access.geometry.is_layered()
            && let Some(layer) = coords.next()
        {
            let value = self.texture_value(layer, OpType::U32)?;
            parts.args.push(value);
        }
        for _ in 0..access.geometry.dimensions() {
            let value = match coords.next() {
                Some(part) => self.texture_value(part, access.coords)?,
                None => self.b.constant(access.coords.held(), 0),
            };
            parts.args.push(value);
        }
        Ok(())
    }

    /// Returns the 64-bit handle of the texture, sampler or surface to which an operand refers.
    fn reference(&mut self, operand: &Operand) -> Lowered<Value> {
        let value = match operand.kind {
            OperandKind::Memory { base, offset } => {
                let (binding, span) = (self.find(base), operand.span);
                match binding {
                    Some(Binding::Value(variable, _)) => self.b.read(variable),
                    Some(Binding::KernelParam(_) | Binding::Local(_)) => {
                        let (address, space) = self.variable_address(base, offset, span)?;
                        self.load_handle(address, space)
                    }
                    _ => self.variable_address(base, offset, span)?.0,
                }
            }
            OperandKind::Name(base) => match self.find(base) {
                Some(Binding::KernelParam(_) | Binding::Local(_)) => {
                    let (address, space) = self.variable_address(base, 0, operand.span)?;
                    self.load_handle(address, space)
                }
                _ => self.read(operand, OpType::U64)?,
            },
            OperandKind::MemoryAt(at) => self.b.constant(Type::B64, at as u64),
            OperandKind::Element { .. } => {
                let what = "arrays of textures, samplers or surfaces are not supported";
                return Err(wrong_kind(operand.span, what));
            }
            _ => self.read(operand, OpType::U64)?,
        };
        let ty = self.b.function.dfg.ty(value);
        if ty.lane_bits() < 64 {
            let from = unsigned(ty.lane_bits());
            let plain = self.b.bitcast(value, from.held());
            return Ok(self.convert(plain, from, OpType::U64));
        }
        Ok(self.b.bitcast(value, Type::B64))
    }

    /// Emits a load of the 64-bit handle at `address`, which is the address of a parameter.
    fn load_handle(&mut self, address: Value, space: StateSpace) -> Value {
        let desc = Desc {
            opcode: Opcode::Ld,
            ty: OpType::B64,
            src: OpType::None,
            mods: Mods::NONE.with_space(space),
        };
        self.b.op(desc, &[address], Type::B64)
    }

    /// Appends the first `count` elements of an operand to the arguments in `parts`. If the operand
    /// has fewer elements, the missing elements are 0.
    fn texture_values(
        &mut self,
        operand: &Operand,
        ty: OpType,
        count: usize,
        parts: &mut Parts,
    ) -> Lowered<()> {
        let given = self.parts(operand);
        for index in 0..count {
            let value = match given.get(index) {
                Some(part) => self.texture_value(part, ty)?,
                None => self.b.constant(ty.held(), 0),
            };
            parts.args.push(value);
        }
        Ok(())
    }

    fn texture_value(&mut self, operand: &Operand, ty: OpType) -> Lowered<Value> {
        let value = self.read(operand, ty)?;
        let (from, to) = (
            self.b.function.dfg.ty(value).lane_bits(),
            ty.held().lane_bits(),
        );
        if from == to {
            return Ok(self.held_as(value, ty));
        }
        let (source, target) = (unsigned(from), unsigned(to));
        let plain = self.b.bitcast(value, source.held());
        let value = self.convert(plain, source, target);
        Ok(self.held_as(value, ty))
    }
}
