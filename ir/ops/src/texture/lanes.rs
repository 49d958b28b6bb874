//! Fetches (reads and filters) texels for several lanes at once. A [`Plan`] contains the data for
//! the texture. For each dimension, the code first computes the positions and weights of the texels
//! of all lanes. A linear filter computes a weighted sum of two adjacent texels in each dimension.
//! In one, two or three dimensions, these texels are the corners of a line, square or cube. For
//! each corner, the code then reads the texels of all lanes and adds the weighted texels to the
//! results. The results have the same bits as the results of [`super::sample`] for each lane. Loops
//! have a constant number of iterations, one for each lane, so that the Rust compiler vectorises
//! them.
//!
//! Invariant: the code does not read texels of weight 0. An inactive lane reads no memory except texels that active
//! lanes also read.

#![allow(
    clippy::needless_range_loop,
    reason = "lanes of several arrays side by side, in the form that becomes vector code"
)]

use super::plan::{Axis, Plan, Reading, Shape, quiet};
use super::sampler::within_periods;
use super::{AddressMode, Channel, Format, Memory};
use crate::fault::FaultKind;

/// The bits of the coordinates of all lanes, with one array for each dimension.
#[derive(Clone, Copy, Debug)]
pub struct Coordinates<const N: usize> {
    /// The index of the layer in each lane, if the texture has layers.
    pub layer: [u32; N],
    /// For each dimension, the coordinate in each lane. Only the first [`Shape::dimensions`] arrays
    /// are used.
    pub at: [[u32; N]; 3],
}

/// One component that is an `f32`. This and the next constant are the two most common formats.
const FLOAT: &Format = &Format::new(Channel::F32, 1);
const FLOAT4: &Format = &Format::new(Channel::F32, 4);

/// Two adjacent texels in one dimension, for each lane.
#[derive(Clone, Copy)]
struct Pair<const N: usize> {
    /// For both texels, the offset in bytes from the first texel of the image in this dimension.
    offset: [[u64; N]; 2],
    /// The weights of both texels, in 256ths. If a weight is 0, both offsets are the offset of the
    /// texel whose weight is not 0.
    weight: [[f64; N]; 2],
    /// For each of the two texels, a mask of the lanes for which the border colour replaces the texel.
    outside: [u32; 2],
}

/// Returns a mask of the lanes for which `of` returns true.
#[inline(always)]
fn bits<const N: usize>(of: impl Fn(usize) -> bool) -> u32 {
    (0..N).fold(0, |all, lane| all | u32::from(of(lane)) << lane)
}

/// Returns whether at least one of `numbers`, which must not be negative, is not zero.
#[inline(always)]
fn any<const N: usize>(numbers: &[f64; N]) -> bool {
    numbers.iter().fold(0, |all, number| all | number.to_bits()) != 0
}

/// Converts an integral value to an integer. A value outside the range of `i32` becomes the nearest
/// integer in the range. The implementation adds `UNIT`: the low bits of the sum are the integer.
#[inline(always)]
fn integer(whole: f64) -> i32 {
    const UNIT: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52
    let inside = whole.clamp(-2_147_483_648.0, 2_147_483_647.0);
    (inside + UNIT).to_bits() as u32 as i32
}

impl<const N: usize> Pair<N> {
    const NONE: Pair<N> = Pair {
        offset: [[0; N]; 2],
        weight: [[256.0; N], [0.0; N]],
        outside: [0; 2],
    };

    #[inline(always)]
    fn of(axis: &Axis, linear: bool, float: bool, at: &[u32; N]) -> Pair<N> {
        let mut pair = Pair::NONE;
        let mut first = [0i32; N];
        if !float {
            for lane in 0..N {
                first[lane] = at[lane] as i32;
            }
            let (index, outside) = place(axis, &first);
            pair.outside = [outside[0]; 2];
            pair.set_offsets(axis, &[index[0]; 2]);
            return pair;
        }
        let half = if linear { 0.5 } else { 0.0 };
        let (scale, repeats) = (axis.scale, axis.mode.repeats());
        for lane in 0..N {
            let c = f64::from(f32::from_bits(at[lane]));
            let c = if repeats { within_periods(c) } else { c };
            let c = if c.is_nan() { 0.0 } else { c };
            let moved = c * scale - half;
            let floor = moved.floor();
            let part = moved - floor;
            // The weight is 0 if the coordinate is not finite.
            let weight = (part * 256.0 + 0.5).floor();
            let weight = if part >= 0.0 { weight } else { 0.0 };
            pair.weight[0][lane] = 256.0 - weight;
            pair.weight[1][lane] = weight;
            first[lane] = integer(floor);
        }
        let (mut index, outside) = place(axis, &first);
        if !linear {
            pair.weight = Pair::<N>::NONE.weight;
            pair.outside = [outside[0]; 2];
            pair.set_offsets(axis, &[index[0]; 2]);
            return pair;
        }
        for lane in 0..N {
            let [near, far] = [index[0][lane], index[1][lane]];
            index[0][lane] = if pair.weight[0][lane] == 0.0 {
                far
            } else {
                near
            };
            index[1][lane] = if pair.weight[1][lane] == 0.0 {
                near
            } else {
                far
            };
        }
        if outside != [0; 2] {
            let all = bits::<N>(|lane| pair.weight[0][lane] == 0.0);
            let none = bits::<N>(|lane| pair.weight[1][lane] == 0.0);
            pair.outside[0] = outside[0] & !all | outside[1] & all;
            pair.outside[1] = outside[1] & !none | outside[0] & none;
        }
        pair.set_offsets(axis, &index);
        pair
    }

