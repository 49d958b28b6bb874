//! Local memory.
//!
//! An address in local memory is an offset from the start of the thread's local memory. The local memories of the threads
//! of a CTA follow each other. The program has one of two layouts of what is in them ([`LocalLayout`]):
//!
//! - Threads: as the ABI defines it, each thread's bytes are contiguous. Accesses of a chunk are gathers and scatters.
//! - Rows: the lanes of a chunk share the local memories of the chunk's threads. A *unit* is as large as the largest
//!   element that the kernel accesses. Units with the same offset are adjacent, so an access whose offset all lanes have is
//!   contiguous. The program has this layout if the kernel does not convert local addresses to generic addresses, because
//!   then nothing but the kernel's accesses of local memory depends on the layout, and if no lanes yield
//!   ([`waiting`](crate::waiting)): the program runs each CTA from its start to its end.
//!
//! All accesses that are not proved to be inside a variable are tested, so each is in the local memory of its thread.

use margay_ir::entity::{Inst, Value};
use margay_ir::function::{InstData, payload_slot};
use margay_ops::mods::{CmpOp, Half, Mods};
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::data::Data;
use margay_vir::ops::Op;

use crate::emitter::{Emitter, desc};
use crate::layout::LocalLayout;
use crate::memory::{Element, Places, Strided};
use crate::{LocalTest, ReachTest, Refusal};

