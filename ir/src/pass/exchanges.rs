//! Finds accesses through which the lanes of a warp exchange values in global memory without a barrier.
//!
//! Valid programs have a barrier between a write of one lane and a read of another. Published programs, among them
//! kernels of NVIDIA's libraries, instead rely on lock-step: all lanes write, and then each lane reads what its neighbour
//! wrote. The pass [`super::sync_points`] preserves this behaviour where this module proves such an exchange.
//!
//! An address is a sum of values that are equal for all lanes, of the lane's number times a factor, and of a constant. Two
//! accesses exchange values if they have the same values and the factors and constants let two different lanes use the
//! same bytes. One address may also be that of a single element whose number is not known, such as the last of a list, if
//! the other address is that of the element of the lane: one lane writes or reads what another lane reads or writes unless
//! the element happens to be its own. Likewise, several lanes may write one element, of which a later write may store the
//! final value. Two accesses of several lanes to one element are exchanges too: if all lanes add to it with a load and a
//! store, lock-step adds once. In blocks with several rows, the analysis assumes that warps consist of lanes of one row.
//! Unlike [`super::places`], this analysis assumes that accesses do not meet unless it proves that they do:
//! most accesses to global memory have addresses of which little is known, and a sync point at each would be slow.
//! Sorting networks have addresses that are not such sums; [`networks`] finds them.

pub(super) mod networks;
mod single;
mod sum;

use std::cell::OnceCell;

use smallvec::SmallVec;

use crate::analysis::uniformity::Assumptions;
use crate::analysis::{Cfg, Uniformity};
use crate::entity::{Block, Inst, SecondaryMap, Value};
use crate::function::{BlockCall, Function};
use margay_ops::ops::Opcode;
use networks::Networks;
use sum::{Sum, Sums};

/// The number of lanes of a warp.
const LANES: i64 = 32;
/// Maximum number of accesses since the last sync point that the analysis compares with later ones.
const MOST_PLACES: usize = 16;
/// Maximum number of nested loops through which a pointer moves.
const MOST_LOOPS: usize = 3;

/// The bytes that an access of a lane uses.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    address: Sum,
    bytes: i64,
    /// Whether the access was in an earlier iteration of a loop.
    is_earlier: bool,
    /// Whether the access is known to be that of a single lane.
    is_single: bool,
    /// Whether the access is a store of a value that is equal for all lanes.
    stores_equal: bool,
}

impl Place {
    /// Returns whether two different lanes may use the same bytes through these two accesses.
    fn meets(&self, other: &Place) -> bool {
        let (a, b) = (&self.address, &other.address);
        if (a.lane == 0) != (b.lane == 0) && a.terms != b.terms {
            return match a.lane {
                0 => a.may_be_element_of(b),
                _ => b.may_be_element_of(a),
            };
        }
        if a.terms != b.terms {
            return false;
        }
        if a.lane == 0 && b.lane == 0 {
            return self.shares_element(other);
        }
        if a == b {
            return false;
        }
        let meet = |first: i64, second: i64| {
            let distance = b.lane * second + b.constant - a.lane * first - a.constant;
            -other.bytes < distance && distance < self.bytes
        };
        let others = |first: i64| (0..b.lanes).filter(move |&second| second != first);
        (0..a.lanes).any(|first| others(first).any(|second| meet(first, second)))
    }

    /// Returns whether several lanes use the same bytes through these two accesses, whose addresses have the same values
    /// and do not depend on the lane. If several lanes store equal values, each lane may load its own value afterwards.
    fn shares_element(&self, other: &Place) -> bool {
        let distance = other.address.constant - self.address.constant;
        let overlaps = -other.bytes < distance && distance < self.bytes;
        let is_of_one_lane = self.is_single && other.is_single;
        let loads_own = self.stores_equal && !self.is_single;
        overlaps && !is_of_one_lane && !loads_own
    }

    /// Returns whether this access of several lanes uses an element of an array that `other` may also use.
    fn may_be_element_of_array(&self, other: &Place) -> bool {
        !self.is_single && self.address.lane == 0 && other.address.extends(&self.address)
    }
}

