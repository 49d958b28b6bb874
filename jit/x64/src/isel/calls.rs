//! Calls, and the arguments and results of the function itself.

use margay_ir::entity::Block;
use margay_ops::types::{Kind, Type};
use regalloc2::{RegClass, VReg};
use smallvec::{SmallVec, smallvec};

use super::control::in_memory;
use super::{Regs, Selector, Val, one};
use crate::asm::{Cond, Op, Width};
use crate::code::{Symbol, layout};
use crate::mach::{Action, Base, Call, Inst, Mem};
use crate::{Convention, Error};

/// The general registers of the first arguments of a call.
const ARGUMENTS: [u8; 6] = [7, 6, 2, 1, 8, 9];
/// The number of vector registers of arguments.
const VECTOR_ARGUMENTS: u8 = 8;

impl Selector<'_> {
    /// Loads the arguments of the function.
    pub(crate) fn entry(&mut self, block: Block) -> Result<(), Error> {
        match self.convention {
            Convention::Blocks => {
                self.load_arguments(block);
                Ok(())
            }
            Convention::Registers => self.take_arguments(block),
        }
    }

    /// Takes the arguments from registers.
    fn take_arguments(&mut self, block: Block) -> Result<(), Error> {
        let vir = self.vir;
        let is_integer = |ty: &Type| ty.lanes() == 1 && !ty.is_float() && ty.lane_bits() <= 64;
        let (params, returns) = (&vir.signature.params, &vir.signature.returns);
        let fits = params.len() <= ARGUMENTS.len() && returns.len() <= 1;
        if !fits || !params.iter().chain(returns).all(is_integer) {
            return Err(Error::Unsupported("arguments or results in registers"));
        }
        let regs: Vec<VReg> = params
            .iter()
            .map(|_| self.mach.vreg(RegClass::Int))
            .collect();
        let call = self.new_call(Call {
            symbol: Symbol::Apply,
            args: SmallVec::new(),
            results: regs.iter().copied().zip(ARGUMENTS).collect(),
        });
        self.effect(Inst::of(Action::Entry(call), Width::W64));
        for (&param, reg) in vir.blocks[block].iter().zip(regs) {
            // The upper bits of arguments are undefined.
            let reg = match vir.ty(param).lane_bits() {
                64 => reg,
                32 => self.g_of(Op::Mov, Width::W32, reg),
                bits => self.zero_extended(reg, bits),
            };
            self.values[param] = one(reg);
            self.broadcast_if_used(param);
        }
        Ok(())
    }

    /// Loads the arguments from memory.
    fn load_arguments(&mut self, block: Block) {
        let vir = self.vir;
        let (arguments, results) = (self.mach.vreg(RegClass::Int), self.mach.vreg(RegClass::Int));
        let call = self.new_call(Call {
            symbol: Symbol::Apply,
            args: SmallVec::new(),
            results: smallvec![(arguments, 7), (results, 6)],
        });
        self.effect(Inst::of(Action::Entry(call), Width::W64));
        self.results = results;
        for (number, &param) in vir.blocks[block].iter().enumerate() {
            let ty = vir.ty(param);
            let offset = self.arguments[number];
            let regs = self.load_value(ty, Base::Reg(arguments), offset);
            self.values[param] = regs;
            self.broadcast_if_used(param);
        }
    }

    fn new_call(&mut self, call: Call) -> u32 {
        self.mach.calls.push(call);
        self.mach.calls.len() as u32 - 1
    }

    pub(crate) fn ret(&mut self) {
        let vals = self.vals();
        if self.convention == Convention::Registers {
            let mut inst = Inst::of(Action::Return, Width::W64);
            if let Some(val) = vals.first() {
                inst.src[0] = self.gpr(val);
            }
            return self.effect(inst);
        }
        for (number, val) in vals.iter().enumerate() {
            let offset = self.result_offsets[number];
            let base = Base::Reg(self.results);
            self.store_value(val, base, offset);
        }
        self.effect(Inst::of(Action::Return, Width::W64));
    }

    /// Calls a symbol with arguments and results in these registers; the class tells general from vector registers.
    pub(crate) fn call_symbol(
        &mut self,
        symbol: Symbol,
        args: &[(VReg, u8)],
        results: &[(VReg, u8)],
    ) {
        let call = self.new_call(Call {
            symbol,
            args: args.into(),
            results: results.into(),
        });
        self.effect(Inst::of(Action::Call(call), Width::W64));
    }

    pub(crate) fn call(&mut self, helper: u32) -> Result<(), Error> {
        let vals = self.vals();
        let types = self.result_types();
        let outs = self.call_helper(helper, &vals, &types)?;
        for (number, regs) in outs.into_iter().enumerate() {
            self.define(number, regs);
        }
        Ok(())
    }

    /// Calls a helper by the System V convention. Results that do not fit the result registers are in memory, to which an
    /// additional first argument leads; their layout is that of [`layout`].
    fn call_helper(
        &mut self,
        helper: u32,
        vals: &[Val],
        types: &[Type],
    ) -> Result<SmallVec<[Regs; 2]>, Error> {
        let (offsets, size) = layout(types);
        let in_memory = !fits_registers(types);
        let (mut general, mut vector, mut stack) = (0, 0, 0);
        let mut args: SmallVec<[(VReg, u8); 6]> = SmallVec::new();
        if in_memory {
            self.reserve(size);
            args.push((self.address_of(Mem::at(Base::Scratch, 0)), ARGUMENTS[0]));
            general = 1;
        }
        for val in vals {
            let regs = self.regs_of(val);
            let is_vector = val.ty.is_float();
            let fits = match is_vector {
                true => vector < VECTOR_ARGUMENTS,
                false => general + regs.len() <= ARGUMENTS.len(),
            };
            for reg in regs {
                match (fits, is_vector) {
                    (true, true) => {
                        args.push((reg, vector));
                        vector += 1;
                    }
                    (true, false) => {
                        args.push((reg, ARGUMENTS[general]));
                        general += 1;
                    }
                    (false, true) => {
                        self.store_vector(
                            Op::VmovqStore,
                            Width::L128,
                            reg,
                            Mem::at(Base::Outgoing, stack),
                        );
                        stack += 8;
                    }
                    (false, false) => {
                        self.effect(Self::general_store(64, reg, Mem::at(Base::Outgoing, stack)));
                        stack += 8;
                    }
                }
            }
        }
        self.mach.outgoing = self.mach.outgoing.max(stack as u32);
        let mut results: SmallVec<[(VReg, u8); 2]> = SmallVec::new();
        let mut outs: SmallVec<[Regs; 2]> = SmallVec::new();
        if !in_memory {
            let (mut general, mut vector) = ([0, 2].into_iter(), [0, 1].into_iter());
            for &ty in types {
                let regs = self.fresh(ty);
                for &reg in &regs {
                    let next = match reg.class() {
                        RegClass::Int => general.next(),
                        _ => vector.next(),
                    };
                    results.push((reg, next.ok_or(Error::Unsupported("call"))?));
                }
                outs.push(regs);
            }
        }
        self.call_symbol(Symbol::Helper(helper), &args, &results);
        if in_memory {
            return Ok(types
                .iter()
                .zip(offsets)
                .map(|(&ty, offset)| self.reload_value(ty, offset))
                .collect());
        }
        // The upper bits of results are undefined.
        for (regs, ty) in outs.iter_mut().zip(types) {
            if !ty.is_float() && ty.lane_bits() <= 64 {
                regs[0] = match ty.lane_bits() {
                    32 => self.g_of(Op::Mov, Width::W32, regs[0]),
                    bits => self.zero_extended(regs[0], bits),
                };
            }
        }
        Ok(outs)
    }

    /// Calls a helper once for each lane of a mask: a loop over the bits of the mask, with operands and results in memory.
    pub(crate) fn call_lanes(&mut self, helper: u32) -> Result<(), Error> {
        let (vals, results) = (self.vals(), self.result_types());
        let lanes = vals[0].ty.lanes();
        let args = &vals[1..];
        if lanes == 1 {
            return self.call_if(helper, &vals, &results);
        }
        let scalars: SmallVec<[Type; 2]> =
            results.iter().map(|ty| Type::scalar(ty.kind())).collect();
        // The results of one call come first, where `call_helper` expects them.
        let (_, start) = layout(&scalars);
        let types: Vec<Type> = args
            .iter()
            .map(|arg| arg.ty)
            .chain(results.iter().copied())
            .map(in_memory)
            .collect();
        let (mut offsets, size) = layout(&types);
        let start = start.next_multiple_of(64);
        offsets.iter_mut().for_each(|offset| *offset += start);
        self.reserve(start + size);
        for (arg, &offset) in args.iter().zip(&offsets) {
            self.spill_lanes(arg, offset);
        }
        for (&ty, &offset) in results.iter().zip(&offsets[args.len()..]) {
            self.clear(in_memory(ty), offset);
        }
        let mask = self.mask_reg(&vals[0]);
        let bits = self.gpr_of_mask(mask);
        let end = self.lane_loop(bits);
        let (lane, next) = (end.lane, end.rest);
        let operands: SmallVec<[Val; 4]> = args
            .iter()
            .zip(&offsets)
            .map(|(arg, &offset)| {
                let ty = Type::scalar(arg.ty.kind());
                let base = self.lane_address(offset, ty.lane_bytes(), lane);
                Val::new(ty, self.load_value(ty, base, 0))
            })
            .collect();
        let outs = self.call_helper(helper, &operands, &scalars)?;
        for (number, regs) in outs.into_iter().enumerate() {
            let (ty, offset) = (scalars[number], offsets[args.len() + number]);
            let base = self.lane_address(offset, ty.lane_bytes(), lane);
            self.store_value(&Val::new(ty, regs), base, 0);
        }
        self.end_loop(end.label, next, end.exit);
        for (number, &ty) in results.iter().enumerate() {
            let regs = self.reload_lanes(ty, offsets[args.len() + number]);
            self.define(number, regs);
        }
        Ok(())
    }

    /// Calls a helper if a predicate is true.
    fn call_if(&mut self, helper: u32, vals: &[Val], results: &[Type]) -> Result<(), Error> {
        let pred = self.gpr(&vals[0]);
        let args: SmallVec<[Regs; 4]> = vals[1..].iter().map(|val| self.regs_of(val)).collect();
        let zeros: Regs = results
            .iter()
            .flat_map(|&ty| {
                let zero = Val {
                    ty,
                    regs: Regs::new(),
                    bits: Some(0),
                };
                match ty.kind() {
                    Kind::B128 => self.wide_constant(ty, 0),
                    _ => self.regs_of(&zero),
                }
            })
            .collect();
        let (yes, no, end) = (self.mach.label(), self.mach.label(), self.mach.label());
        let merged: SmallVec<[Regs; 2]> = results.iter().map(|&ty| self.fresh(ty)).collect();
        self.mach.block(end).params = merged.iter().flatten().copied().collect();
        self.flags(Op::Test, Width::W32, pred, pred);
        self.end_with(
            Action::Branch(Cond::Ne),
            smallvec![(yes, smallvec![]), (no, smallvec![])],
        );
        self.start(yes);
        let operands: SmallVec<[Val; 4]> = vals[1..]
            .iter()
            .zip(args)
            .map(|(val, regs)| Val::new(val.ty, regs))
            .collect();
        let outs = self.call_helper(helper, &operands, results)?;
        let passed = outs.into_iter().flatten().collect();
        self.end_with(Action::Jump, smallvec![(end, passed)]);
        self.start(no);
        self.end_with(Action::Jump, smallvec![(end, zeros.into_iter().collect())]);
        self.start(end);
        for (number, regs) in merged.into_iter().enumerate() {
            self.define(number, regs);
        }
        Ok(())
    }
}

/// Returns whether results fit the two general and two vector registers of results.
fn fits_registers(types: &[Type]) -> bool {
    let (mut general, mut vector) = (0, 0);
    for ty in types {
        match ty.kind() {
            Kind::F32 | Kind::F64 => vector += 1,
            Kind::B128 => general += 2,
            _ => general += 1,
        }
    }
    general <= 2 && vector <= 2
}
