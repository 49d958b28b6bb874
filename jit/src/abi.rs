//! The kernel ABI: the binary interface between generated code and its host.
//!
//! Generated code receives a [`NativeContext`] and calls the host through [`Helpers`]. The host creates a context for
//! each range of CTAs that it runs. Generated code that runs several CTAs updates the CTA coordinates in the context.
//! Generated code accesses all data through pointers in the context, with two exceptions: the addresses of op
//! descriptions and of sync point tables are embedded in the code (`addresses`). Invariant: field offsets come from
//! `offset_of!` and are never written by hand.

use std::ffi::c_void;

use margay_ir::observe::ObservedAccess;
use margay_ops::meaning::{Bits, Desc};
use margay_ops::mods::StateSpace;

use crate::sync_points::SyncPointPlaces;

/// Status values that a region, CTA form or device function returns.
pub mod status {
    /// All lanes stopped at a sync point or exited, or the device function returned.
    pub const OK: i32 = 0;
    /// A helper found a fault and stored it in the host's data ([`NativeContext::host`](super::NativeContext::host)).
    pub const HELPER: i32 = 1;
    /// The kernel executed `trap`.
    pub const TRAP: i32 = 2;
    /// Control reached code that must be unreachable.
    pub const UNREACHABLE: i32 = 3;
    /// The kernel executed `brkpt`.
    pub const BREAKPOINT: i32 = 4;
    /// A thread's call stack exceeds its local memory, or native calls are nested too deeply.
    pub const STACK: i32 = 5;
    /// The kernel called a function through a handle, and the handle does not belong to a callable
    /// function.
    pub const INVALID_PC: i32 = 6;
    /// No fault occurred, but only the CTA scheduler can continue the CTA whose data the context contains.
    pub const GENERAL: i32 = 7;
}

/// Results of [`Helpers::sort_out`].
pub mod sorted {
    /// The lanes in the field `group` of the context continue with the code after the sync point `sync_point`.
    pub const GROUP: i32 = 0;
    /// All lanes of the warp that have not exited wait at the barrier whose number is in the
    /// context's field `sync_point`, or all lanes have exited.
    pub const ARRIVED: i32 = 1;
    /// Only the CTA scheduler can decide which lanes continue.
    pub const GENERAL: i32 = 2;
}

/// Largest number of turns that all lanes of a CTA together may use before the running lane yields. A turn is a unit of
/// the iteration budget of waiting loops, in which a lane may wait for memory. An iteration that only reads memory and
/// does not poll uses one turn; if races are checked, it uses [`WAITING_TURN`] turns.
pub const TURNS: i32 = 1 << 14;

/// Number of turns that one iteration uses if the waiting loop polls, or contains atomics, fences or volatile accesses.
/// Such a loop probably waits for another thread.
pub const WAITING_TURN: i32 = margay_vectorise::WAITING_TURN;

/// Number of turns that one iteration of a loop as described at [`WAITING_TURN`] uses if races are
/// checked.
pub const CHECKED_TURN: i32 = 16 * WAITING_TURN;

