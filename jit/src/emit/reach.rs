//! Tests that accesses stay in the memory that CUDA permits a kernel to access.
//!
//! All device memory is in one range of addresses. [`NativeContext`] contains this range and the sizes of the memory
//! that a thread may access in the shared and local windows. Before an access to device memory,
//! generated code compares the root of the address, which is the value from which the address is
//! computed ([`Reach`]), with the range. This is sufficient for accesses near the root, because an
//! inaccessible margin is on each side of the range. Before an access to a window, generated code
//! compares the offset with the size of the window. A test rarely fails. An access whose test fails
//! may still be valid: an access to registered host memory, or through a generic address to the
//! thread's own shared, local or parameter memory. If a test fails, the host therefore decides
//! whether the access is allowed ([`Helpers::verify`]). Generated code calls the host through a
//! function that preserves all registers, so that the call does not slow down the code around it.
//! If the host refuses the access, the host records the fault, and generated code executes a trap
//! instruction.
//!
//! Accesses that [`Reach`] proves to be inside a variable are not tested. In a trusted specialisation
//! ([`crate::Specialisation::trusted`]), most other accesses are not tested either.
//!
//! [`Helpers::verify`]: crate::abi::Helpers::verify

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, TrapCode, types};
use cranelift_codegen::isa::CallConv;
use margay_ir::analysis::reach::{Interval, Root};
use margay_ir::analysis::{Pointers, Reach};
use margay_ir::entity::{Inst, SymbolId, Value};
use margay_ir::function::{Function, InstData};
use margay_ops::mods::StateSpace;
use margay_ops::ops::Opcode;

use rustc_hash::FxHashMap;

use super::lane::{Lane, fixed, host};
use super::memory::element_type;
use crate::abi::{NativeContext, Verify};
use crate::variables::NamedVariable;

/// Trap code of accesses that the host refused.
pub(crate) const OUTSIDE: TrapCode = TrapCode::unwrap_user(2);

/// Maximum distance in bytes between an access and its root for which the root is compared with the whole range. If the
/// root is in the range, an access within this distance is in the range or in the inaccessible pages on either side of
/// it.
pub(crate) const NEAR: i128 = margay_vectorise::REACH_MARGIN as i128;
/// Limits for code without access tests ([`crate::Specialisation::trusted`]). `MARGIN` is the size in bytes of the
/// inaccessible margin on each side of device memory. `MAX_BLOCKS` is the maximum number of blocks of a grid in each
/// dimension.
pub use margay_ir::analysis::pointers::{MARGIN, MAX_BLOCKS};

/// Maximum size in bytes of a hull of accesses ([`Lane::hull`]). Devices have at most this amount of shared memory per
/// block.
const LARGEST_HULL: i128 = 256 << 10;

/// The memory in which an access must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Area {
    /// The range of device memory.
    Device,
    /// A window. The context field at this offset contains the size of the window.
    Window(usize),
    /// The parameter buffer of the kernel.
    Params,
}

/// Identifies a test: the root, and the offset of the context field that contains the limit with which the root was
/// compared.
pub(crate) type Tested = (Value, usize);

/// Returns the number of bytes that an access of one lane reads or writes.
pub(crate) fn moved(data: &InstData) -> u32 {
    let element = element_type(data.ty).map_or(16, |element| element.bytes());
    element * data.mods.vec().max(1)
}

/// Returns whether an access writes.
pub(crate) fn writes(data: &InstData) -> bool {
    data.opcode != Opcode::Ld
}

/// Returns the memory in which an access must be, by its state space.
pub(crate) fn home_of(function: &Function, data: &InstData) -> Area {
    match data.mods.space() {
        StateSpace::Shared | StateSpace::SharedCluster => {
            Area::Window(offset_of!(NativeContext, shared_bytes))
        }
        StateSpace::Local => Area::Window(offset_of!(NativeContext, local_bytes)),
        // The parameters of a kernel are read-only.
        StateSpace::Param if function.kernel.is_some() && !writes(data) => Area::Params,
        _ => Area::Device,
    }
}

