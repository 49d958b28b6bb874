//! Poisson distributions in device memory, which kernels of programs pass to `curand_discrete`.
//!
//! The layout is that of the structures in `curand_discrete.h`: a distribution, its table, the table's arrays.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use crate::driver::driver;
use crate::poisson::{Histogram, Poisson};
use crate::status::{Status, need};

/// The sizes of the structures.
const DISTRIBUTION: usize = 48;
const TABLE: usize = 32;
const ARRAYS: usize = 40;

/// `curandMethod`: square histogram, rounded normal numbers.
const M2: u32 = 5;
const DISCRETE_GAUSS: u32 = 7;

/// The distributions that exist.
static ALL: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// Creates a distribution and returns its address.
pub(crate) fn create(mean: f64) -> Result<usize, Status> {
    need(Poisson::accepts(mean), Status::OutOfRange)?;
    let driver = driver()?;
    driver.enter()?;
    let address = if Poisson::is_large(mean) {
        driver.store(DISTRIBUTION, |_| {
            let numbers = [0, 0, 0, mean.sqrt().to_bits(), mean.to_bits()];
            let mut bytes: Vec<u8> = numbers
                .iter()
                .flat_map(|number| number.to_le_bytes())
                .collect();
            bytes.extend(u64::from(DISCRETE_GAUSS).to_le_bytes());
            bytes
        })?
    } else {
        let histogram = Histogram::new(mean);
        let count = histogram.limits.len();
        driver.store(DISTRIBUTION + TABLE + ARRAYS + 12 * count, |start| {
            let table = start + DISTRIBUTION;
            let arrays = table + TABLE;
            let limits = arrays + ARRAYS;
            let distribution = [0, table, 0, 0, 0, M2 as usize];
            // The addresses of the arrays, and the numbers of 32 bits `shift` and `length`.
            let table = [arrays, 0, histogram.shift as usize | count << 32, 0];
            let arrays = [limits, 0, limits + 8 * count, 0, 0];
            let numbers = [&distribution[..], &table, &arrays].concat();
            let mut bytes: Vec<u8> = numbers
                .iter()
                .flat_map(|number| number.to_le_bytes())
                .collect();
            bytes.extend(
                histogram
                    .limits
                    .iter()
                    .flat_map(|limit| limit.to_le_bytes()),
            );
            bytes.extend(
                histogram
                    .others
                    .iter()
                    .flat_map(|other| other.to_le_bytes()),
            );
            bytes
        })?
    };
    ALL.lock().insert(address);
    Ok(address)
}

/// Frees a distribution.
pub(crate) fn destroy(address: usize) -> Result<(), Status> {
    need(ALL.lock().remove(&address), Status::NotInitialized)?;
    driver()?.free(address)
}
