//! Inserts code that, before each call, saves the values that are live across the call. The code does not save a value
//! that is rematerialised, or that a call which dominates this call has already saved. After the call, the code loads
//! or rematerialises the values as new SSA values.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::code::{Code, cvta};
use super::frame::{self, Open, set_args};
use crate::analysis::cfg::remove_unreachable;
use crate::analysis::regions::rematerialised;
use crate::analysis::{Cfg, Dominators, liveness, slots};
use crate::entity::{Block, Inst, SecondaryMap, Value};
use crate::function::{Function, ValueDef, payload_slot};
use crate::pass::variables::{self, Variable, Variables, Walker};
use margay_ops::mods::Mode;
use margay_ops::ops::Opcode;
use margay_ops::types::Type;

/// A value that is live across calls.
#[derive(Debug)]
struct Kept {
    value: Value,
    home: Block,
    /// Blocks at whose start the value is live.
    live: FxHashSet<Block>,
    /// The indices of the calls across which the value is live.
    at: Vec<usize>,
    how: How,
}

/// The way in which a value is restored after a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// The value is the stack pointer, which the code after each call computes again.
    Pointer,
    /// The value is rematerialised.
    Again,
    /// The value is loaded from this offset in the frame.
    Saved(u32),
}

/// Prepares a function for the replacement of its calls, and returns the size of the function's frame in bytes.
/// Afterwards the last operand of each call is the callee's stack pointer.
pub(super) fn keep(function: &mut Function) -> u32 {
    let open = frame::open(function);
    let cfg = remove_unreachable(function);
    let dominators = Dominators::new(&cfg);
    let mut kept = find(function, &cfg, &open);
    let saved: Vec<usize> = (0..kept.len())
        .filter(|&i| matches!(kept[i].how, How::Saved(_)))
        .collect();
    let types: Vec<Type> = saved
        .iter()
        .map(|&i| function.dfg.ty(kept[i].value))
        .collect();
    let at: Vec<Vec<usize>> = saved.iter().map(|&i| kept[i].at.clone()).collect();
    let (places, mut bytes) = frame::places(function, &types, &at);
    for (&i, place) in saved.iter().zip(places) {
        kept[i].how = How::Saved(place);
    }
    if !open.sites.is_empty() {
        // The frame of a function with calls has at least 16 bytes, so that unlimited recursion exhausts the stack.
        bytes = bytes.max(16);
    }
    let again = write(function, (&cfg, &dominators), &open, &kept, bytes);
    rename(function, &cfg, &dominators, &kept, again);
    match open.slot {
        Some(slot) => function.slots[slot].size = bytes,
        None => place_slots(function),
    }
    crate::edit::resolve_aliases(function);
    bytes
}

fn find(function: &Function, cfg: &Cfg, open: &Open) -> Vec<Kept> {
    let remat = rematerialised(function, cfg);
    let mut kept = Vec::new();
    let nothing = |_: Value| false;
    liveness::live_in(
        function,
        cfg,
        |_| false,
        nothing,
        |range| {
            let tails = open.sites.iter().enumerate();
            let at =
                tails.filter(|(_, site)| cfg.is_reachable(site.tail) && range.enters(site.tail));
            let at: Vec<usize> = at.map(|(number, _)| number).collect();
            if at.is_empty() {
                return;
            }
            let how = match range.value {
                value if remat[value] => How::Again,
                value if value == open.pointer => How::Pointer,
                _ => How::Saved(0),
            };
            let live = cfg.rpo().iter().copied();
            kept.push(Kept {
                value: range.value,
                home: range.home,
                live: live.filter(|&block| range.enters(block)).collect(),
                at,
                how,
            });
        },
    );
    kept
}

/// A new definition at the start of a block: the block, the index of the [`Kept`] value, and the
/// new value.
type Again = (Block, usize, Value);

