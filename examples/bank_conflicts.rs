//! A tool that counts bank conflicts of shared memory for each source line, used on three kernels that transpose a
//! matrix.
//!
//! Shared memory has 32 banks of 4 bytes. In one cycle, each bank delivers one word. If lanes of a warp access
//! different words of the same bank, the access takes as many cycles as there are words: all cycles but the first are
//! conflicts. Lanes that access the same word share a cycle.
//!
//! ```sh
//! cargo run --release -p margay --example bank_conflicts
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::{Arc, Mutex};

use margay::observe::{Access, AccessKind, Event, Events, Launch, Request, Space, Tool};
use margay::{KernelInfo, LaunchConfig, Runtime};

const PTX: &str = include_str!("kernels/transpose.ptx");

/// Width of a tile, which is `TILE` in the CUDA source.
const TILE: u32 = 32;
const BANKS: u64 = 32;
const BANK_BYTES: u64 = 4;

/// The accesses of one source line of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Count {
    /// Number of accesses of warps.
    accesses: u64,
    /// Number of cycles that these accesses take in addition to the first cycle of each access.
    conflicts: u64,
}

/// Counts the accesses to shared memory for each kernel and source line.
#[derive(Default)]
struct BankConflicts(Mutex<BTreeMap<(String, u32), Count>>);

impl Tool for BankConflicts {
    fn name(&self) -> &str {
        "bank conflicts"
    }

    // Conflicts occur between the lanes of a warp that execute an instruction together, so the tool needs whole warps.
    fn request(&self, _: &KernelInfo) -> Request {
        Request::none()
            .accesses(&[Space::Shared], &AccessKind::ALL)
            .whole_warps()
    }

    fn events(&self, launch: &Launch, events: Events<'_>) {
        let mut counts = self.0.lock().expect("no thread panics with the lock");
        for event in events {
            let Event::Access(access) = event else {
                continue;
            };
            let line = match launch.source(access.position) {
                Some(source) => source.line,
                None => access.position.ptx_line(),
            };
            let name = launch.kernel().name.clone();
            let count = counts.entry((name, line)).or_default();
            count.accesses += 1;
            count.conflicts += conflicts(&access);
        }
    }
}

/// Returns the number of cycles that an access takes in addition to the first one. The hardware splits accesses of 8
/// and 16 bytes into accesses of half and quarter warps, which transfer 128 bytes each.
fn conflicts(access: &Access<'_>) -> u64 {
    let lanes: Vec<(u32, u64)> = access.lanes().collect();
    let size = u64::from(access.bytes).max(BANK_BYTES);
    let together = (BANKS * BANK_BYTES / size) as u32;
    let parts = lanes.chunk_by(|(a, _), (b, _)| a / together == b / together);
    let cycles: usize = parts
        .map(|part| {
            let mut words = vec![BTreeSet::new(); BANKS as usize];
            for (_, address) in part {
                for word in address / BANK_BYTES..(address + size) / BANK_BYTES {
                    words[(word % BANKS) as usize].insert(word);
                }
            }
            words.iter().map(BTreeSet::len).max().unwrap_or(0) - 1
        })
        .sum();
    cycles as u64
}

/// Transposes a matrix of `n` times `n` elements with each kernel. Returns the accesses by kernel and line.
fn count(n: u32) -> Result<BTreeMap<(String, u32), Count>, Box<dyn Error>> {
    let tool = Arc::new(BankConflicts::default());
    let runtime = Runtime::builder().tool(tool.clone()).build()?;
    let module = runtime.load_ptx(PTX)?;
    let matrix: Vec<f32> = (0..n * n).map(|i| i as f32).collect();
    let input = runtime.upload(&matrix)?;
    for name in ["naive", "tiled", "padded"] {
        let mut output = runtime.alloc::<f32>(matrix.len())?;
        let config = LaunchConfig::new((n / TILE, n / TILE), (TILE, TILE));
        runtime.launch(&module.kernel(name)?, config, (&input, &mut output, n))?;
        let output = output.to_vec()?;
        let is_right = |i: u32| output[(i % n * n + i / n) as usize] == matrix[i as usize];
        if !(0..n * n).all(is_right) {
            return Err(format!("{name}: the result is not the transposed matrix").into());
        }
    }
    let counts = tool.0.lock().expect("no thread panics with the lock");
    Ok(counts.clone())
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("kernel  line  accesses  conflicts");
    for ((kernel, line), count) in count(64)? {
        let Count {
            accesses,
            conflicts,
        } = count;
        println!("{kernel:7} {line:4} {accesses:9} {conflicts:10}");
    }
    Ok(())
}

/// A matrix of 64 x 64 elements has 4 tiles, and a block has 32 warps, so each line that accesses shared memory does
/// so 128 times.
///
/// A warp stores a row: 32 neighbouring words in 32 banks, without conflicts. It loads a column. In `tiled`, the words
/// of a column are 32 words apart and hence in one bank: the access takes 32 cycles, 31 more than one, and
/// 128 * 31 = 3968. In `padded` they are 33 words apart and hence in 32 banks.
#[test]
fn columns_of_unpadded_tiles_conflict() {
    let counts = count(64).expect("the example runs");
    let row = |kernel: &str, line, conflicts| {
        let count = Count {
            accesses: 128,
            conflicts,
        };
        ((kernel.to_owned(), line), count)
    };
    let expected = [
        row("padded", 32, 0),
        row("padded", 34, 0),
        row("tiled", 22, 0),
        row("tiled", 24, 3968),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
}

#[test]
fn the_example_runs() {
    main().expect("the example ends without an error");
}
