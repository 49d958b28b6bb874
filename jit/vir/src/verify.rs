//! The verifier: checks the invariants of functions on which back ends rely.
//!
//! # What is checked
//!
//! - Structure: every block, value and list that is referred to exists; blocks and instructions are in the order once;
//!   each block ends with its only terminator; no branch leads to the entry block, whose parameters are those of the
//!   signature; a branch has as many targets as its op requires and passes one argument of the same type for each
//!   parameter of its target.
//! - Values: each value is defined once, and its definition dominates its uses.
//! - Instructions: type, data, operands and results match the row of the op table. The operation of a `map` is one of
//!   the IR without side effects and accepts the kinds of the operands and results. The operation of a `reduce` has two
//!   operands and a result of one kind. The operation of a `product` is a matrix product, whose registers have 32 lanes.
//!   The operation of an `update` is one that [`is_update`] accepts. Numbers of lanes, slots and helpers are in range.
//!   Calls and returns match their signatures; helpers have scalar parameters and results only.
//!
//! Invariant: the verifier does not panic on any function.

pub(crate) mod letters;

use std::fmt;

use margay_ir::entity::{Block, Entity, Inst, Slot, Value};
use margay_ir::function::Signature;
use margay_ir::verify::ProblemSite;
use margay_ops::meaning::matrix::{Part, Product};
use margay_ops::meaning::{Desc, Meaning};
use margay_ops::ops::{Effects, Opcode};
use margay_ops::types::{Kind, OpType, Type};
use rustc_hash::FxHashSet;

use crate::data::{Access, Data, lane_mask, lanes_of};
use crate::function::Function;
use crate::meaning::{is_update, update_operands};
use crate::ops::{DataKind, Op, Targets, Types};

/// A violated invariant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The instruction; `None` if the problem is outside of instructions.
    pub inst: Option<Inst>,
    /// The description.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.inst {
            Some(inst) => write!(f, "{inst}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Returns the problems of a function.
pub fn function(function: &Function) -> Vec<Problem> {
    let mut verifier = Verifier {
        function,
        problems: Vec::new(),
    };
    verifier.structure();
    if verifier.problems.is_empty() {
        // The other checks require that all references are valid.
        verifier.values();
        verifier.instructions();
    }
    verifier.problems
}

struct Verifier<'a> {
    function: &'a Function,
    problems: Vec<Problem>,
}