/// Launch and CTA data that generated code reads and writes.
#[repr(C)]
#[derive(Debug)]
pub struct NativeContext {
    /// Address of the kernel's parameter buffer.
    pub params: u64,
    /// Address of the CTA's shared window.
    pub shared_base: u64,
    /// Address of the CTA's local window.
    pub local_base: u64,
    /// Size in bytes of the local memory of a thread.
    pub local_stride: u32,
    /// Number of bytes of `local_stride` that variables and stack frames may occupy.
    pub stack_limit: u32,
    /// Remaining number of turns ([`TURNS`]). A lane in a waiting loop yields when no turns are left.
    pub turns: i32,
    /// The value of `turns` with which a CTA begins: at most [`TURNS`], and less if iterations of the kernel's waiting
    /// loops take long.
    pub turn_budget: i32,
    /// Coordinates of the CTA in the grid.
    pub ctaid: [u32; 3],
    /// Value of `%smid`.
    pub sm: u32,
    /// Number of threads of a CTA in x, y and z.
    pub ntid: [u32; 3],
    /// Number of threads of a CTA.
    pub threads: u32,
    /// Number of CTAs of the grid in x, y and z.
    pub nctaid: [u32; 3],
    /// Number of native calls of device functions that have not returned yet.
    pub depth: u32,
    /// Linear index of the CTA.
    pub cta: u64,
    /// Linear index of the running thread, counted from the first thread of the CTA. Generated code writes this field.
    pub thread: u32,
    /// PTX line of the instruction at which the native function returned a status other than [`status::OK`]; 0 if the
    /// line is unknown. Generated code writes this field.
    pub ended_line: u32,
    /// The field `loc` of the same instruction's `margay_ir::function::SourceLoc`: the index of its
    /// `.loc` plus 1, or 0.
    pub ended_loc: u32,
    /// The invalid function handle, if the native function returned [`status::INVALID_PC`]; [`UNKNOWN_HANDLE`] if
    /// vector code returned this status.
    pub ended_handle: u64,
    /// The number of warps of a CTA.
    pub warps: u32,
    /// Value of `%nwarpid`.
    pub sm_warps: u32,
    /// A resume point; only the CTA form of a kernel with sync points and the joint warp form use this field. The
    /// caller sets it to the resume point at which the function begins. When the CTA form returns `GENERAL`, the field
    /// contains the resume point at which the current phase of the CTA began.
    pub phase: u32,
    /// If nonzero, the CTA form of a kernel with sync points runs only the warp `first_warp`. The warp's frame contains
    /// the lanes that have not exited, all of which continue at the resume point `phase`. The function returns
    /// [`status::GENERAL`] when the warp has exited or cannot continue without other warps or the CTA scheduler.
    pub alone: u32,
    /// Index of the warp that runs if `alone` is nonzero; otherwise 0.
    pub first_warp: u32,
    /// When the function returns [`status::GENERAL`], the number of warps that have run in the
    /// current phase, including the warp that caused the return.
    pub moved: u32,
    /// In the programs of the wide back end, the distance of the first thread that executes the running instruction from
    /// `thread`, if the instruction runs once for several lanes and its place states that the field contains it.
    pub lane: u32,
    /// If nonzero, the program runs several CTAs together: `thread` is a position in a row of their threads, `cta` and
    /// `ctaid` are those of the first of them, and this field is the number of threads of a row of one CTA
    /// ([`NativeContext::locate`]).
    pub row_threads: u32,
    /// If `row_threads` is not zero, the linear index of the first thread of the row in its CTA.
    pub row_start: u32,
    /// Mask of the warp's lanes that have not exited: argument and result of `sort_out`.
    pub alive: u32,
    /// Result of `sort_out`: mask of the lanes that continue.
    pub group: u32,
    /// Result of `sort_out`: the sync point of the lanes that continue, or the barrier at which all lanes wait.
    pub sync_point: u32,
    /// Pointer to the entry of symbol 0 in the array of symbol addresses, which is indexed by
    /// symbol ID. The array may have no entries for symbols that the kernel does not name.
    pub symbols: *const u64,
    /// Coordinates of each thread in its CTA, by linear index of the thread.
    pub tid: *const [u32; 4],
    /// Pointer to the entry of function 0 in the array of functions, which is indexed by function ID. If the kernel
    /// makes no calls through handles, the array may have no entries for functions that the kernel
    /// does not call.
    pub functions: *const FunctionEntry,
    /// Upper bound of function IDs. A handle is invalid if its function ID is not below this bound.
    pub function_count: u64,
    /// Handle of function 0.
    pub function_base: u64,
    /// First address of the range that contains all device memory.
    pub reach_base: u64,
    /// Size of the range of device memory in bytes, a power of two.
    pub reach_bytes: u64,
    /// Size in bytes of the range of device memory, if an inaccessible margin of [`crate::MARGIN`] bytes is on each
    /// side of the range; otherwise 0.
    pub margin_bytes: u64,
    /// Number of bytes of shared memory of one CTA. The CTA may access offsets in shared memory that are less than this
    /// number after [`NativeContext::shared_mask`] is applied.
    pub shared_bytes: u64,
    /// Mask that removes the rank in the cluster from an offset in shared memory. All bits are set if the cluster has
    /// one CTA, or if its number of CTAs is not a power of two.
    pub shared_mask: u32,
    /// Number of bytes of local memory that a thread may access.
    pub local_bytes: u64,
    /// Ranges of memory that all threads may access, for checking runs. When a check permits an access, the host stores
    /// the range that contains the access. The first [`PERMITTED`] ranges are device memory that threads may read, the
    /// next [`PERMITTED`] ranges are device memory that they may write, and the last [`PERMITTED`] ranges are shared
    /// memory.
    pub permitted: [PermittedRange; 3 * PERMITTED],
    /// Number of bytes of local memory that a thread may access in a checking run. The host examines accesses beyond
    /// this size; if this size is 0, the host examines all accesses to local memory.
    pub checked_local: u64,
    /// The log to which generated code appends its accesses if a checking run examines the order of accesses.
    pub access_log: *mut AccessLog,
    /// The counters of the native call ([`crate::counters`]). Generated code accesses them only if a tool requests counts.
    pub counters: *mut u64,
    /// Result of the latest call of [`Helpers::verify`] or [`Helpers::verify_lanes`].
    pub refused: i32,
    /// Address of the function that calls [`Helpers::verify`] and preserves all registers
    /// ([`crate::Compiler::verifiers`]).
    pub verify: *const u8,
    /// Address of the function that calls [`Helpers::verify_lanes`] and preserves all registers
    /// ([`crate::Compiler::verifiers`]).
    pub verify_lanes: *const u8,
    /// Host functions.
    pub helpers: *const Helpers,
    /// The host's own data.
    pub host: *mut c_void,
}

