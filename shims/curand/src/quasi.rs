//! Quasirandom generators: the results of a call are the points of the first dimension, then those of the next one.

use std::sync::Arc;

use crate::convert;
use crate::engine::Kind;
use crate::output::{Output, write_mapped};
use crate::sobol::Points;

/// A Sobol sequence of some dimensions.
pub(crate) struct Quasi {
    /// Whether points have 64 bits.
    pub(crate) wide: bool,
    /// The direction vectors of each dimension; those of 32 bits are upper halves.
    pub(crate) vectors: Vec<Vec<u64>>,
    /// The first point of each dimension.
    pub(crate) constants: Vec<u64>,
}

/// A call: `count` points of each dimension.
#[derive(Clone)]
pub(crate) struct QuasiJob {
    pub(crate) kind: Kind,
    pub(crate) sequence: Arc<Quasi>,
    /// The index of the first point.
    pub(crate) first: u64,
    pub(crate) output: Output,
}

/// The points of a task.
const PART: usize = 1 << 16;

impl QuasiJob {
    fn points(&self) -> usize {
        self.output.count() / self.sequence.vectors.len()
    }

    fn parts(&self) -> usize {
        self.points().div_ceil(PART)
    }

    /// The number of tasks.
    pub(crate) fn tasks(&self) -> usize {
        self.parts() * self.sequence.vectors.len()
    }

    /// Runs a task.
    pub(crate) fn run(&self, task: usize) {
        let (dimension, part) = (task / self.parts(), task % self.parts());
        let first = part * PART;
        let count = PART.min(self.points() - first);
        let place = dimension * self.points() + first;
        let mut points = Points::new(
            &self.sequence.vectors[dimension],
            self.sequence.constants[dimension],
            self.first.wrapping_add(first as u64),
        );
        let wide = self.sequence.wide;
        let upper = |point: u64| (point >> 32) as u32;
        let double = |point| match wide {
            true => convert::inverse_long(point),
            false => convert::inverse_double(upper(point)),
        };
        match &self.kind {
            Kind::Bits => self.each(place, count, || upper(points.take())),
            Kind::LongBits => self.each(place, count, || points.take()),
            Kind::Uniform => self.each(place, count, || convert::uniform(upper(points.take()))),
            Kind::UniformDouble => self.each(place, count, || match wide {
                true => convert::uniform_long(points.take()),
                false => convert::uniform_double(upper(points.take())),
            }),
            Kind::Normal(mean, deviation) => self.each(place, count, || {
                mean + deviation * convert::inverse(upper(points.take()))
            }),
            Kind::LogNormal(mean, deviation) => self.each(place, count, || {
                (mean + deviation * convert::inverse(upper(points.take()))).exp()
            }),
            Kind::NormalDouble(mean, deviation) => {
                self.each(place, count, || mean + deviation * double(points.take()));
            }
            Kind::LogNormalDouble(mean, deviation) => self.each(place, count, || {
                (mean + deviation * double(points.take())).exp()
            }),
            Kind::Poisson(poisson) => self.each(place, count, || match wide {
                true => poisson.of_long_bits(points.take()),
                false => poisson.of_bits(upper(points.take())),
            }),
        }
    }

    fn each<T: Copy>(&self, place: usize, count: usize, mut next: impl FnMut() -> T) {
        write_mapped(self.output.part(place, count), |_| next());
    }
}
