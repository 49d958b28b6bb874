//! Prices of European options: exponentials, logarithms, roots and divisions.

use std::rc::Rc;

use margay::{LaunchConfig, Runtime};
use rayon::prelude::*;

use crate::case::{Case, OnDevice, Scale, Values, Work};
use crate::cpu::for_this_cpu;
use crate::data::Random;

pub(super) const CASE: Case = Case {
    name: "Black-Scholes",
    size: "1 Mi options",
    make,
};

const PTX: &str = include_str!("../../../tests/cuda/ptx/black_scholes.ptx");
const RATE: f32 = 0.02;
const VOLATILITY: f32 = 0.3;
const CHUNK: usize = 1 << 12;
/// The device's functions and the host's differ in their last bits.
const TOLERANCE: f32 = 1e-4;

/// Price of the share, price agreed on, years.
type Terms = [f32; 3];

struct Prices {
    options: [Vec<f32>; 3],
    call: Vec<f32>,
    put: Vec<f32>,
}

fn make(scale: Scale) -> Box<dyn Work> {
    let n = scale.pick(1 << 20, 3000);
    let mut random = Random::new(7);
    let mut between = |low: f32, high: f32| random.fill(n, |r| low + (high - low) * r.unit());
    Box::new(Prices {
        options: [between(5.0, 30.0), between(1.0, 100.0), between(0.25, 10.0)],
        call: vec![0.0; n],
        put: vec![0.0; n],
    })
}

/// The normal distribution, by a polynomial.
#[inline]
fn normal(d: f32) -> f32 {
    let k = 1.0 / 0.231_641_9f32.mul_add(d.abs(), 1.0);
    let poly = [-1.821_256, 1.781_477_9, -0.356_563_78, 0.319_381_53]
        .into_iter()
        .fold(1.330_274_4f32, |sum, next| sum.mul_add(k, next));
    let tail = 0.398_942_3 * (-0.5 * d * d).exp() * (poly * k);
    if d > 0.0 { 1.0 - tail } else { tail }
}

#[inline]
fn price([spot, strike, years]: Terms) -> (f32, f32) {
    let drift = RATE + 0.5 * VOLATILITY * VOLATILITY;
    let spread = VOLATILITY * years.sqrt();
    let d1 = drift.mul_add(years, (spot / strike).ln()) / spread;
    let d2 = d1 - spread;
    let discounted = strike * (-RATE * years).exp();
    let call = spot * normal(d1) - discounted * normal(d2);
    let put = discounted * normal(-d2) - spot * normal(-d1);
    (call, put)
}

for_this_cpu! {
    fn prices(spot: &[f32], strike: &[f32], years: &[f32], call: &mut [f32], put: &mut [f32]) {
        let options = spot.iter().zip(strike).zip(years);
        let prices = call.iter_mut().zip(put);
        for ((call, put), ((spot, strike), years)) in prices.zip(options) {
            (*call, *put) = price([*spot, *strike, *years]);
        }
    }
}

fn values(call: &[f32], put: &[f32]) -> Values {
    Values::Close([call, put].concat(), TOLERANCE)
}

impl Work for Prices {
    fn serial(&mut self) {
        let [spot, strike, years] = &self.options;
        prices(spot, strike, years, &mut self.call, &mut self.put);
    }

    fn parallel(&mut self) {
        let [spot, strike, years] = &self.options;
        let options = spot.par_chunks(CHUNK).zip(strike.par_chunks(CHUNK));
        let options = options.zip(years.par_chunks(CHUNK));
        let results = self
            .call
            .par_chunks_mut(CHUNK)
            .zip(self.put.par_chunks_mut(CHUNK));
        results
            .zip(options)
            .for_each(|((call, put), ((spot, strike), years))| {
                prices(spot, strike, years, call, put);
            });
    }

    fn result(&self) -> Values {
        values(&self.call, &self.put)
    }

    fn on_device(&self, runtime: &Runtime) -> margay::Result<OnDevice> {
        let kernel = runtime.load_ptx(PTX)?.kernel("black_scholes")?;
        let [spot, strike, years] = &self.options;
        let n = spot.len() as i32;
        let (spot, strike) = (runtime.upload(spot)?, runtime.upload(strike)?);
        let years = runtime.upload(years)?;
        let call = Rc::new(runtime.upload(&self.call)?);
        let put = Rc::new(runtime.upload(&self.put)?);
        let (rt, out) = (runtime.clone(), (Rc::clone(&call), Rc::clone(&put)));
        let config = LaunchConfig::linear(n as u32, 128);
        Ok(OnDevice::new(
            runtime,
            move || {
                let (call, put) = (&*out.0, &*out.1);
                let arguments = (&spot, &strike, &years, call, put, RATE, VOLATILITY, n);
                rt.launch(&kernel, config, arguments)
            },
            move || Ok(values(&call.to_vec()?, &put.to_vec()?)),
        ))
    }
}