impl Place {
    /// Returns the location with parameters in place of the values that an edge passes to them, each a value, a parameter
    /// and the difference of the two. Returns `None` if none of the values is part of the address, or if one of the
    /// others is not known behind the edge.
    fn passed(
        &self,
        passed: &[(Value, Value, i64)],
        is_known: impl Fn(Value) -> bool,
    ) -> Option<Place> {
        let find = |value: Value| passed.iter().find(|&&(from, ..)| from == value);
        let mut values = self.address.terms.iter().map(|&(value, _)| value);
        if !values.any(|value| find(value).is_some()) {
            return None;
        }
        let mut address = Sum {
            terms: SmallVec::new(),
            lane: self.address.lane,
            constant: self.address.constant,
            lanes: self.address.lanes,
        };
        for &(value, factor) in &self.address.terms {
            let term = match find(value) {
                Some(&(_, param, difference)) => {
                    Sum::value(param).plus(&Sum::constant(-difference)?)?
                }
                None if is_known(value) => Sum::value(value),
                None => return None,
            };
            address = address.plus(&term.times(factor)?)?;
        }
        Some(Place { address, ..*self })
    }
}

/// The accesses of a warp to global memory since the last sync point.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Exchanges {
    /// In ascending order.
    reads: Vec<Place>,
    /// In ascending order.
    writes: Vec<Place>,
}

impl Exchanges {
    pub(super) fn add_all(&mut self, other: &Exchanges) {
        other
            .reads
            .iter()
            .for_each(|place| add(&mut self.reads, place));
        other
            .writes
            .iter()
            .for_each(|place| add(&mut self.writes, place));
    }

    pub(super) fn add(&mut self, place: &Place, sees: bool, writes: bool) {
        if sees {
            add(&mut self.reads, place);
        }
        if writes {
            add(&mut self.writes, place);
        }
    }
}

fn add(places: &mut Vec<Place>, place: &Place) {
    if places.len() < MOST_PLACES
        && let Err(at) = places.binary_search(place)
    {
        places.insert(at, place.clone());
    }
}

/// Finds the locations that accesses use, and compares them.
pub(super) struct Finder<'a> {
    function: &'a Function,
    cfg: &'a Cfg,
    sums: Sums<'a>,
    uniformity: OnceCell<Uniformity>,
    homes: OnceCell<SecondaryMap<Value, Option<Block>>>,
}

