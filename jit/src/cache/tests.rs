//! Tests that code from the cache equals newly compiled code, and that the cache reads no untrusted files.

mod wide;

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use margay_exec::SyncPoint;
use margay_ir::entity::{Entity, FuncId};
use margay_ir::parse;

use super::folder::{Folder, PARTS};
use super::*;
use crate::compiler::{CompiledKernel, Compiler, Form};
use crate::slices::Widths;
use crate::specialisation::Specialisation;
use crate::stored::TextKey;

/// A folder that is deleted at the end of its test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Temporary {
        let name = format!("margay-cache-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        Temporary(path)
    }

    fn files(&self) -> Vec<PathBuf> {
        let inside = |path: &Path| {
            let entries = fs::read_dir(path).into_iter().flatten();
            entries.map(|entry| entry.unwrap().path())
        };
        inside(&self.0).flat_map(|part| inside(&part)).collect()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A kernel with sync points that the host completes, and with operations that the reference functions compute.
const KERNEL: &str = "module version 8.0 target sm_80

fn0 = kernel @k visible registers 30 {
  parameters 8
  parameter @p offset 0 size 8 align 8
block0:
  jump block1
block1:
  v0: b64 = param.addr.u64 0  ; 7
  v1: b64 = ld.u64{space:param} v0  ; 7
  v2: b32 = sreg.u32 %tid.x  ; 8
  v3: b32 = const.b32 0x8  ; 9
  v4: b64 = mad.u32{half:wide} v2, v3, v1  ; 9
  v5: f64 = ld.f64{space:global} v4  ; 10
  v8: b32 = ld.u32{space:global} v4  ; 11
  v10: b32 = const.b32 0x0  ; 13
  v11: b32 = const.b32 0x3  ; 13
  v12: b32 = fns.b32 v8, v10, v11  ; 13
  v13: b32 = const.b32 0x1f  ; 14
  v14: b32 = const.b32 0xffffffff  ; 14
  v15: b32, v16: pred = shfl.b32{mode:bfly} v8, v2, v13, v14  ; 14
  v17: b32 = const.b32 0x0  ; 15
  v18: pred = const.pred 0x1  ; 15
  v20: b32 = bar.u32{op:popc mode:red flag} v17, v17, v18  ; 15
  v21: b32 = rem.s32 v15, v20  ; 16
  v22: f64 = rcp.f64{rz} v5  ; 17
  st.f64{space:global} v4, v22  ; 18
  st.u32{space:global} v4, v21  ; 19
  st.u32{space:global} v4, v12  ; 21
  exit  ; 22
}
";

fn kernel(text: &str) -> CompiledKernel {
    let module = parse::module(text).expect("the IR of a kernel");
    CompiledKernel::new(&module, FuncId::new(0)).unwrap()
}

fn cache(folder: &Temporary) -> DiskCache {
    DiskCache::new(folder.0.clone(), 64 << 20).worth(Duration::ZERO)
}

fn compiler(cache: DiskCache) -> Compiler {
    let compiler = Compiler::new().expect("a code generator for this machine");
    compiler.with_cache(Some(cache))
}

fn counts(compiler: &Compiler) -> (u64, u64) {
    compiler.cache().expect("a cache").counts()
}

/// Compiles the warp form of each region and two specialisations of the CTA form.
fn all<'a>(kernel: &'a CompiledKernel, compiler: &Compiler) -> Vec<&'a CompiledFunction> {
    let warp = (0..kernel.regions.resume_points.len())
        .map(|i| kernel.region(compiler, SyncPoint(i as u32)));
    let specialisations = [Specialisation::SINGLE, sliced()];
    let phases = specialisations.map(|specialisation| kernel.phases(compiler, specialisation));
    warp.chain(phases)
        .map(|made| made.expect("it compiles"))
        .collect()
}

/// Returns the specialisation of vector code for a block of one row.
fn sliced() -> Specialisation {
    Specialisation::of([64, 1, 1], Widths::all(32))
}

/// The form with which the tests compute keys.
const FORM: Form = Form::Phases(Specialisation::SINGLE, 32);

/// Returns the key and the entry of a kernel's function.
fn entry_of(kernel: &CompiledKernel, compiler: &Compiler) -> (Digest, Vec<u8>) {
    let made = kernel
        .phases(compiler, Specialisation::SINGLE)
        .expect("compiles");
    let cache = compiler.cache().expect("a cache");
    let key = compiler.key(cache, kernel, FORM);
    let bytes = entry::write(&key, made, &kernel.function).expect("an entry");
    (key, bytes)
}

