//! Fetches of several lanes at once, by a [`Plan`]: direction by direction where the texels are and what they weigh,
//! then texel by texel of the filter for all lanes, with the same bits as [`super::sample`] lane by lane. Loops run
//! over a constant number of lanes, so that they become vector code.
//!
//! Invariant: texels of weight 0 are not looked at, and no lane that does not fetch touches memory of its own.

use super::plan::{Axis, Plan, Reading, Shape, quiet};
use super::{AddressMode, Channel, Memory};
use crate::exec::FaultKind;

/// Coordinates as bits: of each direction those of all lanes.
#[derive(Clone, Copy, Debug)]
pub struct Coordinates<const N: usize> {
    /// Of layered textures.
    pub layer: [u32; N],
    /// As many as the shape has dimensions count.
    pub at: [[u32; N]; 3],
}

/// Two texels in one direction, for each lane.
#[derive(Clone, Copy)]
struct Pair<const N: usize> {
    index: [[u32; N]; 2],
    /// Of the second, in 256ths; where it is 0 both are the first, where it is 256 the second.
    weight: [u32; N],
    /// Lanes whose texel is the border.
    outside: [u32; 2],
}

/// A bit for each lane.
#[inline(always)]
fn bits<const N: usize>(of: impl Fn(usize) -> bool) -> u32 {
    (0..N).fold(0, |all, lane| all | u32::from(of(lane)) << lane)
}

#[inline(always)]
fn pair<const N: usize>(axis: &Axis, linear: bool, float: bool, at: &[u32; N]) -> Pair<N> {
    let mut first = [0i32; N];
    let mut weight = [0u32; N];
    if float {
        let half = if linear { 0.5 } else { 0.0 };
        let parts = if linear { 256.0 } else { 0.0 };
        for lane in 0..N {
            let c = f64::from(f32::from_bits(at[lane]));
            let c = if c.is_nan() { 0.0 } else { c };
            let moved = c * axis.scale - half;
            let floor = moved.floor();
            // What is not finite has no weight: NaN becomes 0.
            weight[lane] = ((moved - floor) * parts + half) as i32 as u32;
            first[lane] = floor as i32;
        }
    } else {
        for lane in 0..N {
            first[lane] = at[lane] as i32;
        }
    }
    let mut pair = Pair {
        index: [[0; N]; 2],
        weight,
        outside: [0; 2],
    };
    place(axis, &first, &mut pair);
    if linear && float {
        let outside = pair.outside;
        for lane in 0..N {
            let [near, far] = [0, 1].map(|which| pair.index[which][lane]);
            pair.index[0][lane] = if weight[lane] == 256 { far } else { near };
            pair.index[1][lane] = if weight[lane] == 0 { near } else { far };
        }
        let (none, all) = (
            bits::<N>(|l| weight[l] == 0),
            bits::<N>(|l| weight[l] == 256),
        );
        pair.outside[0] = outside[0] & !all | outside[1] & all;
        pair.outside[1] = outside[1] & !none | outside[0] & none;
    }
    pair
}

/// The indices of the texels `first` and of those behind them.
#[inline(always)]
fn place<const N: usize>(axis: &Axis, first: &[i32; N], pair: &mut Pair<N>) {
    let last = axis.size - 1;
    for lane in 0..N {
        let far = first[lane].saturating_add(1);
        pair.index[0][lane] = first[lane].clamp(0, last) as u32;
        pair.index[1][lane] = far.clamp(0, last) as u32;
    }
    match axis.mode {
        AddressMode::Clamp => {}
        AddressMode::Border => {
            let inside = |i: i32| 0 <= i && i <= last;
            pair.outside = [
                bits::<N>(|lane| !inside(first[lane])),
                bits::<N>(|lane| !inside(first[lane].saturating_add(1))),
            ];
        }
        mode => {
            let mut inside = true;
            for &first in first {
                inside &= 0 <= first && first < last;
            }
            if inside {
                return;
            }
            for lane in 0..N {
                let first = i64::from(first[lane]);
                for (which, index) in pair.index.iter_mut().enumerate() {
                    let found = mode.apply(first + which as i64, axis.size as u32);
                    index[lane] = found.unwrap_or(0);
                }
            }
        }
    }
}

/// The texels of one corner of the filter.
struct Corner<const N: usize> {
    address: [u64; N],
    outside: u32,
}

impl Plan {
    /// Whether all that an instruction names is there.
    #[inline]
    pub fn takes(&self, shape: Shape) -> bool {
        !self.buffer || (shape.dimensions == 1 && !shape.layered)
    }

    /// Fetches for the lanes whose bits are set in `live`; `out` gets the elements as they go to registers, whichever lane
    /// fetches. The plan must take the shape.
    ///
    /// # Errors
    /// The first lane that met memory which is not there any more.
    #[inline(always)]
    pub fn fetch<const N: usize>(
        &self,
        shape: Shape,
        coordinates: &Coordinates<N>,
        live: u32,
        memory: &mut impl Memory,
        out: &mut [[u32; N]; 4],
    ) -> Result<(), (usize, FaultKind)> {
        for (out, &missing) in out.iter_mut().zip(&self.missing) {
            *out = [missing; N];
        }
        let mut base = [self.address; N];
        if shape.layered {
            for lane in 0..N {
                let layer = coordinates.layer[lane].min(self.last);
                base[lane] = base[lane].wrapping_add(u64::from(layer).wrapping_mul(self.steps[2]));
            }
        }
        let none = Pair {
            index: [[0; N]; 2],
            weight: [0; N],
            outside: [0; 2],
        };
        let mut pairs = [none; 3];
        let mut weighs = false;
        for (i, pair_of) in pairs.iter_mut().enumerate().take(shape.dimensions) {
            *pair_of = pair(&self.axes[i], self.linear, shape.float, &coordinates.at[i]);
            weighs |= pair_of.weight.iter().any(|&weight| weight != 0);
        }
        let count = shape.count.min(self.format.count.into()).min(4);
        match weighs {
            false => self.point(&pairs, &base, count, live, memory, out),
            true => self.blend(shape.dimensions, &pairs, &base, count, live, memory, out),
        }
    }

