//! The registers of an activation: register rows, which contain the values of the activation's
//! function in 32 lanes. Values that are not live at the same time may have the same row.
//!
//! A row has 32, 64 or 128 bits for each lane, depending on the type of the value. Constants have
//! rows of their own, which all activations of a function use.

use crate::lanes;
use margay_ops::meaning::{Bits, mask};
use margay_ops::types::Kind;

/// Identifies the register row of a value: the kind of the value, whether it is a constant, and the
/// index of the row among the rows of the same width.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct RegisterId(u32);

/// The number of bits for each lane of a register row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Width {
    Word,
    Long,
    Wide,
}

impl Width {
    /// Returns the width of the register rows for values of this kind.
    pub(super) const fn of(kind: Kind) -> Width {
        match kind.bits() {
            0..=32 => Width::Word,
            33..=64 => Width::Long,
            _ => Width::Wide,
        }
    }
}

const INDEX_BITS: u32 = 28;
const CONSTANT: u32 = 1 << 31;

impl RegisterId {
    /// The ID that is used where a step has no operand or no result.
    pub(super) const NONE: RegisterId = RegisterId(u32::MAX);

    pub(super) fn register(kind: Kind, index: usize) -> RegisterId {
        RegisterId((kind as u32) << INDEX_BITS | index as u32)
    }

    pub(super) fn constant(kind: Kind, index: usize) -> RegisterId {
        RegisterId(CONSTANT | RegisterId::register(kind, index).0)
    }

    pub(super) fn kind(self) -> Kind {
        Kind::ALL[(self.0 >> INDEX_BITS) as usize & 7]
    }

    pub(super) fn width(self) -> Width {
        Width::of(self.kind())
    }

    fn is_constant(self) -> bool {
        self.0 & CONSTANT != 0
    }

    pub(super) fn index(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }
}

/// The lanes that execute a step, and the lanes whose registers the step may also write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Active {
    /// The lanes that execute the step.
    pub(super) mask: u32,
    /// Lanes whose registers in this activation are not read again. A step may write the registers
    /// of these lanes although they do not execute the step.
    pub(super) unused: u32,
}

impl Active {
    /// Returns whether so few lanes are active that a loop over the active lanes is faster than a loop over all lanes.
    pub(super) fn are_few(self) -> bool {
        self.mask.count_ones() < 6
    }

    pub(super) fn lanes(self) -> impl Iterator<Item = usize> {
        lanes(self.mask).map(|lane| lane as usize)
    }
}

/// The register rows of all widths of an activation, or of the constants of a function.
#[derive(Clone, Debug, Default)]
pub(super) struct Registers {
    words: Vec<[u32; 32]>,
    longs: Vec<[u64; 32]>,
    wides: Vec<[u128; 32]>,
}

impl Registers {
    /// Changes the number of rows of each width. Afterwards, the content of the rows is
    /// unspecified.
    pub(super) fn resize(&mut self, [words, longs, wides]: [usize; 3]) {
        // `reserve_exact` comes first because `resize` alone would allocate up to twice as much memory, for further
        // growth.
        fn exactly<T: Copy>(rows: &mut Vec<T>, count: usize, zero: T) {
            rows.reserve_exact(count.saturating_sub(rows.len()));
            rows.resize(count, zero);
        }
        exactly(&mut self.words, words, [0; 32]);
        exactly(&mut self.longs, longs, [0; 32]);
        exactly(&mut self.wides, wides, [0; 32]);
    }

    /// Returns the number of bytes that are allocated for the rows.
    pub(super) fn bytes(&self) -> usize {
        size_of::<[u32; 32]>() * self.words.capacity()
            + size_of::<[u64; 32]>() * self.longs.capacity()
            + size_of::<[u128; 32]>() * self.wides.capacity()
    }

    /// Returns the number of bytes that [`Registers::resize`] would allocate for these numbers of
    /// rows in addition to the existing memory.
    pub(super) fn growth(&self, [words, longs, wides]: [usize; 3]) -> usize {
        size_of::<[u32; 32]>() * words.saturating_sub(self.words.capacity())
            + size_of::<[u64; 32]>() * longs.saturating_sub(self.longs.capacity())
            + size_of::<[u128; 32]>() * wides.saturating_sub(self.wides.capacity())
    }

    /// Appends a row for a constant of this kind, which contains `bits` in every lane, and returns
    /// the row's ID.
    pub(super) fn push_constant(&mut self, kind: Kind, bits: Bits) -> RegisterId {
        let bits = bits & mask(kind.bits());
        let index = match Width::of(kind) {
            Width::Word => {
                self.words.push([bits as u32; 32]);
                self.words.len()
            }
            Width::Long => {
                self.longs.push([bits as u64; 32]);
                self.longs.len()
            }
            Width::Wide => {
                self.wides.push([bits; 32]);
                self.wides.len()
            }
        };
        RegisterId::constant(kind, index - 1)
    }
}

/// The register rows of an activation, and the rows of the constants of its function.
pub(super) struct Rows<'a> {
    pub(super) registers: &'a mut Registers,
    pub(super) constants: &'a Registers,
}