#[test]
fn code_that_is_found_is_the_code_that_was_made() {
    let folder = Temporary::new("found");
    let first = compiler(cache(&folder));
    let one = kernel(KERNEL);
    let made = all(&one, &first);
    assert_eq!(counts(&first), (0, made.len() as u64));
    let second = compiler(cache(&folder));
    let other = kernel(KERNEL);
    let found = all(&other, &second);
    assert_eq!(counts(&second), (made.len() as u64, 0));

    let mut kinds = [0, 0];
    for (made, found) in made.into_iter().zip(found) {
        assert_eq!(made.sites, found.sites);
        assert!(made.descs.iter().eq(found.descs.iter()));
        assert!(!made.locs.is_empty());
        let (code, start) = (found.code.bytes(), found.code.start() as u64);
        for offset in 0..code.len() as u64 {
            let expected = made.loc_at(made.code.start() as u64 + offset);
            assert_eq!(found.loc_at(start + offset), expected);
        }
        let (mut left, mut right) = (made.code.bytes().to_vec(), code.to_vec());
        for site in &found.sites {
            kinds[site.target.parts().0 as usize] += 1;
            // Each copy of the code contains addresses of tables that its own kernel owns.
            let at = site.offset as usize..site.offset as usize + 8;
            assert_ne!(left[at.clone()], right[at]);
        }
        for copy in [&mut left, &mut right] {
            crate::addresses::clear(copy, &found.sites).expect("sites in the code");
        }
        assert_eq!(left, right);
    }
    assert!(kinds[0] > 0 && kinds[1] > 0, "addresses: {kinds:?}");
}

#[test]
fn code_holds_no_other_addresses() {
    let compiler = Compiler::new().expect("a code generator for this machine");
    let kernels = [kernel(KERNEL), kernel(KERNEL)];
    let [left, right] = kernels.each_ref().map(|kernel| {
        let cleared = all(kernel, &compiler).into_iter().map(|made| {
            let mut code = made.code.bytes().to_vec();
            crate::addresses::clear(&mut code, &made.sites).expect("sites in the code");
            code
        });
        cleared.collect::<Vec<_>>()
    });
    assert_eq!(left, right);
}

#[test]
fn what_an_earlier_process_kept_is_known_before_it_is_read() {
    let folder = Temporary::new("known");
    let (first, second) = (compiler(cache(&folder)), compiler(cache(&folder)));
    let (one, other) = (kernel(KERNEL), kernel(KERNEL));
    assert!(!one.is_kept(&first, sliced()));
    one.phases(&first, sliced()).expect("it compiles");
    assert!(other.is_kept(&second, sliced()));
    assert!(!other.is_kept(&second, Specialisation::SINGLE));
    assert_eq!(counts(&second), (0, 0));
    let without = Compiler::new().expect("a code generator for this machine");
    assert!(!other.is_kept(&without, sliced()));
}

#[test]
fn a_damaged_entry_is_refused_whatever_byte_it_is() {
    let folder = Temporary::new("damaged");
    let compiler = compiler(cache(&folder));
    let kernel = kernel(KERNEL);
    let (key, bytes) = entry_of(&kernel, &compiler);
    assert!(entry::read(&bytes, &key, kernel.source()).is_some());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(
            entry::read(&damaged, &key, kernel.source()).is_none(),
            "byte {at} of {}",
            bytes.len()
        );
    }
    for len in 0..bytes.len() {
        assert!(
            entry::read(&bytes[..len], &key, kernel.source()).is_none(),
            "{len} bytes"
        );
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(entry::read(&longer, &key, kernel.source()).is_none());
}

#[test]
fn a_whole_entry_of_another_key_is_refused() {
    let folder = Temporary::new("foreign");
    let compiler = compiler(cache(&folder));
    let kernel = kernel(KERNEL);
    let (mut key, bytes) = entry_of(&kernel, &compiler);
    assert!(entry::read(&bytes, &key, kernel.source()).is_some());
    key[31] ^= 1;
    assert!(entry::read(&bytes, &key, kernel.source()).is_none());
}

/// Computes the checksum of an entry.
fn checksum_of(bytes: &[u8]) -> Digest {
    let mut digester = Digester::default();
    digester.write(&bytes[..64]);
    digester.write(&bytes[96..]);
    digester.digest()
}

