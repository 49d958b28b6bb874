//! What is copied where: one description for all of the copy family, one to three dimensions.

use crate::buffer::DevicePtr;

/// Which side of a transfer is what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Host to device.
    HostToDevice,
    /// Device to host.
    DeviceToHost,
    /// Device to device.
    DeviceToDevice,
    /// Host to host.
    HostToHost,
    /// Each address is looked up (`cuMemcpy`, `CU_MEMORYTYPE_UNIFIED`).
    Unified,
}

/// A copy of a box of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// First byte written.
    pub dst: u64,
    /// First byte read.
    pub src: u64,
    /// Which side is what.
    pub direction: Direction,
    /// Bytes in a row.
    pub width: u64,
    /// Rows in a slice.
    pub height: u64,
    /// Slices.
    pub depth: u64,
    /// Bytes from row to row of the destination.
    pub dst_pitch: u64,
    /// Bytes from slice to slice of the destination.
    pub dst_slice: u64,
    /// Bytes from row to row of the source.
    pub src_pitch: u64,
    /// Bytes from slice to slice of the source.
    pub src_slice: u64,
}

impl Transfer {
    /// `bytes` bytes in one piece.
    pub fn linear(dst: u64, src: u64, bytes: u64, direction: Direction) -> Transfer {
        Transfer {
            dst,
            src,
            direction,
            width: bytes,
            height: 1,
            depth: 1,
            dst_pitch: bytes,
            dst_slice: bytes,
            src_pitch: bytes,
            src_slice: bytes,
        }
    }

    /// Host memory to device memory.
    pub fn to_device(dst: DevicePtr, src: *const u8, bytes: u64) -> Transfer {
        Transfer::linear(dst.address(), src as u64, bytes, Direction::HostToDevice)
    }

    /// Device memory to host memory.
    pub fn to_host(dst: *mut u8, src: DevicePtr, bytes: u64) -> Transfer {
        Transfer::linear(dst as u64, src.address(), bytes, Direction::DeviceToHost)
    }

    /// Device memory to device memory.
    pub fn on_device(dst: DevicePtr, src: DevicePtr, bytes: u64) -> Transfer {
        Transfer::linear(
            dst.address(),
            src.address(),
            bytes,
            Direction::DeviceToDevice,
        )
    }
}
