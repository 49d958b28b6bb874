//! Measures copies and fills, and compares them with copies and fills by one thread of the host (`memcpy`, `memset`).

use margay::{DeviceBuffer, Runtime, Stream, Transfer};
use serde::Serialize;

use crate::measure::{self, Action, Time};
use crate::memory::Memory;

/// Sizes in bytes, with their names. The caches hold the first two, at least in part.
const SIZES: [(&str, usize); 3] = [
    ("1 MiB", 1 << 20),
    ("16 MiB", 16 << 20),
    ("256 MiB", 256 << 20),
];
/// The size that is measured to test the command.
const SMALL: [(&str, usize); 1] = [("1 MiB", 1 << 20)];

/// The measured times of one kind of copy or fill.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Copied {
    pub(crate) what: &'static str,
    pub(crate) size: &'static str,
    /// Number of bytes that a run copies or fills.
    pub(crate) bytes: usize,
    pub(crate) time: Time,
    /// The time of one thread of the host for the same number of bytes.
    pub(crate) host: Time,
}

/// Device memory and host memory of the same size.
struct Bench {
    stream: Stream,
    from: DeviceBuffer<u8>,
    to: DeviceBuffer<u8>,
    source: Memory,
    target: Memory,
    bytes: usize,
}

impl Bench {
    fn new(runtime: &Runtime, bytes: usize) -> margay::Result<Bench> {
        let contents: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
        Ok(Bench {
            stream: runtime.context()?.legacy_stream(),
            from: runtime.upload(&contents)?,
            to: runtime.upload(&vec![0; bytes])?,
            source: Memory::of(&contents),
            target: Memory::of(&contents),
            bytes,
        })
    }

    /// Performs a copy and waits for its end.
    fn copy(&self, transfer: Transfer) {
        // SAFETY: the buffers exist until the copy is complete, and nothing else uses them.
        let copied = unsafe { self.stream.copy(transfer) };
        let done = copied.and_then(|()| self.stream.synchronize());
        done.expect("the buffers have this size");
    }

    fn to_device(&self) {
        let source = self.source.start();
        self.copy(Transfer::to_device(
            self.to.ptr(),
            source,
            self.bytes as u64,
        ));
    }

    fn to_host(&self) {
        let target = self.target.start();
        self.copy(Transfer::to_host(
            target,
            self.from.ptr(),
            self.bytes as u64,
        ));
    }

    fn on_device(&self) {
        self.copy(Transfer::on_device(
            self.to.ptr(),
            self.from.ptr(),
            self.bytes as u64,
        ));
    }

    fn fill(&self) {
        let words = self.bytes as u64 / 4;
        let filled = self.stream.fill(self.to.ptr(), 0x0101_0101, 4, words, 1, 0);
        let done = filled.and_then(|()| self.stream.synchronize());
        done.expect("the buffer has this size");
    }

    fn host_copy(&self) {
        // SAFETY: both allocations have this size.
        unsafe {
            std::ptr::copy_nonoverlapping(
                std::hint::black_box(self.source.start()),
                std::hint::black_box(self.target.start()),
                self.bytes,
            );
        }
    }

    fn host_fill(&self) {
        // SAFETY: the allocation has this size.
        unsafe {
            std::ptr::write_bytes(std::hint::black_box(self.target.start()), 1, self.bytes);
        }
    }

    /// Checks the results of the copies, which must have run.
    fn check(&self) {
        let wanted = self.source.read(self.bytes);
        let matches = |bytes: &[u8]| bytes == wanted;
        self.to_device();
        assert!(matches(&self.to.to_vec().expect("readable")));
        self.fill();
        assert!(
            self.to
                .to_vec()
                .expect("readable")
                .iter()
                .all(|&byte| byte == 1)
        );
        self.on_device();
        assert!(matches(&self.to.to_vec().expect("readable")));
        self.host_fill();
        self.to_host();
        assert!(matches(&self.target.read(self.bytes)));
    }
}

/// Measures all kinds of copies and fills, with as many workers as the machine has cores. If `check` is true, uses
/// little data.
pub(crate) fn measure(check: bool) -> Result<Vec<Copied>, String> {
    margay::files::tell(format_args!("copies"));
    let runtime = Runtime::new().map_err(|e| e.to_string())?;
    let sizes: &[(&str, usize)] = if check { &SMALL } else { &SIZES };
    let mut rows = Vec::new();
    for &(size, bytes) in sizes {
        let bench = Bench::new(&runtime, bytes).map_err(|e| e.to_string())?;
        bench.check();
        let mut actions: Vec<Action<'_>> = vec![
            Box::new(|| bench.to_device()),
            Box::new(|| bench.to_host()),
            Box::new(|| bench.on_device()),
            Box::new(|| bench.fill()),
            Box::new(|| bench.host_copy()),
            Box::new(|| bench.host_fill()),
        ];
        let mut times = measure::in_turns(&mut actions);
        let (host_fill, host_copy) = (times.pop(), times.pop());
        let (host_fill, host_copy) = host_fill.zip(host_copy).expect("six actions");
        let kinds = [
            ("from the host", &host_copy),
            ("to the host", &host_copy),
            ("on the device", &host_copy),
            ("fill", &host_fill),
        ];
        rows.extend(
            kinds
                .into_iter()
                .zip(times)
                .map(|((what, host), time)| Copied {
                    what,
                    size,
                    bytes,
                    time,
                    host: host.clone(),
                }),
        );
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_fills_are_measured() {
        let rows = measure(true).expect("runs");
        assert_eq!(rows.len(), 4);
        assert!(
            rows.iter()
                .all(|row| row.time.median > 0.0 && row.host.median > 0.0)
        );
    }
}
