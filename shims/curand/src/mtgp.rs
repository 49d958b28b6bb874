//! MTGP32 (M. Saito and M. Matsumoto, "Variants of Mersenne Twister suitable for graphic processors", 2013): each lane is a
//! generator with parameters of its own and makes units of 256 numbers.
//!
//! `data/mtgp32.txt` contains the parameters.

use std::sync::OnceLock;

use crate::convert;
use crate::engine::{Kind, Lane};
use crate::poisson::Poisson;

/// The numbers of lanes of the orderings `LEGACY` and `DEFAULT`.
pub(crate) const LANES: [usize; 2] = [64, 192];
/// The numbers of a unit.
const UNIT: usize = 256;
/// The words of a state.
const N: usize = 351;
/// The bits of the oldest word that a state contains.
const MASK: u32 = 0xfff8_0000;

/// The parameters of a generator.
struct Parameters {
    position: usize,
    shifts: [u32; 2],
    recursion: [u32; 16],
    tempering: [u32; 16],
}

/// Returns the sums of the vectors whose numbers are bits of the index.
fn sums(vectors: &[u32]) -> [u32; 16] {
    std::array::from_fn(|index| {
        let chosen = (0..4).filter(|bit| index >> bit & 1 == 1);
        chosen.fold(0, |sum, bit| sum ^ vectors[bit])
    })
}

fn parameters(lane: usize) -> &'static Parameters {
    static ALL: OnceLock<Vec<Parameters>> = OnceLock::new();
    &ALL.get_or_init(|| {
        let text = include_str!("../data/mtgp32.txt");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let parsed = lines.filter_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let decimal = |k: usize| fields[k].parse().ok();
            let vectors: Vec<u32> = fields[3..]
                .iter()
                .filter_map(|field| u32::from_str_radix(field, 16).ok())
                .collect();
            Some(Parameters {
                position: decimal(0)? as usize,
                shifts: [decimal(1)?, decimal(2)?],
                recursion: sums(&vectors[..4]),
                tempering: sums(&vectors[4..]),
            })
        });
        parsed.collect()
    })[lane]
}

/// A lane.
#[derive(Clone)]
pub(crate) struct Mtgp {
    parameters: &'static Parameters,
    words: Box<[u32; N]>,
}

/// The lanes from a first one.
pub(crate) fn lanes(seed: u64, first: usize, count: usize) -> Vec<Mtgp> {
    let seed = (seed ^ seed >> 32) as u32;
    let lane = |lane: usize| {
        let parameters = parameters(lane);
        let hidden = parameters.recursion[4] ^ parameters.recursion[8] << 16;
        let mut mixed = hidden.wrapping_add(hidden >> 16);
        mixed = mixed.wrapping_add(mixed >> 8);
        let mut words = Box::new([(mixed & 0xff) * 0x0101_0101; N]);
        words[0] = seed.wrapping_add(lane as u32 + 1);
        words[1] = hidden;
        for k in 1..N {
            let last = words[k - 1];
            words[k] ^= (last ^ last >> 30)
                .wrapping_mul(1_812_433_253)
                .wrapping_add(k as u32);
        }
        Mtgp { parameters, words }
    };
    (first..first + count).map(lane).collect()
}

impl Mtgp {
    fn each(&mut self, mut put: impl FnMut(usize, u32)) {
        let p = self.parameters;
        let mut words = [0; N + UNIT];
        words[..N].copy_from_slice(&self.words[..]);
        for k in 0..UNIT {
            let mut x = (words[k] & MASK) ^ words[k + 1];
            x ^= x << p.shifts[0];
            let y = x ^ words[k + p.position] >> p.shifts[1];
            let r = y ^ p.recursion[(y & 15) as usize];
            words[k + N] = r;
            let mut t = words[k + p.position - 1];
            t ^= t >> 16;
            t ^= t >> 8;
            put(k, r ^ p.tempering[(t & 15) as usize]);
        }
        self.words.copy_from_slice(&words[UNIT..]);
    }
}

impl Lane for Mtgp {
    fn unit(_: &Kind) -> usize {
        UNIT
    }

    fn bits(&mut self, out: &mut [u32]) {
        self.each(|place, word| out[place] = word);
    }

    fn uniform(&mut self, out: &mut [f32]) {
        self.each(|place, word| out[place] = convert::uniform(word));
    }

    fn uniform_double(&mut self, out: &mut [f64]) {
        self.each(|place, word| out[place] = convert::uniform_double(word));
    }

    fn normal(&mut self, out: &mut [f32]) {
        self.each(|place, word| out[place] = convert::inverse(word));
    }

    // NVIDIA's library computes these results in single precision, too.
    fn normal_double(&mut self, out: &mut [f64]) {
        self.each(|place, word| out[place] = f64::from(convert::inverse(word)));
    }

    fn exponent_double(&mut self, out: &mut [f64]) {
        self.each(|place, word| out[place] = convert::inverse_double(word));
    }

    fn poisson(&mut self, poisson: &Poisson, out: &mut [u32]) {
        self.each(|place, word| out[place] = poisson.of_bits(word));
    }
}
