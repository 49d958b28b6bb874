//! Plans: precomputed data for the most common fetches of a texture. A plan is computed once for an image and a
//! sampler. [`Shape::of_payload`] determines which instructions can use a plan. [`super::lanes`] performs the fetches;
//! their results have the same bits as the results of [`super::sample`].
//!
//! Plans do not support cubes, gathers, levels that an instruction specifies, offsets, results in half precision, or
//! formats whose components share a word. Such fetches use [`super::sample`].

use super::{
    AddressMode, Channel, Filter, Format, Geometry, Image, Layout, Operation, ReadMode, Sampler,
};
use crate::types::OpType;

/// The properties of an instruction that a fetch with a plan needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Number of coordinates, without the layer.
    pub dimensions: usize,
    /// Whether the first coordinate is the index of a layer.
    pub layered: bool,
    /// Whether the coordinates are floating-point numbers.
    pub float: bool,
    /// Number of elements that the instruction reads.
    pub count: usize,
}

/// A mask of the payload's bits that may differ between supported instructions: geometry, base level, count and types.
/// `Access::payload` defines the layout.
const TOLD: u64 = 0xf << 4 | 1 << 8 | 3 << 10 | 0xffff << 32;

impl Shape {
    /// Returns the shape of the instruction with a payload; `None` if plans do not support the
    /// instruction.
    #[inline]
    pub fn of_payload(payload: u64) -> Option<Shape> {
        let (dimensions, layered) = match payload >> 4 & 15 {
            n if n == Geometry::D1 as u64 => (1, false),
            n if n == Geometry::D2 as u64 => (2, false),
            n if n == Geometry::D3 as u64 => (3, false),
            n if n == Geometry::A1 as u64 => (1, true),
            n if n == Geometry::A2 as u64 => (2, true),
            _ => return None,
        };
        let (ty, coords) = (payload >> 32 & 0xff, payload >> 40 & 0xff);
        let whole = [OpType::F32, OpType::U32, OpType::S32];
        let plain = payload & !TOLD == Operation::Tex as u64
            && whole.iter().any(|&whole| whole as u64 == ty);
        plain.then_some(Shape {
            dimensions,
            layered,
            float: coords == OpType::F32 as u64,
            count: 1 << (payload >> 10 & 3),
        })
    }
}

/// The conversion of a component to a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reading {
    /// No conversion: the result is the bits of the component.
    Bits,
    /// The component is a floating-point number.
    Float,
    /// The component is an integer, which represents a fraction of its largest value.
    Fraction,
}

/// The numbers that integer components represent.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Fractions {
    /// Two tables that contain the number for each byte: the first for the first three components, the second for the
    /// fourth component.
    Bytes([Box<[f64; 256]>; 2]),
    /// The numbers that [`Format::number`] computes.
    Format(Format),
}

impl Fractions {
    fn of(format: Format, srgb: bool) -> Fractions {
        if format.channel.bytes() > 1 {
            return Fractions::Format(format);
        }
        let whole = Format { count: 4, ..format };
        let number = |byte: usize, index: usize| match format.channel.is_signed() {
            true => whole.number(i32::from(byte as u8 as i8) as u32, index, srgb),
            false => whole.number(byte as u32, index, srgb),
        };
        Fractions::Bytes(
            [0, 3].map(|index| Box::new(std::array::from_fn(|byte| number(byte, index)))),
        )
    }

    /// Converts the values of one component for all lanes. The format must have this component.
    #[inline(always)]
    pub(super) fn numbers<const N: usize>(
        &self,
        component: &[u32; N],
        index: usize,
        out: &mut [f64; N],
    ) {
        match self {
            Fractions::Bytes(tables) => {
                let table = &tables[usize::from(index == 3)];
                for lane in 0..N {
                    out[lane] = table[component[lane] as usize & 0xff];
                }
            }
            Fractions::Format(format) => {
                for lane in 0..N {
                    out[lane] = format.number(component[lane], index, false);
                }
            }
        }
    }
}

/// The properties of one dimension of an image.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Axis {
    /// Number of texels.
    pub(super) size: i32,
    /// Distance between adjacent texels in bytes.
    pub(super) step: u32,
    /// Number of texels in one unit of the coordinate.
    pub(super) scale: f64,
    /// The rule for indices outside the image.
    pub(super) mode: AddressMode,
}