/// Returns the element for `lane` of the register row `place`, or of the row of a constant.
pub(super) fn get(
    (registers, constants): (&Registers, &Registers),
    place: RegisterId,
    lane: usize,
) -> Bits {
    let rows = match place.is_constant() {
        true => constants,
        false => registers,
    };
    let index = place.index();
    match place.width() {
        Width::Word => rows.words[index][lane].into(),
        Width::Long => rows.longs[index][lane].into(),
        Width::Wide => rows.wides[index][lane],
    }
}

impl Rows<'_> {
    #[inline]
    fn of(&self, place: RegisterId) -> &Registers {
        match place.is_constant() {
            true => self.constants,
            false => self.registers,
        }
    }

    /// Returns the element for `lane` of the register row `place`, or of the row of a constant.
    pub(super) fn get(&self, place: RegisterId, lane: usize) -> Bits {
        get((self.registers, self.constants), place, lane)
    }

    /// Writes `bits`, truncated to the width of the row's kind, to the element for `lane` of the
    /// register row `place`.
    pub(super) fn set(&mut self, place: RegisterId, lane: usize, bits: Bits) {
        let (index, bits) = (place.index(), bits & mask(place.kind().bits()));
        match place.width() {
            Width::Word => self.registers.words[index][lane] = bits as u32,
            Width::Long => self.registers.longs[index][lane] = bits as u64,
            Width::Wide => self.registers.wides[index][lane] = bits,
        }
    }

    /// Returns the elements of a register row for all lanes, each zero-extended or truncated to 64
    /// bits.
    pub(super) fn longs(&self, place: RegisterId) -> [u64; 32] {
        let (rows, index) = (self.of(place), place.index());
        match place.width() {
            Width::Word => rows.words[index].map(u64::from),
            Width::Long => rows.longs[index],
            Width::Wide => rows.wides[index].map(|bits| bits as u64),
        }
    }

    /// Returns a mask of the lanes for which the lowest bit of the row's element is 1.
    pub(super) fn lowest_bits(&self, place: RegisterId) -> u32 {
        let all = |bits: &mut dyn Iterator<Item = bool>| {
            bits.zip(0..)
                .fold(0, |mask, (bit, lane)| mask | u32::from(bit) << lane)
        };
        let (rows, index) = (self.of(place), place.index());
        match place.width() {
            Width::Word => {
                let row = &rows.words[index];
                (0..32).fold(0, |mask, lane| mask | (row[lane] & 1) << lane)
            }
            Width::Long => all(&mut rows.longs[index].iter().map(|bits| bits & 1 != 0)),
            Width::Wide => all(&mut rows.wides[index].iter().map(|bits| bits & 1 != 0)),
        }
    }

    /// Writes the values of the active lanes to the register row `place`, truncated to the width of
    /// the row's kind.
    pub(super) fn set_longs(&mut self, place: RegisterId, values: &[u64; 32], active: Active) {
        let cut = mask(place.kind().bits()) as u64;
        match place.width() {
            Width::Word => self.write::<u32>(place, &values.map(|v| (v & cut) as u32), active),
            Width::Long => self.write::<u64>(place, values, active),
            Width::Wide => self.write::<u128>(place, &values.map(Bits::from), active),
        }
    }

    /// Copies the elements for the active lanes from the register row `from` to the row `to`.
    pub(super) fn copy(&mut self, to: RegisterId, from: RegisterId, active: Active) {
        if to.kind() == from.kind() {
            match to.width() {
                Width::Word => self.write::<u32>(to, &{ *self.read(from) }, active),
                Width::Long => self.write::<u64>(to, &{ *self.read(from) }, active),
                Width::Wide => self.write::<u128>(to, &{ *self.read(from) }, active),
            }
            return;
        }
        for lane in active.lanes() {
            let bits = self.get(from, lane);
            self.set(to, lane, bits);
        }
    }

    /// Returns the elements of the register row `place`. The width of the row must be the width of
    /// `L`.
    #[inline]
    pub(super) fn read<L: Lane>(&self, place: RegisterId) -> &[L; 32] {
        &L::rows(self.of(place))[place.index()]
    }

    /// Writes the values of the active lanes to the register row `place`. The width of the row must
    /// be the width of `L`.
    #[inline]
    pub(super) fn write<L: Lane>(&mut self, place: RegisterId, values: &[L; 32], active: Active) {
        let row = &mut L::rows_mut(self.registers)[place.index()];
        if active.mask | active.unused == u32::MAX && !active.are_few() {
            *row = *values;
        } else {
            for lane in active.lanes() {
                row[lane] = values[lane];
            }
        }
    }
}

/// A Rust type of the elements of a register row.
pub(super) trait Lane: Copy {
    fn rows(registers: &Registers) -> &[[Self; 32]];
    fn rows_mut(registers: &mut Registers) -> &mut [[Self; 32]];
}

macro_rules! lane {
    ($($lane:ty: $rows:ident;)*) => {$(
        impl Lane for $lane {
            #[inline]
            fn rows(registers: &Registers) -> &[[Self; 32]] {
                &registers.$rows
            }

            #[inline]
            fn rows_mut(registers: &mut Registers) -> &mut [[Self; 32]] {
                &mut registers.$rows
            }
        }
    )*};
}

lane! { u32: words; u64: longs; u128: wides; }
