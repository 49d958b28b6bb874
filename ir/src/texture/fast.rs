//! The commonest fetches, with the same bits as [`super::sample`] in a fraction of its time: floating-point
//! coordinates in a plane, texels of a buffer by their number.

use super::{
    Access, Filter, Geometry, Image, Layout, LevelMode, Memory, Operation, ReadMode, Sampler,
};
use crate::exec::FaultKind;
use crate::types::OpType;

/// The payload of `tex.GEOMETRY.v4.TY.COORDS`.
const fn payload(geometry: Geometry, level: LevelMode, ty: OpType, coords: OpType) -> u64 {
    let access = Access {
        operation: Operation::Tex,
        geometry,
        level,
        count_log2: 2,
        ty,
        coords,
        component: 0,
        edge: super::Edge::None,
        formatted: false,
        reduction: crate::mods::AtomOp::None,
        query: super::Query::None,
        offsets: false,
        resident: false,
    };
    access.payload()
}

const PLANE: u64 = payload(Geometry::D2, LevelMode::None, OpType::F32, OpType::F32);
const BUFFER_F32: u64 = payload(Geometry::D1, LevelMode::None, OpType::F32, OpType::S32);
const BUFFER_U32: u64 = payload(Geometry::D1, LevelMode::None, OpType::U32, OpType::S32);
const BUFFER_S32: u64 = payload(Geometry::D1, LevelMode::None, OpType::S32, OpType::S32);

/// What four registers get, if the access is one of the commonest; the coordinates are bits.
///
/// # Errors
/// Memory that is not there any more.
pub fn fetch(
    access: u64,
    image: &Image,
    sampler: &Sampler,
    coords: [u32; 2],
    memory: &mut impl Memory,
) -> Result<Option<[u32; 4]>, FaultKind> {
    match access {
        PLANE if image.layout != Layout::Linear && !image.cube => {
            plane(image, sampler, coords.map(f32::from_bits), memory)
        }
        BUFFER_F32 | BUFFER_U32 | BUFFER_S32 if image.layout == Layout::Linear => {
            buffer(image, sampler, coords[0] as i32, memory)
        }
        _ => Ok(None),
    }
}

/// A texel of a buffer by its number; beyond the ends it is 0.
fn buffer(
    image: &Image,
    sampler: &Sampler,
    at: i32,
    memory: &mut impl Memory,
) -> Result<Option<[u32; 4]>, FaultKind> {
    let format = &image.format;
    let is_whole = format.channel.bytes() == 4 || sampler.read == ReadMode::Element;
    if format.normalized || !is_whole {
        return Ok(None);
    }
    let Some(level) = image.level(0) else {
        return Ok(None);
    };
    let Ok(x) = u32::try_from(at) else {
        return Ok(Some([0; 4]));
    };
    let bits = image.texel(memory, level, [x, 0, 0])?;
    Ok(Some(match format.channel.is_float() {
        true => bits.map(number),
        false => bits,
    }))
}

/// A number's bits, through binary64 as in the long way, so that a NaN comes out the same.
fn number(bits: u32) -> u32 {
    (f64::from(f32::from_bits(bits)) as f32).to_bits()
}

/// Indices of two texels in one direction, and the weight of the second.
struct Pair {
    at: [Option<u32>; 2],
    weight: u32,
}

fn pair(sampler: &Sampler, dimension: usize, coordinate: f32, size: u32) -> Pair {
    let c = if coordinate.is_nan() {
        0.0
    } else {
        f64::from(coordinate)
    };
    let c = if sampler.is_normalized() {
        c * f64::from(size)
    } else {
        c
    };
    let (moved, linear) = match sampler.filter {
        Filter::Point => (c, false),
        Filter::Linear => (c - 0.5, true),
    };
    let floor = moved.floor();
    let part = moved - floor;
    let first = floor.clamp(-2_147_483_648.0, 2_147_483_647.0) as i64;
    let weight = match linear && part.is_finite() {
        true => (part * 256.0 + 0.5) as u32,
        false => 0,
    };
    // Inside there is nothing to do.
    if first >= 0 && first + 1 < i64::from(size) {
        return Pair {
            at: [Some(first as u32), Some(first as u32 + 1)],
            weight,
        };
    }
    let mode = sampler.address_mode(dimension);
    Pair {
        at: [mode.apply(first, size), mode.apply(first + 1, size)],
        weight,
    }
}

/// A plane with one or four texels of 32-bit floating point, whichever the filter wants; `None` for other formats.
fn plane(
    image: &Image,
    sampler: &Sampler,
    coords: [f32; 2],
    memory: &mut impl Memory,
) -> Result<Option<[u32; 4]>, FaultKind> {
    let format = &image.format;
    if format.channel != super::Channel::F32 {
        return Ok(None);
    }
    let Some(level) = image.level(0) else {
        return Ok(None);
    };
    let x = pair(sampler, 0, coords[0], level.width);
    let y = pair(sampler, 1, coords[1], level.height);
    let mut texel = |x: Option<u32>, y: Option<u32>| match (x, y) {
        (Some(x), Some(y)) => image.texel(memory, level, [x, y, 0]).map(Some),
        _ => Ok(None),
    };
    if x.weight == 0 && y.weight == 0 {
        return Ok(texel(x.at[0], y.at[0])?.map(|bits| bits.map(number)));
    }
    let count = usize::from(format.count);
    let mut sum = [0.0f64; 4];
    for (j, wy) in [256 - y.weight, y.weight].into_iter().enumerate() {
        for (i, wx) in [256 - x.weight, x.weight].into_iter().enumerate() {
            let weight = wx * wy;
            if weight == 0 {
                continue;
            }
            // A border has a colour: the long way.
            let Some(bits) = texel(x.at[i], y.at[j])? else {
                return Ok(None);
            };
            for (sum, bits) in sum.iter_mut().zip(bits).take(count) {
                *sum += f64::from(weight) * f64::from(f32::from_bits(bits));
            }
        }
    }
    let scale = 1.0 / 65_536.0;
    let mut all = [0, 0, 0, 1f32.to_bits()];
    for (all, sum) in all.iter_mut().zip(sum).take(count) {
        *all = ((sum * scale) as f32).to_bits();
    }
    Ok(Some(all))
}
