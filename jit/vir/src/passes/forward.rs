//! Store forwarding: replaces a load of bytes that vectors in registers were stored to by these vectors or a permutation
//! of their lanes.
//!
//! Kernels that combine the elements of an array in shared memory store vectors, and then load from addresses that are a
//! few lanes further, under a mask. A processor does not forward such a store to the load, which waits until the store
//! has reached the cache.
//!
//! The pass follows stores without a mask of adjacent lanes, and later stores to the same places with a mask, in a block
//! and in the blocks that follow it as the only successor of their predecessor. A load is replaced if all lanes of its mask
//! lie in one or in two stored vectors. It cannot fault, because the stores have accessed the same bytes.

use margay_ir::analysis::Cfg;
use margay_ir::edit;
use margay_ir::entity::{Block, Inst, SecondaryMap, Value};
use margay_ir::function::ValueDef;
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, Type};

use super::Options;
use super::aliases::{Bytes, Touch, bytes, touch};
use super::emitter::{Emitter, plain};
use crate::constants::mask_bits;
use crate::data::Data;
use crate::function::Function;
use crate::ops::Op;

/// The maximum number of vectors that are known at the same time.
const MOST_STORED: usize = 32;

/// A vector that is in memory.
#[derive(Clone, Copy)]
struct Stored {
    bytes: Bytes,
    root: Value,
    start: i64,
    value: Value,
}

/// Replaces loads of stored vectors.
pub fn run(function: &mut Function, options: &Options) {
    if !options.permutes {
        return;
    }
    let cfg = Cfg::new(function);
    let mut ends: SecondaryMap<Block, Vec<Stored>> = SecondaryMap::default();
    let mut changed = false;
    for &block in cfg.rpo() {
        let memory = match cfg.preds(block) {
            [pred] => ends[*pred].clone(),
            _ => Vec::new(),
        };
        let insts = std::mem::take(&mut function.body[block]);
        let mut pass = Forwarding {
            function,
            list: Vec::with_capacity(insts.len()),
            memory,
            changed: false,
        };
        for inst in insts {
            pass.instruction(inst);
        }
        let Forwarding { list, memory, .. } = pass;
        changed |= pass.changed;
        function.body[block] = list;
        ends[block] = memory;
    }
    if changed {
        edit::resolve_aliases(function);
    }
}

struct Forwarding<'a> {
    function: &'a mut Function,
    /// The new contents of the block.
    list: Vec<Inst>,
    memory: Vec<Stored>,
    changed: bool,
}