#[test]
fn an_entry_with_a_right_checksum_still_cannot_point_outside() {
    let folder = Temporary::new("forged");
    let compiler = compiler(cache(&folder));
    let kernel = kernel(KERNEL);
    let (key, bytes) = entry_of(&kernel, &compiler);
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (code, locs, sites, descs) = (word(12), word(16), word(20), word(24));
    assert!(sites > 0 && descs > 0);
    let first_site = 96 + code + 16 * locs;
    let first_desc = first_site + 12 * sites;
    // Damages one field at a time: the offset, kind and index of a site, and the instruction of a description.
    for at in [first_site, first_site + 4, first_site + 8, first_desc] {
        let mut forged = bytes.clone();
        forged[at..at + 4].copy_from_slice(&0x7fff_fff0u32.to_le_bytes());
        let sum = checksum_of(&forged);
        forged[64..96].copy_from_slice(&sum);
        assert!(
            entry::read(&forged, &key, kernel.source()).is_none(),
            "at {at}"
        );
    }
}

#[test]
fn what_cannot_be_used_is_removed_and_made_again() {
    let folder = Temporary::new("removed");
    let first = compiler(cache(&folder));
    kernel(KERNEL)
        .phases(&first, Specialisation::SINGLE)
        .expect("it compiles");
    let files = folder.files();
    let [file] = files.as_slice() else {
        panic!("one entry: {files:?}");
    };
    let whole = fs::read(file).unwrap();
    type Damage = fn(&mut Vec<u8>);
    let damages: [Damage; 4] = [
        |bytes| bytes.clear(),
        |bytes| bytes.truncate(50),
        |bytes| bytes[100] ^= 4,
        |bytes| bytes[30] ^= 4,
    ];
    for damage in damages {
        let mut bytes = whole.clone();
        damage(&mut bytes);
        fs::write(file, &bytes).unwrap();
        let asking = compiler(cache(&folder));
        let wanted = kernel(KERNEL);
        let asked = asking.cache().expect("a cache");
        let key = asking.key(asked, &wanted, Form::Phases(Specialisation::SINGLE, 1));
        assert!(asked.folder.has(&key) && asked.find(&key, wanted.source()).is_none());
        assert!(!file.exists());
        fs::write(file, &bytes).unwrap();
        let again = compiler(cache(&folder));
        kernel(KERNEL)
            .phases(&again, Specialisation::SINGLE)
            .expect("it compiles");
        assert_eq!(counts(&again), (0, 1));
        // The entry is the same except for its modification time.
        assert_eq!(fs::read(file).unwrap(), whole);
    }
}

#[test]
fn code_is_found_by_all_that_it_was_made_from() {
    let folder = Temporary::new("keys");
    let base = || cache(&folder);
    let key = |compiler: &Compiler, text: &str, form| {
        let cache = compiler.cache().expect("a cache");
        compiler.key(cache, &kernel(text), form)
    };
    let first = compiler(base());
    let mut keys = vec![key(&first, KERNEL, FORM)];
    assert_eq!(key(&compiler(base()), KERNEL, FORM), keys[0]);
    // Another kernel: a different operation, constant or source position.
    for (from, to) in [("rem.s32", "rem.u32"), ("0x1f", "0x0f"), ("; 22", "; 23")] {
        let text = KERNEL.replace(from, to);
        assert_ne!(text, KERNEL);
        keys.push(key(&first, &text, FORM));
    }
    // Another form.
    for form in [
        Form::Phases(sliced(), 32),
        Form::Phases(Specialisation::SINGLE, 16),
        Form::Cta(Specialisation::SINGLE, 32),
        Form::Region(0),
        Form::Region(1),
        Form::Device,
    ] {
        keys.push(key(&first, KERNEL, form));
    }
    // Another build, or another width for all kernels.
    keys.push(key(&compiler(base().build("another")), KERNEL, FORM));
    keys.push(key(&compiler(base()).with_width(Some(16)), KERNEL, FORM));
    // Another machine.
    let names = match cfg!(target_arch = "x86_64") {
        true => ["has_sse3", "has_ssse3"],
        false => ["has_lse", "has_pauth"],
    };
    for features in [&names[..0], &names[..1], &names] {
        let mut other = compiler(base());
        other.set_features(features);
        keys.push(key(&other, KERNEL, FORM));
    }
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), count, "two inputs have one key");
}

#[test]
fn another_build_compiles_for_itself() {
    let folder = Temporary::new("builds");
    for round in 0..2 {
        for build in ["one", "two"] {
            let compiler = compiler(cache(&folder).build(build));
            kernel(KERNEL)
                .phases(&compiler, Specialisation::SINGLE)
                .expect("it compiles");
            assert_eq!(counts(&compiler), (round, 1 - round), "build {build}");
        }
    }
}

