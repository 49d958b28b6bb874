//! Computes the least time that a kernel needs on this machine, from the limits of the machine and the least work of
//! the kernel.
//!
//! A kernel reads each byte of its inputs and writes each byte of its results at least once, and performs a least
//! number of floating-point operations. Each of these numbers, divided by the machine's rate, is a lower bound of the
//! time. The larger bound is the kernel's least time.

use crate::comparison::Row;
use crate::limits::{Limit, Resource, best};

/// The least time of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LeastTime {
    /// Seconds of a run.
    pub(crate) seconds: f64,
    /// The resource that limits the kernel.
    pub(crate) by: Resource,
}

impl LeastTime {
    /// Computes the least time of a kernel with a number of threads; `None` if the limits were not measured.
    pub(crate) fn of(row: &Row, limits: &[Limit], threads: usize) -> Option<LeastTime> {
        let data = match row.cached {
            true => Resource::Cache,
            false => Resource::Memory,
        };
        let amounts = [
            (Some(row.bytes as f64), data),
            (row.operations, Resource::MultiplyAdds),
        ];
        let bounds = amounts.into_iter().filter_map(|(amount, by)| {
            let seconds = amount? / best(limits, by, threads)?;
            Some(LeastTime { seconds, by })
        });
        bounds.max_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }

    /// Formats the part of a measured time that the least time is, with the resource that limits the kernel.
    pub(crate) fn share(self, seconds: f64) -> String {
        let percent = 100.0 * self.seconds / seconds;
        let digits = usize::from(percent < 9.95);
        let by = match self.by {
            Resource::Memory => "memory",
            Resource::Cache => "L2",
            Resource::MultiplyAdds => "flops",
            Resource::Gathers => "gathers",
        };
        format!("{percent:.digits$} % {by}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::case::Set;
    use crate::measure::Time;

    fn limit(resource: Resource, rate: f64) -> Limit {
        Limit {
            what: "a limit",
            resource,
            threads: 1,
            unit: "bytes",
            each: rate,
            time: Time {
                median: 1.0,
                spread: 1.0,
                samples: vec![1.0],
            },
            bits: None,
        }
    }

    fn row(bytes: u64, operations: Option<f64>) -> Row {
        Row {
            name: String::new(),
            data: String::new(),
            set: Set::First,
            goal: false,
            elements: 1,
            operations,
            bytes,
            cached: false,
            times: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }

    #[test]
    fn the_larger_bound_is_the_least_time() {
        let limits = [
            limit(Resource::Memory, 10.0),
            limit(Resource::Memory, 20.0),
            limit(Resource::Cache, 1000.0),
            limit(Resource::MultiplyAdds, 100.0),
        ];
        let of = |bytes, operations| LeastTime::of(&row(bytes, operations), &limits, 1);
        let memory = LeastTime {
            seconds: 3.0,
            by: Resource::Memory,
        };
        assert_eq!(of(60, None), Some(memory));
        assert_eq!(of(60, Some(100.0)), Some(memory));
        let operations = LeastTime {
            seconds: 5.0,
            by: Resource::MultiplyAdds,
        };
        assert_eq!(of(60, Some(500.0)), Some(operations));
        assert_eq!(LeastTime::of(&row(60, None), &limits, 2), None);
        assert_eq!(memory.share(6.0), "50 % memory");
        assert_eq!(operations.share(100.0), "5.0 % flops");
    }
}
