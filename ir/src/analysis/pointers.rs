//! Finds accesses to device memory whose addresses are computed from the kernel's pointer
//! parameters.
//!
//! [`Reach`] splits an address into a root and a bounded offset. An access needs no range test if
//! the root of its address is a *pointer* and the offset is small enough. A pointer is one of these
//! values:
//!
//! - a value that is loaded from a kernel parameter;
//! - a block parameter to which branches pass only pointers or sums of a pointer and a bounded step
//!   (`p += stride` in a loop);
//! - the sum of a pointer and a *counter*, where a counter is a block parameter that starts at a bounded value and
//!   moves by bounded steps. A constant factor may scale the counter (`base[i]` with a 64-bit index and `i += stride`).
//!
//! The sum of all steps has no bound. Therefore, before each step, an access near the old value of the pointer must
//! have run. If the range of device memory has inaccessible margins on both sides, and each margin is wider than the
//! largest possible distance, that access faults before the pointer can leave the margins.
//!
//! Invariant: consider a launch with at most [`MAX_BLOCKS`] blocks in each dimension whose [`Pointers::params`] are
//! addresses inside the range of device memory. A pointer that is a block parameter (a moved
//! pointer) is then at most 2 `STEP` bytes outside of the range, for these reasons. A parameter
//! plus an offset is at most one `STEP` outside. An access that did not fault is inside the range;
//! the old value of the pointer is at most one `STEP` from the address of that access, and the new
//! value at most one `STEP` from the old value. The sum of a pointer and a counter is at most
//! `COUNTED` bytes farther outside of the range than a pointer. An access at most `FAR` bytes from
//! a pointer or from such a sum is in the range or in a margin of [`MARGIN`] bytes.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::reach::{Interval, Reach, Root, is_private, is_window};
use super::{Cfg, Dominators};
use crate::entity::{Block, Inst, Value};
use crate::function::{Function, ValueDef};
use margay_ops::mods::{Half, StateSpace};
use margay_ops::ops::Opcode;

/// The minimum size in bytes of the inaccessible margins, which are on both sides of the range of
/// device memory.
pub const MARGIN: u64 = 1 << 38;
/// The maximum number of blocks of a grid in each dimension for which the results of the analysis
/// hold.
pub const MAX_BLOCKS: u32 = 1 << 22;

/// The maximum step of a pointer in bytes. It is also the maximum distance between a pointer and
/// the access that must run before the step.
const STEP: i128 = 1 << 36;
/// The maximum, in bytes, of three quantities: the step of a counter times its factor; the start
/// value of a counter times its factor; and the distance from the sum of a pointer and a counter to
/// the access that must run before a step of the counter.
const COUNTED: i128 = 1 << 35;
/// The maximum distance in bytes from a pointer that is a block parameter, or from the sum of a pointer and a counter,
/// to the start or the end of an access. If the pointer is a kernel parameter, the limit is [`FAR_FROM_PARAM`].
const FAR: i128 = 1 << 36;
const FAR_FROM_PARAM: i128 = MARGIN as i128 - 4096;
const _: () = assert!(2 * STEP + COUNTED + FAR <= FAR_FROM_PARAM);

/// The maximum number of 64-bit values that the branches of a function pass to blocks. In a
/// function with more such values, only values loaded from kernel parameters count as pointers.
const MAX_PASSED: usize = 100_000;

/// The result of the analysis: the accesses of a function that are proved to be in the range of
/// device memory or in its margins.
#[derive(Clone, Debug, Default)]
pub struct Pointers {
    known: FxHashSet<Inst>,
    params: Vec<u32>,
}

/// The address `base + counter * factor`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Counted {
    base: Value,
    counter: Value,
    factor: i64,
}

/// The address of an access: a root or the sum of a base and a counter, plus an offset.
#[derive(Clone, Copy, Debug)]
enum AccessAddress {
    Root(Root),
    Counted(Counted, Interval),
}

/// An access whose state space is not local, parameter or shared memory.
struct Access {
    block: Block,
    inst: Inst,
    place: AccessAddress,
    bytes: u32,
}

/// A 64-bit value that a branch passes to a block parameter.
struct Passed {
    from: Block,
    to: Value,
    arg: Value,
    root: Root,
}

impl Pointers {
    /// Performs the analysis for all accesses of a function.
    pub fn new(function: &Function) -> Pointers {
        let found = Found::new(function);
        if found.params.is_empty() {
            return Pointers::default();
        }
        let known = found.accesses.iter().filter(|access| found.holds(access));
        Pointers {
            known: known.map(|access| access.inst).collect(),
            params: found.used_params(),
        }
    }

