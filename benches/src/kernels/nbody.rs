//! Gravity between all pairs of bodies. The CUDA kernel reads positions through tiles in shared memory.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "n-body",
    size: "4096 bodies, one step",
    group: Group::More,
    sources: sources!("tests/cuda/ptx/nbody.ptx", "nbody"),
    make,
};

const STEP: f32 = 0.01;
/// Number of floating-point operations for a pair of bodies.
const OPERATIONS: f64 = 20.0;
/// Tolerance for results, because the kernel uses an approximate square root and contenders add in different orders.
const TOLERANCE: f32 = 1e-4;

/// Either the three coordinates of a position and the mass, or the three components of a velocity and zero.
type Body = [f32; 4];

fn make(scale: Scale) -> Work {
    let n = scale.pick(4096, 150);
    let mut random = Random::new(6);
    let positions: Vec<Body> = random.fill(n, |r| [r.unit(), r.unit(), r.unit(), r.unit() + 0.5]);
    let pulls = positions.iter().map(|body| pull(*body, &positions));
    let velocities: Vec<Body> = pulls
        .map(|a| a.map(|a| (a * f64::from(STEP)) as f32))
        .collect();
    let moved: Vec<Body> = positions
        .iter()
        .zip(&velocities)
        .map(|(p, v)| moved(*p, *v))
        .collect();
    let mut work = Work::on(n * n);
    let (from, to) = (work.input(&positions), work.output::<Body>(n));
    let speed = work.input(&vec![[0f32; 4]; n]);
    work.launch(
        "nbody_step",
        n.div_ceil(64),
        64,
        args![from, to, speed, n as i32, STEP],
    );
    work.numbers([n]);
    work.operations = Some(OPERATIONS * (n * n) as f64);
    work.expect(to, Values::Close(moved.concat(), TOLERANCE));
    work.expect(speed, Values::Close(velocities.concat(), TOLERANCE));
    work
}

/// Computes, in double precision, the acceleration of the body `me` by the bodies `all`.
fn pull(me: Body, all: &[Body]) -> [f64; 4] {
    let mut sum = [0.0; 4];
    for other in all {
        let away: [f64; 3] =
            std::array::from_fn(|axis| f64::from(other[axis]) - f64::from(me[axis]));
        let square: f64 = away.iter().map(|d| d * d).sum::<f64>() + 0.01;
        let pull = f64::from(other[3]) / (square * square.sqrt());
        sum.iter_mut()
            .zip(away)
            .for_each(|(sum, d)| *sum += d * pull);
    }
    sum
}

/// Returns the position and the mass of a body after a time step.
fn moved(position: Body, velocity: Body) -> Body {
    std::array::from_fn(|axis| match axis {
        3 => position[3],
        _ => position[axis] + velocity[axis] * STEP,
    })
}