/// Precomputed data for the most common fetches of a texture.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    pub(super) address: u64,
    pub(super) axes: [Axis; 3],
    /// Index of the last layer.
    pub(super) last: u32,
    /// Whether adjacent texels are blended.
    pub(super) linear: bool,
    /// Whether the image is a linear buffer, for which only the first coordinate is used.
    pub(super) buffer: bool,
    pub(super) format: Format,
    pub(super) reading: Reading,
    /// The conversion of integers if `reading` is [`Reading::Fraction`].
    pub(super) fractions: Option<Fractions>,
    /// The border colour, as bits.
    pub(super) border: [u32; 4],
}

impl Plan {
    /// Returns the plan for an image and a sampler; `None` if plans do not support them.
    pub fn of(image: &Image, sampler: &Sampler) -> Option<Plan> {
        let format = image.format;
        let level = image.level(0)?;
        if image.cube || format.channel == Channel::Packed10 || !matches!(format.count, 1 | 2 | 4) {
            return None;
        }
        let sizes = [level.width, level.height, level.depth];
        if sizes
            .iter()
            .any(|&size| size == 0 || size > i32::MAX as u32)
        {
            return None;
        }
        let bytes = format.bytes() as u64;
        let steps = [bytes, level.pitch, level.slice].map(|step| u32::try_from(step).ok());
        let [Some(texel), Some(pitch), Some(slice)] = steps else {
            return None;
        };
        let steps = [texel, pitch, slice];
        // The address of every texel must fit into 64 bits.
        let lasts = sizes.iter().zip(steps);
        let span: u64 = lasts.map(|(&n, step)| u64::from(n) * u64::from(step)).sum();
        level.address.checked_add(span)?;
        let short = format.channel.bytes() < 4;
        let reading = match format.channel.is_float() {
            true => Reading::Float,
            false if format.normalized || (sampler.read == ReadMode::Normalized && short) => {
                Reading::Fraction
            }
            false => Reading::Bits,
        };
        let buffer = image.layout == Layout::Linear;
        let axis = |i: usize| Axis {
            size: sizes[i] as i32,
            step: steps[i],
            scale: match sampler.is_normalized() && !buffer {
                true => f64::from(sizes[i]),
                false => 1.0,
            },
            mode: match buffer {
                true => AddressMode::Border,
                false => sampler.address_mode(i),
            },
        };
        let mut border = [0; 4];
        let count = usize::from(format.count);
        border[..count].copy_from_slice(&sampler.border[..count]);
        if reading != Reading::Bits {
            border = border.map(quiet);
        }
        Some(Plan {
            address: level.address,
            axes: [axis(0), axis(1), axis(2)],
            last: image.layers().max(1) - 1,
            linear: reading != Reading::Bits && !buffer && sampler.filter == Filter::Linear,
            buffer,
            format,
            reading,
            fractions: (reading == Reading::Fraction).then(|| Fractions::of(format, sampler.srgb)),
            border: if buffer { [0; 4] } else { border },
        })
    }
}

/// Returns the bits of a number, with a signalling NaN changed to a quiet NaN, as arithmetic on the number would change
/// it.
#[inline(always)]
pub(super) fn quiet(bits: u32) -> u32 {
    match bits & 0x7fff_ffff > 0x7f80_0000 {
        true => bits | 0x0040_0000,
        false => bits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texture::{Access, LevelMode};

    #[test]
    fn only_plain_fetches_have_a_shape() {
        let plain = Access {
            operation: Operation::Tex,
            geometry: Geometry::A2,
            level: LevelMode::Base,
            count_log2: 2,
            ty: OpType::U32,
            coords: OpType::S32,
            ..Access::default()
        };
        let shape = |access: Access| Shape::of_payload(access.payload());
        let wanted = Shape {
            dimensions: 2,
            layered: true,
            float: false,
            count: 4,
        };
        assert_eq!(shape(plain), Some(wanted));
        let float = Access {
            coords: OpType::F32,
            geometry: Geometry::D1,
            level: LevelMode::None,
            ..plain
        };
        assert!(shape(float).is_some_and(|shape| shape.float && shape.dimensions == 1));
        let change: [fn(&mut Access); 9] = [
            |access| access.operation = Operation::Tld4,
            |access| access.operation = Operation::Suld,
            |access| access.geometry = Geometry::Cube,
            |access| access.level = LevelMode::Level,
            |access| access.level = LevelMode::Grad,
            |access| access.ty = OpType::F16x2,
            |access| access.component = 1,
            |access| access.offsets = true,
            |access| access.resident = true,
        ];
        for change in change {
            let mut other = plain;
            change(&mut other);
            assert_eq!(shape(other), None, "{other}");
        }
    }
}
