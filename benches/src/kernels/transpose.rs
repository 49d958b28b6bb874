//! A matrix transposed through tiles.

use std::rc::Rc;

use margay::{LaunchConfig, Runtime};
use rayon::prelude::*;

use crate::case::{Case, OnDevice, Scale, Values, Work};
use crate::cpu::for_this_cpu;

pub(super) const CASE: Case = Case {
    name: "transpose, tiled",
    size: "2048 x 2048 f32",
    make,
};

const PTX: &str = include_str!("../../../tests/cuda/ptx/transpose.ptx");
const TILE: usize = 32;

struct Transpose {
    width: usize,
    height: usize,
    from: Vec<f32>,
    to: Vec<f32>,
}

fn make(scale: Scale) -> Box<dyn Work> {
    let (width, height) = (scale.pick(2048, 75), scale.pick(2048, 101));
    Box::new(Transpose {
        width,
        height,
        from: (0..width * height).map(|i| i as f32).collect(),
        to: vec![0.0; width * height],
    })
}

for_this_cpu! {
    /// Fills rows of the result, from `first` on, tile by tile; a row of it is a column of `from`.
    fn transpose(from: &[f32], width: usize, to: &mut [f32], height: usize, first: usize) {
        for base in (0..height).step_by(TILE) {
            for (x, row) in to.chunks_exact_mut(height).enumerate() {
                let end = height.min(base + TILE);
                for (y, value) in row[base..end].iter_mut().enumerate() {
                    *value = from[(base + y) * width + first + x];
                }
            }
        }
    }
}

impl Work for Transpose {
    fn serial(&mut self) {
        let rows = self.to.chunks_mut(TILE * self.height).enumerate();
        for (index, rows) in rows {
            transpose(&self.from, self.width, rows, self.height, index * TILE);
        }
    }

    fn parallel(&mut self) {
        let rows = self.to.par_chunks_mut(TILE * self.height).enumerate();
        rows.for_each(|(index, rows)| {
            transpose(&self.from, self.width, rows, self.height, index * TILE);
        });
    }

    fn result(&self) -> Values {
        Values::bits(&self.to)
    }

    fn on_device(&self, runtime: &Runtime) -> margay::Result<OnDevice> {
        let kernel = runtime.load_ptx(PTX)?.kernel("transpose_tiled")?;
        let (width, height) = (self.width as i32, self.height as i32);
        let tiles = |n: usize| n.div_ceil(TILE) as u32;
        let config = LaunchConfig::new((tiles(self.width), tiles(self.height)), (32, 8));
        let from = runtime.upload(&self.from)?;
        let to = Rc::new(runtime.alloc::<f32>(self.from.len())?);
        let (rt, out) = (runtime.clone(), Rc::clone(&to));
        Ok(OnDevice::new(
            runtime,
            move || rt.launch(&kernel, config, (&from, &*out, width, height)),
            move || Ok(Values::bits(&to.to_vec()?)),
        ))
    }
}
