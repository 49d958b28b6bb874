//! Register allocation: presents machine functions to regalloc2.
//!
//! The operands of an instruction are, in this order: result, second result, tied source, sources, selector, mask, base,
//! index, lane number, and other bases. The result and the tied source of `cmpxchg` are in `rax`. Calls have their arguments and results instead. [`crate::emit`] reads the allocations in this order.

mod check;

use std::cell::RefCell;

use regalloc2::{
    Algorithm, Block as RaBlock, Inst as RaInst, InstRange, MachineEnv, Operand, OperandConstraint,
    OperandKind, OperandPos, Output, PReg, PRegSet, RegAllocError, RegClass, RegallocOptions, VReg,
};
use smallvec::SmallVec;

use crate::Error;
use crate::asm::Op;
use crate::mach::{Action, Base, Function, Inst, Label, NONE};

/// Functions with more instructions are allocated by the fast algorithm.
const LARGEST_FOR_ION: usize = 30_000;

/// The allocator keeps the memory for functions with at most so many instructions.
const LARGEST_KEPT: usize = 5_000;
/// Builds with assertions check the allocation of functions with fewer instructions.
const LARGEST_CHECKED: usize = 5_000;

/// The general registers that a function must preserve, except `rbp`.
pub(crate) const PRESERVED: [u8; 5] = [3, 12, 13, 14, 15];
const RAX: u8 = 0;
const RDX: u8 = 2;

thread_local! {
    /// The memory of the allocator.
    static CONTEXT: RefCell<regalloc2::Ctx> = RefCell::default();
}

/// A machine function in the form of regalloc2: blocks and instructions have numbers in the order of
/// [`Function::nested`].
pub(crate) struct Input<'a> {
    pub(crate) mach: &'a Function,
    /// The number of each block, by label.
    numbers: Vec<u32>,
    pub(crate) insts: Vec<&'a Inst>,
    ranges: Vec<InstRange>,
    succs: Vec<SmallVec<[RaBlock; 2]>>,
    preds: Vec<SmallVec<[RaBlock; 2]>>,
    operands: Vec<Operand>,
    starts: Vec<u32>,
    clobbers: PRegSet,
    float_words: usize,
}

fn preg(number: u8, class: RegClass) -> PReg {
    PReg::new(number.into(), class)
}

fn set(numbers: impl IntoIterator<Item = u8>, class: RegClass) -> PRegSet {
    numbers
        .into_iter()
        .map(|number| preg(number, class))
        .collect()
}

