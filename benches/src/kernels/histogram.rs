//! A histogram of bytes: atomics on shared memory, then on global memory.

use std::rc::Rc;

use margay::{LaunchConfig, Runtime};
use rayon::prelude::*;

use crate::case::{Case, OnDevice, Scale, Values, Work};
use crate::cpu::for_this_cpu;
use crate::data::Random;

pub(super) const CASE: Case = Case {
    name: "histogram, shared atomics",
    size: "16 Mi bytes",
    make,
};

const PTX: &str = include_str!("../../../tests/cuda/ptx/histogram.ptx");
const CHUNK: usize = 1 << 18;

type Bins = [u32; 256];

struct Histogram {
    bytes: Vec<u8>,
    bins: Bins,
}

fn make(scale: Scale) -> Box<dyn Work> {
    let bytes = Random::new(3).fill(scale.pick(1 << 24, 30_001), |r| {
        (r.below(256) & r.below(256)) as u8
    });
    Box::new(Histogram {
        bytes,
        bins: [0; 256],
    })
}

for_this_cpu! {
    fn count(bytes: &[u8]) -> Bins {
        let mut bins = [0; 256];
        for &byte in bytes {
            bins[usize::from(byte)] += 1;
        }
        bins
    }
}

fn add(mut a: Bins, b: Bins) -> Bins {
    for (a, b) in a.iter_mut().zip(b) {
        *a += b;
    }
    a
}

impl Work for Histogram {
    fn serial(&mut self) {
        self.bins = count(&self.bytes);
    }

    fn parallel(&mut self) {
        let counts = self.bytes.par_chunks(CHUNK).map(count);
        self.bins = counts.reduce(|| [0; 256], add);
    }

    fn result(&self) -> Values {
        Values::Exact(self.bins.to_vec())
    }

    fn on_device(&self, runtime: &Runtime) -> margay::Result<OnDevice> {
        let kernel = runtime.load_ptx(PTX)?.kernel("histogram_shared")?;
        let n = self.bytes.len() as i32;
        let bytes = runtime.upload(&self.bytes)?;
        let bins = Rc::new(runtime.alloc::<u32>(256)?);
        let (rt, out) = (runtime.clone(), Rc::clone(&bins));
        Ok(OnDevice::new(
            runtime,
            move || {
                out.zero()?;
                rt.launch(&kernel, LaunchConfig::new(256, 256), (&bytes, &*out, n))
            },
            move || Ok(Values::Exact(bins.to_vec()?)),
        ))
    }
}
