//! Runs the file tests with native code that an earlier process wrote to the cache on disk.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the paths of the entries of the disk cache in the folder `cache`.
fn files(cache: &Path) -> Vec<PathBuf> {
    let inside = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten();
        entries.map(|entry| entry.expect("an entry").path())
    };
    inside(cache).flat_map(|part| inside(&part)).collect()
}

/// Returns the entries of the disk cache in the folder `cache`: a map from paths to inode numbers.
fn entries(cache: &Path) -> BTreeMap<PathBuf, u64> {
    let number = |path: PathBuf| {
        let number = path.metadata().expect("a file").ino();
        (path, number)
    };
    files(cache).into_iter().map(number).collect()
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

/// Creates a fat binary with one PTX text, in the format that NVIDIA's tool `fatbinary` writes.
fn fat_binary(text: &str) -> Vec<u8> {
    let padded = text.len().next_multiple_of(8);
    let mut entry = Vec::new();
    entry.extend(1u16.to_le_bytes());
    entry.extend(0x0101u16.to_le_bytes());
    entry.extend(64u32.to_le_bytes());
    entry.extend((padded as u64).to_le_bytes());
    entry.extend([0; 8]);
    entry.extend([5, 0, 9, 0]);
    entry.extend(80u32.to_le_bytes());
    entry.extend([0; 8]);
    entry.extend(0x11u64.to_le_bytes());
    entry.extend([0; 16]);
    entry.extend(text.as_bytes());
    entry.resize(64 + padded, 0);
    let mut all = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
    all.extend((entry.len() as u64).to_le_bytes());
    all.extend(entry);
    all
}

/// A text of more than 64 KiB, whose bodies are parsed when they are needed. Kernel `k` writes `addend` plus the sum of
/// the thread indices of its CTA, which it computes with a barrier and with a recursive function.
fn long_text(addend: u32) -> String {
    let others: String = (0..800)
        .map(|i| {
            format!(
                ".visible .entry other{i}(.param .u64 to) {{\n.reg .b64 %a;\nld.param.u64 %a, [to];\n\
                 st.global.u32 [%a], {i};\nst.global.u32 [%a+4], {i};\nret;\n}}\n"
            )
        })
        .collect();
    format!(
        ".version 8.0
.target sm_80
.address_size 64
.func (.reg .b32 %r) down(.reg .b32 %n) {{
    .reg .pred %p;
    .reg .b32 %m;
    mov.u32 %r, {addend};
    setp.eq.u32 %p, %n, 0;
    @%p ret;
    sub.u32 %m, %n, 1;
    call (%r), down, (%m);
    add.u32 %r, %r, 1;
    ret;
}}
.visible .entry k(.param .u64 to) {{
    .reg .b64 %a;
    .reg .b32 %t, %s, %v;
    .reg .pred %p;
    .shared .align 4 .b32 total;
    mov.u32 %t, %tid.x;
    setp.eq.u32 %p, %t, 0;
    @%p st.shared.u32 [total], 0;
    bar.sync 0;
    red.shared.add.u32 [total], %t;
    bar.sync 0;
    ld.shared.u32 %s, [total];
    call (%v), down, (%s);
    ld.param.u64 %a, [to];
    @%p st.global.u32 [%a], %v;
    ret;
}}
{others}"
    )
}

#[test]
fn kernels_of_a_long_image_are_prepared_once() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("disk-cache-kernels");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let cache = folder.join("cache");
    let run = |addend: u32| {
        let image = folder.join("k.fatbin");
        let text = long_text(addend);
        assert!(text.len() > 64 << 10);
        fs::write(&image, fat_binary(&text)).expect("a file");
        let output = Command::new(env!("CARGO_BIN_EXE_margay"))
            .arg("launch")
            .arg(&image)
            .args([
                "--kernel",
                "k",
                "--block",
                "64",
                "--arg",
                "zeros:u32:1",
                "--print",
                "0",
            ])
            .env("MARGAY_CACHE", "all")
            .env("MARGAY_CACHE_DIR", &cache)
            .output()
            .expect("margay runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("a text")
    };
    // The sum of the thread indices 0 to 63 is 2016.
    let first = run(5);
    assert!(first.contains("2021"), "{first}");
    let stored = entries(&cache);
    let kernels = || {
        let all = files(&cache);
        let bytes = all.iter().map(|path| fs::read(path).expect("an entry"));
        bytes.filter(|bytes| bytes.starts_with(b"margayPK")).count()
    };
    assert_eq!(kernels(), 1);
    assert_eq!(run(5), first);
    assert_eq!(entries(&cache), stored);
    // Only the called function differs.
    let other = run(6);
    assert!(other.contains("2022"), "{other}");
    assert_eq!(kernels(), 2);
    fs::remove_dir_all(&folder).expect("a folder of ours");
}
