//! The lanes of a pseudorandom generator, and the tasks that let them make results.
//!
//! Lanes are divided into groups. A task belongs to a group, and computes all results of its lanes. Groups are seeded when
//! a task first needs them, so results do not depend on the number of workers, and unused lanes cost nothing.

use parking_lot::Mutex;

use crate::engine::{Kind, Lane};
use crate::output::{Output, write_mapped};

/// A call: which results to make.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) kind: Kind,
    /// The lane of the first unit.
    pub(crate) lane: usize,
    /// How many results of the first unit earlier calls have taken.
    pub(crate) skip: usize,
    pub(crate) output: Output,
}

/// A function that returns lanes: `count` from a first one.
type Seeder<L> = Box<dyn Fn(usize, usize) -> Vec<L> + Send + Sync>;

/// The lanes of a generator.
pub(crate) struct Pool<L> {
    seeder: Seeder<L>,
    groups: Vec<Mutex<Option<Vec<L>>>>,
    group: usize,
}

/// The lanes of any generator.
pub(crate) trait Sequence: Send + Sync {
    /// The number of lanes.
    fn lanes(&self) -> usize;
    /// The number of results of a unit.
    fn unit(&self, kind: &Kind) -> usize;
    /// The number of tasks of a job.
    fn tasks(&self, job: &Job) -> usize;
    /// Runs a task of a job.
    fn run(&self, job: &Job, task: usize);
}

impl<L: Lane> Pool<L> {
    /// Returns the pool of `lanes` lanes in groups of `group`.
    pub(crate) fn new(
        lanes: usize,
        group: usize,
        seeder: impl Fn(usize, usize) -> Vec<L> + Send + Sync + 'static,
    ) -> Pool<L> {
        Pool {
            seeder: Box::new(seeder),
            groups: (0..lanes / group).map(|_| Mutex::new(None)).collect(),
            group,
        }
    }

    /// Makes the results of a group's lanes.
    fn fill<T: Copy + Default>(&self, job: &Job, group: usize, make: impl Fn(&mut L, &mut [T])) {
        let mut guard = self.groups[group].lock();
        let first = group * self.group;
        let lanes = guard.get_or_insert_with(|| (self.seeder)(first, self.group));
        let (width, total) = (L::unit(&job.kind), self.lanes());
        let end = job.skip + job.output.count();
        let units = end.div_ceil(width);
        let mut spare = vec![T::default(); width];
        for row in (0..units).step_by(total) {
            for (index, lane) in lanes.iter_mut().enumerate() {
                let unit = row + (first + index + total - job.lane) % total;
                if unit >= units {
                    continue;
                }
                let (from, to) = (unit * width, (unit + 1) * width);
                if from >= job.skip && to <= end {
                    make(lane, job.output.part(from - job.skip, width));
                    continue;
                }
                let mut next = lane.clone();
                make(&mut next, &mut spare);
                let (from_kept, to_kept) = (from.max(job.skip), to.min(end));
                let part = job.output.part(from_kept - job.skip, to_kept - from_kept);
                part.copy_from_slice(&spare[from_kept - from..to_kept - from]);
                if to <= end {
                    *lane = next;
                }
            }
        }
    }
}

impl<L: Lane> Sequence for Pool<L> {
    fn lanes(&self) -> usize {
        self.groups.len() * self.group
    }

    fn unit(&self, kind: &Kind) -> usize {
        L::unit(kind)
    }

    fn tasks(&self, job: &Job) -> usize {
        let units = (job.skip + job.output.count()).div_ceil(L::unit(&job.kind));
        let lanes = units.saturating_add(job.lane % self.group);
        lanes.div_ceil(self.group).min(self.groups.len())
    }

    fn run(&self, job: &Job, task: usize) {
        let group = (job.lane / self.group + task) % self.groups.len();
        match &job.kind {
            Kind::Bits => self.fill(job, group, L::bits),
            Kind::Uniform => self.fill(job, group, L::uniform),
            Kind::UniformDouble => self.fill(job, group, L::uniform_double),
            Kind::Normal(mean, deviation) => self.fill(job, group, |lane, out| {
                L::normal(lane, out);
                write_mapped(out, |z: f32| mean + deviation * z);
            }),
            Kind::NormalDouble(mean, deviation) => self.fill(job, group, |lane, out| {
                L::normal_double(lane, out);
                write_mapped(out, |z: f64| mean + deviation * z);
            }),
            Kind::LogNormal(mean, deviation) => self.fill(job, group, |lane, out| {
                L::normal(lane, out);
                write_mapped(out, |z: f32| (mean + deviation * z).exp());
            }),
            Kind::LogNormalDouble(mean, deviation) => self.fill(job, group, |lane, out| {
                L::exponent_double(lane, out);
                write_mapped(out, |z: f64| (mean + deviation * z).exp());
            }),
            Kind::Poisson(poisson) => {
                self.fill(job, group, |lane, out| L::poisson(lane, poisson, out));
            }
            // Only quasirandom generators have 64 bits; the caller has checked this.
            Kind::LongBits => {}
        }
    }
}
