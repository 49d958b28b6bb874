//! The loops over the rows of a run of CTAs, and over the chunks of a row ([`crate::runs`]).
//!
//! All operations that depend on nothing but constants, parameters and special registers run once a row. In a chunk, such
//! a value is that of the row's first thread plus a product of its step and the position of the chunk.
//!
//! While a row of several CTAs runs, the field `thread` of the context contains a position in the row, and the fields
//! `row_threads` and `row_start` contain the number of threads of a row of the CTA and the first of them, from which the
//! host computes the CTA and the thread of a fault.

use margay_ir::entity::{Block, Value};
use margay_ops::mods::CmpOp;
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use margay_ops::types::{Kind, OpType, Type};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::certain::Certain;
use crate::emitter::Emitter;
use crate::phases::Phases;
use crate::runs::{Row, Runs, Unwrapped};
use crate::variables::{Counter, Key};
use crate::{Group, Kernel, Refusal};

/// The maximum number of CTAs of a run.
const MAX_RUN: u64 = 64;

/// Returns whether the code of a kernel may run rows.
fn may_run_rows(kernel: &Kernel<'_>, may_yield: bool) -> bool {
    kernel.has_whole_rows()
        && !kernel.has_phases()
        && !may_yield
        && matches!(kernel.group, Group::Line(_))
}

impl<'a> Emitter<'a> {
    /// Finds how the rows of the kernel run; `None` if its code visits the chunks of one CTA after the other. `certain` are
    /// the values that are affine if the checks of the CTA hold.
    pub(crate) fn find_runs(&self, certain: &Certain) -> Option<Runs> {
        if !may_run_rows(self.kernel, self.may_yield) {
            return None;
        }
        let uniformity = self.kernel.uniformity;
        let is_scalar = |value: Value| {
            !self.fixed.contains_key(&value)
                && (certain.values.contains(&value)
                    || uniformity.class(value) != margay_ir::analysis::uniformity::Class::Varying)
        };
        Runs::new(self.kernel, &certain.checks, is_scalar)
    }

