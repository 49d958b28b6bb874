//! Measures the limits of the machine: the bandwidth of memory and of the second-level cache, the rate of multiply-adds
//! for each width of vector registers, and the rate of gathers.
//!
//! Each limit is measured with one thread and with all threads. The buffers for the bandwidth of memory are larger than
//! every cache. Sums and multiply-adds use several accumulators, so that no operation waits for the previous one and
//! only the execution units limit the rate.

use std::sync::Mutex;

use rayon::ThreadPool;
use serde::Serialize;

use crate::data::Random;
use crate::measure::{self, Time};

#[cfg(not(target_arch = "x86_64"))]
#[path = "other.rs"]
mod wide;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod wide;

pub(crate) mod waking;

/// What a limit is the limit of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Resource {
    /// The bandwidth of memory.
    Memory,
    /// The bandwidth of the second-level cache.
    Cache,
    /// The execution units for multiply-adds of floats.
    MultiplyAdds,
    /// Loads of floats at indices in a vector register.
    Gathers,
}

/// A measured limit.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Limit {
    pub(crate) what: &'static str,
    pub(crate) resource: Resource,
    /// Number of threads, each of which processes a part of the data.
    pub(crate) threads: usize,
    /// The unit of [`Limit::each`].
    pub(crate) unit: &'static str,
    /// Number of bytes, operations or elements in one run of all threads, whose time is [`Limit::time`].
    pub(crate) each: f64,
    pub(crate) time: Time,
    /// For limits of multiply-adds and gathers: the width of the vector registers in bits. For other limits: `None`.
    pub(crate) bits: Option<u32>,
}

impl Limit {
    /// Returns the limit as a number of bytes, operations or elements per second. The fastest sample determines it,
    /// because other work on the machine only makes samples slower.
    pub(crate) fn rate(&self) -> f64 {
        self.each / self.time.samples[0]
    }
}

/// Returns the highest rate of a resource with a number of threads, in bytes, operations or elements per second.
pub(crate) fn best(limits: &[Limit], resource: Resource, threads: usize) -> Option<f64> {
    let of_resource = |limit: &&Limit| limit.resource == resource && limit.threads == threads;
    let rates = limits.iter().filter(of_resource).map(Limit::rate);
    rates.max_by(f64::total_cmp)
}

/// Number of floats in a buffer of 256 MiB.
const FLOATS: usize = 1 << 26;
const SMALL: usize = 1 << 16;
/// Number of floats in each of three buffers that fit into the second-level cache of one core, but not into the
/// first-level cache.
const CACHED: usize = 1 << 14;
/// Number of times that a thread processes buffers in the cache in one run.
const REPEATS: usize = 64;
/// Number of times that a thread repeats the multiply-adds in one run.
const TURNS: usize = 1 << 16;

/// A table from which elements are gathered.
struct Table {
    what: &'static str,
    /// Number of floats of the table.
    floats: usize,
    /// Number of random indices. Only so many cache lines of the table are accessed, so a table that is larger than the
    /// caches has more indices than the caches have lines.
    indices: usize,
    /// Number of times that a thread gathers all elements in one run.
    turns: usize,
}

const TABLES: [Table; 3] = [
    Table {
        what: "gathers from 8 KiB",
        floats: 1 << 11,
        indices: 1 << 10,
        turns: 1 << 8,
    },
    Table {
        what: "gathers from 256 KiB",
        floats: 1 << 16,
        indices: 1 << 14,
        turns: 1 << 4,
    },
    Table {
        what: "gathers from 256 MiB",
        floats: 1 << 26,
        indices: 1 << 20,
        turns: 1,
    },
];

