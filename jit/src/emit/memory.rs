//! Loads, stores and address conversions.

use std::mem::offset_of;

use cranelift_codegen::ir::{self, InstBuilder, types};
use cranelift_frontend::FunctionBuilder;
use margay_ir::entity::{Inst, Value};
use margay_ir::function::InstData;
use margay_ops::mods::{MemOrder, Mode, Mods, Scope, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

use super::aligned::demanded;
use super::clif_type;
use super::lane::{EmitError, Lane, device, fixed};
use crate::abi::NativeContext;

/// Returns the integer type that holds an element in memory.
pub(crate) fn element_type(ty: OpType) -> Option<ir::Type> {
    Some(match ty.bits() {
        1..=8 => types::I8,
        9..=16 => types::I16,
        17..=32 => types::I32,
        33..=64 => types::I64,
        128 => types::I128,
        _ => return None,
    })
}

/// Returns whether a fence requires an instruction of the host processor. The threads of a CTA, and the CTAs of a cluster,
/// run on one host thread at a time, whose accesses are in program order. Fences of wider scopes order accesses for other
/// host threads. x86-64 lets only a load pass an older store, which only sequentially consistent fences forbid.
fn orders_host_threads(mods: Mods) -> bool {
    let is_wide = !matches!(mods.scope(), Scope::Cta | Scope::Cluster);
    is_wide && (mods.order() == MemOrder::Sc || cfg!(not(target_arch = "x86_64")))
}

/// Emits the load of the base of the CTA's window of shared memory.
pub(crate) fn shared_base(b: &mut FunctionBuilder<'_>, ctx: ir::Value) -> ir::Value {
    let at = offset_of!(NativeContext, shared_base) as i32;
    b.ins().load(types::I64, fixed(), ctx, at)
}

impl Lane<'_, '_> {
    /// Emits an operation of one of these kinds: memory accesses, fences, address conversions and tests, stack checks,
    /// reports to tools, and `brkpt`.
    pub(crate) fn access(&mut self, inst: Inst, data: &InstData) -> Result<(), EmitError> {
        match data.opcode {
            Opcode::Ld => self.load(inst, data),
            Opcode::St => self.store(inst, data),
            Opcode::Atom | Opcode::Red => self.atomic(inst, data),
            Opcode::Fence => {
                match orders_host_threads(data.mods) {
                    true => self.b.ins().fence(),
                    // The code generator moves no accesses across this point.
                    false => self.b.ins().sequence_point(),
                };
                Ok(())
            }
            Opcode::Cvta => {
                self.cvta(inst, data);
                Ok(())
            }
            Opcode::Isspacep => {
                self.isspacep(inst, data);
                Ok(())
            }
            Opcode::CpAsync => {
                self.copy_async(inst);
                Ok(())
            }
            Opcode::StackCheck => {
                self.check_stack(inst);
                Ok(())
            }
            Opcode::CheckAccess => self.check_access(inst, data),
            Opcode::ObserveAccess => self.observe_access(inst, data),
            Opcode::CheckGroup => {
                self.check_group(inst, data);
                Ok(())
            }
            Opcode::CheckFence => {
                self.check_fence(data);
                Ok(())
            }
            Opcode::Brkpt => {
                self.abort(crate::abi::status::BREAKPOINT);
                let dead = self.b.create_block();
                self.b.switch_to_block(dead);
                Ok(())
            }
            _ => self.refuse(data),
        }
    }

    /// Returns the base address of the window of a state space; `None` if the state space has no window.
    pub(crate) fn window(&mut self, space: StateSpace) -> Option<ir::Value> {
        match space {
            StateSpace::Shared | StateSpace::SharedCluster => Some(match self.fixed.shared {
                Some(base) => base,
                None => shared_base(self.b, self.fixed.ctx),
            }),
            StateSpace::Local => {
                let base = self.field(types::I64, offset_of!(NativeContext, local_base));
                let stride = self.field(types::I32, offset_of!(NativeContext, local_stride));
                let stride = self.b.ins().uextend(types::I64, stride);
                let thread = self.b.ins().uextend(types::I64, self.here.thread);
                let mine = self.b.ins().imul(stride, thread);
                Some(self.b.ins().iadd(base, mine))
            }
            _ => None,
        }
    }

    /// Returns the host address that corresponds to an address operand.
    pub(crate) fn host_address(&mut self, address: ir::Value, space: StateSpace) -> ir::Value {
        match self.window(space) {
            Some(base) => {
                let offset = self.low_word(address);
                let offset = self.b.ins().uextend(types::I64, offset);
                self.b.ins().iadd(base, offset)
            }
            None if self.b.func.dfg.value_type(address) == types::I64 => address,
            None => self.b.ins().uextend(types::I64, address),
        }
    }

    fn low_word(&mut self, value: ir::Value) -> ir::Value {
        if self.b.func.dfg.value_type(value) == types::I32 {
            value
        } else {
            self.b.ins().ireduce(types::I32, value)
        }
    }

    pub(crate) fn is_weak(data: &InstData) -> bool {
        data.mods.is_weak() || is_private(data.mods.space())
    }

    fn load(&mut self, inst: Inst, data: &InstData) -> Result<(), EmitError> {
        let Some(element) = element_type(data.ty) else {
            return self.refuse(data);
        };
        let address = self.arg(inst, 0);
        self.demand_aligned(inst, demanded(data));
        let address = self.host_address(address, data.mods.space());
        self.demand_reach(inst, data, address);
        let flags = match data.mods.space() {
            StateSpace::Param => fixed(),
            _ => device(),
        };
        let results = self.function.dfg.results(inst).to_vec();
        if Self::is_whole(element, data) {
            let all = self.load_whole(element, address, results.len());
            for (value, bits) in results.into_iter().zip(all) {
                let to = clif_type(self.function.dfg.ty(value));
                let bits = self.convert_loaded(bits, to, data.ty);
                self.set(value, bits);
            }
            return Ok(());
        }
        for (i, value) in results.into_iter().enumerate() {
            let offset = i as i32 * element.bytes() as i32;
            let how = (!Self::is_weak(data), flags);
            let bits = self.load_element(element, (address, offset), how, (value, data));
            self.set(value, bits);
        }
        Ok(())
    }

    /// Returns whether several elements of a vector are accessed by one host access ([`super::whole`]).
    pub(crate) fn is_whole(element: ir::Type, data: &InstData) -> bool {
        data.mods.vec() > 1 && !Self::is_weak(data) && element.bits() <= 64
    }

    /// Emits code that loads an element from memory and converts it to the bits of an IR value. A
    /// `strong` load is a single access of the host.
    pub(crate) fn load_element(
        &mut self,
        element: ir::Type,
        (address, offset): (ir::Value, i32),
        (strong, flags): (bool, ir::MemFlagsData),
        (value, data): (Value, &InstData),
    ) -> ir::Value {
        let to = clif_type(self.function.dfg.ty(value));
        if strong && element == types::I128 {
            let at = self.b.ins().iadd_imm_s(address, i64::from(offset));
            let halves = self.load_whole(types::I64, at, 2);
            let bits = self.b.ins().iconcat(halves[0], halves[1]);
            self.convert_loaded(bits, to, data.ty)
        } else if strong && element.bits() <= 64 {
            let at = self.b.ins().iadd_imm_s(address, i64::from(offset));
            let bits = self.b.ins().atomic_load(element, device(), at);
            self.convert_loaded(bits, to, data.ty)
        } else if to.is_float() && to.bits() == element.bits() {
            self.b.ins().load(to, flags, address, offset)
        } else {
            let bits = self.b.ins().load(element, flags, address, offset);
            self.convert_loaded(bits, to, data.ty)
        }
    }

    fn convert_loaded(&mut self, bits: ir::Value, to: ir::Type, ty: OpType) -> ir::Value {
        let from = self.b.func.dfg.value_type(bits);
        if to.is_float() && to.bits() == from.bits() {
            self.b.ins().bitcast(to, host_cast(), bits)
        } else if from.bits() < to.bits() {
            if ty.is_signed() {
                self.b.ins().sextend(to, bits)
            } else {
                self.b.ins().uextend(to, bits)
            }
        } else if from.bits() > to.bits() {
            self.b.ins().ireduce(to, bits)
        } else {
            bits
        }
    }

    /// Returns the low bits of a value as an integer of the element's width.
    pub(crate) fn narrowed(&mut self, bits: ir::Value, element: ir::Type) -> ir::Value {
        let bits = self.as_int(bits);
        let from = self.b.func.dfg.value_type(bits);
        if from.bits() > element.bits() {
            self.b.ins().ireduce(element, bits)
        } else if from.bits() < element.bits() {
            self.b.ins().uextend(element, bits)
        } else {
            bits
        }
    }

    /// Returns the bits of a value as an integer.
    pub(crate) fn as_int(&mut self, bits: ir::Value) -> ir::Value {
        match self.b.func.dfg.value_type(bits) {
            types::F32 => self.b.ins().bitcast(types::I32, host_cast(), bits),
            types::F64 => self.b.ins().bitcast(types::I64, host_cast(), bits),
            _ => bits,
        }
    }

    fn store(&mut self, inst: Inst, data: &InstData) -> Result<(), EmitError> {
        let Some(element) = element_type(data.ty) else {
            return self.refuse(data);
        };
        let address = self.arg(inst, 0);
        self.demand_aligned(inst, demanded(data));
        let address = self.host_address(address, data.mods.space());
        self.demand_reach(inst, data, address);
        let strong = !Self::is_weak(data);
        let count = self.function.dfg.args(inst).len() - 1;
        if Self::is_whole(element, data) {
            let elements: Vec<ir::Value> = (1..=count).map(|i| self.arg(inst, i)).collect();
            self.store_whole(element, address, &elements);
            return Ok(());
        }
        for i in 0..count {
            let bits = self.arg(inst, i + 1);
            let offset = i as i32 * element.bytes() as i32;
            self.store_element(element, (address, offset), strong, bits);
        }
        Ok(())
    }

    /// Emits the store of the low bits of a value to an element in memory. A `strong` store is a single access of the
    /// host.
    pub(crate) fn store_element(
        &mut self,
        element: ir::Type,
        (address, offset): (ir::Value, i32),
        strong: bool,
        bits: ir::Value,
    ) {
        let from = self.b.func.dfg.value_type(bits);
        if strong && element == types::I128 {
            let (low, high) = self.b.ins().isplit(bits);
            let at = self.b.ins().iadd_imm_s(address, i64::from(offset));
            self.store_whole(types::I64, at, &[low, high]);
        } else if strong && element.bits() <= 64 {
            let bits = self.narrowed(bits, element);
            let at = self.b.ins().iadd_imm_s(address, i64::from(offset));
            self.b.ins().atomic_store(device(), bits, at);
        } else if from.is_float() && from.bits() == element.bits() {
            self.b.ins().store(device(), bits, address, offset);
        } else {
            let bits = self.narrowed(bits, element);
            self.b.ins().store(device(), bits, address, offset);
        }
    }

    fn cvta(&mut self, inst: Inst, data: &InstData) {
        let address = self.arg(inst, 0);
        let bits = match (self.window(data.mods.space()), data.mods.mode()) {
            (Some(base), Mode::To) => {
                let wide = self.wide(address);
                self.b.ins().isub(wide, base)
            }
            (Some(_), _) => self.host_address(address, data.mods.space()),
            (None, _) => self.wide(address),
        };
        self.result_of_width(inst, bits);
    }

    pub(crate) fn wide(&mut self, value: ir::Value) -> ir::Value {
        if self.b.func.dfg.value_type(value) == types::I64 {
            value
        } else {
            self.b.ins().uextend(types::I64, value)
        }
    }
}

/// Returns whether accesses to a state space need not be atomic: either only the worker that runs the CTA (or its whole
/// cluster) accesses this memory, or no thread writes it (kernel parameters).
pub(crate) fn is_private(space: StateSpace) -> bool {
    matches!(
        space,
        StateSpace::Shared
            | StateSpace::SharedCluster
            | StateSpace::Local
            | StateSpace::Param
            | StateSpace::ParamFunc
    )
}

/// Returns the flags of a register-to-register bitcast.
pub(crate) fn host_cast() -> ir::MemFlagsData {
    ir::MemFlagsData::new()
}
