//! Counts events instead of recording them, for tools that request counts.
//!
//! Each native call has a tally of its own: the counters of generated code ([`margay_jit::counters`]), and the counts of
//! the events that generated code or the interpreter reports. When the launch ends, the tallies are added.

use std::cell::UnsafeCell;
use std::collections::BTreeMap;

use margay_ir::function::SourceLoc;
use margay_ir::observe::{ObservedAccess, ObservedEvent};
use margay_jit::counters::{Counters, Group, MAX_WARPS, PERIOD, Pattern, WARPS, run};
use margay_ops::mods::StateSpace;
use rustc_hash::FxHashMap;

use super::Space;
use super::count::{RunCount, RunKey};
use super::pattern::{Counted, Instruction, Places, SHAPES, Shape, instruction_of};
use super::raw::RawAccess;

/// The counts of the events of one thread.
pub(crate) struct Tally {
    /// The counters of generated code. If there are none, only the words of warps.
    area: Box<[UnsafeCell<u64>]>,
    groups: Vec<GroupTally>,
    runs: FxHashMap<RunKey, RunCount>,
    accesses: FxHashMap<Instruction, Counted>,
}

/// The patterns of a group of accesses.
struct GroupTally {
    /// The index in `area` of the word with the address of the latest pattern.
    word: usize,
    /// The patterns. Generated code reads and changes the latest one.
    #[expect(
        clippy::vec_box,
        reason = "generated code keeps the address of the latest pattern"
    )]
    patterns: Vec<Box<UnsafeCell<Pattern>>>,
}

/// The sum of tallies.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) runs: BTreeMap<RunKey, RunCount>,
    pub(super) accesses: BTreeMap<(Instruction, Shape), Box<Places>>,
}

impl Tally {
    /// Creates a tally for native code with these counters; `None` for the interpreter.
    pub(crate) fn new(counters: Option<&Counters>) -> Tally {
        let words = counters.map_or(0, Counters::words).max(WARPS + MAX_WARPS);
        let mut tally = Tally {
            area: (0..words).map(|_| UnsafeCell::new(0)).collect(),
            groups: Vec::new(),
            runs: FxHashMap::default(),
            accesses: FxHashMap::default(),
        };
        if let Some(counters) = counters {
            for (index, group) in counters.groups().iter().enumerate() {
                let word = counters.group_word(index);
                let bytes = group.members.first().map_or(0, bytes_of);
                let mut group = GroupTally {
                    word,
                    patterns: Vec::new(),
                };
                *tally.area[word].get_mut() = group.add(Pattern::strided(bytes));
                tally.groups.push(group);
            }
        }
        tally
    }

    /// Returns the address of the counters, for generated code.
    pub(crate) fn counters(&mut self) -> *mut u64 {
        UnsafeCell::raw_get(self.area.as_ptr())
    }

    /// Returns the number of instructions that a warp of the current CTA has executed since the last call for this
    /// warp.
    pub(crate) fn take_instructions(&mut self, warp: usize) -> u64 {
        let word = self.area.get_mut(WARPS + warp % MAX_WARPS);
        word.map_or(0, |word| std::mem::take(word.get_mut()))
    }

    /// Counts a run of instructions. `mask` is the mask of the lanes of `active` that execute it. If `counts_warps` is
    /// set, also counts the instructions of the warp.
    pub(crate) fn run(
        &mut self,
        (event, loc, has_guard): (ObservedEvent, SourceLoc, bool),
        (warp, active, mask): (u32, u32, u32),
        counts_warps: bool,
    ) {
        let Some(key) = RunKey::of(event, loc, has_guard) else {
            return;
        };
        self.runs
            .entry(key)
            .or_default()
            .add(RunCount::of(active, mask));
        if let ObservedEvent::InstructionRun { count, .. } = event
            && counts_warps
            && let Some(word) = self.area.get_mut(WARPS + warp as usize % MAX_WARPS)
        {
            *word.get_mut() += u64::from(count);
        }
    }

    /// Counts an access. Returns false if the instruction has too many patterns and the access was not counted.
    pub(crate) fn access(&mut self, what: &RawAccess<'_>) -> bool {
        let key = instruction_of(what);
        self.accesses.entry(key).or_default().count(what)
    }

