//! The profiler of processes that `margay profile` runs.
//!
//! `MARGAY_PROFILE` names a folder. Each process that uses the library writes its profile to a file in this folder when
//! it exits, and from time to time before, because a process can be killed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use margay::files;
use margay::observe::Tool;
use margay_profile::{Options, Profiler};

static PROFILER: OnceLock<Arc<Profiler>> = OnceLock::new();

/// Writes the profile of the process, if there is one.
pub(crate) fn save() {
    if let Some(profiler) = PROFILER.get() {
        profiler.save();
    }
}

/// Creates the profiler that the environment variables request.
pub(crate) fn tools() -> Vec<Arc<dyn Tool>> {
    let Some(folder) = std::env::var_os("MARGAY_PROFILE") else {
        return Vec::new();
    };
    let counts = std::env::var_os("MARGAY_PROFILE_COUNTS");
    // The program can change its working directory before the profile is written.
    let folder = std::path::absolute(&folder).unwrap_or_else(|_| PathBuf::from(folder));
    if let Err(error) = std::fs::create_dir_all(&folder) {
        let folder = folder.display();
        files::tell(format_args!(
            "margay: there is no profile: {folder}: {error}"
        ));
        return Vec::new();
    }
    let file = folder.join(format!("{}.json", std::process::id()));
    let profiler = Arc::new(Profiler::new(options(counts)).saving_to(file));
    match PROFILER.set(Arc::clone(&profiler)) {
        Ok(()) => profiler.tools(),
        Err(_) => Vec::new(),
    }
}

/// Returns the options that the value of `MARGAY_PROFILE_COUNTS` names: `launches`, `instructions`, `reuse`, or, by
/// default, instructions and accesses.
fn options(counts: Option<OsString>) -> Options {
    let all = Options::default();
    match counts.as_deref().and_then(|text| text.to_str()) {
        Some("launches") => Options {
            instructions: false,
            accesses: false,
            ..all
        },
        Some("instructions") => Options {
            accesses: false,
            ..all
        },
        Some("reuse") => Options { reuse: true, ..all },
        _ => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_selects_what_is_counted() {
        let of = |text: Option<&str>| options(text.map(OsString::from));
        assert_eq!(of(None), Options::default());
        assert_eq!(of(Some("all")), Options::default());
        assert!(!of(Some("launches")).instructions && !of(Some("launches")).accesses);
        assert!(of(Some("instructions")).instructions && !of(Some("instructions")).accesses);
        assert!(of(Some("reuse")).reuse && of(Some("reuse")).accesses);
    }
}
