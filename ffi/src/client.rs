//! Identifies the running program, and finds advice on how to make it load PTX.
//!
//! An image that contains only machine code cannot be run. What the user can do depends on the library that produced
//! the image. This module recognises some libraries by the files that the process has mapped.
//!
//! Invariant: these functions run only when an error is reported or a dump starts, so they may be slow.

use std::path::Path;

/// Each entry contains a part of a file path, and the advice for programs that have mapped such a file. The first entry
/// that matches is used.
const WAYS_OUT: &[(&str, &str)] = &[
    (
        "/libtorch_cuda.so",
        "PyTorch's own kernels are machine code in its wheels; its operators run on CPU kernels if the program is \
         started with `margay run` and this kernel is not one of an operator that Margay does not replace (see \
         docs/pytorch.md)",
    ),
    (
        "/triton/_C/",
        "start the program with `margay run`, which makes Triton emit PTX",
    ),
    (
        "/cupy/",
        "start the program with `margay run`, or set CUPY_COMPILE_WITH_PTX=1 and an empty CUPY_CACHE_DIR",
    ),
    (
        "/libnvJitLink.so",
        "start the program with `margay run`, which makes nvJitLink link PTX, or uninstall nvidia-nvjitlink",
    ),
    (
        "/libnvrtc.so",
        "start the program with `margay run`, or compile for a virtual architecture (compute_86, not sm_86)",
    ),
];

/// Returns the program's name for messages. For a Python interpreter, the name includes the script or module.
pub(crate) fn name() -> String {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let words: Vec<String> = line
        .split(|&byte| byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    name_of(&words).unwrap_or_else(|| "this program".to_owned())
}

fn name_of(words: &[String]) -> Option<String> {
    let file = |word: &String| {
        Path::new(word)
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    let program = file(words.first()?)?;
    if !program.starts_with("python") {
        return Some(program);
    }
    let mut rest = words[1..].iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-m" => return Some(format!("{program} -m {}", rest.next()?)),
            "-c" | "-" => return Some(program),
            "-W" | "-X" => drop(rest.next()),
            option if option.starts_with('-') => {}
            _ => return Some(format!("{program} {}", file(word)?)),
        }
    }
    Some(program)
}

/// Returns advice about an image without PTX if the process has mapped a file of a recognised library. Without advice,
/// the error message itself explains how to build an image with PTX.
pub(crate) fn way_out() -> Option<&'static str> {
    way_out_of(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default())
}

fn way_out_of(maps: &str) -> Option<&'static str> {
    let found = WAYS_OUT.iter().find(|(file, _)| maps.contains(file));
    found.map(|(_, way)| *way)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(line: &str) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        name_of(&words)
    }

    #[test]
    fn programs_are_named_as_users_know_them() {
        assert_eq!(named("/usr/bin/simulate -n 3").as_deref(), Some("simulate"));
        let script = named("/venv/bin/python3.11 -W ignore -u /src/train.py --fast");
        assert_eq!(script.as_deref(), Some("python3.11 train.py"));
        assert_eq!(
            named("python -m pytest x").as_deref(),
            Some("python -m pytest")
        );
        assert_eq!(named("python -c pass").as_deref(), Some("python"));
        assert_eq!(name_of(&[]), None);
    }

    #[test]
    fn the_way_out_depends_on_the_client() {
        let cupy = "7f00-7f01 r-xp 0 0 0 /v/lib/libnvrtc.so.13\n7f02-7f03 r-xp 0 0 0 /v/cupy/_core/core.so\n";
        let says = |maps, part: &str| way_out_of(maps).is_some_and(|way| way.contains(part));
        assert!(says(cupy, "CUPY_COMPILE_WITH_PTX=1"));
        assert!(says("/usr/lib/libnvrtc.so.12", "compute_86"));
        assert_eq!(way_out_of("/lib/libc.so.6"), None);
    }
}