impl NativeContext {
    /// Returns the linear indices of the CTA and of the thread in it that is `lane` threads behind the running one.
    #[must_use]
    pub fn locate(&self, lane: u32) -> (u64, u32) {
        let at = self.thread + lane;
        match at.checked_div(self.row_threads) {
            Some(ctas) => (
                self.cta + u64::from(ctas),
                self.row_start + at % self.row_threads,
            ),
            None => (self.cta, at),
        }
    }
}

/// The value of [`NativeContext::ended_handle`] for an unknown handle.
pub const UNKNOWN_HANDLE: u64 = u64::MAX;

/// A function in [`NativeContext::functions`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FunctionEntry {
    /// Address of the function's native code, or null if the function has none.
    pub code: *const u8,
    /// ID of the function's signature ([`crate::signatures`]).
    pub signature: u64,
}

/// Host functions that generated code calls.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Helpers {
    /// Computes a pure operation by its reference function. Arguments: description of the operation, operands, results,
    /// and a word with the number of operands (low 16 bits) and of results (high 16 bits).
    pub pure_op: unsafe extern "C" fn(*const Desc, *const Bits, *mut Bits, u32),
    /// Performs an atomic read-modify-write. Arguments: context, description of the operation, host address, operands,
    /// and memory to which the helper writes the old content.
    pub update:
        unsafe extern "C" fn(*mut NativeContext, *const Desc, u64, *const Bits, *mut Bits) -> i32,
    /// Reads a clock register. Arguments: context, index of the special register in `margay_ops::sreg::SpecialReg`.
    pub clock: unsafe extern "C" fn(*mut NativeContext, u32) -> u64,
    /// Reads a special register that generated code does not compute itself. Arguments: context, index of the special
    /// register in `margay_ops::sreg::SpecialReg`.
    pub special: unsafe extern "C" fn(*mut NativeContext, u32) -> u64,
    /// Performs a system call. Arguments: context, ID of the system call, operands, results.
    pub syscall: unsafe extern "C" fn(*mut NativeContext, u32, *const Bits, *mut Bits) -> i32,
    /// Performs a texture or surface access. Arguments: context, payload of the op, operands, results, and a word with
    /// the number of operands (low 16 bits) and of results (high 16 bits).
    pub texture: unsafe extern "C" fn(*mut NativeContext, u64, *const Bits, *mut Bits, u32) -> i32,
    /// Performs a texture or surface access for the lanes of a chunk. Arguments: context; payload of the op; rows of
    /// the operands, then of the results, where each row has 8 bytes per lane; mask of the active lanes; word with the
    /// number of operands (low byte), of results (second byte) and of the chunk's lanes (third byte); mask of the
    /// uniform operands, whose rows contain only the first lane. If the access faults, the helper adds the faulting
    /// lane's index in the chunk to the thread index in the context.
    pub texture_lanes:
        unsafe extern "C" fn(*mut NativeContext, u64, *mut u32, u32, u32, u32) -> i32,
    /// Returns whether an address belongs to a state space (`margay_ops::mods::StateSpace as u32`).
    pub in_space: unsafe extern "C" fn(*mut NativeContext, u32, u64) -> u32,
    /// Performs `cp.async`. Arguments: context, target, source, bytes written, bytes read.
    pub copy: unsafe extern "C" fn(*mut NativeContext, u64, u64, u64, u64) -> i32,
    /// Computes the results of a collective at which all lanes of a warp wait. Arguments: context, frame of the warp,
    /// sync point, mask of the lanes. If the CTA scheduler must complete the collective, changes nothing and returns a
    /// nonzero value.
    pub collective:
        unsafe extern "C" fn(*mut NativeContext, *mut u8, *const SyncPointPlaces, u32) -> i32,
    /// Reads the header of a diverged warp's frame and decides which lanes of the warp continue. Arguments: context,
    /// frame, all sync points of the kernel, number of sync points. Returns one of the values in [`sorted`].
    pub sort_out:
        unsafe extern "C" fn(*mut NativeContext, *mut u8, *const SyncPointPlaces, u32) -> i32,
    /// Computes the results of a `barrier.red` at which all threads of the CTA that have not exited
    /// wait. Arguments: context, frames, sync point, size of a frame in bytes.
    pub reduce: unsafe extern "C" fn(*mut NativeContext, *mut u8, *const SyncPointPlaces, u32),
    /// Decides whether accesses are allowed although their address test has failed. Arguments: context, host address of
    /// the first lane's access, distance in bytes between the accesses of neighbouring lanes, properties of the
    /// accesses, thread of the first lane. If an access is not allowed, adds the faulting lane's index to the thread
    /// index in the context and returns a nonzero value, and the launch must end.
    pub verify: unsafe extern "C" fn(*mut NativeContext, u64, i64, Verify, u32) -> i32,
    /// Makes the same decision as [`Helpers::verify`] for lanes whose accesses are not strided: the second argument
    /// points to a host address for each lane.
    pub verify_lanes: unsafe extern "C" fn(*mut NativeContext, *const u64, Verify, u32) -> i32,
    /// Examines an access that a checking run observes. Arguments: context, host address, properties of the access
    /// ([`ObservedAccess::to_bits`](margay_ir::observe::ObservedAccess::to_bits)), source position (PTX line in the low
    /// half, index of the `.loc` in the high half), operands of the access (cells of 16 bytes), and [`CheckedLane`].
    /// Returns the host address that the thread must access: the same address, or spare memory if the access is
    /// suppressed. If the access is permitted, the helper can set a range of [`NativeContext::permitted`].
    pub check_access:
        unsafe extern "C" fn(*mut NativeContext, u64, u64, u64, *const Bits, u64) -> u64,
    /// Examines the accesses of several lanes. Arguments: context, memory for addresses, properties and source position
    /// of the access as for [`Helpers::check_access`], memory for operands or results, and [`CheckedLanes`] with the
    /// active lanes and the thread of the first lane.
    ///
    /// The memory for addresses contains the address of each lane in the state space, or, if the lanes are strided, the
    /// host address of the first lane and the distance between the lanes. At the offset
    /// [`CheckedLanes::PERFORMED`], the memory contains a packed [`PerformedAccess`], or 0. The
    /// memory for operands contains, for each operand, an element for each lane.
    ///
    /// The helper performs the access itself in three cases: [`PerformedAccess::always`] is set, an active lane may not
    /// access its address, or the vector access has unused elements. In these cases, if the access
    /// is a store, the helper stores the operands. If the access is a load, the helper writes the
    /// loaded elements to the memory for operands, in the layout of operands; the elements of
    /// inactive lanes are zero. If `writes_back` is set, the helper writes to the memory for
    /// addresses, for each lane, the address in the state space that the lane must use. Returns 0
    /// if the helper has performed the access, or if an active lane may not access its address.
    pub check_lanes:
        unsafe extern "C" fn(*mut NativeContext, *mut u64, u64, u64, *mut u8, u64) -> u32,
    /// Reports the accesses of several lanes to tools. Arguments: context, memory for addresses, properties and source
    /// position of the access as for [`Helpers::check_access`], memory for operands, and [`CheckedLanes`] with the
    /// active lanes and the thread of the first lane.
    ///
    /// The memory for addresses contains the address of each lane in the state space, or, if the lanes are strided, the
    /// address of the first lane and the distance between the lanes. If the access is a copy, the memory for operands
    /// contains the number of bytes that each lane reads.
    pub observe_lanes:
        unsafe extern "C" fn(*mut NativeContext, *const u64, u64, u64, *const u8, u64),
    /// Reports to tools an event of several lanes other than a memory access. Arguments: context, payload of the
    /// `observe.event`, source position as for [`Helpers::check_access`], memory for operands, and [`CheckedLanes`]
    /// with the active lanes and the thread of the first lane. The memory for operands contains, for each operand, an
    /// element for each lane. If [`CheckedLanes::narrow`] is set, the argument is not a pointer but a mask of the lanes
    /// whose operand is not 0.
    pub observe_event: unsafe extern "C" fn(*mut NativeContext, u64, u64, *const u8, u64),
    /// Reports that the current CTA begins or continues. The helper reads and clears the counts of the warps of the
    /// previous CTA. Argument: context.
    pub observe_cta: unsafe extern "C" fn(*mut NativeContext),
    /// Reports that a request of a group of accesses does not have the group's pattern. The helper counts the request,
    /// and can change the pattern. Arguments: context, index of the group, memory for addresses as for
    /// [`Helpers::observe_lanes`], thread of the first lane, whether the addresses are strided.
    pub observe_group: unsafe extern "C" fn(*mut NativeContext, u32, *const u64, u32, u32),
    /// Reports a `check.group` to the checking tools: the begin or end of an asynchronous operation, an operation on
    /// groups, or a fence between proxies. Arguments: context, mode (a `margay_ops::mods::Mode` as `u32`), operand of
    /// the `check.group` or 0, thread.
    pub check_group: unsafe extern "C" fn(*mut NativeContext, u32, u32, u32),
    /// Reports to the checking tools that threads have synchronised: all lanes of a warp, or all threads of the CTA at
    /// a barrier. Arguments: context, index of the warp or [`WHOLE_CTA`].
    pub synchronised: unsafe extern "C" fn(*mut NativeContext, u32),
    /// Reports a fence to the checking tools. Arguments: context, 1 for `fence.sc` and 0 for other fences, scope (a
    /// `margay_ops::mods::Scope` as `u32`), thread.
    pub check_fence: unsafe extern "C" fn(*mut NativeContext, u32, u32, u32),
    /// Writes the frame headers of a CTA whose warps all have 32 lanes. The headers state that the threads from `first`
    /// to `end - 1` wait at a sync point, and that the threads from `end` on have not run in this phase. Arguments:
    /// context, frames, sync point, `first`, `end`, size of a frame in bytes.
    pub settle: unsafe extern "C" fn(*mut NativeContext, *mut u8, u32, u32, u32, u32),
}

