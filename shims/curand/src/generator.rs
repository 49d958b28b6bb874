//! Generators: what a program sets for them, and the calls that make results.

use std::ffi::CStr;
use std::sync::{Arc, OnceLock};

use crate::driver::driver;
use crate::engine::Kind;
use crate::output::Output;
use crate::poisson::{Method, Poisson};
use crate::pool::{Job, Pool, Sequence};
use crate::quasi::{Quasi, QuasiJob};
use crate::status::{Outcome, Status, need};
use crate::{mrg, mt19937, mtgp, original, philox, sobol, xorwow};

/// The type of a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Xorwow,
    Mrg,
    Mtgp,
    Mt,
    Philox,
    Sobol { wide: bool, scrambled: bool },
}

impl Type {
    /// Returns the type for a `curandRngType_t`.
    pub(crate) fn of(number: i32) -> Option<Type> {
        Some(match number {
            // `CURAND_RNG_TEST`, which NVIDIA does not document, is the default generator here.
            0 | 100 | 101 => Type::Xorwow,
            121 => Type::Mrg,
            141 => Type::Mtgp,
            142 => Type::Mt,
            161 => Type::Philox,
            200 | 201 => Type::Sobol {
                wide: false,
                scrambled: false,
            },
            202 => Type::Sobol {
                wide: false,
                scrambled: true,
            },
            203 => Type::Sobol {
                wide: true,
                scrambled: false,
            },
            204 => Type::Sobol {
                wide: true,
                scrambled: true,
            },
            _ => return None,
        })
    }

    fn is_quasi(self) -> bool {
        matches!(self, Type::Sobol { .. })
    }
}

/// The orderings of `curandOrdering_t`.
mod ordering {
    pub(super) const BEST: i32 = 100;
    pub(super) const DEFAULT: i32 = 101;
    pub(super) const SEEDED: i32 = 102;
    pub(super) const LEGACY: i32 = 103;
    pub(super) const DYNAMIC: i32 = 104;
    pub(super) const QUASI: i32 = 201;
}

/// A generator.
pub(crate) struct Generator {
    kind: Type,
    /// Whether results are in the host's memory and made during the call.
    host: bool,
    ordering: i32,
    seed: u64,
    offset: u64,
    dimensions: usize,
    stream: usize,
    progress: Progress,
}

/// What a generator has made so far.
enum Progress {
    /// Nothing since the last change of a setting.
    Nothing,
    /// The next lane, and the results that have been taken of its next unit.
    Lanes(Arc<dyn Sequence>, usize, usize),
    /// The index of the next point.
    Points(Arc<Quasi>, u64),
}

impl Generator {
    /// Returns a generator with the settings that NVIDIA documents as defaults.
    pub(crate) fn new(kind: Type, host: bool) -> Generator {
        let ordering = if kind.is_quasi() {
            ordering::QUASI
        } else {
            ordering::DEFAULT
        };
        Generator {
            kind,
            host,
            ordering,
            seed: 0,
            offset: 0,
            dimensions: 1,
            stream: 0,
            progress: Progress::Nothing,
        }
    }

    /// Whether results are in the host's memory.
    pub(crate) fn is_host(&self) -> bool {
        self.host
    }

    pub(crate) fn set_stream(&mut self, stream: usize) {
        self.stream = stream;
    }

    pub(crate) fn set_seed(&mut self, seed: u64) -> Outcome {
        need(!self.kind.is_quasi(), Status::TypeError)?;
        (self.seed, self.progress) = (seed, Progress::Nothing);
        Ok(())
    }

    pub(crate) fn set_offset(&mut self, offset: u64) -> Outcome {
        need(
            !matches!(self.kind, Type::Mtgp | Type::Mt),
            Status::TypeError,
        )?;
        (self.offset, self.progress) = (offset, Progress::Nothing);
        Ok(())
    }

