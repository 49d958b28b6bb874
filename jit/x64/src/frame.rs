//! The frame of a function: positions in it, the prologue and the epilogue.
//!
//! From the stack pointer upwards: arguments of calls, scratch area, slots, spilled registers. The stack pointer is
//! aligned to 64 bytes, or as a slot requires; `rbp` leads to the saved `rbp`, below which are the other saved registers.

use margay_vir::function::Function;
use regalloc2::{Allocation, Edit, Output, RegClass};
use smallvec::SmallVec;

use crate::Error;
use crate::alloc::{Input, PRESERVED};
use crate::asm::{self, Asm, Cond, Gpr, Operand, Width};
use crate::mach::Action;

/// The size of the pages that the prologue touches one by one.
const PAGE: u32 = 4096;
/// The largest number of pages that the prologue touches without a loop.
const UNROLLED_PAGES: u32 = 8;
/// The largest size of a frame.
const LARGEST: u64 = 1 << 30;
/// The largest alignment of a slot.
const LARGEST_ALIGNMENT: u32 = 1 << 16;

/// Positions in the frame.
pub(crate) struct Frame {
    pub(crate) scratch: u32,
    pub(crate) slots: Vec<u32>,
    pub(crate) spills: u32,
    pub(crate) size: u32,
    /// The alignment of the stack pointer.
    align: u32,
    saved: SmallVec<[u8; 5]>,
    has_calls: bool,
}

fn emit(asm: &mut Asm, op: asm::Op, width: Width, operands: &[Operand]) -> Result<(), Error> {
    Ok(asm.emit(&asm::Inst::new(op, width, operands))?)
}

impl Frame {
    /// Returns the frame of a function after register allocation.
    pub(crate) fn new(vir: &Function, input: &Input<'_>, output: &Output) -> Result<Frame, Error> {
        let mach = input.mach;
        let scratch = mach.outgoing.next_multiple_of(64);
        let mut end = u64::from(scratch) + u64::from(mach.scratch);
        let mut align = 64;
        let mut slots = Vec::with_capacity(vir.slots.len());
        for slot in vir.slots.values() {
            let start = end.next_multiple_of(slot.align.max(1).into());
            end = start + u64::from(slot.size);
            align = align.max(slot.align);
            slots.push(start as u32);
        }
        let spills = end.next_multiple_of(64);
        let size = (spills + 8 * output.num_spillslots as u64).next_multiple_of(align.into());
        if size > LARGEST || align > LARGEST_ALIGNMENT {
            return Err(Error::Unsupported("frame"));
        }
        let (spills, size) = (spills as u32, size as u32);
        let mut used = [false; 16];
        let regs = output.allocs.iter().copied();
        let moved = output
            .edits
            .iter()
            .flat_map(|(_, Edit::Move { from, to })| [*from, *to]);
        for reg in regs.chain(moved).filter_map(Allocation::as_reg) {
            if reg.class() == RegClass::Int {
                used[reg.hw_enc() & 15] = true;
            }
        }
        Ok(Frame {
            scratch,
            align,
            slots,
            spills,
            size,
            saved: PRESERVED
                .into_iter()
                .filter(|&reg| used[reg as usize])
                .collect(),
            has_calls: input
                .insts
                .iter()
                .any(|inst| matches!(inst.action, Action::Call(_))),
        })
    }

    /// Emits the start of the function.
    pub(crate) fn prologue(&self, asm: &mut Asm) -> Result<(), Error> {
        use asm::Op;
        let saved = self.saved.clone();
        emit(asm, Op::Push, Width::W64, &[Gpr::RBP.into()])?;
        emit(
            asm,
            Op::Mov,
            Width::W64,
            &[Gpr::RBP.into(), Gpr::RSP.into()],
        )?;
        for &reg in &saved {
            emit(asm, Op::Push, Width::W64, &[Gpr(reg).into()])?;
        }
        if !self.has_frame() {
            return Ok(());
        }
        let pages = self.size / PAGE;
        let touch = [
            asm::Inst::new(
                Op::Sub,
                Width::W64,
                &[Gpr::RSP.into(), i64::from(PAGE).into()],
            ),
            asm::Inst::new(
                Op::Mov,
                Width::W64,
                &[asm::Mem::base(Gpr::RSP).into(), Gpr::RAX.into()],
            ),
        ];
        if pages > UNROLLED_PAGES {
            emit(
                asm,
                Op::Mov,
                Width::W32,
                &[Gpr::RAX.into(), i64::from(pages).into()],
            )?;
            let again = asm.label();
            asm.bind(again)?;
            for inst in &touch {
                asm.emit(inst)?;
            }
            emit(asm, Op::Dec, Width::W32, &[Gpr::RAX.into()])?;
            emit(asm, Op::Jcc, Width::W64, &[Cond::Ne.into(), again.into()])?;
        } else {
            for inst in touch.iter().cycle().take(2 * pages as usize) {
                asm.emit(inst)?;
            }
        }
        let rest = i64::from(self.size % PAGE);
        if rest != 0 {
            emit(asm, Op::Sub, Width::W64, &[Gpr::RSP.into(), rest.into()])?;
        }
        emit(
            asm,
            Op::And,
            Width::W64,
            &[Gpr::RSP.into(), (-i64::from(self.align)).into()],
        )
    }

    fn has_frame(&self) -> bool {
        self.size != 0 || self.has_calls
    }

    /// Emits the end of the function.
    pub(crate) fn epilogue(&self, asm: &mut Asm) -> Result<(), Error> {
        use asm::Op;
        let saved = self.saved.clone();
        emit(asm, Op::Vzeroupper, Width::L128, &[])?;
        if self.has_frame() {
            let below = -8 * saved.len() as i32;
            emit(
                asm,
                Op::Lea,
                Width::W64,
                &[Gpr::RSP.into(), asm::Mem::base(Gpr::RBP).disp(below).into()],
            )?;
        }
        for &reg in saved.iter().rev() {
            emit(asm, Op::Pop, Width::W64, &[Gpr(reg).into()])?;
        }
        emit(asm, Op::Pop, Width::W64, &[Gpr::RBP.into()])?;
        emit(asm, Op::Ret, Width::W64, &[])
    }
}
