//! The interpreter, which defines the results of programs.
//!
//! It follows the op table: an op with a reference function returns that function's result, a `map` applies the IR's
//! reference function to each lane, and this module implements the rest. It is for tests of back ends and passes, not
//! for speed.
//!
//! Invariant: the interpreter does not panic on a function that passes [`crate::verify`], for any arguments of the types
//! of its parameters.

use margay_ir::entity::{Inst, SecondaryMap, Value};
use margay_ir::function::BlockCall;
use margay_ops::meaning::{Bits, mask as ones, sign_extend};
use margay_ops::types::Kind;
use smallvec::{SmallVec, smallvec};

use crate::data::{Access, Data, lane_mask, lanes_of};
use crate::function::Function;
use crate::meaning::{self, Lanes, lane};
use crate::ops::Op;

/// What a program uses besides its arguments.
pub trait Environment {
    /// Reads `bytes` bytes, at most 16; `None` if they are not accessible.
    fn load(&mut self, address: u64, bytes: u32) -> Option<Bits>;
    /// Writes the low `bytes` bytes of `value`; `None` if they are not accessible.
    fn store(&mut self, address: u64, bytes: u32, value: Bits) -> Option<()>;
    /// Returns the address of slot `slot`.
    fn slot(&mut self, slot: usize) -> u64;
    /// Calls helper `helper` and writes its results; `None` if the helper ends the program.
    fn call(&mut self, helper: usize, args: &[Bits], results: &mut [Bits]) -> Option<()>;
}

/// Why a program ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The program accessed bytes that are not accessible.
    Memory {
        /// The address.
        address: u64,
        /// The number of bytes.
        bytes: u32,
    },
    /// A `trap` or `trap.if`, with its number.
    Trap(u64),
    /// A helper ended the program.
    Helper(u64),
    /// The program executed more instructions than allowed.
    Steps,
}

/// The end of a program by a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The place of the instruction.
    pub place: u64,
    /// The lane; 0 for scalar instructions.
    pub lane: u32,
    /// The cause.
    pub cause: Cause,
}

/// Runs a function, which must pass [`crate::verify`]. `args` are the lanes of each argument, and the result contains the
/// lanes of each returned value. The program may execute `steps` instructions.
///
/// # Errors
///
/// Returns the fault that ended the program.
pub fn run(
    function: &Function,
    args: &[Lanes],
    environment: &mut dyn Environment,
    steps: u64,
) -> Result<Vec<Lanes>, Fault> {
    let mut run = Run {
        function,
        environment,
        values: SecondaryMap::default(),
    };
    let mut block = function.entry();
    for (&param, lanes) in function.blocks[block].iter().zip(args) {
        run.values[param] = lanes.clone();
    }
    let mut left = steps;
    loop {
        let mut next = None;
        for &inst in &function.body[block] {
            left = match left.checked_sub(1) {
                Some(left) => left,
                None => return Err(run.fault(inst, 0, Cause::Steps)),
            };
            match run.step(inst)? {
                Step::Next => {}
                Step::Goto(target) => next = function.targets(inst).get(target),
                Step::Return => return Ok(run.operands(inst).to_vec()),
            }
        }
        let Some(call) = next else {
            // The verifier ensures that each block ends with a terminator.
            return Ok(Vec::new());
        };
        run.pass(call);
        block = call.block;
    }
}

enum Step {
    Next,
    Goto(usize),
    Return,
}

struct Run<'a> {
    function: &'a Function,
    environment: &'a mut dyn Environment,
    values: SecondaryMap<Value, Lanes>,
}

