//! Whether and where native code is kept on disk for later processes: what the environment says.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use margay_jit::DiskCache;

use crate::environment::{env, number};

/// Bytes of the cache that is not told otherwise.
const LIMIT: u64 = 256 << 20;

/// Whether kernels take code from the disk and leave it there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Caching {
    /// As the environment says; with nothing said, they do.
    #[default]
    Configured,
    /// They do not.
    Off,
}

/// The cache that the environment asks for.
///
/// `MARGAY_CACHE=0` is none, and `MARGAY_CACHE=all` one that keeps all code, also what compiles faster than it is
/// read (tests). `MARGAY_CACHE_BYTES` is its limit, with K, M or G. It is in `MARGAY_CACHE_DIR`, else
/// in `margay` of `XDG_CACHE_HOME`, else in `~/.cache/margay`; where none of them is set, there is none.
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

/// The cache's folder, by the variables of an environment.
fn folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name| {
        let value = variable(name).filter(|value| !value.is_empty())?;
        Some(PathBuf::from(value))
    };
    // The folder must stay the same when the program goes to another one.
    let own = path("MARGAY_CACHE_DIR").and_then(|path| std::path::absolute(path).ok());
    // Relative paths there are to be ignored (XDG base directory specification, 0.8).
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
