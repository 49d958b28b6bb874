//! Instruction selection: turns functions of the vector IR into machine functions.
//!
//! # Registers of a value
//!
//! | value | registers |
//! |---|---|
//! | scalar integer, `pred` | a general register, zero-extended |
//! | scalar `b128` | two general registers, the lower half first |
//! | scalar `f32`, `f64` | a vector register, of which the lowest lane is defined |
//! | mask | a mask register or, without AVX-512, a general register; the bits beyond the number of lanes are zero |
//! | other vector | as many vector registers as its bits need; if they do not fill one register, the upper bits are undefined |
//!
//! # Pieces
//!
//! The operands and results of a `map` may have lanes of different widths, and so different numbers of registers.
//! Selection therefore cuts values into *pieces* with a number of lanes with which the widest piece fits one register. A
//! lowering computes one piece of each result from one piece of each operand.
//!
//! A lowering that does not support an operation returns `None`, and the operation calls its reference function
//! ([`fallback`]). The instructions that the lowering has appended before have no effects and are removed as dead code.

mod address;
mod approx;
mod avx2;
mod bits;
mod calls;
mod compare;
mod compress;
mod consts;
mod control;
mod convert;
mod divide;
mod fallback;
mod few_lanes;
mod fields;
mod float;
mod halves;
mod indexed;
mod int;
mod lanes;
mod map;
mod masks;

mod memory;
mod nested;
mod permute;
mod pieces;
mod prim;
mod row_loads;
mod rows;
mod scalar;
mod shifts;
mod stores;
mod table;
mod transpose;
mod update;
mod words;

use margay_ir::analysis::Cfg;
use margay_ir::entity::{Block, Entity, Inst, SecondaryMap, Value};
use margay_ops::types::{Kind, Type};
use margay_vir::data::Data;
use margay_vir::function::Function;
use margay_vir::ops::Op as VirOp;
use regalloc2::{RegClass, VReg};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use crate::asm::Width;
use crate::code::{Operation, layout};
use crate::features::Features;
use crate::mach::{self, Action, Label, NONE};
use crate::pool::Pool;
use crate::{BlockOrder, Convention, Error, Target};

/// The registers of a value.
pub(crate) type Regs = SmallVec<[VReg; 4]>;

/// A value: its type and, unless it is a constant, its registers.
#[derive(Clone, Debug)]
pub(crate) struct Val {
    pub(crate) ty: Type,
    pub(crate) regs: Regs,
    /// The bits of each lane of a constant.
    pub(crate) bits: Option<u64>,
}

impl Val {
    pub(crate) fn new(ty: Type, regs: Regs) -> Val {
        Val {
            ty,
            regs,
            bits: None,
        }
    }

    pub(crate) fn is_scalar(&self) -> bool {
        self.ty.lanes() == 1
    }
}

/// What is known about the uses of a value before selection.
#[derive(Clone, Copy, Default, Debug)]
struct Uses {
    /// The number of uses.
    count: u32,
    /// Whether a use takes the scalar for all lanes of a vector.
    in_lanes: bool,
    /// Whether there is another use.
    alone: bool,
}

/// The result of selection.
pub(crate) struct Selected {
    pub(crate) mach: mach::Function,
    pub(crate) pool: Pool,
    pub(crate) operations: Vec<Operation>,
    /// The widest vector registers in use.
    pub(crate) widest: Width,
}

