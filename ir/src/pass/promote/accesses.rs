//! Finds the slots whose addresses do not escape, and the accesses to each piece of these slots.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Access, MAX_PIECES, Piece, Plan};
use crate::analysis::Cfg;
use crate::entity::{Block, Inst, Slot, Value};
use crate::function::{Function, payload_slot};
use margay_ops::mods::{Mode, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};

/// An address inside a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Address {
    slot: Slot,
    offset: i64,
    /// Whether the address is generic; otherwise it is an address of local memory.
    generic: bool,
}

/// A piece: slot, offset and size in bytes.
type Key = (Slot, i64, i64);

/// An access, and the piece of the slot that each of its elements accesses.
struct Candidate {
    block: Block,
    inst: Inst,
    keys: Vec<Key>,
}

/// What a walk over a function has found: addresses of slots, slots whose addresses escape, and
/// accesses that can be promoted.
#[derive(Default)]
struct Found {
    addresses: FxHashMap<Value, Address>,
    escaped: FxHashSet<Slot>,
    candidates: Vec<Candidate>,
}

pub(super) fn plan(function: &Function) -> Plan {
    let cfg = Cfg::new(function);
    let mut found = Found::default();
    // Definitions come before uses in reverse postorder.
    for &block in cfg.rpo() {
        for &inst in function.insts(block) {
            found.visit(function, block, inst);
        }
    }
    found.into_plan(function)
}

impl Found {
    fn visit(&mut self, function: &Function, block: Block, inst: Inst) {
        let dfg = &function.dfg;
        for call in dfg.targets(inst) {
            for value in &call.args {
                self.escape(*value);
            }
        }
        let address = match self.moved(function, inst) {
            Some(address) => address,
            None => return self.access(function, block, inst),
        };
        if let [result] = dfg.results(inst) {
            self.addresses.insert(*result, address);
        }
    }

    fn escape(&mut self, value: Value) {
        if let Some(address) = self.addresses.get(&value) {
            self.escaped.insert(address.slot);
        }
    }

    /// If an instruction computes an address in a slot, returns this address.
    fn moved(&self, function: &Function, inst: Inst) -> Option<Address> {
        let dfg = &function.dfg;
        let data = &dfg.insts[inst];
        let known = |v: Value| self.addresses.get(&v).copied();
        match (data.opcode, dfg.args(inst)) {
            (Opcode::LocalAddr, _) => Some(Address {
                slot: payload_slot(data.payload()),
                offset: 0,
                generic: false,
            }),
            (Opcode::Add, &[a, b]) if is_plain_64(data.ty) => {
                let (address, amount) = match (known(a), known(b)) {
                    (Some(address), None) => (address, dfg.constant(b)?),
                    (None, Some(address)) => (address, dfg.constant(a)?),
                    _ => return None,
                };
                let offset = address.offset.checked_add(amount as i64)?;
                Some(Address { offset, ..address })
            }
            (Opcode::Sub, &[a, b]) if is_plain_64(data.ty) => {
                let address = known(a)?;
                let offset = address.offset.checked_sub(dfg.constant(b)? as i64)?;
                Some(Address { offset, ..address })
            }
            (Opcode::Cvta, &[a])
                if data.mods.space() == StateSpace::Local && data.ty == OpType::U64 =>
            {
                let to_local = data.mods.mode() == Mode::To;
                let address = known(a)?;
                (address.generic == to_local).then_some(Address {
                    generic: !to_local,
                    ..address
                })
            }
            _ => None,
        }
    }

    /// If `inst` is a load or store at a known address in a slot, and the access can be promoted, records it as a
    /// candidate. Every other use of such an address, including a load or store that cannot be promoted, marks the slot
    /// as escaped.
    fn access(&mut self, function: &Function, block: Block, inst: Inst) {
        let dfg = &function.dfg;
        let args = dfg.args(inst);
        let loads_or_stores = matches!(dfg.insts[inst].opcode, Opcode::Ld | Opcode::St);
        let address = args.first().and_then(|v| self.addresses.get(v)).copied();
        for &value in &args[usize::from(loads_or_stores && address.is_some())..] {
            self.escape(value);
        }
        let Some(address) = address.filter(|_| loads_or_stores) else {
            return;
        };
        match elements(function, inst, address) {
            Some(keys) => self.candidates.push(Candidate { block, inst, keys }),
            None => {
                self.escaped.insert(address.slot);
            }
        }
    }

    fn into_plan(self, function: &Function) -> Plan {
        let escaped = &self.escaped;
        let inside = |c: &Candidate| c.keys.iter().all(|(slot, ..)| !escaped.contains(slot));
        let mut candidates: Vec<Candidate> = self.candidates.into_iter().filter(inside).collect();
        let mut keep = apart(&candidates);
        // An access is promoted only if all its elements are promoted.
        loop {
            let before = candidates.len();
            candidates.retain(|c| {
                let whole = c.keys.iter().all(|key| keep.contains(key));
                if !whole {
                    for key in &c.keys {
                        keep.remove(key);
                    }
                }
                whole
            });
            if candidates.len() == before {
                break;
            }
        }
        let mut plan = Plan::default();
        let mut numbers: FxHashMap<Key, usize> = FxHashMap::default();
        for candidate in &candidates {
            let ty = value_type(function, candidate.inst);
            for &key in &candidate.keys {
                let number = *numbers.entry(key).or_insert_with(|| {
                    plan.pieces.push(Piece { ty });
                    plan.pieces.len() - 1
                });
                let piece = &mut plan.pieces[number];
                if piece.ty != ty {
                    piece.ty = Type::bits_of(ty.lane_bits()).unwrap_or(ty);
                }
            }
        }
        for candidate in candidates {
            let pieces = candidate.keys.iter().map(|key| numbers[key]).collect();
            plan.accesses.push(Access {
                block: candidate.block,
                inst: candidate.inst,
                pieces,
            });
        }
        plan
    }
}

