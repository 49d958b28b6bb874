//! Plans the control flow of a chunk: which branches stay branches, and in which order the code visits blocks that only
//! some lanes execute.
//!
//! The code contains each block of the kernel once. A branch whose condition is uniform stays a branch. After a branch
//! at which lanes may diverge, the code visits both targets, one after the other, under masks. A block that the code
//! must still visit is *pending*. The code always continues at the first pending place, in the order of
//! [`Loops`] (partial linearisation: Moll and Hack, "Partial Control-Flow Linearization", PLDI 2018).
//!
//! A *place* is a block, or the end of a loop, where the lanes wait that start another iteration. A place is *guarded* if
//! the code may reach it without lanes. The code at a guarded place first tests its mask, and goes on to the next pending
//! place if the mask is empty. Therefore the code of a block runs only if at least one lane executes the block, and a
//! uniform operation in the block may access memory.
//!
//! If lanes may leave a loop in different iterations, the loop's exits are *deferred*: all lanes go on at the end of the
//! loop, and the blocks behind the loop are visited after its last iteration. If lanes may yield, no lane may be left in an
//! iteration while lanes wait behind the loop, so these blocks are pending in the whole loop.

use std::collections::BTreeSet;
use std::fmt;

use margay_ir::analysis::{Loops, Uniformity};
use margay_ir::entity::Block;
use margay_ir::function::Function;
use margay_ops::ops::{Effects, Opcode};

use crate::Refusal;

/// The index of a place in [`Flow::places`].
pub type PlaceIndex = u32;

/// A position in the code of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A block of the kernel.
    Block(Block),
    /// The end of the loop with this index.
    End(usize),
}

/// Where the code continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// At a place that at least one lane executes.
    Direct(PlaceIndex),
    /// At the guard of a place.
    Guard(PlaceIndex),
    /// Behind the chunk: no lane is left.
    Done,
}

/// What happens at the end of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Exit {
    /// All lanes take the same edge: where the code continues, for each edge of the terminator.
    Uniform(Vec<Next>),
    /// The lanes may take different edges; afterwards the code continues at one place.
    Diverged(Next),
}

/// The planned control flow.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The places in the order in which the code visits them.
    pub places: Vec<Place>,
    /// Whether each place is guarded.
    pub guarded: Vec<bool>,
    /// Where the code continues if no lane executes a place; for the end of a loop, if no lane starts another iteration.
    pub skip: Vec<Next>,
    /// The end of each place that is a block; `None` for ends of loops.
    pub exits: Vec<Option<Exit>>,
    /// Whether all lanes that have not exited are at a place when the code of the place runs.
    pub alone: Vec<bool>,
    /// Whether the exits of each loop are deferred.
    pub deferred: Vec<bool>,
    block_places: Vec<PlaceIndex>,
    ends: Vec<PlaceIndex>,
}

/// An edge that leads to a block in which no lane does anything but exit needs no place.
fn only_exits(function: &Function, block: Block) -> bool {
    matches!(function.insts(block), &[inst]
        if matches!(function.dfg.insts[inst].opcode, Opcode::Exit | Opcode::Ret))
}

impl Flow {
    /// Plans the control flow of a function with these loops. `uniformity` contains the classes of the function's values.
    ///
    /// # Errors
    ///
    /// Refuses kernels with loops that are entered at other blocks than their headers.
    pub fn new(
        function: &Function,
        uniformity: &Uniformity,
        loops: &Loops,
    ) -> Result<Flow, Refusal> {
        let yields = function.has_effects(Effects::YIELDS);
        check_entries(function, loops)?;
        let mut deferred = vec![false; loops.loops.len()];
        loop {
            let mut planner = Planner::new(function, (uniformity, loops), &deferred);
            planner.plan(yields);
            let more = planner.loops_to_defer();
            if more.is_empty() {
                return Ok(planner.flow);
            }
            for number in more {
                deferred[number] = true;
            }
        }
    }

    /// Returns the place of a reachable block.
    pub fn place_of(&self, loops: &Loops, block: Block) -> PlaceIndex {
        let position = loops.position(block).expect("the block is reachable");
        self.block_places[position as usize]
    }

    /// Returns the place of the end of a loop.
    pub fn end_of(&self, number: usize) -> PlaceIndex {
        self.ends[number]
    }
}

/// Refuses loops that are entered at a block that is not the header.
fn check_entries(function: &Function, loops: &Loops) -> Result<(), Refusal> {
    for &block in &loops.order {
        for call in function.successors(block) {
            let entered = loops.around_only(call.block, block);
            for number in entered {
                if loops.header(number) != call.block {
                    return Err(Refusal::Irreducible);
                }
            }
        }
    }
    Ok(())
}

struct Planner<'a> {
    function: &'a Function,
    uniformity: &'a Uniformity,
    loops: &'a Loops,
    flow: Flow,
    /// For each place, the later places that are pending when the code reaches it.
    pending: Vec<BTreeSet<PlaceIndex>>,
}

