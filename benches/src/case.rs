//! A kernel beside the same loop in Rust.
//!
//! A [`Case`] makes [`Work`]: data, the loop on one thread and on all threads of a pool, and the kernel on a
//! runtime. Invariant: work made twice has the same data, so that three runs (one thread, several, device) are
//! compared before any of them is timed.

use margay::Runtime;

/// How much data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Enough to measure.
    Full,
    /// Enough to compare results.
    Small,
}

impl Scale {
    /// One of two sizes.
    pub(crate) fn pick(self, full: usize, small: usize) -> usize {
        match self {
            Scale::Full => full,
            Scale::Small => small,
        }
    }
}

/// What one calculation gave.
pub enum Values {
    /// Must be equal.
    Exact(Vec<u32>),
    /// May differ by this much, relative to the larger of 1 and the value.
    Close(Vec<f32>, f32),
}

impl Values {
    /// Bits of floats that are exact, because the data is.
    pub(crate) fn bits(values: &[f32]) -> Values {
        Values::Exact(values.iter().map(|v| v.to_bits()).collect())
    }

    /// Says where two results differ.
    fn compare(&self, want: &Values) -> Result<(), String> {
        let at = match (self, want) {
            (Values::Exact(got), Values::Exact(want)) => {
                first_difference(got, want, |got, want| got == want)
            }
            (Values::Close(got, tolerance), Values::Close(want, _)) => {
                first_difference(got, want, |got, want| {
                    (got - want).abs() <= tolerance * want.abs().max(1.0)
                })
            }
            _ => Some("results of different kinds".to_owned()),
        };
        at.map_or(Ok(()), Err)
    }
}

fn first_difference<T: std::fmt::Display>(
    got: &[T],
    want: &[T],
    same: impl Fn(&T, &T) -> bool,
) -> Option<String> {
    if got.len() != want.len() {
        return Some(format!("{} values instead of {}", got.len(), want.len()));
    }
    let (index, (got, want)) = got
        .iter()
        .zip(want)
        .enumerate()
        .find(|(_, (got, want))| !same(got, want))?;
    Some(format!("value {index} is {got} instead of {want}"))
}

/// Data and the loop in Rust.
pub trait Work: Send {
    /// The loop on this thread.
    fn serial(&mut self);
    /// The loop on the threads of the current rayon pool.
    fn parallel(&mut self);
    /// What the loop computed.
    fn result(&self) -> Values;
    /// The same data and the kernel on a device.
    ///
    /// # Errors
    /// What the runtime reports.
    fn on_device(&self, runtime: &Runtime) -> margay::Result<OnDevice>;
}

type Action = Box<dyn Fn() -> margay::Result<()>>;
type Reader = Box<dyn Fn() -> margay::Result<Values>>;

/// A kernel with its data on a runtime.
pub struct OnDevice {
    runtime: Runtime,
    launch: Action,
    read: Reader,
}

impl OnDevice {
    /// `launch` starts the kernel, `read` fetches what it computed.
    pub(crate) fn new(
        runtime: &Runtime,
        launch: impl Fn() -> margay::Result<()> + 'static,
        read: impl Fn() -> margay::Result<Values> + 'static,
    ) -> OnDevice {
        OnDevice {
            runtime: runtime.clone(),
            launch: Box::new(launch),
            read: Box::new(read),
        }
    }

    /// Runs the kernel once, to its end.
    ///
    /// # Panics
    /// When the kernel fails.
    pub fn run(&self) {
        let done = (self.launch)().and_then(|()| self.runtime.synchronize());
        done.expect("the kernel ran before");
    }
}

/// A kernel to measure.
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// The data at [`Scale::Full`], in words.
    pub size: &'static str,
    /// Makes the work.
    pub(crate) make: fn(Scale) -> Box<dyn Work>,
}

/// Work whose results were compared, and its kernel on each runtime, compiled.
pub struct Prepared {
    /// The loop in Rust.
    pub work: Box<dyn Work>,
    /// The kernel, one for each runtime that was given.
    pub devices: Vec<OnDevice>,
}

impl Case {
    /// Runs the loop and the kernel everywhere and compares what they computed.
    ///
    /// # Errors
    /// Which result is wrong, or what the runtime reports.
    pub fn prepare(&self, scale: Scale, runtimes: &[&Runtime]) -> Result<Prepared, String> {
        let told = |what: &str, error: String| format!("{} ({what}): {error}", self.name);
        let mut work = (self.make)(scale);
        let devices: Result<Vec<OnDevice>, _> =
            runtimes.iter().map(|r| work.on_device(r)).collect();
        let devices = devices.map_err(|e| told("loading", e.to_string()))?;
        work.serial();
        let want = work.result();
        let mut threads = (self.make)(scale);
        threads.parallel();
        threads
            .result()
            .compare(&want)
            .map_err(|e| told("rayon", e))?;
        for device in &devices {
            let got = (device.launch)()
                .and_then(|()| (device.read)())
                .map_err(|e| told("kernel", e.to_string()))?;
            got.compare(&want).map_err(|e| told("kernel", e))?;
        }
        Ok(Prepared { work, devices })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_results_are_found() {
        let exact = |values: &[u32]| Values::Exact(values.to_vec());
        assert!(exact(&[1, 2]).compare(&exact(&[1, 2])).is_ok());
        assert_eq!(
            exact(&[1, 2]).compare(&exact(&[1, 3])),
            Err("value 1 is 2 instead of 3".to_owned())
        );
        assert!(exact(&[1]).compare(&exact(&[1, 3])).is_err());
        let close = |value| Values::Close(vec![value], 0.01);
        assert!(close(100.5).compare(&close(100.0)).is_ok());
        assert!(close(102.0).compare(&close(100.0)).is_err());
        assert!(close(f32::NAN).compare(&close(1.0)).is_err());
        assert!(close(1.0).compare(&exact(&[1])).is_err());
    }
}
