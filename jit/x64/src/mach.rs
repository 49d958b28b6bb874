//! Machine functions before register allocation.
//!
//! A machine instruction is an op of the assembler's table, or a pseudo instruction, with virtual registers. Each virtual
//! register has one definition. An instruction that overwrites one of its sources has a *tied* source: register
//! allocation puts it into the register of the result.

use regalloc2::{RegClass, VReg};
use smallvec::SmallVec;

use crate::asm::{Cond, Op, Rounding, Width};
use crate::code::{Cause, GroupAccess, OTHER_BASES, Symbol};
use margay_ir::entity::Inst as VirInst;

/// No register.
pub(crate) const NONE: VReg = VReg::invalid();

/// The number of a block of a machine function, before blocks have an order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Label(pub(crate) u32);

/// What the address of a memory operand is relative to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Base {
    /// The instruction has no memory operand.
    None,
    /// A general register.
    Reg(VReg),
    /// The scratch area of the frame.
    Scratch,
    /// A slot of the function.
    Slot(u32),
    /// The area for arguments of calls, at the stack pointer.
    Outgoing,
    /// The constant with this number in the pool.
    Pool(u32),
    /// The slot of a symbol.
    Symbol(Symbol),
}

/// A memory operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mem {
    pub(crate) base: Base,
    /// An index in a general register or, for gathers and scatters, in a vector register.
    pub(crate) index: VReg,
    pub(crate) scale: u8,
    pub(crate) disp: i32,
    /// Whether one element is loaded for all lanes.
    pub(crate) broadcast: bool,
}

impl Mem {
    pub(crate) const NONE: Mem = Mem {
        base: Base::None,
        index: NONE,
        scale: 1,
        disp: 0,
        broadcast: false,
    };

    pub(crate) fn at(base: Base, disp: i32) -> Mem {
        Mem {
            base,
            disp,
            ..Mem::NONE
        }
    }
}

/// What a machine instruction does.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// An instruction of the assembler's table.
    Op(Op),
    /// Sets a vector register to zero.
    Zero,
    /// Loads a 64-bit constant into a general register; the immediate operand.
    LoadConst,
    /// Sets a general register to 0 or 1 by the condition.
    Set(Cond),
    /// `cmov`: takes the source instead of the tied source if the condition holds.
    Move(Cond),
    /// Multiplies `rax`, the tied source, by the source, signed or not; the results are `rdx` and, as the second, `rax`.
    Wide(bool),
    /// Divides `rax`, the tied source, by the source, signed or not; the results are `rax` and `rdx`.
    Divide(bool),
    /// Jumps to the block's only successor.
    Jump,
    /// Jumps to the first successor if the condition holds, and to the second otherwise.
    Branch(Cond),
    /// Jumps to the successor whose number the first source contains, which is below their number. The second source is
    /// a temporary.
    Table,
    /// Traps if the condition holds.
    TrapIf(Cond),
    /// Traps.
    Trap,
    /// Calls the symbol; the number is that of a [`Call`].
    Call(u32),
    /// Defines the registers of the function's arguments, which are the results of a [`Call`].
    Entry(u32),
    /// Returns.
    Return,
    /// Nothing: the instruction has been removed.
    Removed,
}

/// The registers of a call: the general register or vector register that contains each operand and result.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) symbol: Symbol,
    pub(crate) args: SmallVec<[(VReg, u8); 6]>,
    pub(crate) results: SmallVec<[(VReg, u8); 2]>,
}

/// A machine instruction.
#[derive(Clone, Debug)]
pub(crate) struct Inst {
    pub(crate) action: Action,
    pub(crate) len: Width,
    /// The result.
    pub(crate) dst: VReg,
    /// The source that the result overwrites.
    pub(crate) tied: VReg,
    /// The other sources, in the order of the assembler's operands.
    pub(crate) src: [VReg; 2],
    /// The source behind the other operands: the mask of an AVX2 blend.
    pub(crate) selector: VReg,
    /// The mask register.
    pub(crate) mask: VReg,
    /// A second result: the mask after a gather or scatter, or the other half of a product or quotient.
    pub(crate) second: VReg,
    /// Whether lanes outside the mask are zero; otherwise they are those of the tied source.
    pub(crate) zeroing: bool,
    pub(crate) rounding: Rounding,
    pub(crate) mem: Mem,
    pub(crate) imm: Option<i64>,
    /// Whether the instruction has an effect besides its result.
    pub(crate) has_effect: bool,
    /// Whether the instruction has a `lock` prefix.
    pub(crate) lock: bool,
    /// The number of the lane that accesses memory, if a loop accesses the lanes; the instruction does not use it.
    pub(crate) lane: VReg,
    /// The other bases of a group of rows ([`Cause::Rows`]); the instruction does not use them.
    pub(crate) bases: [VReg; OTHER_BASES],
    /// The number of the place plus one; 0 if the instruction cannot fault.
    pub(crate) place: u32,
}

