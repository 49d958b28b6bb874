//! Lowers a function: its blocks, and each instruction by its op.

use cranelift_codegen::ir;
use cranelift_frontend::FunctionBuilder;
use margay_ir::analysis::Cfg;
use margay_ir::entity::{Block, Inst, SecondaryMap, Value};
use margay_vir::data::Data;
use margay_vir::function::Function;
use margay_vir::ops::Op;

use crate::abi::Origin;
use crate::code::{Code, Mode};
use crate::group::{Registers, register_types};
use crate::{Error, Machine, Report};

/// The state of the lowering of a function.
pub(crate) struct Lower<'a, 'b> {
    pub(crate) function: &'a Function,
    pub(crate) code: Code<'a, 'b>,
    /// The registers of the values that are defined so far.
    pub(crate) values: SecondaryMap<Value, Registers>,
    /// The Cranelift block of each reachable block.
    pub(crate) blocks: SecondaryMap<Block, Option<ir::Block>>,
    /// The address of the results.
    pub(crate) results: ir::Value,
    /// The stack slots of the function's slots, by number.
    pub(crate) slots: Vec<ir::StackSlot>,
    /// Parts of the stack frame with their sizes, and whether the code of the current instruction uses them.
    pub(crate) scratch: Vec<(ir::StackSlot, u32, bool)>,
    /// 16 bytes that are zero, from which inactive lanes load, and 16 bytes to which they store.
    pub(crate) spare: Option<[ir::StackSlot; 2]>,
    pub(crate) report: Report,
}

impl<'a, 'b> Lower<'a, 'b> {
    pub(crate) fn new(
        function: &'a Function,
        b: &'a mut FunctionBuilder<'b>,
        machine: Machine,
    ) -> Self {
        Lower {
            function,
            code: Code {
                b,
                has_fma: machine.has_fma,
                mode: Mode::Scalar,
            },
            values: SecondaryMap::default(),
            blocks: SecondaryMap::default(),
            results: ir::Value::from_u32(0),
            slots: Vec::new(),
            scratch: Vec::new(),
            spare: None,
            report: Report::default(),
        }
    }

    pub(crate) fn run(mut self) -> Result<Report, Error> {
        let function = self.function;
        let successor =
            |block: Block, index: usize| Some(function.successors(block).get(index)?.block);
        let Some(&entry) = function.order.first() else {
            return Err(Error::Invalid("it has no block".into()));
        };
        let cfg = Cfg::of(entry, function.order.len(), successor);
        self.prologue(entry);
        for &block in cfg.rpo() {
            if block != entry {
                self.create_block(block);
            }
        }
        // In this order, definitions come before their uses.
        for &block in cfg.rpo() {
            if let Some(target) = self.blocks[block] {
                self.code.b.switch_to_block(target);
            }
            for &inst in &function.body[block] {
                self.inst(inst)?;
            }
        }
        self.code.b.seal_all_blocks();
        Ok(self.report)
    }

    fn create_block(&mut self, block: Block) {
        let target = self.code.b.create_block();
        self.blocks[block] = Some(target);
        for &param in &self.function.blocks[block] {
            self.values[param] = register_types(self.ty(param))
                .map(|ty| self.code.b.append_block_param(target, ty))
                .collect();
        }
    }

    fn inst(&mut self, inst: Inst) -> Result<(), Error> {
        self.mark(inst, 0);
        self.code.mode = Mode::Scalar;
        for (.., is_used) in &mut self.scratch {
            *is_used = false;
        }
        match self.function.insts[inst].op {
            Op::Const => self.const_op(inst),
            Op::Affine => self.affine(inst),
            Op::Splat => self.splat_op(inst),
            Op::Extract => self.extract_op(inst),
            Op::Insert => self.insert_op(inst),
            Op::Half => self.half(inst),
            Op::Join => self.join(inst),
            Op::Map => self.map(inst),
            Op::Reduce => self.reduce(inst),
            Op::Permute | Op::Permute2 => self.permute(inst),
            Op::Compress => self.compress(inst),
            Op::Expand => self.expand(inst),
            Op::Ballot => self.ballot_op(inst),
            Op::Mask => self.mask_op(inst),
            Op::Any | Op::All => self.any_or_all(inst),
            Op::Count => self.count(inst),
            Op::First => self.first(inst),
            Op::SlotAddr => self.slot_address(inst),
            Op::Load => self.load(inst),
            Op::Store => self.store(inst),
            Op::Gather => self.gather(inst),
            Op::Scatter => self.scatter(inst),
            Op::Product => return Err(Error::Unsupported("product")),
            Op::Update => return Err(Error::Unsupported("update")),
            Op::Fence => self.fence(inst),
            Op::Call => self.call(inst),
            Op::CallLanes => self.call_lanes(inst),
            Op::TrapIf => self.trap_if(inst),
            Op::Jump | Op::Brif | Op::BrTable | Op::Trap | Op::Ret => {
                return self.terminator(inst);
            }
        }
        Ok(())
    }

    /// Records that the code that is emitted next belongs to an instruction and a lane.
    pub(crate) fn mark(&mut self, inst: Inst, lane: u32) {
        self.code.b.set_srcloc(Origin { inst, lane }.location());
    }

    /// Returns the mode for values with `lanes` lanes.
    pub(crate) fn mode(lanes: u32) -> Mode {
        match lanes {
            1 => Mode::Scalar,
            _ => Mode::Vector,
        }
    }

    /// Returns the number of lanes of an instruction, which is 1 if it has no type.
    pub(crate) fn lanes(&self, inst: Inst) -> u32 {
        self.function.insts[inst].ty.map_or(1, |ty| ty.lanes())
    }

    /// Returns the number of an instruction's data.
    pub(crate) fn number(&self, inst: Inst) -> u64 {
        match self.function.insts[inst].data {
            Data::Number(number) => number,
            _ => 0,
        }
    }

    /// Returns the only result of an instruction, which the verifier requires.
    pub(crate) fn result(&self, inst: Inst) -> Value {
        self.function.results(inst)[0]
    }

    /// Returns the constant that all lanes of a value are, if it is known.
    pub(crate) fn known(&self, value: Value) -> Option<u64> {
        let margay_ir::function::ValueDef::Result(inst, _) = self.function.values[value].def else {
            return None;
        };
        let data = &self.function.insts[inst];
        match data.op {
            Op::Const => Some(data.data.number()),
            Op::Splat => self.known(self.function.args(inst)[0]),
            _ => None,
        }
    }
}
