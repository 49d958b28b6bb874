//! Stream memory operations: waiting for and writing 32- and 64-bit values in stream order.
//!
//! Sources: CUDA driver API, "Stream Memory Operations". A wait polls memory until its condition
//! holds. No worker executes the wait ([`crate::wait`]). The operations of a batch are performed in
//! order. Invariant: addresses are checked when a batch is submitted, and a second time before each
//! access. All accesses use `fault::access`. The program can free or unregister the memory between
//! submission and access, and between two launches of a graph.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::fault::access;
use crate::memory::{AddressSpace, Allocation, MemoryKind, READ_ONLY};
use crate::task::Work;

/// The condition that ends a wait.
///
/// ```
/// use margay::memop::{Comparison, MemOp, Width};
///
/// let address = 0x1000;
/// let op = MemOp::Wait { address, value: 1, width: Width::W32, until: Comparison::GreaterOrEqual };
/// assert!(matches!(op, MemOp::Wait { until: Comparison::GreaterOrEqual, .. }));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// The value in memory minus the operand, computed with wrap-around and regarded as a signed
    /// number, is not negative.
    GreaterOrEqual,
    /// The value in memory equals the operand.
    Equal,
    /// At least one bit is one in both the value in memory and the operand.
    And,
    /// At least one bit is zero in both the value in memory and the operand.
    Nor,
}

/// The width of a value.
///
/// ```
/// use margay::memop::{MemOp, Width};
///
/// let op = MemOp::Write { address: 0x1000, value: 1, width: Width::W64 };
/// assert!(matches!(op, MemOp::Write { width: Width::W64, .. }));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// 32 bits; the upper half of the operand has no effect.
    W32,
    /// 64 bits.
    W64,
}

/// The operation of an atomic reduction.
///
/// ```
/// use margay::memop::{MemOp, Reduction, Width};
///
/// let rt = margay::Runtime::new()?;
/// let sum = rt.upload(&[40u64])?;
/// let (address, width) = (sum.ptr().address(), Width::W64);
/// let op = MemOp::Reduce { address, value: 2, width, with: Reduction::Add };
/// rt.context()?.legacy_stream().memory_ops(&[op])?;
/// assert_eq!(sum.to_vec()?, [42]);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// Bitwise or.
    Or,
    /// Bitwise and.
    And,
    /// Sum, wrapping.
    Add,
}

/// A stream memory operation.
///
/// ```
/// use margay::memop::{MemOp, Width};
///
/// let rt = margay::Runtime::new()?;
/// let flag = rt.upload(&[0u32])?;
/// let op = MemOp::Write { address: flag.ptr().address(), value: 1, width: Width::W32 };
/// rt.context()?.legacy_stream().memory_ops(&[op])?;
/// assert_eq!(flag.to_vec()?, [1]);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemOp {
    /// Waits until the value in memory satisfies a condition.
    Wait {
        /// The address of the value in memory.
        address: u64,
        /// The operand.
        value: u64,
        /// The width of the value.
        width: Width,
        /// The condition.
        until: Comparison,
    },
    /// Writes a value to memory.
    Write {
        /// The address of the value in memory.
        address: u64,
        /// The value to write.
        value: u64,
        /// The width of the value.
        width: Width,
    },
    /// Changes a value in memory atomically.
    Reduce {
        /// The address of the value in memory.
        address: u64,
        /// The operand.
        value: u64,
        /// The width of the value.
        width: Width,
        /// The operation.
        with: Reduction,
    },
    /// Orders earlier operations before later operations. A request to flush remote writes also becomes this operation.
    Barrier,
}

impl Width {
    fn bytes(self) -> u64 {
        match self {
            Width::W32 => 4,
            Width::W64 => 8,
        }
    }
}

impl MemOp {
    /// Returns the address of the value in memory; `None` for a barrier.
    pub(crate) fn address(&self) -> Option<u64> {
        self.place().map(|(address, _)| address)
    }

    fn place(&self) -> Option<(u64, Width)> {
        match *self {
            MemOp::Wait { address, width, .. }
            | MemOp::Write { address, width, .. }
            | MemOp::Reduce { address, width, .. } => Some((address, width)),
            MemOp::Barrier => None,
        }
    }

    /// Returns an error unless the address is aligned and the value is inside an allocation that the operation may
    /// access.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] when the address is misaligned or not inside an allocation, and for a write to memory
    /// that is registered as read-only.
    pub fn check(&self, context: &Context) -> Result<()> {
        self.check_in(context.machine().memory.space())
    }

    fn check_in(&self, space: &AddressSpace) -> Result<()> {
        let Some((address, width)) = self.place() else {
            return Ok(());
        };
        let bytes = width.bytes();
        if !address.is_multiple_of(bytes) {
            return Err(Error::invalid(format!(
                "{address:#x} is not aligned to {bytes} bytes"
            )));
        }
        let writes = !matches!(self, MemOp::Wait { .. });
        match space.find(address) {
            Some(found) if writes && is_read_only(&found) => Err(Error::invalid(format!(
                "the memory at {address:#x} is registered as read-only"
            ))),
            Some(found) if found.holds(address, bytes) => Ok(()),
            _ => Err(Error::invalid(format!("no device memory at {address:#x}"))),
        }
    }