impl<'a> Input<'a> {
    /// `float_bytes` is the number of bytes of a spilled vector register.
    pub(crate) fn new(mach: &'a Function, float_bytes: u32, has_masks: bool) -> Input<'a> {
        let mut numbers = vec![u32::MAX; mach.blocks.len()];
        for (number, label) in (0..).zip(&mach.nested) {
            numbers[label.0 as usize] = number;
        }
        let count = mach.nested.len();
        let mut input = Input {
            mach,
            numbers: Vec::new(),
            insts: Vec::new(),
            ranges: Vec::with_capacity(count),
            succs: Vec::with_capacity(count),
            preds: vec![SmallVec::new(); count],
            operands: Vec::new(),
            starts: Vec::new(),
            clobbers: clobbers(has_masks),
            float_words: float_bytes as usize / 8,
        };
        for (number, label) in mach.nested.iter().enumerate() {
            let block = &mach.blocks[label.0 as usize];
            let first = RaInst::new(input.insts.len());
            input.insts.extend(&block.insts);
            input
                .ranges
                .push(InstRange::new(first, RaInst::new(input.insts.len())));
            let succs = block.succs.iter();
            let succs: SmallVec<[RaBlock; 2]> = succs
                .map(|(label, _)| RaBlock::new(numbers[label.0 as usize] as usize))
                .collect();
            for succ in &succs {
                input.preds[succ.index()].push(RaBlock::new(number));
            }
            input.succs.push(succs);
        }
        for number in 0..input.insts.len() {
            input.starts.push(input.operands.len() as u32);
            let inst = input.insts[number];
            add_operands(mach, inst, &mut input.operands);
        }
        input.starts.push(input.operands.len() as u32);
        input.numbers = numbers;
        input
    }

    /// Returns whether the function is so large that the fast algorithm is used.
    pub(crate) fn is_large(&self) -> bool {
        self.insts.len() > LARGEST_FOR_ION
    }

    /// Returns the number of a block that is in use.
    pub(crate) fn number(&self, label: Label) -> RaBlock {
        RaBlock::new(self.numbers[label.0 as usize] as usize)
    }

    /// Allocates registers.
    pub(crate) fn allocate(&self, has_masks: bool) -> Result<Output, Error> {
        let algorithm = match self.is_large() {
            false => Algorithm::Ion,
            true => Algorithm::Fastalloc,
        };
        let options = RegallocOptions {
            verbose_log: false,
            validate_ssa: cfg!(debug_assertions),
            algorithm,
        };
        let env = environment(has_masks);
        // The context keeps its memory for the next function.
        let output = CONTEXT
            .with_borrow_mut(|context| {
                regalloc2::run_with_ctx(self, &env, &options, context)?;
                let output = std::mem::take(&mut context.output);
                if self.insts.len() > LARGEST_KEPT {
                    *context = Default::default();
                }
                Ok(output)
            })
            .map_err(|error: RegAllocError| {
                let is_expected = matches!(error, RegAllocError::TooManyLiveRegs);
                debug_assert!(is_expected, "{error}");
                Error::Allocation(error.to_string())
            })?;
        // An error that the caller gets would only lead to other code of the kernel.
        if cfg!(debug_assertions)
            && self.insts.len() < LARGEST_CHECKED
            && let Err(errors) = check::check(self, &env, &output)
        {
            panic!("wrong registers: {errors:?}");
        }
        Ok(output)
    }
}

/// Returns the registers that a call may change.
fn clobbers(has_masks: bool) -> PRegSet {
    let general = set([0, 1, 2, 6, 7, 8, 9, 10, 11], RegClass::Int);
    let vector = set(0..if has_masks { 32 } else { 16 }, RegClass::Float);
    let masks = set(if has_masks { 1..8 } else { 0..0 }, RegClass::Vector);
    general | vector | masks
}

fn environment(has_masks: bool) -> MachineEnv {
    let upper = if has_masks { 16..32 } else { 0..0 };
    let masks = if has_masks { 1..8 } else { 0..0 };
    MachineEnv {
        preferred_regs_by_class: [
            set([0, 1, 2, 6, 7, 8, 9, 10, 11], RegClass::Int),
            set(0..16, RegClass::Float),
            set(masks, RegClass::Vector),
        ],
        non_preferred_regs_by_class: [
            set(PRESERVED, RegClass::Int),
            set(upper, RegClass::Float),
            PRegSet::empty(),
        ],
        scratch_by_class: [None; 3],
        fixed_stack_slots: Vec::new(),
    }
}

fn operand(
    vreg: VReg,
    constraint: OperandConstraint,
    kind: OperandKind,
    pos: OperandPos,
) -> Operand {
    Operand::new(vreg, constraint, kind, pos)
}

fn fixed(vreg: VReg, number: u8, kind: OperandKind) -> Operand {
    let pos = match kind {
        OperandKind::Def => OperandPos::Late,
        OperandKind::Use => OperandPos::Early,
    };
    operand(
        vreg,
        OperandConstraint::FixedReg(preg(number, vreg.class())),
        kind,
        pos,
    )
}

fn add_operands(mach: &Function, inst: &Inst, operands: &mut Vec<Operand>) {
    let start = operands.len();
    match inst.action {
        Action::Call(call) | Action::Entry(call) => {
            let call = &mach.calls[call as usize];
            operands.extend(
                call.results
                    .iter()
                    .map(|&(reg, number)| fixed(reg, number, OperandKind::Def)),
            );
            operands.extend(
                call.args
                    .iter()
                    .map(|&(reg, number)| fixed(reg, number, OperandKind::Use)),
            );
        }
        Action::Wide(_) => {
            operands.push(fixed(inst.dst, RDX, OperandKind::Def));
            operands.push(fixed(inst.second, RAX, OperandKind::Def));
            operands.push(fixed(inst.tied, RAX, OperandKind::Use));
            operands.push(Operand::reg_use(inst.src[0]));
        }
        Action::Divide(_) => {
            operands.push(fixed(inst.dst, RAX, OperandKind::Def));
            operands.push(fixed(inst.second, RDX, OperandKind::Def));
            operands.push(fixed(inst.tied, RAX, OperandKind::Use));
            // `rdx` is written before the source is read.
            operands.push(Operand::reg_use_at_end(inst.src[0]));
        }
        Action::Return if inst.src[0] != NONE => {
            operands.push(fixed(inst.src[0], RAX, OperandKind::Use));
        }
        Action::Table => {
            operands.push(Operand::reg_temp(inst.second));
            operands.push(Operand::reg_use(inst.src[0]));
        }
        _ => add_plain(inst, start, operands),
    }
}

fn add_plain(inst: &Inst, start: usize, operands: &mut Vec<Operand>) {
    // The uses of a gather must not share a register with its result.
    let is_gather = inst.second != NONE;
    let results = usize::from(inst.dst != NONE) + usize::from(inst.second != NONE);
    let is_swap = matches!(inst.action, Action::Op(Op::Cmpxchg));
    if is_swap {
        operands.push(fixed(inst.dst, RAX, OperandKind::Def));
    } else if inst.dst != NONE {
        let constraint = match inst.tied {
            NONE => OperandConstraint::Reg,
            _ => OperandConstraint::Reuse(results),
        };
        operands.push(operand(
            inst.dst,
            constraint,
            OperandKind::Def,
            OperandPos::Late,
        ));
    }
    let sources = inst.src.iter().filter(|&&reg| reg != NONE).count();
    if is_gather {
        let mask = results + usize::from(inst.tied != NONE) + sources;
        operands.push(operand(
            inst.second,
            OperandConstraint::Reuse(mask),
            OperandKind::Def,
            OperandPos::Late,
        ));
    }
    if is_swap {
        operands.push(fixed(inst.tied, RAX, OperandKind::Use));
    } else if inst.tied != NONE {
        operands.push(Operand::reg_use(inst.tied));
    }
    for &reg in inst.src.iter().filter(|&&reg| reg != NONE) {
        operands.push(Operand::reg_use(reg));
    }
    if inst.selector != NONE {
        operands.push(Operand::reg_use(inst.selector));
    }
    if inst.mask != NONE {
        operands.push(Operand::reg_use(inst.mask));
    }
    if let Base::Reg(base) = inst.mem.base {
        operands.push(Operand::reg_use(base));
    }
    if inst.mem.index != NONE {
        operands.push(match is_gather {
            true => Operand::reg_use_at_end(inst.mem.index),
            false => Operand::reg_use(inst.mem.index),
        });
    }
    if inst.lane != NONE {
        operands.push(Operand::reg_use(inst.lane));
    }
    for &base in inst.bases.iter().filter(|&&base| base != NONE) {
        operands.push(Operand::reg_use(base));
    }
    debug_assert!(operands.len() >= start);
}

impl regalloc2::Function for Input<'_> {
    fn num_insts(&self) -> usize {
        self.insts.len()
    }

