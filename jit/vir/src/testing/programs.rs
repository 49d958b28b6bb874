//! The parts of programs: loops with induction variables, addresses, accesses that may fault, traps and calls.

use margay_ir::entity::{Block, Value};
use margay_ops::types::{Kind, OpType, Type};

use super::{Generator, operation};
use crate::data::{Access, Data};
use crate::ops::Op;

/// An address in the middle of the memory of programs.
pub const MEMORY: u64 = 0x1200;

impl Generator<'_, '_> {
    /// Returns `base`, a constant and multiples of induction variables, in some order.
    fn address(&mut self) -> Value {
        let mut sum = match self.base {
            Some(base) if self.choices.below(4) != 0 => base,
            _ => self.b.constant(Type::B64, MEMORY),
        };
        for _ in 0..self.choices.below(4) {
            let counter = match self.counters.is_empty() {
                true => None,
                false => Some(self.counters[self.choices.below(self.counters.len())]),
            };
            let constant = [4, 16, 1, 64, 8, 0][self.choices.below(6)];
            let constant = self.b.constant(Type::B64, constant);
            let term = match (self.choices.below(5), counter) {
                (0, Some(counter)) => counter,
                (1, Some(counter)) => {
                    let amount = self.b.constant(Type::B32, 2);
                    self.scalar("shl.b64", &[counter, amount])
                }
                (2, Some(counter)) => self.scalar("mul.u64{half:lo}", &[counter, constant]),
                (3, Some(counter)) => {
                    let next = self.scalar("add.u64", &[counter, constant]);
                    self.scalar("mul.u64{half:lo}", &[next, constant])
                }
                _ => constant,
            };
            let text = ["add.u64", "add.s64", "sub.u64"][self.choices.below(3)];
            sum = self.scalar(text, &[sum, term]);
        }
        sum
    }

    fn scalar(&mut self, text: &str, args: &[Value]) -> Value {
        self.b.map(operation(text), Type::B64, args)
    }

    /// Returns offsets of lanes: random ones, equal ones, or ones that increase by the same amount.
    fn offsets(&mut self) -> Value {
        let wide = self.vector(Kind::B64);
        let ty = self.vector(Kind::B32);
        match self.choices.below(9) {
            7..=8 => self.repeated_offsets(),
            6 => {
                let few = self.operand(wide);
                let by = self.b.constant(wide, 0x3f);
                let few = self.b.map(operation("and.b64"), wide, &[few, by]);
                let base = self.counters.last().copied();
                let base = base.unwrap_or_else(|| self.b.constant(Type::B64, 3));
                let text = ["add.s64", "sub.u64"][self.choices.below(2)];
                self.b.map(operation(text), wide, &[few, base])
            }
            0 => {
                let base = match self.counters.last() {
                    Some(&counter) => counter,
                    None => self.b.constant(Type::B64, 3),
                };
                let stride = Data::Number([1, 2, u64::MAX][self.choices.below(3)]);
                let offsets = self.b.value(Op::Affine, wide, stride, &[base]);
                let by = self.b.constant(wide, 2);
                match self.choices.below(2) {
                    0 => offsets,
                    _ => self.b.map(operation("add.s64"), wide, &[offsets, by]),
                }
            }
            1 => {
                let counter = self.counters.last().copied();
                let base = counter.unwrap_or_else(|| self.b.constant(Type::B64, 3));
                self.b.value(Op::Splat, wide, Data::Nothing, &[base])
            }
            2 => {
                let base = self.b.constant(Type::B32, 0xffff_fffe);
                let stride = Data::Number([1, 0x1000_0000][self.choices.below(2)]);
                self.b.value(Op::Affine, ty, stride, &[base])
            }
            _ => {
                let offsets = self.operand(ty);
                let few = self.b.constant(ty, 0x3f);
                self.b.map(operation("and.b32"), ty, &[offsets, few])
            }
        }
    }

