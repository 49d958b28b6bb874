//! Emits machine code from machine functions and their register allocation.

use regalloc2::{Allocation, Edit, InstOrEdit, Output, RegClass};
use smallvec::SmallVec;

use crate::Error;
use crate::alloc::Input;
use crate::asm::{
    self, Asm, Cond, Constant, Gpr, Label as AsmLabel, Mask, Operand, Rounding, Width, Zmm,
};
use crate::code::{Cause, MemoryOperand, OTHER_BASES, Place, Symbol, SymbolSlot};
use crate::frame::Frame;
use crate::mach::{Action, Base, Inst, Label, Mem, NONE};
use crate::pool::Pool;
use margay_vir::function::Function;

/// The alignment of the first instruction of a loop.
const LOOP_ALIGNMENT: u32 = 32;

/// What emission returns.
pub(crate) struct Emitted {
    pub(crate) bytes: Vec<u8>,
    pub(crate) instructions: u32,
    pub(crate) alignment: u32,
    pub(crate) symbols: Vec<SymbolSlot>,
    pub(crate) places: Vec<Place>,
    pub(crate) frame: u32,
}

struct Emitter<'a> {
    asm: Asm,
    input: &'a Input<'a>,
    output: &'a Output,
    vir: &'a Function,
    frame: Frame,
    constants: Vec<Constant>,
    symbols: Vec<Symbol>,
    labels: Vec<AsmLabel>,
    /// Where each block leads if it only jumps; itself otherwise.
    forwards: Vec<usize>,
    numbers: Vec<usize>,
    /// The width of moves of vector registers.
    vector: Width,
    places: Vec<Place>,
    traps: Vec<(AsmLabel, u32)>,
}

/// Emits code.
pub(crate) fn run(
    vir: &Function,
    input: &Input<'_>,
    output: &Output,
    pool: &Pool,
    vector: Width,
    features: asm::Features,
) -> Result<Emitted, Error> {
    let mut asm = Asm::new(features);
    let constants: Result<Vec<Constant>, asm::Error> = pool
        .constants
        .iter()
        .map(|bytes| asm.constant(bytes))
        .collect();
    let constants = constants?;
    let labels = input.mach.order.iter().map(|_| asm.label()).collect();
    let mut numbers = vec![usize::MAX; input.mach.blocks.len()];
    for (number, label) in input.mach.order.iter().enumerate() {
        numbers[label.0 as usize] = number;
    }
    let mut emitter = Emitter {
        asm,
        input,
        output,
        vir,
        frame: Frame::new(vir, input, output)?,
        constants,
        symbols: Vec::new(),
        labels,
        forwards: Vec::new(),
        numbers,
        vector,
        places: Vec::new(),
        traps: Vec::new(),
    };
    emitter.forwards = emitter.forwards();
    emitter.frame.prologue(&mut emitter.asm)?;
    emitter.blocks()?;
    emitter.trap_stubs()?;
    let Emitter {
        asm,
        symbols,
        mut places,
        frame,
        ..
    } = emitter;
    let assembled = asm.finish()?;
    places.sort_by_key(|place| place.offset);
    let slots = assembled
        .symbols
        .iter()
        .map(|&(offset, symbol)| SymbolSlot {
            offset,
            symbol: symbols[symbol.0 as usize],
        });
    Ok(Emitted {
        symbols: slots.collect(),
        bytes: assembled.bytes,
        instructions: assembled.code_size,
        alignment: assembled.alignment,
        places,
        frame: frame.size,
    })
}