/// Returns whether an access needs no test: because it is proved to be valid or, in a trusted specialisation, because an
/// invalid access would fault.
pub(crate) fn is_inside(
    function: &Function,
    (symbols, pointers): (&FxHashMap<SymbolId, NamedVariable>, &Pointers),
    trusted: bool,
    inst: Inst,
) -> bool {
    let data = &function.dfg.insts[inst];
    let (space, reach) = (data.mods.space(), Reach::new(function));
    let widest = reach.of(function.dfg.args(inst)[0], &|_| true);
    let symbol = |id| symbols.get(&id).map(|v| (v.space, v.size));
    let read_only = space == StateSpace::Param && writes(data);
    !read_only && reach.is_inside(&widest, moved(data), space, &symbol)
        || trusted && {
            let shared = matches!(space, StateSpace::Shared | StateSpace::SharedCluster);
            shared || home_of(function, data) == Area::Device && pointers.holds(inst)
        }
}

impl Lane<'_, '_> {
    /// Returns the memory in which an access must be, by its state space.
    pub(crate) fn home_of(&self, data: &InstData) -> Area {
        home_of(self.function, data)
    }

    /// Returns the root of an access's address, and whether the access needs no test: because it is proved to be valid
    /// or, in a trusted specialisation, because an invalid access would fault.
    pub(crate) fn root_of(&self, inst: Inst, data: &InstData) -> (Root, bool) {
        let address = self.function.dfg.args(inst)[0];
        let inside = is_inside(
            self.function,
            (self.symbols, self.pointers),
            self.trusted,
            inst,
        );
        let reach = Reach::new(self.function);
        let home = self.homes[inst];
        let here = |def: Inst| self.homes[def] == home;
        let own = Root {
            value: address,
            offset: Interval::ZERO,
        };
        let root = match self.home_of(data) {
            _ if self.operands_only => own,
            Area::Device => reach.of(address, &here),
            _ => reach.by_constants(address, &here),
        };
        (root, inside)
    }

    /// Returns the hull of the accesses to windows in the block of `inst` that have the same root. The hull is a range
    /// of offsets from the root: from the first accessed byte to the byte after the last accessed byte. The block
    /// executes all these accesses, so one test of the hull covers them.
    pub(crate) fn hull(&mut self, inst: Inst, root: &Root, bytes: u32) -> (i128, i128) {
        let home = self.homes[inst];
        if self.hulls.0 != home {
            let insts = home.map_or(&[][..], |home| self.function.insts(home));
            let mut hulls: FxHashMap<Value, (i128, i128)> = FxHashMap::default();
            for &inst in insts {
                let data = self.function.dfg.insts[inst];
                let accesses = matches!(
                    data.opcode,
                    Opcode::Ld | Opcode::St | Opcode::Atom | Opcode::Red
                );
                if !accesses || !matches!(self.home_of(&data), Area::Window(_)) {
                    continue;
                }
                let (root, inside) = self.root_of(inst, &data);
                if !inside {
                    let high = root.offset.high + i128::from(moved(&data));
                    let hull = hulls.entry(root.value).or_insert((root.offset.low, high));
                    *hull = (hull.0.min(root.offset.low), hull.1.max(high));
                }
            }
            self.hulls = (home, hulls);
        }
        let own = (root.offset.low, root.offset.high + i128::from(bytes));
        let known = self
            .hulls
            .1
            .get(&root.value)
            .filter(|_| !self.operands_only);
        let hull = known.copied().unwrap_or(own);
        // A large hull is not tested as a whole: the host would refuse a hull that is larger than a window, although it
        // might permit each of the accesses.
        if hull.1 - hull.0 <= LARGEST_HULL {
            hull
        } else {
            own
        }
    }