impl Run<'_> {
    fn fault(&self, inst: Inst, lane: u32, cause: Cause) -> Fault {
        Fault {
            place: self.function.places[inst],
            lane,
            cause,
        }
    }

    fn operands(&self, inst: Inst) -> SmallVec<[Lanes; 4]> {
        let args = self.function.args(inst).iter();
        args.map(|&value| self.values[value].clone()).collect()
    }

    fn pass(&mut self, call: &BlockCall) {
        let passed: Vec<Lanes> = call
            .args
            .iter()
            .map(|&value| self.values[value].clone())
            .collect();
        for (&param, lanes) in self.function.blocks[call.block].iter().zip(passed) {
            self.values[param] = lanes;
        }
    }

    fn define(&mut self, inst: Inst, results: impl IntoIterator<Item = Lanes>) {
        for (&result, lanes) in self.function.results(inst).iter().zip(results) {
            self.values[result] = lanes;
        }
    }

    fn step(&mut self, inst: Inst) -> Result<Step, Fault> {
        let data = &self.function.insts[inst];
        let args = self.operands(inst);
        let scalar = |index: usize| args.get(index).map_or(0, |lanes| lane(lanes, 0));
        if let Some(reference) = data.op.row().meaning {
            self.define(inst, [reference(data.ty, &data.data, &args)]);
            return Ok(Step::Next);
        }
        let number = data.data.number();
        match data.op {
            Op::Map => self.map(inst, &args),
            Op::Product => self.product(inst, &args),
            Op::SlotAddr => {
                let address = self.environment.slot(number as usize);
                self.define(inst, [smallvec![address.into()]]);
            }
            Op::Load | Op::Gather => self.load(inst, &args)?,
            Op::Store | Op::Scatter => self.store(inst, &args)?,
            Op::Update => self.update(inst, &args)?,
            Op::Call | Op::CallLanes => self.call(inst, &args)?,
            Op::TrapIf if scalar(0) != 0 => return Err(self.fault(inst, 0, Cause::Trap(number))),
            Op::TrapIf | Op::Fence => {}
            Op::Trap => return Err(self.fault(inst, 0, Cause::Trap(number))),
            Op::Jump => return Ok(Step::Goto(0)),
            Op::Brif => return Ok(Step::Goto(usize::from(scalar(0) == 0))),
            Op::BrTable => {
                let index = scalar(0) as usize + 1;
                let is_known = index < self.function.targets(inst).len();
                return Ok(Step::Goto(if is_known { index } else { 0 }));
            }
            Op::Ret => return Ok(Step::Return),
            // The other ops have a reference function.
            _ => debug_assert!(false, "{:?} has no meaning", data.op),
        }
        Ok(Step::Next)
    }

    fn map(&mut self, inst: Inst, args: &[Lanes]) {
        let data = &self.function.insts[inst];
        let Data::Lane(desc) = data.data else {
            return;
        };
        let count = self.function.results(inst).len();
        let results = meaning::map(&desc, lanes_of(data.ty), args, count);
        self.define(inst, results);
    }

    fn product(&mut self, inst: Inst, args: &[Lanes]) {
        let Data::Lane(desc) = self.function.insts[inst].data else {
            return;
        };
        let count = self.function.results(inst).len();
        let results = meaning::product(&desc, args, count);
        self.define(inst, results);
    }

    /// Returns the access of a memory instruction and, for each lane that accesses memory, its number and address. The
    /// operands begin with the address or with base and offsets; `fixed` operands precede the optional mask.
    fn addresses(
        &self,
        inst: Inst,
        args: &[Lanes],
        fixed: usize,
    ) -> (Access, SmallVec<[(usize, u64); 16]>) {
        let data = &self.function.insts[inst];
        let Data::Access(access) = data.data else {
            return (Access::new(Default::default(), 0), SmallVec::new());
        };
        let base = (lane(&args[0], 0) as u64).wrapping_add_signed(access.displacement.into());
        let offset = |n: usize| match data.op {
            Op::Gather | Op::Scatter => {
                let bits = self.function.ty(self.function.args(inst)[1]).lane_bits();
                sign_extend(lane(&args[1], n), bits) as i64
            }
            _ => n as i64,
        };
        let runs = |n: &usize| args.get(fixed).is_none_or(|mask| lane(mask, *n) != 0);
        let address = |n: usize| {
            (
                n,
                base.wrapping_add(offset(n).wrapping_mul(access.stride) as u64),
            )
        };
        (
            access,
            (0..lanes_of(data.ty)).filter(runs).map(address).collect(),
        )
    }

    fn load(&mut self, inst: Inst, args: &[Lanes]) -> Result<(), Fault> {
        let data = &self.function.insts[inst];
        let fixed = if data.op == Op::Gather { 2 } else { 1 };
        let (Access { memory, .. }, addresses) = self.addresses(inst, args, fixed);
        let mut lanes: Lanes = smallvec![0; lanes_of(data.ty)];
        for (n, address) in addresses {
            let bytes = memory.bits() / 8;
            let Some(bits) = self.environment.load(address, bytes) else {
                return Err(self.fault(inst, n as u32, Cause::Memory { address, bytes }));
            };
            let bits = bits & ones(memory.bits());
            lanes[n] = match memory.is_signed() {
                true => sign_extend(bits, memory.bits()) as Bits & lane_mask(data.ty),
                false => bits,
            };
        }
        self.define(inst, [lanes]);
        Ok(())
    }

    fn store(&mut self, inst: Inst, args: &[Lanes]) -> Result<(), Fault> {
        let value = if self.function.insts[inst].op == Op::Scatter {
            2
        } else {
            1
        };
        let (Access { memory, .. }, addresses) = self.addresses(inst, args, value + 1);
        for (n, address) in addresses {
            let bytes = memory.bits() / 8;
            let bits = lane(&args[value], n) & ones(memory.bits());
            if self.environment.store(address, bytes, bits).is_none() {
                return Err(self.fault(inst, n as u32, Cause::Memory { address, bytes }));
            }
        }
        Ok(())
    }

    /// Updates memory in each lane.
    fn update(&mut self, inst: Inst, args: &[Lanes]) -> Result<(), Fault> {
        let data = &self.function.insts[inst];
        let Data::Lane(desc) = data.data else {
            return Ok(());
        };
        let fixed = 2 + meaning::update_operands(&desc);
        let bytes = desc.ty.bits() / 8;
        let mut lanes: Lanes = smallvec![0; lanes_of(data.ty)];
        for n in 0..lanes_of(data.ty) {
            if args.get(fixed).is_some_and(|mask| lane(mask, n) == 0) {
                continue;
            }
            let address = (lane(&args[0], 0) as u64).wrapping_add(lane(&args[1], n) as u64);
            let fault = self.fault(inst, n as u32, Cause::Memory { address, bytes });
            let old = self.environment.load(address, bytes).ok_or(fault)?;
            let operands: SmallVec<[Bits; 2]> =
                args[2..fixed].iter().map(|arg| lane(arg, n)).collect();
            let new = meaning::updated(&desc, old, &operands);
            self.environment.store(address, bytes, new).ok_or(fault)?;
            lanes[n] = old;
        }
        self.define(inst, [lanes]);
        Ok(())
    }

    /// Calls a helper: once, or once for each lane of the mask, the first operand.
    fn call(&mut self, inst: Inst, args: &[Lanes]) -> Result<(), Fault> {
        let data = &self.function.insts[inst];
        let (mask, args) = match data.op {
            Op::CallLanes => (Some(&args[0]), &args[1..]),
            _ => (None, args),
        };
        let types: Vec<Kind> = self
            .function
            .results(inst)
            .iter()
            .map(|&v| self.function.ty(v).kind())
            .collect();
        let mut results: Vec<Lanes> = vec![smallvec![0; lanes_of(data.ty)]; types.len()];
        for n in (0..lanes_of(data.ty)).filter(|&n| mask.is_none_or(|mask| lane(mask, n) != 0)) {
            let operands: SmallVec<[Bits; 8]> = args.iter().map(|arg| lane(arg, n)).collect();
            let mut out: SmallVec<[Bits; 4]> = smallvec![0; types.len()];
            let helper = data.data.number();
            if self
                .environment
                .call(helper as usize, &operands, &mut out)
                .is_none()
            {
                return Err(self.fault(inst, n as u32, Cause::Helper(helper)));
            }
            for ((lanes, bits), kind) in results.iter_mut().zip(out).zip(&types) {
                lanes[n] = bits & ones(kind.bits());
            }
        }
        self.define(inst, results);
        Ok(())
    }
}