/// Measures the limits of this processor with each of these numbers of threads. If `check` is true, uses little data.
///
/// # Errors
/// Returns an error if a thread does not start.
pub(crate) fn measure(
    check: bool,
    threads: impl Iterator<Item = usize>,
) -> Result<Vec<Limit>, String> {
    let mut limits = Vec::new();
    for threads in threads {
        margay::files::tell(format_args!("limits of {threads} threads"));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let bench = Bench {
            pool: pool.map_err(|e| e.to_string())?,
            threads,
        };
        limits.extend(bench.memory(if check { SMALL } else { FLOATS }));
        limits.extend(bench.cache());
        limits.extend(bench.multiply_adds());
        limits.extend(bench.gathers(check));
    }
    Ok(limits)
}

/// The vectors of a = b + 3 c.
struct Vectors {
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
}

impl Vectors {
    fn new(floats: usize) -> Vectors {
        Vectors {
            a: vec![0.0; floats],
            b: vec![1.0; floats],
            c: vec![2.0; floats],
        }
    }

    /// Computes a = b + 3 c with stores into the caches.
    fn triad(&mut self) {
        let pairs = self.b.iter().zip(&self.c);
        for (a, (b, c)) in self.a.iter_mut().zip(pairs) {
            *a = b + 3.0 * c;
        }
    }
}

/// A table of floats, and indices that are less than the table's length.
struct Gather {
    table: Vec<f32>,
    indices: Vec<i32>,
}

impl Gather {
    fn new(floats: usize, indices: usize) -> Gather {
        let bound = u32::try_from(floats).expect("tables are small");
        let mut random = Random::new(60);
        Gather {
            table: (0..floats).map(|i| (i % 128) as f32).collect(),
            indices: random.fill(indices, |r| r.below(bound) as i32),
        }
    }
}

/// Threads that measure limits.
struct Bench {
    pool: ThreadPool,
    threads: usize,
}

impl Bench {
    /// Measures an action that all threads perform at the same time, each with its own data.
    fn time<T: Send>(&self, data: &[Mutex<T>], action: impl Fn(&mut T) + Sync) -> Time {
        measure::alone(|| {
            self.pool.broadcast(|thread| {
                let mut data = data[thread.index()].lock().expect("no thread panicked");
                action(&mut data);
            });
        })
    }

    /// Calls `data` for each thread.
    fn data<T>(&self, data: impl Fn() -> T) -> Vec<Mutex<T>> {
        (0..self.threads).map(|_| Mutex::new(data())).collect()
    }

    fn memory(&self, floats: usize) -> Vec<Limit> {
        let floats = floats / self.threads;
        let data = self.data(|| Vectors::new(floats));
        let row = |what, times: f64, time| Limit {
            what,
            resource: Resource::Memory,
            threads: self.threads,
            unit: "bytes",
            each: times * (4 * floats * self.threads) as f64,
            time,
            bits: None,
        };
        let read = self.time(&data, |vectors| {
            std::hint::black_box(wide::read(&vectors.b));
        });
        let copy = self.time(&data, |vectors| {
            vectors.a.copy_from_slice(std::hint::black_box(&vectors.b));
        });
        let mut rows = vec![
            row("reading", 1.0, read),
            row("copying, read and written bytes", 2.0, copy),
        ];
        if wide::streams() {
            let triad = self.time(&data, |Vectors { a, b, c }| wide::triad(b, c, a));
            let first = data[0].lock().expect("no thread panicked");
            assert_eq!((first.a[0], first.a[floats - 1]), (7.0, 7.0));
            rows.push(row(
                "a = b + 3 c with non-temporal stores, read and written bytes",
                3.0,
                triad,
            ));
        }
        rows
    }

    fn cache(&self) -> Vec<Limit> {
        let data = self.data(|| Vectors::new(CACHED));
        let row = |what, times: usize, time| Limit {
            what,
            resource: Resource::Cache,
            threads: self.threads,
            unit: "bytes",
            each: (4 * CACHED * REPEATS * times * self.threads) as f64,
            time,
            bits: None,
        };
        let read = self.time(&data, |vectors| {
            for _ in 0..REPEATS {
                for values in [&vectors.a, &vectors.b, &vectors.c] {
                    std::hint::black_box(wide::read(std::hint::black_box(values)));
                }
            }
        });
        let triad = self.time(&data, |vectors| {
            for _ in 0..REPEATS {
                std::hint::black_box(&mut *vectors).triad();
            }
        });
        vec![
            row("reading in L2", 3, read),
            row("a = b + 3 c in L2, read and written bytes", 3, triad),
        ]
    }

