//! Configuration of the disk cache, which keeps native code for later processes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use margay_jit::DiskCache;

use crate::environment::{env, number};

/// Default limit of the cache in bytes.
const LIMIT: u64 = 256 << 20;

/// Whether kernels load code from the disk cache and store it there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Caching {
    /// As the environment configures it; by default they do.
    #[default]
    Configured,
    /// Kernels do not use the disk cache.
    Off,
}

/// Returns the cache that the environment configures.
///
/// `MARGAY_CACHE=0` disables it. `MARGAY_CACHE=all` keeps all code, even if compiling is faster than reading it (for
/// tests). `MARGAY_CACHE_BYTES` is its limit, with K, M or G. Its folder is `MARGAY_CACHE_DIR`, else `margay` in
/// `XDG_CACHE_HOME`, else `~/.cache/margay`; if none of these variables is set, there is no cache.
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

/// Returns the cache's folder according to environment variables.
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
