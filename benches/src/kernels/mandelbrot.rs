//! The Mandelbrot set: a loop whose length differs from point to point.

use std::rc::Rc;

use margay::{LaunchConfig, Runtime};
use rayon::prelude::*;

use crate::case::{Case, OnDevice, Scale, Values, Work};
use crate::cpu::for_this_cpu;

pub(super) const CASE: Case = Case {
    name: "Mandelbrot set",
    size: "768 x 512 points, up to 256 turns",
    make,
};

const PTX: &str = include_str!("../../cuda/mandelbrot.ptx");
const LIMIT: u16 = 256;
const LEFT: f32 = -2.0;
const TOP: f32 = -1.0;

struct Mandelbrot {
    width: usize,
    step: f32,
    turns: Vec<u16>,
}

fn make(scale: Scale) -> Box<dyn Work> {
    let (width, height) = (scale.pick(768, 75), scale.pick(512, 50));
    Box::new(Mandelbrot {
        width,
        step: 2.0 / height as f32,
        turns: vec![0; width * height],
    })
}

for_this_cpu! {
    fn row(turns: &mut [u16], y: usize, step: f32) {
        let cy = y as f32 * step + TOP;
        for (x, turns) in turns.iter_mut().enumerate() {
            *turns = turns_at(x as f32 * step + LEFT, cy);
        }
    }
}

#[inline]
fn turns_at(cx: f32, cy: f32) -> u16 {
    let (mut x, mut y) = (0f32, 0f32);
    for turn in 0..LIMIT {
        let (xx, yy, xy) = (x * x, y * y, x * y);
        if xx + yy > 4.0 {
            return turn;
        }
        y = xy + xy + cy;
        x = xx - yy + cx;
    }
    LIMIT
}

fn values(turns: &[u16]) -> Values {
    Values::Exact(turns.iter().map(|&t| u32::from(t)).collect())
}

impl Work for Mandelbrot {
    fn serial(&mut self) {
        let rows = self.turns.chunks_mut(self.width).enumerate();
        rows.for_each(|(y, turns)| row(turns, y, self.step));
    }

    fn parallel(&mut self) {
        let rows = self.turns.par_chunks_mut(self.width).enumerate();
        rows.for_each(|(y, turns)| row(turns, y, self.step));
    }

    fn result(&self) -> Values {
        values(&self.turns)
    }

    fn on_device(&self, runtime: &Runtime) -> margay::Result<OnDevice> {
        let kernel = runtime.load_ptx(PTX)?.kernel("mandelbrot")?;
        let (width, height) = (self.width, self.turns.len() / self.width);
        let grid = (width.div_ceil(32) as u32, height.div_ceil(8) as u32);
        let config = LaunchConfig::new(grid, (32, 8));
        let turns = Rc::new(runtime.alloc::<u16>(self.turns.len())?);
        let (rt, out, step) = (runtime.clone(), Rc::clone(&turns), self.step);
        Ok(OnDevice::new(
            runtime,
            move || {
                let (width, height, limit) = (width as i32, height as i32, i32::from(LIMIT));
                rt.launch(
                    &kernel,
                    config,
                    (&*out, width, height, LEFT, TOP, step, limit),
                )
            },
            move || Ok(values(&turns.to_vec()?)),
        ))
    }
}