/// The argument of [`Helpers::synchronised`] for all threads of a CTA.
pub const WHOLE_CTA: u32 = u32::MAX;

/// Number of ranges of each kind in [`NativeContext::permitted`]. The code generator assigns a
/// range to each value (usually a pointer) from which addresses are computed, so that accesses of a
/// loop to different memory do not overwrite each other's range.
pub const PERMITTED: usize = 8;

/// Returns the index in [`NativeContext::permitted`] of the range number `number` (modulo [`PERMITTED`]) for accesses
/// of this kind. Returns `None` if no range is stored for such accesses.
pub fn permitted_index(access: ObservedAccess, number: usize) -> Option<usize> {
    let kind = match access.space {
        StateSpace::None | StateSpace::Global => usize::from(access.mode.writes()),
        StateSpace::Shared => 2,
        _ => return None,
    };
    Some(PERMITTED * kind + number % PERMITTED)
}

/// A range of memory in [`NativeContext::permitted`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct PermittedRange {
    /// The address of the first byte of the range.
    pub start: u64,
    /// Number of bytes.
    pub size: u64,
    /// The address of the record of written bytes: bit `i % 8` of byte `i / 8` of the record states whether byte `i` of
    /// the range has been written. The address is 0 if all bytes have been written. The record may describe more bytes
    /// than the range has.
    pub written: u64,
}

