//! Finds accesses to global memory through which lanes of a warp pass values to each other without a sync point.
//!
//! In contrast to [`super::places`], this analysis reports only what it can show: kernels access global memory often,
//! and nearly always each lane uses its own elements. An address is a sum of values with constant factors, of the
//! lane's number times the *stride*, and of a constant. Two accesses of different lanes meet if their sums have the
//! same values and factors, and the difference of the constants is the stride times a number of lanes other than 0. An
//! access of all lanes to one element (stride 0) meets an access in which one of the lanes uses this element.
//!
//! The analysis takes `tid.x` for the lane's number. For the warps behind the first one, this is exact except for
//! elements that all lanes use. It follows an address around a loop once: after the edge `p = p + 8` to the header, a
//! sum with the old `p` is a sum with the new `p` less 8.
//!
//! NVIDIA's cuSOLVER has a kernel that needs this: one warp writes a schedule of rotations row by row, and each row is
//! computed from the row before.

mod sums;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::entity::{Block, Inst, Value};
use crate::function::Function;
use margay_ops::mods::StateSpace;
use margay_ops::ops::Opcode;

use self::sums::{Form, Sum, sum_of};

/// Maximum number of locations in a set. A set that would have more becomes the set about which nothing is known.
const MOST_PLACES: usize = 16;
/// The largest distance between two lanes of a warp.
const FARTHEST: i64 = 31;

/// A location in global memory that an access of a lane uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place {
    /// Index into [`Neighbours::forms`].
    form: u32,
    offset: i64,
    /// Whether the sum was rewritten for the parameters of a block. Such a sum is not rewritten again, so that sets do
    /// not grow without a limit in loops.
    is_rewritten: bool,
}

/// A set of locations of which some lanes may have used.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Set {
    places: SmallVec<[Place; 2]>,
    /// Whether the set had too many locations; it then has none.
    is_full: bool,
}

impl Set {
    fn add(&mut self, place: Place) {
        if self.is_full || self.places.contains(&place) {
            return;
        }
        if self.places.len() == MOST_PLACES {
            self.is_full = true;
            self.places.clear();
            return;
        }
        self.places.push(place);
        self.places.sort_unstable();
    }

    fn add_all(&mut self, other: &Set) {
        if other.is_full {
            self.is_full = true;
            self.places.clear();
        }
        for &place in &other.places {
            self.add(place);
        }
    }
}

/// The accesses of a warp to global memory since the last sync point.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Used {
    reads: Set,
    writes: Set,
}

impl Used {
    pub(super) fn add_all(&mut self, other: &Used) {
        self.reads.add_all(&other.reads);
        self.writes.add_all(&other.writes);
    }
}

/// The accesses of a function to global memory, and what changes when control passes from block to block.
pub(super) struct Neighbours {
    forms: Vec<Form>,
    numbers: FxHashMap<Form, u32>,
    accesses: FxHashMap<Inst, (Place, bool)>,
    /// The values of the sums, and the instructions that define them.
    values: FxHashSet<Value>,
    definitions: FxHashMap<Inst, SmallVec<[Value; 1]>>,
    /// Sums of the arguments for parameters that are values of sums, by source and target of an edge.
    arguments: FxHashMap<(Block, Block), Vec<(Value, Sum)>>,
}

impl Neighbours {
    pub(super) fn new(function: &Function) -> Neighbours {
        let mut all = Neighbours {
            forms: Vec::new(),
            numbers: FxHashMap::default(),
            accesses: FxHashMap::default(),
            values: FxHashSet::default(),
            definitions: FxHashMap::default(),
            arguments: FxHashMap::default(),
        };
        let found = accesses(function);
        if !found.iter().any(|access| access.2) {
            return all;
        }
        for (inst, address, writes) in found {
            let sum = sum_of(function, address);
            all.values.extend(sum.form.values.iter().map(|&(v, _)| v));
            let place = all.place(sum, false);
            all.accesses.insert(inst, (place, writes));
        }
        for &value in &all.values {
            if let Some(inst) = function.dfg.def_inst(value) {
                all.definitions.entry(inst).or_default().push(value);
            }
        }
        for &block in function.blocks() {
            for call in function.successors(block) {
                let parameters = function.dfg.blocks[call.block].params.iter();
                let passed = parameters.zip(&call.args);
                let known = passed.filter(|(parameter, _)| all.values.contains(parameter));
                let sums = known.map(|(&p, &argument)| (p, sum_of(function, argument)));
                let edge = all.arguments.entry((block, call.block)).or_default();
                edge.extend(sums);
            }
        }
        all
    }

    fn place(&mut self, sum: Sum, is_rewritten: bool) -> Place {
        let next = self.forms.len() as u32;
        let form = *self.numbers.entry(sum.form).or_insert_with_key(|form| {
            self.forms.push(form.clone());
            next
        });
        Place {
            form,
            offset: sum.offset,
            is_rewritten,
        }
    }

