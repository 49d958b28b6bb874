//! Finds the files of folders that can contain device code, and reads them on all processors.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::images::{self, Contents};
use super::window::{self, Window};

/// A file that was read.
#[derive(Debug)]
pub(super) struct Scanned {
    pub(super) path: PathBuf,
    pub(super) contents: Contents,
}

/// Endings of the names of files that can contain device code. Files without a dot in their name can be programs.
const ENDINGS: [&str; 8] = [
    ".a", ".o", ".so", ".cubin", ".fatbin", ".ptx", ".pyd", ".bin",
];

fn can_contain_code(name: &str) -> bool {
    let is_versioned_library = || name.contains(".so.");
    !name.contains('.') || ENDINGS.iter().any(|end| name.ends_with(end)) || is_versioned_library()
}

/// Returns the files below `paths` that can contain device code, sorted. Files in `paths` are always in the result.
/// Links to folders are not followed, and each file occurs once.
pub(super) fn files(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => folders.push(path.clone()),
            false => found.push(path.clone()),
        }
    }
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            match is_folder {
                true => folders.push(entry.path()),
                false if can_contain_code(&entry.file_name().to_string_lossy()) => {
                    found.push(entry.path());
                }
                false => {}
            }
        }
    }
    found.sort();
    let mut seen = HashSet::new();
    found.retain(|path| {
        // A path that cannot be queried stays, so that the error is reported.
        fs::metadata(path).map_or(true, |file| {
            file.is_file() && seen.insert((file.dev(), file.ino()))
        })
    });
    found
}

/// Reads the files and returns their contents in the same order.
pub(super) fn read(files: &[PathBuf]) -> Vec<Scanned> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(files.len()));
    let work = || {
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let scanned = Scanned {
                path: path.clone(),
                contents: contents(path),
            };
            // Only `push` runs with the lock, so the data is valid even if another thread has panicked.
            let mut results = results.lock().unwrap_or_else(|e| e.into_inner());
            results.push(scanned);
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 1..workers.min(files.len()) {
            // If no thread can be started, the other threads read the files.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut results = results.into_inner().unwrap_or_else(|e| e.into_inner());
    results.sort_by(|a: &Scanned, b: &Scanned| a.path.cmp(&b.path));
    results
}

fn contents(path: &Path) -> Contents {
    match window::open(path) {
        Ok(Some((file, len))) => images::read(Window::new(&file, 0, len)),
        Ok(None) => Contents::default(),
        Err(error) => Contents {
            problem: Some(error.to_string()),
            ..Contents::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_chosen_by_their_names() {
        let can = [
            "libcublas.so.12",
            "_C.cpython-311-x86_64-linux-gnu.so",
            "ptxas",
            "k.ptx",
            "libx.a",
        ];
        assert!(can.iter().all(|name| can_contain_code(name)));
        let cannot = ["numpy.py", "a.socket", "METADATA.txt", "x.pyc"];
        assert!(!cannot.iter().any(|name| can_contain_code(name)));
    }

    #[test]
    fn each_file_is_read_once() {
        let folder = std::env::temp_dir().join(format!("margay-scan-{}", std::process::id()));
        let inner = folder.join("inner");
        fs::create_dir_all(&inner).unwrap();
        let text = ".version 8.0\n.target sm_80\n";
        fs::write(inner.join("k.ptx"), text).unwrap();
        fs::write(inner.join("notes.txt"), text).unwrap();
        std::os::unix::fs::symlink("k.ptx", inner.join("same.ptx")).unwrap();
        std::os::unix::fs::symlink("..", inner.join("loop")).unwrap();
        let read = |paths: &[PathBuf]| -> Vec<(PathBuf, u64)> {
            let scanned = read(&files(paths)).into_iter();
            scanned
                .map(|s| (s.path, s.contents.tally.count().ptx))
                .collect()
        };
        assert_eq!(
            read(std::slice::from_ref(&folder)),
            [(inner.join("k.ptx"), 1)]
        );
        let named = inner.join("notes.txt");
        let found = read(std::slice::from_ref(&named));
        assert_eq!(found, [(named, 1)]);
        let missing = contents(&folder.join("missing")).problem;
        assert!(missing.is_some_and(|problem| problem.contains("No such file")));
        fs::remove_dir_all(folder).unwrap();
    }
}