    #[inline(always)]
    fn set_offsets(&mut self, axis: &Axis, index: &[[u32; N]; 2]) {
        for (offset, index) in self.offset.iter_mut().zip(index) {
            for lane in 0..N {
                offset[lane] = u64::from(index[lane]) * u64::from(axis.step);
            }
        }
    }
}

/// Applies the address mode to two texels of each lane: the texel with the index `first` and the texel after it.
/// Returns the indices of both texels and, for each of the two, a mask of the lanes for which the border colour
/// replaces the texel.
#[inline(always)]
fn place<const N: usize>(axis: &Axis, first: &[i32; N]) -> ([[u32; N]; 2], [u32; 2]) {
    let last = axis.size - 1;
    let mut index = [[0; N]; 2];
    for lane in 0..N {
        // Index `i32::MAX` is outside every image, so its successor need not be computed, which would overflow.
        let far = first[lane].min(i32::MAX - 1) + 1;
        index[0][lane] = first[lane].clamp(0, last) as u32;
        index[1][lane] = far.clamp(0, last) as u32;
    }
    match axis.mode {
        AddressMode::Clamp => (index, [0; 2]),
        AddressMode::Border => {
            let inside = |i: i32| 0 <= i && i <= last;
            let near = bits::<N>(|lane| !inside(first[lane]));
            let far = bits::<N>(|lane| !inside(first[lane].min(i32::MAX - 1) + 1));
            (index, [near, far])
        }
        mode => {
            let beyond = first
                .iter()
                .fold(0, |all, &i| all | i | (last - 1).wrapping_sub(i));
            if beyond < 0 {
                repeat(mode, axis.size as u32, first, &mut index);
            }
            (index, [0; 2])
        }
    }
}

/// Replaces each index that is outside the image by an index inside, for an address mode that
/// repeats the image.
#[inline(never)]
fn repeat<const N: usize>(
    mode: AddressMode,
    size: u32,
    first: &[i32; N],
    index: &mut [[u32; N]; 2],
) {
    for (which, index) in index.iter_mut().enumerate() {
        for lane in 0..N {
            let at = i64::from(first[lane]) + which as i64;
            if at < 0 || at >= i64::from(size) {
                index[lane] = mode.apply(at, size).unwrap_or(0);
            }
        }
    }
}

/// For one corner of the filter, the addresses of the texels of all lanes, and a mask of the lanes
/// for which the border colour replaces the texel.
struct Corner<const N: usize> {
    address: [u64; N],
    outside: u32,
}

/// The places of the texels that the lanes read. They consist of the address of the first texel of
/// each lane's layer and, for each of `D` dimensions, the two adjacent texels of each lane.
struct Places<const N: usize, const D: usize> {
    base: [u64; N],
    pairs: [Pair<N>; D],
    /// A mask of the active lanes.
    live: u32,
}

impl<const N: usize, const D: usize> Places<N, D> {
    #[inline(always)]
    fn corner(&self, corner: usize) -> Corner<N> {
        let mut address = self.base;
        let mut outside = 0;
        for (i, pair) in self.pairs.iter().enumerate() {
            let far = corner >> i & 1;
            outside |= pair.outside[far];
            for lane in 0..N {
                address[lane] = address[lane].wrapping_add(pair.offset[far][lane]);
            }
        }
        // Lanes that do not need their texel, because they are inactive or use the border colour, read the texel of a
        // lane that needs its own texel. They therefore access no other memory.
        let looks = self.live & !outside;
        if looks != u32::MAX >> (32 - N) && looks != 0 {
            let some = address[looks.trailing_zeros() as usize];
            for (lane, address) in address.iter_mut().enumerate() {
                if looks >> lane & 1 == 0 {
                    *address = some;
                }
            }
        }
        Corner { address, outside }
    }