fn is_plain_64(ty: OpType) -> bool {
    matches!(ty, OpType::U64 | OpType::S64)
}

/// Returns the pieces that an access reads or writes; `None` if the access cannot be promoted.
fn elements(function: &Function, inst: Inst, address: Address) -> Option<Vec<Key>> {
    let data = &function.dfg.insts[inst];
    let space = if address.generic {
        StateSpace::None
    } else {
        StateSpace::Local
    };
    let weak = data.mods.is_weak();
    let bits = data.ty.bits();
    if !weak || data.mods.space() != space || !matches!(bits, 8 | 16 | 32 | 64) {
        return None;
    }
    let (bytes, count) = (i64::from(bits / 8), i64::from(data.mods.vec()));
    let slot = function.slots.get(address.slot)?;
    let end = address.offset.checked_add(bytes * count)?;
    let aligned = address.offset % (bytes * count) == 0 && i64::from(slot.align) >= bytes * count;
    if address.offset < 0 || end > i64::from(slot.size) || !aligned {
        return None;
    }
    let values = match data.opcode {
        Opcode::Ld => function.dfg.results(inst),
        _ => &function.dfg.args(inst)[1..],
    };
    let fits = |v: &Value| {
        let actual = function.dfg.ty(*v).lane_bits();
        actual == bits || actual > bits && actual <= 64
    };
    if !values.iter().all(fits) {
        return None;
    }
    let keys = (0..count).map(|i| (address.slot, address.offset + i * bytes, bytes));
    Some(keys.collect())
}

/// Returns the type that the variable of a piece would have if `inst` were its only access: a floating-point type if
/// the accessed values are floating-point, and an integer type otherwise.
fn value_type(function: &Function, inst: Inst) -> Type {
    let data = &function.dfg.insts[inst];
    let value = match data.opcode {
        Opcode::Ld => function.dfg.results(inst).first(),
        _ => function.dfg.args(inst).get(1),
    };
    let bits = Type::bits_of(data.ty.bits()).unwrap_or(Type::B64);
    match value.map(|&v| function.dfg.ty(v)) {
        Some(ty) if ty.is_float() => ty,
        _ => bits,
    }
}

/// Returns the pieces that no other piece overlaps, but at most [`MAX_PIECES`] pieces.
fn apart(candidates: &[Candidate]) -> FxHashSet<Key> {
    let keys = candidates.iter().flat_map(|c| c.keys.iter().copied());
    let mut keys: Vec<Key> = keys.collect();
    keys.sort_unstable();
    keys.dedup();
    let mut kept = FxHashSet::default();
    let mut start = 0;
    while start < keys.len() {
        // The pieces are sorted by offset. Find the end of the sequence of overlapping pieces that begins with the
        // piece at `start`.
        let slot = keys[start].0;
        let mut reach = keys[start].1 + keys[start].2;
        let mut end = start + 1;
        while end < keys.len() && keys[end].0 == slot && keys[end].1 < reach {
            reach = reach.max(keys[end].1 + keys[end].2);
            end += 1;
        }
        if end == start + 1 && kept.len() < MAX_PIECES {
            kept.insert(keys[start]);
        }
        start = end;
    }
    kept
}

/// Removes instructions that compute unused addresses of slots. Then sets to 0 the size of each slot whose address no
/// instruction computes.
pub(super) fn drop_unused(function: &mut Function) {
    let cfg = Cfg::new(function);
    let mut found = Found::default();
    for &block in cfg.rpo() {
        for &inst in function.insts(block) {
            found.visit(function, block, inst);
        }
    }
    let mut used: FxHashSet<Value> = FxHashSet::default();
    for &block in cfg.rpo().iter().rev() {
        for &inst in function.insts(block).iter().rev() {
            let results = function.dfg.results(inst);
            let idle = |v: &Value| found.addresses.contains_key(v) && !used.contains(v);
            if results.is_empty() || !results.iter().all(idle) {
                used.extend(function.dfg.args(inst));
                used.extend(function.dfg.targets(inst).iter().flat_map(|c| &c.args));
            }
        }
    }
    let mut named = FxHashSet::default();
    for block in function.blocks().to_vec() {
        let dfg = &function.dfg;
        function.layout.insts[block].retain(|&inst| match dfg.results(inst) {
            [result] => !found.addresses.contains_key(result) || used.contains(result),
            _ => true,
        });
        for &inst in function.insts(block) {
            let data = &function.dfg.insts[inst];
            if data.opcode == Opcode::LocalAddr {
                named.insert(payload_slot(data.payload()));
            }
        }
    }
    for slot in function.slots.keys() {
        if !named.contains(&slot) {
            function.slots[slot].size = 0;
        }
    }
}
