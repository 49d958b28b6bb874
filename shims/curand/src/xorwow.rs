//! XORWOW (G. Marsaglia, "Xorshift RNGs", 2003): five words that change linearly over GF(2), and a counter.

use std::sync::OnceLock;

use crate::convert;
use crate::engine::{Kind, Lane};
use crate::poisson::Poisson;

/// The number of lanes.
pub(crate) const LANES: usize = 4096;
/// Lanes are 2^67 numbers apart.
const DISTANCE: usize = 67;
/// How much the counter grows at a step.
const COUNT: u32 = 362_437;

/// A lane.
#[derive(Clone, Debug)]
pub(crate) struct Xorwow {
    counter: u32,
    words: Words,
    /// The second number of a pair of normal numbers.
    spare: Option<f32>,
}

/// The linear part of a state.
type Words = [u32; 5];

/// A linear map: the images of the 160 states with one bit.
type Map = Vec<Words>;

fn add(a: &mut Words, b: &Words) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a ^= b);
}

fn apply(map: &Map, words: &Words) -> Words {
    let mut sum = [0; 5];
    for (index, word) in words.iter().enumerate() {
        let mut bits = *word;
        while bits != 0 {
            add(&mut sum, &map[index * 32 + bits.trailing_zeros() as usize]);
            bits &= bits - 1;
        }
    }
    sum
}

/// The maps of 2^k steps.
fn map(k: usize) -> &'static Map {
    static MAPS: OnceLock<Vec<Map>> = OnceLock::new();
    &MAPS.get_or_init(|| {
        let unit = |bit: usize| {
            let mut words = [0; 5];
            words[bit / 32] = 1 << (bit % 32);
            words
        };
        let mut all = vec![(0..160).map(|bit| next(&unit(bit))).collect::<Map>()];
        for _ in 1..DISTANCE + 64 {
            let last = &all[all.len() - 1];
            all.push(last.iter().map(|words| apply(last, words)).collect());
        }
        all
    })[k]
}

fn next(words: &Words) -> Words {
    let [a, b, c, d, e] = *words;
    let t = a ^ (a >> 2);
    [b, c, d, e, (e ^ (e << 4)) ^ (t ^ (t << 1))]
}

/// The state of a seed.
fn seeded(seed: u64) -> Xorwow {
    let low = (seed as u32 ^ 0xaad2_6b49).wrapping_mul(1_099_087_573);
    let high = ((seed >> 32) as u32 ^ 0xf7dc_efdd).wrapping_mul(2_591_861_531);
    Xorwow {
        counter: 6_615_241_u32.wrapping_add(high).wrapping_add(low),
        words: [
            123_456_789_u32.wrapping_add(low),
            362_436_069 ^ low,
            521_288_629_u32.wrapping_add(high),
            88_675_123 ^ high,
            5_783_321_u32.wrapping_add(low),
        ],
        spare: None,
    }
}

/// The first lane and the number of steps that it has taken, then the following lanes.
pub(crate) fn lanes(
    seed: u64,
    first: usize,
    count: usize,
    steps: impl Fn(usize) -> u64,
) -> Vec<Xorwow> {
    let mut lane = seeded(seed);
    for bit in 0..64 {
        if first >> bit & 1 == 1 {
            lane.words = apply(map(DISTANCE + bit), &lane.words);
        }
    }
    let mut all = Vec::with_capacity(count);
    for index in 0..count {
        if index > 0 {
            lane.words = apply(map(DISTANCE), &lane.words);
        }
        let mut own = lane.clone();
        own.skip(steps(first + index));
        all.push(own);
    }
    all
}

/// The lanes of the ordering in which each lane has a seed of its own.
pub(crate) fn seeded_lanes(
    seed: u64,
    first: usize,
    count: usize,
    steps: impl Fn(usize) -> u64,
) -> Vec<Xorwow> {
    const STRIDE: u64 = 3_133_713;
    let lane = |index: usize| {
        let mut lane = seeded(seed.wrapping_add((index as u64).wrapping_mul(STRIDE)));
        lane.skip(steps(index));
        lane
    };
    (first..first + count).map(lane).collect()
}

impl Xorwow {
    fn skip(&mut self, steps: u64) {
        for bit in 0..64 {
            if steps >> bit & 1 == 1 {
                self.words = apply(map(bit), &self.words);
            }
        }
        self.counter = self
            .counter
            .wrapping_add((steps as u32).wrapping_mul(COUNT));
    }

    fn word(&mut self) -> u32 {
        self.words = next(&self.words);
        self.counter = self.counter.wrapping_add(COUNT);
        self.words[4].wrapping_add(self.counter)
    }
}

impl Lane for Xorwow {
    fn unit(kind: &Kind) -> usize {
        match kind {
            Kind::Normal(..) | Kind::NormalDouble(..) => 2,
            Kind::LogNormal(..) | Kind::LogNormalDouble(..) => 2,
            _ => 1,
        }
    }

    fn bits(&mut self, out: &mut [u32]) {
        out[0] = self.word();
    }

    fn uniform(&mut self, out: &mut [f32]) {
        out[0] = convert::uniform(self.word());
    }

    fn uniform_double(&mut self, out: &mut [f64]) {
        let [x, y] = [self.word(), self.word()];
        out[0] = convert::uniform_two(x, y);
    }

    fn normal(&mut self, out: &mut [f32]) {
        let [x, y] = [self.word(), self.word()];
        out.copy_from_slice(&convert::normal_two(x, y));
    }

    fn normal_double(&mut self, out: &mut [f64]) {
        let [a, b, c, d] = std::array::from_fn(|_| self.word());
        out.copy_from_slice(&convert::normal_four([a, b], [c, d]));
    }

    fn poisson(&mut self, poisson: &Poisson, out: &mut [u32]) {
        out[0] = match poisson.table() {
            Some(table) => table.find(convert::uniform_double(self.word())),
            None => {
                let z = self.spare.take().unwrap_or_else(|| {
                    let mut pair = [0.0; 2];
                    self.normal(&mut pair);
                    self.spare = Some(pair[1]);
                    pair[0]
                });
                poisson.round(f64::from(z))
            }
        };
    }
}
