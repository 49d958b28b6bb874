//! The counting run, with which the original engine finds the size of a dynamic map.

use std::sync::Arc;

use margay::Result;
use margay::probe::{Beginning, Block, Ended, LaunchProbes, ProbedLaunch, Probes};
use parking_lot::Mutex;

use super::kernel::geometry;

/// The maximum number of bytes that a thread saves, which the last counting run found.
#[derive(Default)]
pub(super) struct Counted(Mutex<Option<u32>>);

impl Counted {
    pub(super) fn take(&self) -> Option<u32> {
        self.0.lock().take()
    }
}

/// The probes of the counting kernel: one number of 8 bytes for each thread.
pub(super) struct Counter(Arc<Counted>);

impl Counter {
    pub(super) fn new(counted: Arc<Counted>) -> Counter {
        Counter(counted)
    }
}

impl Probes for Counter {
    fn launch(&self, launch: &ProbedLaunch<'_>) -> Result<Option<Box<dyn LaunchProbes>>> {
        let shape = geometry(launch);
        let threads = shape.ctas().zip(shape.threads());
        let threads = threads.and_then(|(ctas, threads)| ctas.checked_mul(threads));
        let bytes = threads.and_then(|threads| threads.checked_mul(8));
        let bytes = bytes.ok_or_else(|| {
            margay::Error::LaunchOutOfResources("the counters do not fit".to_owned())
        })?;
        Ok(Some(Box::new(CountingRun {
            counted: Arc::clone(&self.0),
            bytes,
        })))
    }
}

struct CountingRun {
    counted: Arc<Counted>,
    bytes: u64,
}

impl LaunchProbes for CountingRun {
    fn blocks(&self) -> Vec<Block> {
        vec![Block {
            bytes: self.bytes,
            least: self.bytes,
        }]
    }

    fn begin(&self, blocks: &[(u64, u64)]) -> Beginning {
        Beginning {
            first_bytes: Vec::new(),
            arguments: blocks.iter().map(|(address, _)| *address).collect(),
        }
    }

    fn end(&self, end: &Ended<'_>) {
        let Ok(memory) = end.memory.read(0, 0, self.bytes) else {
            return;
        };
        let (counts, _) = memory.as_chunks::<8>();
        let counts = counts.iter().map(|&count| u64::from_le_bytes(count));
        let most = counts.max().unwrap_or(0);
        *self.counted.0.lock() = Some(u32::try_from(most).unwrap_or(u32::MAX));
    }
}
