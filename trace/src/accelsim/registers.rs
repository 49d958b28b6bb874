//! The numbers of registers in a trace.
//!
//! The simulator uses register numbers only to find dependences and register banks. Each PTX register gets a number when
//! the code first writes it, in the order of the text. A value with 64 or more bits has an aligned group of registers.
//! Predicates have no number.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The numbers of the registers of all functions of a kernel.
#[derive(Default, Debug)]
pub(super) struct Registers {
    /// By function and register: the number of each 32-bit word.
    known: FxHashMap<(u32, u32), Numbers>,
    next: u32,
    /// By function and register: the first and the last place in the text, and the number of 32-bit words.
    lives: FxHashMap<(u32, u32), (u32, u32, u32)>,
}

/// The number of the register that always reads as 0.
const ZERO: u32 = 255;
/// The number of registers that hold intermediate results of instructions that become several lines.
const TEMPORARIES: u32 = 16;

impl Registers {
    /// Gives numbers to a register of `bits` bits, unless it has them. Returns the numbers; none for predicates.
    pub(super) fn define(&mut self, function: u32, (register, bits): (u32, u32)) {
        if bits < 8 {
            return;
        }
        let count = bits.div_ceil(32).max(1);
        let next = &mut self.next;
        self.known.entry((function, register)).or_insert_with(|| {
            let align = count.next_power_of_two();
            let mut first = next.next_multiple_of(align);
            if (first..first + count).contains(&ZERO) {
                first = (ZERO + 1).next_multiple_of(align);
            }
            *next = first + count;
            (first..first + count).collect()
        });
    }

    /// Gives a register the numbers of another one, unless it has numbers. The instruction that copies the register has no
    /// line in the trace.
    pub(super) fn rename(&mut self, function: u32, register: u32, source: u32) {
        if let Some(numbers) = self.known.get(&(function, source)).cloned() {
            self.known.entry((function, register)).or_insert(numbers);
        }
    }

    /// Gives the parts of a move that packs or unpacks registers the numbers of their sources, unless they have numbers.
    /// Such a move has no line in the trace. `to` and `from` contain the registers with their bits, from the least
    /// significant.
    pub(super) fn repack(&mut self, function: u32, to: &[(u32, u32)], from: &[(u32, u32)]) {
        let source: Option<Numbers> = words(from)
            .map(|(register, word)| self.word(function, register, word))
            .collect();
        let Some(source) = source else { return };
        for (register, start, bits) in placed(to) {
            if bits < 8 {
                continue;
            }
            let count = bits.div_ceil(32).max(1);
            let numbers: Option<Numbers> = (0..count)
                .map(|word| source.get((start / 32 + word) as usize).copied())
                .collect();
            if let Some(numbers) = numbers {
                self.known.entry((function, register)).or_insert(numbers);
            }
        }
    }

    /// Notes that the instruction at `place` in the text names a register of `bits` bits.
    pub(super) fn uses(&mut self, function: u32, (register, bits): (u32, u32), place: u32) {
        if bits >= 8 {
            let words = bits.div_ceil(32).max(1);
            let life = self.lives.entry((function, register));
            let life = life.or_insert((place, place, words));
            life.0 = life.0.min(place);
            life.1 = life.1.max(place);
        }
    }

    /// Returns an estimate of the number of registers that a thread needs: the largest number of words of registers
    /// between whose first and last use a place of the text is.
    pub(super) fn pressure(&self) -> u32 {
        let mut changes: Vec<(u32, i64)> = Vec::new();
        for &(first, last, words) in self.lives.values() {
            changes.push((first, words.into()));
            changes.push((last + 1, -i64::from(words)));
        }
        changes.sort_unstable();
        let (mut words, mut most) = (0, 0);
        for (_, change) in changes {
            words += change;
            most = most.max(words);
        }
        (most as u32).clamp(1, ZERO)
    }

    /// Returns the number of word `word` of a register. A register with fewer words gives its last word.
    pub(super) fn word(&self, function: u32, register: u32, word: usize) -> Option<u32> {
        let numbers = self.known.get(&(function, register))?;
        numbers.get(word).or(numbers.last()).copied()
    }

    /// Returns the number of a register for an intermediate result. All registers of the kernel must be defined.
    pub(super) fn temporary(&self, index: usize) -> u32 {
        let first = match self.next <= ZERO {
            true if self.next + TEMPORARIES > ZERO => ZERO + 1,
            _ => self.next,
        };
        first + index as u32 % TEMPORARIES
    }
}

