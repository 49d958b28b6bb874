//! The reference functions of `tex` and `tld4`, which fetch texels (read and filter them).

use half::f16;
use smallvec::SmallVec;

use super::cube::{self, FacePoint};
use super::lod::{self, Levels};
use super::sampler::within_periods;
use super::{
    Access, Filter, Image, Layout, Level, LevelMode, Memory, Operation, ReadMode, Results, Sampler,
};
use crate::fault::FaultKind;
use crate::meaning::Bits;
use crate::types::OpType;

/// A texture: an image, and the sampler that defines how its texels are read.
pub struct Texture<'a> {
    /// The texels.
    pub image: &'a Image,
    /// The sampler, which defines how the texels are read and filtered.
    pub sampler: &'a Sampler,
}

/// The position in a mipmap level that a fetch reads.
#[derive(Clone, Copy)]
enum At {
    /// Coordinates in units of texels, measured from the outer edge of the first texel.
    Point([f64; 3]),
    /// The indices of a texel.
    Texel([i64; 3]),
}

/// The components of the texel that a fetch returns: numbers, which can be filtered, or bits, which
/// are not filtered.
#[derive(Clone, Copy)]
enum Found {
    Numbers([f64; 4]),
    Bits([u32; 4]),
}

/// Two adjacent texels in one dimension.
#[derive(Clone, Copy)]
struct Pair {
    first: i64,
    /// The weight of the second texel, in 256ths.
    weight: u32,
}

/// The operands of a fetch, without the handles.
struct Operands {
    layer: u32,
    coords: [f64; 3],
    texel: [i64; 3],
    detail: f64,
    gradients: [[f64; 3]; 2],
    offsets: [i64; 3],
}

impl Operands {
    fn of(access: &Access, args: &[Bits]) -> Operands {
        let mut rest = args.iter().copied();
        let mut next = || rest.next().unwrap_or(0) as u32;
        let is_float = access.coords == OpType::F32;
        let number = |bits: u32| match is_float {
            true => f64::from(f32::from_bits(bits)),
            false => f64::from(bits as i32),
        };
        let count = access.geometry.dimensions();
        let mut operands = Operands {
            layer: 0,
            coords: [0.0; 3],
            texel: [0; 3],
            detail: 0.0,
            gradients: [[0.0; 3]; 2],
            offsets: [0; 3],
        };
        if access.geometry.is_layered() {
            operands.layer = next();
        }
        for i in 0..count {
            let bits = next();
            operands.coords[i] = number(bits);
            operands.texel[i] = i64::from(bits as i32);
        }
        match access.level {
            LevelMode::Level => operands.detail = number(next()),
            LevelMode::Grad => {
                for gradient in &mut operands.gradients {
                    gradient[..count].fill_with(|| f64::from(f32::from_bits(next())));
                }
            }
            _ => {}
        }
        if access.offsets {
            operands.offsets[..count].fill_with(|| i64::from(next() as i32));
        }
        operands
    }
}

/// Performs the `tex` or `tld4` that `access` describes, and returns its results. `args` are the
/// operands that follow the handles.
///
/// # Errors
/// Returns a fault if the program has freed or unmapped the memory.
pub fn fetch(
    access: &Access,
    texture: &Texture<'_>,
    args: &[Bits],
    memory: &mut impl Memory,
) -> Result<Results, FaultKind> {
    let operands = Operands::of(access, args);
    let found = if access.operation == Operation::Tld4 {
        texture.gather(access, &operands, memory)?
    } else {
        texture.sample(access, &operands, memory)?
    };
    Ok(results(access, found))
}

/// Converts the components that a fetch returns to the type of the instruction's registers.
fn results(access: &Access, found: Found) -> Results {
    let single = |i: usize| match found {
        Found::Numbers(all) => (all[i] as f32).to_bits(),
        Found::Bits(all) => all[i],
    };
    let half = |i: usize| match found {
        Found::Numbers(all) => f16::from_f64(all[i]).to_bits(),
        Found::Bits(all) => all[i] as u16,
    };
    let mut results: Results = (0..access.count().min(4))
        .map(|i| match access.ty {
            OpType::F16 => Bits::from(half(i)),
            OpType::F16x2 => Bits::from(half(2 * i % 4)) | Bits::from(half((2 * i + 1) % 4)) << 16,
            _ => Bits::from(single(i)),
        })
        .collect();
    if access.resident {
        results.push(1);
    }
    results
}