/// The log of loads and stores that generated code has performed. The host examines these accesses later.
#[derive(Debug)]
#[repr(C)]
pub struct AccessLog {
    /// The address at which generated code stores the next record.
    pub next: *mut AccessRecord,
    /// The end of the memory for the records of the log.
    pub end: *mut AccessRecord,
}

/// A record of the accesses that one load or store makes in the lanes of a chunk. If the addresses
/// of the lanes have no common stride, they follow the record. The operands of a store come next: a
/// row for each operand, with an element for each lane. This data occupies the space of a whole
/// number of records ([`AccessRecord::following`]).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct AccessRecord {
    /// The host address of the first lane. If the addresses follow the record, this is 0, or the start of the window to
    /// which the low 32 bits of these addresses are relative.
    pub address: u64,
    /// The linear index of the CTA to which the lanes belong.
    pub cta: u64,
    /// The source position, as for [`Helpers::check_access`].
    pub loc: u64,
    /// The properties of the access, as for [`Helpers::check_access`].
    pub access: u64,
    /// From bit 0 on, the thread of the first lane; from bit 16 on, the number of operands; from bit 24 on, the number
    /// of bytes of an operand's element; in the high half, [`AccessRecord::shape`].
    pub lanes: u64,
    /// From bit 0 on, the mask of the lanes that access memory; from bit 32 on, the number of bytes of each address that
    /// follows the record: 4, 8, or 0 if no addresses follow; from bit [`FOLLOWING`] on,
    /// [`AccessRecord::following`], which is the space after the record, measured in records.
    pub active: u64,
}