impl Inst {
    pub(crate) fn of(action: Action, len: Width) -> Inst {
        Inst {
            action,
            len,
            dst: NONE,
            tied: NONE,
            src: [NONE; 2],
            selector: NONE,
            mask: NONE,
            second: NONE,
            zeroing: false,
            rounding: Rounding::Mxcsr,
            mem: Mem::NONE,
            imm: None,
            has_effect: false,
            lock: false,
            lane: NONE,
            bases: [NONE; OTHER_BASES],
            place: 0,
        }
    }
}

/// A place before the offset of its machine instruction is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingPlace {
    pub(crate) inst: VirInst,
    pub(crate) cause: Cause,
}

/// A block: its instructions, parameters and successors with the arguments that they receive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    pub(crate) insts: Vec<Inst>,
    pub(crate) params: Vec<VReg>,
    pub(crate) succs: SmallVec<[(Label, SmallVec<[VReg; 8]>); 2]>,
}

/// A machine function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Function {
    /// The blocks, by label.
    pub(crate) blocks: Vec<Block>,
    /// The blocks that are in use, in the order of the code.
    pub(crate) order: Vec<Label>,
    /// The same blocks in an order in which the blocks of each loop are contiguous, with the header first. The register
    /// allocator estimates from its order of the blocks how often each runs.
    pub(crate) nested: Vec<Label>,
    pub(crate) vregs: u32,
    pub(crate) calls: Vec<Call>,
    pub(crate) places: Vec<PendingPlace>,
    /// The accesses of each group of rows.
    pub(crate) groups: Vec<Vec<GroupAccess>>,
    /// The size of the scratch area.
    pub(crate) scratch: u32,
    /// The size of the area for arguments of calls.
    pub(crate) outgoing: u32,
}

impl Function {
    pub(crate) fn vreg(&mut self, class: RegClass) -> VReg {
        self.vregs += 1;
        VReg::new(self.vregs as usize - 1, class)
    }

    pub(crate) fn label(&mut self) -> Label {
        self.blocks.push(Block::default());
        Label(self.blocks.len() as u32 - 1)
    }

    pub(crate) fn block(&mut self, label: Label) -> &mut Block {
        &mut self.blocks[label.0 as usize]
    }

    /// Returns the width of the widest vector registers in use, at least 256 bits.
    pub(crate) fn widest(&self) -> Width {
        let blocks = self
            .order
            .iter()
            .map(|label| &self.blocks[label.0 as usize]);
        let widths = blocks.flat_map(|block| block.insts.iter().map(|inst| inst.len));
        widths.max().unwrap_or(Width::L256).max(Width::L256)
    }

    /// Removes instructions without effects whose results are not used.
    pub(crate) fn remove_dead(&mut self) {
        let mut uses = vec![0u32; self.vregs as usize];
        for &label in &self.order {
            let block = &self.blocks[label.0 as usize];
            let passed = block.succs.iter().flat_map(|(_, args)| args);
            passed.for_each(|reg| uses[reg.vreg()] += 1);
            for inst in &block.insts {
                inst.each_use(&self.calls, |reg| uses[reg.vreg()] += 1);
            }
        }
        for &label in self.order.iter().rev() {
            let block = &mut self.blocks[label.0 as usize];
            // Flags are used in the block that sets them.
            let mut needs_flags = false;
            for inst in block.insts.iter_mut().rev() {
                let is_unused = |reg: VReg| reg == NONE || uses[reg.vreg()] == 0;
                let sets_flags = inst.sets_flags();
                let dead = match sets_flags {
                    true => !needs_flags,
                    false => !inst.has_effect && is_unused(inst.dst) && is_unused(inst.second),
                };
                if !dead {
                    needs_flags = inst.uses_flags() || needs_flags && !sets_flags;
                }
                if dead {
                    inst.each_use(&self.calls, |reg| uses[reg.vreg()] -= 1);
                    inst.action = Action::Removed;
                }
            }
            block
                .insts
                .retain(|inst| !matches!(inst.action, Action::Removed));
        }
    }
}

impl Inst {
    /// Returns whether the flags are the instruction's only result.
    pub(crate) fn sets_flags(&self) -> bool {
        let is_op = matches!(self.action, Action::Op(_));
        is_op && self.dst == NONE && self.mem.base == Base::None && !self.has_effect
    }

    fn uses_flags(&self) -> bool {
        matches!(
            self.action,
            Action::Set(_) | Action::Move(_) | Action::Branch(_) | Action::TrapIf(_)
        )
    }

    /// Calls `f` with each register that the instruction reads.
    pub(crate) fn each_use(&self, calls: &[Call], mut f: impl FnMut(VReg)) {
        let base = match self.mem.base {
            Base::Reg(base) => base,
            _ => NONE,
        };
        let regs = [
            self.tied,
            self.src[0],
            self.src[1],
            self.selector,
            self.mask,
            base,
            self.mem.index,
            self.lane,
        ];
        let regs = regs.into_iter().chain(self.bases);
        regs.filter(|&reg| reg != NONE).for_each(&mut f);
        if let Action::Call(call) = self.action {
            calls[call as usize]
                .args
                .iter()
                .for_each(|&(reg, _)| f(reg));
        }
    }
}
