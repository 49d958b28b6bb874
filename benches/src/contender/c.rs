//! The contender in C: a C function performs the same calculation as the kernel. The benchmark compiles this function
//! at run time.
//!
//! Each source in `benches/c` defines the number of phases and a function `run`, which computes one part of one phase.
//! A phase begins when all parts of the previous phase have ended. `bench.h` is prepended to each source.

use std::ffi::c_int;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Contender, Loaded};
use crate::case::Case;
use crate::library::Library;
use crate::memory::Memory;
use crate::work::Work;

const HEADER: &str = include_str!("../../c/bench.h");
/// Compiler options for every source.
pub(crate) const OPTIONS: &[&str] = &["-O3", "-march=native"];
/// Number of parts of a phase for each thread, if parts of equal size take different times.
const FINE: usize = 16;

/// The type of `run(buffers, numbers, phase, part, parts)`.
type Run = unsafe extern "C" fn(*const *mut u8, *const i64, c_int, c_int, c_int);

/// A C compiler.
#[derive(Clone, Debug)]
pub(crate) struct Compiler {
    program: &'static str,
    /// Whether the compiler is clang and accepts the options of clang.
    clang: bool,
    /// The first line of the compiler's version text.
    pub(crate) version: String,
}

impl Compiler {
    /// Returns clang if it is available. Only C code that clang has compiled is measured.
    pub(crate) fn clang() -> Option<Compiler> {
        ["clang-19", "clang"].into_iter().find_map(Compiler::named)
    }

    /// Returns any available compiler, for tests that check the results of the sources.
    #[cfg(test)]
    pub(crate) fn any() -> Option<Compiler> {
        Compiler::clang().or_else(|| Compiler::named("cc"))
    }

    /// Returns the compiler `program`; `None` if it is not installed or does not support `_Float16`, which some sources
    /// use (clang supports it on x86-64 since version 15, gcc since version 12).
    fn named(program: &'static str) -> Option<Compiler> {
        let output = Command::new(program).arg("--version").output().ok()?;
        if !has_half_precision(program) {
            return None;
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.lines().next()?.trim().to_owned();
        let clang = version.contains("clang");
        Some(Compiler {
            program,
            clang,
            version,
        })
    }

    /// Compiles the source of a kernel to a shared library and loads it.
    fn compile(&self, case: &Case) -> Result<Library, String> {
        static COMPILED: AtomicUsize = AtomicUsize::new(0);
        let number = COMPILED.fetch_add(1, Ordering::Relaxed);
        let name = format!("margay-bench-{}-{number}.so", std::process::id());
        let path = Temporary(std::env::temp_dir().join(name));
        let mut child = Command::new(self.program)
            .args(OPTIONS)
            .args(if self.clang {
                case.sources.c_options
            } else {
                // gcc contracts products and sums even if the source's pragma forbids it.
                &["-ffp-contract=off"]
            })
            .args(["-std=gnu11", "-shared", "-fPIC", "-x", "c", "-", "-o"])
            .arg(&path.0)
            .arg("-lm")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", self.program))?;
        let mut input = child.stdin.take().expect("its input is a pipe");
        // A failed write is ignored: if the compiler ends before it has read its input, it reports the reason on
        // standard error.
        let _ = write!(input, "{HEADER}\n{}", case.sources.c);
        drop(input);
        let output = child.wait_with_output().map_err(|e| e.to_string())?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}: {said}", self.program));
        }
        // SAFETY: the library is compiled from C without initialisers.
        unsafe { Library::open(&path.0.to_string_lossy()) }
    }
}

/// Returns whether the compiler accepts the type `_Float16`.
fn has_half_precision(program: &str) -> bool {
    let mut command = Command::new(program);
    command
        .args(OPTIONS)
        .args(["-fsyntax-only", "-x", "c", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else {
        return false;
    };
    let mut input = child.stdin.take().expect("its input is a pipe");
    // A failed write is ignored: if the compiler ends before it has read its input, its exit status is an error.
    let _ = input.write_all(b"_Float16 same(_Float16 x) { return x; }");
    drop(input);
    child.wait().is_ok_and(|status| status.success())
}

/// A file that is removed when this value is dropped. A loaded library does not need its file.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // The file may not exist.
        let _ = fs::remove_file(&self.0);
    }
}

/// The contender in C, which runs on a pool of a given number of threads.
pub(crate) struct C {
    compiler: Compiler,
    threads: usize,
    pool: std::sync::Arc<rayon::ThreadPool>,
}

impl C {
    pub(crate) fn new(compiler: Compiler, threads: usize) -> Result<C, String> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = std::sync::Arc::new(pool.map_err(|e| e.to_string())?);
        Ok(C {
            compiler,
            threads,
            pool,
        })
    }
}

impl Contender for C {
    fn load(&self, case: &Case, work: &Work) -> Result<Box<dyn Loaded>, String> {
        let library = self.compiler.compile(case)?;
        // SAFETY: every source defines `run` of this type and `phases`, as bench.h declares them.
        let run = unsafe { library.symbol::<Run>(c"run") }?;
        // SAFETY: every source defines `phases` of this type, as bench.h declares it.
        let phases = unsafe { *library.symbol::<*const c_int>(c"phases")? };
        let parts = match (self.threads, case.sources.c_uneven) {
            (1, _) => 1,
            (threads, false) => threads,
            (threads, true) => threads * FINE,
        };
        Ok(Box::new(Ready {
            run,
            phases,
            parts,
            pool: self.pool.clone(),
            buffers: work.buffers.iter().map(|b| Memory::of(b)).collect(),
            numbers: work.numbers.clone(),
        }))
    }
}

struct Ready {
    run: Run,
    phases: c_int,
    parts: usize,
    pool: std::sync::Arc<rayon::ThreadPool>,
    buffers: Vec<Memory>,
    numbers: Vec<i64>,
}

/// Addresses of buffers that the parts of a phase share. No part writes an element that another part of the phase
/// accesses.
struct Shared(Vec<*mut u8>);

// SAFETY: no part of a phase writes an element that another part accesses.
unsafe impl Sync for Shared {}

impl Shared {
    fn pointers(&self) -> *const *mut u8 {
        self.0.as_ptr()
    }
}

impl Loaded for Ready {
    fn run(&mut self) -> Result<(), String> {
        let shared = Shared(self.buffers.iter().map(Memory::start).collect());
        let part = |phase: c_int, part: usize| {
            let (part, parts) = (part as c_int, self.parts as c_int);
            // SAFETY: the work has the buffers and numbers that the source expects.
            unsafe { (self.run)(shared.pointers(), self.numbers.as_ptr(), phase, part, parts) }
        };
        for phase in 0..self.phases {
            if self.parts == 1 {
                part(phase, 0);
                continue;
            }
            let next = AtomicUsize::new(0);
            self.pool.broadcast(|thread| {
                if self.parts == thread.num_threads() {
                    // A thread runs the same part in every run, so that the data of the part is in the cache of the
                    // thread's core.
                    return part(phase, thread.index());
                }
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= self.parts {
                        return;
                    }
                    part(phase, index);
                }
            });
        }
        Ok(())
    }

    fn read(&mut self, buffer: usize, len: usize) -> Result<Vec<u8>, String> {
        Ok(self.buffers[buffer].read(len))
    }
}
