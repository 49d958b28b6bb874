//! A matrix product, in the kernel through tiles in shared memory.

use std::rc::Rc;

use margay::{LaunchConfig, Runtime};
use rayon::prelude::*;

use crate::case::{Case, OnDevice, Scale, Values, Work};
use crate::cpu::for_this_cpu;
use crate::data::Random;

pub(super) const CASE: Case = Case {
    name: "matrix product, tiled",
    size: "512 x 512 x 512 f32",
    make,
};

const PTX: &str = include_str!("../../../tests/cuda/ptx/matmul_tiled.ptx");
const ROWS: usize = 16;

struct Product {
    rows: usize,
    inner: usize,
    columns: usize,
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
}

/// Small integers: every order of addition gives the same bits.
fn make(scale: Scale) -> Box<dyn Work> {
    let [rows, inner, columns] = [50, 37, 61].map(|small| scale.pick(512, small));
    let mut random = Random::new(5);
    let mut values = |n| random.fill(n, |r| r.below(17) as f32 - 8.0);
    Box::new(Product {
        rows,
        inner,
        columns,
        a: values(rows * inner),
        b: values(inner * columns),
        c: vec![0.0; rows * columns],
    })
}

for_this_cpu! {
    /// Rows of the product: the innermost loop runs along rows of `b` and `c`.
    fn product(a: &[f32], b: &[f32], c: &mut [f32], inner: usize, columns: usize) {
        c.fill(0.0);
        for (a, c) in a.chunks_exact(inner).zip(c.chunks_exact_mut(columns)) {
            for (a, b) in a.iter().zip(b.chunks_exact(columns)) {
                for (c, b) in c.iter_mut().zip(b) {
                    *c = a.mul_add(*b, *c);
                }
            }
        }
    }
}

impl Work for Product {
    fn serial(&mut self) {
        product(&self.a, &self.b, &mut self.c, self.inner, self.columns);
    }

    fn parallel(&mut self) {
        let rows = self.c.par_chunks_mut(ROWS * self.columns);
        rows.zip(self.a.par_chunks(ROWS * self.inner))
            .for_each(|(c, a)| product(a, &self.b, c, self.inner, self.columns));
    }

    fn result(&self) -> Values {
        Values::bits(&self.c)
    }

    fn on_device(&self, runtime: &Runtime) -> margay::Result<OnDevice> {
        let kernel = runtime.load_ptx(PTX)?.kernel("matmul_tiled")?;
        let [rows, inner, columns] = [self.rows, self.inner, self.columns].map(|n| n as i32);
        let tiles = |n: usize| n.div_ceil(16) as u32;
        let config = LaunchConfig::new((tiles(self.columns), tiles(self.rows)), (16, 16));
        let (a, b) = (runtime.upload(&self.a)?, runtime.upload(&self.b)?);
        let c = Rc::new(runtime.alloc::<f32>(self.c.len())?);
        let (rt, out) = (runtime.clone(), Rc::clone(&c));
        Ok(OnDevice::new(
            runtime,
            move || rt.launch(&kernel, config, (&a, &b, &*out, rows, inner, columns)),
            move || Ok(Values::bits(&c.to_vec()?)),
        ))
    }
}
