//! Heat flow: a five-point stencil, in the kernel with a halo in shared memory.

use std::rc::Rc;

use margay::{LaunchConfig, Runtime};
use rayon::prelude::*;

use crate::case::{Case, OnDevice, Scale, Values, Work};
use crate::cpu::for_this_cpu;
use crate::data::Random;

pub(super) const CASE: Case = Case {
    name: "stencil 2D",
    size: "2048 x 2048 f32",
    make,
};

const PTX: &str = include_str!("../../../tests/cuda/ptx/stencil.ptx");
const EDGE: usize = 16;

struct Stencil {
    width: usize,
    height: usize,
    from: Vec<f32>,
    to: Vec<f32>,
}

/// Small integers and weights that are powers of two: every order of addition gives the same bits.
fn make(scale: Scale) -> Box<dyn Work> {
    let (width, height) = (scale.pick(2048, 53), scale.pick(2048, 39));
    Box::new(Stencil {
        width,
        height,
        from: Random::new(4).fill(width * height, |r| r.below(256) as f32),
        to: vec![0.0; width * height],
    })
}

fn point(here: f32, around: [f32; 4]) -> f32 {
    0.5 * here + 0.125 * (around[0] + around[1] + around[2] + around[3])
}

for_this_cpu! {
    /// One row of the result from three of the source; outside the grid the edge's value counts.
    fn row(above: &[f32], here: &[f32], below: &[f32], out: &mut [f32]) {
        let last = here.len() - 1;
        for x in [0, last] {
            let (left, right) = (here[x.saturating_sub(1)], here[last.min(x + 1)]);
            out[x] = point(here[x], [left, right, above[x], below[x]]);
        }
        let sides = here.windows(3).zip(&above[1..]).zip(&below[1..]);
        for (out, ((side, above), below)) in out[1..last].iter_mut().zip(sides) {
            *out = point(side[1], [side[0], side[2], *above, *below]);
        }
    }
}

impl Stencil {
    fn row(&self, y: usize) -> &[f32] {
        let y = y.min(self.height - 1);
        &self.from[y * self.width..][..self.width]
    }

    fn fill(&self, y: usize, out: &mut [f32]) {
        row(
            self.row(y.saturating_sub(1)),
            self.row(y),
            self.row(y + 1),
            out,
        );
    }
}

impl Work for Stencil {
    fn serial(&mut self) {
        let mut to = std::mem::take(&mut self.to);
        let rows = to.chunks_mut(self.width).enumerate();
        rows.for_each(|(y, out)| self.fill(y, out));
        self.to = to;
    }

    fn parallel(&mut self) {
        let mut to = std::mem::take(&mut self.to);
        let rows = to.par_chunks_mut(self.width).enumerate();
        rows.with_min_len(16).for_each(|(y, out)| self.fill(y, out));
        self.to = to;
    }

    fn result(&self) -> Values {
        Values::bits(&self.to)
    }

    fn on_device(&self, runtime: &Runtime) -> margay::Result<OnDevice> {
        let kernel = runtime.load_ptx(PTX)?.kernel("stencil_2d")?;
        let (width, height) = (self.width as i32, self.height as i32);
        let tiles = |n: usize| n.div_ceil(EDGE) as u32;
        let config = LaunchConfig::new((tiles(self.width), tiles(self.height)), (16, 16));
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
