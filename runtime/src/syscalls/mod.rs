//! System calls: the functions of the runtime that device code calls, such as printf, assertions, malloc, free and the
//! functions of the device runtime.
//!
//! The engine calls these functions on a worker, with the addresses that device code passed. The functions access
//! device memory only through `fault::access`, so an invalid address becomes a [`Fault`] of the
//! kernel. Invariant: for all arguments, the functions do not panic, do not loop forever, and do
//! not use more memory than the limits permit.

mod cformat;
pub(crate) mod device_runtime;
mod printf;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use margay_ir::syscall::Syscall;
use parking_lot::Mutex;

pub use crate::engine::{Coordinates, Services};
use crate::error::{Fault, FaultKind};
use crate::fault::{AccessFault, AccessKind, access};
pub use crate::heap::DeviceHeap;
use crate::memory::Visible;
use device_runtime::DeviceRuntime;

/// The state of the system calls for one launch.
pub struct LaunchServices {
    kernel: Arc<str>,
    visible: Option<Arc<Visible>>,
    printed: Mutex<Printed>,
    /// Whether the launch has printed text.
    has_printed: AtomicBool,
    fifo: u64,
    heap_limit: u64,
    heap: Arc<DeviceHeap>,
    pub(crate) device_runtime: DeviceRuntime,
}

#[derive(Default)]
struct Printed {
    /// For each call of printf, in the order of the calls: the linear index of the calling CTA, and
    /// the text.
    records: std::collections::VecDeque<(u64, Vec<u8>)>,
    bytes: u64,
}

/// Maximum number of characters that are read from a string in device memory.
const LONGEST_STRING: usize = 1 << 20;

impl LaunchServices {
    /// Creates the state for a launch of `kernel`. `fifo` is the size in bytes of the printf buffer, and `heap_limit`
    /// is the size in bytes of the heap for malloc.
    pub(crate) fn new(
        kernel: &Arc<str>,
        visible: Option<Arc<Visible>>,
        fifo: u64,
        (heap, heap_limit): (Arc<DeviceHeap>, u64),
        device_runtime: DeviceRuntime,
    ) -> LaunchServices {
        LaunchServices {
            kernel: Arc::clone(kernel),
            visible,
            printed: Mutex::default(),
            has_printed: AtomicBool::new(false),
            fifo,
            heap_limit,
            heap,
            device_runtime,
        }
    }

    /// Returns a fault if device code must not access the `bytes` bytes at `address`.
    fn may(&self, address: u64, bytes: u64, access: AccessKind) -> Result<(), AccessFault> {
        match &self.visible {
            Some(visible) => visible.check(address, bytes, access),
            None => Ok(()),
        }
    }

    fn fault(&self, at: &Coordinates, kind: FaultKind) -> Fault {
        let mut fault = Fault::new(kind, &*self.kernel).at_cta(at.cta);
        fault.thread = Some(at.thread);
        fault
    }

    fn bad_address(&self, at: &Coordinates, access: AccessFault) -> Fault {
        let mut fault = self.fault(at, FaultKind::IllegalAddress);
        fault.address = Some(access.address);
        fault.write = Some(access.access == AccessKind::Write);
        fault
    }

    /// Reads a NUL-terminated string from device memory and returns it without the NUL. If
    /// characters have several bytes, the result contains only the lowest byte of each character.
    fn string(&self, address: u64, char_size: u64) -> Result<Vec<u8>, AccessFault> {
        let step = char_size.clamp(1, 8);
        let mut text = Vec::new();
        let mut at = address;
        while text.len() < LONGEST_STRING {
            self.may(at, 1, AccessKind::Read)?;
            let byte = access::load8(at)?;
            if byte == 0 {
                break;
            }
            text.push(byte);
            at = at.wrapping_add(step);
        }
        Ok(text)
    }

    /// Returns whether the launch has printed text.
    pub(crate) fn has_printed(&self) -> bool {
        self.has_printed.load(Ordering::Acquire)
    }

    /// Removes the text that the launch has printed so far, and returns it in the order of the
    /// CTAs.
    pub(crate) fn take_printed(&self) -> Vec<u8> {
        if !self.has_printed() {
            return Vec::new();
        }
        let printed = std::mem::take(&mut *self.printed.lock());
        let mut records = Vec::from(printed.records);
        records.sort_by_key(|(cta, _)| *cta);
        records.into_iter().flat_map(|(_, text)| text).collect()
    }
}

impl Services for LaunchServices {
    // The text is kept until the launch has ended. If the text exceeds the size of the buffer
    // (`CU_LIMIT_PRINTF_FIFO_SIZE`), the oldest text is discarded.
    fn vprintf(&self, at: &Coordinates, format: u64, arguments: u64) -> Result<i32, Fault> {
        if format == 0 {
            return Ok(-1);
        }
        let format = self
            .string(format, 1)
            .map_err(|fault| self.bad_address(at, fault))?;
        let formatted = printf::format(self, &format, arguments);
        let (text, count) = formatted.map_err(|fault| self.bad_address(at, fault))?;
        let mut printed = self.printed.lock();
        printed.bytes += text.len() as u64;
        printed.records.push_back((at.cta_number, text));
        self.has_printed.store(true, Ordering::Release);
        while printed.bytes > self.fifo && printed.records.len() > 1 {
            if let Some((_, oldest)) = printed.records.pop_front() {
                printed.bytes -= oldest.len() as u64;
            }
        }
        Ok(count)
    }

