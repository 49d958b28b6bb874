//! Follows the uses of values. Determines whether a loaded value controls a loop, and whether a compare-and-swap
//! expects the loaded value.

use margay_ops::mods::AtomOp;
use margay_ops::ops::Opcode;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::analysis::loops::Loops;
use crate::entity::{Block, Inst, SecondaryMap, Value};
use crate::function::Function;

/// A use of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Use {
    /// An operand of an instruction.
    Operand(Inst),
    /// An argument that a branch passes to this block parameter.
    Parameter(Value),
}

/// The uses of the values of a function without aliases.
#[derive(Debug)]
pub(super) struct Flow {
    uses: FxHashMap<Value, Vec<Use>>,
    /// For each block parameter, the values that branches pass to it, each with the block of the branch.
    passed: FxHashMap<Value, Vec<(Block, Value)>>,
    /// The block of each instruction.
    pub(super) home: SecondaryMap<Inst, Option<Block>>,
    /// The position of each instruction in its block, at the time when this `Flow` was created.
    pub(super) position: SecondaryMap<Inst, u32>,
}

/// Maximum number of values that a search follows from one access.
const MOST: usize = 64;

impl Flow {
    pub(super) fn new(function: &Function) -> Flow {
        let dfg = &function.dfg;
        let mut flow = Flow {
            uses: FxHashMap::default(),
            passed: FxHashMap::default(),
            home: SecondaryMap::default(),
            position: SecondaryMap::default(),
        };
        for &block in function.blocks() {
            for (&inst, position) in function.insts(block).iter().zip(0..) {
                flow.position[inst] = position;
                flow.home[inst] = Some(block);
                for &value in dfg.args(inst) {
                    flow.add(dfg.resolve(value), Use::Operand(inst));
                }
                for call in dfg.targets(inst) {
                    let params = &dfg.blocks[call.block].params;
                    for (&value, &param) in call.args.iter().zip(params) {
                        flow.add(dfg.resolve(value), Use::Parameter(param));
                        let passed = flow.passed.entry(param).or_default();
                        passed.push((block, dfg.resolve(value)));
                    }
                }
            }
        }
        flow
    }

    fn add(&mut self, value: Value, by: Use) {
        self.uses.entry(value).or_default().push(by);
    }

    /// Returns the uses of a value.
    pub(super) fn uses(&self, value: Value) -> &[Use] {
        self.uses.get(&value).map_or(&[], Vec::as_slice)
    }

    /// Returns whether the innermost loop around an access exits depending on the result of the
    /// access, and can read the same address again. Such a loop waits for a value in memory. If the
    /// search follows too many values, returns false.
    pub(super) fn is_polled(&self, function: &Function, loops: &Loops, access: Inst) -> bool {
        let Some(number) = self.home[access].and_then(|block| loops.innermost(block)) else {
            return false;
        };
        let is_inside = |block: &Block| loops.contains(number, *block);
        let mut work = function.dfg.results(access).to_vec();
        let mut seen: FxHashSet<Value> = work.iter().copied().collect();
        while let Some(value) = work.pop() {
            for &user in self.uses(value) {
                let reached: &[Value] = match user {
                    Use::Parameter(ref param) => std::slice::from_ref(param),
                    Use::Operand(inst) if !self.home[inst].as_ref().is_some_and(is_inside) => &[],
                    Use::Operand(inst) => {
                        let mut targets = function.dfg.targets(inst).iter();
                        if targets.any(|call| !is_inside(&call.block)) {
                            return !self.moves(function, loops, (number, access));
                        }
                        match function.effects(inst).is_pure() {
                            true => function.dfg.results(inst),
                            false => &[],
                        }
                    }
                };
                let new = reached.iter().filter(|&&value| seen.insert(value));
                work.extend(new);
                if seen.len() > MOST {
                    return false;
                }
            }
        }
        false
    }

