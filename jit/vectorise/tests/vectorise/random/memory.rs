//! The accesses of random kernels to memory.

use margay_ir::entity::Value;
use margay_ops::mods::{AtomOp, CmpOp, Mods, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};

use super::{COMMON, COUNTERS, Generator, LOCAL, OWN, WIDE, desc};

impl Generator {
    /// Loads a common word: at an index that may be uniform, affine or any other.
    pub(super) fn load(&mut self, ty: OpType) -> Value {
        let index = match self.random.below(5) {
            0 => self.thread,
            4 => self.near_an_end(),
            1 => {
                // A word at a constant position is uniform, and the sum is affine.
                let position = 4 * i64::from(self.random.below(COMMON));
                let position = self.b.constant(Type::B64, position as u64);
                let address = self
                    .b
                    .simple(Opcode::Add, OpType::S64, &[self.memory, position]);
                let global = Mods::NONE.with_space(StateSpace::Global);
                let word = self
                    .b
                    .op(desc(Opcode::Ld, OpType::B32, global), &[address], Type::B32);
                self.b
                    .simple(Opcode::Add, OpType::U32, &[word, self.thread])
            }
            _ => self.read(),
        };
        let last = self.b.constant(Type::B32, u64::from(COMMON / 2 - 1));
        let index = match self.random.below(3) {
            // `min` keeps an affine index speculatively affine.
            0 => self.b.simple(Opcode::Min, OpType::U32, &[index, last]),
            _ => self.b.simple(Opcode::And, OpType::B32, &[index, last]),
        };
        let four = self.b.constant(Type::B32, 4);
        let on = [OpType::S32, OpType::U32][self.random.below(2) as usize];
        let offset = self
            .b
            .op(desc(Opcode::Mul, on, WIDE), &[index, four], Type::B64);
        let address = self
            .b
            .simple(Opcode::Add, OpType::S64, &[self.memory, offset]);
        let global = Mods::NONE.with_space(StateSpace::Global);
        self.b
            .op(desc(Opcode::Ld, ty, global), &[address], ty.held())
    }

    /// Returns the thread's number plus a constant. For some constants, the sum wraps within a block.
    pub(super) fn near_an_end(&mut self) -> Value {
        let constants = [1, 8, 0xffff_fff8, 0x7fff_fff8];
        let number = constants[self.random.below(4) as usize];
        let number = self.b.constant(Type::B32, number);
        self.b
            .simple(Opcode::Add, OpType::U32, &[self.thread, number])
    }

    /// Adds words at a pointer that advances in a loop.
    pub(super) fn walk(&mut self) {
        let [pointer, counter] = [Type::B64, Type::B32].map(|ty| self.b.declare(ty));
        let start = match self.random.below(2) {
            0 => self.thread,
            _ => self.near_an_end(),
        };
        let last = self.b.constant(Type::B32, u64::from(COMMON / 2 - 1));
        let start = self.b.simple(Opcode::Min, OpType::U32, &[start, last]);
        let four = self.b.constant(Type::B32, 4);
        let wide = desc(Opcode::Mul, OpType::U32, WIDE);
        let offset = self.b.op(wide, &[start, four], Type::B64);
        let address = self
            .b
            .simple(Opcode::Add, OpType::S64, &[self.memory, offset]);
        self.b.write(pointer, address);
        let zero = self.b.constant(Type::B32, 0);
        self.b.write(counter, zero);
        let [body, end] = std::array::from_fn(|_| self.b.create_block());
        self.b.jump(body);
        self.b.switch_to(body);
        let at = self.b.read(pointer);
        let global = Mods::NONE.with_space(StateSpace::Global);
        let word = self
            .b
            .op(desc(Opcode::Ld, OpType::B32, global), &[at], Type::B32);
        let to = self.integer();
        let old = self.b.read(to);
        let sum = self.b.simple(Opcode::Add, OpType::U32, &[old, word]);
        self.b.write(to, sum);
        let step = self.b.constant(Type::B64, 4);
        let next = self.b.simple(Opcode::Add, OpType::S64, &[at, step]);
        self.b.write(pointer, next);
        let (turn, one) = (self.b.read(counter), self.b.constant(Type::B32, 1));
        let turn = self.b.simple(Opcode::Add, OpType::U32, &[turn, one]);
        self.b.write(counter, turn);
        let limit = match self.random.below(2) {
            0 => self.b.constant(Type::B32, 3),
            _ => {
                let (limit, three) = (self.read(), self.b.constant(Type::B32, 3));
                self.b.simple(Opcode::And, OpType::B32, &[limit, three])
            }
        };
        let setp = desc(Opcode::Setp, OpType::U32, Mods::NONE.with_cmp(CmpOp::Lt));
        let more = self.b.op(setp, &[turn, limit], Type::PRED);
        self.b.brif(more, body, end);
        self.b.switch_to(end);
    }

