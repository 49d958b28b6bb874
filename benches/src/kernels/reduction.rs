//! A sum: as a tree in shared memory, and with shuffles inside warps.

use std::rc::Rc;

use margay::{LaunchConfig, Runtime};
use rayon::prelude::*;

use crate::case::{Case, OnDevice, Scale, Values, Work};
use crate::cpu::for_this_cpu;
use crate::data::Random;

pub(super) const TREE: Case = Case {
    name: "reduction, shared memory",
    size: "16 Mi i32",
    make: |scale| make(scale, "reduce_tree"),
};

pub(super) const SHUFFLE: Case = Case {
    name: "reduction, shuffles",
    size: "16 Mi i32",
    make: |scale| make(scale, "reduce_shuffle"),
};

const PTX: &str = include_str!("../../../tests/cuda/ptx/reduction.ptx");
const CHUNK: usize = 1 << 16;
const BLOCKS: usize = 256;

struct Reduction {
    kernel: &'static str,
    values: Vec<i32>,
    sum: i32,
}

fn make(scale: Scale, kernel: &'static str) -> Box<dyn Work> {
    let values = Random::new(2).fill(scale.pick(1 << 24, 70_001), |r| r.next() as i32);
    Box::new(Reduction {
        kernel,
        values,
        sum: 0,
    })
}

for_this_cpu! {
    fn sum(values: &[i32]) -> i32 {
        values.iter().fold(0, |sum, value| sum.wrapping_add(*value))
    }
}

impl Work for Reduction {
    fn serial(&mut self) {
        self.sum = sum(&self.values);
    }

    fn parallel(&mut self) {
        let sums = self.values.par_chunks(CHUNK).map(sum);
        self.sum = sums.reduce(|| 0, i32::wrapping_add);
    }

    fn result(&self) -> Values {
        Values::Exact(vec![self.sum as u32])
    }

    fn on_device(&self, runtime: &Runtime) -> margay::Result<OnDevice> {
        let kernel = runtime.load_ptx(PTX)?.kernel(self.kernel)?;
        let n = self.values.len() as i32;
        let values = runtime.upload(&self.values)?;
        let partial = runtime.alloc::<i32>(BLOCKS)?;
        let out = Rc::new(runtime.alloc::<i32>(1)?);
        let (rt, sum) = (runtime.clone(), Rc::clone(&out));
        Ok(OnDevice::new(
            runtime,
            move || {
                let first = LaunchConfig::new(BLOCKS as u32, 256);
                rt.launch(&kernel, first, (&values, &partial, n))?;
                let second = LaunchConfig::new(1, 256);
                rt.launch(&kernel, second, (&partial, &*sum, BLOCKS as i32))
            },
            move || Ok(Values::Exact(vec![out.to_vec()?[0] as u32])),
        ))
    }
}
