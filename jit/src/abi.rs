//! The binary interface between generated code and its host.
//!
//! Generated code gets a [`NativeContext`] (one per worker, rewritten for each CTA) and calls the
//! host through [`Helpers`]. Everything is reached through pointers in the context, but the descriptions of slow
//! operations and the points of the kernel, whose addresses are in the code (`addresses`). Invariant: field offsets are
//! taken with `offset_of!`, never written by hand.

use std::ffi::c_void;

use margay_ops::meaning::{Bits, Desc};
use margay_ops::mods::StateSpace;

use crate::points::PointPlaces;

/// Status of a region, CTA or device function: 0 when it went on to its end.
pub mod status {
    /// All lanes stopped or exited.
    pub const OK: i32 = 0;
    /// A helper recorded a fault in the host's data.
    pub const HELPER: i32 = 1;
    /// `trap`.
    pub const TRAP: i32 = 2;
    /// The end of a path that cannot be taken.
    pub const UNREACHABLE: i32 = 3;
    /// `brkpt`.
    pub const BREAKPOINT: i32 = 4;
    /// A thread's stack is full.
    pub const STACK: i32 = 5;
    /// An indirect call of something that is no function.
    pub const INVALID_PC: i32 = 6;
    /// No fault: the scheduler goes on with the CTA of the context.
    pub const GENERAL: i32 = 7;
}

/// Answers of [`Helpers::sort_out`].
pub mod sorted {
    /// The lanes `group` go on from `stop`.
    pub const GROUP: i32 = 0;
    /// All lanes that have not exited stand at the barrier `stop`, if there are any.
    pub const ARRIVED: i32 = 1;
    /// Only the scheduler knows.
    pub const GENERAL: i32 = 2;
}

/// Turns of loops that only read memory that others may write, before a lane gives way.
pub const TURNS: i32 = 1 << 14;

/// What a turn of a loop with atomics, fences or volatile accesses counts for: such a loop probably waits.
pub const WAITING_TURN: i32 = 64;

/// What generated code knows of its launch and CTA.
#[repr(C)]
#[derive(Debug)]
pub struct NativeContext {
    /// Address of the parameter buffer.
    pub params: u64,
    /// Address of the CTA's shared window.
    pub shared_base: u64,
    /// Address of the CTA's local window.
    pub local_base: u64,
    /// Bytes of local memory of a thread.
    pub local_stride: u32,
    /// Turns of waiting loops left before a lane gives way.
    pub turns: i32,
    /// CTA coordinates.
    pub ctaid: [u32; 3],
    /// `%smid`.
    pub sm: u32,
    /// Block shape.
    pub ntid: [u32; 3],
    /// Threads of a CTA.
    pub threads: u32,
    /// Grid shape.
    pub nctaid: [u32; 3],
    /// Depth of native calls.
    pub depth: u32,
    /// Linear number of the CTA.
    pub cta: u64,
    /// Thread that runs (linear in the CTA), written by generated code.
    pub thread: u32,
    /// Line in the PTX of the instruction that ended the call with a status, written by generated
    /// code; 0 while none has.
    pub ended_line: u32,
    /// Its `.loc`, as in `margay_ir::function::SourceLoc`.
    pub ended_loc: u32,
    /// `%nwarpid`.
    pub warps: u32,
    /// Phases: the entry to begin at; when they are left, the entry at which the CTA's phase began.
    pub phase: u32,
    /// How many warps have moved in the phase that was left.
    pub moved: u32,
    /// For `sort_out`: lanes of the warp that have not exited.
    pub alive: u32,
    /// From `sort_out`: the lanes that go on, or arrived.
    pub group: u32,
    /// From `sort_out`: where they stand.
    pub stop: u32,
    /// Addresses of the module's symbols.
    pub symbols: *const u64,
    /// Coordinates of each thread.
    pub tid: *const [u32; 4],
    /// Native entry of each function of the module, or null.
    pub functions: *const *const u8,
    /// Number of entries in `functions`.
    pub function_count: u64,
    /// Handle of function 0.
    pub function_base: u64,
    /// First address of the range that all device memory lies in.
    pub reach_base: u64,
    /// Its size, a power of two.
    pub reach_bytes: u64,
    /// The same where the range has closed margins of [`crate::MARGIN`] bytes at both ends, else 0.
    pub margin_bytes: u64,
    /// Bytes of shared memory that the CTA may access, or its cluster.
    pub shared_bytes: u64,
    /// Bytes of local memory that a thread may access.
    pub local_bytes: u64,
    /// The last answer of [`Helpers::verify`] or [`Helpers::verify_lanes`].
    pub refused: i32,
    /// Asks [`Helpers::verify`] and preserves all registers ([`crate::Compiler::verifiers`]).
    pub verify: *const u8,
    /// Asks [`Helpers::verify_lanes`] and preserves all registers.
    pub verify_lanes: *const u8,
    /// Host functions.
    pub helpers: *const Helpers,
    /// The host's own data.
    pub host: *mut c_void,
}