    fn num_blocks(&self) -> usize {
        self.ranges.len()
    }

    fn entry_block(&self) -> RaBlock {
        RaBlock::new(0)
    }

    fn block_insns(&self, block: RaBlock) -> InstRange {
        self.ranges[block.index()]
    }

    fn block_succs(&self, block: RaBlock) -> &[RaBlock] {
        &self.succs[block.index()]
    }

    fn block_preds(&self, block: RaBlock) -> &[RaBlock] {
        &self.preds[block.index()]
    }

    fn block_params(&self, block: RaBlock) -> &[VReg] {
        &self.mach.blocks[self.mach.nested[block.index()].0 as usize].params
    }

    fn is_ret(&self, inst: RaInst) -> bool {
        matches!(
            self.insts[inst.index()].action,
            Action::Return | Action::Trap
        )
    }

    fn is_branch(&self, inst: RaInst) -> bool {
        matches!(
            self.insts[inst.index()].action,
            Action::Jump | Action::Branch(_) | Action::Table
        )
    }

    fn branch_blockparams(&self, block: RaBlock, _: RaInst, succ: usize) -> &[VReg] {
        &self.mach.blocks[self.mach.nested[block.index()].0 as usize].succs[succ].1
    }

    fn inst_operands(&self, inst: RaInst) -> &[Operand] {
        let index = inst.index();
        &self.operands[self.starts[index] as usize..self.starts[index + 1] as usize]
    }

    fn inst_clobbers(&self, inst: RaInst) -> PRegSet {
        let Action::Call(call) = self.insts[inst.index()].action else {
            return PRegSet::empty();
        };
        let mut clobbers = self.clobbers;
        for &(reg, number) in &self.mach.calls[call as usize].results {
            clobbers.remove(preg(number, reg.class()));
        }
        clobbers
    }

    fn num_vregs(&self) -> usize {
        self.mach.vregs as usize
    }

    fn spillslot_size(&self, class: RegClass) -> usize {
        match class {
            RegClass::Float => self.float_words,
            _ => 1,
        }
    }
}
