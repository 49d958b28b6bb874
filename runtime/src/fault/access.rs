//! Accesses to memory that may be unmapped. If an access faults, these functions (copies, fills, loads, stores and
//! compare-and-swap) return `Err` instead of ending the process.
//!
//! Helpers of generated code and copies between host and device use these functions. Any thread may call them after
//! [`super::install`]. Before the call of `install`, a fault in one of these functions ends the program.
//!
//! Loads and stores of up to 8 bytes are single accesses. Loads and stores of 16 bytes are single accesses only if the
//! CPU does not split 16-byte accesses. Loads and stores do not order memory: use [`std::sync::atomic::fence`] around
//! them. Compare-and-swap is sequentially consistent. Copies and fills access each byte at least once, in an
//! unspecified order, and can write a byte several times.
//!
//! Loads are safe functions, because they change no memory and every bit pattern is a valid result.

use super::arch::{RoutineResult, routines};
use super::{AccessKind, TrapKind};

/// The fault of an access to unmapped or protected memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind:?} on {access:?} at address {address:#x}")]
pub struct AccessFault {
    /// Address of a byte that could not be accessed. If the CPU does not report this address, the field contains the
    /// address of the operand.
    pub address: u64,
    /// Direction of the access: read or write.
    pub access: AccessKind,
    /// Reason of the fault.
    pub kind: TrapKind,
}

impl AccessFault {
    /// Sets the direction of a fault of an atomic operation to write, even if the load of the
    /// operation caused the fault.
    fn of_atomic(self) -> AccessFault {
        AccessFault {
            access: AccessKind::Write,
            ..self
        }
    }
}

const KINDS: [TrapKind; 6] = [
    TrapKind::Unmapped,
    TrapKind::Unmapped,
    TrapKind::Protected,
    TrapKind::NonCanonical,
    TrapKind::Misaligned,
    TrapKind::Bus,
];

/// Encodes the kind and the direction of a fault for [`RoutineResult::status`].
pub(super) fn pack_status(kind: TrapKind, access: Option<AccessKind>) -> u64 {
    let index = KINDS.iter().rposition(|&k| k == kind).unwrap_or(1) as u64;
    let direction = match access {
        Some(AccessKind::Write) => 1 << 8,
        Some(_) => 2 << 8,
        None => 0,
    };
    index | direction
}

/// Converts the result of an access routine to the loaded value or the fault. `guess` contains the
/// operand's address and direction. They are used if the CPU does not report the address and the
/// direction of the fault.
#[inline]
fn check(result: RoutineResult, guess: (u64, AccessKind)) -> Result<u64, AccessFault> {
    if result.status == 0 {
        return Ok(result.value);
    }
    let kind = KINDS[(result.status & 0xff) as usize % KINDS.len()];
    Err(AccessFault {
        address: if result.value == 0 {
            guess.0
        } else {
            result.value
        },
        access: match result.status >> 8 {
            1 => AccessKind::Write,
            2 => AccessKind::Read,
            _ => guess.1,
        },
        kind,
    })
}

fn aligned(address: u64, bytes: u64) -> Result<(), AccessFault> {
    if address.is_multiple_of(bytes) {
        return Ok(());
    }
    Err(AccessFault {
        address,
        access: AccessKind::Write,
        kind: TrapKind::Misaligned,
    })
}

/// Copies `n` bytes from `src` to `dst`. Accesses to both ranges can fault. After a fault, the bytes that were already
/// copied remain in `dst`. If the ranges overlap, the copied bytes are unspecified (as for `memcpy`).
///
/// # Errors
/// Returns the first fault if an access faults.
///
/// # Safety
/// No safe Rust code may rely on the contents of the memory `dst..dst + n`. This memory must be
/// device memory, or memory that the program passed as a destination.
pub unsafe fn copy(dst: u64, src: u64, n: usize) -> Result<(), AccessFault> {
    // SAFETY: the caller upholds the contract of this function.
    let result = unsafe { routines::copy(dst, src, n as u64) };
    // If the CPU does not report the direction, the address of the fault shows which of the two ranges faulted.
    let of_source = result.value.wrapping_sub(src) < n as u64;
    let guess = if of_source {
        (src, AccessKind::Read)
    } else {
        (dst, AccessKind::Write)
    };
    check(result, guess).map(|_| ())
}

/// Copies `dst.len()` bytes at `src` into `dst`; the access to `src` can fault.
///
/// # Errors
/// Returns the first fault if an access faults. Part of `dst` may have been written before the
/// fault.
pub fn read(dst: &mut [u8], src: u64) -> Result<(), AccessFault> {
    // SAFETY: the destination is borrowed mutably.
    unsafe { copy(dst.as_mut_ptr() as u64, src, dst.len()) }
}