impl<'a> Finder<'a> {
    pub(super) fn new(function: &'a Function, cfg: &'a Cfg) -> Finder<'a> {
        Finder {
            function,
            cfg,
            sums: Sums::new(function, cfg),
            uniformity: OnceCell::new(),
            homes: OnceCell::new(),
        }
    }

    /// Returns the location of an access to global memory, or through a generic address; `None` for other instructions
    /// and for addresses of which nothing is known.
    pub(super) fn place(&self, block: Block, inst: Inst) -> Option<Place> {
        if !networks::is_global_access(self.function, inst) {
            return None;
        }
        let data = &self.function.dfg.insts[inst];
        let element = data.ty.bits().div_ceil(8).next_power_of_two();
        let args = self.function.dfg.args(inst);
        let address = self.sums.of(*args.first()?)?;
        let is_single = address.lane == 0
            && single::is_single_lane(self.function, self.cfg, || self.uniformity(), block);
        let stores_equal = data.opcode == Opcode::St
            && address.lane == 0
            && args[1..]
                .iter()
                .all(|&value| self.uniformity().class(value).is_uniform());
        Some(Place {
            address,
            bytes: i64::from(element * data.mods.vec().max(1)),
            is_earlier: false,
            is_single,
            stores_equal,
        })
    }

    /// Returns whether lanes exchange values in a sorting network without barriers.
    pub(super) fn has_network(&self) -> bool {
        let networks = Networks {
            function: self.function,
            cfg: self.cfg,
            uniformity: || self.uniformity(),
        };
        networks.exist()
    }

    /// Returns whether an access exchanges values with one of the accesses before it.
    pub(super) fn exchanges(
        &self,
        before: &Exchanges,
        place: &Place,
        sees: bool,
        writes: bool,
    ) -> bool {
        let is_uniform = |place: &Place| self.is_uniform(&place.address, MOST_LOOPS);
        let meets = |places: &[Place]| {
            let mut met = places.iter().filter(|one| one.meets(place));
            met.any(is_uniform)
        };
        (sees && meets(&before.writes) || writes && meets(&before.reads)) && is_uniform(place)
            || writes && self.writes_again(before, place)
    }

    /// Returns whether several lanes have written one element that a write of the lanes to different elements may write
    /// again. If one lane performed both writes before another lane performed the first one, the first write would be
    /// the final one.
    fn writes_again(&self, before: &Exchanges, place: &Place) -> bool {
        let is_uniform = |place: &Place| self.is_uniform(&place.address, MOST_LOOPS);
        let mut before = before.writes.iter();
        before.any(|one| one.may_be_element_of_array(place) && is_uniform(one))
            && (place.address.lane != 0 || !is_uniform(place))
    }

    /// Returns whether the values of a sum are equal for all lanes of a warp.
    fn is_uniform(&self, sum: &Sum, steps: usize) -> bool {
        let is_uniform = |value| {
            if self.sums.is_thread_number(value) {
                return true;
            }
            match (self.sums.starts(value), steps.checked_sub(1)) {
                // The term stands for the part of the value that does not depend on the lane.
                (Some(starts), Some(steps)) => {
                    starts.iter().all(|start| self.is_uniform(start, steps))
                }
                (Some(_), None) => false,
                (None, _) => self.uniformity().class(value).is_uniform(),
            }
        };
        sum.terms.iter().all(|&(value, _)| is_uniform(value))
    }

    fn uniformity(&self) -> &Uniformity {
        // If lanes load different values or are in different rows, they keep lock-step without need, which does not change
        // results.
        let assumptions = Assumptions {
            loads_agree: true,
            chunks_together: false,
            whole_rows: true,
            ..Assumptions::of(self.function)
        };
        let new = || Uniformity::new(self.function, assumptions);
        self.uniformity.get_or_init(new)
    }

    /// Returns the accesses at the end of an edge, as seen from its target: a value that the edge passes to a block
    /// parameter is that parameter. `last` contains the accesses at the end of the source.
    pub(super) fn along(&self, from: Block, call: &BlockCall, last: &Exchanges) -> Exchanges {
        if last.reads.is_empty() && last.writes.is_empty() {
            return Exchanges::default();
        }
        let is_back = self.cfg.number(from) >= self.cfg.number(call.block);
        let passed = self.passed(call);
        let mut seen = Exchanges::default();
        for (places, seen) in [
            (&last.reads, &mut seen.reads),
            (&last.writes, &mut seen.writes),
        ] {
            for place in places {
                if !is_back {
                    add(seen, place);
                }
                let is_known = |value| !is_back || self.is_before(value, call.block);
                let allowed = !(is_back && place.is_earlier);
                if let Some(place) = place.passed(&passed, is_known).filter(|_| allowed) {
                    let is_earlier = is_back || place.is_earlier;
                    add(
                        seen,
                        &Place {
                            is_earlier,
                            ..place
                        },
                    );
                }
            }
        }
        seen
    }

    /// Returns the values that an edge passes to parameters: each element is a value, the parameter, and the difference
    /// of the parameter and the value.
    fn passed(&self, call: &BlockCall) -> SmallVec<[(Value, Value, i64); 4]> {
        let mut passed = SmallVec::new();
        let params = &self.function.dfg.blocks[call.block].params;
        for (&param, &arg) in params.iter().zip(&call.args) {
            let (Some(sum), Some(own)) = (self.sums.of(arg), self.sums.of(param)) else {
                continue;
            };
            if let [(value, 1)] = sum.terms[..]
                && sum.lane == own.lane
            {
                passed.push((value, param, sum.constant));
            }
        }
        passed
    }

    /// Returns whether a value is defined before the loop with the header `header`, so that all iterations see the same
    /// value.
    fn is_before(&self, value: Value, header: Block) -> bool {
        let home = self.homes.get_or_init(|| homes(self.function))[value];
        home.is_some_and(|home| self.cfg.number(home) < self.cfg.number(header))
    }
}

/// Returns the block that defines each value.
fn homes(function: &Function) -> SecondaryMap<Value, Option<Block>> {
    let mut homes = SecondaryMap::default();
    for &block in function.blocks() {
        for &param in &function.dfg.blocks[block].params {
            homes[param] = Some(block);
        }
        for &inst in function.insts(block) {
            for &result in function.dfg.results(inst) {
                homes[result] = Some(block);
            }
        }
    }
    homes
}