/// Host functions that generated code calls.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Helpers {
    /// Computes a pure operation: description, operands, results, number of operands in the low half
    /// and of results in the high half.
    pub pure_op: unsafe extern "C" fn(*const Desc, *const Bits, *mut Bits, u32),
    /// Atomic read-modify-write at a host address; the old content goes to the last argument.
    pub update:
        unsafe extern "C" fn(*mut NativeContext, *const Desc, u64, *const Bits, *mut Bits) -> i32,
    /// A clock register.
    pub clock: unsafe extern "C" fn(*mut NativeContext, u32) -> u64,
    /// A special register that code does not compute itself.
    pub special: unsafe extern "C" fn(*mut NativeContext, u32) -> u64,
    /// A call to the system: which, arguments, results.
    pub syscall: unsafe extern "C" fn(*mut NativeContext, u32, *const Bits, *mut Bits) -> i32,
    /// A texture or surface access: payload, operands, results, number of operands in the low half and of results in the
    /// high half.
    pub texture: unsafe extern "C" fn(*mut NativeContext, u64, *const Bits, *mut Bits, u32) -> i32,
    /// The same for lanes of a slice: payload; operands and results, a row of 8 bytes a lane for each; lanes; number of operands
    /// in the low byte, of results in the next, of the slice's lanes in the third; operands that only the first lane holds.
    /// A fault's thread is left in the context.
    pub texture_lanes:
        unsafe extern "C" fn(*mut NativeContext, u64, *mut u32, u32, u32, u32) -> i32,
    /// Whether an address lies in a state space (`margay_ops::mods::StateSpace as u32`).
    pub in_space: unsafe extern "C" fn(*mut NativeContext, u32, u64) -> u32,
    /// `cp.async`: target, source, bytes written, bytes read.
    pub copy: unsafe extern "C" fn(*mut NativeContext, u64, u64, u64, u64) -> i32,
    /// Completes a collective of a warp whose lanes all stand there: frame, point, lanes. Not zero when
    /// it is not complete.
    pub collective:
        unsafe extern "C" fn(*mut NativeContext, *mut u8, *const PointPlaces, u32) -> i32,
    /// Decides which lanes of a warp whose lanes have parted go on, by the header of its frame; the
    /// points are all of the kernel's. One of [`sorted`].
    pub sort_out: unsafe extern "C" fn(*mut NativeContext, *mut u8, *const PointPlaces, u32) -> i32,
    /// Computes the results of a barrier of all threads: frames, point, bytes of a frame.
    pub reduce: unsafe extern "C" fn(*mut NativeContext, *mut u8, *const PointPlaces, u32),
    /// Decides about accesses that failed a test of their addresses: the first lane's host address, the distance from lane
    /// to lane, what is accessed, the first lane's thread. Not zero when the launch must end; the lane is then
    /// added to the context's thread.
    pub verify: unsafe extern "C" fn(*mut NativeContext, u64, i64, Verify, u32) -> i32,
    /// The same with a host address for each lane.
    pub verify_lanes: unsafe extern "C" fn(*mut NativeContext, *const u64, Verify, u32) -> i32,
    /// Writes the headers of warps' frames, all of whose 32 lanes are there: frames, a stop, the first thread that has come
    /// to it and the first that has not, bytes of a frame. Those behind have not moved.
    pub settle: unsafe extern "C" fn(*mut NativeContext, *mut u8, u32, u32, u32, u32),
}

/// What the accesses of some lanes have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Verify(pub u64);

impl Verify {
    /// `lanes` accesses of `bytes` bytes in a state space, none of which is made yet.
    pub fn of(bytes: u32, writes: bool, space: StateSpace, lanes: u32) -> Verify {
        let space = (space as u64) << 16;
        Verify(u64::from(bytes & 0xff) | u64::from(writes) << 8 | space | u64::from(lanes) << 24)
    }

    /// The same with the lanes that access memory, a bit each.
    pub fn with_mask(self, mask: u32) -> Verify {
        Verify(self.0 & 0xffff_ffff | u64::from(mask) << 32)
    }

    /// Bytes of an access.
    pub fn bytes(self) -> u64 {
        self.0 & 0xff
    }

    /// Whether they write.
    pub fn writes(self) -> bool {
        self.0 >> 8 & 1 != 0
    }

    /// The state space.
    pub fn space(self) -> StateSpace {
        let number = (self.0 >> 16 & 0xff) as usize;
        let space = StateSpace::ALL.get(number.wrapping_sub(1));
        space.copied().unwrap_or_default()
    }

    /// Number of lanes, active or not.
    pub fn lanes(self) -> u32 {
        (self.0 >> 24 & 0xff) as u32
    }

    /// Lanes that access memory.
    pub fn mask(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl std::fmt::Debug for Helpers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Helpers")
    }
}

/// A region: context, frame of the warp, lanes in the low half and warp number in the high half.
pub type RegionFn = unsafe extern "C" fn(*mut NativeContext, *mut u8, u64) -> i32;
/// A range of CTAs: context, first, number. Coordinates of the first are in the context.
pub type CtaFn = unsafe extern "C" fn(*mut NativeContext, u64, u64) -> i32;
/// Whole CTAs of a kernel with points: context, frames, number of CTAs from the context's on.
pub type PhasesFn = unsafe extern "C" fn(*mut NativeContext, *mut u8, u64) -> i32;
/// A device function: context, thread, offset of its local memory, arguments and results.
pub type DeviceFn = unsafe extern "C" fn(*mut NativeContext, u32, u32, *mut Bits) -> i32;