impl Verifier<'_> {
    fn add(&mut self, inst: Option<Inst>, message: impl Into<String>) {
        self.problems.push(Problem {
            inst,
            message: message.into(),
        });
    }

    fn structure(&mut self) {
        let function = self.function;
        let (mut blocks, mut insts) = (FxHashSet::default(), FxHashSet::default());
        for &block in &function.order {
            if block.index() >= function.blocks.len() || !blocks.insert(block) {
                return self.add(
                    None,
                    format!("{block} does not exist or is in the order twice"),
                );
            }
        }
        let Some(&entry) = function.order.first() else {
            return self.add(None, "the function has no block");
        };
        for &block in &function.order {
            self.known(None, &function.blocks[block]);
            let body = &function.body[block];
            for (index, &inst) in body.iter().enumerate() {
                if inst.index() >= function.insts.len() || !insts.insert(inst) {
                    return self.add(
                        None,
                        format!("{inst} does not exist or is in a block twice"),
                    );
                }
                let ends = function.insts[inst]
                    .op
                    .row()
                    .effects
                    .contains(Effects::TERMINATOR);
                if ends != (index + 1 == body.len()) {
                    self.add(
                        Some(inst),
                        format!("only the last instruction of {block} must end it"),
                    );
                }
                self.references(inst, entry, &blocks);
            }
            if body.is_empty() {
                self.add(None, format!("{block} is empty"));
            }
        }
        let types = &function.signature.params;
        for &number in &function.private {
            if types.get(number as usize) != Some(&Type::B64) {
                self.add(None, format!("parameter {number} is not an address"));
            }
        }
        let params = function.blocks[entry]
            .iter()
            .map(|&v| function.values.get(v).map(|data| data.ty));
        if !params.eq(function.signature.params.iter().copied().map(Some)) {
            self.add(
                None,
                "the parameters of the entry block are not those of the signature",
            );
        }
    }

    fn known(&mut self, inst: Option<Inst>, values: &[Value]) {
        let missing = values
            .iter()
            .find(|value| value.index() >= self.function.values.len());
        if let Some(value) = missing {
            self.add(inst, format!("refers to {value}, which does not exist"));
        }
    }

    fn references(&mut self, inst: Inst, entry: Block, blocks: &FxHashSet<Block>) {
        let function = self.function;
        for list in [function.insts[inst].args, function.results[inst]] {
            match function.pool.try_get(list) {
                Some(values) => self.known(Some(inst), values),
                None => self.add(Some(inst), "has no list of operands or results"),
            }
        }
        let calls = function.targets(inst);
        let is_right = match function.insts[inst].op.row().targets {
            Targets::Exactly(count) => calls.len() == count,
            Targets::AtLeastOne => !calls.is_empty(),
        };
        if !is_right {
            self.add(Some(inst), format!("has {} branch targets", calls.len()));
        }
        for call in calls {
            if call.block == entry || !blocks.contains(&call.block) {
                self.add(
                    Some(inst),
                    format!("branches to {}, which is no target", call.block),
                );
            }
            self.known(Some(inst), &call.args);
        }
    }

    fn values(&mut self) {
        for problem in margay_ir::verify::values(self.function) {
            match problem.place {
                ProblemSite::Inst(inst) => self.add(Some(inst), problem.message),
                _ => self.add(None, problem.to_string()),
            }
        }
    }

    fn instructions(&mut self) {
        let insts: Vec<Inst> = self
            .function
            .order
            .iter()
            .flat_map(|&b| &self.function.body[b])
            .copied()
            .collect();
        for inst in insts {
            if let Err(message) = self.instruction(inst) {
                self.add(Some(inst), message);
            }
        }
    }

    fn instruction(&self, inst: Inst) -> Result<(), String> {
        let function = self.function;
        let data = &function.insts[inst];
        let row = data.op.row();
        let is_possible = match (row.types, data.ty) {
            (Types::Untyped, None) | (Types::Any, Some(_)) => true,
            (Types::Masks, Some(ty)) => ty.kind() == Kind::Pred,
            (Types::Integers, Some(ty)) => !ty.is_float() && (8..=64).contains(&ty.lane_bits()),
            (Types::Address, Some(ty)) => ty == Type::B64,
            _ => false,
        };
        if !is_possible {
            return Err(format!("`{}` has no type {:?}", row.name, data.ty));
        }
        let has_data = match data.data {
            Data::Nothing => row.data == DataKind::Nothing,
            Data::Number(_) => matches!(row.data, DataKind::Bits | DataKind::Number),
            Data::Lane(_) => row.data == DataKind::Lane,
            Data::Access(_) => row.data == DataKind::Access,
        };
        if !has_data {
            return Err(format!("`{}` has other data", row.name));
        }
        let types =
            |values: &[Value]| -> Vec<Type> { values.iter().map(|&v| function.ty(v)).collect() };
        let (args, results) = (types(function.args(inst)), types(function.results(inst)));
        letters::check(row.operands, data.ty, &args, "operand")?;
        letters::check(row.results, data.ty, &results, "result")?;
        self.data(inst, &args, &results)
    }

    fn data(&self, inst: Inst, args: &[Type], results: &[Type]) -> Result<(), String> {
        let function = self.function;
        let data = &function.insts[inst];
        let lanes = lanes_of(data.ty) as u64;
        let number = data.data.number();
        let below = |limit: u64| match number < limit {
            true => Ok(()),
            false => Err(format!("{number} is not below {limit}")),
        };
        match (data.op, data.data) {
            (Op::Const, _) => match u128::from(number) & !lane_mask(data.ty) {
                0 => Ok(()),
                _ => Err(format!("{number:#x} does not fit")),
            },
            (Op::Extract | Op::Insert, _) => below(lanes),
            (Op::Half, _) => below(2),
            (Op::SlotAddr, _) => match function.slots.get(Slot::new(number as usize)) {
                Some(slot) if slot.align.is_power_of_two() => below(function.slots.len() as u64),
                _ => Err("names a slot that does not exist or has no possible alignment".into()),
            },
            (Op::Map, Data::Lane(desc)) => lane_operation(desc, lanes as u32, args, results),
            (Op::Reduce, Data::Lane(desc)) => {
                let scalar = results.first().copied().unwrap_or(Type::PRED);
                lane_operation(desc, 1, &[scalar, scalar], results)
            }
            (Op::Product, Data::Lane(desc)) => product(&desc, data.ty, args, results),
            (Op::Load | Op::Store | Op::Gather | Op::Scatter, Data::Access(access)) => {
                accessed(access, data.ty)
            }
            (Op::Update, Data::Lane(desc)) => update(&desc, data.ty, &args[2..]),
            (Op::Call, _) => self.call(number, args, results),
            (Op::CallLanes, _) => {
                let args = &args[1..];
                let mut types = args.iter().chain(results);
                if let Some(ty) = types.find(|ty| u64::from(ty.lanes()) != lanes) {
                    return Err(format!("{ty} has other lanes than the mask"));
                }
                self.call(number, &scalars(args), &scalars(results))
            }
            (Op::Ret, _) if args != function.signature.returns => {
                Err("returns other types than the signature's".into())
            }
            _ => Ok(()),
        }
    }

    fn call(&self, number: u64, args: &[Type], results: &[Type]) -> Result<(), String> {
        let helper = usize::try_from(number)
            .ok()
            .and_then(|number| self.function.helpers.get(number));
        let Some(helper) = helper else {
            return Err("calls a helper that does not exist".into());
        };
        let Signature { params, returns } = &helper.signature;
        match params.iter().chain(returns).all(|ty| ty.lanes() == 1)
            && params == args
            && returns == results
        {
            true => Ok(()),
            false => Err(format!("does not match the signature of {}", helper.name)),
        }
    }
}