    /// Counts a request of a group that does not have the group's latest pattern. Returns false if the group has too many
    /// patterns and the request was not counted.
    pub(crate) fn group(&mut self, group: usize, addresses: &[u64; 32]) -> bool {
        let Some(tally) = self.groups.get_mut(group) else {
            return false;
        };
        let distances = addresses.map(|address| address.wrapping_sub(addresses[0]));
        let mut known = tally.patterns.iter_mut();
        let index = match known.position(|known| known.get_mut().distances == distances) {
            Some(index) => index,
            None if tally.patterns.len() < SHAPES => {
                tally.add(Pattern::new(distances));
                tally.patterns.len() - 1
            }
            None => return false,
        };
        let pattern = &mut tally.patterns[index];
        pattern.get_mut().counts[addresses[0] as usize % PERIOD] += 1;
        *self.area[tally.word].get_mut() = pattern.get().expose_provenance() as u64;
        true
    }

    /// Adds the tally to the sum. `counters` are those with which the tally was created.
    pub(super) fn add_to(mut self, totals: &mut Totals, counters: Option<&Counters>) {
        for (key, count) in self.runs {
            totals.runs.entry(key).or_default().add(count);
        }
        for (instruction, counted) in self.accesses {
            for (shape, places) in counted.into_shapes() {
                totals.add((instruction, shape), &places);
            }
        }
        let Some(counters) = counters else {
            return;
        };
        for (at, counted) in counters.runs() {
            let word = |index: usize| {
                self.area
                    .get_mut(at + index)
                    .map_or(0, |word| *word.get_mut())
            };
            let count = run_count(counted.has_guard, word);
            let loc = SourceLoc::from_bits(counted.loc);
            let key = ObservedEvent::from_payload(counted.payload)
                .and_then(|event| RunKey::of(event, loc, counted.has_guard));
            if let Some(key) = key.filter(|_| count.warps != 0) {
                totals.runs.entry(key).or_default().add(count);
            }
        }
        for (group, tally) in counters.groups().iter().zip(self.groups) {
            for pattern in tally.patterns {
                totals.add_group(group, &pattern.into_inner());
            }
        }
    }
}

impl GroupTally {
    /// Adds a pattern and returns its address.
    fn add(&mut self, pattern: Pattern) -> u64 {
        self.patterns.push(Box::new(UnsafeCell::new(pattern)));
        let latest = self.patterns.last();
        latest.map_or(0, |pattern| pattern.get().expose_provenance() as u64)
    }
}

impl Totals {
    fn add(&mut self, key: (Instruction, Shape), places: &Places) {
        let sums = self.accesses.entry(key);
        let sums = sums.or_insert_with(|| Box::new([0; PERIOD]));
        sums.iter_mut()
            .zip(places)
            .for_each(|(sum, count)| *sum += count);
    }

    /// Adds the requests of a group with one pattern: those of each of its accesses.
    fn add_group(&mut self, group: &Group, pattern: &Pattern) {
        if pattern.counts == [0; PERIOD] {
            return;
        }
        let shape = Shape {
            mask: u32::MAX,
            distances: pattern.distances,
        };
        for member in &group.members {
            let access = ObservedAccess::from_bits(member.access);
            let instruction = Instruction {
                loc: member.loc,
                space: space_of(access.space),
                access: member.access,
            };
            let mut places = pattern.counts;
            places.rotate_right(member.offset.rem_euclid(PERIOD as i64) as usize);
            self.add((instruction, shape), &places);
        }
    }
}

/// Returns the counts of a run that generated code has counted.
fn run_count(has_guard: bool, mut word: impl FnMut(usize) -> u64) -> RunCount {
    let active = 32 * word(run::WHOLE) + word(run::ACTIVE);
    RunCount {
        warps: word(run::WHOLE) + word(run::PARTS),
        active,
        executed: match has_guard {
            true => word(run::EXECUTED),
            false => active,
        },
        split: word(run::SPLIT),
    }
}

/// Returns the memory to which addresses in a state space refer, for accesses that generated code counts.
fn space_of(space: StateSpace) -> Space {
    match space {
        StateSpace::Shared => Space::Shared,
        StateSpace::Local => Space::Local,
        StateSpace::Const => Space::Constant,
        _ => Space::Global,
    }
}

fn bytes_of(member: &margay_jit::counters::Member) -> i64 {
    ObservedAccess::from_bits(member.access).bytes.into()
}
