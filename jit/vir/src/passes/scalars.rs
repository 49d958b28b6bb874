//! Scalars that are constants if other values are.

use margay_ir::entity::Value;
use margay_ops::meaning::Bits;
use margay_ops::types::Kind;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::data::Data;
use crate::function::Function;
use crate::meaning::{self, Lanes};
use crate::ops::Op;

/// The maximum number of operations from which a scalar is computed.
const MOST_OPERATIONS: usize = 12;

/// Values whose bits are assumed.
#[derive(Default)]
pub(super) struct Scalars {
    pub(super) known: FxHashMap<Value, Bits>,
}

impl Scalars {
    /// Returns the bits of a scalar, if constants and the assumed values determine them.
    pub(super) fn of(&self, function: &Function, value: Value) -> Option<Bits> {
        self.computed(function, value, &mut MOST_OPERATIONS.clone())
    }

    fn computed(&self, function: &Function, value: Value, left: &mut usize) -> Option<Bits> {
        if let Some(&bits) = self.known.get(&value) {
            return Some(bits);
        }
        let inst = function.def_inst(value)?;
        let data = &function.insts[inst];
        if function.ty(value).lanes() != 1 || function.ty(value).kind() == Kind::B128 {
            return None;
        }
        match (data.op, data.data) {
            (Op::Const, Data::Number(number)) => Some(number.into()),
            (Op::Map, Data::Lane(desc)) => {
                *left = left.checked_sub(1)?;
                let args = function.args(inst).iter();
                let args: SmallVec<[Lanes; 4]> = args
                    .map(|&arg| Some(Lanes::from_elem(self.computed(function, arg, left)?, 1)))
                    .collect::<Option<_>>()?;
                let results = function.results(inst);
                let index = results.iter().position(|&result| result == value)?;
                let computed = meaning::map(&desc, 1, &args, results.len());
                computed[index].first().copied()
            }
            _ => None,
        }
    }
}