impl Emitter<'_> {
    /// Emits the address of a variable in local memory.
    pub(crate) fn local_variable(&mut self, inst: Inst, data: &InstData) {
        let result = self.source.dfg.results(inst)[0];
        let offset = self.slots[payload_slot(data.payload())];
        let offset = self.constant(Type::scalar(self.kind(result)), offset.into());
        self.set_scalar(result, offset);
    }

    /// Emits a load from local memory.
    pub(crate) fn load_local(&mut self, inst: Inst, elements: Vec<Element>) -> Result<(), Refusal> {
        self.demand_local(inst)?;
        for element in elements {
            let (places, element) = self.local_element(inst, element);
            let lanes = self.load_lanes(places, &element);
            self.set_lanes(element.value, lanes);
        }
        Ok(())
    }

    /// Emits a store to local memory.
    pub(crate) fn store_local(
        &mut self,
        inst: Inst,
        elements: Vec<Element>,
    ) -> Result<(), Refusal> {
        self.demand_local(inst)?;
        for element in elements {
            let (places, element) = self.local_element(inst, element);
            let lanes = self.lanes(element.value);
            self.store_lanes(places, &element, lanes);
        }
        Ok(())
    }

    /// Returns the host address of the local memory of each thread of the chunk.
    pub(crate) fn local_memories(&mut self) -> Value {
        let (memory, steps) = (self.local_memory(), self.local_steps());
        let steps = self.widened(steps);
        self.sum(memory, steps)
    }

    /// Returns the host address of the local memory of the chunk's first thread.
    fn local_memory(&mut self) -> Value {
        let layout = &self.kernel.layout;
        let (base, stride) = (layout.local_base, layout.local_stride);
        let base = self.field(base, Type::B64);
        let stride = self.field(stride, Type::B32);
        let wide = Mods::NONE.with_half(Half::Wide);
        let times = desc(Opcode::Mul, OpType::U32, OpType::None, wide);
        let before = self.map(times, Type::B64, &[self.thread, stride]);
        self.sum(base, before)
    }

    /// Returns the distance of each thread's local memory from that of the chunk's first thread.
    fn local_steps(&mut self) -> Value {
        let (layout, ty) = (&self.kernel.layout, self.vector(Kind::B32));
        let key = (layout.local_stride, ty);
        if let Some(&steps) = self.fields.get(&key) {
            return steps;
        }
        let stride = self.field(layout.local_stride, Type::B32);
        let steps = self.at_start(|e| {
            let lanes = e.lane_numbers(1);
            e.product(lanes, stride)
        });
        self.fields.insert(key, steps);
        steps
    }

    /// Returns the multiples of `stride`, one for each lane.
    fn lane_numbers(&mut self, stride: u32) -> Value {
        let (ty, zero) = (self.vector(Kind::B32), self.constant(Type::B32, 0));
        self.value(Op::Affine, ty, Data::Number(stride.into()), &[zero])
    }

    /// Returns the product of offsets and the number of threads of the chunk.
    fn times_threads(&mut self, offsets: Value) -> Value {
        let width = self.constant(Type::B32, self.kernel.width.into());
        if self.kernel.whole_chunks {
            return self.product(offsets, width);
        }
        let threads = self.field(self.kernel.layout.threads, Type::B32);
        let left = self.on_integers(Opcode::Sub, threads, self.thread);
        let here = self.simple(Opcode::Min, OpType::U32, Type::B32, &[left, width]);
        self.product(offsets, here)
    }

    /// Returns the offsets of an access in local memory: a scalar if all lanes have the same offset, else a vector.
    fn local_offsets(&mut self, address: Value) -> Value {
        let offsets = match self.class(address).is_uniform() {
            true => self.scalar(address),
            false => self.lanes(address),
        };
        self.low_word(offsets)
    }

    /// Returns the places of an element, and the element relative to them.
    fn local_element(&mut self, inst: Inst, element: Element) -> (Places, Element) {
        let memory = self.local_memory();
        let offsets = self.local_offsets(self.source.dfg.args(inst)[0]);
        let is_uniform = self.out.ty(offsets).lanes() == 1;
        match self.local {
            LocalLayout::Threads => {
                let steps = self.local_steps();
                let (base, offsets) = match is_uniform {
                    true => {
                        let offset = self.widened(offsets);
                        (self.sum(memory, offset), steps)
                    }
                    false => (memory, self.on_integers(Opcode::Add, offsets, steps)),
                };
                let scale = 1;
                (
                    Places::Each {
                        base,
                        offsets,
                        scale,
                    },
                    element,
                )
            }
            LocalLayout::Rows { unit } => {
                let by = self.constant(Type::B32, element.offset as u32 as u64);
                let offsets = self.on_integers(Opcode::Add, offsets, by);
                let element = Element {
                    offset: 0,
                    ..element
                };
                (self.in_rows(memory, offsets, (&element, unit)), element)
            }
        }
    }

    /// Returns the places of an element at `offsets` in memory that has units of `unit` bytes.
    fn in_rows(
        &mut self,
        memory: Value,
        offsets: Value,
        (element, unit): (&Element, u32),
    ) -> Places {
        // The offsets are multiples of the size of the element.
        let within = (element.memory.bits() / 8 < unit).then(|| {
            let low = self.constant(Type::B32, u64::from(unit) - 1);
            self.on_integers(Opcode::And, offsets, low)
        });
        let row = match within {
            Some(within) => self.on_integers(Opcode::Sub, offsets, within),
            None => offsets,
        };
        let mut place = self.times_threads(row);
        if let Some(within) = within {
            place = self.on_integers(Opcode::Add, place, within);
        }
        if self.out.ty(place).lanes() == 1 {
            let place = self.widened(place);
            return Places::Strided(Strided {
                address: self.sum(memory, place),
                displacement: 0,
                stride: unit.into(),
            });
        }
        let lanes = self.lane_numbers(unit);
        Places::Each {
            base: memory,
            offsets: self.on_integers(Opcode::Add, place, lanes),
            scale: 1,
        }
    }

    /// Emits the test that the lanes that run access their own local memory.
    fn demand_local(&mut self, inst: Inst) -> Result<(), Refusal> {
        let test = match self.kernel.facts.reach(inst) {
            ReachTest::Inside => return Ok(()),
            ReachTest::Local(test) if test.bytes.is_power_of_two() => test,
            _ => return Err(Refusal::TestedAccess),
        };
        let address = self.source.dfg.args(inst)[0];
        let key = (self.test_of(address), test.bytes);
        // The block already contains this test.
        if !self.tested_local.insert(key) {
            return Ok(());
        }
        let holds = self.is_local(address, test);
        let [ask, next] = std::array::from_fn(|_| self.new_block());
        self.brif(holds, next, ask);
        self.enter_cold(ask);
        let memories = self.local_memories();
        let offsets = self.local_offsets(address);
        let offsets = self.widened(offsets);
        let places = Places::Each {
            base: self.constant(Type::B64, 0),
            offsets: self.sum(memories, offsets),
            scale: 1,
        };
        self.ask(test.properties, places);
        self.jump(next);
        self.enter(next);
        Ok(())
    }

    /// Returns whether the accesses of all lanes that run, which are aligned, are in local memory.
    fn is_local(&mut self, address: Value, test: LocalTest) -> Value {
        let offsets = self.local_offsets(address);
        let rest = self.constant(Type::B32, u64::from(test.bytes) - 1);
        let last = self.on_integers(Opcode::Or, offsets, rest);
        let bytes = self.field(self.kernel.layout.local_bytes, Type::B64);
        let bytes = self.low_word(bytes);
        let holds = self.compare((CmpOp::Lo, OpType::U32), last, bytes);
        if self.out.ty(holds).lanes() == 1 {
            return holds;
        }
        let not = self.logic(Opcode::Not, &[holds]);
        let wrong = self.logic(Opcode::And, &[self.mask, not]);
        let wrong = self.value(Op::Any, self.mask_type(), Data::Nothing, &[wrong]);
        self.logic(Opcode::Not, &[wrong])
    }
}
