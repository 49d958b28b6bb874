//! Compares the times of kernels on all contenders that are available on this machine.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::case::{Case, Group, Scale, Set};
use crate::contender::c::{self, C, Compiler};
use crate::contender::driver::Driver;
use crate::contender::margay::Margay;
use crate::contender::opencl::Platform;
use crate::contender::{Contender, Loaded, checked};
use crate::kernels;
use crate::machine;
use crate::measure::{self, Action, Time};

/// The kinds of contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Margay,
    C,
    Pocl,
    Driver,
}

impl Kind {
    /// The contenders with which Margay is compared, in the order of the columns.
    pub(crate) const RIVALS: [Kind; 3] = [Kind::C, Kind::Pocl, Kind::Driver];

    /// Returns the name with which the result tables denote contenders of this kind.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Kind::Margay => "Margay",
            Kind::C => "C, clang",
            Kind::Pocl => "PoCL",
            Kind::Driver => "other driver",
        }
    }
}

/// A contender that runs with a given number of threads.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Entrant {
    /// The key in [`Row::times`], which consists of the kind and the number of threads.
    pub(crate) id: String,
    pub(crate) kind: Kind,
    /// Number of threads. Another driver chooses its number of threads itself; for such a driver, this field is the
    /// number of threads of the Margay entrant with which the driver is compared.
    pub(crate) threads: usize,
    /// Name and version of the compiler, driver or runtime with which the contender runs kernels,
    /// and its options.
    pub(crate) about: String,
}

/// The times of a kernel on all entrants.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) data: String,
    pub(crate) set: Set,
    /// Whether the kernel is one of the eleven kernels for which goals are set.
    pub(crate) goal: bool,
    /// Number of elements that a run processes ([`Work::elements`](crate::work::Work::elements)).
    pub(crate) elements: u64,
    /// Number of floating-point operations of a run, if they can limit the kernel.
    pub(crate) operations: Option<f64>,
    /// The least number of bytes that a run reads and writes ([`Work::least_bytes`](crate::work::Work::least_bytes)).
    pub(crate) bytes: u64,
    /// Whether the inputs and results fit into the second-level cache of a core.
    pub(crate) cached: bool,
    /// The time of a run in seconds on each entrant. The key is the entrant's ID.
    pub(crate) times: BTreeMap<String, Time>,
    /// For each entrant without a time, by its ID: the reason.
    pub(crate) failures: BTreeMap<String, String>,
}

impl Row {
    /// Returns the median time in seconds that `entrant` needs for a run; `None` if it was not
    /// measured.
    pub(crate) fn median(&self, entrant: &Entrant) -> Option<f64> {
        self.times.get(&entrant.id).map(|time| time.median)
    }
}

/// The contenders that are available on this machine, with the entrants made of them.
pub(crate) struct Field {
    contenders: Vec<Box<dyn Contender>>,
    /// The entrants, one for each element of `contenders`, in the order of `contenders`.
    pub(crate) entrants: Vec<Entrant>,
    /// For each contender that is not available, a message with the reason.
    pub(crate) missing: Vec<String>,
}

impl Field {
    /// Finds the contenders on this machine. Each of Margay, C and PoCL, if available, becomes an entrant with one
    /// thread. If Margay has more than one worker, each also becomes an entrant with as many threads as Margay has
    /// workers. The driver library at the path `driver`, if given, becomes one entrant.
    ///
    /// # Errors
    /// Returns an error if Margay or a thread pool does not start, or if the driver at `driver` cannot be
    /// opened.
    pub(crate) fn find(driver: Option<&str>) -> Result<Field, String> {
        let all = Margay::with_workers(None)?;
        let workers = all.0.workers();
        let mut field = Field {
            contenders: Vec::new(),
            entrants: Vec::new(),
            missing: Vec::new(),
        };
        let about = format!("Margay {}", env!("CARGO_PKG_VERSION"));
        if workers > 1 {
            field.add(Kind::Margay, 1, &about, Margay::with_workers(Some(1))?);
        }
        field.add(Kind::Margay, workers, &about, all);
        field.find_c(workers)?;
        field.find_pocl(workers);
        if let Some(path) = driver {
            let driver = Driver::open(path).map_err(|e| format!("{path}: {e}"))?;
            let about = driver.name.clone();
            field.add(Kind::Driver, workers, &about, driver);
        }
        Ok(field)
    }

    fn add(
        &mut self,
        kind: Kind,
        threads: usize,
        about: &str,
        contender: impl Contender + 'static,
    ) {
        self.contenders.push(Box::new(contender));
        self.entrants.push(Entrant {
            id: format!("{kind:?}-{threads}").to_lowercase(),
            kind,
            threads,
            about: about.to_owned(),
        });
    }

    fn find_c(&mut self, workers: usize) -> Result<(), String> {
        let Some(compiler) = Compiler::clang() else {
            self.missing.push(
                "No column for C: no clang-19 or clang with _Float16 is installed.".to_owned(),
            );
            return Ok(());
        };
        let about = format!("{}, {}", compiler.version, c::OPTIONS.join(" "));
        for threads in counts(workers) {
            self.add(Kind::C, threads, &about, C::new(compiler.clone(), threads)?);
        }
        Ok(())
    }