    fn malloc(&self, bytes: u64) -> u64 {
        let block = self.heap.allocate(bytes, self.heap_limit);
        if block != 0 {
            crate::checks::host::allocated(block, bytes);
        }
        block
    }

    fn heap_region(&self) -> Range<u64> {
        self.heap.region_range()
    }

    fn heap_block(&self, address: u64) -> Option<Range<u64>> {
        self.heap.block(address)
    }

    fn was_freed_in_heap(&self, address: u64) -> bool {
        self.heap.was_freed(address)
    }

    fn free(&self, at: &Coordinates, address: u64) -> Result<(), Fault> {
        if address == 0 || self.heap.free(address) {
            return Ok(());
        }
        let fault = self.fault(at, FaultKind::LaunchFailed);
        Err(fault.with_detail(format!(
            "free({address:#x}), which malloc did not return or which is free already"
        )))
    }

    fn set_conditional(&self, at: &Coordinates, handle: u64, value: u32) -> Result<(), Fault> {
        if crate::conditional::set(handle, value) {
            return Ok(());
        }
        let fault = self.fault(at, FaultKind::LaunchFailed);
        Err(fault.with_detail(format!(
            "{handle:#x} is not a conditional handle of a graph"
        )))
    }

    // This function also writes the message of the assertion to standard error.
    fn assert_fail(
        &self,
        at: &Coordinates,
        message: u64,
        file: u64,
        line: u32,
        function: u64,
        char_size: u64,
    ) -> Fault {
        let text = |address: u64| match self.string(address, char_size) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(_) => "?".to_owned(),
        };
        let ([bx, by, bz], [tx, ty, tz]) = (at.cta, at.thread);
        let report = format!(
            "{}:{line}: {}: block: [{bx},{by},{bz}], thread: [{tx},{ty},{tz}] Assertion `{}` failed.",
            text(file),
            text(function),
            text(message)
        );
        // Earlier output of the program precedes this message only if the program has flushed it.
        margay_jit::files::tell(format_args!("{report}"));
        self.fault(at, FaultKind::Assert).with_detail(report)
    }

    fn device_runtime_call(
        &self,
        at: &Coordinates,
        which: Syscall,
        args: &[u64],
        name_of: &dyn Fn(u64) -> Option<String>,
    ) -> Option<Result<u64, Fault>> {
        let services = self;
        device_runtime::Call {
            services,
            at,
            name_of,
        }
        .answer(which, args)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(super) fn services(fifo: u64) -> LaunchServices {
        LaunchServices::new(
            &"k".into(),
            None,
            fifo,
            (DeviceHeap::detached(), 1 << 20),
            DeviceRuntime::new(None, 0, None, None),
        )
    }

    fn at(cta_number: u64) -> Coordinates {
        Coordinates {
            cta_number,
            ..Coordinates::default()
        }
    }

    fn address(text: &[u8]) -> u64 {
        text.as_ptr() as u64
    }

    #[test]
    fn output_is_in_cta_order_and_within_a_cta_in_order_of_arrival() {
        let services = services(1 << 20);
        for (cta, text) in [(2, b"c\0"), (0, b"a\0"), (2, b"d\0"), (1, b"b\0")] {
            assert_eq!(services.vprintf(&at(cta), address(text), 0), Ok(0));
        }
        assert_eq!(services.take_printed(), b"abcd");
        assert!(services.take_printed().is_empty());
    }

    #[test]
    fn a_full_buffer_loses_the_oldest() {
        let services = services(4);
        for text in [b"ab\0", b"cd\0", b"ef\0"] {
            services
                .vprintf(&at(0), address(text), 0)
                .expect("readable");
        }
        assert_eq!(services.take_printed(), b"cdef");
    }

    #[test]
    fn a_bad_format_is_a_fault_with_its_address() {
        crate::fault::install().expect("supported");
        let fault = services(4).vprintf(&at(0), 16, 0).expect_err("unmapped");
        assert_eq!(fault.kind, FaultKind::IllegalAddress);
        assert_eq!(fault.address, Some(16));
        assert_eq!(services(4).vprintf(&at(0), 0, 0), Ok(-1));
    }

    #[test]
    fn assertions_tell_where() {
        let place = Coordinates {
            cta: [1, 2, 3],
            thread: [4, 5, 6],
            cta_number: 0,
        };
        let (message, file, function) = (b"x > 0\0", b"a.cu\0", b"f\0");
        let fault = services(4).assert_fail(
            &place,
            address(message),
            address(file),
            7,
            address(function),
            1,
        );
        assert_eq!(fault.kind, FaultKind::Assert);
        assert_eq!(
            fault.detail,
            "a.cu:7: f: block: [1,2,3], thread: [4,5,6] Assertion `x > 0` failed."
        );
    }
}
