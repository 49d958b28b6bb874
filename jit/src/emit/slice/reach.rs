//! Tests that the accesses of a chunk stay in the kernel's memory ([`crate::emit::reach`]). If the
//! addresses are affine, or are all computed from one root value, a test is one comparison;
//! otherwise it consists of a few vector operations.
//!
//! The addresses of inactive lanes are arbitrary. The result of a vector test does not depend on
//! inactive lanes. Tests of affine addresses include inactive lanes, so such a test can fail
//! because of an inactive lane alone. The host then examines only the active lanes.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, StackSlotData, StackSlotKind, types};
use margay_ir::analysis::reach::Root;
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Inst, Value};
use margay_ir::function::InstData;

use super::memory::Places;
use super::{Lanes, Slice};
use crate::abi::{NativeContext, Verify};
use crate::emit::lane::{EmitError, host};
use crate::emit::reach::{Area, margin_of, moved, writes};

impl Slice<'_, '_> {
    /// Emits a test that ends the launch if the kernel may not access the memory that an active lane accesses.
    pub(super) fn demand_reach(
        &mut self,
        inst: Inst,
        data: &InstData,
        places: &Places,
    ) -> Result<(), EmitError> {
        if !self.lane.isolated {
            return Ok(());
        }
        let area = self.lane.home_of(data);
        let (root, inside) = self.lane.root_of(inst, data);
        if inside {
            return Ok(());
        }
        self.mark(inst, 0);
        let bytes = moved(data);
        let address = self.lane.function.dfg.args(inst)[0];
        let ok = match (area, places) {
            (Area::Device, _) => self.device_holds(&root, (address, places), bytes)?,
            (Area::Window(limit), _) => self.window_holds(inst, (&root, address, bytes), limit)?,
            (Area::Params, _) => self.params_hold(places, bytes),
        };
        let width = self.view.width;
        let shape = Verify::of(bytes, writes(data), data.mods.space(), width);
        let first = self.lane.b.current_block();
        let active = self.mask.clone();
        let [go_on, ask] = std::array::from_fn(|_| self.lane.b.create_block());
        self.lane.b.set_cold_block(ask);
        self.lane.b.ins().brif(ok, go_on, &[], ask, &[]);
        self.lane.b.switch_to_block(ask);
        let shape = match active {
            None => {
                let all = shape.with_mask(u32::MAX >> (32 - width));
                self.lane.int(types::I64, all.0)
            }
            Some(_) => {
                let bits = self.active_bits();
                let b = &mut *self.lane.b;
                let bits = b.ins().uextend(types::I64, bits);
                let high = b.ins().ishl_imm_u(bits, 32);
                let low = self.lane.int(types::I64, shape.0);
                self.lane.b.ins().bor(high, low)
            }
        };
        let refused = match places {
            &Places::Strided {
                address, stride, ..
            } => {
                let stride = self.lane.b.ins().iconst(types::I64, stride);
                let which = offset_of!(NativeContext, verify);
                self.lane.verify(which, &[address, stride, shape])
            }
            Places::Each(each) => {
                let at = self.addresses();
                for (lane, &address) in each.iter().enumerate() {
                    self.lane
                        .b
                        .ins()
                        .store(host(), address, at, 8 * lane as i32);
                }
                let which = offset_of!(NativeContext, verify_lanes);
                self.lane.verify(which, &[at, shape])
            }
        };
        self.lane.refuse_access(refused);
        self.lane.b.ins().jump(go_on, &[]);
        self.lane.b.switch_to_block(go_on);
        self.lane.keep_tests(first, go_on);
        Ok(())
    }

    /// Emits unrolled code that runs a memory operation for all lanes, one after the other. The addresses of all lanes
    /// are tested before the first access.
    pub(super) fn unrolled_access(&mut self, inst: Inst, data: &InstData) -> Result<(), EmitError> {
        if !self.lane.isolated {
            return self.unrolled(inst);
        }
        let address = self.lane.function.dfg.args(inst)[0];
        let places = self.places(address, data.mods.space(), None)?;
        self.demand_reach(inst, data, &places)?;
        self.lane.isolated = false;
        let done = self.unrolled(inst);
        self.lane.isolated = true;
        done
    }

    /// Returns the address of the stack memory for the addresses of the lanes.
    fn addresses(&mut self) -> ir::Value {
        let slot = match self.asked {
            Some(slot) => slot,
            None => {
                let data = StackSlotData::new(StackSlotKind::ExplicitSlot, 8 * 32, 3);
                let slot = self.lane.b.create_sized_stack_slot(data);
                self.asked = Some(slot);
                slot
            }
        };
        self.lane.b.ins().stack_addr(types::I64, slot, 0)
    }

