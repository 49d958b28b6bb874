//! Numbers and structures of the framework's C interface.
//!
//! The structures have the layout of 64-bit platforms; the tests below pin the offsets. All numbers are those of the
//! releases 2025.0 and 2026.2, which agree on them.

use std::ffi::{c_char, c_void};

/// Types of trace points. An odd number ends what the number below it begins.
pub(crate) mod point {
    pub(crate) const GRAPH_CREATE: u16 = 2;
    pub(crate) const NODE_CREATE: u16 = 4;
    pub(crate) const EDGE_CREATE: u16 = 6;
    pub(crate) const TASK_BEGIN: u16 = 10;
    pub(crate) const TASK_END: u16 = 11;
    pub(crate) const BARRIER_BEGIN: u16 = 12;
    pub(crate) const BARRIER_END: u16 = 13;
    pub(crate) const SIGNAL: u16 = 16;
    pub(crate) const TRANSFER_BEGIN: u16 = 18;
    pub(crate) const TRANSFER_END: u16 = 19;
    pub(crate) const WAIT_BEGIN: u16 = 22;
    pub(crate) const WAIT_END: u16 = 23;
    pub(crate) const FUNCTION_BEGIN: u16 = 28;
    pub(crate) const FUNCTION_END: u16 = 29;
    pub(crate) const ALLOCATE_BEGIN: u16 = 32;
    pub(crate) const ALLOCATE_END: u16 = 33;
    pub(crate) const RELEASE_BEGIN: u16 = 34;
    pub(crate) const RELEASE_END: u16 = 35;
    pub(crate) const QUEUE_CREATE: u16 = 42;
    pub(crate) const QUEUE_DESTROY: u16 = 43;
    pub(crate) const DIAGNOSTICS: u16 = 126;

    /// All types that the producer sends.
    pub(crate) const ALL: [u16; 21] = [
        GRAPH_CREATE,
        NODE_CREATE,
        EDGE_CREATE,
        TASK_BEGIN,
        TASK_END,
        BARRIER_BEGIN,
        BARRIER_END,
        SIGNAL,
        TRANSFER_BEGIN,
        TRANSFER_END,
        WAIT_BEGIN,
        WAIT_END,
        FUNCTION_BEGIN,
        FUNCTION_END,
        ALLOCATE_BEGIN,
        ALLOCATE_END,
        RELEASE_BEGIN,
        RELEASE_END,
        QUEUE_CREATE,
        QUEUE_DESTROY,
        DIAGNOSTICS,
    ];
}

/// Types of events.
#[repr(u16)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum EventType {
    Graph = 1,
    Algorithm = 2,
    Barrier = 3,
    Scheduler = 4,
    OffloadRead = 7,
    OffloadWrite = 8,
    MemoryObject = 9,
}

/// The activity of all events of the producer: active.
pub(crate) const ACTIVE: i32 = 1;

/// Types of metadata values.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ObjectType {
    Binary = 0,
    String = 1,
    Unsigned = 3,
    Bool = 5,
}

/// Flags of a payload: it has a name, a source file, a line and a column.
pub(crate) const PAYLOAD_FLAGS: u64 = 1 | 2 | 8 | 16;

/// What identifies a site. The framework's structure has 80 bytes; the padding is for later releases.
#[repr(C)]
pub(crate) struct Payload {
    pub(crate) name: *const c_char,
    pub(crate) stack_trace: *const c_char,
    pub(crate) source_file: *const c_char,
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) code: *const c_void,
    pub(crate) internal: u64,
    pub(crate) flags: u64,
    pub(crate) uid: [u64; 3],
    pub(crate) padding: [u64; 22],
}

/// Offsets of the fields of an event, in bytes. Events belong to the framework; no other field is accessed.
pub(crate) mod event {
    pub(crate) const UNIQUE_ID: usize = 0;
    pub(crate) const SOURCE_ID: usize = 32;
    pub(crate) const TARGET_ID: usize = 40;
}

/// The user data of a driver call.
#[repr(C)]
pub(crate) struct FunctionWithArgs {
    pub(crate) function: u32,
    pub(crate) name: *const c_char,
    pub(crate) args: *const c_void,
    pub(crate) ret: *const c_void,
    pub(crate) user: *const c_void,
}

/// The user data of allocations and releases.
#[repr(C)]
pub(crate) struct MemAlloc {
    pub(crate) object: usize,
    pub(crate) pointer: usize,
    pub(crate) size: usize,
    pub(crate) guard_size: usize,
    pub(crate) reserved: *const c_void,
}

/// The binary value of the metadata key `enqueue_kernel_data`: sizes in threads, and the number of arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KernelEnqueue {
    pub(crate) global: [u64; 3],
    pub(crate) local: [u64; 3],
    pub(crate) offset: [u64; 3],
    pub(crate) arguments: u64,
}

impl KernelEnqueue {
    /// Returns the structure as ten words in the byte order of the machine.
    pub(crate) fn bytes(self) -> [u8; 80] {
        let [sizes, local, offset] = [self.global, self.local, self.offset];
        let words = [sizes, local, offset].into_iter().flatten();
        let mut bytes = [0; 80];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words.chain([self.arguments])) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn structures_have_the_documented_layout() {
        assert_eq!(size_of::<Payload>(), 256);
        assert_eq!(offset_of!(Payload, stack_trace), 8);
        assert_eq!(offset_of!(Payload, source_file), 16);
        assert_eq!(offset_of!(Payload, line), 24);
        assert_eq!(offset_of!(Payload, column), 28);
        assert_eq!(offset_of!(Payload, code), 32);
        assert_eq!(offset_of!(Payload, internal), 40);
        assert_eq!(offset_of!(Payload, flags), 48);
        assert_eq!(offset_of!(Payload, uid), 56);
        assert_eq!(offset_of!(Payload, padding), 80);
        assert_eq!(size_of::<FunctionWithArgs>(), 40);
        assert_eq!(offset_of!(FunctionWithArgs, name), 8);
        assert_eq!(offset_of!(FunctionWithArgs, args), 16);
        assert_eq!(offset_of!(FunctionWithArgs, ret), 24);
        assert_eq!(offset_of!(FunctionWithArgs, user), 32);
        assert_eq!(size_of::<MemAlloc>(), 40);
        assert_eq!(offset_of!(MemAlloc, pointer), 8);
        assert_eq!(offset_of!(MemAlloc, size), 16);
        assert_eq!(offset_of!(MemAlloc, guard_size), 24);
        assert_eq!(offset_of!(MemAlloc, reserved), 32);
    }

    #[test]
    fn enqueue_data_has_global_sizes_first() {
        let bytes = KernelEnqueue {
            global: [1, 2, 3],
            local: [4, 5, 6],
            offset: [7, 8, 9],
            arguments: 10,
        }
        .bytes();
        let words = bytes
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
        assert!(words.eq(1..=10));
    }
}
