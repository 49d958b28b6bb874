//! Tests that accesses stay in the memory that CUDA permits a kernel to access.
//!
//! A test compares an address with the range of device memory, which has inaccessible margins of at least
//! [`REACH_MARGIN`] bytes on both sides. One comparison is therefore sufficient for all lanes and all accesses near an
//! address. If a test fails, which is rare, the program asks the host, which permits accesses to registered memory of the
//! host and, through generic addresses, to the memory of the thread. If the host refuses the access, the program ends
//! with a trap.

use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Inst, Value};
use margay_ops::mods::{CmpOp, Half, Mods};
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::data::Data;
use margay_vir::function::{Helper, SlotData};
use margay_vir::ops::Op;

use crate::emitter::{Emitter, Step, desc};
use crate::layout::{NOTED, REACH_MARGIN};
use crate::memory::{Places, Strided};
use crate::{DeviceTest, ReachTest, Refusal};

/// The limit of the distance in bytes between neighbouring threads of a CTA that are tested together.
const MAX_STEP: u64 = 1 << 40;

/// The number of traps at accesses that the host refuses.
pub(crate) const REFUSED: u64 = 2;

/// The helpers of a program: they ask the host about accesses. Both return zero if the host permits the accesses.
pub(crate) fn helpers() -> Vec<Helper> {
    let helper = |name: &str, params: &[Type]| Helper {
        name: name.to_owned(),
        signature: margay_ir::function::Signature {
            params: params.to_vec(),
            returns: vec![Type::B32],
        },
        no_memory: true,
    };
    vec![
        helper("verify", &[Type::B64; 4]),
        helper("verify_lanes", &[Type::B64; 3]),
    ]
}

/// The number of the helper that asks about addresses at a constant distance. Its arguments: the address of the context,
/// the address of the first lane's access, the distance, and the properties of the accesses, with the mask of the lanes
/// in the high half.
const VERIFY: u64 = 0;
/// The number of the helper that asks about any addresses. Its arguments: the address of the context, that of an array with the
/// address of each lane's access, and the properties.
const VERIFY_LANES: u64 = 1;