    /// Returns offsets that repeat those of the first lanes: known numbers, or known multiples of a scalar.
    fn repeated_offsets(&mut self) -> Value {
        let (ty, wide) = (self.vector(Kind::B32), self.vector(Kind::B64));
        let zero = self.b.constant(Type::B32, [0, 4][self.choices.below(2)]);
        let stride = Data::Number([1, 2, 4][self.choices.below(3)]);
        let lanes = self.b.value(Op::Affine, ty, stride, &[zero]);
        let last = [0, 3, 5, 7, 15][self.choices.below(5)];
        let last = self.b.constant(ty, last);
        let lanes = self.b.map(operation("and.b32"), ty, &[lanes, last]);
        let offsets = self.b.map(operation("cvt.u64.u32"), wide, &[lanes]);
        let Some(&counter) = self.counters.last() else {
            return offsets;
        };
        match self.choices.below(3) {
            0 => offsets,
            1 => self.b.map(operation("add.u64"), wide, &[counter, offsets]),
            _ => {
                let text = "mul.u64{half:lo}";
                let rows = self.b.map(operation(text), wide, &[offsets, counter]);
                self.b.map(operation("sub.u64"), wide, &[rows, counter])
            }
        }
    }

    pub(super) fn program_access(&mut self) {
        let kind = [Kind::B32, Kind::B32, Kind::F32][self.choices.below(3)];
        let memory = match kind {
            Kind::F32 => OpType::F32,
            _ => [OpType::U8, OpType::S16, OpType::B32][self.choices.below(3)],
        };
        let mut access = Access {
            memory,
            stride: [-4, -1, 0, 1, 2, 4, 4, 4, 8][self.choices.below(9)],
            displacement: self.choices.below(9) as i32 * 4 - 16,
        };
        // Many accesses are equal to earlier ones, or overlap them.
        let count = self.addresses.len();
        let address = match count != 0 && self.choices.below(4) != 0 {
            true => {
                let (address, earlier) = self.addresses[self.choices.below(count)];
                if earlier.memory.held() == memory.held() && self.choices.below(4) != 0 {
                    access = earlier;
                }
                address
            }
            false => self.address(),
        };
        self.addresses.push((address, access));
        let lanes = [1, self.lanes, self.lanes][self.choices.below(3)];
        let is_scalar = lanes == 1;
        let ty = Type::vector(kind, lanes).expect("a power of two");
        let masks = match self.choices.below(3) {
            0 => Some(self.operand(Type::vector(Kind::Pred, lanes).expect("a power of two"))),
            _ => None,
        };
        self.place += 1;
        self.b.at(self.place);
        match self.choices.below(8) {
            0..=3 => {
                let args: Vec<Value> = [address].into_iter().chain(masks).collect();
                let value = self.b.load(Op::Load, ty, access, &args);
                self.known.push(value);
            }
            4..=5 => {
                let value = self.operand(ty);
                let args: Vec<Value> = [address, value].into_iter().chain(masks).collect();
                self.b.store(Op::Store, ty, access, &args);
            }
            _ if is_scalar => {}
            6 if self.choices.below(3) == 0 => self.update(address, masks),
            6 => {
                let offsets = self.offsets();
                let args: Vec<Value> = [address, offsets].into_iter().chain(masks).collect();
                let value = self.b.load(Op::Gather, ty, access, &args);
                self.known.push(value);
            }
            _ => {
                let (offsets, value) = (self.offsets(), self.operand(ty));
                let args = [address, offsets, value].into_iter().chain(masks);
                let args: Vec<Value> = args.collect();
                self.b.store(Op::Scatter, ty, access, &args);
            }
        }
        self.b.at(0);
    }

    /// Appends an update of words near an address.
    fn update(&mut self, address: Value, masks: Option<Value>) {
        let ty = self.vector(Kind::B32);
        let text = [
            "atom.u32{op:add space:global}",
            "atom.b32{op:xor space:shared}",
        ][self.choices.below(2)];
        let offsets = self.operand(ty);
        let few = self.b.constant(ty, 0x3c);
        let offsets = self.b.map(operation("and.b32"), ty, &[offsets, few]);
        let of = [ty, Type::B32][self.choices.below(2)];
        let value = self.operand(of);
        let args: Vec<Value> = [address, offsets, value].into_iter().chain(masks).collect();
        let result = self.b.update(operation(text), ty, &args, true);
        self.known.extend(result);
    }

