//! The formats of texels, which define how the components of a texel are encoded in memory.

use half::f16;
use std::sync::LazyLock;

/// The encoding of one component of a texel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Channel {
    /// An unsigned integer of 8 bits.
    U8,
    /// An unsigned integer of 16 bits.
    U16,
    /// An unsigned integer of 32 bits.
    U32,
    /// A signed integer of 8 bits.
    S8,
    /// A signed integer of 16 bits.
    S16,
    /// A signed integer of 32 bits.
    S32,
    /// binary16.
    F16,
    /// binary32.
    F32,
    /// Three unsigned components of 10 bits and one of 2 bits in a 32-bit word, with the first component in the lowest
    /// bits.
    Packed10,
}

/// The encoding of texels. Each component is little-endian, and the first component of a texel has
/// the lowest address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Format {
    /// The encoding of each component of a texel.
    pub channel: Channel,
    /// The number of components of a texel: 1, 2 or 4.
    pub count: u8,
    /// Whether integer components always represent fractions of their largest value. If false, the
    /// texture's read mode determines this.
    pub normalized: bool,
}

impl Channel {
    /// Returns the size of a component in bytes. If several components are in one word
    /// ([`Channel::Packed10`]), returns the size of the word.
    pub const fn bytes(self) -> usize {
        match self {
            Channel::U8 | Channel::S8 => 1,
            Channel::U16 | Channel::S16 | Channel::F16 => 2,
            Channel::U32 | Channel::S32 | Channel::F32 | Channel::Packed10 => 4,
        }
    }

    /// Returns whether components are floating-point numbers.
    pub const fn is_float(self) -> bool {
        matches!(self, Channel::F16 | Channel::F32)
    }

    /// Returns whether components are signed integers.
    pub const fn is_signed(self) -> bool {
        matches!(self, Channel::S8 | Channel::S16 | Channel::S32)
    }

    /// Returns the number of bits of the component with index `index`.
    const fn bits(self, index: usize) -> u32 {
        match self {
            Channel::Packed10 if index == 3 => 2,
            Channel::Packed10 => 10,
            _ => self.bytes() as u32 * 8,
        }
    }

    /// Returns the largest integer that the component with index `index` can represent.
    const fn largest(self, index: usize) -> f64 {
        let bits = self.bits(index);
        let bits = if self.is_signed() { bits - 1 } else { bits };
        ((1u64 << bits) - 1) as f64
    }
}

/// For each 8-bit sRGB value (IEC 61966-2-1), the linear brightness that it represents, rounded to
/// binary32.
static LINEAR: LazyLock<[f32; 256]> = LazyLock::new(|| {
    std::array::from_fn(|byte| {
        let c = byte as f64 / 255.0;
        let linear = if c <= 0.04045 {
            c / 12.92
        } else {
            ((c + 0.055) / 1.055).powf(2.4)
        };
        linear as f32
    })
});

impl Format {
    /// Returns the format of texels with `count` components that are encoded as `channel` and not normalised.
    pub const fn new(channel: Channel, count: u8) -> Format {
        Format {
            channel,
            count,
            normalized: false,
        }
    }

    /// Returns the size of a texel in bytes.
    pub const fn bytes(&self) -> usize {
        match self.channel {
            Channel::Packed10 => 4,
            channel => channel.bytes() * self.count as usize,
        }
    }

    /// Returns each component of a texel as 32 bits. Integers are sign-extended or zero-extended,
    /// and floating-point values are converted to binary32. Components that the format does not
    /// have are 0.
    pub fn unpack(&self, texel: &[u8]) -> [u32; 4] {
        let mut all = [0; 4];
        if self.channel == Channel::Packed10 {
            let word = word_of(texel);
            for (index, value) in all.iter_mut().enumerate() {
                *value = (word >> (10 * index)) & ((1 << self.channel.bits(index)) - 1);
            }
            return all;
        }
        let size = self.channel.bytes();
        let parts = texel.chunks_exact(size).take(self.count.into());
        for (value, part) in all.iter_mut().zip(parts) {
            let bits = word_of(part);
            *value = match self.channel {
                Channel::S8 => i32::from(bits as i8) as u32,
                Channel::S16 => i32::from(bits as i16) as u32,
                Channel::F16 => f16::from_bits(bits as u16).to_f32().to_bits(),
                _ => bits,
            };
        }
        all
    }

    /// Converts `bits`, the component with index `index` in the form that [`Format::unpack`]
    /// returns, to a number. Integers become fractions of their largest value. If `srgb` is set,
    /// the first three components of [`Channel::U8`] formats are converted from sRGB to linear
    /// values.
    pub fn number(&self, bits: u32, index: usize, srgb: bool) -> f64 {
        let channel = self.channel;
        if channel.is_float() {
            return f64::from(f32::from_bits(bits));
        }
        if index >= usize::from(self.count) && channel != Channel::Packed10 {
            return f64::from(bits);
        }
        if srgb && channel == Channel::U8 && index < 3 {
            return f64::from(LINEAR[bits as usize & 0xff]);
        }
        if channel.is_signed() {
            (f64::from(bits as i32) / channel.largest(index)).max(-1.0)
        } else {
            f64::from(bits) / channel.largest(index)
        }
    }