#[test]
fn what_compiles_fast_is_not_kept() {
    let folder = Temporary::new("fast");
    let compiler = compiler(cache(&folder).worth(Duration::from_secs(3600)));
    kernel(KERNEL)
        .phases(&compiler, Specialisation::SINGLE)
        .expect("it compiles");
    assert_eq!(counts(&compiler), (0, 0));
    assert!(folder.files().is_empty());
}

/// Returns a key whose entry belongs to part 0 of the folder.
fn key_of(number: u8) -> Digest {
    let mut key = [number; digest::BYTES];
    key[0] = 0;
    key
}

#[test]
fn the_limit_is_kept_and_the_last_used_stay() {
    let folder = Temporary::new("limit");
    let files = Folder::new(folder.0.clone(), PARTS * 40_000);
    let entry = vec![7u8; 9_000];
    let size = || -> u64 {
        let files = folder.files();
        files.iter().map(|f| fs::metadata(f).unwrap().len()).sum()
    };
    let path = |number: u8| {
        let name: String = key_of(number).iter().map(|b| format!("{b:02x}")).collect();
        folder.0.join("00").join(name)
    };
    let age = |number: u8, minutes: u64| {
        let file = fs::File::open(path(number)).unwrap();
        let then = SystemTime::now() - Duration::from_secs(60 * minutes);
        file.set_modified(then).unwrap();
    };
    // A part has a limit of three entries, counted in blocks of the file system.
    for number in 1..=3 {
        assert!(files.write(&key_of(number), &entry));
        age(number, 100 - u64::from(number));
    }
    // Reading makes the oldest entry the most recently used entry.
    assert_eq!(files.read(&key_of(1)).as_ref(), Some(&entry));
    for number in 4..=9 {
        assert!(files.write(&key_of(number), &entry));
        age(number, 20 - u64::from(number));
        assert!(size() <= 40_000);
        let kept = [1, 2, 3].map(|number| path(number).exists());
        // The entry that was read last is not deleted.
        assert_eq!(kept, [true, false, number < 5], "after entry {number}");
    }
    assert!(!files.write(&key_of(10), &vec![0; 40_001]));
    assert!(files.read(&key_of(10)).is_none());
    // This limit is smaller than the limit of the earlier writer.
    let less = Folder::new(folder.0.clone(), PARTS * 13_000);
    assert!(less.write(&key_of(11), &entry));
    assert!(size() <= 13_000, "{} bytes", size());
}

#[test]
fn other_files_stay_and_drafts_of_the_dead_go() {
    let folder = Temporary::new("others");
    let files = Folder::new(folder.0.clone(), PARTS * 20_000);
    assert!(files.write(&key_of(1), &[1; 9_000]));
    let part = folder.0.join("00");
    fs::write(part.join("notes"), vec![0; 50_000]).unwrap();
    for (name, seconds) in [("draft-1-0-0", 4000), ("draft-1-1-0", 10)] {
        fs::write(part.join(name), "unfinished").unwrap();
        let then = SystemTime::now() - Duration::from_secs(seconds);
        let file = fs::File::open(part.join(name)).unwrap();
        file.set_modified(then).unwrap();
    }
    assert!(files.write(&key_of(2), &[2; 9_000]));
    assert!(files.read(&key_of(2)).is_some());
    assert!(part.join("notes").exists());
    assert!(!part.join("draft-1-0-0").exists());
    assert!(part.join("draft-1-1-0").exists());
}

#[test]
fn a_folder_or_file_that_others_may_write_to_is_refused() {
    let folder = Temporary::new("modes");
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let files = || Folder::new(folder.0.clone(), 1 << 20);
    assert!(files().write(&key_of(1), b"entry"));
    for (mode, trusted) in [(0o770, false), (0o702, false), (0o755, true)] {
        set(&folder.0, mode);
        assert_eq!(files().refusal().is_none(), trusted, "{mode:o}");
        assert_eq!(files().read(&key_of(1)).is_some(), trusted, "{mode:o}");
        assert_eq!(files().write(&key_of(2), b"entry"), trusted, "{mode:o}");
    }
    for path in folder.files() {
        for (mode, trusted) in [(0o620, false), (0o602, false), (0o644, true)] {
            set(&path, mode);
            let found = [1, 2].map(|number| files().read(&key_of(number)).is_some());
            assert_eq!(found == [true, true], trusted, "{mode:o}");
        }
    }
}