    /// Returns whether a sync point is needed before `inst`, because the lane would use what another lane wrote since
    /// the last sync point, or change what another lane has not read yet. Adds the access of `inst` to `used`.
    pub(super) fn step(&self, used: &mut Used, inst: Inst) -> bool {
        if let Some(values) = self.definitions.get(&inst) {
            for set in [&mut used.reads, &mut used.writes] {
                set.places
                    .retain(|place| !values.iter().any(|&v| self.contains(place, v)));
            }
        }
        let Some(&(place, writes)) = self.accesses.get(&inst) else {
            return false;
        };
        let others = if writes { &used.reads } else { &used.writes };
        let is_own = |other: &Place| (other.form, other.offset) == (place.form, place.offset);
        let meets = |other: &Place| self.meet(other, &place);
        // As in `super::places`: no other lane uses an element that the lane reads and then writes.
        let cut = others.places.iter().any(meets) && !(writes && others.places.iter().any(is_own));
        if cut {
            *used = Used::default();
        }
        let set = if writes {
            &mut used.writes
        } else {
            &mut used.reads
        };
        set.add(place);
        cut
    }

    fn contains(&self, place: &Place, value: Value) -> bool {
        let values = &self.forms[place.form as usize].values;
        values.iter().any(|&(v, _)| v == value)
    }

    /// Returns whether two different lanes of a warp certainly use the same element.
    fn meet(&self, a: &Place, b: &Place) -> bool {
        let (first, second) = (&self.forms[a.form as usize], &self.forms[b.form as usize]);
        if first.values != second.values {
            return false;
        }
        let distance = b.offset.wrapping_sub(a.offset);
        let lanes = |distance: i64, stride: i64| match distance.checked_rem(stride) {
            Some(0) => distance.checked_div(stride),
            _ => None,
        };
        match (first.stride, second.stride) {
            (0, 0) => false,
            (s, t) if s == t => {
                lanes(distance, s).is_some_and(|n| n != 0 && (-FARTHEST..=FARTHEST).contains(&n))
            }
            (s, 0) => lanes(distance, s).is_some_and(|n| (0..=FARTHEST).contains(&n)),
            (0, t) => {
                lanes(distance.wrapping_neg(), t).is_some_and(|n| (0..=FARTHEST).contains(&n))
            }
            _ => false,
        }
    }

    /// Returns the accesses of `used`, as the block `to` names them after control has come from the block `from`.
    pub(super) fn across(&mut self, used: &Used, from: Block, to: Block) -> Used {
        if used == &Used::default() {
            return Used::default();
        }
        let Some(arguments) = self.arguments.get(&(from, to)).cloned() else {
            return used.clone();
        };
        Used {
            reads: self.set_across(&used.reads, &arguments),
            writes: self.set_across(&used.writes, &arguments),
        }
    }

    fn set_across(&mut self, set: &Set, arguments: &[(Value, Sum)]) -> Set {
        let mut after = Set {
            is_full: set.is_full,
            ..Set::default()
        };
        for &place in &set.places {
            if let Some(kept) = self.kept(place, arguments) {
                after.add(kept);
            }
            if place.is_rewritten {
                continue;
            }
            for (parameter, argument) in arguments {
                let form = &self.forms[place.form as usize];
                if let Some(sum) = form.with(place.offset, *parameter, argument) {
                    let rewritten = self.place(sum, true);
                    after.add(rewritten);
                }
            }
        }
        after
    }

    /// Returns a location in terms of the new values of the parameters that its sum contains. Returns `None` if the
    /// new values are not the old ones plus constants.
    fn kept(&self, place: Place, arguments: &[(Value, Sum)]) -> Option<Place> {
        let mut kept = place;
        for &(value, factor) in &self.forms[place.form as usize].values {
            for (_, argument) in arguments.iter().filter(|(p, _)| *p == value) {
                let step = argument.step_of(value)?;
                if step == 0 {
                    continue;
                }
                if place.is_rewritten {
                    return None;
                }
                kept.offset = kept.offset.wrapping_sub(factor.wrapping_mul(step));
                kept.is_rewritten = true;
            }
        }
        Some(kept)
    }
}

/// Returns the loads and stores of global memory: instruction, address, and whether it is a store.
fn accesses(function: &Function) -> Vec<(Inst, Value, bool)> {
    let used = function.used_values();
    let mut found = Vec::new();
    for &inst in function.blocks().iter().flat_map(|&b| function.insts(b)) {
        let data = &function.dfg.insts[inst];
        let is_store = data.opcode == Opcode::St;
        let sees = || function.dfg.results(inst).iter().any(|&v| used[v]);
        if !(is_store || data.opcode == Opcode::Ld && sees())
            || !matches!(data.mods.space(), StateSpace::Global | StateSpace::None)
        {
            continue;
        }
        if let Some(&address) = function.dfg.args(inst).first() {
            found.push((inst, address, is_store));
        }
    }
    found
}