    /// Returns whether the address of an access in a loop changes with each iteration: it is computed from a parameter
    /// of the loop's header to which each iteration adds a constant. Such a loop searches memory and does not wait.
    fn moves(&self, function: &Function, loops: &Loops, (number, access): (usize, Inst)) -> bool {
        let dfg = &function.dfg;
        let Some(&address) = dfg.args(access).first() else {
            return false;
        };
        let header = loops.order[loops.loops[number].start as usize];
        let mut work = vec![dfg.resolve(address)];
        let mut seen: FxHashSet<Value> = work.iter().copied().collect();
        while let Some(value) = work.pop() {
            if dfg.blocks[header].params.contains(&value) {
                if self.steps(function, |block| loops.contains(number, block), value) {
                    return true;
                }
                continue;
            }
            let Some(inst) = dfg.def_inst(value) else {
                continue;
            };
            let is_inside = self.home[inst].is_some_and(|block| loops.contains(number, block));
            let opcode = dfg.insts[inst].opcode;
            if is_inside && (opcode == Opcode::CheckAccess || function.effects(inst).is_pure()) {
                let args = dfg.args(inst).iter().map(|&value| dfg.resolve(value));
                work.extend(args.filter(|&value| seen.insert(value)));
            }
            if seen.len() > MOST {
                return false;
            }
        }
        false
    }

    /// Returns whether each branch from inside a loop passes to a parameter of the loop's header the
    /// value of the parameter plus a constant other than 0.
    fn steps(&self, function: &Function, is_inside: impl Fn(Block) -> bool, param: Value) -> bool {
        let passed = self.passed.get(&param).into_iter().flatten();
        let mut next = passed.filter(|(block, _)| is_inside(*block)).peekable();
        next.peek().is_some()
            && next.all(|&(_, value)| {
                let (base, by) = place(function, value);
                base == param && by != 0
            })
    }

    /// Returns whether a compare-and-swap at the address of a load uses the loaded value as its expected value. If
    /// another thread changes the memory between the load and the swap, the swap fails and returns the new value.
    pub(super) fn is_expected_by_swap(&self, function: &Function, load: Inst) -> bool {
        let dfg = &function.dfg;
        let address = place(function, dfg.args(load)[0]);
        let mut work = dfg.results(load).to_vec();
        let mut seen: FxHashSet<Value> = work.iter().copied().collect();
        while let Some(value) = work.pop() {
            for &user in self.uses(value) {
                let inst = match user {
                    Use::Parameter(param) => {
                        if seen.insert(param) && seen.len() <= MOST {
                            work.push(param);
                        }
                        continue;
                    }
                    Use::Operand(inst) => inst,
                };
                let data = &dfg.insts[inst];
                match (data.opcode, dfg.args(inst)) {
                    (Opcode::Atom, &[at, expected, _])
                        if data.mods.atom_op() == AtomOp::Cas
                            && dfg.resolve(expected) == value
                            && place(function, at) == address =>
                    {
                        return true;
                    }
                    (Opcode::Bitcast, _) => {
                        work.extend(dfg.results(inst).iter().filter(|&&v| seen.insert(v)));
                    }
                    _ => {}
                }
            }
        }
        false
    }
}

/// Splits an address into a value and a constant offset. Follows additions of constants, checks of
/// the address, and conversions between generic addresses and addresses of a state space back to
/// their operands.
fn place(function: &Function, address: Value) -> (Value, u64) {
    let dfg = &function.dfg;
    let (mut value, mut offset) = (dfg.resolve(address), 0u64);
    while let Some(inst) = dfg.def_inst(value) {
        value = match (dfg.insts[inst].opcode, dfg.args(inst)) {
            (Opcode::Cvta, &[of]) => of,
            (Opcode::CheckAccess, &[of, ..]) => of,
            (Opcode::Add, &[of, by]) => match dfg.constant(dfg.resolve(by)) {
                Some(by) => {
                    offset = offset.wrapping_add(by);
                    of
                }
                None => break,
            },
            _ => break,
        };
        value = dfg.resolve(value);
    }
    (value, offset)
}