    /// Returns the result of an earlier test in the current block; `None` if there is no such test.
    pub(crate) fn tested(&self, what: Tested) -> Option<ir::Value> {
        let here = self.reached.0 == self.b.current_block() && !self.operands_only;
        let mut known = self.reached.1.iter().filter(|_| here);
        known.find(|(tested, _)| *tested == what).map(|&(_, ok)| ok)
    }

    /// Records the result of a test, so that later accesses in the same block can use it.
    pub(crate) fn note_test(&mut self, what: Tested, ok: ir::Value) {
        if self.operands_only {
            return;
        }
        let block = self.b.current_block();
        if self.reached.0 != block {
            self.reached = (block, Vec::new());
        }
        self.reached.1.push((what, ok));
    }

    /// Emits a test of one lane's access at a host address. The test ends the launch if the kernel may not access this
    /// memory.
    pub(crate) fn demand_reach(&mut self, inst: Inst, data: &InstData, host: ir::Value) {
        if !self.isolated {
            return;
        }
        let bytes = moved(data);
        let (root, inside) = self.root_of(inst, data);
        if inside {
            return;
        }
        let ok = match self.home_of(data) {
            Area::Device => {
                let limit = margin_of(root.offset.low, root.offset.high + i128::from(bytes));
                match limit {
                    Some(limit) => self.tested((root.value, limit)).unwrap_or_else(|| {
                        let value = self.get(root.value);
                        let value = self.wide(value);
                        let ok = self.in_range(value, limit);
                        self.note_test((root.value, limit), ok);
                        ok
                    }),
                    None => self.in_range(host, offset_of!(NativeContext, reach_bytes)),
                }
            }
            Area::Window(limit) => self.tested((root.value, limit)).unwrap_or_else(|| {
                let (low, high) = self.hull(inst, &root, bytes);
                let value = self.get(root.value);
                let ok = self.window_holds(value, (low, high), limit);
                self.note_test((root.value, limit), ok);
                ok
            }),
            Area::Params => {
                let kernel = self.function.kernel.as_ref();
                let size = kernel.map_or(0, |kernel| kernel.param_bytes);
                let base = self.field(types::I64, offset_of!(NativeContext, params));
                let offset = self.b.ins().isub(host, base);
                match size.checked_sub(bytes) {
                    Some(last) => {
                        let last = self.b.ins().iconst(types::I64, i64::from(last));
                        self.b
                            .ins()
                            .icmp(IntCC::UnsignedLessThanOrEqual, offset, last)
                    }
                    None => self.b.ins().iconst(types::I8, 0),
                }
            }
        };
        let shape = Verify::of(bytes, writes(data), data.mods.space(), 1);
        self.unless(ok, |lane| {
            let stride = lane.b.ins().iconst(types::I64, 0);
            let shape = lane.int(types::I64, shape.with_mask(1).0);
            lane.verify(offset_of!(NativeContext, verify), &[host, stride, shape])
        });
    }

    /// Emits a test whether the bytes `low..high` from the offset `value` are in a window, or in
    /// shared memory of one CTA of a cluster. The context field at the offset `limit` contains the
    /// size.
    pub(crate) fn window_holds(
        &mut self,
        value: ir::Value,
        (low, high): (i128, i128),
        limit: usize,
    ) -> ir::Value {
        let offset = match self.b.func.dfg.value_type(value) {
            types::I32 => value,
            _ => self.b.ins().ireduce(types::I32, value),
        };
        let lowest = match low as i32 {
            0 => offset,
            low => self.b.ins().iadd_imm_s(offset, i64::from(low)),
        };
        let lowest = match limit == offset_of!(NativeContext, shared_bytes) {
            true => {
                let mask = self.field(types::I32, offset_of!(NativeContext, shared_mask));
                self.b.ins().band(lowest, mask)
            }
            false => lowest,
        };
        let lowest = self.b.ins().uextend(types::I64, lowest);
        let end = self.b.ins().iadd_imm_s(lowest, (high - low) as i64);
        let limit = self.field(types::I64, limit);
        self.b
            .ins()
            .icmp(IntCC::UnsignedLessThanOrEqual, end, limit)
    }