/// Copies the bytes of `src` to `dst`; the access to `dst` can fault.
///
/// # Errors
/// Returns the first fault if an access faults. The bytes that were copied before the fault remain
/// in `dst`.
///
/// # Safety
/// The requirements of [`copy`] apply.
pub unsafe fn write(dst: u64, src: &[u8]) -> Result<(), AccessFault> {
    // SAFETY: the caller upholds the contract of this function.
    unsafe { copy(dst, src.as_ptr() as u64, src.len()) }
}

/// Sets `n` bytes to `value`.
///
/// # Errors
/// Returns the first fault if an access faults.
///
/// # Safety
/// The requirements of [`copy`] apply.
pub unsafe fn fill8(dst: u64, value: u8, n: usize) -> Result<(), AccessFault> {
    let pattern = u64::from(value) * 0x0101_0101_0101_0101;
    // SAFETY: the caller upholds the contract of this function.
    let result = unsafe { routines::fill(dst, n as u64, pattern) };
    check(result, (dst, AccessKind::Write)).map(|_| ())
}

/// Sets `n` elements of 2 bytes to `value`. If the size in bytes overflows, nothing is written.
///
/// # Errors
/// Returns the first fault, or a fault at `dst` if the size in bytes overflows.
///
/// # Safety
/// The requirements of [`copy`] apply.
pub unsafe fn fill16(dst: u64, value: u16, n: usize) -> Result<(), AccessFault> {
    let pattern = u64::from(value) * 0x0001_0001_0001_0001;
    // SAFETY: the caller upholds the contract of this function.
    unsafe { fill_elements(dst, pattern, n, 2) }
}

/// Sets `n` elements of 4 bytes to `value`. If the size in bytes overflows, nothing is written.
///
/// # Errors
/// Returns the first fault, or a fault at `dst` if the size in bytes overflows.
///
/// # Safety
/// The requirements of [`copy`] apply.
pub unsafe fn fill32(dst: u64, value: u32, n: usize) -> Result<(), AccessFault> {
    let pattern = u64::from(value) * 0x0000_0001_0000_0001;
    // SAFETY: the caller upholds the contract of this function.
    unsafe { fill_elements(dst, pattern, n, 4) }
}

/// # Safety
/// The requirements of [`copy`] apply.
unsafe fn fill_elements(dst: u64, pattern: u64, n: usize, element: u64) -> Result<(), AccessFault> {
    let overflow = AccessFault {
        address: dst,
        access: AccessKind::Write,
        kind: TrapKind::NonCanonical,
    };
    let bytes = (n as u64).checked_mul(element).ok_or(overflow)?;
    // SAFETY: the caller upholds the contract of this function.
    let result = unsafe { routines::fill(dst, bytes, pattern) };
    check(result, (dst, AccessKind::Write)).map(|_| ())
}

macro_rules! scalars {
    ($($ty:ident, $load:ident, $store:ident, $cas:ident;)*) => {$(
        #[doc = concat!("Loads a `", stringify!($ty), "` in one access; any alignment.")]
        ///
        /// # Errors
        /// Returns the fault if the access faults.
        #[inline]
        pub fn $load(address: u64) -> Result<$ty, AccessFault> {
            // SAFETY: a load changes no memory, and a fault of the load is recovered.
            let result = unsafe { routines::$load(address) };
            check(result, (address, AccessKind::Read)).map(|value| value as $ty)
        }

        #[doc = concat!("Stores a `", stringify!($ty), "` in one access; any alignment.")]
        ///
        /// # Errors
        /// Returns the fault if the access faults.
        ///
        /// # Safety
        /// The requirements of [`copy`] apply.
        #[inline]
        pub unsafe fn $store(address: u64, value: $ty) -> Result<(), AccessFault> {
            // SAFETY: the caller upholds the contract of this function.
            let result = unsafe { routines::$store(address, u64::from(value)) };
            check(result, (address, AccessKind::Write)).map(|_| ())
        }

        #[doc = concat!("Compares and swaps a `", stringify!($ty), "`; returns the old value.")]
        ///
        /// # Errors
        /// Returns the fault of the access, or [`TrapKind::Misaligned`] if the address is not aligned.
        ///
        /// # Safety
        /// The requirements of [`copy`] apply.
        #[inline]
        pub unsafe fn $cas(
            address: u64,
            expected: $ty,
            new: $ty,
        ) -> Result<$ty, AccessFault> {
            aligned(address, size_of::<$ty>() as u64)?;
            // SAFETY: the caller upholds the contract of this function.
            let result = unsafe { routines::$cas(address, u64::from(expected), u64::from(new)) };
            check(result, (address, AccessKind::Write))
                .map(|value| value as $ty)
                .map_err(AccessFault::of_atomic)
        }
    )*};
}