    /// Returns the weight of a corner for each lane. The sum of the weights of all corners is 256 to the power of `D`.
    #[inline(always)]
    fn weight(&self, corner: usize) -> [f64; N] {
        let mut weight = [1.0; N];
        for (i, pair) in self.pairs.iter().enumerate() {
            for lane in 0..N {
                weight[lane] *= pair.weight[corner >> i & 1][lane];
            }
        }
        weight
    }
}

impl Plan {
    /// Returns whether the plan can be used for an instruction with this shape.
    #[inline]
    pub fn takes(&self, shape: Shape) -> bool {
        !self.buffer || (shape.dimensions == 1 && !shape.layered)
    }

    /// Fetches texels for the lanes whose bits are set in `live`. Writes the elements to `out`, in
    /// the format of the registers. The elements of other lanes in `out` are arbitrary.
    /// [`Plan::takes`] must return true for the shape.
    ///
    /// # Errors
    /// If the program has freed or unmapped the memory of a texel, returns the first lane that reads such a
    /// texel, and the fault.
    #[inline(always)]
    pub fn fetch<const N: usize>(
        &self,
        shape: Shape,
        coordinates: &Coordinates<N>,
        live: u32,
        memory: &mut impl Memory,
        out: &mut [[u32; N]; 4],
    ) -> Result<(), (usize, FaultKind)> {
        let all = (coordinates, live);
        match (shape.dimensions, &self.format) {
            (2, FLOAT) => self.fetch_in::<N, 2, 1, true>(shape, all, memory, out),
            (2, FLOAT4) => self.fetch_in::<N, 2, 4, true>(shape, all, memory, out),
            (1, _) => self.fetch_in::<N, 1, 4, false>(shape, all, memory, out),
            (2, _) => self.fetch_in::<N, 2, 4, false>(shape, all, memory, out),
            _ => self.fetch_in::<N, 3, 4, false>(shape, all, memory, out),
        }
    }

    /// Fetches texels, as [`Plan::fetch`] does, of an image with `D` dimensions and at most `C`
    /// components. If `F` is true, the components are 32-bit floating-point numbers.
    #[inline(always)]
    fn fetch_in<const N: usize, const D: usize, const C: usize, const F: bool>(
        &self,
        shape: Shape,
        (coordinates, live): (&Coordinates<N>, u32),
        memory: &mut impl Memory,
        out: &mut [[u32; N]; 4],
    ) -> Result<(), (usize, FaultKind)> {
        *out = [[0; N]; 4];
        let mut places = Places {
            base: [self.address; N],
            pairs: [const { Pair::NONE }; D],
            live,
        };
        if shape.layered {
            for lane in 0..N {
                let layer = coordinates.layer[lane].min(self.last);
                places.base[lane] += u64::from(layer) * u64::from(self.axes[2].step);
            }
        }
        let mut weighs = false;
        for (i, pair) in places.pairs.iter_mut().enumerate() {
            *pair = Pair::of(&self.axes[i], self.linear, shape.float, &coordinates.at[i]);
            weighs |= any(&pair.weight[1]);
        }
        let count = match C {
            1 => 1,
            _ => shape.count.min(self.format.count.into()).min(C),
        };
        match weighs {
            false => self.point::<N, D, C, F>(&places, count, memory, out),
            true => self.blend::<N, D, C, F>(&places, count, memory, out),
        }
    }

    /// Reads the texels of a corner for all lanes into `words`: the first array receives the lowest
    /// word of each texel. Returns false if no lane needs the texel at this corner.
    #[inline(always)]
    fn words<const N: usize, const C: usize, const F: bool>(
        &self,
        corner: &Corner<N>,
        (live, count): (u32, usize),
        memory: &mut impl Memory,
        words: &mut [[u32; N]; C],
    ) -> Result<bool, (usize, FaultKind)> {
        if live & !corner.outside == 0 {
            return Ok(false);
        }
        let bytes = if F { 4 * count } else { self.format.bytes() };
        for (word, out) in words.iter_mut().enumerate().take(bytes.div_ceil(4)) {
            memory.gather(&corner.address, 4 * word as u64, bytes.min(4), out)?;
        }
        Ok(true)
    }