/// The lowest bit of [`AccessRecord::following`] in [`AccessRecord::active`].
const FOLLOWING: u32 = 40;

impl AccessRecord {
    /// Packs the stride and the number of lanes into a word. Returns `None` if the stride does not fit into 24 bits.
    pub fn shape(stride: i64, width: u32) -> Option<u32> {
        let stride = i32::try_from(stride).ok()?;
        (stride << 8 >> 8 == stride).then_some((stride << 8) as u32 | width)
    }

    /// Returns [`AccessRecord::lanes`] without the thread, for operands with elements of `bytes` bytes.
    pub fn fixed(shape: u32, operands: u32, bytes: u32) -> u64 {
        u64::from(shape) << 32 | u64::from(bytes & 0xff) << 24 | u64::from(operands & 0xff) << 16
    }

    /// Returns the thread of the first lane, the stride and the number of lanes.
    #[inline]
    pub fn unpack(&self) -> (u32, i64, u32) {
        let shape = (self.lanes >> 32) as u32;
        let stride = shape as i32 >> 8;
        (self.lanes as u32 & 0xffff, stride.into(), shape & 0xff)
    }

    /// Returns whether all lanes access memory, at addresses with a common stride.
    #[inline]
    pub fn is_whole(&self) -> bool {
        let all = u32::MAX >> (32 - self.unpack().2.clamp(1, 32));
        self.active as u32 == all && self.address_bytes() == 0
    }

    /// Returns whether the access is a store.
    #[inline]
    pub fn is_store(&self) -> bool {
        self.lanes >> 16 & 0xff != 0
    }

    /// Returns the number of bytes of each address that follows the record.
    #[inline]
    pub fn address_bytes(&self) -> usize {
        (self.active >> 32) as usize & 0xff
    }

    /// Returns the number of bytes of all addresses that follow the record.
    #[inline]
    pub fn addresses(&self) -> usize {
        self.address_bytes() * self.unpack().2 as usize
    }

    /// Returns the number of bytes of an operand's element; 0 for a load.
    #[inline]
    pub fn operand_bytes(&self) -> usize {
        (self.lanes >> 24) as usize & 0xff
    }

    /// Returns the number of bytes of all addresses and operands that follow the record.
    #[inline]
    pub fn bytes(&self) -> usize {
        let (count, (.., width)) = ((self.lanes >> 16) as usize & 0xff, self.unpack());
        self.addresses() + count * self.operand_bytes() * width as usize
    }