scalars! {
    u8, load8, store8, cas8;
    u16, load16, store16, cas16;
    u32, load32, store32, cas32;
    u64, load64, store64, cas64;
}

/// Loads 16 bytes; the address may have any alignment.
///
/// # Errors
/// Returns the fault if the access faults.
pub fn load128(address: u64) -> Result<u128, AccessFault> {
    let mut value = 0u128;
    // SAFETY: `value` is a local; the load changes nothing and its fault is recovered.
    let result = unsafe { routines::load128(address, &mut value) };
    check(result, (address, AccessKind::Read)).map(|_| value)
}

/// Gathers values. For each index, adds `displacement` to `addresses[index]`, loads the value at
/// this address, and stores it in `out[index]`. If the slices differ in length, stops at the end of
/// the shorter slice. A value has `bytes` (1, 2 or 4) bytes and is zero-extended. The addresses may
/// have any alignment.
///
/// # Errors
/// Returns the first fault and the index of the address that faulted. Part of `out` may have been written before the
/// fault.
pub fn gather(
    addresses: &[u64],
    displacement: u64,
    bytes: usize,
    out: &mut [u32],
) -> Result<(), (usize, AccessFault)> {
    let n = addresses.len().min(out.len());
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        let routine = match bytes {
            1 => routines::gather8,
            2 => routines::gather16,
            _ => routines::gather32,
        };
        // SAFETY: both slices hold `n` elements; the loads change nothing and their faults are recovered.
        let result =
            unsafe { routine(addresses.as_ptr(), out.as_mut_ptr(), n as u64, displacement) };
        if result.status == 0 {
            return Ok(());
        }
    }
    for (i, (&address, out)) in addresses[..n].iter().zip(out).enumerate() {
        let address = address.wrapping_add(displacement);
        let found = match bytes {
            1 => load8(address).map(u32::from),
            2 => load16(address).map(u32::from),
            _ => load32(address),
        };
        *out = found.map_err(|fault| (i, fault))?;
    }
    Ok(())
}

/// Stores 16 bytes; the address may have any alignment.
///
/// # Errors
/// Returns the fault if the access faults.
///
/// # Safety
/// The requirements of [`copy`] apply.
pub unsafe fn store128(address: u64, value: u128) -> Result<(), AccessFault> {
    // SAFETY: the caller upholds the contract of this function.
    let result = unsafe { routines::store128(address, &value) };
    check(result, (address, AccessKind::Write)).map(|_| ())
}

/// Compares and swaps 16 bytes; returns the old value.
///
/// # Errors
/// Returns the fault of the access, or [`TrapKind::Misaligned`] if the address is not aligned.
///
/// # Safety
/// The requirements of [`copy`] apply.
pub unsafe fn cas128(address: u64, expected: u128, new: u128) -> Result<u128, AccessFault> {
    aligned(address, 16)?;
    let mut old = expected;
    // SAFETY: the caller upholds the contract of this function; `old` and `new` are locals.
    let result = unsafe { routines::cas128(address, &mut old, &new) };
    check(result, (address, AccessKind::Write))
        .map(|_| old)
        .map_err(AccessFault::of_atomic)
}

/// Atomically replaces the value of `bytes` (1, 2, 4 or 8) bytes by the result of `f` and returns the old value,
/// zero-extended. The function may call `f` several times.
///
/// # Errors
/// Returns the fault of the access. Returns [`TrapKind::Misaligned`] if the address is not aligned or if `bytes` is not
/// 1, 2, 4 or 8.
///
/// # Safety
/// The requirements of [`copy`] apply.
pub unsafe fn update(
    address: u64,
    bytes: u32,
    mut f: impl FnMut(u64) -> u64,
) -> Result<u64, AccessFault> {
    macro_rules! turn {
        ($ty:ident, $load:ident, $cas:ident) => {{
            let mut old = $load(address)?;
            loop {
                let new = f(u64::from(old)) as $ty;
                // SAFETY: the caller upholds the contract of this function.
                let seen = unsafe { $cas(address, old, new)? };
                if seen == old {
                    return Ok(u64::from(old));
                }
                old = seen;
            }
        }};
    }
    match bytes {
        1 => turn!(u8, load8, cas8),
        2 => turn!(u16, load16, cas16),
        4 => turn!(u32, load32, cas32),
        8 => turn!(u64, load64, cas64),
        _ => Err(AccessFault {
            address,
            access: AccessKind::Write,
            kind: TrapKind::Misaligned,
        }),
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
