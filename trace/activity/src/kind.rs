//! The kinds of records, and sets of kinds.

use std::sync::atomic::{AtomicU64, Ordering};

/// A kind of record, with its number in CUPTI (`CUpti_ActivityKind`).
///
/// ```
/// use margay_activity::Kind;
///
/// assert_eq!(Kind::ConcurrentKernel as u32, 10);
/// assert_eq!(Kind::of_number(4), Some(Kind::Driver));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum Kind {
    /// Copies.
    Copy = 1,
    /// Fills.
    Fill = 2,
    /// Kernels.
    Kernel = 3,
    /// Calls of the driver API.
    Driver = 4,
    /// The devices.
    Device = 8,
    /// The contexts.
    Context = 9,
    /// Kernels. Kernels that CUPTI records with this kind can run at the same time, as Margay's always can.
    ConcurrentKernel = 10,
    /// Annotations of the program (NVTX).
    Marker = 12,
    /// Categories, colours and payloads of annotations.
    MarkerData = 13,
    /// Time that the recording takes.
    Overhead = 17,
    /// Copies between devices.
    PeerCopy = 22,
    /// Kernels of loaded modules.
    Function = 26,
    /// Loaded modules.
    Module = 27,
    /// Records of CUDA events.
    CudaEvent = 36,
    /// Created streams.
    Stream = 37,
    /// Waits.
    Synchronisation = 38,
    /// Numbers that the client has pushed around calls.
    ExternalCorrelation = 39,
    /// Allocations and releases of memory.
    Memory = 49,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 18] = [
        Kind::Copy,
        Kind::Fill,
        Kind::Kernel,
        Kind::Driver,
        Kind::Device,
        Kind::Context,
        Kind::ConcurrentKernel,
        Kind::Marker,
        Kind::MarkerData,
        Kind::Overhead,
        Kind::PeerCopy,
        Kind::Function,
        Kind::Module,
        Kind::CudaEvent,
        Kind::Stream,
        Kind::Synchronisation,
        Kind::ExternalCorrelation,
        Kind::Memory,
    ];

    /// Returns the kind with a number, if Margay records it.
    pub fn of_number(number: u32) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u32 == number)
    }

    fn bit(self) -> u64 {
        1 << self as u32
    }
}

/// A set of kinds that several threads read and change.
///
/// ```
/// use margay_activity::{Kind, Kinds};
///
/// let kinds = Kinds::default();
/// kinds.set(Kind::Copy, true);
/// assert!(kinds.has(Kind::Copy) && !kinds.has(Kind::Fill));
/// ```
#[derive(Debug, Default)]
pub struct Kinds(AtomicU64);

impl Kinds {
    /// Adds a kind or removes it. Returns whether the set contained it.
    pub fn set(&self, kind: Kind, on: bool) -> bool {
        let before = match on {
            true => self.0.fetch_or(kind.bit(), Ordering::Relaxed),
            false => self.0.fetch_and(!kind.bit(), Ordering::Relaxed),
        };
        before & kind.bit() != 0
    }

    /// Returns whether the set contains a kind.
    pub fn has(&self, kind: Kind) -> bool {
        self.0.load(Ordering::Relaxed) & kind.bit() != 0
    }

    /// Returns whether the set contains one of several kinds.
    pub fn has_any(&self, kinds: &[Kind]) -> bool {
        let bits = kinds.iter().fold(0, |bits, kind| bits | kind.bit());
        self.0.load(Ordering::Relaxed) & bits != 0
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Removes all kinds.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
