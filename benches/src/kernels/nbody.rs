//! Gravity among all pairs of bodies, in the kernel through tiles of positions in shared memory.

use std::rc::Rc;

use margay::{LaunchConfig, Runtime};
use rayon::prelude::*;

use crate::case::{Case, OnDevice, Scale, Values, Work};
use crate::cpu::for_this_cpu;
use crate::data::Random;

pub(super) const CASE: Case = Case {
    name: "n-body",
    size: "4096 bodies, one step",
    make,
};

const PTX: &str = include_str!("../../../tests/cuda/ptx/nbody.ptx");
const STEP: f32 = 0.01;
/// Bodies that the loop moves at once, so that it can use vectors.
const LANES: usize = 16;
/// The kernel takes an approximate root, and both add in orders of their own.
const TOLERANCE: f32 = 1e-4;

/// Position and mass, or velocity and nothing.
type Body = [f32; 4];

struct Bodies {
    positions: Vec<Body>,
    moved: Vec<Body>,
    velocities: Vec<Body>,
}

fn make(scale: Scale) -> Box<dyn Work> {
    let n = scale.pick(4096, 150);
    let mut random = Random::new(6);
    Box::new(Bodies {
        positions: random.fill(n, |r| [r.unit(), r.unit(), r.unit(), r.unit() + 0.5]),
        moved: vec![[0.0; 4]; n],
        velocities: vec![[0.0; 4]; n],
    })
}

for_this_cpu! {
    /// Moves up to [`LANES`] bodies, those from `first` on.
    fn step(positions: &[Body], first: usize, moved: &mut [Body], velocities: &mut [Body]) {
        let mut me = [[0f32; LANES]; 3];
        for (lane, body) in positions[first..].iter().take(LANES).enumerate() {
            for axis in 0..3 {
                me[axis][lane] = body[axis];
            }
        }
        let mut sum = [[0f32; LANES]; 3];
        for other in positions {
            for lane in 0..LANES {
                let dx = other[0] - me[0][lane];
                let dy = other[1] - me[1][lane];
                let dz = other[2] - me[2][lane];
                let square = dx.mul_add(dx, dy.mul_add(dy, dz.mul_add(dz, 0.01)));
                let inverse = 1.0 / square.sqrt();
                let pull = other[3] * inverse * inverse * inverse;
                sum[0][lane] = dx.mul_add(pull, sum[0][lane]);
                sum[1][lane] = dy.mul_add(pull, sum[1][lane]);
                sum[2][lane] = dz.mul_add(pull, sum[2][lane]);
            }
        }
        for (lane, (moved, velocity)) in moved.iter_mut().zip(velocities).enumerate() {
            for axis in 0..3 {
                velocity[axis] += sum[axis][lane] * STEP;
                moved[axis] = me[axis][lane] + velocity[axis] * STEP;
            }
            moved[3] = positions[first + lane][3];
        }
    }
}

fn values(moved: &[Body], velocities: &[Body]) -> Values {
    Values::Close([moved, velocities].concat().concat(), TOLERANCE)
}

impl Work for Bodies {
    fn serial(&mut self) {
        let chunks = self.moved.chunks_mut(LANES);
        let chunks = chunks.zip(self.velocities.chunks_mut(LANES)).enumerate();
        for (index, (moved, velocities)) in chunks {
            step(&self.positions, index * LANES, moved, velocities);
        }
    }

    fn parallel(&mut self) {
        let chunks = self.moved.par_chunks_mut(LANES);
        let chunks = chunks
            .zip(self.velocities.par_chunks_mut(LANES))
            .enumerate();
        chunks.for_each(|(index, (moved, velocities))| {
            step(&self.positions, index * LANES, moved, velocities);
        });
    }

    fn result(&self) -> Values {
        values(&self.moved, &self.velocities)
    }

    fn on_device(&self, runtime: &Runtime) -> margay::Result<OnDevice> {
        let kernel = runtime.load_ptx(PTX)?.kernel("nbody_step")?;
        let n = self.positions.len() as i32;
        let positions = runtime.upload(&self.positions)?;
        let moved = Rc::new(runtime.upload(&self.moved)?);
        let velocities = Rc::new(runtime.upload(&self.velocities)?);
        let (rt, out) = (runtime.clone(), (Rc::clone(&moved), Rc::clone(&velocities)));
        let config = LaunchConfig::linear(n as u32, 64);
        Ok(OnDevice::new(
            runtime,
            move || rt.launch(&kernel, config, (&positions, &*out.0, &*out.1, n, STEP)),
            move || Ok(values(&moved.to_vec()?, &velocities.to_vec()?)),
        ))
    }
}