/// Inserts code that saves values before each call, and code that restores the values after the
/// call. Returns the new definitions of the values that are live across calls.
fn write(
    function: &mut Function,
    (cfg, dominators): (&Cfg, &Dominators),
    open: &Open,
    kept: &[Kept],
    bytes: u32,
) -> Vec<Again> {
    let mut again = Vec::new();
    for (number, site) in open.sites.iter().enumerate() {
        if !cfg.is_reachable(site.block) {
            continue;
        }
        let here = |kept: &&Kept| kept.at.contains(&number);
        let loc = function.dfg.locs[site.call];
        let mut code = Code::new(function, loc);
        for one in kept.iter().filter(here) {
            let How::Saved(place) = one.how else { continue };
            let is_there = |&other: &usize| {
                let other = open.sites[other].tail;
                dominators.dominates(cfg, other, site.block)
            };
            if !one.at.iter().any(is_there) {
                let address = code.beyond(open.pointer, place);
                code.store(address, one.value);
            }
        }
        let callee = code.beyond(open.pointer, bytes);
        let saves = code.insts;
        let mut args: SmallVec<[Value; 8]> = SmallVec::from_slice(function.dfg.args(site.call));
        if let Some(last) = args.last_mut() {
            *last = callee;
        }
        set_args(function, site.call, &args);
        let end = function.insts(site.block).len() - 2;
        function.layout.insts[site.block].splice(end..end, saves);

        let mut made: FxHashMap<Value, Value> = FxHashMap::default();
        let mut code = Code::new(function, loc);
        let pointer = match open.slot {
            Some(_) => compute(&mut code, open.pointer, &mut made),
            None => code.before(site.back, bytes),
        };
        made.insert(open.pointer, pointer);
        for (index, one) in kept.iter().enumerate().filter(|(_, one)| here(one)) {
            let value = match one.how {
                How::Pointer => pointer,
                How::Again => compute(&mut code, one.value, &mut made),
                How::Saved(place) => {
                    let address = code.beyond(pointer, place);
                    let ty = code.function.dfg.ty(one.value);
                    code.load(address, ty)
                }
            };
            again.push((site.tail, index, value));
        }
        let loads = code.insts;
        function.layout.insts[site.tail].splice(0..0, loads);
    }
    again
}

/// Rematerialises a value: creates copies of the operations that compute the value. Reuses copies that `made` already
/// contains, and adds the new copies to `made`.
fn compute(code: &mut Code<'_>, value: Value, made: &mut FxHashMap<Value, Value>) -> Value {
    if let Some(&known) = made.get(&value) {
        return known;
    }
    let Some(inst) = code.function.dfg.def_inst(value) else {
        return value;
    };
    let args: SmallVec<[Value; 8]> = SmallVec::from_slice(code.function.dfg.args(inst));
    let args: SmallVec<[Value; 8]> = args.iter().map(|&arg| compute(code, arg, made)).collect();
    let (desc, ty) = {
        let dfg = &code.function.dfg;
        (dfg.insts[inst].desc(), dfg.ty(value))
    };
    let new = code.op(desc, &args, ty);
    made.insert(value, new);
    new
}

/// Replaces each use of a value that is live across calls by the definition that reaches the use.
fn rename(
    function: &mut Function,
    cfg: &Cfg,
    dominators: &Dominators,
    kept: &[Kept],
    again: Vec<Again>,
) {
    let mut defined: SecondaryMap<Block, Vec<(usize, Value)>> = SecondaryMap::default();
    let mut writes: Vec<Vec<Block>> = kept.iter().map(|one| vec![one.home]).collect();
    for (block, number, value) in again {
        defined[block].push((number, value));
        writes[number].push(block);
    }
    let all: Vec<Variable> = kept
        .iter()
        .zip(writes)
        .map(|(one, writes)| Variable {
            ty: function.dfg.ty(one.value),
            writes,
            live: one.live.clone(),
        })
        .collect();
    let mut renamer = Renamer {
        variables: Variables::place(function, cfg, dominators, all),
        function,
        number: kept
            .iter()
            .enumerate()
            .map(|(i, one)| (one.value, i))
            .collect(),
        defined,
    };
    variables::walk(&mut renamer, cfg, dominators);
}