/// Numbers of registers: those of one line, or those of the words of a register.
pub(super) type Numbers = SmallVec<[u32; 4]>;

/// Returns each register with the position of its first bit, and the number of its bits.
fn placed(registers: &[(u32, u32)]) -> impl Iterator<Item = (u32, u32, u32)> + '_ {
    let mut next = 0;
    registers.iter().map(move |&(register, bits)| {
        let start = next;
        next += bits;
        (register, start, bits)
    })
}

/// Returns, for each 32-bit word of a vector, the register that contains its first bit, and the index of the word in the
/// register.
pub(super) fn words(registers: &[(u32, u32)]) -> impl Iterator<Item = (u32, usize)> + '_ {
    placed(registers).flat_map(|(register, start, bits)| {
        let first = start.next_multiple_of(32);
        let starts = (first..start + bits).step_by(32);
        starts.map(move |at| (register, ((at - start) / 32) as usize))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_64_bits_have_an_even_pair() {
        let mut registers = Registers::default();
        registers.define(0, (7, 32));
        registers.define(0, (9, 64));
        registers.define(0, (8, 1));
        registers.define(0, (6, 16));
        registers.define(0, (5, 128));
        registers.define(0, (7, 32));
        let of = |register, word| registers.word(0, register, word);
        assert_eq!((of(7, 0), of(7, 1)), (Some(0), Some(0)));
        assert_eq!((of(9, 0), of(9, 1)), (Some(2), Some(3)));
        assert_eq!((of(8, 0), of(6, 0)), (None, Some(4)));
        assert_eq!((of(5, 0), of(5, 3)), (Some(8), Some(11)));
        assert_eq!(registers.word(1, 7, 0), None);
        assert_eq!((registers.temporary(0), registers.temporary(17)), (12, 13));
    }

    #[test]
    fn packed_registers_share_the_numbers_of_their_parts() {
        let mut registers = Registers::default();
        registers.define(0, (1, 32));
        registers.define(0, (9, 8));
        registers.define(0, (2, 32));
        // {1, 2} becomes 3, and 3 becomes {4, 5, 6}.
        registers.repack(0, &[(3, 64)], &[(1, 32), (2, 32)]);
        registers.repack(0, &[(4, 32), (5, 16), (6, 16)], &[(3, 64)]);
        let of = |register, word| registers.word(0, register, word);
        assert_eq!((of(3, 0), of(3, 1)), (Some(0), Some(2)));
        assert_eq!((of(4, 0), of(5, 0), of(6, 0)), (Some(0), Some(2), Some(2)));
        // Four halves have two words, and a source without numbers gives none.
        registers.repack(0, &[(7, 64)], &[(5, 16), (6, 16), (1, 16), (1, 16)]);
        registers.repack(0, &[(8, 64)], &[(1, 32), (99, 32)]);
        let of = |register, word| registers.word(0, register, word);
        assert_eq!((of(7, 0), of(7, 1)), (Some(2), Some(0)));
        assert_eq!(of(8, 0), None);
        let two = words(&[(1, 64), (2, 64)]).collect::<Vec<_>>();
        assert_eq!(two, [(1, 0), (1, 1), (2, 0), (2, 1)]);
    }

    #[test]
    fn the_pressure_counts_words_that_live_at_the_same_place() {
        let mut registers = Registers::default();
        assert_eq!(registers.pressure(), 1);
        for (register, bits, first, last) in
            [(1, 32, 0, 3), (2, 64, 1, 2), (3, 1, 0, 9), (4, 128, 3, 5)]
        {
            registers.uses(0, (register, bits), first);
            registers.uses(0, (register, bits), last);
        }
        // At place 3: one word of the first register, and four of the last one.
        assert_eq!(registers.pressure(), 5);
    }

    #[test]
    fn no_value_has_the_number_of_the_zero_register() {
        let mut registers = Registers::default();
        for register in 0..300 {
            registers.define(0, (register, 32));
        }
        let mut numbers = (0..300).map(|register| registers.word(0, register, 0).unwrap());
        assert!(numbers.all(|number| number != ZERO));
        let mut nearly_all = Registers::default();
        for register in 0..250 {
            nearly_all.define(0, (register, 32));
        }
        assert!((0..16).all(|index| nearly_all.temporary(index) != ZERO));
    }
}