    /// Encodes the values of a texel's components, and stores them in `texel`. In integer formats, a value outside the
    /// range of the format is replaced by the nearest value in the range.
    pub fn pack(&self, values: &[Component; 4], texel: &mut [u8]) {
        if self.channel == Channel::Packed10 {
            let fields = values.iter().enumerate();
            let word = fields.fold(0, |word, (index, value)| {
                word | self.component(*value, index) << (10 * index)
            });
            store_word(texel, word);
            return;
        }
        let size = self.channel.bytes();
        for (index, (value, part)) in values.iter().zip(texel.chunks_exact_mut(size)).enumerate() {
            store_word(part, self.component(*value, index));
        }
    }

    /// Returns the encoding of `value` as the component with index `index`.
    fn component(&self, value: Component, index: usize) -> u32 {
        let channel = self.channel;
        let largest = channel.largest(index);
        let least = match (channel.is_signed(), self.normalized) {
            (false, _) => 0.0,
            (true, true) => -largest,
            (true, false) => -largest - 1.0,
        };
        let number = match value {
            Component::Float(number) => f64::from(number),
            Component::Unsigned(number) => f64::from(number),
            Component::Signed(number) => f64::from(number),
        };
        match channel {
            Channel::F32 => match value {
                Component::Float(number) => number.to_bits(),
                _ => (number as f32).to_bits(),
            },
            Channel::F16 => u32::from(f16::from_f64(number).to_bits()),
            _ => {
                let number = match (self.normalized, value) {
                    (true, Component::Float(_)) => (number * largest).round_ties_even(),
                    (_, Component::Float(_)) => number.trunc(),
                    _ => number,
                };
                // NaN becomes 0.
                number.clamp(least, largest) as i64 as u32
            }
        }
    }
}

/// A value that is stored as a component of a texel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Component {
    /// A floating-point number.
    Float(f32),
    /// An unsigned integer.
    Unsigned(u32),
    /// A signed integer.
    Signed(i32),
}

/// Returns the little-endian word that `bytes`, which are at most four, represent.
fn word_of(bytes: &[u8]) -> u32 {
    let bytes = bytes.iter().take(4).enumerate();
    bytes.fold(0, |word, (i, &byte)| word | u32::from(byte) << (8 * i))
}

fn store_word(bytes: &mut [u8], word: u32) {
    for (i, byte) in bytes.iter_mut().take(4).enumerate() {
        *byte = (word >> (8 * i)) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn normalized(channel: Channel, count: u8) -> Format {
        Format {
            normalized: true,
            ..Format::new(channel, count)
        }
    }

    #[test]
    fn components_are_unpacked() {
        let bytes = [0xff, 0x80, 0x7f, 0x01];
        let of = |channel, count| Format::new(channel, count).unpack(&bytes);
        assert_eq!(of(Channel::U8, 4), [255, 128, 127, 1]);
        assert_eq!(of(Channel::S8, 2), [-1i32 as u32, -128i32 as u32, 0, 0]);
        assert_eq!(of(Channel::U16, 2), [0x80ff, 0x017f, 0, 0]);
        assert_eq!(of(Channel::S16, 1), [0xffff_80ff, 0, 0, 0]);
        // The word 0x017f80ff has fields of 10 bits.
        assert_eq!(of(Channel::Packed10, 4), [0xff, 0x3e0, 0x17, 0]);
        let half = Format::new(Channel::F16, 1).unpack(&[0x00, 0xc1]);
        assert_eq!(half.map(f32::from_bits), [-2.5, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn integers_stand_for_fractions() {
        let number = |channel, bits: i32| Format::new(channel, 1).number(bits as u32, 0, false);
        assert_eq!(number(Channel::U8, 255), 1.0);
        assert_eq!(number(Channel::U8, 51), 0.2);
        assert_eq!(number(Channel::S8, -128), -1.0);
        assert_eq!(number(Channel::S8, 127), 1.0);
        assert_eq!(number(Channel::S16, -32767), -1.0);
        assert_eq!(number(Channel::U16, 65535), 1.0);
        assert_eq!(
            Format::new(Channel::Packed10, 4).number(1, 3, false),
            1.0 / 3.0
        );
    }

    #[test]
    fn srgb_is_linear_near_black_and_full_at_white() {
        let format = Format::new(Channel::U8, 4);
        assert_eq!(format.number(255, 0, true), 1.0);
        assert_eq!(
            format.number(10, 1, true),
            f64::from((10.0 / 255.0 / 12.92) as f32)
        );
        // The sRGB value 188 is the linear value 0.5028864.
        assert!((format.number(188, 2, true) - 0.502_886_4).abs() < 1e-6);
        assert_eq!(format.number(51, 3, true), 0.2, "alpha is linear");
    }

    #[test]
    fn stored_values_stay_in_range() {
        let stored = |format: Format, value| format.component(value, 0);
        let u8 = Format::new(Channel::U8, 1);
        assert_eq!(stored(u8, Component::Unsigned(300)), 255);
        assert_eq!(stored(u8, Component::Signed(-3)), 0);
        let unorm = normalized(Channel::U8, 1);
        assert_eq!(stored(unorm, Component::Float(0.5)), 128);
        assert_eq!(stored(unorm, Component::Float(2.0)), 255);
        assert_eq!(stored(unorm, Component::Float(f32::NAN)), 0);
        let snorm = normalized(Channel::S8, 1);
        assert_eq!(stored(snorm, Component::Float(-1.0)) as u8, 0x81);
        let half = Format::new(Channel::F16, 1);
        assert_eq!(stored(half, Component::Float(-2.5)), 0xc100);
        let mut texel = [0; 4];
        let packed = normalized(Channel::Packed10, 4);
        packed.pack(&[Component::Float(1.0); 4], &mut texel);
        assert_eq!(texel, [0xff; 4]);
    }
}
