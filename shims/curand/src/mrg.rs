//! MRG32k3a (P. L'Ecuyer, "Good parameters and implementations for combined multiple recursive random number generators",
//! 1999): two linear recurrences modulo two primes.

use std::sync::OnceLock;

use crate::convert;
use crate::engine::{Kind, Lane};
use crate::poisson::Poisson;

/// The numbers of lanes of the orderings `LEGACY` and `DEFAULT`.
pub(crate) const LANES: [usize; 2] = [4096, 81_920];
/// Lanes are 2^76 numbers apart.
const DISTANCE: usize = 76;

const M1: u64 = 4_294_967_087;
const M2: u64 = 4_294_944_443;
/// 1 / M1, rounded so that M1 becomes 1.
const NORM: f64 = 2.328_306_549_837_829e-10;
/// What makes a number below M1 one of 32 bits.
const BITS: f64 = 1.000_000_048_662;

/// A lane.
#[derive(Clone, Debug)]
pub(crate) struct Mrg {
    first: [u64; 3],
    second: [u64; 3],
    /// The second number of a pair of normal numbers.
    spare: Option<f32>,
}

type Matrix = [[u64; 3]; 3];

fn multiply(a: &Matrix, b: &Matrix, m: u64) -> Matrix {
    std::array::from_fn(|row| {
        std::array::from_fn(|column| {
            let terms = (0..3).map(|k| a[row][k] * b[k][column] % m);
            terms.sum::<u64>() % m
        })
    })
}

fn apply(a: &Matrix, x: &[u64; 3], m: u64) -> [u64; 3] {
    std::array::from_fn(|row| (0..3).map(|k| a[row][k] * x[k] % m).sum::<u64>() % m)
}

/// The matrices of 2^k steps.
fn matrices(k: usize) -> &'static [Matrix; 2] {
    static ALL: OnceLock<Vec<[Matrix; 2]>> = OnceLock::new();
    &ALL.get_or_init(|| {
        let first = [[0, 1, 0], [0, 0, 1], [M1 - 810_728, 1_403_580, 0]];
        let second = [[0, 1, 0], [0, 0, 1], [M2 - 1_370_589, 0, 527_612]];
        let mut all = vec![[first, second]];
        for k in 1..DISTANCE + 64 {
            let [a, b]: [Matrix; 2] = all[k - 1];
            all.push([multiply(&a, &a, M1), multiply(&b, &b, M2)]);
        }
        all
    })[k]
}

fn seeded(seed: u64) -> Mrg {
    let mut lane = Mrg {
        first: [12_345; 3],
        second: [12_345; 3],
        spare: None,
    };
    if seed != 0 {
        let x = u64::from(seed as u32 ^ 0x5555_5555);
        let y = u64::from((seed >> 32) as u32 ^ 0xaaaa_aaaa);
        lane.first = [x, y, x].map(|x| x * 12_345 % M1);
        lane.second = [y, x, y].map(|x| x * 12_345 % M2);
    }
    lane
}

/// The lanes from a first one. `steps` are the numbers that a lane skips.
pub(crate) fn lanes(
    seed: u64,
    first: usize,
    count: usize,
    steps: impl Fn(usize) -> u64,
) -> Vec<Mrg> {
    let mut lane = seeded(seed);
    lane.advance(first as u64, DISTANCE);
    let mut all = Vec::with_capacity(count);
    for index in 0..count {
        if index > 0 {
            lane.advance(1, DISTANCE);
        }
        let mut own = lane.clone();
        own.advance(steps(first + index), 0);
        all.push(own);
    }
    all
}

impl Mrg {
    /// Skips `steps` times 2^`scale` numbers.
    fn advance(&mut self, steps: u64, scale: usize) {
        for bit in 0..64 {
            if steps >> bit & 1 == 1 {
                let [a, b] = matrices(scale + bit);
                self.first = apply(a, &self.first, M1);
                self.second = apply(b, &self.second, M2);
            }
        }
    }

    /// The next number: 1 to M1.
    fn number(&mut self) -> f64 {
        let p = (1_403_580 * self.first[1] + 810_728 * (M1 - self.first[0])) % M1;
        self.first = [self.first[1], self.first[2], p];
        let q = (527_612 * self.second[2] + 1_370_589 * (M2 - self.second[0])) % M2;
        self.second = [self.second[1], self.second[2], q];
        let difference = if p <= q { p + M1 - q } else { p - q };
        difference as f64
    }

    fn word(&mut self) -> u32 {
        (self.number() * BITS) as u32
    }
}

impl Lane for Mrg {
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
        out[0] = (self.number() * NORM) as f32;
    }

    fn uniform_double(&mut self, out: &mut [f64]) {
        out[0] = self.number() * NORM;
    }

    fn normal(&mut self, out: &mut [f32]) {
        let radius = (self.number() * NORM) as f32;
        let angle = (self.number() * NORM) as f32 * std::f32::consts::TAU;
        out.copy_from_slice(&convert::polar(radius, angle));
    }

    fn normal_double(&mut self, out: &mut [f64]) {
        let radius = self.number() * NORM;
        let angle = self.number() * NORM * 2.0;
        out.copy_from_slice(&convert::polar_double(radius, angle));
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