    /// Returns whether the access `access` is proved to be in the range of device memory or in its
    /// margins.
    pub fn holds(&self, access: Inst) -> bool {
        self.known.contains(&access)
    }

    /// Returns the offsets of the parameters from which the addresses of accesses are computed, in ascending order
    /// and without duplicates.
    pub fn params(&self) -> &[u32] {
        &self.params
    }
}

/// The accesses, pointers and counters of one function.
struct Found {
    accesses: Vec<Access>,
    /// The block parameters that are pointers. For each of them, the roots of the values that
    /// branches pass to it.
    moved: FxHashMap<Value, SmallVec<[Value; 2]>>,
    /// The values that are proved to be counters, each with its factor and the pointer to which it
    /// is added.
    counted: FxHashSet<Counted>,
    /// The values that are loaded from kernel parameters, each with the parameter's offset and the
    /// block of the load.
    params: FxHashMap<Value, (u32, Block)>,
}

impl Found {
    fn new(function: &Function) -> Found {
        let params = loaded_params(function);
        let mut found = Found {
            accesses: match params.is_empty() {
                true => Vec::new(),
                false => accesses(function),
            },
            moved: FxHashMap::default(),
            counted: FxHashSet::default(),
            params,
        };
        if found.accesses.is_empty() {
            return found;
        }
        let cfg = Cfg::new(function);
        if let Some(passed) = all_passed(function, &cfg) {
            let stops = Stops::new(&found.accesses, cfg);
            found.find_moved(&passed, &stops);
            found.find_counted(function, &passed, &stops);
        }
        found
    }

    /// Returns whether the access `access` is proved to be in the range of device memory or in its
    /// margins.
    fn holds(&self, access: &Access) -> bool {
        let (offset, far) = match access.place {
            AccessAddress::Root(root) if self.params.contains_key(&root.value) => {
                (root.offset, FAR_FROM_PARAM)
            }
            AccessAddress::Root(root) if self.moved.contains_key(&root.value) => (root.offset, FAR),
            AccessAddress::Counted(counted, offset) if self.counted.contains(&counted) => {
                (offset, FAR)
            }
            _ => return false,
        };
        -far <= offset.low && offset.high + i128::from(access.bytes) <= far
    }