impl Forwarding<'_> {
    fn instruction(&mut self, inst: Inst) {
        edit::resolve_args(self.function, inst);
        if self.function.insts[inst].op == Op::Load
            && let Some(value) = self.loaded(inst)
        {
            let result = self.function.results(inst)[0];
            self.function.values[result].def = ValueDef::Alias(value);
            self.changed = true;
            return;
        }
        self.list.push(inst);
        match touch(self.function, inst) {
            Touch::Nothing => {}
            Touch::Everything => self.memory.clear(),
            Touch::Writes(written) => {
                let kept = self.kept(inst);
                self.memory
                    .retain(|stored| !stored.bytes.may_alias(written));
                if let Some(stored) = kept {
                    if self.memory.len() == MOST_STORED {
                        self.memory.remove(0);
                    }
                    self.memory.push(stored);
                }
            }
        }
    }

    /// Returns the root and the first byte of an access to adjacent lanes, and the bytes, if the lanes fill whole elements.
    fn place(&self, inst: Inst, ty: Type) -> Option<(Value, i64, Bytes)> {
        let data = &self.function.insts[inst];
        let Data::Access(access) = data.data else {
            return None;
        };
        let is_vector =
            ty.lanes() > 1 && matches!(ty.lane_bits(), 32 | 64) && ty.kind() != Kind::Pred;
        let is_adjacent = access.stride == i64::from(ty.lane_bytes());
        if data.ty != Some(ty)
            || !is_vector
            || !is_adjacent
            || access.memory.bits() != ty.lane_bits()
        {
            return None;
        }
        match bytes(self.function, inst) {
            found @ Bytes::Range { root, start, .. } => Some((root, start, found)),
            Bytes::All => None,
        }
    }

    /// Returns the vector that is in memory after a store; `None` if it is not known.
    fn kept(&mut self, inst: Inst) -> Option<Stored> {
        if self.function.insts[inst].op != Op::Store {
            return None;
        }
        let (value, mask) = match *self.function.args(inst) {
            [_, value] => (value, None),
            [_, value, mask] => (value, Some(mask)),
            _ => return None,
        };
        let ty = self.function.ty(value);
        let (root, start, bytes) = self.place(inst, ty)?;
        let value = match mask.filter(|&mask| !is_true(self.function, mask)) {
            None => value,
            Some(mask) => {
                let before = self.vector_at(root, start, ty)?;
                self.emit(inst).selected(ty, [value, before, mask])
            }
        };
        Some(Stored {
            bytes,
            root,
            start,
            value,
        })
    }

    fn vector_at(&self, root: Value, start: i64, ty: Type) -> Option<Value> {
        let mut all = self.memory.iter();
        let found = all.find(|stored| {
            (stored.root, stored.start) == (root, start) && self.function.ty(stored.value) == ty
        });
        found.map(|stored| stored.value)
    }

    /// Returns what a load returns, if the bytes of the lanes that it loads are in stored vectors.
    fn loaded(&mut self, inst: Inst) -> Option<Value> {
        let mask = match *self.function.args(inst) {
            [_] => None,
            [_, mask] => Some(mask).filter(|&mask| !is_true(self.function, mask)),
            _ => return None,
        };
        let ty = self.function.ty(self.function.results(inst)[0]);
        let (root, start, _) = self.place(inst, ty)?;
        let lanes = i64::from(ty.lanes());
        let size = lanes * i64::from(ty.lane_bytes());
        // The lanes that the load may load: from `first` to `last`.
        let bits = mask.map_or(Some(u64::MAX), |mask| mask_bits(self.function, mask));
        let bits = bits.unwrap_or(u64::MAX) & u64::MAX >> (64 - lanes);
        if bits == 0 {
            return None;
        }
        let (first, last) = (
            i64::from(bits.trailing_zeros()),
            63 - i64::from(bits.leading_zeros()),
        );
        let mut all = self.memory.iter().copied();
        let (low, step) = all.find_map(|stored| {
            let distance = start - stored.start;
            let step = distance / i64::from(ty.lane_bytes());
            let is_here = stored.root == root
                && self.function.ty(stored.value) == ty
                && distance % i64::from(ty.lane_bytes()) == 0
                && (0..lanes).contains(&(first + step));
            is_here.then_some((stored, step))
        })?;
        let high = match last + step < lanes {
            true => None,
            false => Some(self.vector_at(root, low.start + size, ty)?),
        };
        let mut emit = self.emit(inst);
        let value = match (step, high) {
            (0, _) => low.value,
            (_, high) => {
                let words = Type::vector(Kind::B32, ty.lanes())?;
                let first = emit.constant(Type::B32, step as u64 & u64::from(u32::MAX));
                let indices = emit.value(Op::Affine, words, Data::Number(1), &[first]);
                match high {
                    None => emit.value(Op::Permute, ty, Data::Nothing, &[low.value, indices]),
                    Some(high) => {
                        let args = [low.value, high, indices];
                        emit.value(Op::Permute2, ty, Data::Nothing, &args)
                    }
                }
            }
        };
        Some(match mask {
            None => value,
            Some(mask) => {
                let zero = emit.constant(Type::scalar(ty.kind()), 0);
                emit.selected(ty, [value, zero, mask])
            }
        })
    }

    /// Returns an emitter of instructions with the place of another one.
    fn emit(&mut self, inst: Inst) -> Emitter<'_> {
        Emitter {
            place: self.function.places[inst],
            function: self.function,
            list: &mut self.list,
        }
    }
}

impl Emitter<'_> {
    /// Appends the choice of the first vector where the mask is true, and of the second elsewhere.
    fn selected(&mut self, ty: Type, args: [Value; 3]) -> Value {
        let desc = plain(Opcode::Selp, ty.kind().op_type());
        self.value(Op::Map, ty, Data::Lane(desc), &args)
    }
}

/// Returns whether a mask is the constant with which all lanes run.
fn is_true(function: &Function, mask: Value) -> bool {
    function.constant(mask) == Some(1)
}
