//! Values in the scratch area of the frame, and operations that call their reference function with operands there.
//!
//! No value lives in the scratch area longer than one instruction of the function.

use margay_ops::meaning::Desc;
use margay_ops::types::{Kind, Type};
use margay_vir::data::Data;
use regalloc2::{RegClass, VReg};
use smallvec::SmallVec;

use super::{Regs, Selector, Val, one};
use crate::asm::{Op, Width};
use crate::code::{Operation, ProductPlan, Symbol, bytes_of, layout};
use crate::mach::{Action, Base, Inst, Mem};

impl Selector<'_> {
    /// Makes the scratch area at least as large as `bytes`.
    pub(crate) fn reserve(&mut self, bytes: u32) {
        self.mach.scratch = self.mach.scratch.max(bytes);
    }

    /// Stores a vector register.
    pub(crate) fn store_vector(&mut self, op: Op, len: Width, value: VReg, mem: Mem) {
        let mut inst = Inst::of(Action::Op(op), len);
        inst.src[0] = value;
        inst.mem = mem;
        self.effect(inst);
    }

    /// Loads a vector register from memory that is accessible.
    pub(crate) fn load_vector(&mut self, op: Op, len: Width, mem: Mem) -> VReg {
        let mut inst = Inst::of(Action::Op(op), len);
        inst.mem = mem;
        self.result(RegClass::Float, inst)
    }

    /// Loads a general register from memory that is accessible, zero-extended.
    pub(crate) fn load_general(&mut self, bits: u32, mem: Mem) -> VReg {
        let (op, width) = match bits {
            1 | 8 => (Op::Movzx8, Width::W32),
            16 => (Op::Movzx16, Width::W32),
            32 => (Op::Mov, Width::W32),
            _ => (Op::Mov, Width::W64),
        };
        let mut inst = Inst::of(Action::Op(op), width);
        inst.mem = mem;
        self.result(RegClass::Int, inst)
    }

    /// Returns the instruction that stores the low bits of a general register.
    pub(crate) fn general_store(bits: u32, value: VReg, mem: Mem) -> Inst {
        let width = match bits {
            1 | 8 => Width::W8,
            16 => Width::W16,
            32 => Width::W32,
            _ => Width::W64,
        };
        let mut inst = Inst::of(Action::Op(Op::Mov), width);
        inst.src[0] = value;
        inst.mem = mem;
        inst
    }

    /// Returns how the bytes of a register of `bytes` bytes are moved: the ops of loads and stores, and the width.
    pub(crate) fn moves(bytes: u32) -> (Op, Op, Width) {
        match bytes {
            ..=4 => (Op::VmovdFromGpr, Op::VmovdToGpr, Width::L128),
            8 => (Op::Vmovq, Op::VmovqStore, Width::L128),
            16 => (Op::Vmovdqu64, Op::Vmovdqu64Store, Width::L128),
            32 => (Op::Vmovdqu64, Op::Vmovdqu64Store, Width::L256),
            _ => (Op::Vmovdqu64, Op::Vmovdqu64Store, Width::L512),
        }
    }

    /// Stores a value at an address, in the layout of [`layout`].
    pub(crate) fn store_value(&mut self, val: &Val, base: Base, offset: u32) {
        let ty = val.ty;
        let regs = self.regs_of(val);
        let at = |disp: u32| Mem::at(base, (offset + disp) as i32);
        match (ty.kind(), ty.lanes()) {
            (Kind::Pred, lanes) if lanes > 1 && !self.has_masks() => {
                self.effect(Self::general_store(64, regs[0], at(0)))
            }
            (Kind::Pred, lanes) if lanes > 1 => {
                let mut inst = Inst::of(Action::Op(Op::KmovStore), Width::W64);
                inst.src[0] = regs[0];
                inst.mem = at(0);
                self.effect(inst);
            }
            (Kind::B128, 1) => {
                for (number, &reg) in (0..).zip(&regs) {
                    self.effect(Self::general_store(64, reg, at(8 * number)));
                }
            }
            (kind, 1) if !ty.is_float() => {
                self.effect(Self::general_store(kind.bits(), regs[0], at(0)))
            }
            _ => {
                let bytes = bytes_of(ty) / regs.len() as u32;
                for (number, &reg) in (0..).zip(&regs) {
                    if bytes < 4 {
                        let low = self.gpr_of_vector(reg, 8 * bytes);
                        self.effect(Self::general_store(8 * bytes, low, at(0)));
                    } else {
                        let (_, op, width) = Self::moves(bytes);
                        self.store_vector(op, width, reg, at(bytes * number));
                    }
                }
            }
        }
    }

    /// Loads a value from an address, in the layout of [`layout`]. The memory must be accessible.
    pub(crate) fn load_value(&mut self, ty: Type, base: Base, offset: u32) -> Regs {
        let at = |disp: u32| Mem::at(base, (offset + disp) as i32);
        match (ty.kind(), ty.lanes()) {
            (Kind::Pred, lanes) if lanes > 1 && !self.has_masks() => {
                one(self.load_general(64, at(0)))
            }
            (Kind::Pred, lanes) if lanes > 1 => {
                let mut inst = Inst::of(Action::Op(Op::Kmov), Width::W64);
                inst.mem = at(0);
                one(self.result(RegClass::Vector, inst))
            }
            (Kind::B128, 1) => (0..2).map(|n| self.load_general(64, at(8 * n))).collect(),
            (kind, 1) if !ty.is_float() => one(self.load_general(kind.bits(), at(0))),
            _ => {
                let count = self.register_count(ty);
                let bytes = bytes_of(ty) / count;
                (0..count)
                    .map(|number| {
                        if bytes < 4 {
                            let low = self.load_general(8 * bytes, at(0));
                            return self.vector_of_gpr(low, 32);
                        }
                        let (op, _, width) = Self::moves(bytes);
                        self.load_vector(op, width, at(bytes * number))
                    })
                    .collect()
            }
        }
    }

    /// Stores a value in the scratch area.
    pub(crate) fn spill_value(&mut self, val: &Val, offset: u32) {
        self.store_value(val, Base::Scratch, offset);
        self.reserve(offset + bytes_of(val.ty));
    }

    /// Loads a value from the scratch area.
    pub(crate) fn reload_value(&mut self, ty: Type, offset: u32) -> Regs {
        // Loads of the scratch area must not be removed or moved behind later stores, which their order ensures.
        self.load_value(ty, Base::Scratch, offset)
    }

    /// Computes a matrix product by calling a function with the registers in memory.
    pub(crate) fn product(&mut self) {
        let Data::Lane(desc) = self.vir.insts[self.inst].data else {
            return;
        };
        let (vals, types) = (self.vals(), self.result_types());
        let outs = self.called(&desc, 32, &vals, &types);
        for (number, regs) in outs.into_iter().enumerate() {
            self.define(number, regs);
        }
    }

    /// Computes an operation in `lanes` lanes by calling its reference function.
    pub(crate) fn called(
        &mut self,
        desc: &Desc,
        lanes: u32,
        args: &[Val],
        results: &[Type],
    ) -> SmallVec<[Regs; 2]> {
        let types: Vec<Type> = args
            .iter()
            .map(|arg| arg.ty)
            .chain(results.iter().copied())
            .collect();
        let (offsets, size) = layout(&types);
        self.reserve(size);
        for (arg, &offset) in args.iter().zip(&offsets) {
            self.spill_value(arg, offset);
        }
        let placed: Vec<(u32, Type)> = offsets.iter().copied().zip(types).collect();
        let (operands, outputs) = placed.split_at(args.len());
        self.operations.push(Operation {
            desc: *desc,
            lanes,
            operands: operands.into(),
            results: outputs.into(),
            plan: ProductPlan::default(),
        });
        let number = self.operations.len() as u32 - 1;
        let operation = self.load_general(64, Mem::at(Base::Symbol(Symbol::Operation(number)), 0));
        let block = self.address_of(Mem::at(Base::Scratch, 0));
        self.call_symbol(Symbol::Apply, &[(operation, 7), (block, 6)], &[]);
        outputs
            .iter()
            .map(|&(offset, ty)| self.reload_value(ty, offset))
            .collect()
    }
}
