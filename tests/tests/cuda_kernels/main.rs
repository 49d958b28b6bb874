//! Runs the kernels of `tests/cuda`, which NVIDIA's compiler has compiled, through the public
//! interface of the runtime.
//!
//! Each test compares the results with a calculation in Rust. Each test runs with one worker, with
//! three workers, and with blocks in reverse order. Buffers for results are filled with a sentinel
//! or with initial values, so a test whose kernel does not run fails. `cargo xtask e2e` runs the
//! same programs with their CUDA host code, for which it needs NVIDIA's compiler. The tests in this
//! file need no other software.

mod data_parallel;
mod device_functions;
mod forward_progress;
mod shared_memory;
mod warps;

use std::fmt::Debug;
use std::fs;
use std::io::Read;
use std::path::PathBuf;

use margay::{DeviceBuffer, KernelArgs, LaunchConfig, Module, Plain, Runtime};

/// A runtime with one loaded module.
struct Gpu {
    runtime: Runtime,
    module: Module,
}

impl Gpu {
    /// Launches a kernel of the module on the null stream.
    fn launch<A: KernelArgs>(&self, kernel: &str, config: LaunchConfig, args: A) {
        let kernel = self.module.kernel(kernel).expect("the kernel exists");
        self.runtime
            .launch(&kernel, config, args)
            .expect("the launch is accepted");
    }

    /// Returns a buffer with a copy of `values`.
    fn upload<T: Plain>(&self, values: &[T]) -> DeviceBuffer<T> {
        let mut buffer = self.runtime.alloc(values.len()).expect("there is memory");
        buffer.write(values).expect("the copy works");
        buffer
    }

    /// Returns a buffer for results that is filled with the sentinel.
    fn output<T: Plain>(&self, len: usize) -> DeviceBuffer<T> {
        let buffer = self.runtime.alloc(len).expect("there is memory");
        let stream = self.runtime.context().expect("a context").legacy_stream();
        stream
            .fill(buffer.ptr(), 0xA5, 1, buffer.bytes() as u64, 1, 0)
            .expect("the fill works");
        buffer
    }
}

/// Waits for the earlier kernels and returns the contents of a buffer.
fn read<T: Plain + Default>(buffer: &DeviceBuffer<T>) -> Vec<T> {
    buffer.to_vec().expect("no kernel failed")
}

/// Fails if `got` and `want` differ. The failure message contains the first difference.
#[track_caller]
fn same<T: PartialEq + Debug>(what: &str, got: &[T], want: &[T]) {
    assert_eq!(got.len(), want.len(), "{what}: number of values");
    if let Some(at) = (0..got.len()).find(|&i| got[i] != want[i]) {
        panic!("{what}[{at}]: got {:?}, expected {:?}", got[at], want[at]);
    }
}

/// Returns the PTX of a program of `tests/cuda`.
fn ptx(program: &str) -> String {
    let plain = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("cuda/ptx/{program}.ptx"));
    if let Ok(text) = fs::read_to_string(&plain) {
        return text;
    }
    let packed = fs::read(plain.with_extension("ptx.gz")).expect("the program's PTX is there");
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed.as_slice())
        .read_to_string(&mut text)
        .expect("the PTX unpacks");
    text
}

/// Runs `test` with the module of `program` on several runtimes, which differ in the number of
/// workers and the order of blocks.
fn on_machines(program: &str, test: impl Fn(&Gpu)) {
    let source = ptx(program);
    let builders = [
        ("1 worker", Runtime::builder().workers(1)),
        ("3 workers", Runtime::builder().workers(3)),
        ("reverse order", Runtime::builder().workers(2).reverse()),
    ];
    for (label, builder) in builders {
        eprintln!("{program}: {label}");
        let runtime = builder.build().expect("a runtime");
        let module = runtime.load_ptx(&source).expect("the PTX is accepted");
        test(&Gpu { runtime, module });
    }
}

/// The random generator of `tests/cuda/common.h` (xorshift, 32 bits).
struct Random(u32);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.next() % bound
    }

    /// Returns `len` random numbers below `bound`.
    fn list(&mut self, len: usize, bound: u32) -> Vec<u32> {
        (0..len).map(|_| self.below(bound)).collect()
    }
}
