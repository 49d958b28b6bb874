//! Which addresses of device memory are computed from the kernel's pointer parameters.
//!
//! [`Reach`] splits an address into a root and a bounded offset. The address is safe if the root is a *pointer*:
//!
//! - loaded from a parameter;
//! - a block parameter that only pointers are passed to, moved by a bounded step (`p += stride` in a loop);
//! - a pointer plus a *counter*: a block parameter that starts from a bounded value and is moved by a bounded step, perhaps
//!   times a constant (`base[i]`, `i += stride` with an index of 64 bits).
//!
//! Steps add up without a bound, but an access stands in their way: where a step moves a pointer on, an access near the
//! old place must have run before. If the range of device memory has closed margins on both sides that are wider
//! than all steps, this access has faulted before the pointer can leave the margins.
//!
//! Invariant, for a launch of at most [`MAX_BLOCKS`] blocks in each dimension whose [`Pointers::params`] name addresses
//! inside of the range: a moved pointer lies at most 2 `STEP` bytes outside of the range. A parameter plus an offset
//! lies at most one `STEP` outside; a place where an access did not fault lies inside; that access lies at most one `STEP`
//! from the pointer, and the next place at most another. A pointer plus a counter lies at most `COUNTED` bytes farther
//! outside. An access at most `FAR` bytes from there lies in the range or in a margin of [`MARGIN`] bytes.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::reach::{Interval, Reach, Root, is_private, is_window};
use super::{Cfg, Dominators};
use crate::entity::{Block, Inst, Value};
use crate::function::{Function, ValueDef};
use margay_ops::mods::{Half, StateSpace};
use margay_ops::ops::Opcode;

/// Bytes of each margin, at least.
pub const MARGIN: u64 = 1 << 38;
/// Blocks of a grid in each dimension, at most.
pub const MAX_BLOCKS: u32 = 1 << 22;

/// Most bytes that a step moves a pointer, and that an access may lie from it to stand in its way.
const STEP: i128 = 1 << 36;
/// The same of a counter, and of the value that it starts from, times its factor.
const COUNTED: i128 = 1 << 35;
/// Most bytes from a moved pointer, and from a parameter, to the end of an access.
const FAR: i128 = 1 << 36;
const FAR_FROM_PARAM: i128 = MARGIN as i128 - 4096;
const _: () = assert!(2 * STEP + COUNTED + FAR <= FAR_FROM_PARAM);

/// Values that branches pass to blocks, at most; functions with more have no pointers but parameters.
const MAX_PASSED: usize = 100_000;

/// What is known of the accesses of one function.
#[derive(Clone, Debug, Default)]
pub struct Pointers {
    known: FxHashSet<Inst>,
    params: Vec<u32>,
}

/// A base, and a counter times a factor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Counted {
    base: Value,
    counter: Value,
    factor: i64,
}

/// Where an access lies.
#[derive(Clone, Copy, Debug)]
enum AccessAddress {
    Root(Root),
    Counted(Counted, Interval),
}

/// An access of memory outside of the thread's own windows.
struct Access {
    block: Block,
    inst: Inst,
    place: AccessAddress,
    bytes: u32,
}

/// A value that a branch passes to a block parameter.
struct Passed {
    from: Block,
    to: Value,
    arg: Value,
    root: Root,
}

impl Pointers {
    /// Looks at all accesses of a function.
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

    /// Whether an access lies in the range of device memory or in its margins.
    pub fn holds(&self, access: Inst) -> bool {
        self.known.contains(&access)
    }

    /// Offsets of the parameters that the addresses of the accesses are computed from, ascending, each once.
    pub fn params(&self) -> &[u32] {
        &self.params
    }
}

/// The pointers of one function.
struct Found {
    accesses: Vec<Access>,
    /// The block parameters that are pointers, and the roots of what is passed to them.
    moved: FxHashMap<Value, SmallVec<[Value; 2]>>,
    /// Counters, their factors, and the pointers that they may be added to.
    counted: FxHashSet<Counted>,
    /// Values that are loaded from parameters: the parameter's offset, and the block of the load.
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

    /// Whether an access lies in the range of device memory or in its margins.
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

    /// The block that defines a pointer.
    fn home(&self, function: &Function, pointer: Value) -> Option<Block> {
        match function.dfg.values[pointer].def {
            ValueDef::Param(block, _) if self.moved.contains_key(&pointer) => Some(block),
            _ => self.params.get(&pointer).map(|&(_, block)| block),
        }
    }

    fn find_moved(&mut self, passed: &[Passed], stops: &Stops) {
        let mut all: FxHashSet<Value> = passed.iter().map(|passed| passed.to).collect();
        // What is passed to a pointer is a pointer: the largest set for which this holds.
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

    /// The bases do not change while a counter counts: they are defined in blocks that strictly dominate the counter's, so they
    /// can only change where the counter starts again.
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

/// The accesses near each root, which stand in its way.
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

    /// Whether an access near a root runs before the end of a block.
    ///
    /// It runs between the definition of the root and the end of the block, in every turn of a loop: its own block dominates
    /// that block, and the root's definition dominates the access.
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

/// An address as a root or a base with a counter, and an offset.
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
    // The base is a parameter of the kernel more often than one of a block.
    match is_param(reach.of(a, &|_| true).value) {
        true => pair(b, a),
        false => pair(a, b),
    }
}

/// A value as another one times a factor, plus an offset.
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

/// All values of 64 bits that branches pass to blocks; none if they are too many.
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

/// All instructions with their blocks.
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

/// The values of 64 bits that a kernel loads from its parameters, the offsets of these, and the blocks of the loads.
fn loaded_params(function: &Function) -> FxHashMap<Value, (u32, Block)> {
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