    /// Stores a word of the thread.
    pub(super) fn store(&mut self) {
        let address = self.own_address();
        let global = Mods::NONE.with_space(StateSpace::Global);
        let (ty, value) = match self.random.below(3) {
            0 => {
                let variable = self.float();
                (OpType::F32, self.b.read(variable))
            }
            _ => (OpType::B32, self.read()),
        };
        self.b
            .inst(desc(Opcode::St, ty, global), &[address, value], &[]);
    }

    /// Updates a word of the thread, or a counter.
    pub(super) fn update(&mut self) {
        let operations = [
            (AtomOp::Add, OpType::U32),
            (AtomOp::Max, OpType::S32),
            (AtomOp::Xor, OpType::B32),
            (AtomOp::Cas, OpType::B32),
            (AtomOp::Inc, OpType::U32),
        ];
        let (operation, ty) = operations[self.random.below(operations.len() as u32) as usize];
        let value = self.read();
        if self.random.below(3) == 0 {
            let shared = Mods::NONE.with_space(StateSpace::Shared);
            let counter = self.read();
            let last = self.b.constant(Type::B32, 7 * 4);
            let counter = self.b.simple(Opcode::And, OpType::B32, &[counter, last]);
            let start = self.b.constant(Type::B32, COUNTERS.into());
            let counter = self.b.simple(Opcode::Add, OpType::U32, &[counter, start]);
            let red = desc(Opcode::Red, OpType::U32, shared.with_atom_op(AtomOp::Add));
            self.b.inst(red, &[counter, value], &[]);
            return;
        }
        let address = self.own_address();
        let global = Mods::NONE.with_space(StateSpace::Global);
        let atom = desc(Opcode::Atom, ty, global.with_atom_op(operation));
        let new = self.read();
        let args = [address, value, new];
        let count = if operation == AtomOp::Cas { 3 } else { 2 };
        let old = self.b.op(atom, &args[..count], Type::B32);
        let to = self.integer();
        self.b.write(to, old);
    }

    /// Returns the address of a word of the thread: at the same position in all threads, or at a position that depends on
    /// the thread.
    fn own_address(&mut self) -> Value {
        let position = match self.random.below(2) {
            0 => self.small(OWN),
            _ => {
                let last = self.b.constant(Type::B32, u64::from(OWN - 1));
                let position = self.read();
                self.b.simple(Opcode::And, OpType::B32, &[position, last])
            }
        };
        let four = self.b.constant(Type::B32, 4);
        let offset = self.b.op(
            desc(Opcode::Mul, OpType::U32, WIDE),
            &[position, four],
            Type::B64,
        );
        self.b.simple(Opcode::Add, OpType::S64, &[self.own, offset])
    }

    /// Returns an address in local memory: the same in all threads, or one that depends on the thread.
    fn local_address(&mut self, bytes: u32) -> Value {
        let index = match self.random.below(3) {
            0 => self.small(LOCAL),
            1 => self.thread,
            _ => self.read(),
        };
        let last = self.b.constant(Type::B32, u64::from(4 * LOCAL / bytes - 1));
        let index = self.b.simple(Opcode::And, OpType::B32, &[index, last]);
        let bytes = self.b.constant(Type::B32, bytes.into());
        let wide = desc(Opcode::Mul, OpType::U32, WIDE);
        let offset = self.b.op(wide, &[index, bytes], Type::B64);
        self.b
            .simple(Opcode::Add, OpType::S64, &[self.local, offset])
    }

    /// Stores a value in local memory, or loads one, with a part of a word or two words.
    pub(super) fn local(&mut self) {
        let (ty, bytes) = [(OpType::B32, 4), (OpType::U16, 2), (OpType::U8, 1)]
            [self.random.below(5).saturating_sub(2) as usize];
        let pairs = ty == OpType::B32 && self.random.below(3) == 0;
        let mut address = self.local_address(if pairs { 8 } else { bytes });
        let mut mods = Mods::NONE.with_space(StateSpace::Local);
        if self.has_generic && self.random.below(2) == 0 {
            let to_generic = desc(Opcode::Cvta, OpType::U64, mods);
            address = self.b.op(to_generic, &[address], Type::B64);
            mods = Mods::NONE;
        }
        if pairs {
            mods = mods.with_vec_log2(1);
        }
        if self.random.below(2) == 0 {
            let (a, b) = (self.read(), self.read());
            let args: &[Value] = if pairs {
                &[address, a, b]
            } else {
                &[address, a]
            };
            self.b.inst(desc(Opcode::St, ty, mods), args, &[]);
            return;
        }
        let types = [Type::B32; 2];
        let types = if pairs { &types[..] } else { &types[..1] };
        let inst = self.b.inst(desc(Opcode::Ld, ty, mods), &[address], types);
        let results = self.b.function.dfg.results(inst).to_vec();
        for value in results {
            let to = self.integer();
            self.b.write(to, value);
        }
    }
}
