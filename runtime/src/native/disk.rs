//! Configuration of the disk cache, which stores native code for later processes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use margay_jit::DiskCache;

use crate::environment::{env, number};

/// Default maximum size of the disk cache in bytes.
const LIMIT: u64 = 256 << 20;

/// Whether a compiler uses the disk cache: loads native code from it and stores native code in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Caching {
    /// Environment variables determine whether the disk cache is used ([`configured`]).
    #[default]
    Configured,
    /// The disk cache is not used.
    Off,
}

/// Returns the disk cache that environment variables configure; `None` if the cache is disabled or cannot be used.
///
/// `MARGAY_CACHE=0` disables the cache. `MARGAY_CACHE=all` stores all code in the cache, even code that is faster to
/// compile than to read (for tests). `MARGAY_CACHE_BYTES` is the maximum size of the cache in bytes; the suffixes K, M
/// and G are allowed. The folder of the cache is the value of `MARGAY_CACHE_DIR`. If that variable is not set, the
/// folder is `margay` in the folder that `XDG_CACHE_HOME` specifies, or else `.cache/margay` in the folder that `HOME`
/// specifies. Relative paths in `XDG_CACHE_HOME` and `HOME` are ignored. If no variable determines a folder, the cache
/// is disabled.
pub(super) fn configured() -> Option<DiskCache> {
    let which = env("MARGAY_CACHE").unwrap_or_default();
    if which == "0" {
        return None;
    }
    let folder = folder(|name| std::env::var_os(name))?;
    let limit = number("MARGAY_CACHE_BYTES").unwrap_or(LIMIT);
    let cache = DiskCache::new(folder, limit);
    if let Some(why) = cache.refusal() {
        tracing::warn!(%why, "no disk cache");
        return None;
    }
    Some(match which.as_str() {
        "all" => cache.worth(Duration::ZERO),
        _ => cache,
    })
}

/// Returns the folder of the disk cache; `None` if no environment variable determines it.
/// `variable` returns the value of the environment variable with a given name.
fn folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name| {
        let value = variable(name).filter(|value| !value.is_empty())?;
        Some(PathBuf::from(value))
    };
    // The folder must stay the same if the program changes its working directory.
    let own = path("MARGAY_CACHE_DIR").and_then(|path| std::path::absolute(path).ok());
    // Relative paths in these variables must be ignored (XDG base directory specification, 0.8).
    let absolute = |name| path(name).filter(|path| path.is_absolute());
    own.or_else(|| Some(absolute("XDG_CACHE_HOME")?.join("margay")))
        .or_else(|| Some(absolute("HOME")?.join(".cache/margay")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_says_something_names_the_folder() {
        let all = [
            ("MARGAY_CACHE_DIR", "/c/d"),
            ("XDG_CACHE_HOME", "/x"),
            ("HOME", "/h"),
        ];
        let of = |variables: &[(&str, &str)]| {
            folder(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            })
        };
        assert_eq!(of(&all), Some("/c/d".into()));
        assert_eq!(of(&all[1..]), Some("/x/margay".into()));
        assert_eq!(of(&all[2..]), Some("/h/.cache/margay".into()));
        assert_eq!(of(&[]), None);
        assert_eq!(
            of(&[
                ("MARGAY_CACHE_DIR", ""),
                ("XDG_CACHE_HOME", "x"),
                ("HOME", "/h")
            ]),
            Some("/h/.cache/margay".into())
        );
        let here = std::env::current_dir().unwrap();
        assert_eq!(of(&[("MARGAY_CACHE_DIR", "x")]), Some(here.join("x")));
    }
}