    /// Appends a trap, a call or a fence.
    pub(super) fn effect(&mut self) {
        self.place += 1;
        self.b.at(self.place);
        match self.choices.below(4) {
            0 => {
                let on = self.operand(Type::PRED);
                let mask = self.operand(self.vector(Kind::Pred));
                let all = self
                    .b
                    .value(Op::All, self.vector(Kind::Pred), Data::Nothing, &[mask]);
                let both = self.b.map(operation("and.pred"), Type::PRED, &[on, all]);
                self.b.trap(self.place, Some(both));
            }
            1 => {
                let mask = self.operand(self.vector(Kind::Pred));
                let value = self.operand(self.vector(Kind::B32));
                let ty = self.vector(Kind::Pred);
                let head = (Op::CallLanes, Some(ty), Data::Number(0));
                let result = self.vector(Kind::B32);
                let inst = self.b.append(head, &[mask, value, value], &[result], &[]);
                self.known.push(self.b.function.results(inst)[0]);
            }
            2 => {
                self.b
                    .append((Op::Fence, None, Data::Nothing), &[], &[], &[]);
            }
            _ => {}
        }
        self.b.at(0);
    }

    /// Appends branches to the header of a loop, from one or two blocks.
    fn enter(&mut self, header: Block, args: &[Value]) {
        match self.choices.below(3) {
            0 => {
                // The loop is entered from two blocks.
                let condition = self.operand(Type::PRED);
                let other = self.b.block(&[]);
                self.b.branch(condition, (header, args), (other, &[]));
                self.b.switch_to(other);
                self.b.jump(header, args);
            }
            _ => self.b.jump(header, args),
        }
    }

    /// Appends a loop with up to five iterations, which carries a vector. Its condition is at the end or at the start.
    pub(super) fn repeated(&mut self, depth: usize) {
        let kind = [Kind::F32, Kind::B32][self.choices.below(2)];
        let ty = self.vector(kind);
        let first = self.choices.below(4) as u64;
        let step = [1, 1, 3, u64::MAX][self.choices.below(4)];
        let is_while = self.choices.below(2) == 0;
        let turns = self.choices.below(4) as u64 + u64::from(!is_while);
        let limit = first.wrapping_add(step.wrapping_mul(turns));
        let first = self.b.constant(Type::B64, first);
        let carried = self.operand(ty);
        let header = self.b.block(&[Type::B64, ty]);
        let (body, exit) = (self.b.block(&[]), self.b.block(&[ty]));
        self.enter(header, &[first, carried]);
        let before = (self.known.clone(), self.addresses.clone());
        self.b.switch_to(header);
        let params = self.b.params();
        let (counter, value) = (params[0], params[1]);
        self.known.push(value);
        self.counters.push(counter);
        let finish = |this: &mut Self, at: Value| {
            let limit = this.b.constant(Type::B64, limit);
            this.b
                .map(operation("setp.u64{cmp:ne}"), Type::PRED, &[at, limit])
        };
        if is_while {
            let more = finish(self, counter);
            self.b.branch(more, (body, &[]), (exit, &[value]));
        } else {
            for _ in 0..self.choices.below(3) {
                self.program_access();
            }
            self.instruction();
            self.b.jump(body, &[]);
        }
        self.b.switch_to(body);
        for _ in 0..3 {
            self.instruction();
        }
        self.effect();
        if depth > 0 {
            self.repeated(depth - 1);
        }
        self.instruction();
        let step = self.b.constant(Type::B64, step);
        let next = self.scalar("add.u64", &[counter, step]);
        let last = self.known.iter().rfind(|&&v| self.b.function.ty(v) == ty);
        let passed = match (last, self.choices.below(2)) {
            (Some(&last), 0) => last,
            _ => self.operand(ty),
        };
        if is_while {
            self.b.jump(header, &[next, passed]);
        } else {
            let more = finish(self, next);
            self.b
                .branch(more, (header, &[next, passed]), (exit, &[passed]));
        }
        self.counters.pop();
        (self.known, self.addresses) = before;
        self.b.switch_to(exit);
        self.known.extend(self.b.params());
    }
}