    /// Emits a test whether an address is in the range of device memory. `limit` is the offset of
    /// the context field that contains the size of the range.
    pub(crate) fn in_range(&mut self, address: ir::Value, limit: usize) -> ir::Value {
        let base = self.field(types::I64, offset_of!(NativeContext, reach_base));
        let bytes = self.field(types::I64, limit);
        let offset = self.b.ins().isub(address, base);
        self.b.ins().icmp(IntCC::UnsignedLessThan, offset, bytes)
    }

    /// Emits code that asks the host about an access if `ok` is zero. `question` emits the call of the host and returns
    /// the result of the call, which is zero if the kernel may make the access. If the result is not zero, the launch
    /// ends.
    fn unless(&mut self, ok: ir::Value, question: impl FnOnce(&mut Self) -> ir::Value) {
        let before = self.b.current_block();
        let [go_on, ask] = std::array::from_fn(|_| self.b.create_block());
        self.b.set_cold_block(ask);
        self.b.ins().brif(ok, go_on, &[], ask, &[]);
        self.b.switch_to_block(ask);
        let refused = question(self);
        self.refuse_access(refused);
        self.b.ins().jump(go_on, &[]);
        self.b.switch_to_block(go_on);
        self.keep_tests(before, go_on);
    }

    /// Emits a trap that ends the launch if the host has refused an access.
    pub(crate) fn refuse_access(&mut self, refused: ir::Value) {
        self.b.ins().trapnz(refused, OUTSIDE);
    }

    /// Makes the results of the tests in block `before` valid in block `after`. All paths to `after` must lead through
    /// `before`.
    pub(crate) fn keep_tests(&mut self, before: Option<ir::Block>, after: ir::Block) {
        for tests in [&mut self.aligned.0, &mut self.reached.0] {
            if *tests == before {
                *tests = Some(after);
            }
        }
    }

    /// Emits a call of one of the two verifier functions ([`crate::Compiler::verifiers`]), through which the host
    /// decides about accesses. `which` is the offset of the context field that contains the address of this function.
    pub(crate) fn verify(&mut self, which: usize, args: &[ir::Value]) -> ir::Value {
        let target = self
            .b
            .ins()
            .load(types::I64, fixed(), self.fixed.ctx, which as i32);
        let mut all = vec![self.fixed.ctx];
        all.extend_from_slice(args);
        all.push(self.here.thread);
        let name = match all.len() {
            5 => "verify",
            _ => "verify lanes",
        };
        let sig = match self.signatures.get(name) {
            Some(&sig) => sig,
            None => {
                let types = all.iter().map(|&arg| self.b.func.dfg.value_type(arg));
                let mut sig = ir::Signature::new(CallConv::PreserveAll);
                sig.params.extend(types.map(AbiParam::new));
                let sig = self.b.import_signature(sig);
                self.signatures.insert(name, sig);
                sig
            }
        };
        self.b.ins().call_indirect(sig, target, &all);
        let answer = offset_of!(NativeContext, refused) as i32;
        self.b
            .ins()
            .load(types::I32, host(), self.fixed.ctx, answer)
    }
}

/// For an access at an offset of `low` to `high` bytes from its root, returns the offset of a
/// context field. The field contains the size of the range of device memory with which generated
/// code must compare the root. Returns `None` if the access can be more than [`MARGIN`] bytes away from
/// the root.
pub(crate) fn margin_of(low: i128, high: i128) -> Option<usize> {
    let within = |most: i128| -most <= low && high <= most;
    if within(NEAR) {
        Some(offset_of!(NativeContext, reach_bytes))
    } else if within(i128::from(MARGIN)) {
        Some(offset_of!(NativeContext, margin_bytes))
    } else {
        None
    }
}
