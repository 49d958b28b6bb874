//! The version of the code for chunks whose lanes run together.
//!
//! Masked accesses are slow on some machines: on AMD processors of family 26, a loop over memory with masked vector loads
//! and stores took up to four times as long as with plain ones. The code of a chunk therefore has two versions. The first
//! runs while all lanes of the chunk run: at branches that are not in loops, and at the branch that ends a loop, it tests
//! whether all lanes take the same edge, and otherwise continues in the second version, at the place where the lanes of
//! the branch continue. Elsewhere it is like the second version, which is the code under masks of
//! [`control`](crate::control), and which runs to the end of the chunk.
//!
//! Invariant: no edge leads from the second version to the first, and the second version's loops are entered only at
//! their headers, so that all loops of the program have one entry.

use margay_ir::entity::{Block, Inst, Value};
use margay_ops::ops::Opcode;
use margay_ops::types::Type;
use margay_vir::data::Data;
use margay_vir::ops::Op;

use crate::Refusal;
use crate::control::{Blocks, Edge};
use crate::emitter::Emitter;
use crate::flow::{Exit, Next, Place, PlaceIndex, is_back_edge};
use crate::variables::Key;

impl Emitter<'_> {
    /// Returns whether all lanes of the chunk run in the block being translated, by construction.
    pub(crate) fn runs_together(&mut self) -> bool {
        let Some(all) = self.together.as_ref().map(|together| together.all) else {
            return false;
        };
        let masks = self.of_chunks(|e| e.mask);
        masks.iter().all(|&mask| mask == all)
    }

    /// Records that the lanes of `mask` take an edge to a place.
    pub(crate) fn note_edge(&mut self, place: PlaceIndex, mask: Value) {
        if let Some(together) = &mut self.together
            && together.all != mask
        {
            together.partial.insert(place);
        }
    }

    /// Returns whether the code of the phase has two versions.
    pub(crate) fn runs_divided(&mut self) -> bool {
        let masks = self.of_chunks(|e| e.mask);
        let is_all = |&mask: &Value| self.out.constant(mask).is_some();
        let places = 0..self.flow().places.len() as PlaceIndex;
        let mut diverged = places
            .filter(|&place| matches!(self.flow().exits[place as usize], Some(Exit::Diverged(_))));
        self.may_divide
            && (!masks.iter().all(is_all) || diverged.any(|place| self.divides_at(place)))
    }

    /// Returns the mask of all lanes if all lanes of the chunk run at a place that the code has reached.
    pub(crate) fn mask_of_all(&self, place: PlaceIndex) -> Option<Value> {
        let together = self.together.as_ref()?;
        if together.partial.contains(&place) {
            return None;
        }
        if let Place::Block(block) = self.flow().places[place as usize]
            && let Some(number) = self.loops().headed_by(block)
            && !self.stays_together(number)
        {
            return None;
        }
        Some(together.all)
    }

    /// Returns whether lanes that enter a loop together start each iteration together or leave the first version.
    fn stays_together(&self, number: usize) -> bool {
        let blocks = self.loops().body(number).iter();
        let mut places = blocks.map(|&block| self.flow().place_of(self.loops(), block));
        places.all(|place| match &self.flow().exits[place as usize] {
            Some(Exit::Diverged(_)) => self.divides_at(place),
            _ => true,
        })
    }

    /// Returns whether the first version tests at a branch whether all lanes take the same edge: the branch is in no loop,
    /// or it ends the iteration of a loop that accesses memory and is in no other loop.
    pub(crate) fn divides_at(&self, place: PlaceIndex) -> bool {
        let (flow, loops) = (self.flow(), self.loops());
        let Place::Block(block) = flow.places[place as usize] else {
            return false;
        };
        let insts = self.source.insts(block);
        let Some(&last) = insts.last() else {
            return false;
        };
        if self.source.dfg.insts[last].opcode != Opcode::Brif {
            return false;
        }
        let Some(number) = loops.innermost(block) else {
            return true;
        };
        let end = flow.end_of(number);
        let targets = self.source.dfg.targets(last);
        let is_continue = |to: Block| is_back_edge(loops, block, to) == Some(number);
        loops.outer(number).is_none()
            && place + 1 == end
            && self.accesses_memory(number)
            && targets
                .iter()
                .filter(|call| is_continue(call.block))
                .count()
                == 1
    }

    fn accesses_memory(&self, number: usize) -> bool {
        let blocks = self.loops().body(number).iter();
        let mut insts = blocks.flat_map(|&block| self.source.insts(block));
        insts.any(|&inst| {
            let opcode = self.source.dfg.insts[inst].opcode;
            matches!(opcode, Opcode::Ld | Opcode::St | Opcode::Atom | Opcode::Red)
        })
    }

    /// Emits a branch in the first version: the code continues in the first version if all lanes take the same edge, and
    /// otherwise in the second.
    pub(crate) fn divide(
        &mut self,
        inst: Inst,
        next: Next,
        (together, apart): (&Blocks, &Blocks),
    ) -> Result<(), Refusal> {
        let source = self.source;
        let calls = source.dfg.targets(inst);
        let argument = source.dfg.args(inst)[0];
        let [then, other, some, mixed] = std::array::from_fn(|_| self.new_block());
        self.test_endpoints(argument, calls, [then, other]);
        let conditions = self.of_chunks(|e| e.lanes(argument));
        let masks = self.each_chunk(|e| e.edge_masks(inst, Opcode::Brif))?;
        let mask_type = self.mask_type();
        if let Some([all, none]) = self.decided(argument) {
            let [other_or_exact, exact] = std::array::from_fn(|_| self.new_block());
            self.brif(all, then, other_or_exact);
            if self.variables.is_reached(other_or_exact) {
                self.enter(other_or_exact);
                self.brif(none, other, exact);
            }
            self.enter_cold(exact);
        }
        let all = self.combined(Opcode::And, &conditions);
        let all = self.value(Op::All, mask_type, Data::Nothing, &[all]);
        self.brif(all, then, some);
        if self.variables.is_reached(some) {
            self.enter(some);
            let any = self.combined(Opcode::Or, &conditions);
            let any = self.value(Op::Any, mask_type, Data::Nothing, &[any]);
            self.brif(any, mixed, other);
        }
        if self.variables.is_reached(mixed) {
            self.enter_cold(mixed);
            let kept = self.together.take();
            for (index, call) in calls.iter().enumerate() {
                self.of_chunks(|e| {
                    let mask = masks[e.position()][index];
                    e.edge_that_meets(&Edge { call, mask }, true);
                });
            }
            self.join_apart(next, apart);
            self.together = kept;
        }
        for (way, call) in [then, other].into_iter().zip(calls) {
            if !self.variables.is_reached(way) {
                continue;
            }
            self.enter(way);
            let nexts = self.of_chunks(|e| {
                let mask = e.mask;
                e.whole_edge(&Edge { call, mask })
            });
            self.jump(together.of(nexts[0]));
        }
        Ok(())
    }

    /// Emits an edge that all lanes take, and returns where the code continues.
    fn whole_edge(&mut self, edge: &Edge<'_>) -> Next {
        let (from, to) = (self.block, edge.call.block);
        self.keep_leaving(from, to, edge.mask);
        if self.only_exits(to) {
            return Next::Done;
        }
        let place = match is_back_edge(self.loops(), from, to) {
            Some(number) => {
                self.pass(edge, false, (Key::NextScalar, Key::NextLanes));
                self.flow().end_of(number)
            }
            None => {
                self.pass(edge, false, (Key::Scalar, Key::Lanes));
                self.flow().place_of(self.loops(), to)
            }
        };
        self.write(Key::Mask(place), edge.mask);
        Next::Direct(place)
    }

    /// Emits a jump to the second version. The end of a loop is repeated here, so that the loop is entered at its header.
    fn join_apart(&mut self, next: Next, apart: &Blocks) {
        let (Next::Direct(place) | Next::Guard(place)) = next else {
            return self.jump(apart.of(next));
        };
        let Place::End(number) = self.flow().places[place as usize] else {
            return self.jump(apart.of(next));
        };
        if let Next::Guard(_) = next {
            let lanes = self.of_chunks(|e| e.waiting(place));
            let lanes = self.combined(Opcode::Or, &lanes);
            let any = self.value(Op::Any, self.mask_type(), Data::Nothing, &[lanes]);
            let more = self.new_block();
            self.brif(any, more, apart.of(self.flow().skip[place as usize]));
            self.enter_cold(more);
        }
        self.next_iteration(number, place, apart);
    }

    /// Emits the test whether all lanes of the chunks run. The code continues at `together` if they do, and at `apart`
    /// otherwise.
    pub(crate) fn test_all(&mut self, (together, apart): (Block, Block)) {
        let masks = self.of_chunks(|e| e.mask);
        let mask = self.combined(Opcode::And, &masks);
        let all = match self.out.constant(mask) {
            Some(bits) => self.constant(Type::PRED, bits & 1),
            None => self.value(Op::All, self.mask_type(), Data::Nothing, &[mask]),
        };
        self.brif(all, together, apart);
    }
}