    /// Returns this record with [`AccessRecord::following`] set to the size of the addresses and
    /// operands that follow the record, measured in records and rounded up.
    #[must_use]
    pub fn with_following(self) -> AccessRecord {
        let following = self.bytes().div_ceil(size_of::<AccessRecord>());
        AccessRecord {
            active: self.active | (following as u64) << FOLLOWING,
            ..self
        }
    }

    /// Returns the size of the space for the addresses and operands that follow this record,
    /// measured in records.
    #[inline]
    pub fn following(&self) -> usize {
        (self.active >> FOLLOWING) as usize
    }
}

/// Properties of the lane that [`Helpers::check_access`] examines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckedLane {
    /// The index of the thread in its CTA.
    pub thread: u32,
    /// The number of operands of the access.
    pub operands: u16,
    /// The number of the range of [`NativeContext::permitted`] with which generated code compares
    /// the address.
    pub range: u16,
}

impl CheckedLane {
    /// Packs the properties into a word. The thread is in the low half.
    pub fn to_bits(self) -> u64 {
        u64::from(self.range) << 48 | u64::from(self.operands) << 32 | u64::from(self.thread)
    }

    /// Reverses [`CheckedLane::to_bits`].
    pub fn from_bits(bits: u64) -> CheckedLane {
        CheckedLane {
            thread: bits as u32,
            operands: (bits >> 32) as u16,
            range: (bits >> 48) as u16,
        }
    }
}

/// Properties of the lanes that [`Helpers::check_lanes`] examines or that [`Helpers::observe_lanes`] and
/// [`Helpers::observe_event`] report.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CheckedLanes {
    /// The number of lanes of the chunk, including inactive lanes.
    pub width: u32,
    /// Whether the addresses of neighbouring lanes have a constant distance.
    pub strided: bool,
    /// Whether addresses in the state space have 32 bits. For an event: whether the operand is a
    /// mask ([`Helpers::observe_event`]).
    pub narrow: bool,
    /// Whether the helper writes to the memory for addresses, for each lane, the address that the
    /// lane must use.
    pub writes_back: bool,
    /// The number of operands of the access. Each operand has one element for each lane.
    pub operands: u32,
    /// The number of bytes of an element of an operand: 4 or 8.
    pub operand_bytes: u32,
}

impl CheckedLanes {
    /// Offset in bytes of a word in the array of lane addresses that generated code passes to
    /// [`Helpers::check_lanes`]. The word contains the base address of the window of the access's state space (for
    /// example of the CTA's shared memory), or 0 if the state space has no window.
    pub const WINDOW: u32 = 8 * 32;
    /// Offset in bytes of a [`PerformedAccess`] in the array of lane addresses.
    pub const PERFORMED: u32 = CheckedLanes::WINDOW + 8;
    /// Size in bytes of the array of lane addresses, with the two words that follow the addresses.
    pub const BYTES: u32 = CheckedLanes::PERFORMED + 8;
    /// In the word that [`CheckedLanes::to_bits`] returns, the lowest bit of the thread index of
    /// the first lane. The mask of active lanes begins at bit 0.
    pub const THREAD: i64 = 32;

    /// Packs the fields into a word whose mask of active lanes and whose thread index are 0.
    pub fn to_bits(self) -> u64 {
        u64::from(self.width) << 48
            | u64::from(self.strided) << 54
            | u64::from(self.narrow) << 55
            | u64::from(self.writes_back) << 56
            | u64::from(self.operand_bytes == 8) << 57
            | u64::from(self.operands) << 58
    }

    /// Returns the fields that [`CheckedLanes::to_bits`] has packed, the mask of active lanes, and
    /// the thread of the first lane.
    pub fn from_bits(bits: u64) -> (CheckedLanes, u32, u32) {
        let flag = |at: u32| bits >> at & 1 != 0;
        let shape = CheckedLanes {
            width: (bits >> 48 & 63) as u32,
            strided: flag(54),
            narrow: flag(55),
            writes_back: flag(56),
            operands: (bits >> 58) as u32,
            operand_bytes: if flag(57) { 8 } else { 4 },
        };
        (shape, bits as u32, (bits >> 32) as u32 & 0xffff)
    }
}