/// The state of selection.
pub(crate) struct Selector<'a> {
    pub(crate) vir: &'a Function,
    pub(crate) features: Features,
    /// The number of bits of the widest vector registers to use.
    pub(crate) width: u32,
    pub(crate) mach: mach::Function,
    pub(crate) pool: Pool,
    pub(crate) operations: Vec<Operation>,
    values: SecondaryMap<Value, Regs>,
    constants: SecondaryMap<Value, Option<u64>>,
    uses: SecondaryMap<Value, Uses>,
    labels: SecondaryMap<Block, Option<Label>>,
    /// The number of edges that lead to each block.
    edges: SecondaryMap<Block, u32>,
    /// The block to which instructions are appended.
    current: Label,
    /// The instruction that is being selected.
    inst: Inst,
    /// Constants in registers that are available in the current block: the class, bits.
    local: FxHashMap<(RegClass, u64), VReg>,
    /// Parts of registers that are available wherever the register is: the register, lanes or bits, number.
    parts: FxHashMap<(VReg, u32, u32), VReg>,
    /// Parts of registers that are available in the current block.
    local_parts: FxHashMap<(VReg, u32, u32), VReg>,
    /// The widths of the elements of masks in vector registers.
    mask_widths: FxHashMap<VReg, u32>,
    /// The width of the elements of the masks that an operation receives; 0 if it receives them in mask registers or, with
    /// AVX2, in general registers.
    mask_bits: u32,
    /// Registers whose `f32` lanes contain no subnormal number.
    flushed: rustc_hash::FxHashSet<VReg>,
    /// The groups of loads of the current block.
    groups: rows::Groups,
    /// The number of lanes of updates without a loop over the lanes.
    lanes_in_line: u32,
    /// The registers that contain the addresses of results, if the function has results.
    results: VReg,
    convention: Convention,
    arguments: Vec<u32>,
    result_offsets: Vec<u32>,
}

/// Selects instructions for a function that passes the verifier.
pub(crate) fn run(
    vir: &Function,
    target: &Target,
    (convention, order): (Convention, BlockOrder),
) -> Result<(Selected, Vec<u32>, Vec<u32>), Error> {
    let width = match target.features.contains(Features::AVX512) && !target.prefers_256_bits {
        true => 512,
        false => 256,
    };
    let (arguments, _) = layout(&vir.signature.params);
    let (result_offsets, _) = layout(&vir.signature.returns);
    let mut selector = Selector {
        vir,
        features: match width == 512 || target.features.contains(Features::AVX512) {
            true => target.features,
            // The other subsets have instructions with mask registers.
            false => Features::LEVEL_AVX2,
        },
        width,
        mach: mach::Function::default(),
        pool: Pool::default(),
        operations: Vec::new(),
        values: SecondaryMap::default(),
        constants: SecondaryMap::default(),
        uses: SecondaryMap::default(),
        labels: SecondaryMap::default(),
        edges: SecondaryMap::default(),
        current: Label(0),
        inst: Inst::new(0),
        local: FxHashMap::default(),
        parts: FxHashMap::default(),
        local_parts: FxHashMap::default(),
        mask_widths: FxHashMap::default(),
        mask_bits: 0,
        flushed: Default::default(),
        groups: rows::Groups::default(),
        lanes_in_line: 0,
        results: NONE,
        convention,
        arguments,
        result_offsets,
    };
    selector.function(order)?;
    let Selector {
        mut mach,
        pool,
        operations,
        arguments,
        result_offsets,
        ..
    } = selector;
    mach.remove_dead();
    let widest = mach.widest();
    let selected = Selected {
        mach,
        pool,
        operations,
        widest,
    };
    Ok((selected, arguments, result_offsets))
}