    /// Returns the component with index `index` of each lane's texel, in the form that
    /// [`super::Format::unpack`] returns.
    #[inline(always)]
    fn component<const N: usize, const C: usize, const F: bool>(
        &self,
        words: &[[u32; N]; C],
        index: usize,
    ) -> [u32; N] {
        if F {
            return words[index];
        }
        let mut out = [0; N];
        let channel = self.format.channel;
        match channel.bytes() {
            1 => {
                for lane in 0..N {
                    let byte = (words[0][lane] >> (8 * index)) as u8;
                    out[lane] = match channel {
                        Channel::S8 => i32::from(byte as i8) as u32,
                        _ => byte.into(),
                    };
                }
            }
            2 => {
                for lane in 0..N {
                    let half = (words[index / 2][lane] >> (16 * (index % 2))) as u16;
                    out[lane] = match channel {
                        Channel::S16 => i32::from(half as i16) as u32,
                        Channel::F16 => half::f16::from_bits(half).to_f32().to_bits(),
                        _ => half.into(),
                    };
                }
            }
            _ => out = words[index],
        }
        out
    }

    /// Converts the component with index `index` of all lanes' texels to numbers.
    #[inline(always)]
    fn numbers<const N: usize, const F: bool>(
        &self,
        component: &[u32; N],
        index: usize,
    ) -> [f64; N] {
        let mut out = [0.0; N];
        match &self.fractions {
            fractions if F || fractions.is_none() => {
                for lane in 0..N {
                    out[lane] = f64::from(f32::from_bits(component[lane]));
                }
            }
            Some(fractions) => fractions.numbers(component, index, &mut out),
            None => {}
        }
        out
    }

    #[inline(always)]
    fn point<const N: usize, const D: usize, const C: usize, const F: bool>(
        &self,
        places: &Places<N, D>,
        count: usize,
        memory: &mut impl Memory,
        out: &mut [[u32; N]; 4],
    ) -> Result<(), (usize, FaultKind)> {
        let mut words = [[0; N]; C];
        let corner = places.corner(0);
        if self.words::<N, C, F>(&corner, (places.live, count), memory, &mut words)? {
            for (index, out) in out.iter_mut().enumerate().take(count) {
                let component = self.component::<N, C, F>(&words, index);
                match if F { Reading::Float } else { self.reading } {
                    Reading::Bits => *out = component,
                    Reading::Float => {
                        for lane in 0..N {
                            out[lane] = quiet(component[lane]);
                        }
                    }
                    Reading::Fraction => {
                        let numbers = self.numbers::<N, F>(&component, index);
                        for lane in 0..N {
                            out[lane] = (numbers[lane] as f32).to_bits();
                        }
                    }
                }
            }
        }
        if corner.outside != 0 {
            for (out, &border) in out.iter_mut().zip(&self.border) {
                for lane in 0..N {
                    if corner.outside >> lane & 1 != 0 {
                        out[lane] = border;
                    }
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn blend<const N: usize, const D: usize, const C: usize, const F: bool>(
        &self,
        places: &Places<N, D>,
        count: usize,
        memory: &mut impl Memory,
        out: &mut [[u32; N]; 4],
    ) -> Result<(), (usize, FaultKind)> {
        let full = f64::from(1u32 << (8 * D));
        let mut sums = [[0f64; N]; C];
        // If the first texel of a lane has all the weight, the result is this texel itself instead of a sum, because a
        // sum would lose the sign of -0.
        let mut sole = [[0f64; N]; C];
        let mut words = [[0; N]; C];
        for number in 0..1usize << D {
            let weight = places.weight(number);
            if !any(&weight) {
                continue;
            }
            let corner = places.corner(number);
            self.words::<N, C, F>(&corner, (places.live, count), memory, &mut words)?;
            for index in 0..count {
                let component = self.component::<N, C, F>(&words, index);
                let mut numbers = self.numbers::<N, F>(&component, index);
                if corner.outside != 0 {
                    let border = f64::from(f32::from_bits(self.border[index]));
                    for (lane, number) in numbers.iter_mut().enumerate() {
                        if corner.outside >> lane & 1 != 0 {
                            *number = border;
                        }
                    }
                }
                for lane in 0..N {
                    let part = weight[lane] * numbers[lane];
                    sums[index][lane] += if weight[lane] == 0.0 { 0.0 } else { part };
                }
                if number == 0 {
                    sole[index] = numbers;
                }
            }
        }
        let scale = 1.0 / full;
        let first = places.weight(0);
        for index in 0..count {
            for lane in 0..N {
                let blended = sums[index][lane] * scale;
                let found = if first[lane] == full {
                    sole[index][lane]
                } else {
                    blended
                };
                out[index][lane] = quiet((found as f32).to_bits());
            }
        }
        Ok(())
    }
}