    /// Returns the root of the first lane's address, and the distance in bytes from it to the root of the last lane's
    /// address. Returns `None` if the root varies.
    fn shared_root(&mut self, root: Value) -> Option<(ir::Value, i128)> {
        let last = i128::from(self.view.width) - 1;
        let apart = match self.class(root) {
            Class::Varying => return None,
            Class::Affine(stride) => i128::from(stride) * last,
            _ => 0,
        };
        let first = self.lane.get(root);
        Some((self.lane.wide(first), apart))
    }

    /// Emits a test whose result is nonzero only if the accesses of all active lanes are in device memory or in the
    /// inaccessible margins at its ends.
    fn device_holds(
        &mut self,
        root: &Root,
        (address, places): (Value, &Places),
        bytes: u32,
    ) -> Result<ir::Value, EmitError> {
        let end = i128::from(bytes);
        if let Some((first, apart)) = self.shared_root(root.value) {
            let low = root.offset.low + apart.min(0);
            let high = root.offset.high + apart.max(0) + end;
            if let Some(limit) = margin_of(low, high) {
                let known = self.lane.tested((root.value, limit));
                return Ok(known.unwrap_or_else(|| {
                    let ok = self.lane.in_range(first, limit);
                    self.lane.note_test((root.value, limit), ok);
                    ok
                }));
            }
        }
        if let &Places::Strided {
            address, stride, ..
        } = places
        {
            let apart = i128::from(stride) * (i128::from(self.view.width) - 1);
            return Ok(match margin_of(apart.min(0), apart.max(0) + end) {
                Some(limit) => self.lane.in_range(address, limit),
                None => self.never(),
            });
        }
        let lanes = self.get(address)?;
        Ok(self.all_in_range(&lanes))
    }

