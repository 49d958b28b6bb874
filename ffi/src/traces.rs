//! The tools that trace a process.
//!
//! `MARGAY_TRACE_ACCELSIM` names the folder for instruction traces. `MARGAY_TRACE_PERFETTO` and `MARGAY_TRACE_CHROME` name
//! folders to which each process writes its timeline. `XPTI_FRAMEWORK_DISPATCHER` and `XPTI_SUBSCRIBERS` request the
//! publication of events to subscribers of XPTI.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use margay::files;
use margay::observe::Tool;
use margay_trace::accelsim::{self, Tracer};
use margay_trace::timeline::{Format, Recorder};
use margay_trace::xpti::Publisher;

static TRACER: OnceLock<Arc<Tracer>> = OnceLock::new();
static RECORDERS: OnceLock<Vec<Arc<Recorder>>> = OnceLock::new();
static PUBLISHER: OnceLock<Arc<Publisher>> = OnceLock::new();

/// Returns whether the environment requests a tool that may want to receive calls.
pub(crate) fn observe_calls() -> bool {
    [
        "MARGAY_TRACE_ACCELSIM",
        "MARGAY_TRACE_PERFETTO",
        "MARGAY_TRACE_CHROME",
        "XPTI_FRAMEWORK_DISPATCHER",
    ]
    .iter()
    .any(|name| std::env::var_os(name).is_some())
}

/// Creates the tools that the environment requests. Prints a message if one cannot be created.
pub(crate) fn tools() -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    if let Some(folder) = std::env::var_os("MARGAY_TRACE_ACCELSIM") {
        match tracer(&folder) {
            Ok(tracer) => {
                let tracer = Arc::new(tracer);
                let _ = TRACER.set(Arc::clone(&tracer));
                tools.push(tracer);
            }
            Err(error) => files::tell(format_args!("margay: nothing is traced: {error}")),
        }
    }
    let recorders = recorders();
    tools.extend(
        recorders
            .iter()
            .map(|recorder| Arc::clone(recorder) as Arc<dyn Tool>),
    );
    let _ = RECORDERS.set(recorders);
    match Publisher::start() {
        Ok(Some(publisher)) => {
            let publisher = Arc::new(publisher);
            let _ = PUBLISHER.set(Arc::clone(&publisher));
            tools.push(publisher);
            // SAFETY: the function has the type that `atexit` calls, and the library is never unloaded.
            unsafe { libc::atexit(end_publication) };
        }
        Ok(None) => {}
        Err(warning) => files::tell(format_args!("margay: {warning}")),
    }
    tools
}

/// Completes the files of the tools.
pub(crate) fn finish() {
    if let Some(tracer) = TRACER.get() {
        tracer.finish();
    }
    for recorder in RECORDERS.get().map_or(&[][..], Vec::as_slice) {
        if let Err(error) = recorder.finish() {
            files::tell(format_args!("margay: the timeline is incomplete: {error}"));
        }
    }
}

/// Ends the publication to XPTI subscribers. The function is registered after the framework has been loaded, so it runs
/// before the framework's own destructors.
extern "C" fn end_publication() {
    let _ = std::panic::catch_unwind(|| {
        if let Some(publisher) = PUBLISHER.get() {
            publisher.finish();
        }
    });
}

/// Creates the recorders of timelines that the environment requests.
fn recorders() -> Vec<Arc<Recorder>> {
    let wanted = [
        ("MARGAY_TRACE_PERFETTO", "pftrace", Format::Perfetto),
        ("MARGAY_TRACE_CHROME", "json", Format::Chrome),
    ];
    let recorders = wanted.into_iter().filter_map(|(variable, suffix, format)| {
        let folder = PathBuf::from(std::env::var_os(variable)?);
        let file = folder.join(format!("{}.{suffix}", std::process::id()));
        let created =
            std::fs::create_dir_all(&folder).and_then(|()| Recorder::create(&file, format));
        match created {
            Ok(recorder) => Some(Arc::new(recorder)),
            Err(error) => {
                let file = file.display();
                files::tell(format_args!(
                    "margay: there is no timeline: {file}: {error}"
                ));
                None
            }
        }
    });
    recorders.collect()
}

fn tracer(folder: &OsString) -> Result<Tracer, String> {
    let folder = own_folder(Path::new(folder));
    let options = accelsim::Options::from_environment(|name| std::env::var_os(name))?;
    Tracer::new(&folder, options).map_err(|error| format!("{}: {error}", folder.display()))
}

/// Returns the folder of this process: the given one for the first process, and a folder in it for others.
fn own_folder(folder: &Path) -> PathBuf {
    let first = std::fs::create_dir_all(folder).and_then(|()| {
        let owner = folder.join("process");
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).open(owner)?;
        std::io::Write::write_all(&mut file, format!("{}\n", std::process::id()).as_bytes())
    });
    match first {
        Ok(()) => folder.to_owned(),
        Err(_) => folder.join(format!("process-{}", std::process::id())),
    }
}
