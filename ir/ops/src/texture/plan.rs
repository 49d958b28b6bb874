//! Plans. A plan is data for the most common fetches of a texture, which is computed once for an
//! image and a sampler. [`Shape::of_payload`] determines which instructions can use a plan.
//! The module [`super::lanes`] performs the fetches with a plan; their results have the same bits
//! as the results of [`super::sample`].
//!
//! Plans cannot be used for cubes, gathers, levels or gradients that an instruction specifies, offsets, results in half
//! precision, instructions with a result for residency, or formats with several components in one word.
//! [`super::sample`] performs such fetches.

use super::{
    AddressMode, Channel, Filter, Format, Geometry, Image, Layout, Operation, ReadMode, Sampler,
};
use crate::types::OpType;

/// The properties of a texture instruction that are needed to perform it with a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// The number of coordinates, without the index of the layer.
    pub dimensions: usize,
    /// Whether the first coordinate is the index of a layer.
    pub layered: bool,
    /// Whether the coordinates are floating-point numbers.
    pub float: bool,
    /// The number of elements that the instruction reads.
    pub count: usize,
}

/// A mask of the payload's bits that may have any value in an instruction with a plan: geometry,
/// base level, count and types. `Access::payload` defines the layout of the payload.
const TOLD: u64 = 0xf << 4 | 1 << 8 | 3 << 10 | 0xffff << 32;

impl Shape {
    /// Returns the shape of the instruction that `payload` encodes, or `None` if the instruction
    /// cannot be performed with a plan.
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

/// The conversion of a texel's component to the value that a fetch returns or filters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reading {
    /// The component is not converted: the value is the bits of the component.
    Bits,
    /// The component is a floating-point number.
    Float,
    /// The component is an integer, which represents a fraction of its largest value.
    Fraction,
}

/// A table or function that converts an integer component to the number that it represents.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Fractions {
    /// Two tables that contain the number for each value of an 8-bit component: the first for the
    /// first three components, the second for the fourth component.
    Bytes([Box<[f64; 256]>; 2]),
    /// [`Format::number`] computes the number.
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

    /// Decodes one component (red, green, blue or alpha, by `index`) of the texels of all lanes, as
    /// the format of the texture defines. The format must have a component with this index.
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
    /// The distance in bytes between adjacent texels in this dimension.
    pub(super) step: u32,
    /// The number of texels to which a difference of 1 between coordinates corresponds.
    pub(super) scale: f64,
    /// The rule for texel indices outside the image.
    pub(super) mode: AddressMode,
}

/// Data for the most common fetches of a texture, computed once for an image and a sampler.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    pub(super) address: u64,
    pub(super) axes: [Axis; 3],
    /// The index of the image's last layer.
    pub(super) last: u32,
    /// Whether a fetch returns the weighted sum of adjacent texels; otherwise it returns the
    /// nearest texel.
    pub(super) linear: bool,
    /// Whether the image is a linear buffer, for which only the first coordinate is used.
    pub(super) buffer: bool,
    pub(super) format: Format,
    pub(super) reading: Reading,
    /// The conversion of components to numbers, if `reading` is [`Reading::Fraction`].
    pub(super) fractions: Option<Fractions>,
    /// The bits of the components of the border colour.
    pub(super) border: [u32; 4],
}

impl Plan {
    /// Returns a plan for an image and a sampler, or `None` if their fetches cannot be performed
    /// with a plan.
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

/// Returns `bits`, the bits of an `f32`, or those of the corresponding quiet NaN if the number is a
/// signalling NaN. Arithmetic on the number has the same effect.
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