impl Emitter<'_> {
    fn emit(&mut self, op: asm::Op, width: Width, operands: &[Operand]) -> Result<(), Error> {
        Ok(self.asm.emit(&asm::Inst::new(op, width, operands))?)
    }

    /// Returns the block to which each block leads if it contains nothing but a jump.
    fn forwards(&self) -> Vec<usize> {
        let count = self.labels.len();
        let mut forwards: Vec<usize> = (0..count).collect();
        for number in (0..count).rev() {
            let block = self.input.number(self.input.mach.order[number]);
            let mut contents = self.output.block_insts_and_edits(self.input, block);
            let is_jump = |item: InstOrEdit<'_>| match item {
                InstOrEdit::Inst(inst) => {
                    matches!(self.input.insts[inst.index()].action, Action::Jump)
                }
                InstOrEdit::Edit(Edit::Move { from, to }) => from == to,
            };
            if number != 0 && contents.all(is_jump) {
                let target = self.successor(number, 0);
                // A loop without instructions leads to itself.
                forwards[number] = if target > number {
                    forwards[target]
                } else {
                    target
                };
            }
        }
        for number in 0..count {
            let target = forwards[forwards[number]];
            if forwards[target] == target {
                forwards[number] = target;
            }
        }
        forwards
    }

    /// Returns the blocks to which a later block or the block itself jumps.
    fn loop_heads(&self) -> Vec<bool> {
        let mut heads = vec![false; self.labels.len()];
        for number in (0..heads.len()).filter(|&number| self.forwards[number] == number) {
            let label = self.input.mach.order[number];
            let count = self.input.mach.blocks[label.0 as usize].succs.len();
            for index in 0..count {
                let target = self.forwards[self.successor(number, index)];
                heads[target] |= target <= number;
            }
        }
        heads
    }

    fn successor(&self, number: usize, index: usize) -> usize {
        let label: Label = self.input.mach.order[number];
        let (target, _) = &self.input.mach.blocks[label.0 as usize].succs[index];
        self.numbers[target.0 as usize]
    }

    fn blocks(&mut self) -> Result<(), Error> {
        for (number, is_head) in self.loop_heads().into_iter().enumerate() {
            if is_head {
                self.asm.align(LOOP_ALIGNMENT)?;
            }
            self.asm.bind(self.labels[number])?;
            if self.forwards[number] != number && number != 0 {
                // Jumps lead behind this block, and the block before does not fall into it.
                continue;
            }
            let (input, output) = (self.input, self.output);
            let block = input.number(input.mach.order[number]);
            for item in output.block_insts_and_edits(input, block) {
                match item {
                    InstOrEdit::Edit(Edit::Move { from, to }) => self.move_between(*from, *to)?,
                    InstOrEdit::Inst(inst) => {
                        let allocs = output.inst_allocs(inst);
                        self.inst(number, input.insts[inst.index()], allocs)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the block that follows in the code.
    fn next(&self, number: usize) -> Option<usize> {
        (number + 1..self.labels.len()).find(|&next| self.forwards[next] == next)
    }

    fn jump(&mut self, number: usize, to: usize) -> Result<(), Error> {
        let to = self.forwards[to];
        if self.next(number) == Some(to) {
            return Ok(());
        }
        self.emit(asm::Op::Jmp, Width::W64, &[self.labels[to].into()])
    }

    fn branch(&mut self, number: usize, cond: Cond) -> Result<(), Error> {
        let then = self.forwards[self.successor(number, 0)];
        let other = self.forwards[self.successor(number, 1)];
        if then == other {
            return self.jump(number, then);
        }
        let next = self.next(number);
        if next == Some(then) {
            return self.emit(
                asm::Op::Jcc,
                Width::W64,
                &[cond.negated().into(), self.labels[other].into()],
            );
        }
        self.emit(
            asm::Op::Jcc,
            Width::W64,
            &[cond.into(), self.labels[then].into()],
        )?;
        self.jump(number, other)
    }

    fn table(&mut self, number: usize, index: Gpr, table: Gpr) -> Result<(), Error> {
        use asm::Op;
        let label = self.input.mach.order[number];
        let count = self.input.mach.blocks[label.0 as usize].succs.len();
        let targets: Vec<AsmLabel> = (0..count)
            .map(|n| self.labels[self.forwards[self.successor(number, n)]])
            .collect();
        let start = self.asm.jump_table(&targets);
        self.emit(
            Op::Lea,
            Width::W64,
            &[table.into(), asm::Mem::from(start).into()],
        )?;
        let entry = asm::Mem::base(table).index(index, asm::Scale::X4);
        self.emit(Op::Movsxd, Width::W64, &[index.into(), entry.into()])?;
        self.emit(Op::Add, Width::W64, &[table.into(), index.into()])?;
        self.emit(Op::Jmp, Width::W64, &[table.into()])
    }

    fn spill_slot(&self, alloc: Allocation) -> Option<asm::Mem> {
        let slot = alloc.as_stack()?;
        let offset = self.frame.spills as i32 + 8 * slot.index() as i32;
        Some(asm::Mem::base(Gpr::RSP).disp(offset))
    }

    fn move_between(&mut self, from: Allocation, to: Allocation) -> Result<(), Error> {
        use asm::Op;
        if from == to {
            return Ok(());
        }
        let Some(reg) = from.as_reg().or(to.as_reg()) else {
            return Err(Error::Allocation("a move between stack slots".into()));
        };
        let side = |s: &Self, alloc: Allocation| -> Operand {
            match alloc.as_reg() {
                Some(reg) => register(reg),
                None => s.spill_slot(alloc).map_or(Operand::None, Operand::from),
            }
        };
        let operands = [side(self, to), side(self, from)];
        let is_store = to.as_reg().is_none();
        let (op, width) = match (reg.class(), is_store) {
            (RegClass::Int, _) => (Op::Mov, Width::W64),
            (RegClass::Float, true) => (Op::VmovapsStore, self.vector),
            (RegClass::Float, false) => (Op::Vmovaps, self.vector),
            (RegClass::Vector, true) => (Op::KmovStore, Width::W64),
            (RegClass::Vector, false) => (Op::Kmov, Width::W64),
        };
        self.emit(op, width, &operands)
    }

    fn symbol(&mut self, symbol: Symbol) -> asm::Symbol {
        let known = self.symbols.iter().position(|&other| other == symbol);
        let number = known.unwrap_or_else(|| {
            self.symbols.push(symbol);
            self.symbols.len() - 1
        });
        asm::Symbol(number as u32)
    }

    fn trap_stubs(&mut self) -> Result<(), Error> {
        for (label, place) in std::mem::take(&mut self.traps) {
            self.asm.bind(label)?;
            self.record(place, MemoryOperand::default(), &[]);
            self.emit(asm::Op::Ud2, Width::W64, &[])?;
        }
        Ok(())
    }

    /// Records that the next machine instruction may fault. `held` are the general registers that it does not use: with
    /// the lane number, or with other bases.
    fn record(&mut self, place: u32, found: MemoryOperand, held: &[u8]) {
        let Some(index) = place.checked_sub(1) else {
            return;
        };
        let pending = self.input.mach.places[index as usize];
        let mut cause = pending.cause;
        match &mut cause {
            Cause::Access { operand, .. } => *operand = found,
            Cause::Loop { operand, lane, .. } => {
                *operand = found;
                *lane = held.first().copied().unwrap_or(0);
            }
            Cause::Rows {
                operand, others, ..
            } => {
                *operand = found;
                others.iter_mut().zip(held).for_each(|(to, &reg)| *to = reg);
            }
            Cause::Trap(_) => {}
        }
        self.places.push(Place {
            offset: self.asm.position(),
            inst: pending.inst,
            place: self.vir.places[pending.inst],
            cause,
        });
    }

    fn inst(&mut self, block: usize, inst: &Inst, allocs: &[Allocation]) -> Result<(), Error> {
        use asm::Op;
        let gpr = |index: usize| {
            allocs
                .get(index)
                .and_then(|a| a.as_reg())
                .map_or(Gpr(0), |r| Gpr(r.hw_enc() as u8))
        };
        match inst.action {
            Action::Op(op) => self.plain(op, inst, allocs),
            Action::Zero => {
                let reg = register_of(allocs, 0)?;
                self.emit(Op::Vpxord, Width::L128, &[reg; 3])
            }
            Action::LoadConst => {
                let imm = inst.imm.unwrap_or(0);
                let width = if u32::try_from(imm).is_ok() {
                    Width::W32
                } else {
                    Width::W64
                };
                self.emit(Op::Mov, width, &[gpr(0).into(), imm.into()])
            }
            Action::Set(cond) => self.emit(Op::Setcc, Width::W8, &[cond.into(), gpr(0).into()]),
            Action::Move(cond) => self.emit(
                Op::Cmovcc,
                inst.len,
                &[cond.into(), gpr(0).into(), gpr(2).into()],
            ),
            Action::Wide(signed) => {
                let op = if signed { Op::ImulWide } else { Op::Mul };
                self.emit(op, inst.len, &[gpr(3).into()])
            }
            Action::Divide(signed) => {
                if signed {
                    self.emit(Op::Cdq, inst.len, &[])?;
                    return self.emit(Op::Idiv, inst.len, &[gpr(3).into()]);
                }
                self.emit(Op::Xor, Width::W32, &[Gpr::RDX.into(), Gpr::RDX.into()])?;
                self.emit(Op::Div, inst.len, &[gpr(3).into()])
            }
            Action::Jump => {
                let target = self.successor(block, 0);
                self.jump(block, target)
            }
            Action::Branch(cond) => self.branch(block, cond),
            Action::Table => self.table(block, gpr(1), gpr(0)),
            Action::TrapIf(cond) => {
                let label = self.asm.label();
                self.traps.push((label, inst.place));
                self.emit(Op::Jcc, Width::W64, &[cond.into(), label.into()])
            }
            Action::Trap => {
                self.record(inst.place, MemoryOperand::default(), &[]);
                self.emit(Op::Ud2, Width::W64, &[])
            }
            Action::Call(call) => {
                let symbol = self.input.mach.calls[call as usize].symbol;
                let symbol = self.symbol(symbol);
                self.emit(Op::Vzeroupper, Width::L128, &[])?;
                self.emit(Op::Call, Width::W64, &[asm::Mem::from(symbol).into()])
            }
            Action::Return => self.frame.epilogue(&mut self.asm),
            Action::Entry(_) | Action::Removed => Ok(()),
        }
    }

    fn plain(&mut self, op: asm::Op, inst: &Inst, allocs: &[Allocation]) -> Result<(), Error> {
        let mut next = 0;
        let mut take = |present: bool| -> Result<Option<Operand>, Error> {
            if !present {
                return Ok(None);
            }
            next += 1;
            register_of(allocs, next - 1).map(Some)
        };
        let dst = take(inst.dst != NONE)?;
        take(inst.second != NONE)?;
        take(inst.tied != NONE)?;
        let sources = [take(inst.src[0] != NONE)?, take(inst.src[1] != NONE)?];
        let selector = take(inst.selector != NONE)?;
        let mask = take(inst.mask != NONE)?;
        let base = take(matches!(inst.mem.base, Base::Reg(_)))?;
        let index = take(inst.mem.index != NONE)?;
        let mut held: SmallVec<[u8; OTHER_BASES]> = SmallVec::new();
        for reg in [&inst.lane].into_iter().chain(&inst.bases) {
            if let Some(Operand::Gpr(reg)) = take(*reg != NONE)? {
                held.push(reg.0);
            }
        }
        let mem = self.memory(&inst.mem, base, index);
        let mut operands: SmallVec<[Operand; 6]> = SmallVec::new();
        // `cmpxchg` implies its result, and instructions that exchange a register with memory state the memory first.
        let exchanges = matches!(op, asm::Op::Xchg | asm::Op::Xadd);
        if exchanges {
            operands.extend(mem.map(Operand::from));
        }
        let dst = dst.filter(|_| op != asm::Op::Cmpxchg);
        operands.extend(dst);
        let is_store = mem.is_some()
            && dst.is_none()
            && op
                .slots(inst.len)
                .first()
                .is_some_and(|slot| slot.allows_memory());
        if is_store {
            operands.extend(mem.map(Operand::from));
        }
        operands.extend(sources.into_iter().flatten());
        if !is_store && !exchanges {
            operands.extend(mem.map(Operand::from));
        }
        operands.extend(selector);
        operands.extend(inst.imm.map(Operand::from));
        let mut encoded = asm::Inst::new(op, inst.len, &operands);
        if let Some(Operand::Mask(mask)) = mask {
            encoded.mask = mask;
            encoded.zeroing = inst.zeroing;
        }
        encoded.lock = inst.lock;
        if inst.rounding != Rounding::Mxcsr {
            encoded.rounding = inst.rounding;
        }
        if inst.place != 0 {
            self.record(inst.place, found(mem.as_ref(), mask), &held);
        }
        Ok(self.asm.emit(&encoded)?)
    }

    fn memory(
        &mut self,
        mem: &Mem,
        base: Option<Operand>,
        index: Option<Operand>,
    ) -> Option<asm::Mem> {
        let frame = |offset: u32| asm::Mem::base(Gpr::RSP).disp(offset as i32);
        let mut found = match mem.base {
            Base::None => return None,
            Base::Reg(_) => match base {
                Some(Operand::Gpr(reg)) => asm::Mem::base(reg),
                _ => return None,
            },
            Base::Scratch => frame(self.frame.scratch),
            Base::Slot(number) => frame(self.frame.slots[number as usize]),
            Base::Outgoing => frame(0),
            Base::Pool(number) => asm::Mem::from(self.constants[number as usize]),
            Base::Symbol(symbol) => asm::Mem::from(self.symbol(symbol)),
        };
        found.disp += mem.disp;
        let scale = asm::Scale::new(mem.scale.into()).unwrap_or(asm::Scale::X1);
        found = match index {
            Some(Operand::Gpr(index)) => found.index(index, scale),
            Some(Operand::Zmm(index)) => found.lanes(index, scale),
            _ => found,
        };
        Some(if mem.broadcast {
            found.broadcast()
        } else {
            found
        })
    }
}

/// Returns the register of an allocation.
fn register(reg: regalloc2::PReg) -> Operand {
    let number = reg.hw_enc() as u8;
    match reg.class() {
        RegClass::Int => Gpr(number).into(),
        RegClass::Float => Zmm(number).into(),
        RegClass::Vector => Mask(number).into(),
    }
}

fn register_of(allocs: &[Allocation], index: usize) -> Result<Operand, Error> {
    let reg = allocs.get(index).and_then(|alloc| alloc.as_reg());
    reg.map(register)
        .ok_or_else(|| Error::Allocation("an operand is not in a register".into()))
}

/// Returns the memory operand of a place.
fn found(mem: Option<&asm::Mem>, mask: Option<Operand>) -> MemoryOperand {
    let Some(mem) = mem else {
        return MemoryOperand::default();
    };
    let (index, is_vector_index, scale) = match mem.index {
        asm::Index::None => (None, false, 1),
        asm::Index::Gpr(reg, scale) => (Some(reg.0), false, 1 << scale as u8),
        asm::Index::Zmm(reg, scale) => (Some(reg.0), true, 1 << scale as u8),
    };
    MemoryOperand {
        base: match mem.base {
            asm::Base::Gpr(reg) => Some(reg.0),
            _ => None,
        },
        index,
        is_vector_index,
        scale,
        displacement: mem.disp,
        mask: match mask {
            Some(Operand::Mask(mask)) => Some(mask.0),
            _ => None,
        },
    }
}