    fn multiply_adds(&self) -> Vec<Limit> {
        let data = self.data(|| ());
        let peaks = wide::PEAKS.iter().filter(|peak| (peak.available)());
        peaks
            .map(|peak| Limit {
                what: peak.what,
                resource: Resource::MultiplyAdds,
                threads: self.threads,
                unit: "floating-point operations",
                each: (peak.bits / 32) as f64 * 2.0 * (wide::SUMS * TURNS * self.threads) as f64,
                time: self.time(&data, |()| {
                    std::hint::black_box((peak.run)(TURNS));
                }),
                bits: Some(peak.bits),
            })
            .collect()
    }

    fn gathers(&self, check: bool) -> Vec<Limit> {
        let mut limits = Vec::new();
        let small = |table: &&Table| !check || table.floats <= SMALL;
        for table in TABLES.iter().filter(small) {
            let data = self.data(|| Gather::new(table.floats, table.indices));
            for unit in wide::GATHERS.iter().filter(|unit| (unit.available)()) {
                limits.push(Limit {
                    what: table.what,
                    resource: Resource::Gathers,
                    threads: self.threads,
                    unit: "elements",
                    each: (table.indices * table.turns * self.threads) as f64,
                    time: self.time(&data, |gather| {
                        for _ in 0..table.turns {
                            std::hint::black_box((unit.run)(std::hint::black_box(gather)));
                        }
                    }),
                    bits: Some(unit.bits),
                });
            }
        }
        limits
    }
}

/// A loop of multiply-adds in vector registers of a particular width.
struct Peak {
    what: &'static str,
    bits: u32,
    available: fn() -> bool,
    /// Performs [`wide::SUMS`] multiply-adds as many times as the argument states. Returns the sum of the first
    /// elements of the accumulators, so that the optimiser removes no operation.
    run: fn(usize) -> f32,
}

/// A loop of gathers into vector registers of a particular width.
struct GatherUnit {
    bits: u32,
    available: fn() -> bool,
    /// Returns the sum of the elements at all indices.
    run: fn(&Gather) -> f32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_what_they_say() {
        assert_eq!(wide::read(&[1.0; 1000]), 1000.0);
        if wide::streams() {
            let (b, c, mut a) = ([1.0; 100], [2.0; 100], [0.0; 103]);
            wide::triad(&b, &c, &mut a[3..]);
            assert_eq!(a[3..], [7.0; 100]);
        }
        // One iteration computes 0.999 i + 0.5 in accumulator i, for i from 0 to 11.
        for peak in wide::PEAKS.iter().filter(|peak| (peak.available)()) {
            assert!(((peak.run)(1) - (0.999 * 66.0 + 6.0)).abs() < 1e-3);
        }
    }

    #[test]
    fn gathers_sum_the_elements_at_all_indices() {
        let gather = Gather::new(1000, 777);
        let elements = gather.indices.iter().map(|i| gather.table[*i as usize]);
        // The elements are small integers, so the sum is exact in every order.
        let want: f32 = elements.sum();
        for unit in wide::GATHERS.iter().filter(|unit| (unit.available)()) {
            assert_eq!((unit.run)(&gather), want);
        }
    }

    #[test]
    fn limits_are_measured_for_each_number_of_threads() {
        let limits = measure(true, [1, 2].into_iter()).expect("threads start");
        for threads in [1, 2] {
            let memory = best(&limits, Resource::Memory, threads).expect("measured");
            assert!(memory > 0.0);
            assert!(best(&limits, Resource::Cache, threads).is_some());
        }
        assert_eq!(best(&limits, Resource::Memory, 3), None);
    }
}
