//! Philox4x32-10 (J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): four words are a function of a
//! key, a lane and a counter.

use crate::convert;
use crate::engine::{Kind, Lane};
use crate::poisson::Poisson;

/// The number of lanes.
pub(crate) const LANES: usize = 65_536;

/// A lane.
#[derive(Clone, Debug)]
pub(crate) struct Philox {
    key: [u32; 2],
    lane: u32,
    counter: u64,
}

/// The lanes from a first one. `steps` are the units that a lane skips.
pub(crate) fn lanes(
    seed: u64,
    first: usize,
    count: usize,
    steps: impl Fn(usize) -> u64,
) -> Vec<Philox> {
    let lane = |lane: usize| Philox {
        key: [seed as u32, (seed >> 32) as u32],
        lane: lane as u32,
        counter: steps(lane),
    };
    (first..first + count).map(lane).collect()
}

fn multiply(a: u32, b: u32) -> (u32, u32) {
    let product = u64::from(a) * u64::from(b);
    ((product >> 32) as u32, product as u32)
}

impl Philox {
    fn words(&mut self) -> [u32; 4] {
        let mut x = [
            self.counter as u32,
            (self.counter >> 32) as u32,
            self.lane,
            0,
        ];
        self.counter = self.counter.wrapping_add(1);
        let [mut k, mut l] = self.key;
        for _ in 0..10 {
            let (high0, low0) = multiply(0xd251_1f53, x[0]);
            let (high1, low1) = multiply(0xcd9e_8d57, x[2]);
            x = [high1 ^ x[1] ^ k, low1, high0 ^ x[3] ^ l, low0];
            k = k.wrapping_add(0x9e37_79b9);
            l = l.wrapping_add(0xbb67_ae85);
        }
        x
    }
}

impl Lane for Philox {
    fn unit(_: &Kind) -> usize {
        4
    }

    fn bits(&mut self, out: &mut [u32]) {
        out.copy_from_slice(&self.words());
    }

    fn uniform(&mut self, out: &mut [f32]) {
        out.copy_from_slice(&self.words().map(convert::uniform));
    }

    fn uniform_double(&mut self, out: &mut [f64]) {
        for pair in out.chunks_exact_mut(2) {
            let [a, b, c, d] = self.words();
            pair[0] = convert::uniform_two(a, b);
            pair[1] = convert::uniform_two(c, d);
        }
    }

    fn normal(&mut self, out: &mut [f32]) {
        let [a, b, c, d] = self.words();
        out[..2].copy_from_slice(&convert::normal_two(a, b));
        out[2..].copy_from_slice(&convert::normal_two(c, d));
    }

    fn normal_double(&mut self, out: &mut [f64]) {
        for pair in out.chunks_exact_mut(2) {
            let [a, b, c, d] = self.words();
            pair.copy_from_slice(&convert::normal_four([a, b], [c, d]));
        }
    }

    fn poisson(&mut self, poisson: &Poisson, out: &mut [u32]) {
        match poisson.table() {
            Some(table) => {
                let found = self
                    .words()
                    .map(|word| table.find(convert::uniform_double(word)));
                out.copy_from_slice(&found);
            }
            None => {
                let mut normal = [0.0; 4];
                self.normal(&mut normal);
                out.copy_from_slice(&normal.map(|z| poisson.round(f64::from(z))));
            }
        }
    }
}