/// Returns the types of one lane of values with the types `types`.
fn scalars(types: &[Type]) -> Vec<Type> {
    types.iter().map(|ty| Type::scalar(ty.kind())).collect()
}

/// Checks an operation of the IR in `lanes` lanes.
fn lane_operation(desc: Desc, lanes: u32, args: &[Type], results: &[Type]) -> Result<(), String> {
    if !matches!(desc.opcode.meaning(), Meaning::Pure(_)) {
        return Err(format!(
            "`{}` is no operation of one lane",
            desc.opcode.name()
        ));
    }
    let has_lanes = args.iter().all(|ty| [1, lanes].contains(&ty.lanes()))
        && results.iter().all(|ty| ty.lanes() == lanes);
    if !has_lanes {
        return Err("operands or results have other lanes than the type".into());
    }
    margay_ir::verify::operation(desc, &scalars(args), &scalars(results)).map_or(Ok(()), Err)
}

/// Checks a matrix product, whose operands and results are registers of type `ty`.
fn product(desc: &Desc, ty: Option<Type>, args: &[Type], results: &[Type]) -> Result<(), String> {
    let known = Product::of(desc).filter(|_| desc.opcode == Opcode::Mma);
    let Some(product) = known else {
        return Err(format!("`{}` is no matrix product", desc.opcode.name()));
    };
    let bits = product.register_bits(Part::A);
    if ty.is_none_or(|ty| ty.lanes() != 32 || ty.lane_bits() != bits) {
        return Err(format!(
            "registers of the product have 32 lanes of {bits} bits"
        ));
    }
    let (operands, count) = product.arity();
    let is_register = |&found: &Type| Some(found) == ty;
    match args.len() + 1 == operands
        && results.len() == count
        && args.iter().chain(results).all(is_register)
    {
        true => Ok(()),
        false => Err(format!(
            "the product has {} operands and {count} results of its type",
            operands - 1
        )),
    }
}

/// Checks the operation of an `update` and its operands behind the offsets.
fn update(desc: &Desc, ty: Option<Type>, args: &[Type]) -> Result<(), String> {
    let Some(ty) = ty.filter(|ty| is_update(desc) && ty.lane_bits() == desc.ty.bits()) else {
        return Err(format!("`{}` is no update of {ty:?}", desc.opcode.name()));
    };
    let (values, mask) = args
        .split_at_checked(update_operands(desc))
        .ok_or("has too few operands")?;
    let is_operand = |&value: &Type| value == ty || value == Type::scalar(ty.kind());
    let is_mask = |&mask: &Type| (mask.kind(), mask.lanes()) == (Kind::Pred, ty.lanes());
    match values.iter().all(is_operand) && mask.len() <= 1 && mask.iter().all(is_mask) {
        true => Ok(()),
        false => Err("has operands of other types".into()),
    }
}

/// Checks the type in memory of an access against the type of the values.
fn accessed(access: Access, ty: Option<Type>) -> Result<(), String> {
    let (held, Some(ty)) = (access.memory.held(), ty) else {
        return Ok(());
    };
    let is_wider = !ty.is_float() && !held.is_float() && ty.lane_bits() > held.lane_bits();
    let is_usable =
        !matches!(access.memory, OpType::None | OpType::Pred) && access.memory.bits() >= 8;
    match is_usable && ty.kind() != Kind::Pred && (is_wider || ty.kind() == held.kind()) {
        true => Ok(()),
        false => Err(format!("{} in memory does not fit {ty}", access.memory)),
    }
}
