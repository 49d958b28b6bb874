//! Native code that earlier processes made, kept in a folder.
//!
//! An entry is found by a digest of all that its code was made from: the sources and the toolchain of this build,
//! the machine's features, the prepared function down to its numbers and source positions, and which form of it was
//! compiled. What compiles faster than an entry is written is not kept. Nothing here ever fails a
//! compilation: what cannot be read, written or trusted is compiled.
//!
//! Invariant: code comes from a file only after its owner, its key and its checksum were found right.

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

pub(crate) use self::digest::{Digest, Digester, of as digest_of};
use self::folder::Folder;
use crate::function::CompiledFunction;
use crate::points::PointTable;

/// What this build of the code generator was made from: a digest of its sources, their toolchain and options.
const BUILD: &str = env!("MARGAY_BUILD");

/// What compiles in less time is not kept: so long takes writing an entry, about.
const WORTH: Duration = Duration::from_micros(300);

/// What the code in an entry was made from.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) function: &'a Function,
    pub(crate) points: &'a PointTable,
}

/// A folder of native code, for one compiler.
#[derive(Debug)]
pub struct DiskCache {
    folder: Folder,
    build: String,
    worth: Duration,
    /// All that the keys of one compiler share.
    common: OnceLock<Digester>,
    found: AtomicU64,
    kept: AtomicU64,
}

impl DiskCache {
    /// A cache in a folder, which is made when it is first needed, of about `limit` bytes at most.
    ///
    /// Code in it is run. So a folder that belongs to somebody else or that others may write to is refused, and
    /// so is every such file; the cache then finds and keeps nothing.
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

    /// The same, but it keeps code that took at least this long to compile (0.3 ms).
    pub fn worth(self, worth: Duration) -> DiskCache {
        DiskCache { worth, ..self }
    }

    /// The same for another build of the code generator, whose code this one never runs.
    pub fn build(self, build: &str) -> DiskCache {
        let build = build.to_owned();
        DiskCache { build, ..self }
    }

    /// Why the folder is not used; `None` as long as nothing speaks against it.
    pub fn refusal(&self) -> Option<String> {
        self.folder.refusal()
    }

    /// How many functions were found, and how many were written.
    pub fn counts(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.found), read(&self.kept))
    }

    /// What code is found by: what all keys of one compiler share, which `machine` adds to the digest once; the function's
    /// content; and its form.
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

    /// Whether there seems to be code of a key.
    pub(crate) fn has(&self, key: &Digest) -> bool {
        self.folder.has(key)
    }

    /// The code of a key; else what `make` makes, which is kept if that took long.
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
        if start.elapsed() >= self.worth {
            self.keep(key, &made, source);
        }
        Ok(made)
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

/// Everything that is known of the machine and of how code is made for it.
pub(crate) fn hash_machine(isa: &dyn TargetIsa, to: &mut Digester) {
    (isa.name(), isa.triple().to_string()).hash(to);
    isa.flags().to_string().hash(to);
    for flag in isa.isa_flags() {
        (flag.name, flag.value_string()).hash(to);
    }
}