#[test]
fn only_plain_files_are_entries() {
    let folder = Temporary::new("plain");
    let files = Folder::new(folder.0.clone(), 1 << 20);
    assert!(files.write(&key_of(1), b"entry"));
    let entry = folder.files().pop().unwrap();
    let elsewhere = folder.0.join("elsewhere");
    fs::rename(&entry, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &entry).unwrap();
    assert_eq!(fs::read(&entry).unwrap(), b"entry");
    assert!(files.read(&key_of(1)).is_none());
    fs::remove_file(&entry).unwrap();
    // A pipe that no process ever writes to.
    let made = std::process::Command::new("mkfifo").arg(&entry).status();
    assert!(made.expect("mkfifo is a program of POSIX").success());
    assert!(files.read(&key_of(1)).is_none());
}

#[test]
fn places_that_cannot_be_used_are_no_error() {
    let folder = Temporary::new("places");
    let file = folder.0.join("file");
    fs::write(&file, "no folder").unwrap();
    for path in [file.clone(), file.join("below"), "/proc/none/here".into()] {
        let files = Folder::new(path.clone(), 1 << 20);
        let refusal = files.refusal().expect("refused");
        assert!(
            refusal.starts_with(&path.display().to_string()),
            "{refusal}"
        );
        assert!(!files.write(&key_of(1), b"entry"));
        assert!(files.read(&key_of(1)).is_none());
    }
    // A directory that has the name of an entry.
    fs::remove_file(&file).unwrap();
    let files = Folder::new(folder.0.clone(), 1 << 20);
    assert!(files.write(&key_of(1), b"entry"));
    let entry = folder.files().pop().unwrap();
    fs::remove_file(&entry).unwrap();
    fs::create_dir(&entry).unwrap();
    assert!(files.read(&key_of(1)).is_none());
    assert!(!files.write(&key_of(1), b"entry"));
    assert_eq!(
        folder.files(),
        std::slice::from_ref(&entry),
        "no draft is left"
    );
    // After one write has failed, no further write is attempted.
    assert!(!files.write(&key_of(2), b"entry"));
}

#[test]
fn a_stored_kernel_is_the_kernel_that_was_prepared() {
    let folder = Temporary::new("stored");
    let cache = cache(&folder);
    let module = parse::module(KERNEL).expect("the IR of a kernel");
    let id = FuncId::new(0);
    let text = TextKey::new("a text", true);
    assert!(cache.kernel(&text, id).is_none());
    let made = CompiledKernel::new(&module, id).unwrap();
    let body = &module.functions[id];
    cache.store_kernel(&text, id, &[(id, body)], &[(id, &made)]);

    let mut found = cache.kernel(&text, id).expect("an entry");
    let [(body_id, found_body)] = &found.bodies[..] else {
        panic!("one body");
    };
    assert_eq!((*body_id, digest_of(found_body)), (id, digest_of(body)));
    let (prepared_id, prepared) = found.prepared.pop().expect("a prepared function");
    assert!(prepared_id == id && found.prepared.is_empty());
    let found = CompiledKernel::from_prepared(&module, prepared);
    assert_eq!(found.digest(), made.digest());
    assert_eq!(found.prepared().2, made.prepared().2);
    assert_eq!(found.local_bytes, made.local_bytes);
    let uncached = Compiler::new().expect("a code generator for this machine");
    for (made, found) in all(&made, &uncached)
        .into_iter()
        .zip(all(&found, &uncached))
    {
        let [left, right] = [made, found].map(|function| {
            let mut code = function.code.bytes().to_vec();
            crate::addresses::clear(&mut code, &function.sites).expect("sites in the code");
            code
        });
        assert_eq!(left, right);
    }

    for other in [
        TextKey::new("another text", true),
        TextKey::new("a text", false),
    ] {
        assert!(cache.kernel(&other, id).is_none());
        assert_ne!(other.function(id, id), text.function(id, id));
    }
    assert!(cache.kernel(&text, FuncId::new(1)).is_none());
}

#[test]
fn a_damaged_stored_kernel_is_refused_and_removed() {
    let folder = Temporary::new("stored-damaged");
    let cache = cache(&folder);
    let module = parse::module(KERNEL).expect("the IR of a kernel");
    let (id, text) = (FuncId::new(0), TextKey::new("a text", true));
    let made = CompiledKernel::new(&module, id).unwrap();
    let store = || cache.store_kernel(&text, id, &[], &[(id, &made)]);
    store();
    let [path] = &folder.files()[..] else {
        panic!("one file");
    };
    let bytes = fs::read(path).unwrap();
    for at in (0..bytes.len()).step_by(7).chain([bytes.len() - 1]) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        fs::write(path, damaged).unwrap();
        assert!(cache.kernel(&text, id).is_none(), "byte {at}");
        assert!(!path.exists());
        store();
    }
    fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    assert!(cache.kernel(&text, id).is_none());
    store();
    assert!(cache.kernel(&text, id).is_some());
}