    pub(crate) fn set_ordering(&mut self, ordering: i32) -> Outcome {
        use ordering::{BEST, DEFAULT, DYNAMIC, LEGACY, QUASI, SEEDED};
        let valid = match (self.kind, ordering) {
            (Type::Sobol { .. }, ordering) => ordering == QUASI,
            (_, DEFAULT | LEGACY) => true,
            (Type::Mt, BEST) => !self.host,
            (Type::Mt, _) => false,
            (Type::Xorwow, SEEDED) | (_, BEST) => true,
            (_, DYNAMIC) => !self.host,
            _ => false,
        };
        need(valid, Status::OutOfRange)?;
        (self.ordering, self.progress) = (ordering, Progress::Nothing);
        Ok(())
    }

    pub(crate) fn set_dimensions(&mut self, dimensions: u32) -> Outcome {
        need(self.kind.is_quasi(), Status::TypeError)?;
        let dimensions = dimensions as usize;
        need(
            (1..=sobol::DIMENSIONS).contains(&dimensions),
            Status::OutOfRange,
        )?;
        (self.dimensions, self.progress) = (dimensions, Progress::Nothing);
        Ok(())
    }

    /// Prepares the generator, as the first call for results does it.
    pub(crate) fn prepare(&mut self) -> Outcome {
        if matches!(self.progress, Progress::Nothing) {
            self.progress = match self.kind {
                Type::Sobol { wide, scrambled } => {
                    let sequence = quasi(wide, scrambled, self.dimensions)?;
                    Progress::Points(Arc::new(sequence), self.offset)
                }
                _ => self.lanes(),
            };
        }
        Ok(())
    }

    fn lanes(&self) -> Progress {
        let (seed, offset) = (self.seed, self.offset);
        let legacy = self.ordering == ordering::LEGACY;
        // The number of results that the lanes have made before an offset, and the next lane.
        let split = move |lanes: usize, offset: u64| {
            let (rows, next) = (offset / lanes as u64, (offset % lanes as u64) as usize);
            (move |lane: usize| rows + u64::from(lane < next), next)
        };
        match self.kind {
            Type::Xorwow => {
                let (steps, next) = split(xorwow::LANES, offset);
                let own_seeds = self.ordering == ordering::SEEDED;
                let pool = Pool::new(xorwow::LANES, 64, move |first, count| match own_seeds {
                    true => xorwow::seeded_lanes(seed, first, count, steps),
                    false => xorwow::lanes(seed, first, count, steps),
                });
                Progress::Lanes(Arc::new(pool), next, 0)
            }
            Type::Mrg => {
                let lanes = mrg::LANES[usize::from(!legacy)];
                let (steps, next) = split(lanes, offset);
                let group = lanes / if legacy { 64 } else { 160 };
                let pool = Pool::new(lanes, group, move |first, count| {
                    mrg::lanes(seed, first, count, steps)
                });
                Progress::Lanes(Arc::new(pool), next, 0)
            }
            Type::Philox => {
                let (steps, next) = split(philox::LANES, offset / 4);
                let pool = Pool::new(philox::LANES, 1024, move |first, count| {
                    philox::lanes(seed, first, count, steps)
                });
                Progress::Lanes(Arc::new(pool), next, (offset % 4) as usize)
            }
            Type::Mtgp => {
                let lanes = mtgp::LANES[usize::from(!legacy)];
                let pool = Pool::new(lanes, lanes / 64, move |first, count| {
                    mtgp::lanes(seed, first, count)
                });
                Progress::Lanes(Arc::new(pool), 0, 0)
            }
            Type::Mt | Type::Sobol { .. } => {
                let polynomial = OnceLock::new();
                let pool = Pool::new(mt19937::LANES, 64, move |first, count| {
                    let polynomial = polynomial.get_or_init(|| mt19937::polynomial(seed));
                    mt19937::lanes(polynomial, first, count)
                });
                Progress::Lanes(Arc::new(pool), 0, 0)
            }
        }
    }

    /// Checks whether the generator has results of a kind.
    pub(crate) fn accepts(&self, kind: &Kind) -> Outcome {
        let has_64_bits = matches!(self.kind, Type::Sobol { wide: true, .. });
        let matches = match kind {
            Kind::Bits => !has_64_bits,
            Kind::LongBits => has_64_bits,
            _ => true,
        };
        need(matches, Status::TypeError)
    }