    /// Emits the code of a run that begins with the CTA `cta`, of the CTAs before `end`, and returns the number of its
    /// CTAs.
    pub(crate) fn run(
        &mut self,
        (phases, frames): (&'a Phases, Value),
        (cta, end): (Value, Value),
        (runs, certain): (&Runs, Certain),
    ) -> Result<Value, Refusal> {
        let layout = self.kernel.layout;
        let length = self.length_of_run((cta, end), runs);
        let count = self.row_threads(length);
        let [hold, fail, done] = std::array::from_fn(|_| self.new_block());
        if !self.kernel.has_whole_groups() {
            let none = self.constant(Type::B32, 0);
            let some = self.new_block();
            let is_empty = self.compare((CmpOp::Eq, OpType::U32), length, none);
            self.brif(is_empty, fail, some);
            self.enter(some);
        }
        let Certain { values, .. } = certain;
        self.lazy = crate::speculation::lazy_values(self.kernel, &values);
        self.certain = values;
        self.test_alignment(fail);
        self.test_rows(&runs.unwrapped, count, (hold, fail))?;

        self.enter(hold);
        if runs.several {
            let threads = self.size(SpecialReg::NtidX).expect("a size");
            self.set_field(layout.row_threads, threads);
        }
        self.write(Key::Counter(Counter::Run), length);
        self.runs = Some((runs.clone(), count));
        self.phases(phases, frames)?;
        self.row = None;
        self.always_aligned.clear();
        self.jump(done);

        if self.variables.is_reached(fail) {
            let before = self.hot.len();
            self.enter(fail);
            if runs.several {
                let none = self.constant(Type::B32, 0);
                self.set_field(layout.row_threads, none);
            }
            let one = self.constant(Type::B32, 1);
            self.write(Key::Counter(Counter::Run), one);
            self.rare_version(phases, frames)?;
            self.jump(done);
            let rare = self.hot.split_off(before);
            self.cold.extend(rare);
        }
        self.enter(done);
        Ok(self.read(Key::Counter(Counter::Run), Type::B32))
    }

    /// Returns the number of CTAs of a run; 0 if the chunks of a single CTA do not form groups.
    fn length_of_run(&mut self, (cta, end): (Value, Value), runs: &Runs) -> Value {
        if !runs.several {
            return self.constant(Type::B32, 1);
        }
        let left = self.simple(Opcode::Sub, OpType::U64, Type::B64, &[end, cta]);
        let most = self.constant(Type::B64, MAX_RUN);
        let left = self.simple(Opcode::Min, OpType::U64, Type::B64, &[left, most]);
        let left = self.convert(OpType::U32, OpType::U64, left);
        let size = self.size(SpecialReg::NctaidX).expect("a size");
        let of_row = [size, self.ctaid[0]];
        let of_row = self.simple(Opcode::Sub, OpType::U32, Type::B32, &of_row);
        let length = self.simple(Opcode::Min, OpType::U32, Type::B32, &[left, of_row]);
        if self.kernel.has_whole_groups() {
            return length;
        }
        // The length of a row of a CTA is a multiple of a chunk, and if it is not one of two chunks, the group has two.
        let threads = self.row_threads(length);
        let step = self.chunk_count * self.kernel.width;
        let low = self.constant(Type::B32, u64::from(step) - 1);
        let rest = self.simple(Opcode::And, OpType::B32, Type::B32, &[threads, low]);
        let none = self.constant(Type::B32, 0);
        let is_odd = self.compare((CmpOp::Ne, OpType::U32), rest, none);
        let shorter = self.add_constant(length, -1);
        self.simple(
            Opcode::Selp,
            OpType::B32,
            Type::B32,
            &[shorter, length, is_odd],
        )
    }

    /// Returns the number of threads of a row of `length` CTAs.
    fn row_threads(&mut self, length: Value) -> Value {
        let threads = self.size(SpecialReg::NtidX).expect("a size");
        match self.out.constant(length) {
            Some(1) => threads,
            _ => self.product(length, threads),
        }
    }

    /// Emits a loop over the rows of a run of `count` threads in each row. `body` emits code for a row with its `%tid.y`
    /// and `%tid.z` and the number of its first thread, after which the code continues at the block that it gets.
    fn each_row(
        &mut self,
        body: impl FnOnce(&mut Self, ([Value; 2], Value), Block) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let [row, next, done] = std::array::from_fn(|_| self.new_block());
        let zero = self.constant(Type::B32, 0);
        let keys = [Counter::Row(0), Counter::Row(1), Counter::RowStart].map(Key::Counter);
        for key in keys {
            self.write(key, zero);
        }
        self.jump(row);
        self.enter_open(row);
        let [y, z, start] = keys.map(|key| self.read(key, Type::B32));
        body(self, ([y, z], start), next)?;

        self.enter(next);
        self.place = 0;
        let sizes = [SpecialReg::NtidX, SpecialReg::NtidY];
        let [length, rows] = sizes.map(|register| self.size(register).expect("a size"));
        let following = self.add(start, length);
        let moved = self.add_constant(y, 1);
        let wraps = self.compare((CmpOp::Hs, OpType::U32), moved, rows);
        let next_z = self.add_constant(z, 1);
        let y = [zero, moved, wraps];
        let y = self.simple(Opcode::Selp, OpType::B32, Type::B32, &y);
        let z = [next_z, z, wraps];
        let z = self.simple(Opcode::Selp, OpType::B32, Type::B32, &z);
        for (key, value) in keys.into_iter().zip([y, z, following]) {
            self.write(key, value);
        }
        let threads = self.field(self.kernel.layout.threads, Type::B32);
        let more = self.compare((CmpOp::Lo, OpType::U32), following, threads);
        self.brif(more, row, done);
        self.variables.seal(&mut self.out, row);
        self.enter(done);
        Ok(())
    }

    /// Makes the code that follows compute values of the first thread of a row.
    fn begin_row(&mut self, tid: [Value; 2], start: Value) {
        let position = self.constant(Type::B32, 0);
        self.row = Some(Row {
            position,
            tid,
            bases: FxHashMap::default(),
        });
        (self.first_thread, self.thread) = (start, start);
        self.block = self.kernel.function.entry();
        self.mask = self.constant(self.mask_type(), 1);
    }

    /// Emits the tests that values do not wrap in the rows of a run. The code continues at `hold` if they do not, and at
    /// `fail` otherwise.
    fn test_rows(
        &mut self,
        tests: &[Unwrapped],
        count: Value,
        (hold, fail): (Block, Block),
    ) -> Result<(), Refusal> {
        if tests.is_empty() {
            self.jump(hold);
            return Ok(());
        }
        let chunks = std::mem::replace(&mut self.chunk_count, 1);
        self.each_row(|e, (tid, start), next| {
            e.begin_row(tid, start);
            let last = e.add_constant(count, -1);
            let mut done = FxHashSet::default();
            let mut all: Option<Value> = None;
            for test in tests {
                e.compute_early(test.value, &mut done)?;
                let one = e.stays_unwrapped(test, last);
                all = Some(match all {
                    Some(all) => e.logic(Opcode::And, &[all, one]),
                    None => one,
                });
            }
            let all = all.expect("there are tests");
            e.brif(all, next, fail);
            e.row = None;
            Ok(())
        })?;
        self.chunk_count = chunks;
        self.jump(hold);
        Ok(())
    }

    /// Returns whether a value does not wrap between the row's first thread and the thread at the position `last`.
    fn stays_unwrapped(&mut self, test: &Unwrapped, last: Value) -> Value {
        let (narrow, wide) = match test.signed {
            true => (OpType::S32, OpType::S64),
            false => (OpType::U32, OpType::U64),
        };
        let first = self.scalar(test.value);
        let first = self.convert(wide, narrow, first);
        let last = self.convert(OpType::U64, OpType::U32, last);
        let step = self.constant(Type::B64, test.step as u64);
        let apart = self.product(last, step);
        let end = self.add(first, apart);
        let low = self.convert(OpType::U32, OpType::U64, end);
        let again = self.convert(wide, narrow, low);
        self.compare((CmpOp::Eq, OpType::U64), again, end)
    }

    /// Emits the loop over the rows of a run and over the chunks of each row.
    pub(crate) fn chunks_of_rows(
        &mut self,
        index: usize,
        (runs, count): (&Runs, Value),
    ) -> Result<(), Refusal> {
        self.each_row(|e, (tid, start), next| {
            let layout = e.kernel.layout;
            if runs.several {
                e.set_field(layout.row_start, start);
            }
            e.begin_row(tid, start);
            let bases = e.bases_of_row(runs)?;
            let [body, following] = std::array::from_fn(|_| e.new_block());
            let zero = e.constant(Type::B32, 0);
            e.write(Key::Counter(Counter::Thread), zero);
            e.jump(body);
            e.enter_open(body);
            let position = e.read(Key::Counter(Counter::Thread), Type::B32);
            e.row = Some(Row {
                position,
                tid,
                bases,
            });
            let thread = match runs.several {
                true => position,
                false => e.add(start, position),
            };
            e.first_thread = thread;
            e.set_field(layout.thread, thread);
            e.of_chunks(|e| {
                e.thread = e.add_constant(thread, i64::from(e.chunk * e.kernel.width));
                e.mask = e.constant(e.mask_type(), 1);
            });
            e.each_chunk(|e| e.restore(index, e.phase))?;
            e.chunk(following)?;

            e.enter(following);
            e.place = 0;
            let step = e.chunk_count * e.kernel.width;
            let moved = e.add_constant(position, i64::from(step));
            e.write(Key::Counter(Counter::Thread), moved);
            let more = e.compare((CmpOp::Lo, OpType::U32), moved, count);
            e.brif(more, body, next);
            e.variables.seal(&mut e.out, body);
            Ok(())
        })
    }

    /// Computes the values of the row's first thread.
    fn bases_of_row(&mut self, runs: &Runs) -> Result<FxHashMap<Value, (Value, i64)>, Refusal> {
        let mut values: Vec<(Value, i64)> = runs.steps.iter().map(|(&v, &s)| (v, s)).collect();
        values.sort_unstable();
        let mut done = FxHashSet::default();
        let mut bases = FxHashMap::default();
        for (value, step) in values {
            self.compute_early(value, &mut done)?;
            let base = self.scalar(value);
            bases.insert(value, (base, step));
        }
        Ok(bases)
    }

    /// Returns the value of the chunk's first thread, computed from that of the row's first thread; `None` if the program
    /// computes the value otherwise.
    pub(crate) fn along_row(&mut self, value: Value) -> Option<Value> {
        let row = self.row.as_ref()?;
        let (&(base, step), position) = (row.bases.get(&value)?, row.position);
        if step == 0 {
            return Some(base);
        }
        let ty = self.out.ty(base);
        let position = match ty.kind() {
            Kind::B64 => self.convert(OpType::U64, OpType::U32, position),
            _ => position,
        };
        let moved = match step {
            1 => position,
            _ => {
                let step = self.constant(ty, step as u64 & crate::emitter::ones(ty));
                self.product(position, step)
            }
        };
        let first = self.add(base, moved);
        let of_chunk = step.wrapping_mul(i64::from(self.chunk * self.kernel.width));
        Some(self.add_constant(first, of_chunk))
    }
}
