//! Lowers asynchronous stores and reductions, which signal their completion to an mbarrier. The
//! generated code performs the memory access and the signal immediately, as PTX permits. The op
//! `check.group` tells checking tools where each asynchronous operation begins and ends. The tools
//! need this information, because on a GPU the accesses of the operation may happen later.

use margay_ir::entity::Value;
use margay_ir::observe::{Asynchronous, PROXY_GLOBAL, PROXY_SHARED};
use margay_ops::meaning::Desc;
use margay_ops::mods::{MemOrder, Mode, Mods, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};
use smallvec::SmallVec;

use super::Lowered;
use super::function::FunctionLowering;
use super::operand::bits_type;
use super::parts::{At, Parts};
impl FunctionLowering<'_, '_> {
    pub(super) fn store_and_signal(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let object = self.object_of(parts)?;
        let at = self.at(parts, "a", StateSpace::Shared)?;
        self.begin_asynchronous(Asynchronous::Store);
        let ty = bits_type(parts.resolved.desc().ty.held());
        let mut args: SmallVec<[Value; 5]> = SmallVec::from_slice(&[at.address]);
        if let Some(operand) = parts.operand("b") {
            for part in self.parts(operand) {
                let value = self.read(&part, ty)?;
                args.push(self.held_as(value, ty));
            }
        }
        let count = args.len() as u32 - 1;
        let mut desc = Self::plain_access(Opcode::St, ty, at.space);
        desc.mods = desc.mods.with_vec_log2(count.trailing_zeros() as u8);
        self.b.inst(desc, &args, &[]);
        let bytes = self.b.constant(Type::B64, u64::from(count * ty.bits() / 8));
        self.complete_bytes(object, bytes);
        self.end_asynchronous();
        Ok(())
    }

    /// Lowers an instruction that commits a group of asynchronous copies or waits for copies. The
    /// emitted op only tells checking tools that the instruction executes. It has no other effect,
    /// because each asynchronous copy is complete as soon as its instruction has executed.
    pub(super) fn copy_group(&mut self, parts: &Parts<'_>, mode: Mode) -> Lowered<()> {
        let count = match parts.operand("n") {
            Some(operand) => Some(self.read(operand, OpType::U32)?),
            None => None,
        };
        self.tell(mode, count);
        Ok(())
    }

    /// Emits an op that tells checking tools that an asynchronous operation begins. All accesses
    /// that are emitted until the call of [`FunctionLowering::end_asynchronous`] belong to this
    /// operation.
    pub(super) fn begin_asynchronous(&mut self, kind: Asynchronous) {
        let kind = self.b.constant(Type::B32, kind as u64);
        self.tell(Mode::Begin, Some(kind));
    }

    /// Emits an op that tells checking tools that an asynchronous operation ends: all its accesses
    /// precede this op.
    pub(super) fn end_asynchronous(&mut self) {
        self.tell(Mode::End, None);
    }

    /// For a fence between the generic proxy and the asynchronous proxy, emits an op that tells
    /// checking tools that the fence executes. For all other fences, emits nothing. `words` are the
    /// modifiers of the fence.
    pub(super) fn proxy_fence(&mut self, words: &[&str]) {
        let is_of_proxy = words.contains(&"proxy")
            && words
                .iter()
                .any(|word| matches!(*word, "async" | "async::generic"));
        if !is_of_proxy {
            return;
        }
        let is_shared = |word: &&str| word.contains("shared");
        let spaces = match words.contains(&"global") {
            true => PROXY_GLOBAL,
            false if words.iter().any(is_shared) => PROXY_SHARED,
            false => PROXY_GLOBAL | PROXY_SHARED,
        };
        let spaces = self.b.constant(Type::B32, u64::from(spaces));
        self.tell(Mode::ProxyFence, Some(spaces));
    }

    fn tell(&mut self, mode: Mode, operand: Option<Value>) {
        let desc = Desc {
            opcode: Opcode::CheckGroup,
            ty: OpType::None,
            src: OpType::None,
            mods: Mods::NONE.with_mode(mode),
        };
        let args: SmallVec<[Value; 1]> = operand.into_iter().collect();
        self.b.inst(desc, &args, &[]);
    }

    pub(super) fn reduce_and_signal(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let object = self.object_of(parts)?;
        let at = self.at(parts, "a", StateSpace::Shared)?;
        let desc = parts.resolved.desc();
        let ty = desc.ty;
        let Some(operand) = parts.operand("b") else {
            return Ok(());
        };
        let value = self.read(operand, ty)?;
        let value = self.held_as(value, ty);
        self.begin_asynchronous(Asynchronous::Store);
        self.reduce(at, desc, ty, value);
        let bytes = self.b.constant(Type::B64, u64::from(ty.bits() / 8));
        self.complete_bytes(object, bytes);
        self.end_asynchronous();
        Ok(())
    }

    pub(super) fn reduce(&mut self, at: At, like: Desc, ty: OpType, value: Value) {
        let desc = Desc {
            opcode: Opcode::Red,
            ty,
            src: OpType::None,
            mods: Mods::NONE
                .with_space(at.space)
                .with_atom_op(like.mods.atom_op())
                .with_noftz(like.mods.noftz())
                .with_order(MemOrder::Relaxed),
        };
        self.b.inst(desc, &[at.address, value], &[]);
    }
}