    /// Returns the distribution with a mean by the method that NVIDIA's library chooses for the generator.
    pub(crate) fn poisson(&self, mean: f64) -> Poisson {
        let method = match self.kind {
            _ if mean > 8000.0 => Method::Normal,
            Type::Sobol { wide: true, .. } if Poisson::is_large(mean) => Method::Normal,
            Type::Sobol { wide: true, .. } => Method::Inverse,
            Type::Sobol { .. } if mean >= 10.0 => Method::Inverse,
            Type::Mtgp if mean >= 32.0 => Method::Inverse,
            Type::Sobol { .. } | Type::Mtgp => Method::Histogram,
            _ if Poisson::is_large(mean) => Method::Normal,
            _ => Method::Histogram,
        };
        Poisson::new(mean, method)
    }

    /// Makes results: in the host's memory during the call, otherwise in device memory in the order of the stream.
    ///
    /// # Safety
    /// The memory of a host generator is writable. That of others is checked by the driver.
    pub(crate) unsafe fn generate(
        &mut self,
        name: &'static CStr,
        kind: Kind,
        address: usize,
        count: usize,
    ) -> Outcome {
        self.accepts(&kind)?;
        self.prepare()?;
        let bytes = count
            .checked_mul(kind.size())
            .filter(|&bytes| bytes < 1 << 47);
        let bytes = bytes.ok_or(Status::OutOfRange)?;
        match &self.progress {
            Progress::Points(..) => need(
                count.is_multiple_of(self.dimensions),
                Status::LengthNotMultiple,
            )?,
            Progress::Lanes(sequence, ..) => {
                let pairs = sequence.unit(&kind) == 2;
                need(!pairs || count.is_multiple_of(2), Status::LengthNotMultiple)?;
            }
            Progress::Nothing => {}
        }
        if count == 0 {
            return Ok(());
        }
        need(
            address != 0 && address.is_multiple_of(kind.size()),
            Status::LaunchFailure,
        )?;
        // SAFETY: the caller guarantees the host's memory; the driver checks device memory before tasks run.
        let output = unsafe { Output::new(address, count) };
        match &mut self.progress {
            Progress::Lanes(sequence, lane, skip) => {
                let job = Job {
                    kind,
                    lane: *lane,
                    skip: *skip,
                    output,
                };
                let unit = sequence.unit(&job.kind);
                let end = *skip + count;
                (*lane, *skip) = ((*lane + end / unit) % sequence.lanes(), end % unit);
                let (sequence, tasks) = (sequence.clone(), sequence.tasks(&job));
                self.submit(name, tasks, (address, bytes), move |task| {
                    sequence.run(&job, task)
                })
            }
            Progress::Points(sequence, first) => {
                let job = QuasiJob {
                    kind,
                    sequence: sequence.clone(),
                    first: *first,
                    output,
                };
                *first = first.wrapping_add((count / self.dimensions) as u64);
                self.submit(name, job.tasks(), (address, bytes), move |task| {
                    job.run(task)
                })
            }
            Progress::Nothing => Err(Status::InternalError),
        }
    }

    fn submit(
        &self,
        name: &'static CStr,
        tasks: usize,
        range: (usize, usize),
        run: impl Fn(usize) + Send + Sync + 'static,
    ) -> Outcome {
        if self.host {
            (0..tasks).for_each(run);
            return Ok(());
        }
        let driver = driver()?;
        driver.enter()?;
        driver.launch(self.stream, name, tasks, range, Box::new(run))
    }
}

/// Returns the sequence of some dimensions.
fn quasi(wide: bool, scrambled: bool, dimensions: usize) -> Result<Quasi, Status> {
    let all = match scrambled {
        true => &original::tables()?.vectors64[..],
        false => sobol::vectors64(),
    };
    let count = if wide { 64 } else { 32 };
    let vectors = all[..dimensions]
        .iter()
        .map(|vectors| vectors[..count].to_vec());
    let constants = match scrambled {
        true => original::tables()?.constants64[..dimensions].to_vec(),
        false => vec![0; dimensions],
    };
    Ok(Quasi {
        wide,
        vectors: vectors.collect(),
        constants,
    })
}