    fn find_pocl(&mut self, workers: usize) {
        let devices = Platform::pocl().and_then(|platform| {
            let devices = counts(workers).map(|cores| Ok((cores, platform.with_cores(cores)?)));
            Ok((
                platform.name.clone(),
                devices.collect::<Result<Vec<_>, String>>()?,
            ))
        });
        match devices {
            Ok((about, devices)) => {
                for (cores, device) in devices {
                    self.add(Kind::Pocl, cores, &about, device);
                }
            }
            Err(why) => self.missing.push(format!("No column for PoCL: {why}.")),
        }
    }

    /// Runs the kernel of `case` on every entrant, compares the results with the expected results,
    /// and then measures the times.
    pub(crate) fn measure(&self, case: &Case, scale: Scale) -> Row {
        let work = (case.make)(scale);
        let (mut loaded, mut failures) = (Vec::new(), BTreeMap::new());
        for (entrant, contender) in self.entrants.iter().zip(&self.contenders) {
            match checked(&**contender, case, &work) {
                Ok(ready) => loaded.push((entrant.id.clone(), ready)),
                Err(why) => {
                    failures.insert(entrant.id.clone(), why);
                }
            }
        }
        let (ids, mut ready): (Vec<String>, Vec<Box<dyn Loaded>>) = loaded.into_iter().unzip();
        let actions = ready.iter_mut().map(|ready| -> Action<'_> {
            Box::new(|| ready.run().expect("the kernel ran before"))
        });
        let times = measure::in_turns(&mut actions.collect::<Vec<_>>());
        Row {
            name: case.name.to_owned(),
            data: match scale {
                Scale::Full => case.size.to_owned(),
                Scale::Small => "a little".to_owned(),
            },
            set: case.group.set(),
            goal: case.group == Group::Goals,
            elements: work.elements,
            operations: work.operations,
            bytes: work.least_bytes(),
            cached: work.footprint() <= machine::second_level_cache(),
            times: ids.into_iter().zip(times).collect(),
            failures,
        }
    }
}

/// Runs every kernel once through a driver library, with little data. Returns a message for each kernel that fails or
/// has a wrong result.
///
/// # Errors
/// Returns an error if the library cannot be opened or has no device.
pub fn check_driver(path: &str) -> Result<Vec<String>, String> {
    let driver = Driver::open(path).map_err(|e| format!("{path}: {e}"))?;
    Ok(wrong(&driver))
}

/// Runs every kernel once on a contender, with little data. Returns a message for each kernel that fails or has a wrong
/// result.
pub(crate) fn wrong(contender: &dyn Contender) -> Vec<String> {
    let check = |case: &Case| {
        let work = (case.make)(Scale::Small);
        let checked = checked(contender, case, &work);
        checked.err().map(|e| format!("{}: {e}", case.name))
    };
    kernels::all().filter_map(check).collect()
}

/// Returns the number of workers of a runtime with default settings.
///
/// # Errors
/// Returns an error if the runtime does not start.
pub(crate) fn workers() -> Result<usize, String> {
    Ok(Margay::with_workers(None)?.0.workers())
}

/// Returns the numbers of threads with which contenders are measured: one and, if there is more than one worker, the
/// number of workers.
pub(crate) fn counts(workers: usize) -> impl Iterator<Item = usize> {
    [1, workers]
        .into_iter()
        .take(if workers > 1 { 2 } else { 1 })
}

/// Returns the kernels of the set, or of all sets, whose name contains one of `names`. If `names` is empty, returns all
/// kernels of the set.
///
/// # Errors
/// Returns an error if no kernel's name contains one of `names`.
pub(crate) fn chosen(set: Option<Set>, names: &[String]) -> Result<Vec<&'static Case>, String> {
    let wanted = |case: &&Case| {
        let name = case.name.to_lowercase();
        names.is_empty() || names.iter().any(|n| name.contains(&n.to_lowercase()))
    };
    let in_set = |case: &&Case| set.is_none_or(|set| case.group.set() == set);
    let chosen: Vec<&Case> = kernels::all().filter(in_set).filter(wanted).collect();
    match chosen.is_empty() {
        true => Err(match set {
            Some(set) => format!("no kernel of the {} set has such a name", set.name()),
            None => "no kernel has such a name".to_owned(),
        }),
        false => Ok(chosen),
    }
}

/// A kernel that is loaded on Margay and whose results have been compared with the expected results.
pub struct Prepared(Box<dyn Loaded>);

impl Prepared {
    /// Loads the kernel and compares its results with the expected results.
    ///
    /// # Errors
    /// Returns the error of the runtime, or an error that describes the first wrong value.
    pub fn new(case: &Case, scale: Scale, runtime: &margay::Runtime) -> Result<Prepared, String> {
        let work = (case.make)(scale);
        let contender = Margay(runtime.clone());
        let loaded = checked(&contender, case, &work).map_err(|e| format!("{}: {e}", case.name));
        loaded.map(Prepared)
    }

    /// Runs the kernel once and waits for its end.
    ///
    /// # Panics
    /// Panics if the kernel fails.
    pub fn run(&mut self) {
        self.0.run().expect("the kernel ran before");
    }
}
