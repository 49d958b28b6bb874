//! Disk cache of the native code that earlier processes compiled, and of kernels that they prepared (`stored`).
//!
//! The key of an entry is a digest of everything that determines the entry's code: the sources and the toolchain of
//! this build, the machine's features, the prepared IR function with its entity indices and source
//! positions, and the form of the code (`compiler::Form`). For a kernel that can be stored prepared, a digest of the
//! PTX text replaces the function. Code is not stored if compiling it takes
//! less time than writing an entry. An error of the cache does not make a compilation fail. If an
//! entry cannot be read or trusted, the function is compiled; if an entry cannot be written, the
//! code is used but not stored.
//!
//! Invariant: the cache returns code from a file only after it has checked the file's owner, key and checksum.

mod digest;
mod entry;
mod folder;
#[cfg(test)]
mod tests;

use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cranelift_codegen::isa::TargetIsa;
use margay_ir::function::Function;

pub use self::digest::of as digest_of;
pub(crate) use self::digest::{Digest, Digester};
use self::folder::Folder;
use crate::function::CompiledFunction;
use crate::sync_points::SyncPointTable;

/// Digest of everything that determines this build of the code generator: its sources, toolchain and build
/// options.
const BUILD: &str = env!("MARGAY_BUILD");

/// Minimum duration of a compilation whose code is stored: about the time that writing an entry takes.
const WORTH: Duration = Duration::from_micros(300);

/// The kernel data that is needed to write and to read an entry.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) function: &'a Function,
    pub(crate) sync_points: &'a SyncPointTable,
    /// The addresses of the helpers of programs of the wide back end.
    pub(crate) helpers: [u64; 2],
}

/// A disk cache of native code, for one compiler.
#[derive(Debug)]
pub struct DiskCache {
    folder: Folder,
    build: String,
    worth: Duration,
    /// The state of the digest after hashing the data that all keys of one compiler have in common.
    common: OnceLock<Digester>,
    found: AtomicU64,
    kept: AtomicU64,
}

impl DiskCache {
    /// Creates a cache in a folder with a limit of about `limit` bytes. The folder is created at the first access.
    ///
    /// The process executes code from this folder. Therefore the cache refuses a folder or file that belongs to another
    /// user or that other users may write to. If the folder is refused, the cache neither reads nor writes entries.
    pub fn new(folder: PathBuf, limit: u64) -> DiskCache {
        DiskCache {
            folder: Folder::new(folder, limit),
            build: BUILD.into(),
            worth: WORTH,
            common: OnceLock::new(),
            found: AtomicU64::new(0),
            kept: AtomicU64::new(0),
        }
    }

    /// Sets the minimum duration of a compilation whose code is stored. The default is 0.3 ms.
    pub fn worth(self, worth: Duration) -> DiskCache {
        DiskCache { worth, ..self }
    }

    /// Sets the identifier of the code generator's build. The cache never returns code that another build has stored.
    pub fn build(self, build: &str) -> DiskCache {
        let build = build.to_owned();
        DiskCache { build, ..self }
    }

    /// Returns whether a result that took the time `spent` to compute is stored.
    pub fn is_worth_storing(&self, spent: Duration) -> bool {
        spent >= self.worth
    }

    /// Returns why the folder is refused, or `None` if it is usable.
    pub fn refusal(&self) -> Option<String> {
        self.folder.refusal()
    }

    /// Returns the number of functions read from the cache and the number of functions written to the cache.
    pub fn counts(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.found), read(&self.kept))
    }

    /// Computes the key of a function's code. The key covers the data that all keys of one compiler share, the digest
    /// of the function, and the form of the code. `machine` hashes the features of the machine; it is called only for
    /// the first key.
    pub(crate) fn key(
        &self,
        machine: impl FnOnce(&mut Digester),
        content: &Digest,
        form: &impl Hash,
    ) -> Digest {
        let common = || {
            let mut common = Digester::default();
            (entry::FORMAT, &self.build, cranelift_codegen::VERSION).hash(&mut common);
            machine(&mut common);
            common
        };
        let mut key = self.common.get_or_init(common).clone();
        key.write(content);
        form.hash(&mut key);
        key.digest()
    }

    /// Returns whether the folder contains a file with the name of this key's entry. Does not check the content of the
    /// file.
    pub(crate) fn has(&self, key: &Digest) -> bool {
        self.folder.has(key)
    }

    /// Returns the cached code of a key. If there is none, compiles the function with `make` and stores the code if the
    /// compilation took long enough.
    pub(crate) fn found_or<E>(
        &self,
        key: &Digest,
        source: Source<'_>,
        make: impl FnOnce() -> Result<CompiledFunction, E>,
    ) -> Result<CompiledFunction, E> {
        if let Some(found) = self.find(key, source) {
            return Ok(found);
        }
        let start = Instant::now();
        let made = make()?;
        if self.is_worth_storing(start.elapsed()) {
            self.keep(key, &made, source);
        }
        Ok(made)
    }

    /// Reads data that [`DiskCache::write_data`] stored, and decodes it with `decode`.
    pub(crate) fn read_data<T>(
        &self,
        key: &Digest,
        decode: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let key = self.data_key(key);
        let bytes = self.folder.read(&key)?;
        let found = entry::data(&bytes, &key).and_then(decode);
        if found.is_none() {
            self.folder.remove(&key);
        }
        found
    }

    /// Stores data under a key, for [`DiskCache::read_data`] of a process of the same build.
    pub(crate) fn write_data(&self, key: &Digest, data: &[u8]) {
        let key = self.data_key(key);
        self.folder.write(&key, &entry::with_data(&key, data));
    }

    fn data_key(&self, key: &Digest) -> Digest {
        digest_of(&(entry::FORMAT, &self.build, key))
    }

    fn find(&self, key: &Digest, source: Source<'_>) -> Option<CompiledFunction> {
        let bytes = self.folder.read(key)?;
        let found = entry::read(&bytes, key, source);
        let count = match found {
            Some(_) => &self.found,
            None => {
                self.folder.remove(key);
                return None;
            }
        };
        count.fetch_add(1, Ordering::Relaxed);
        found
    }

    fn keep(&self, key: &Digest, made: &CompiledFunction, source: Source<'_>) {
        if let Some(bytes) = entry::write(key, made, source.function)
            && self.folder.write(key, &bytes)
        {
            self.kept.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Hashes all properties of the target machine and of the code generator's settings.
pub(crate) fn hash_machine(isa: &dyn TargetIsa, to: &mut Digester) {
    (isa.name(), isa.triple().to_string()).hash(to);
    isa.flags().to_string().hash(to);
    for flag in isa.isa_flags() {
        (flag.name, flag.value_string()).hash(to);
    }
}