struct Renamer<'a> {
    function: &'a mut Function,
    variables: Variables,
    number: FxHashMap<Value, usize>,
    defined: SecondaryMap<Block, Vec<(usize, Value)>>,
}

impl Renamer<'_> {
    fn now(&self, value: Value) -> Value {
        let number = self.number.get(&value);
        number
            .and_then(|&number| self.variables.get(number))
            .unwrap_or(value)
    }

    fn define(&mut self, value: Value) {
        if let Some(&number) = self.number.get(&value) {
            self.variables.set(number, value);
        }
    }

    fn operands(&mut self, inst: Inst) {
        let list = self.function.dfg.insts[inst].args;
        for i in 0..self.function.dfg.pool.get(list).len() {
            let value = self.now(self.function.dfg.pool.get(list)[i]);
            self.function.dfg.pool.get_mut(list)[i] = value;
        }
        let Some(mut calls) = self.function.dfg.targets.remove(&inst) else {
            return;
        };
        for call in &mut calls {
            for arg in &mut call.args {
                *arg = self.now(*arg);
            }
            let params = self.variables.params(call.block);
            let values = params.iter().filter_map(|&(n, _)| self.variables.get(n));
            call.args.extend(values);
        }
        self.function.dfg.targets.insert(inst, calls);
    }
}

impl Walker for Renamer<'_> {
    fn variables(&mut self) -> &mut Variables {
        &mut self.variables
    }

    fn block(&mut self, block: Block) {
        for param in self.function.dfg.blocks[block].params.clone() {
            self.define(param);
        }
        for (number, value) in self.defined[block].clone() {
            self.variables.set(number, value);
        }
        for inst in self.function.insts(block).to_vec() {
            self.operands(inst);
            let results: SmallVec<[Value; 4]> =
                SmallVec::from_slice(self.function.dfg.results(inst));
            for result in results {
                self.define(result);
            }
        }
    }
}

/// Replaces the slots of a called function by offsets in its frame.
fn place_slots(function: &mut Function) {
    let offsets = slots::layout(function).0;
    let mut generic: FxHashMap<Value, Value> = FxHashMap::default();
    for block in function.blocks().to_vec() {
        let mut insts = Vec::with_capacity(function.insts(block).len());
        for inst in function.insts(block).to_vec() {
            let data = function.dfg.insts[inst];
            if data.opcode == Opcode::LocalAddr {
                let offset = offsets[payload_slot(data.payload())];
                let (pointer, result) = (function.dfg.args(inst)[0], function.dfg.results(inst)[0]);
                let loc = function.dfg.locs[inst];
                let mut code = Code::new(function, loc);
                let address = code.beyond(pointer, offset);
                insts.append(&mut code.insts);
                let desc = cvta(Mode::To);
                let data = &mut function.dfg.insts[inst];
                (data.opcode, data.ty, data.mods) = (desc.opcode, desc.ty, desc.mods);
                set_args(function, inst, &[address]);
                generic.insert(result, address);
            }
            insts.push(inst);
        }
        function.layout.insts[block] = insts;
    }
    for inst in function
        .blocks()
        .iter()
        .flat_map(|&b| function.insts(b).to_vec())
        .collect::<Vec<_>>()
    {
        if function.dfg.insts[inst].desc() != cvta(Mode::None) {
            continue;
        }
        if let Some(&address) = generic.get(&function.dfg.args(inst)[0]) {
            let result = function.dfg.results(inst)[0];
            function.dfg.values[result].def = ValueDef::Alias(address);
        }
    }
    for block in function.blocks().to_vec() {
        let dfg = &function.dfg;
        let replaced = |inst: &Inst| match dfg.results(*inst) {
            &[result] => matches!(dfg.values[result].def, ValueDef::Alias(_)),
            _ => false,
        };
        let is_cvta = |inst: &Inst| dfg.insts[*inst].opcode == Opcode::Cvta;
        function.layout.insts[block].retain(|inst| !(is_cvta(inst) && replaced(inst)));
    }
    function.slots = Default::default();
}