impl Texture<'_> {
    /// Returns whether fetches of this texture convert texels to floating-point numbers.
    fn has_numbers(&self) -> bool {
        let format = &self.image.format;
        let short = format.channel.bytes() < 4;
        format.channel.is_float()
            || format.normalized
            || (self.sampler.read == ReadMode::Normalized && short)
    }

    fn filter(&self) -> Filter {
        match self.has_numbers() && self.image.layout != Layout::Linear {
            true => self.sampler.filter,
            false => Filter::Point,
        }
    }

    fn sample(
        &self,
        access: &Access,
        operands: &Operands,
        memory: &mut impl Memory,
    ) -> Result<Found, FaultKind> {
        let (levels, probes) = self.levels(access, operands);
        // The sum of 0.0 and a texel of -0.0 would be 0.0.
        let mut sum = [-0.0; 4];
        let mut count = 0.0;
        for coords in probes {
            let found = self.blend(access, operands, coords, levels, memory)?;
            let Found::Numbers(numbers) = found else {
                return Ok(found);
            };
            for (sum, number) in sum.iter_mut().zip(numbers) {
                *sum += number;
            }
            count += 1.0;
        }
        Ok(Found::Numbers(match count {
            1.0 => sum,
            _ => sum.map(|sum| sum / count),
        }))
    }

    /// Returns the mipmap levels that a fetch reads, and the coordinates of its probes (samples).
    fn levels(&self, access: &Access, operands: &Operands) -> (Levels, SmallVec<[[f64; 3]; 1]>) {
        let here = SmallVec::from_elem(operands.coords, 1);
        let count = self.image.levels.len();
        match access.level {
            LevelMode::Level if count > 1 => {
                (lod::levels(operands.detail, self.sampler, count), here)
            }
            LevelMode::Grad => self.levels_of_gradients(access, operands),
            _ => (Levels::BASE, here),
        }
    }

    fn levels_of_gradients(
        &self,
        access: &Access,
        operands: &Operands,
    ) -> (Levels, SmallVec<[[f64; 3]; 1]>) {
        let mut probes = SmallVec::from_elem(operands.coords, 1);
        let Some(base) = self.image.level(0) else {
            return (Levels::BASE, probes);
        };
        let size = [base.width, base.height, base.depth].map(f64::from);
        let count = access.geometry.dimensions();
        let [dx, dy] = if access.geometry.is_cube() {
            gradients_on_face(operands, size[0])
        } else {
            let scale = |d: [f64; 3]| match self.is_scaled(access) {
                true => [d[0] * size[0], d[1] * size[1], d[2] * size[2]],
                false => d,
            };
            operands.gradients.map(scale)
        };
        let flat = count == 2 && access.coords == OpType::F32 && self.has_numbers();
        let limit = if flat { self.sampler.max_anisotropy } else { 1 };
        let used = if access.geometry.is_cube() { 2 } else { count };
        let footprint = lod::footprint(&dx[..used], &dy[..used], limit);
        if footprint.probes > 1 {
            let along = operands.gradients[usize::from(!footprint.along_first)];
            let n = f64::from(footprint.probes);
            probes = (1..=footprint.probes)
                .map(|k| {
                    let part = f64::from(k) / (n + 1.0) - 0.5;
                    std::array::from_fn(|i| operands.coords[i] + part * along[i])
                })
                .collect();
        }
        let levels = lod::levels(footprint.detail, self.sampler, self.image.levels.len());
        (levels, probes)
    }

    /// Returns whether coordinates are normalised, so that they are multiplied by the size of the image.
    fn is_scaled(&self, access: &Access) -> bool {
        access.coords == OpType::F32
            && self.sampler.is_normalized()
            && self.image.layout != Layout::Linear
    }

    /// Fetches at the coordinates `coords` from the mipmap levels `levels`, and returns the
    /// weighted sum of the results.
    fn blend(
        &self,
        access: &Access,
        operands: &Operands,
        coords: [f64; 3],
        levels: Levels,
        memory: &mut impl Memory,
    ) -> Result<Found, FaultKind> {
        let mut at_level = |number: usize| -> Result<Found, FaultKind> {
            let Some(level) = self.image.level(number) else {
                return Ok(Found::Bits([0; 4]));
            };
            let (at, slice) = self.locate(access, operands, coords, level);
            self.fetch_at(access, level, at, slice, memory)
        };
        if levels.weight == 256 {
            return at_level(levels.second);
        }
        let first = at_level(levels.first)?;
        let Found::Numbers(first) = first else {
            return Ok(first);
        };
        if levels.weight == 0 {
            return Ok(Found::Numbers(first));
        }
        let Found::Numbers(second) = at_level(levels.second)? else {
            return Ok(Found::Numbers(first));
        };
        let weight = f64::from(levels.weight) / 256.0;
        Ok(Found::Numbers(std::array::from_fn(|i| {
            (1.0 - weight) * first[i] + weight * second[i]
        })))
    }

    /// Returns the position in the mipmap level `level` to which `coords` refers, and the index of
    /// the slice.
    fn locate(
        &self,
        access: &Access,
        operands: &Operands,
        coords: [f64; 3],
        level: &Level,
    ) -> (At, u32) {
        let size = [level.width, level.height, level.depth].map(f64::from);
        let last = self.image.layers().max(1) - 1;
        let layer = operands.layer.min(last);
        if access.geometry.is_cube() {
            let FacePoint { face, s, t, .. } = cube::place(coords);
            let part = |c: f64| (c + 1.0) / 2.0;
            let at = [part(s) * size[0], part(t) * size[1], 0.0];
            return (At::Point(at), layer * 6 + face);
        }
        let slice = if access.geometry.is_layered() {
            layer
        } else {
            0
        };
        if access.coords != OpType::F32 {
            let moved = |i: usize| operands.texel[i] + operands.offsets[i];
            return (At::Texel(std::array::from_fn(moved)), slice);
        }
        let scaled = self.is_scaled(access);
        let at = std::array::from_fn(|i| {
            let c = match scaled && self.sampler.address_mode(i).repeats() {
                true => within_periods(coords[i]),
                false => coords[i],
            };
            let c = if c.is_nan() { 0.0 } else { c };
            let c = if scaled { c * size[i] } else { c };
            c + operands.offsets[i] as f64
        });
        (At::Point(at), slice)
    }

    fn pair(&self, at: f64, filter: Filter) -> Pair {
        let whole = |c: f64| c.floor().clamp(-2_147_483_648.0, 2_147_483_647.0) as i64;
        match filter {
            Filter::Point => Pair {
                first: whole(at),
                weight: 0,
            },
            Filter::Linear => {
                let moved = at - 0.5;
                let part = moved - moved.floor();
                let weight = if part.is_finite() {
                    (part * 256.0 + 0.5).floor() as u32
                } else {
                    0
                };
                Pair {
                    first: whole(moved),
                    weight,
                }
            }
        }
    }

    fn fetch_at(
        &self,
        access: &Access,
        level: &Level,
        at: At,
        slice: u32,
        memory: &mut impl Memory,
    ) -> Result<Found, FaultKind> {
        let dimensions = match access.geometry.is_cube() {
            true => 2,
            false => access.geometry.dimensions(),
        };
        let pairs = match at {
            At::Texel(at) => at.map(|first| Pair { first, weight: 0 }),
            At::Point(at) => at.map(|c| self.pair(c, self.filter())),
        };
        if pairs[..dimensions].iter().all(|pair| pair.weight == 0) {
            let at = pairs.map(|pair| pair.first);
            return self.tap(access, level, at, slice, memory);
        }
        let mut sum = [0.0; 4];
        for corner in 0..1usize << dimensions {
            let mut weight = 1u32;
            let mut at = [0; 3];
            for (i, pair) in pairs[..dimensions].iter().enumerate() {
                let far = corner >> i & 1;
                at[i] = pair.first + far as i64;
                weight *= if far == 1 {
                    pair.weight
                } else {
                    256 - pair.weight
                };
            }
            if weight == 0 {
                continue;
            }
            let Found::Numbers(numbers) = self.tap(access, level, at, slice, memory)? else {
                continue;
            };
            for (sum, number) in sum.iter_mut().zip(numbers) {
                *sum += f64::from(weight) * number;
            }
        }
        let scale = 1.0 / f64::from(1u32 << (8 * dimensions));
        Ok(Found::Numbers(sum.map(|sum| sum * scale)))
    }

    /// Returns the components of one texel. The index `at` of the texel may be outside the image;
    /// then the address mode applies.
    fn tap(
        &self,
        access: &Access,
        level: &Level,
        at: [i64; 3],
        slice: u32,
        memory: &mut impl Memory,
    ) -> Result<Found, FaultKind> {
        if access.geometry.is_cube() {
            return self.tap_of_cube(level, at, slice, memory);
        }
        if self.image.layout == Layout::Linear {
            return match u32::try_from(at[0]) {
                Ok(x) if x < level.width => self.texel(level, [x, 0, 0], memory),
                _ => Ok(self.found([0; 4])),
            };
        }
        let dimensions = access.geometry.dimensions();
        let size = [level.width, level.height, level.depth];
        let mut inside = [0, 0, slice];
        for i in 0..dimensions {
            match self.sampler.address_mode(i).apply(at[i], size[i]) {
                Some(index) => inside[i] = index,
                None => return Ok(self.border()),
            }
        }
        self.texel(level, inside, memory)
    }

    fn tap_of_cube(
        &self,
        level: &Level,
        [i, j, _]: [i64; 3],
        slice: u32,
        memory: &mut impl Memory,
    ) -> Result<Found, FaultKind> {
        let size = level.width;
        let inside = |c: i64| (0..i64::from(size)).contains(&c);
        let near = |c: i64| c.clamp(0, i64::from(size.max(1)) - 1);
        if !(self.sampler.seamless || inside(i) && inside(j)) {
            let mode = |dimension: usize| self.sampler.address_mode(dimension);
            let at = (mode(0).apply(i, size), mode(1).apply(j, level.height));
            return match at {
                (Some(i), Some(j)) => self.texel(level, [i, j, slice], memory),
                _ => Ok(self.border()),
            };
        }
        let (cube, face) = (slice / 6 * 6, slice % 6);
        let beside = |at: [i64; 2], memory: &mut _| {
            let (other, [i, j]) = match inside(at[0]) && inside(at[1]) {
                true => (face, at.map(|c| c as u32)),
                false => cube::beside(face, at, size),
            };
            self.texel(level, [i, j, cube + other], memory)
        };
        if inside(i) || inside(j) {
            return beside([i, j], memory);
        }
        // Only three faces meet at a corner of the cube, so the mean of their texels replaces the missing fourth texel.
        let mut sum = [0.0; 4];
        for at in [[near(i), near(j)], [i, near(j)], [near(i), j]] {
            let found = beside(at, memory)?;
            let Found::Numbers(numbers) = found else {
                return Ok(found);
            };
            for (sum, number) in sum.iter_mut().zip(numbers) {
                *sum += number / 3.0;
            }
        }
        Ok(Found::Numbers(sum))
    }

    fn texel(
        &self,
        level: &Level,
        at: [u32; 3],
        memory: &mut impl Memory,
    ) -> Result<Found, FaultKind> {
        self.image
            .texel(memory, level, at)
            .map(|bits| self.found(bits))
    }

    fn found(&self, bits: [u32; 4]) -> Found {
        if !self.has_numbers() {
            return Found::Bits(bits);
        }
        let format = &self.image.format;
        let mut numbers = [0.0; 4];
        for (index, (number, bits)) in numbers.iter_mut().zip(bits).enumerate() {
            *number = format.number(bits, index, self.sampler.srgb);
        }
        Found::Numbers(numbers)
    }

    /// Returns the border colour of the sampler. Components that the image's format does not have
    /// are 0.
    fn border(&self) -> Found {
        let numbers = self.has_numbers();
        let count = match self.image.format.channel {
            super::Channel::Packed10 => 4,
            _ => usize::from(self.image.format.count),
        };
        let mut bits = [0; 4];
        bits[..count].copy_from_slice(&self.sampler.border[..count]);
        match numbers {
            true => Found::Numbers(bits.map(|bits| f64::from(f32::from_bits(bits)))),
            false => Found::Bits(bits),
        }
    }

    /// Performs `tld4`: returns the component that the instruction selects of each of the four
    /// texels that a linear filter would combine.
    fn gather(
        &self,
        access: &Access,
        operands: &Operands,
        memory: &mut impl Memory,
    ) -> Result<Found, FaultKind> {
        let component = usize::from(access.component & 3);
        let mut numbers = [0.0; 4];
        let mut bits = [0; 4];
        let Some(level) = self.image.level(0) else {
            return Ok(Found::Bits(bits));
        };
        let (at, slice) = self.locate(access, operands, operands.coords, level);
        let [i, j] = match at {
            At::Texel([i, j, _]) => [i, j],
            At::Point([x, y, _]) => [x, y].map(|c| self.pair(c, Filter::Linear).first),
        };
        // The texels are in anticlockwise order, starting at the lower left.
        let order = [[0, 1], [1, 1], [1, 0], [0, 0]];
        for (place, [di, dj]) in order.into_iter().enumerate() {
            match self.tap(access, level, [i + di, j + dj, 0], slice, memory)? {
                Found::Numbers(all) => numbers[place] = all[component],
                Found::Bits(all) => bits[place] = all[component],
            }
        }
        Ok(match self.has_numbers() {
            true => Found::Numbers(numbers),
            false => Found::Bits(bits),
        })
    }
}

/// Converts the gradients of a direction to gradients, in texels, of the coordinates on the cube
/// face to which the direction points.
fn gradients_on_face(operands: &Operands, size: f64) -> [[f64; 3]; 2] {
    let FacePoint {
        face, s, t, major, ..
    } = cube::place(operands.coords);
    operands.gradients.map(|gradient| {
        let [ds, dt, dm] = cube::on_face(face, gradient);
        let part = |d: f64, c: f64| (d - c * dm) / major * size / 2.0;
        [part(ds, s), part(dt, t), 0.0]
    })
}
