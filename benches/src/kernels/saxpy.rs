//! y = a x + y: nothing but memory.

use std::rc::Rc;

use margay::{LaunchConfig, Runtime};
use rayon::prelude::*;

use crate::case::{Case, OnDevice, Scale, Values, Work};
use crate::cpu::for_this_cpu;
use crate::data::Random;

pub(super) const CASE: Case = Case {
    name: "saxpy",
    size: "16 Mi f32, two vectors",
    make,
};

const PTX: &str = include_str!("../../../tests/cuda/ptx/saxpy.ptx");
const A: f32 = 0.75;
const CHUNK: usize = 1 << 16;

struct Saxpy {
    x: Vec<f32>,
    y: Vec<f32>,
}

fn make(scale: Scale) -> Box<dyn Work> {
    let n = scale.pick(1 << 24, 10_000);
    let mut random = Random::new(1);
    Box::new(Saxpy {
        x: random.fill(n, |r| r.unit() - 0.5),
        y: random.fill(n, |r| r.unit() * 100.0),
    })
}

for_this_cpu! {
    fn saxpy(x: &[f32], y: &mut [f32]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = A.mul_add(*x, *y);
        }
    }
}

impl Work for Saxpy {
    fn serial(&mut self) {
        saxpy(&self.x, &mut self.y);
    }

    fn parallel(&mut self) {
        let chunks = self.y.par_chunks_mut(CHUNK).zip(self.x.par_chunks(CHUNK));
        chunks.for_each(|(y, x)| saxpy(x, y));
    }

    fn result(&self) -> Values {
        Values::bits(&self.y)
    }

    fn on_device(&self, runtime: &Runtime) -> margay::Result<OnDevice> {
        let kernel = runtime.load_ptx(PTX)?.kernel("saxpy")?;
        let n = self.x.len() as i32;
        let x = runtime.upload(&self.x)?;
        let y = Rc::new(runtime.upload(&self.y)?);
        let (rt, out) = (runtime.clone(), Rc::clone(&y));
        Ok(OnDevice::new(
            runtime,
            move || {
                rt.launch(
                    &kernel,
                    LaunchConfig::linear(n as u32, 256),
                    (n, A, &x, &*out),
                )
            },
            move || Ok(Values::bits(&y.to_vec()?)),
        ))
    }
}
