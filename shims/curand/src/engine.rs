//! What all pseudorandom generators have in common: a generator is a set of *lanes*, each with a state of its own.
//!
//! Results are made in *units*: a unit is a number of neighbouring results that one lane makes. Unit 0 comes from lane 0,
//! unit 1 from lane 1, and so on; the lane after the last one is lane 0. The next call continues with the next lane.

use crate::poisson::Poisson;

/// The results that a call requests.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// 32 random bits.
    Bits,
    /// 64 random bits.
    LongBits,
    /// `f32` in (0, 1].
    Uniform,
    /// `f64` in (0, 1].
    UniformDouble,
    /// Normal distribution with a mean and a standard deviation.
    Normal(f32, f32),
    /// The same in `f64`.
    NormalDouble(f64, f64),
    /// The exponential function of a normal distribution.
    LogNormal(f32, f32),
    /// The same in `f64`.
    LogNormalDouble(f64, f64),
    /// Poisson distribution.
    Poisson(Poisson),
}

impl Kind {
    /// The size of a result in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Kind::Bits | Kind::Uniform | Kind::Poisson(_) => 4,
            Kind::Normal(..) | Kind::LogNormal(..) => 4,
            Kind::LongBits | Kind::UniformDouble => 8,
            Kind::NormalDouble(..) | Kind::LogNormalDouble(..) => 8,
        }
    }
}

/// A lane: the state of one sequence.
pub(crate) trait Lane: Clone + Send {
    /// The number of results of a unit.
    fn unit(kind: &Kind) -> usize;
    /// Makes a unit of random bits.
    fn bits(&mut self, out: &mut [u32]);
    /// Makes a unit of uniform results.
    fn uniform(&mut self, out: &mut [f32]);
    /// Makes a unit of uniform results.
    fn uniform_double(&mut self, out: &mut [f64]);
    /// Makes a unit of results with the standard normal distribution.
    fn normal(&mut self, out: &mut [f32]);
    /// Makes a unit of results with the standard normal distribution.
    fn normal_double(&mut self, out: &mut [f64]);
    /// Makes a unit of results whose exponential functions are taken.
    fn exponent_double(&mut self, out: &mut [f64]) {
        self.normal_double(out);
    }
    /// Makes a unit of results with a Poisson distribution.
    fn poisson(&mut self, poisson: &Poisson, out: &mut [u32]);
}