impl Selector<'_> {
    fn function(&mut self, order_of_blocks: BlockOrder) -> Result<(), Error> {
        let vir = self.vir;
        // Instructions are selected in an order in which definitions precede uses.
        let cfg = Cfg::new(vir);
        let order = cfg.rpo();
        self.count_uses(order);
        let entry = self.mach.label();
        self.start(entry);
        self.entry(order[0])?;
        for &block in &order[1..] {
            let label = self.mach.label();
            self.labels[block] = Some(label);
            for &param in &vir.blocks[block] {
                let regs = self.fresh(vir.ty(param));
                self.mach.block(label).params.extend(&regs);
                self.values[param] = regs;
            }
        }
        let mut parts: SecondaryMap<Block, Vec<Label>> = SecondaryMap::default();
        let mut from = 0;
        for &block in order {
            if let Some(label) = self.labels[block] {
                from = self.mach.order.len();
                self.start(label);
                for &param in &vir.blocks[block] {
                    self.broadcast_if_used(param);
                }
            }
            self.find_groups(block);
            for &inst in &vir.body[block] {
                self.inst = inst;
                if let Some(group) = self.groups.first.remove(&inst) {
                    for &early in &group.early {
                        self.inst = early;
                        self.select(early)?;
                    }
                    self.inst = inst;
                    self.load_rows(&group);
                } else if !self.groups.done.contains(&inst) {
                    self.select(inst)?;
                }
            }
            parts[block] = self.mach.order.split_off(from);
        }
        let nested = match order_of_blocks {
            BlockOrder::Code => {
                let blocks = vir.order.iter().copied();
                blocks.filter(|&block| cfg.is_reachable(block)).collect()
            }
            BlockOrder::Loops => nested::nested(vir, &cfg),
        };
        self.mach.nested = nested
            .iter()
            .flat_map(|&block| parts[block].iter().copied())
            .collect();
        // The code has the order of the function.
        let blocks = vir.order.iter().filter(|&&block| cfg.is_reachable(block));
        self.mach.order = blocks
            .flat_map(|&block| std::mem::take(&mut parts[block]))
            .collect();
        Ok(())
    }

    fn count_uses(&mut self, order: &[Block]) {
        let vir = self.vir;
        for &inst in order.iter().flat_map(|&block| &vir.body[block]) {
            let data = &vir.insts[inst];
            let lanes = data.ty.map_or(1, Type::lanes);
            if let (VirOp::Const, Some(ty)) = (data.op, data.ty)
                && ty.lane_bits() <= 64
            {
                self.constants[vir.results(inst)[0]] = Some(data.data.number());
            }
            let takes_lanes = matches!(data.op, VirOp::Map | VirOp::Splat | VirOp::Affine);
            for &value in vir.args(inst) {
                let uses = &mut self.uses[value];
                uses.count += 1;
                match takes_lanes && lanes > 1 && vir.ty(value).lanes() == 1 {
                    true => uses.in_lanes = true,
                    false => uses.alone = true,
                }
            }
            for call in vir.targets(inst) {
                self.edges[call.block] += 1;
                for &value in &call.args {
                    self.uses[value].count += 1;
                    self.uses[value].alone = true;
                }
            }
        }
    }

    /// Starts a block: appends it to the order and directs further instructions to it.
    pub(crate) fn start(&mut self, label: Label) {
        self.mach.order.push(label);
        self.current = label;
        self.local.clear();
        self.local_parts.clear();
    }

    pub(crate) fn push(&mut self, inst: mach::Inst) {
        self.mach.blocks[self.current.0 as usize].insts.push(inst);
    }

    /// Returns new registers for a value.
    pub(crate) fn fresh(&mut self, ty: Type) -> Regs {
        let is_avx2 = !self.has_masks();
        let mut new =
            |class, count: u32| -> Regs { (0..count).map(|_| self.mach.vreg(class)).collect() };
        match (ty.kind(), ty.lanes()) {
            (Kind::F32 | Kind::F64, 1) => new(RegClass::Float, 1),
            (Kind::B128, 1) => new(RegClass::Int, 2),
            (_, 1) => new(RegClass::Int, 1),
            (Kind::Pred, _) if is_avx2 => new(RegClass::Int, 1),
            (Kind::Pred, _) => new(RegClass::Vector, 1),
            _ => {
                let count = (ty.lane_bits() * ty.lanes()).div_ceil(self.width);
                new(RegClass::Float, count)
            }
        }
    }

    /// Returns an operand.
    pub(crate) fn val(&mut self, value: Value) -> Val {
        Val {
            ty: self.vir.ty(value),
            regs: self.values[value].clone(),
            bits: self.constants[value],
        }
    }

    /// Returns the operands of the instruction that is being selected.
    pub(crate) fn vals(&mut self) -> SmallVec<[Val; 4]> {
        let vir = self.vir;
        vir.args(self.inst)
            .iter()
            .map(|&value| self.val(value))
            .collect()
    }

    /// Sets the result with a number of the instruction that is being selected.
    pub(crate) fn define(&mut self, number: usize, regs: Regs) {
        let value = self.vir.results(self.inst)[number];
        self.values[value] = regs;
        self.broadcast_if_used(value);
    }

    /// Computes the broadcast of a scalar where the scalar is defined, not in a loop that uses it.
    fn broadcast_if_used(&mut self, value: Value) {
        let ty = self.vir.ty(value);
        if self.uses[value].in_lanes
            && self.constants[value].is_none()
            && ty.lanes() == 1
            && ty.lane_bits() <= 64
            && ty.kind() != Kind::Pred
        {
            let val = self.val(value);
            if self.parts.contains_key(&(val.regs[0], 0, ty.lane_bits())) {
                return;
            }
            let reg = self.new_broadcast(&val);
            self.parts.insert((val.regs[0], 0, ty.lane_bits()), reg);
        }
    }

    fn select(&mut self, inst: Inst) -> Result<(), Error> {
        let vir = self.vir;
        let data = &vir.insts[inst];
        let number = data.data.number();
        match data.op {
            VirOp::Const => self.constant(),
            VirOp::Affine => self.affine(number),
            VirOp::Splat => self.splat(),
            VirOp::Extract => self.extract(number as u32),
            VirOp::Insert => self.insert(number as u32),
            VirOp::Half => self.half(number as u32),
            VirOp::Join => self.join(),
            VirOp::Map => self.map(),
            VirOp::Permute | VirOp::Permute2 => self.permute(),
            VirOp::Compress => self.compress(),
            VirOp::Expand => self.expand(),
            VirOp::Reduce => self.reduce(),
            VirOp::Product => self.product(),
            VirOp::Ballot | VirOp::Any | VirOp::All | VirOp::Count | VirOp::First => {
                self.mask_to_scalar(data.op)
            }
            VirOp::Mask => self.mask_of_bits(),
            VirOp::SlotAddr => self.slot_address(number as u32),
            VirOp::Load => self.load(),
            VirOp::Store => self.store(),
            VirOp::Gather => self.gather(),
            VirOp::Scatter => self.scatter(),
            VirOp::Update => self.update()?,
            VirOp::Fence => self.fence(),
            VirOp::Call => self.call(number as u32)?,
            VirOp::CallLanes => self.call_lanes(number as u32)?,
            VirOp::TrapIf => self.trap_if(number),
            VirOp::Trap => self.trap(number),
            VirOp::Jump => self.jump(),
            VirOp::Brif => self.branch(),
            VirOp::BrTable => self.branch_table(),
            VirOp::Ret => self.ret(),
        }
        debug_assert!(
            !matches!(data.data, Data::Lane(_))
                || matches!(
                    data.op,
                    VirOp::Map | VirOp::Product | VirOp::Reduce | VirOp::Update
                )
        );
        Ok(())
    }

    /// Returns the results' types of the instruction that is being selected.
    pub(crate) fn result_types(&self) -> SmallVec<[Type; 2]> {
        let results = self.vir.results(self.inst).iter();
        results.map(|&value| self.vir.ty(value)).collect()
    }

    /// Appends an instruction with an effect.
    pub(crate) fn effect(&mut self, inst: mach::Inst) {
        self.push(mach::Inst {
            has_effect: true,
            ..inst
        });
    }

    /// Appends an instruction, whose result is a new register of a class.
    pub(crate) fn result(&mut self, class: RegClass, inst: mach::Inst) -> VReg {
        let dst = self.mach.vreg(class);
        self.push(mach::Inst { dst, ..inst });
        dst
    }

    fn constant(&mut self) {
        let ty = self.vir.ty(self.vir.results(self.inst)[0]);
        if ty.lane_bits() > 64 {
            let bits = self.vir.insts[self.inst].data.number();
            let regs = self.wide_constant(ty, bits);
            self.define(0, regs);
        }
    }

    fn trap(&mut self, number: u64) {
        let place = self.place(crate::code::Cause::Trap(number));
        self.effect(mach::Inst {
            place,
            ..mach::Inst::of(Action::Trap, Width::W64)
        });
    }

    /// Records a place of the instruction that is being selected, and returns what [`mach::Inst::place`] contains.
    pub(crate) fn place(&mut self, cause: crate::code::Cause) -> u32 {
        let inst = self.inst;
        self.mach.places.push(mach::PendingPlace { inst, cause });
        self.mach.places.len() as u32
    }
}

/// Returns registers with one element.
pub(crate) fn one(reg: VReg) -> Regs {
    smallvec![reg]
}
