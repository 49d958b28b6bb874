//! Pairs of adjacent elements of 32 bits that each lane accesses with one instruction, such as the parts of complex
//! numbers. The lanes access an element of 64 bits, so that the access is contiguous if the pairs of the lanes are, and
//! otherwise takes half as many gathered or scattered elements.

use margay_ir::entity::Value;
use margay_ops::meaning::Desc;
use margay_ops::mods::Mods;
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType, Type};

use crate::emitter::{Emitter, desc};
use crate::memory::{Element, Places};

/// The minimum number of lanes of a chunk whose pairs are accessed together.
const MIN_LANES: u32 = 4;

/// A pair of elements as one element, its parts, and the elements behind it.
type Pair<'e> = (Element, [&'e Element; 2], &'e [Element]);

impl Emitter<'_> {
    /// Returns the pair of elements with which a list of elements begins: of words that values of 32 bits hold. Wider values
    /// hold words extended with their sign or zeros.
    fn pair_of<'e>(&self, elements: &'e [Element]) -> Option<Pair<'e>> {
        let [first, second, rest @ ..] = elements else {
            return None;
        };
        let is_word = |element: &Element| {
            element.memory.bits() == 32 && self.kind(element.value).bits() == 32
        };
        let pair = Element {
            memory: OpType::B64,
            ..*first
        };
        let is_pair = self.kernel.width >= MIN_LANES && is_word(first) && is_word(second);
        is_pair.then_some((pair, [first, second], rest))
    }

    /// Emits the loads of elements, and sets their lanes.
    pub(crate) fn load_elements(&mut self, places: Places, mut elements: &[Element]) {
        while let Some((pair, halves, rest)) = self.pair_of(elements) {
            let ty = self.vector(Kind::B64);
            let bits = self.load_as(places, &pair, ty);
            for (element, high) in halves.into_iter().zip([false, true]) {
                let lanes = self.half_of(bits, high);
                let lanes = self.as_words(lanes, self.kind(element.value));
                self.set_lanes(element.value, lanes);
            }
            elements = rest;
        }
        for element in elements {
            let lanes = self.load_lanes(places, element);
            self.set_lanes(element.value, lanes);
        }
    }

    /// Emits the stores of elements.
    pub(crate) fn store_elements(&mut self, places: Places, mut elements: &[Element]) {
        while let Some((pair, halves, rest)) = self.pair_of(elements) {
            let [low, high] = halves.map(|element| {
                let lanes = self.lanes(element.value);
                let words = self.as_words(lanes, Kind::B32);
                self.convert(OpType::U64, OpType::U32, words)
            });
            let by = self.constant(Type::B32, 32);
            let ty = self.vector(Kind::B64);
            let high = self.simple(Opcode::Shl, OpType::B64, ty, &[high, by]);
            let bits = self.simple(Opcode::Or, OpType::B64, ty, &[low, high]);
            self.store_lanes(places, &pair, bits);
            elements = rest;
        }
        for element in elements {
            let lanes = self.lanes(element.value);
            self.store_lanes(places, element, lanes);
        }
    }

    /// Returns the low or high words of lanes of 64 bits.
    fn half_of(&mut self, bits: Value, high: bool) -> Value {
        let bits = match high {
            true => {
                let by = self.constant(Type::B32, 32);
                let ty = self.out.ty(bits);
                self.simple(Opcode::Shr, OpType::U64, ty, &[bits, by])
            }
            false => bits,
        };
        self.convert(OpType::U32, OpType::U64, bits)
    }

    /// Returns lanes of 32 bits as values of another kind of 32 bits.
    fn as_words(&mut self, lanes: Value, kind: Kind) -> Value {
        let from = self.out.ty(lanes).kind();
        if from == kind {
            return lanes;
        }
        let to = self.vector(kind);
        let bitcast = Desc {
            src: from.op_type(),
            ..desc(Opcode::Bitcast, kind.op_type(), OpType::None, Mods::NONE)
        };
        self.map(bitcast, to, &[lanes])
    }
}