/// A load or store that [`Helpers::check_lanes`] performs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PerformedAccess {
    /// Whether the helper always performs the access. Otherwise the helper performs it only in the cases that
    /// [`Helpers::check_lanes`] lists.
    pub always: bool,
    /// Whether loaded elements are extended with their sign.
    pub signed: bool,
    /// The number of bytes of a loaded or stored value in a register: 1, 2, 4 or 8.
    pub kind_bytes: u32,
    /// The number of bytes of a value in memory: 1, 2, 4 or 8.
    pub element: u32,
    /// The index of the [`NativeContext::permitted`] range that the check uses, counted among the ranges of the same
    /// kind.
    pub range: u32,
}

impl PerformedAccess {
    /// Packs the fields into a word. The result is not 0.
    pub fn to_bits(self) -> u64 {
        1 | u64::from(self.always) << 1
            | u64::from(self.signed) << 2
            | u64::from(self.kind_bytes) << 8
            | u64::from(self.element) << 16
            | u64::from(self.range) << 24
    }

    /// Returns the fields that [`PerformedAccess::to_bits`] has packed; `None` for 0.
    pub fn from_bits(bits: u64) -> Option<PerformedAccess> {
        (bits != 0).then_some(PerformedAccess {
            always: bits & 2 != 0,
            signed: bits & 4 != 0,
            kind_bytes: (bits >> 8) as u32 & 0xff,
            element: (bits >> 16) as u32 & 0xff,
            range: (bits >> 24) as u32 & 0xff,
        })
    }

    /// Returns the number of bytes that a value occupies in the memory for operands, which is at least four.
    pub fn cell_bytes(self) -> u32 {
        self.kind_bytes.max(4)
    }
}

/// The properties of the accesses of several lanes, packed into a word: size of an access, whether the accesses write,
/// state space, number of lanes, and mask of the active lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Verify(pub u64);

impl Verify {
    /// Describes `lanes` accesses of `bytes` bytes in a state space, with an empty mask of active lanes.
    pub fn of(bytes: u32, writes: bool, space: StateSpace, lanes: u32) -> Verify {
        let space = (space as u64) << 16;
        Verify(u64::from(bytes & 0xff) | u64::from(writes) << 8 | space | u64::from(lanes) << 24)
    }

    /// Sets the mask of the lanes that access memory, one bit per lane.
    pub fn with_mask(self, mask: u32) -> Verify {
        Verify(self.0 & 0xffff_ffff | u64::from(mask) << 32)
    }

    /// Returns the size of one access in bytes.
    pub fn bytes(self) -> u64 {
        self.0 & 0xff
    }

    /// Returns whether the accesses write.
    pub fn writes(self) -> bool {
        self.0 >> 8 & 1 != 0
    }

    /// Returns the state space of the accesses.
    pub fn space(self) -> StateSpace {
        let number = (self.0 >> 16 & 0xff) as usize;
        let space = StateSpace::ALL.get(number.wrapping_sub(1));
        space.copied().unwrap_or_default()
    }

    /// Returns the number of lanes, including inactive lanes.
    pub fn lanes(self) -> u32 {
        (self.0 >> 24 & 0xff) as u32
    }

    /// Returns the mask of the lanes that access memory.
    pub fn mask(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl std::fmt::Debug for Helpers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Helpers")
    }
}

/// The warp form of a region. Arguments: context, frame of the warp, and a word with the mask of the lanes to run (low
/// half) and the warp index (high half).
pub type RegionFn = unsafe extern "C" fn(*mut NativeContext, *mut u8, u64) -> i32;
/// The CTA form of a kernel without sync points. Arguments: context with the coordinates of the first CTA, linear index
/// of that CTA, number of CTAs.
pub type CtaFn = unsafe extern "C" fn(*mut NativeContext, u64, u64) -> i32;
/// The CTA form of a kernel with sync points. Arguments: context, frames of a CTA's warps, number of CTAs to run. The
/// context contains the coordinates of the first of these CTAs.
pub type PhasesFn = unsafe extern "C" fn(*mut NativeContext, *mut u8, u64) -> i32;
/// A device function. Arguments: context, thread, offset of the function's frame in the local memory of the thread,
/// array for arguments and results.
pub type DeviceFn = unsafe extern "C" fn(*mut NativeContext, u32, u32, *mut Bits) -> i32;