impl Emitter<'_> {
    /// Emits the test of an access, if it needs one. The access is at `places`, and `bytes` long.
    pub(crate) fn demand_reach(&mut self, inst: Inst, places: Places) -> Result<(), Refusal> {
        let test = match self.kernel.facts.reach(inst) {
            ReachTest::Inside => return Ok(()),
            ReachTest::Local(_) | ReachTest::Unsupported => return Err(Refusal::TestedAccess),
            ReachTest::Device(test) => test,
        };
        if let Some(holds) = self.in_reach_of_cta(&test) {
            return match holds {
                Some(holds) => self.demand_reach_of_cta(inst, (&test, holds)),
                None => Ok(()),
            };
        }
        let Some(holds) = self.in_reach(&test, places) else {
            return Ok(());
        };
        let [ask, next] = std::array::from_fn(|_| self.new_block());
        self.brif(holds, next, ask);
        self.enter_cold(ask);
        self.ask(test.properties, places);
        self.jump(next);
        self.enter(next);
        Ok(())
    }

    /// Returns whether the accesses of all threads of the CTA, which all run, are in device memory or its margins: if the
    /// root is derived. The inner option is `None` if the block already contains this test.
    fn in_reach_of_cta(&mut self, test: &DeviceTest) -> Option<Option<Value>> {
        let root = test.root;
        let steps = self.derived.get(&root).copied();
        let [x, y] = steps.filter(|_| self.is_whole() && self.all_run())?;
        let lanes = match self.own_class(root) {
            Class::Varying => return None,
            Class::Affine(stride) => stride.checked_mul(i64::from(self.kernel.width) - 1)?,
            _ => 0,
        };
        let (chunks, group) = (self.chunk_count, self.kernel.group);
        let last = group.offset_of(chunks - 1, self.kernel.width);
        // The distances of the first thread's root to the lowest and the highest, as far as they are constants.
        let (mut low, mut high) = (test.low, test.high);
        let mut constants = vec![lanes];
        let mut others: Vec<(Value, i64)> = Vec::new();
        for (step, distance) in [x, y].into_iter().zip(last) {
            match step {
                Step::Constant(step) => constants.push(step.checked_mul(distance)?),
                Step::Value(step) if distance > 0 => others.push((step, distance)),
                Step::Value(_) => {}
            }
        }
        for way in constants {
            low = low.checked_add(way.min(0))?;
            high = high.checked_add(way.max(0))?;
        }
        if self.kind(root) != Kind::B64 || low < -REACH_MARGIN || high > REACH_MARGIN {
            return None;
        }
        if self.chunk > 0 || !self.reached.insert(self.test_of(root)) {
            return Some(None);
        }
        let first = self.scalar(root);
        let mut holds = self.is_device(first);
        let mut corners = vec![first];
        for (step, distance) in others {
            let distance = self.constant(Type::B64, distance as u64);
            let way = self.product(step, distance);
            for corner in corners.clone() {
                let corner = self.add(corner, way);
                let inside = self.is_device(corner);
                holds = self.logic(Opcode::And, &[holds, inside]);
                corners.push(corner);
            }
            // Threads between two corners are in the same range unless the sum of the steps wraps.
            let half = self.constant(Type::B64, MAX_STEP);
            let moved = self.add(step, half);
            let limit = self.constant(Type::B64, 2 * MAX_STEP);
            let is_small = self.compare((CmpOp::Lo, OpType::U64), moved, limit);
            holds = self.logic(Opcode::And, &[holds, is_small]);
        }
        Some(Some(holds))
    }

    /// Emits the test of an access for each chunk, unless `holds` shows it for all of them.
    fn demand_reach_of_cta(
        &mut self,
        inst: Inst,
        (test, holds): (&DeviceTest, Value),
    ) -> Result<(), Refusal> {
        let [each, next] = std::array::from_fn(|_| self.new_block());
        self.brif(holds, next, each);
        if self.variables.is_reached(each) {
            self.enter_cold(each);
            let (address, data) = (self.source.dfg.args(inst)[0], self.source.dfg.insts[inst]);
            let reached = std::mem::take(&mut self.reached);
            self.each_chunk(|e| {
                e.set_place(inst);
                let places = e.places(address, data.mods.space())?;
                let Some(holds) = e.in_reach(test, places) else {
                    return Ok(());
                };
                let [ask, following] = std::array::from_fn(|_| e.new_block());
                e.brif(holds, following, ask);
                e.enter_cold(ask);
                e.ask(test.properties, places);
                e.jump(following);
                e.enter_cold(following);
                Ok(())
            })?;
            self.reached = reached;
            self.jump(next);
        }
        self.enter(next);
        self.set_place(inst);
        Ok(())
    }

    /// Returns whether the accesses of all lanes that run are in device memory or its margins; `None` if an earlier test
    /// in the block has shown it.
    fn in_reach(&mut self, test: &DeviceTest, places: Places) -> Option<Value> {
        let last = i64::from(self.kernel.width) - 1;
        let is_near = |low: i64, high: i64| low >= -REACH_MARGIN && high <= REACH_MARGIN;
        let stride = match self.class(test.root) {
            Class::Varying => None,
            Class::Affine(stride) => stride.checked_mul(last),
            _ => Some(0),
        };
        if let Some(apart) = stride
            && is_near(
                test.low.saturating_add(apart.min(0)),
                test.high.saturating_add(apart.max(0)),
            )
        {
            // The block already contains this test.
            if !self.reached.insert(self.test_of(test.root)) {
                return None;
            }
            let root = self.scalar(test.root);
            let root = self.widened(root);
            return Some(self.is_device(root));
        }
        let bytes = test.high.saturating_sub(test.low);
        Some(match places {
            Places::Strided(strided) => {
                let first = self.first_of(strided);
                let holds = self.is_device(first);
                let apart = strided.stride.wrapping_mul(last);
                if is_near(apart.min(0), apart.saturating_add(bytes).max(bytes)) {
                    return Some(holds);
                }
                // The first and the last lane may be on different sides of the range only if the lanes span all of it,
                // and then a test fails.
                let end = self.add_constant(first, apart);
                let end = self.is_device(end);
                self.logic(Opcode::And, &[holds, end])
            }
            Places::Each { .. } => {
                let addresses = self.lane_addresses(places);
                let holds = self.is_device(addresses);
                let not = self.logic(Opcode::Not, &[holds]);
                let wrong = self.logic(Opcode::And, &[self.mask, not]);
                let wrong = self.value(Op::Any, self.mask_type(), Data::Nothing, &[wrong]);
                self.logic(Opcode::Not, &[wrong])
            }
        })
    }

    /// Returns whether addresses are in the range of device memory.
    fn is_device(&mut self, addresses: Value) -> Value {
        let layout = &self.kernel.layout;
        let (base, bytes) = (layout.reach_base, layout.reach_bytes);
        let [base, bytes] = [base, bytes].map(|offset| self.field(offset, Type::B64));
        let ty = self.out.ty(addresses);
        let offset = self.simple(Opcode::Sub, OpType::U64, ty, &[addresses, base]);
        self.compare((CmpOp::Lo, OpType::U64), offset, bytes)
    }

    /// Returns the host address of the first lane's access.
    fn first_of(&mut self, strided: Strided) -> Value {
        self.add_constant(strided.address, strided.displacement.into())
    }

    /// Returns the host address of each lane's access.
    fn lane_addresses(&mut self, places: Places) -> Value {
        let ty = self.vector(Kind::B64);
        match places {
            Places::Strided(strided) => {
                let first = self.first_of(strided);
                self.value(
                    Op::Affine,
                    ty,
                    Data::Number(strided.stride as u64),
                    &[first],
                )
            }
            Places::Each {
                base,
                offsets,
                scale,
            } => {
                let wide = match self.out.ty(offsets).lane_bits() {
                    64 => offsets,
                    _ => self.convert(OpType::S64, OpType::S32, offsets),
                };
                let scale = self.constant(Type::B64, scale as u64);
                let low = Mods::NONE.with_half(Half::Lo);
                let times = desc(Opcode::Mul, OpType::U64, OpType::None, low);
                let scaled = self.map(times, ty, &[wide, scale]);
                self.sum(scaled, base)
            }
        }
    }

    /// Returns the lanes that run, as bits, and the number of the first lane of their chunk. If an operation runs once for
    /// all chunks, the chunk is the first that runs.
    fn first_chunk_that_runs(&mut self) -> (Value, Value) {
        let (masks, first) = match self.masks_of_chunks.clone() {
            masks if masks.is_empty() => ([self.mask].into_iter().collect(), self.chunk),
            masks => (masks, 0),
        };
        let mut found: Option<(Value, Value)> = None;
        for index in (0..masks.len()).rev() {
            let mask = masks[index];
            let lanes = self.value(Op::Ballot, self.mask_type(), Data::Nothing, &[mask]);
            let lane = (first + index as u32) * self.kernel.width;
            let lane = self.constant(Type::B32, lane.into());
            found = Some(match found {
                None => (lanes, lane),
                Some((later_lanes, later)) => {
                    let any = self.value(Op::Any, self.mask_type(), Data::Nothing, &[mask]);
                    let lanes = [lanes, later_lanes, any];
                    let lanes = self.simple(Opcode::Selp, OpType::B64, Type::B64, &lanes);
                    let lane = [lane, later, any];
                    let lane = self.simple(Opcode::Selp, OpType::B32, Type::B32, &lane);
                    (lanes, lane)
                }
            });
        }
        found.expect("there is a chunk")
    }

    /// Emits the question to the host whether it permits an access.
    pub(crate) fn ask(&mut self, properties: u64, places: Places) {
        let (lanes, lane) = self.first_chunk_that_runs();
        let high = self.constant(Type::B32, 32);
        let lanes = self.simple(Opcode::Shl, OpType::B64, Type::B64, &[lanes, high]);
        let low = self.constant(Type::B64, properties);
        let properties = self.simple(Opcode::Or, OpType::B64, Type::B64, &[lanes, low]);
        // The thread of the chunk's first lane, from which the host counts.
        self.set_field(self.kernel.layout.lane, lane);
        self.noted = None;
        let refused = match places {
            Places::Strided(strided) => {
                let first = self.first_of(strided);
                let stride = self.constant(Type::B64, strided.stride as u64);
                self.call(VERIFY, &[self.ctx, first, stride, properties])
            }
            Places::Each { .. } => {
                let addresses = self.lane_addresses(places);
                let slot = self.address_slot();
                let access = margay_vir::data::Access::new(OpType::B64, 8);
                let ty = self.vector(Kind::B64);
                self.store(Op::Store, ty, access, &[slot, addresses]);
                self.call(VERIFY_LANES, &[self.ctx, slot, properties])
            }
        };
        let zero = self.constant(Type::B32, 0);
        // The host adds the lane whose access it refuses to the thread in the context.
        self.place |= NOTED;
        let is_refused = self.compare((CmpOp::Ne, OpType::U32), refused, zero);
        self.trap_if(REFUSED, is_refused);
        self.place &= !NOTED;
    }

    fn call(&mut self, helper: u64, args: &[Value]) -> Value {
        self.call_helper(helper, args, &[Type::B32])[0]
    }

    /// Returns the address of a slot for the addresses of the lanes.
    fn address_slot(&mut self) -> Value {
        if self.out.slots.is_empty() {
            let size = 8 * self.kernel.width;
            self.out.slots.push(SlotData { size, align: 64 });
        }
        self.value(Op::SlotAddr, Type::B64, Data::Number(0), &[])
    }
}
