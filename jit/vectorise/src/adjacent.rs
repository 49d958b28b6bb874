//! Accesses at addresses that vary, but are those of adjacent elements in most chunks, such as the accesses of a stencil
//! whose border selects another point.
//!
//! Where all lanes run, the program tests whether the elements are adjacent, and then accesses them as a vector. The
//! program does not test addresses that it computes from loaded values, because such addresses are rarely adjacent.
//! Addresses that differ by a constant share a test.

use margay_ir::analysis::Cfg;
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::Value;
use margay_ir::function::{Function, ValueDef};
use margay_ops::mods::CmpOp;
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::data::Data;
use margay_vir::ops::Op;
use rustc_hash::FxHashSet;

use crate::emitter::{Emitter, unsigned};
use crate::memory::{Places, Strided};

/// The maximum number of values that [`is_computed`] considers.
const MOST_VALUES: usize = 64;

impl Emitter<'_> {
    /// Emits an access at places that `access` accesses: of adjacent elements if the lanes have such places, and of each
    /// lane's element otherwise. The elements have `bytes` bytes.
    pub(crate) fn access_adjacent(
        &mut self,
        (address, places, bytes): (Value, Places, i64),
        mut access: impl FnMut(&mut Self, Places),
    ) {
        let Some((condition, adjacent)) = self.adjacent(address, places, bytes) else {
            return access(self, places);
        };
        let [run, each, join] = std::array::from_fn(|_| self.new_block());
        self.brif(condition, run, each);
        self.enter(run);
        access(self, adjacent);
        self.jump(join);
        self.enter(each);
        access(self, places);
        self.jump(join);
        self.enter(join);
    }

    /// Returns the condition under which the elements of lanes at varying places are adjacent, and their places then; `None`
    /// if the program does not test this.
    fn adjacent(&mut self, address: Value, places: Places, bytes: i64) -> Option<(Value, Places)> {
        let Places::Each {
            base,
            offsets,
            scale,
        } = places
        else {
            return None;
        };
        let runs = self.together.is_some() && self.out.constant(self.mask) == Some(1);
        if !runs || self.is_rare || scale <= 0 || bytes % scale != 0 || !self.is_computed(address) {
            return None;
        }
        let (offsets, displacement) = match self.out.constant(base) {
            // The offsets are the addresses.
            Some(0) => {
                let (root, displacement) = self.root(address);
                let lanes = self.lanes(root);
                (self.widened(lanes), displacement)
            }
            _ => (offsets, 0),
        };
        let (step, ty) = (bytes / scale, self.out.ty(offsets));
        let first = self.value(Op::Extract, ty, Data::Number(0), &[offsets]);
        let expected = self.value(Op::Affine, ty, Data::Number(step as u64), &[first]);
        let equal = self.compare((CmpOp::Eq, unsigned(ty)), offsets, expected);
        let mut all = self.value(Op::All, self.mask_type(), Data::Nothing, &[equal]);
        let mut distance = first;
        if ty.lane_bits() == 32 {
            // The indices of all lanes are less than this limit, so they do not wrap.
            let limit = i64::from(i32::MAX) - step * i64::from(self.kernel.width);
            let limit = self.constant(Type::B32, limit as u64);
            let is_below = self.compare((CmpOp::Lt, OpType::S32), first, limit);
            all = self.logic(Opcode::And, &[all, is_below]);
            distance = self.convert(OpType::S64, OpType::S32, first);
        }
        if scale != 1 {
            let shift = self.constant(Type::B32, scale.trailing_zeros().into());
            distance = self.simple(Opcode::Shl, OpType::B64, Type::B64, &[distance, shift]);
        }
        let address = self.sum(base, distance);
        let adjacent = Strided {
            address,
            displacement,
            stride: bytes,
        };
        Some((all, Places::Strided(adjacent)))
    }

    /// Returns a varying 64-bit address from which an address is computed by the addition of a constant, and the constant.
    fn root(&self, address: Value) -> (Value, i32) {
        let dfg = &self.source.dfg;
        let (mut root, mut sum) = (address, 0i32);
        while let Some(inst) = dfg
            .def_inst(root)
            .filter(|_| !self.restored.contains(&root) && self.kind(root) == Kind::B64)
            && dfg.insts[inst].opcode == Opcode::Add
            && let &[a, b] = dfg.args(inst)
            && let Some(by) = dfg.constant(b)
            && let Ok(by) = i32::try_from(by as i64)
            && let Some(more) = sum.checked_add(by)
            && self.class(a) == Class::Varying
            && self.is_available(a)
        {
            (root, sum) = (a, more);
        }
        (root, sum)
    }

    /// Returns whether an address is computed from other values than loaded ones.
    fn is_computed(&self, address: Value) -> bool {
        let is_equal = |value| self.own_class(value).is_uniform();
        is_computed((self.kernel.function, self.cfg), address, is_equal, |_| {
            true
        })
    }
}

/// Returns whether a value is computed by operations without effects from values for which `is_known` is true, and
/// `is_permitted` is true for all others.
pub fn is_computed(
    (function, cfg): (&Function, &Cfg),
    value: Value,
    is_known: impl Fn(Value) -> bool,
    is_permitted: impl Fn(Value) -> bool,
) -> bool {
    let mut seen: FxHashSet<Value> = FxHashSet::default();
    let mut work = vec![value];
    while let Some(value) = work.pop() {
        if is_known(value) || !seen.insert(value) {
            continue;
        }
        if !is_permitted(value) || seen.len() > MOST_VALUES {
            return false;
        }
        match function.dfg.values[value].def {
            ValueDef::Result(inst, _) if function.effects(inst).is_pure() => {
                work.extend(function.dfg.args(inst));
            }
            ValueDef::Param(block, index) => {
                let calls = cfg.incoming(function, block);
                work.extend(calls.map(|(_, call)| call.args[usize::from(index)]));
            }
            _ => return false,
        }
    }
    true
}
