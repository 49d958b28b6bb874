//! Fuzz targets that generate whole kernels. Small kernels must have the same results on all
//! engines. Large kernels must have the same results with the engine `Auto` (native code, or the
//! interpreter if the compiler cannot compile the kernel) as with the interpreter.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use margay::{DeviceBuffer, EngineChoice, LaunchConfig, Runtime};

use crate::random::generate;
use crate::random::machines::Bench;
use crate::random::numbers::Random;
use crate::random::report;

/// Maximum number of bytes that determine choices of the generator. The remaining bytes of a longer input do not change
/// the kernel.
const CHOICES: usize = 1 << 12;

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// Checks that the kernel that is generated from the input leaves the same bytes in memory on every
/// machine (see [`crate::random`]).
pub fn kernels(bytes: &[u8]) {
    static BENCH: LazyLock<Mutex<Bench>> =
        LazyLock::new(|| Mutex::new(Bench::new().expect("the runtimes")));
    let seed = hash(bytes);
    let chosen = &bytes[..bytes.len().min(CHOICES)];
    let kernel = generate::chosen(seed, Random::chosen(chosen, seed));
    let mut bench = BENCH.lock().expect("no input panicked");
    let failures = bench.run(&[kernel]).expect("the runtimes");
    if let Some(failure) = failures.first() {
        panic!("{}", report(&mut bench, failure));
    }
}

/// Number of threads in the block of a large kernel.
const THREADS: u32 = 64;
/// Maximum number of statements in a large kernel.
const STATEMENTS: usize = 6000;

/// Checks that a large kernel leaves the same bytes in memory with native code (or with its
/// fallback if a compile budget is exceeded) as with the interpreter.
///
/// The kernel consists of fragments (parts of the kernel of different kinds, such as nested loops).
/// Each pair of input bytes states the kind of a fragment and its number of statements, which is a
/// power of two plus a small number.
pub fn large_kernels(bytes: &[u8]) {
    let text = large(bytes);
    let run = |engine| {
        let run = || -> Result<Vec<u32>, margay::Error> {
            let runtime = Runtime::builder()
                .engine(engine)
                .workers(1)
                .time_limit(Duration::from_secs(60))
                .build()?;
            let module = runtime.load_ptx(&text)?;
            let start: Vec<u32> = (0..THREADS).map(|t| t * 77 + 5).collect();
            let values: DeviceBuffer<u32> = runtime.upload(&start)?;
            let config = LaunchConfig::new(1, THREADS);
            runtime.launch(&module.kernel("k")?, config, (&values,))?;
            values.to_vec()
        };
        run().unwrap_or_else(|error| panic!("{engine:?}: {error}\n{text}"))
    };
    let expected = run(EngineChoice::Interpreter);
    assert!(run(EngineChoice::Auto) == expected, "{text}");
}

/// Returns the PTX text of the large kernel that `bytes` describes.
fn large(bytes: &[u8]) -> String {
    let mut large = Large::default();
    for pair in bytes.chunks_exact(2) {
        let wanted = (1 << (pair[1] % 13)) + usize::from(pair[1] / 13);
        let count = wanted.min(STATEMENTS.saturating_sub(large.statements));
        if count == 0 {
            break;
        }
        large.statements += count;
        large.fragment(pair[0], count);
    }
    let Large {
        functions, body, ..
    } = large;
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n{functions}\
         .visible .entry k(.param .u64 p) {{\n\
         .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<4>; .shared .b32 cells[{THREADS}]; .local .b32 own[16];\n\
         ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2;\n\
         mov.u64 %rd3, cells; add.u64 %rd2, %rd2, %rd3; ld.global.u32 %r2, [%rd1];\n\
         st.shared.u32 [%rd2], %r1; bar.sync 0; setp.lt.u32 %p0, %r1, 9; setp.gt.u32 %p1, %r1, 3;\n\
         mov.pred %p2, %p0; not.pred %p3, %p1;\n\
         {body}END: st.global.u32 [%rd1], %r2;\nret;\n}}\n"
    )
}

#[derive(Default)]
struct Large {
    functions: String,
    body: String,
    statements: usize,
    /// Number of unique names that have been generated so far.
    names: usize,
}