    #[inline(always)]
    fn corner<const N: usize>(
        &self,
        pairs: &[Pair<N>; 3],
        base: &[u64; N],
        corner: usize,
        live: u32,
    ) -> Corner<N> {
        let mut address = *base;
        let mut outside = 0;
        for (i, pair) in pairs.iter().enumerate() {
            let far = corner >> i & 1;
            outside |= pair.outside[far];
            for lane in 0..N {
                let step = u64::from(pair.index[far][lane]).wrapping_mul(self.steps[i]);
                address[lane] = address[lane].wrapping_add(step);
            }
        }
        // Lanes without a texel of their own look at that of one that has.
        let looks = live & !outside;
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

    /// Reads the texels of a corner: words of each, lowest first. False if there is none to be read.
    #[inline(always)]
    fn words<const N: usize>(
        &self,
        corner: &Corner<N>,
        live: u32,
        memory: &mut impl Memory,
        words: &mut [[u32; N]; 4],
    ) -> Result<bool, (usize, FaultKind)> {
        if live & !corner.outside == 0 {
            return Ok(false);
        }
        let bytes = self.format.bytes();
        for (word, out) in words.iter_mut().enumerate().take(bytes.div_ceil(4)) {
            memory.gather(&corner.address, 4 * word as u64, bytes.min(4), out)?;
        }
        Ok(true)
    }

    /// A component of texels, as [`super::Format::unpack`] gives it.
    #[inline(always)]
    fn component<const N: usize>(&self, words: &[[u32; N]; 4], index: usize) -> [u32; N] {
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

    /// A component as numbers.
    #[inline(always)]
    fn numbers<const N: usize>(&self, component: &[u32; N], index: usize) -> [f64; N] {
        let mut out = [0.0; N];
        match self.reading {
            Reading::Fraction => {
                for lane in 0..N {
                    out[lane] = self.format.number(component[lane], index, self.srgb);
                }
            }
            _ => {
                for lane in 0..N {
                    out[lane] = f64::from(f32::from_bits(component[lane]));
                }
            }
        }
        out
    }

    #[inline(always)]
    fn point<const N: usize>(
        &self,
        pairs: &[Pair<N>; 3],
        base: &[u64; N],
        count: usize,
        live: u32,
        memory: &mut impl Memory,
        out: &mut [[u32; N]; 4],
    ) -> Result<(), (usize, FaultKind)> {
        let mut words = [[0; N]; 4];
        let corner = self.corner(pairs, base, 0, live);
        if self.words(&corner, live, memory, &mut words)? {
            for (index, out) in out.iter_mut().enumerate().take(count) {
                let component = self.component(&words, index);
                *out = match self.reading {
                    Reading::Bits => component,
                    Reading::Float => component.map(quiet),
                    Reading::Fraction => {
                        let numbers = self.numbers(&component, index);
                        numbers.map(|number| (number as f32).to_bits())
                    }
                };
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
    #[allow(
        clippy::too_many_arguments,
        reason = "what one fetch consists of, in registers"
    )]
    fn blend<const N: usize>(
        &self,
        dimensions: usize,
        pairs: &[Pair<N>; 3],
        base: &[u64; N],
        count: usize,
        live: u32,
        memory: &mut impl Memory,
        out: &mut [[u32; N]; 4],
    ) -> Result<(), (usize, FaultKind)> {
        let mut sums = [[0f64; N]; 4];
        // A lane all of whose weight is on one texel gets that, whatever the sign of its zero is.
        let mut sole = [[0u32; N]; 4];
        let mut words = [[0; N]; 4];
        let full = 1u32 << (8 * dimensions);
        for number in 0..1usize << dimensions {
            let mut weight = [1u32; N];
            let mut any = 0;
            for (i, pair) in pairs.iter().enumerate().take(dimensions) {
                let far = number >> i & 1 != 0;
                for lane in 0..N {
                    weight[lane] *= match far {
                        true => pair.weight[lane],
                        false => 256 - pair.weight[lane],
                    };
                }
            }
            for weight in weight {
                any |= weight;
            }
            if any == 0 {
                continue;
            }
            let corner = self.corner(pairs, base, number, live);
            self.words(&corner, live, memory, &mut words)?;
            for index in 0..count {
                let component = self.component(&words, index);
                let mut numbers = self.numbers(&component, index);
                if corner.outside != 0 {
                    let border = f64::from(f32::from_bits(self.border[index]));
                    for (lane, number) in numbers.iter_mut().enumerate() {
                        if corner.outside >> lane & 1 != 0 {
                            *number = border;
                        }
                    }
                }
                for lane in 0..N {
                    let part = f64::from(weight[lane] as i32) * numbers[lane];
                    sums[index][lane] += if weight[lane] == 0 { 0.0 } else { part };
                    if number == 0 && weight[lane] == full {
                        sole[index][lane] = quiet((numbers[lane] as f32).to_bits());
                    }
                }
            }
        }
        let scale = 1.0 / f64::from(full);
        for index in 0..count {
            for lane in 0..N {
                let mut unmoved = true;
                for pair in &pairs[..dimensions] {
                    unmoved &= pair.weight[lane] == 0;
                }
                out[index][lane] = match unmoved {
                    true => sole[index][lane],
                    false => ((sums[index][lane] * scale) as f32).to_bits(),
                };
            }
        }
        Ok(())
    }
}