impl<'a> Planner<'a> {
    fn new(
        function: &'a Function,
        (uniformity, loops): (&'a Uniformity, &'a Loops),
        deferred: &[bool],
    ) -> Planner<'a> {
        let mut places = Vec::new();
        let mut ends = vec![0; loops.loops.len()];
        let mut block_places = Vec::new();
        for (position, &block) in (0u32..).zip(&loops.order) {
            block_places.push(places.len() as PlaceIndex);
            places.push(Place::Block(block));
            // The ends of the loops whose last block this is, inner loops first.
            for number in loops.and_around(loops.innermost(block)) {
                if loops.loops[number].end == position + 1 {
                    ends[number] = places.len() as PlaceIndex;
                    places.push(Place::End(number));
                }
            }
        }
        let count = places.len();
        Planner {
            function,
            uniformity,
            loops,
            pending: vec![BTreeSet::new(); count],
            flow: Flow {
                guarded: vec![false; count],
                skip: vec![Next::Done; count],
                exits: vec![None; count],
                alone: vec![true; count],
                deferred: deferred.to_vec(),
                places,
                block_places,
                ends,
            },
        }
    }

    fn plan(&mut self, yields: bool) {
        for index in 0..self.flow.places.len() {
            if let Place::Block(block) = self.flow.places[index]
                && let Some(number) = self.loops.headed_by(block).filter(|_| yields)
                && self.flow.deferred[number]
            {
                let behind = self.places_behind(number);
                self.pending[index].extend(behind);
            }
            let pending = self.pending[index].clone();
            self.flow.alone[index] = pending.is_empty();
            self.flow.skip[index] = self.next(pending.clone(), None);
            if let Place::Block(block) = self.flow.places[index] {
                self.flow.exits[index] = Some(self.exit(block, &pending));
            }
        }
    }

    /// Returns the places to which edges out of a loop lead.
    fn places_behind(&self, number: usize) -> Vec<PlaceIndex> {
        let loops = self.loops;
        let mut behind = Vec::new();
        for &block in loops.body(number) {
            let calls = self.function.successors(block).iter();
            let out = calls.filter(|call| !loops.contains(number, call.block));
            behind.extend(out.filter_map(|call| self.targets(block, call.block).0));
        }
        behind
    }

    fn exit(&mut self, block: Block, pending: &BTreeSet<PlaceIndex>) -> Exit {
        let function = self.function;
        let calls = function.successors(block);
        let is_uniform = calls.len() < 2 || self.uniformity.branch(function, block).is_uniform();
        if is_uniform {
            let mut nexts: Vec<Next> = Vec::with_capacity(calls.len().max(1));
            for call in calls {
                let (target, ends) = self.targets(block, call.block);
                let mut all = pending.clone();
                all.extend(target.into_iter().chain(ends));
                let next = self.next(all, target);
                nexts.push(next);
            }
            if calls.is_empty() {
                let next = self.next(pending.clone(), None);
                nexts.push(next);
            }
            return Exit::Uniform(nexts);
        }
        let mut all = pending.clone();
        for call in calls {
            let (target, ends) = self.targets(block, call.block);
            all.extend(target.into_iter().chain(ends));
        }
        Exit::Diverged(self.next(all, None))
    }

    /// Returns the place to which an edge leads, and the ends of the loops that it leaves and whose exits are deferred.
    fn targets(&self, from: Block, to: Block) -> (Option<PlaceIndex>, Vec<PlaceIndex>) {
        let loops = self.loops;
        let left = loops.around_only(from, to);
        let ends = left
            .filter(|&number| self.flow.deferred[number])
            .map(|number| self.flow.ends[number])
            .collect();
        if only_exits(self.function, to) {
            return (None, ends);
        }
        let target = match is_back_edge(loops, from, to) {
            Some(number) => self.flow.ends[number],
            None => self.flow.place_of(loops, to),
        };
        (Some(target), ends)
    }

    /// Makes the code continue at the first of the pending places. `target` is the place to which all lanes go, if there
    /// is one.
    fn next(&mut self, mut all: BTreeSet<PlaceIndex>, target: Option<PlaceIndex>) -> Next {
        let Some(first) = all.pop_first() else {
            return Next::Done;
        };
        self.pending[first as usize].append(&mut all);
        if target == Some(first) {
            return Next::Direct(first);
        }
        self.flow.guarded[first as usize] = true;
        Next::Guard(first)
    }

    /// Returns the loops inside of which, or at whose end, blocks behind the loop become pending.
    fn loops_to_defer(&self) -> Vec<usize> {
        let leaks = |number: usize| {
            let end = self.flow.ends[number];
            let start = self.flow.place_of(self.loops, self.loops.header(number));
            let known = &self.pending[start as usize];
            (start..=end).any(|place| {
                let mut outside = self.pending[place as usize].range(end + 1..);
                outside.any(|place| !known.contains(place))
            })
        };
        let numbers = 0..self.loops.loops.len();
        let open = numbers.filter(|&number| !self.flow.deferred[number]);
        open.filter(|&number| leaks(number)).collect()
    }
}

/// Returns the loop whose next iteration an edge starts; `None` for other edges.
pub fn is_back_edge(loops: &Loops, from: Block, to: Block) -> Option<usize> {
    let number = loops.headed_by(to)?;
    loops.contains(number, from).then_some(number)
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |index: PlaceIndex| match self.places[index as usize] {
            Place::Block(block) => block.to_string(),
            Place::End(number) => format!("end of loop {number}"),
        };
        let next = |next: &Next| match *next {
            Next::Direct(place) => name(place),
            Next::Guard(place) => format!("{} if any lane executes it", name(place)),
            Next::Done => "done".to_owned(),
        };
        for (index, place) in self.places.iter().enumerate() {
            write!(f, "{}", name(index as PlaceIndex))?;
            if self.guarded[index] {
                write!(f, " (guarded, else {})", next(&self.skip[index]))?;
            }
            match (&self.exits[index], place) {
                (Some(Exit::Uniform(all)), _) => {
                    let all: Vec<String> = all.iter().map(next).collect();
                    write!(f, ": {}", all.join(" or "))?;
                }
                (Some(Exit::Diverged(one)), _) => write!(f, ": diverges, then {}", next(one))?,
                (None, Place::End(number)) if self.deferred[*number] => {
                    write!(f, ": exits are deferred")?;
                }
                (None, _) => {}
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
