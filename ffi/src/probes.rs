//! Neutrino's probes in the process: `MARGAY_PROBE` and the variables that `margay_trace::probe` lists.

use std::sync::{Arc, OnceLock};

use margay::files::tell;
use margay::observe::Tool;
use margay::probe::Prober;
use margay_trace::probe::{LocalTime, Neutrino, Settings};

/// The probes that the environment requests. A process creates them when it first uses CUDA.
fn neutrino() -> Option<Arc<Neutrino>> {
    static NEUTRINO: OnceLock<Option<Arc<Neutrino>>> = OnceLock::new();
    NEUTRINO.get_or_init(create).clone()
}

/// Creates the probes, and says why if that is not possible.
fn create() -> Option<Arc<Neutrino>> {
    let settings = Settings::from_environment(|name| std::env::var_os(name));
    let settings = settings.inspect_err(|error| {
        tell(format_args!("margay: no kernel is probed: {error}"));
    });
    let neutrino = Neutrino::new(settings.ok()??, now());
    let neutrino = neutrino.inspect_err(|error| {
        tell(format_args!(
            "margay: no kernel is probed: the folder of results: {error}"
        ));
    });
    neutrino.ok().map(Arc::new)
}

/// Returns the prober of the process.
pub(crate) fn prober() -> Option<Arc<dyn Prober>> {
    neutrino().map(|neutrino| neutrino as Arc<dyn Prober>)
}

/// Returns the tool that completes the log of the probes.
pub(crate) fn tool() -> Option<Arc<dyn Tool>> {
    neutrino().map(|neutrino| neutrino as Arc<dyn Tool>)
}

/// Returns the local time.
fn now() -> LocalTime {
    // SAFETY: `time` accepts a null pointer, and all fields of `tm` are numbers or a pointer, for which zeros are valid.
    let (time, mut local) = unsafe { (libc::time(std::ptr::null_mut()), std::mem::zeroed()) };
    // SAFETY: both pointers are valid. If the call fails, the fields stay zero.
    unsafe { libc::localtime_r(&raw const time, &raw mut local) };
    let libc::tm {
        tm_mon,
        tm_mday,
        tm_hour,
        tm_min,
        tm_sec,
        ..
    } = local;
    LocalTime {
        month: tm_mon.unsigned_abs() + 1,
        day: tm_mday.unsigned_abs(),
        hour: tm_hour.unsigned_abs(),
        minute: tm_min.unsigned_abs(),
        second: tm_sec.unsigned_abs(),
    }
}