/// Register `%r1` contains the thread's number, and `%r2` contains the thread's value. `%rd1`
/// contains the address of the value, and `%rd2` contains the address of the thread's cell in
/// shared memory. Each fragment begins with all threads of the block converged, except warps that
/// have exited.
impl Large {
    fn name(&mut self) -> usize {
        self.names += 1;
        self.names
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.body, "{line}");
    }

    /// Appends the lines `line(n)` for `count` new numbers `n`.
    fn lines(&mut self, count: usize, line: impl Fn(usize) -> String) {
        for _ in 0..count {
            let name = self.name();
            self.line(format_args!("{}", line(name)));
        }
    }

    fn fragment(&mut self, kind: u8, count: usize) {
        match kind % 16 {
            0 => self.lines(count, |i| {
                format!("mad.lo.u32 %r2, %r2, {}, {i};", i | 1)
            }),
            1 => self.lines(count, |i| format!("add.u32 %r2, %r2, {i}; bar.sync {};", i % 16)),
            2 => self.lines(count, |i| {
                format!("setp.lt.u32 %p1, %r2, {i}; @%p1 bra L{i}; xor.b32 %r2, %r2, {i}; L{i}:")
            }),
            3 => self.lines(count, |i| {
                let lane = i % 32;
                format!(
                    "shfl.sync.idx.b32 %r3|%p1, %r2, {lane}, 31, -1; @%p1 add.u32 %r2, %r2, %r3;"
                )
            }),
            4 => self.lines(count, |i| format!("N{i}:")),
            5 => self.lines(count, |i| {
                format!(
                    "mov.u32 %r3, 0; A{i}: add.u32 %r2, %r2, %r3; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, {}; @%p1 bra A{i};",
                    i % 4
                )
            }),
            6 => self.lines(count, |i| {
                format!(
                    "st.shared.u32 [%rd2], %r2; bar.sync 0; ld.shared.u32 %r3, [cells+{}]; bar.sync 0; add.u32 %r2, %r2, %r3;",
                    i % THREADS as usize * 4
                )
            }),
            7 => self.lines(count, |i| {
                let at = i % 16 * 4;
                format!("st.local.u32 [own+{at}], %r2; ld.local.u32 %r3, [own+{at}]; sub.u32 %r2, %r3, {i};")
            }),
            8 => self.lines(count, |i| {
                format!("setp.gt.u32 %p{}, %r2, {i}; selp.u32 %r2, {i}, %r2, %p{}; cvt.rn.f32.u32 %r3, %r2; cvt.rzi.u32.f32 %r2, %r3;", i % 4, (i + 1) % 4)
            }),
            // Whole warps exit, because a shuffle that reads from an exited lane has an undefined result.
            9 => self.lines(count, |i| {
                format!("setp.gt.u32 %p1, %r1, 31; @%p1 bra END; add.u32 %r2, %r2, {i};")
            }),
            10 => self.live(count),
            11 => self.nest(count.min(500)),
            12 => self.calls(count.min(500)),
            13 => self.switch(count),
            14 => self.lines(count, |i| {
                format!(
                    "atom.shared.add.u32 %r3, [%rd2], {i}; vote.sync.ballot.b32 %r3, %p1, -1; atom.global.xor.b32 %r2, [%rd1], %r2;"
                )
            }),
            _ => self.lines(count, |i| {
                format!("{{ .reg .b64 %x; cvt.u64.u32 %x, %r2; mul.lo.u64 %x, %x, {i}; cvt.u32.u64 %r2, %x; }}")
            }),
        }
    }

    /// Appends instructions that compute `count` values, a barrier, and instructions that use these
    /// values.
    fn live(&mut self, count: usize) {
        let name = self.name();
        self.line(format_args!("{{ .reg .b32 %v{name}_<{count}>;"));
        for i in 0..count {
            self.line(format_args!("add.u32 %v{name}_{i}, %r2, {i};"));
        }
        self.line(format_args!("bar.sync 0;"));
        for i in 0..count {
            self.line(format_args!("mad.lo.u32 %r2, %r2, 3, %v{name}_{i};"));
        }
        self.line(format_args!("}}"));
    }

    /// Appends `count` nested loops, each of which runs one iteration.
    fn nest(&mut self, count: usize) {
        let name = self.name();
        self.line(format_args!("{{ .reg .b32 %n{name}_<{count}>;"));
        for i in 0..count {
            self.line(format_args!("mov.u32 %n{name}_{i}, 0; B{name}_{i}:"));
        }
        self.line(format_args!("mad.lo.u32 %r2, %r2, 5, 1;"));
        for i in (0..count).rev() {
            self.line(format_args!(
                "add.u32 %n{name}_{i}, %n{name}_{i}, 1; setp.lt.u32 %p1, %n{name}_{i}, 1; @%p1 bra B{name}_{i};"
            ));
        }
        self.line(format_args!("}}"));
    }

    /// Appends a call of a chain of `count` functions, each of which calls the next. Each function
    /// contains a barrier.
    fn calls(&mut self, count: usize) {
        let name = self.name();
        for i in 0..count {
            let inner = match i {
                0 => String::from("mov.u32 t, a;"),
                _ => format!("call.uni (t), f{name}_{}, (a);", i - 1),
            };
            let _ = writeln!(
                self.functions,
                ".func (.reg .b32 o) f{name}_{i} (.reg .b32 a) {{ .reg .b32 t; {inner} bar.sync 0; add.u32 o, t, {i}; ret; }}"
            );
        }
        self.line(format_args!(
            "call.uni (%r2), f{name}_{}, (%r2);",
            count - 1
        ));
    }

    /// Appends an indexed branch (`brx.idx`) with `count` targets. Each target falls through to the next target.
    fn switch(&mut self, count: usize) {
        let name = self.name();
        let targets: Vec<String> = (0..count).map(|i| format!("S{name}_{i}")).collect();
        self.line(format_args!(
            "T{name}: .branchtargets {};\nrem.u32 %r3, %r2, {count}; brx.idx %r3, T{name};",
            targets.join(", ")
        ));
        for (i, target) in targets.iter().enumerate() {
            self.line(format_args!("{target}: add.u32 %r2, %r2, {i};"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each kind of fragment, tests kernels that contain only this kind, in three sizes.
    #[test]
    fn every_fragment_is_valid_and_runs_alike() {
        for kind in 0..16 {
            for size in [0, 14, 5] {
                large_kernels(&[kind, size]);
            }
        }
    }
}