    /// Emits a test whose result is nonzero only if the offsets of all active lanes are in a window.
    fn window_holds(
        &mut self,
        inst: Inst,
        (root, address, bytes): (&Root, Value, u32),
        limit: usize,
    ) -> Result<ir::Value, EmitError> {
        if let Some(ok) = self.lane.tested((root.value, limit)) {
            return Ok(ok);
        }
        let (low, high) = self.lane.hull(inst, root, bytes);
        let ok = match self.shared_root(root.value) {
            Some((first, apart)) => {
                let hull = (low + apart.min(0), high + apart.max(0));
                if hull.1 - hull.0 >= 1 << 32 {
                    return Ok(self.never());
                }
                self.lane.window_holds(first, hull, limit)
            }
            None if self.is_guarded(address) => {
                // The address is affine where this code runs, because its check holds. The root of the address might
                // not be affine.
                return self.guarded_window_holds(address, bytes, limit);
            }
            None => {
                let lanes = self.get(root.value)?;
                let greatest = self.greatest_offset(&lanes, low as i32);
                let end = self.lane.b.ins().iadd_imm_s(greatest, (high - low) as i64);
                let limit = self.lane.field(types::I64, limit);
                let b = &mut *self.lane.b;
                b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, limit)
            }
        };
        self.lane.note_test((root.value, limit), ok);
        Ok(ok)
    }

    /// Emits the test of offsets in a window for a speculatively affine address whose check holds.
    fn guarded_window_holds(
        &mut self,
        address: Value,
        bytes: u32,
        limit: usize,
    ) -> Result<ir::Value, EmitError> {
        let stride = self.view.speculative.stride(address).unwrap_or(0);
        let apart = i128::from(stride) * (i128::from(self.view.width) - 1);
        let hull = (apart.min(0), apart.max(0) + i128::from(bytes));
        if hull.1 - hull.0 >= 1 << 32 {
            return Ok(self.never());
        }
        let first = self.lane.get(address);
        Ok(self.lane.window_holds(first, hull, limit))
    }

    /// Emits a test whether the accesses of all lanes are in the kernel's parameter buffer.
    fn params_hold(&mut self, places: &Places, bytes: u32) -> ir::Value {
        let kernel = self.lane.function.kernel.as_ref();
        let size = kernel.map_or(0, |kernel| i128::from(kernel.param_bytes));
        let (addresses, span) = match places {
            &Places::Strided {
                address, stride, ..
            } => {
                let apart = i128::from(stride) * (i128::from(self.view.width) - 1);
                let b = &mut *self.lane.b;
                let lowest = b.ins().iadd_imm_s(address, apart.min(0) as i64);
                (vec![lowest], apart.abs() + i128::from(bytes))
            }
            Places::Each(each) => (each.clone(), i128::from(bytes)),
        };
        if span > size {
            return self.never();
        }
        let base = self
            .lane
            .field(types::I64, offset_of!(NativeContext, params));
        let b = &mut *self.lane.b;
        let last = b.ins().iconst(types::I64, (size - span) as i64);
        let tests: Vec<ir::Value> = addresses
            .into_iter()
            .map(|address| {
                let offset = b.ins().isub(address, base);
                b.ins().icmp(IntCC::UnsignedLessThanOrEqual, offset, last)
            })
            .collect();
        let all = tests.into_iter().reduce(|all, one| b.ins().band(all, one));
        all.unwrap_or_else(|| b.ins().iconst(types::I8, 1))
    }

    /// Returns a constant that stands for the result of a failed test, so that the generated code
    /// always asks the host whether the access is allowed.
    fn never(&mut self) -> ir::Value {
        self.lane.b.ins().iconst(types::I8, 0)
    }

    /// Emits the test whether the addresses of all active lanes are in the range of device memory.
    /// The test relies on the fact that the size of the range is a power of two.
    fn all_in_range(&mut self, lanes: &Lanes) -> ir::Value {
        let base = self
            .lane
            .field(types::I64, offset_of!(NativeContext, reach_base));
        let base = self.lane.b.ins().splat(types::I64X2, base);
        let mut all: Option<ir::Value> = None;
        for (pair, &vector) in lanes.iter().enumerate() {
            let offset = self.lane.b.ins().isub(vector, base);
            let offset = match self.mask_of_pair(pair) {
                Some(mask) => self.lane.b.ins().band(offset, mask),
                None => offset,
            };
            all = Some(match all {
                Some(all) => self.lane.b.ins().bor(all, offset),
                None => offset,
            });
        }
        let Some(all) = all else {
            return self.never();
        };
        let b = &mut *self.lane.b;
        let (low, high) = (b.ins().extractlane(all, 0), b.ins().extractlane(all, 1));
        let any = b.ins().bor(low, high);
        let bytes = self
            .lane
            .field(types::I64, offset_of!(NativeContext, reach_bytes));
        let b = &mut *self.lane.b;
        b.ins().icmp(IntCC::UnsignedLessThan, any, bytes)
    }

    /// Returns the mask for the vector with index `pair`, which has two 64-bit lanes; `None` if there is no mask.
    pub(super) fn mask_of_pair(&mut self, pair: usize) -> Option<ir::Value> {
        let four = *self.mask.as_ref()?.get(pair / 2)?;
        let b = &mut *self.lane.b;
        Some(match pair % 2 {
            0 => b.ins().swiden_low(four),
            _ => b.ins().swiden_high(four),
        })
    }

    /// Emits code that computes, for each active lane, the low 32 bits of the sum of the lane's value and `low`.
    /// Returns the maximum of these unsigned numbers as a 64-bit integer, which is 0 if no lane is active.
    fn greatest_offset(&mut self, lanes: &Lanes, low: i32) -> ir::Value {
        let mut fours: Vec<ir::Value> = lanes.to_vec();
        if self.lane.b.func.dfg.value_type(lanes[0]) == types::I64X2 {
            // A shuffle that selects the low words of the four lanes of two vectors.
            let pick: Vec<u8> = (0..4u8).flat_map(|lane| 8 * lane..8 * lane + 4).collect();
            let pick = self.lane.b.func.dfg.immediates.push(pick.as_slice().into());
            fours = lanes
                .chunks(2)
                .map(|pair| {
                    let [low, high] = [pair[0], *pair.last().unwrap_or(&pair[0])]
                        .map(|vector| self.cast_one(vector, types::I8X16));
                    let words = self.lane.b.ins().shuffle(low, high, pick);
                    self.cast_one(words, types::I32X4)
                })
                .collect();
        }
        let mut greatest: Option<ir::Value> = None;
        let low = (low != 0).then(|| self.constant(types::I32X4, i64::from(low) as u64));
        for (four, offsets) in fours.into_iter().enumerate() {
            let offsets = match low {
                Some(low) => self.lane.b.ins().iadd(offsets, low),
                None => offsets,
            };
            let mask = self.mask.as_ref().map(|mask| mask[four]);
            let b = &mut *self.lane.b;
            let offsets = match mask {
                Some(mask) => b.ins().band(offsets, mask),
                None => offsets,
            };
            greatest = Some(match greatest {
                Some(greatest) => b.ins().umax(greatest, offsets),
                None => offsets,
            });
        }
        let Some(greatest) = greatest else {
            return self.lane.b.ins().iconst(types::I64, 0);
        };
        let b = &mut *self.lane.b;
        let words: [ir::Value; 4] = std::array::from_fn(|i| b.ins().extractlane(greatest, i as u8));
        let (a, c) = (
            b.ins().umax(words[0], words[1]),
            b.ins().umax(words[2], words[3]),
        );
        let one = b.ins().umax(a, c);
        b.ins().uextend(types::I64, one)
    }
}