    fn used_params(&self) -> Vec<u32> {
        let bases = self.accesses.iter().map(|access| match access.place {
            AccessAddress::Root(root) => root.value,
            AccessAddress::Counted(counted, _) => counted.base,
        });
        let mut work: Vec<Value> = bases.collect();
        let mut seen: FxHashSet<Value> = FxHashSet::default();
        let mut found = Vec::new();
        while let Some(value) = work.pop() {
            if seen.insert(value) {
                found.extend(self.params.get(&value).map(|&(offset, _)| offset));
                work.extend(self.moved.get(&value).into_iter().flatten());
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns the block that defines `pointer`, or `None` if the value is not a pointer.
    fn home(&self, function: &Function, pointer: Value) -> Option<Block> {
        match function.dfg.values[pointer].def {
            ValueDef::Param(block, _) if self.moved.contains_key(&pointer) => Some(block),
            _ => self.params.get(&pointer).map(|&(_, block)| block),
        }
    }

    fn find_moved(&mut self, passed: &[Passed], stops: &Stops) {
        let mut all: FxHashSet<Value> = passed.iter().map(|passed| passed.to).collect();
        // Computes the largest set of block parameters to which branches pass only pointers.
        let mut before = usize::MAX;
        while all.len() < before {
            before = all.len();
            for passed in passed {
                let root = passed.root;
                let is_pointer = match self.params.contains_key(&root.value) {
                    true => within(root.offset, STEP),
                    false if !all.contains(&root.value) => false,
                    false if root.offset == Interval::ZERO => true,
                    false => {
                        within(root.offset, STEP)
                            && stops.before(&stops.near_root, &root.value, passed.from)
                    }
                };
                if !is_pointer {
                    all.remove(&passed.to);
                }
            }
        }
        for passed in passed.iter().filter(|passed| all.contains(&passed.to)) {
            let roots = self.moved.entry(passed.to).or_default();
            roots.push(passed.root.value);
        }
    }

    /// Finds the block parameters that are proved to be counters. The base of a counter, to which
    /// the counter is added, must not change while the counter changes. The base is therefore
    /// required to be defined in a block that strictly dominates the counter's block, so the base
    /// can change only where the counter gets a new start value.
    fn find_counted(&mut self, function: &Function, passed: &[Passed], stops: &Stops) {
        let mut to: FxHashMap<Value, Vec<&Passed>> = FxHashMap::default();
        for passed in passed {
            to.entry(passed.to).or_default().push(passed);
        }
        let reach = Reach::in_grids(function, MAX_BLOCKS);
        for counted in stops.near_counted.keys() {
            let base = self.home(function, counted.base);
            let counter = function.dfg.values[counted.counter].def;
            let (Some(base), ValueDef::Param(counter, _)) = (base, counter) else {
                continue;
            };
            let outside = base != counter && stops.dominators.dominates(&stops.cfg, base, counter);
            let factor = Interval::point(counted.factor.into());
            let is_counter = |passed: &&Passed| {
                if passed.root.value == counted.counter {
                    within(passed.root.offset.times(factor), COUNTED)
                        && stops.before(&stops.near_counted, counted, passed.from)
                } else {
                    let start = reach.bounds(passed.arg);
                    start.is_some_and(|start| within(start.times(factor), COUNTED))
                }
            };
            let mut all = to.get(&counted.counter).into_iter().flatten();
            if outside && all.all(is_counter) {
                self.counted.insert(*counted);
            }
        }
    }
}

/// For each root, and for each sum of a base and a counter, the blocks that contain accesses near
/// this address. These accesses fault if the address is too far outside of device memory.
struct Stops {
    cfg: Cfg,
    dominators: Dominators,
    near_root: FxHashMap<Value, SmallVec<[Block; 4]>>,
    near_counted: FxHashMap<Counted, SmallVec<[Block; 4]>>,
}

impl Stops {
    fn new(accesses: &[Access], cfg: Cfg) -> Stops {
        let mut stops = Stops {
            dominators: Dominators::new(&cfg),
            cfg,
            near_root: FxHashMap::default(),
            near_counted: FxHashMap::default(),
        };
        for access in accesses {
            let blocks = match access.place {
                AccessAddress::Root(root) if within(root.offset, STEP) => {
                    stops.near_root.entry(root.value).or_default()
                }
                AccessAddress::Counted(counted, offset) if within(offset, COUNTED) => {
                    stops.near_counted.entry(counted).or_default()
                }
                _ => continue,
            };
            if blocks.last() != Some(&access.block) {
                blocks.push(access.block);
            }
        }
        stops
    }

    /// Returns whether an access near `root` always runs between the definition of `root` and the
    /// end of the block `end`.
    ///
    /// The access always runs if its block dominates `end`. If `end` is in a loop, the access then
    /// also runs in every iteration, because the definition of the root dominates the access.
    fn before<K: Eq + std::hash::Hash>(
        &self,
        near: &FxHashMap<K, SmallVec<[Block; 4]>>,
        root: &K,
        end: Block,
    ) -> bool {
        let mut blocks = near.get(root).into_iter().flatten();
        blocks.any(|&block| self.dominators.dominates(&self.cfg, block, end))
    }
}

fn within(offset: Interval, most: i128) -> bool {
    offset.lies_in(Interval {
        low: -most,
        high: most,
    })
}

/// Splits an address into an offset and either a root or the sum of a base and a counter.
fn place(function: &Function, address: Value) -> AccessAddress {
    let reach = Reach::in_grids(function, MAX_BLOCKS);
    let whole = reach.of(address, &|_| true);
    counted(function, &reach, &whole).unwrap_or(AccessAddress::Root(whole))
}

fn counted(function: &Function, reach: &Reach<'_>, whole: &Root) -> Option<AccessAddress> {
    let dfg = &function.dfg;
    let def = dfg.def_inst(whole.value)?;
    let data = &dfg.insts[def];
    let &[a, b] = dfg.args(def) else {
        return None;
    };
    let adds = data.opcode == Opcode::Add && data.ty.is_integer() && data.ty.bits() == 64;
    if !adds || data.ty.elements() != 1 || data.mods.sat() {
        return None;
    }
    let is_param = |value: Value| matches!(dfg.values[value].def, ValueDef::Param(..));
    let pair = |base: Value, index: Value| {
        let base = reach.of(base, &|_| true);
        let (counter, factor, offset) = scaled(function, reach, index)?;
        let offset = whole.offset.plus(base.offset).plus(offset).checked()?;
        is_param(counter).then_some(AccessAddress::Counted(
            Counted {
                base: base.value,
                counter,
                factor,
            },
            offset,
        ))
    };
    // A counter is a block parameter, whereas the base is usually loaded from a kernel parameter. Therefore `a` is
    // taken as the counter if its root is a block parameter, even if `b` could also be the counter.
    match is_param(reach.of(a, &|_| true).value) {
        true => pair(b, a),
        false => pair(a, b),
    }
}

/// Splits a value into `other * factor + offset`. Returns `other`, the constant `factor` and the
/// bounds of `offset`.
fn scaled(function: &Function, reach: &Reach<'_>, value: Value) -> Option<(Value, i64, Interval)> {
    let dfg = &function.dfg;
    let outer = reach.of(value, &|_| true);
    let Some(def) = dfg.def_inst(outer.value) else {
        return Some((outer.value, 1, outer.offset));
    };
    let data = &dfg.insts[def];
    let &[index, by] = dfg.args(def) else {
        return None;
    };
    let plain = data.ty.is_integer() && data.ty.bits() == 64 && data.ty.elements() == 1;
    let by = dfg.constant(by).filter(|_| plain)?;
    let factor = match data.opcode {
        Opcode::Shl if by < 32 => 1 << by,
        Opcode::Mul if by < 1 << 32 && data.mods.half() != Half::Hi => by as i64,
        _ => return None,
    };
    let inner = reach.of(index, &|_| true);
    let scaled = inner.offset.times(Interval::point(factor.into()));
    let offset = outer.offset.plus(scaled.checked()?).checked()?;
    Some((inner.value, factor, offset))
}

/// Returns all 64-bit values that the branches of a function pass to blocks, or `None` if there are
/// more than [`MAX_PASSED`].
fn all_passed(function: &Function, cfg: &Cfg) -> Option<Vec<Passed>> {
    let reach = Reach::in_grids(function, MAX_BLOCKS);
    let dfg = &function.dfg;
    let mut all = Vec::new();
    for &from in cfg.rpo() {
        for call in function.successors(from) {
            for (&to, &arg) in dfg.blocks[call.block].params.iter().zip(&call.args) {
                if dfg.ty(to).lane_bits() != 64 {
                    continue;
                }
                if all.len() == MAX_PASSED {
                    return None;
                }
                all.push(Passed {
                    from,
                    to,
                    arg,
                    root: reach.of(arg, &|_| true),
                });
            }
        }
    }
    Some(all)
}

/// Returns all instructions of a function, each with the block that contains it.
fn insts(function: &Function) -> impl Iterator<Item = (Block, Inst)> {
    function.blocks().iter().flat_map(|&block| {
        let insts = function.insts(block).iter();
        insts.map(move |&inst| (block, inst))
    })
}

fn accesses(function: &Function) -> Vec<Access> {
    let outside = insts(function).filter(|&(_, inst)| {
        let data = &function.dfg.insts[inst];
        let accesses = matches!(
            data.opcode,
            Opcode::Ld | Opcode::St | Opcode::Atom | Opcode::Red
        );
        let space = data.mods.space();
        accesses && !is_private(space) && !is_window(space)
    });
    let access = outside.map(|(block, inst)| {
        let data = &function.dfg.insts[inst];
        let element = data.ty.bits().div_ceil(8).next_power_of_two();
        Access {
            block,
            inst,
            place: place(function, function.dfg.args(inst)[0]),
            bytes: element * data.mods.vec().max(1),
        }
    });
    access.collect()
}

/// Returns the 64-bit values that a kernel loads from its parameters, each with the parameter's offset and the
/// block of the load.
pub(super) fn loaded_params(function: &Function) -> FxHashMap<Value, (u32, Block)> {
    let Some(kernel) = &function.kernel else {
        return FxHashMap::default();
    };
    let reach = Reach::new(function);
    let dfg = &function.dfg;
    let offset_of = |(block, inst): (Block, Inst)| {
        let data = &dfg.insts[inst];
        let &[value] = dfg.results(inst) else {
            return None;
        };
        let whole = data.opcode == Opcode::Ld
            && data.mods.space() == StateSpace::Param
            && data.mods.vec() <= 1
            && data.ty.bits() == 64
            && dfg.ty(value).lane_bits() == 64;
        if !whole {
            return None;
        }
        let at = reach.by_constants(dfg.args(inst)[0], &|_| true);
        let data = &dfg.insts[dfg.def_inst(at.value)?];
        if data.opcode != Opcode::ParamAddr {
            return None;
        }
        let offset = i128::from(data.payload()) + at.offset.low;
        let fits = offset >= 0 && offset + 8 <= i128::from(kernel.param_bytes);
        let offset = fits.then(|| u32::try_from(offset).ok()).flatten()?;
        Some((value, (offset, block)))
    };
    insts(function).filter_map(offset_of).collect()
}
