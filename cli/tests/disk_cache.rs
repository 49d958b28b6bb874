//! Runs the file tests with native code that an earlier process wrote to the cache on disk.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the entries of the disk cache in the folder `cache`: a map from file names to inode
/// numbers.
fn entries(cache: &Path) -> BTreeMap<String, u64> {
    let inside = |path: PathBuf| {
        let entries = fs::read_dir(path).into_iter().flatten();
        entries.map(|entry| entry.expect("an entry"))
    };
    inside(cache.to_owned())
        .flat_map(|part| inside(part.path()))
        .map(|file| {
            let number = file.metadata().expect("a file").ino();
            (file.file_name().to_string_lossy().into_owned(), number)
        })
        .collect()
}

#[test]
fn kernels_do_the_same_with_code_of_an_earlier_process() {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("disk-cache");
    let _ = fs::remove_dir_all(&cache);
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&cache)
        .expect("a folder");
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/ptx");
    let run = || {
        let output = Command::new(env!("CARGO_BIN_EXE_margay"))
            .arg("test")
            .arg(&files)
            .env("MARGAY_CACHE", "all")
            .env("MARGAY_CACHE_DIR", &cache)
            // No entry may be removed to make room for others.
            .env("MARGAY_CACHE_BYTES", "2G")
            .output()
            .expect("margay runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
        entries(&cache)
    };
    let first = run();
    assert!(first.len() > 1000, "{} entries", first.len());
    // A rewritten entry would have a different inode. New entries may appear, because measured run times determine when
    // vector code is compiled for a kernel.
    let second = run();
    let changed = first
        .iter()
        .filter(|&(name, file)| second.get(name) != Some(file));
    assert_eq!(changed.count(), 0);
    assert!(second.len() < first.len() + first.len() / 10);
    fs::remove_dir_all(&cache).expect("a folder of ours");
}

#[test]
fn nothing_is_kept_where_that_is_not_wanted() {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("disk-cache-off");
    let _ = fs::remove_dir_all(&home);
    fs::create_dir_all(&home).expect("a folder");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cuda/ptx/saxpy.ptx");
    let run = |setting: &str| {
        let status = Command::new(env!("CARGO_BIN_EXE_margay"))
            .arg("launch")
            .arg(&file)
            .args(["--block", "32"])
            .args("--arg i32:32 --arg f32:2 --arg zeros:f32:32 --arg zeros:f32:32".split(' '))
            .env("MARGAY_CACHE", setting)
            .env("HOME", &home)
            .env_remove("XDG_CACHE_HOME")
            .env_remove("MARGAY_CACHE_DIR")
            .env_remove("MARGAY_CACHE_BYTES")
            .status()
            .expect("margay runs");
        assert!(status.success());
    };
    run("0");
    assert_eq!(fs::read_dir(&home).expect("the folder").count(), 0);
    run("all");
    assert_eq!(entries(&home.join(".cache/margay")).len(), 1);
    fs::remove_dir_all(&home).expect("a folder of ours");
}
