//! Kernels on every contender that this machine has.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::case::{Case, Group, Scale};
use crate::contender::c::{self, C, Compiler};
use crate::contender::driver::Driver;
use crate::contender::margay::Margay;
use crate::contender::opencl::Platform;
use crate::contender::{Contender, Loaded, checked};
use crate::kernels::CASES;
use crate::measure::{self, Action, Time};

/// Who runs kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Margay,
    C,
    Pocl,
    Driver,
}

impl Kind {
    /// The rivals, in the order of the columns.
    pub(crate) const RIVALS: [Kind; 3] = [Kind::C, Kind::Pocl, Kind::Driver];

    /// The name in headings.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Kind::Margay => "Margay",
            Kind::C => "C, clang",
            Kind::Pocl => "PoCL",
            Kind::Driver => "other driver",
        }
    }
}

/// A contender on so many threads.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Entrant {
    /// Its key in [`Row::times`]: kind and threads.
    pub(crate) id: String,
    pub(crate) kind: Kind,
    /// Threads that it computes with; for another driver those of Margay that it is compared with.
    pub(crate) threads: usize,
    /// Which program, and how it was told to compile.
    pub(crate) about: String,
}

/// A kernel's times.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) data: String,
    /// Whether it is one of the eleven that goals are set for.
    pub(crate) goal: bool,
    /// What a run computes, in elements.
    pub(crate) elements: u64,
    /// Floating-point operations of a run, where that is the measure.
    pub(crate) operations: Option<f64>,
    /// Seconds for a run, by the entrant's id.
    pub(crate) times: BTreeMap<String, Time>,
    /// Why an entrant has no time, by its id.
    pub(crate) failures: BTreeMap<String, String>,
}

impl Row {
    /// The median of an entrant.
    pub(crate) fn median(&self, entrant: &Entrant) -> Option<f64> {
        self.times.get(&entrant.id).map(|time| time.median)
    }
}

/// Everybody who is here.
pub(crate) struct Field {
    contenders: Vec<Box<dyn Contender>>,
    /// As many, in the same order.
    pub(crate) entrants: Vec<Entrant>,
    /// Who is not here, and why.
    pub(crate) missing: Vec<String>,
}

impl Field {
    /// Margay, and the rivals that are found, each on one thread and on as many as Margay has workers.
    ///
    /// # Errors
    /// When Margay does not start, or the other driver that was asked for.
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
            self.missing
                .push("No column for C: there is no clang-19 or clang.".to_owned());
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

    /// Compares and times one kernel.
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
            goal: case.group == Group::Goals,
            elements: work.elements,
            operations: work.operations,
            times: ids.into_iter().zip(times).collect(),
            failures,
        }
    }
}

/// Runs every kernel once through a driver library, with little data; says what it got wrong.
///
/// # Errors
/// When the library cannot be opened or has no device.
pub fn check_driver(path: &str) -> Result<Vec<String>, String> {
    let driver = Driver::open(path).map_err(|e| format!("{path}: {e}"))?;
    Ok(wrong(&driver))
}

/// Which kernels a contender gets wrong, with little data.
pub(crate) fn wrong(contender: &dyn Contender) -> Vec<String> {
    let check = |case: &Case| {
        let work = (case.make)(Scale::Small);
        let checked = checked(contender, case, &work);
        checked.err().map(|e| format!("{}: {e}", case.name))
    };
    CASES.iter().filter_map(check).collect()
}

/// One thread, and all of them.
fn counts(workers: usize) -> impl Iterator<Item = usize> {
    [1, workers]
        .into_iter()
        .take(if workers > 1 { 2 } else { 1 })
}

/// Kernels whose name contains one of these, or all.
///
/// # Errors
/// When there is none.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<&'static Case>, String> {
    let wanted = |case: &&Case| {
        let name = case.name.to_lowercase();
        names.is_empty() || names.iter().any(|n| name.contains(&n.to_lowercase()))
    };
    let chosen: Vec<&Case> = CASES.iter().filter(wanted).collect();
    match chosen.is_empty() {
        true => Err("no kernel has such a name".to_owned()),
        false => Ok(chosen),
    }
}

/// A kernel that was compared, ready to run on Margay.
pub struct Prepared(Box<dyn Loaded>);

impl Prepared {
    /// Loads and compares.
    ///
    /// # Errors
    /// What the runtime reports, or the first wrong value.
    pub fn new(case: &Case, scale: Scale, runtime: &margay::Runtime) -> Result<Prepared, String> {
        let work = (case.make)(scale);
        let contender = Margay(runtime.clone());
        let loaded = checked(&contender, case, &work).map_err(|e| format!("{}: {e}", case.name));
        loaded.map(Prepared)
    }

    /// Runs it once, to its end.
    ///
    /// # Panics
    /// When the kernel fails.
    pub fn run(&mut self) {
        self.0.run().expect("the kernel ran before");
    }
}