    /// Performs the operation. Returns false if the operation is a wait whose condition does not
    /// hold yet. Returns an error if the memory has been freed or unregistered since the operation
    /// was submitted.
    fn step(&self, space: &AddressSpace) -> Result<bool> {
        self.check_in(space)?;
        let _unblocked = crate::fault::keep_for_copy();
        fence(Ordering::SeqCst);
        let done = match *self {
            MemOp::Wait {
                address,
                value,
                width,
                until,
            } => {
                let seen = load(address, width)?;
                until.holds(seen, value, width)
            }
            MemOp::Write {
                address,
                value,
                width,
            } => {
                // SAFETY: the address was just looked up as memory of this runtime or as registered memory. If it has
                // been freed since, the access faults, and the fault is returned as an error.
                let written = unsafe {
                    match width {
                        Width::W32 => access::store32(address, value as u32),
                        Width::W64 => access::store64(address, value),
                    }
                };
                written.map_err(inaccessible)?;
                true
            }
            MemOp::Reduce {
                address,
                value,
                width,
                with,
            } => {
                let change = |old: u64| with.of(old, value);
                // SAFETY: the same holds as for a write.
                unsafe { access::update(address, width.bytes() as u32, change) }
                    .map_err(inaccessible)?;
                true
            }
            MemOp::Barrier => true,
        };
        fence(Ordering::SeqCst);
        Ok(done)
    }
}

/// Returns whether the program registered the memory as read-only.
fn is_read_only(found: &Allocation) -> bool {
    found.kind == MemoryKind::Registered && found.flags & READ_ONLY != 0
}

fn load(address: u64, width: Width) -> Result<u64> {
    match width {
        Width::W32 => access::load32(address).map(u64::from),
        Width::W64 => access::load64(address),
    }
    .map_err(inaccessible)
}

fn inaccessible(fault: access::AccessFault) -> Error {
    Error::invalid(fault.to_string())
}

impl Comparison {
    fn holds(self, seen: u64, operand: u64, width: Width) -> bool {
        let mask = match width {
            Width::W32 => u64::from(u32::MAX),
            Width::W64 => u64::MAX,
        };
        let operand = operand & mask;
        match self {
            Comparison::Equal => seen == operand,
            Comparison::And => seen & operand != 0,
            Comparison::Nor => !(seen | operand) & mask != 0,
            Comparison::GreaterOrEqual => match width {
                Width::W32 => (seen as u32).wrapping_sub(operand as u32) as i32 >= 0,
                Width::W64 => seen.wrapping_sub(operand) as i64 >= 0,
            },
        }
    }
}

impl Reduction {
    fn of(self, old: u64, operand: u64) -> u64 {
        match self {
            Reduction::Or => old | operand,
            Reduction::And => old & operand,
            Reduction::Add => old.wrapping_add(operand),
        }
    }
}

/// Returns the work that performs the operations of a batch one after the other, in the memory of a
/// context's machine.
pub(crate) fn work(context: &Context, ops: Vec<MemOp>) -> Work {
    let space = Arc::clone(context.machine().memory.space());
    let mut next = 0;
    Work::Wait(Box::new(move || {
        while let Some(op) = ops.get(next) {
            if !op.step(&space)? {
                return Ok(false);
            }
            next += 1;
        }
        Ok(true)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_those_of_the_documentation() {
        use Comparison as C;
        let holds = |c: C, seen, operand| {
            [Width::W32, Width::W64].map(|width| c.holds(seen, operand, width))
        };
        assert_eq!(holds(C::GreaterOrEqual, 5, 5), [true, true]);
        assert_eq!(holds(C::GreaterOrEqual, 4, 5), [false, false]);
        assert_eq!(
            holds(C::GreaterOrEqual, 1, 0xffff_fff0),
            [true, false],
            "32 bits have wrapped around"
        );
        assert_eq!(holds(C::Equal, 7, 7 | 1 << 40), [true, false]);
        assert_eq!(holds(C::And, 6, 4), [true, true]);
        assert_eq!(holds(C::And, 6, 9), [false, false]);
        assert_eq!(holds(C::Nor, 0xffff_0000, 0xffff), [false, true]);
        assert_eq!(holds(C::Nor, 0xffff_0000, 0xfffe), [true, true]);
    }

    #[test]
    fn writes_need_memory_that_may_be_written_now() {
        let runtime = crate::Runtime::new().expect("a runtime");
        let context = runtime.context().expect("a context");
        let stream = context.legacy_stream();
        let width = Width::W32;
        let write = |address: u64| {
            let value = 1;
            let op = MemOp::Write {
                address,
                value,
                width,
            };
            stream.memory_ops(&[op])
        };
        let mut words = vec![7u32; 4096];
        let flags = crate::HostFlags {
            read_only: true,
            ..crate::HostFlags::default()
        };
        let host = words.as_mut_ptr().cast();
        context.register_host(host, 16384, flags).expect("mapped");
        let wait = MemOp::Wait {
            address: host as u64,
            value: 7,
            width,
            until: Comparison::Equal,
        };
        stream.memory_ops(&[wait]).expect("readable");
        assert!(matches!(write(host as u64), Err(Error::InvalidValue(_))));
        context.unregister_host(host).expect("registered");
        // Memory of a graph that no launch has allocated.
        let graph = crate::graph::Graph::new();
        let (_, memory) = graph.add_alloc(&[], &context, 4096).expect("room");
        let address = memory.address();
        assert!(matches!(write(address), Err(Error::InvalidValue(_))));
        let exec = graph.instantiate(Default::default()).expect("valid");
        exec.launch(&stream).expect("launched");
        write(address).expect("allocated");
        runtime.synchronize().expect("no fault");
    }
}
