//! The exported C functions: `nccl` names and `pncclX`, the names for profilers.
//!
//! Each function checks its arguments, never panics across the boundary, and returns an `ncclResult_t`. Functions that are
//! not implemented return `ncclInvalidUsage` and name themselves in `ncclGetLastError` and on standard error.

use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use parking_lot::Mutex;

use crate::collective::Kind;
use crate::status::{Outcome, Status, failure};
use crate::{calls, group, setup, status};

/// An `ncclUniqueId`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UniqueId([u8; 128]);

fn guarded(body: impl FnOnce() -> Outcome) -> i32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Status::SUCCESS.0,
        Ok(Err(status)) => {
            if status != Status::IN_PROGRESS {
                group::note_failure(status);
            }
            status.0
        }
        Err(panic) => {
            // Dropping the payload could panic again.
            std::mem::forget(panic);
            group::note_failure(Status::INTERNAL);
            Status::INTERNAL.0
        }
    }
}

macro_rules! functions {
    ($($name:ident $alias:ident ($($argument:ident: $kind:ty),*) => $body:expr;)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of NCCL.")]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "NCCL's name")]
        pub extern "C" fn $name($($argument: $kind),*) -> i32 {
            guarded(|| $body)
        }

        #[doc = concat!("`", stringify!($name), "` of NCCL, for profilers.")]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "NCCL's name")]
        pub extern "C" fn $alias($($argument: $kind),*) -> i32 {
            guarded(|| $body)
        }
    )*};
}

macro_rules! unsupported {
    ($($name:ident $alias:ident;)*) => {
        functions! { $($name $alias () => refuse(stringify!($name));)* }
    };
}

/// Names a function that is not implemented.
fn refuse(name: &'static str) -> Outcome {
    static TOLD: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    let text = format!("Margay's NCCL has no {name}");
    let mut told = TOLD.lock();
    if !told.contains(&name) && std::env::var_os("MARGAY_QUIET").is_none() {
        told.push(name);
        eprintln!("margay: NCCL: {name} is not implemented");
    }
    Err(failure(Status::INVALID_USAGE, &text))
}

functions! {
    ncclGetVersion pncclGetVersion (version: *mut i32) => setup::version(version);
    ncclGetUniqueId pncclGetUniqueId (id: *mut [u8; 128]) => setup::unique_id(id);
    ncclCommInitRank pncclCommInitRank (comm: *mut usize, ranks: i32, id: UniqueId, rank: i32)
        => setup::init_rank(comm, ranks, &id.0, rank, std::ptr::null());
    ncclCommInitRankConfig pncclCommInitRankConfig (comm: *mut usize, ranks: i32, id: UniqueId, rank: i32, config: *const u8)
        => setup::init_rank(comm, ranks, &id.0, rank, config);
    ncclCommInitRankScalable pncclCommInitRankScalable (comm: *mut usize, ranks: i32, rank: i32, ids: i32, id: *const [u8; 128], config: *const u8)
        => setup::init_rank_scalable(comm, ranks, rank, ids, id, config);
    ncclCommInitAll pncclCommInitAll (comms: *mut usize, count: i32, devices: *const i32) => setup::init_all(comms, count, devices);
    ncclCommSplit pncclCommSplit (comm: usize, color: i32, key: i32, result: *mut usize, config: *const u8)
        => setup::split(comm, color, key, result, config);
    ncclCommShrink pncclCommShrink (comm: usize, excluded: *const i32, count: i32, result: *mut usize, config: *const u8, flags: i32)
        => setup::shrink(comm, excluded, count, result, config, flags);
    ncclCommFinalize pncclCommFinalize (comm: usize) => setup::finalize(comm);
    ncclCommDestroy pncclCommDestroy (comm: usize) => setup::destroy(comm, false);
    ncclCommAbort pncclCommAbort (comm: usize) => setup::destroy(comm, true);
    ncclCommGetAsyncError pncclCommGetAsyncError (comm: usize, error: *mut i32) => setup::async_error(comm, error);
    ncclCommCount pncclCommCount (comm: usize, count: *mut i32) => setup::store(comm, count, |comm| comm.ranks as i32);
    ncclCommCuDevice pncclCommCuDevice (comm: usize, device: *mut i32) => setup::store(comm, device, |comm| comm.device);
    ncclCommUserRank pncclCommUserRank (comm: usize, rank: *mut i32) => setup::store(comm, rank, |comm| comm.rank as i32);
    ncclCommQueryProperties pncclCommQueryProperties (comm: usize, properties: usize) => setup::properties(comm, properties);
    ncclCommRegister pncclCommRegister (comm: usize, address: usize, size: usize, handle: *mut usize)
        => setup::register(comm, address, size, handle);
    ncclCommDeregister pncclCommDeregister (comm: usize, _handle: usize) => setup::known(comm);
    ncclCommWindowRegister pncclCommWindowRegister (comm: usize, address: usize, size: usize, window: *mut usize, _flags: i32)
        => setup::register_window(comm, address, size, window);
    ncclCommWindowDeregister pncclCommWindowDeregister (comm: usize, _window: usize) => setup::known(comm);
    ncclMemAlloc pncclMemAlloc (place: *mut usize, size: usize) => setup::alloc(place, size);
    ncclMemFree pncclMemFree (address: usize) => setup::free(address);
    ncclRedOpCreatePreMulSum pncclRedOpCreatePreMulSum (op: *mut i32, scalar: usize, data_type: i32, residence: i32, comm: usize)
        => calls::create_operation(op, scalar, data_type, residence, comm);
    ncclRedOpDestroy pncclRedOpDestroy (op: i32, comm: usize) => calls::destroy_operation(op, comm);
    ncclGroupStart pncclGroupStart () => group::start();
    ncclGroupEnd pncclGroupEnd () => group::end();
    ncclGroupSimulateEnd pncclGroupSimulateEnd (_info: usize) => {
        group::discard();
        refuse("ncclGroupSimulateEnd")
    };
    ncclAllReduce pncclAllReduce (send: usize, receive: usize, count: usize, data_type: i32, op: i32, comm: usize, stream: usize)
        => calls::collective(Kind::AllReduce, send, receive, count, data_type, op, 0, comm, stream);
    ncclReduce pncclReduce (send: usize, receive: usize, count: usize, data_type: i32, op: i32, root: i32, comm: usize, stream: usize)
        => calls::collective(Kind::Reduce, send, receive, count, data_type, op, root, comm, stream);
    ncclReduceScatter pncclReduceScatter (send: usize, receive: usize, count: usize, data_type: i32, op: i32, comm: usize, stream: usize)
        => calls::collective(Kind::ReduceScatter, send, receive, count, data_type, op, 0, comm, stream);
    ncclBroadcast pncclBroadcast (send: usize, receive: usize, count: usize, data_type: i32, root: i32, comm: usize, stream: usize)
        => calls::collective(Kind::Broadcast, send, receive, count, data_type, 0, root, comm, stream);
    ncclBcast pncclBcast (buffer: usize, count: usize, data_type: i32, root: i32, comm: usize, stream: usize)
        => calls::collective(Kind::Broadcast, buffer, buffer, count, data_type, 0, root, comm, stream);
    ncclAllGather pncclAllGather (send: usize, receive: usize, count: usize, data_type: i32, comm: usize, stream: usize)
        => calls::collective(Kind::AllGather, send, receive, count, data_type, 0, 0, comm, stream);
    ncclAlltoAll pncclAlltoAll (send: usize, receive: usize, count: usize, data_type: i32, comm: usize, stream: usize)
        => calls::all_to_all(send, receive, count, data_type, comm, stream);
    ncclGather pncclGather (send: usize, receive: usize, count: usize, data_type: i32, root: i32, comm: usize, stream: usize)
        => calls::gather(send, receive, count, data_type, root, comm, stream);
    ncclScatter pncclScatter (send: usize, receive: usize, count: usize, data_type: i32, root: i32, comm: usize, stream: usize)
        => calls::scatter(send, receive, count, data_type, root, comm, stream);
    ncclSend pncclSend (buffer: usize, count: usize, data_type: i32, peer: i32, comm: usize, stream: usize)
        => calls::message(true, buffer, count, data_type, peer, comm, stream);
    ncclRecv pncclRecv (buffer: usize, count: usize, data_type: i32, peer: i32, comm: usize, stream: usize)
        => calls::message(false, buffer, count, data_type, peer, comm, stream);
    ncclAllReduceConfig pncclAllReduceConfig (send: usize, receive: usize, count: usize, data_type: i32, op: i32, comm: usize, stream: usize, _config: usize)
        => calls::collective(Kind::AllReduce, send, receive, count, data_type, op, 0, comm, stream);
    ncclReduceConfig pncclReduceConfig (send: usize, receive: usize, count: usize, data_type: i32, op: i32, root: i32, comm: usize, stream: usize, _config: usize)
        => calls::collective(Kind::Reduce, send, receive, count, data_type, op, root, comm, stream);
    ncclReduceScatterConfig pncclReduceScatterConfig (send: usize, receive: usize, count: usize, data_type: i32, op: i32, comm: usize, stream: usize, _config: usize)
        => calls::collective(Kind::ReduceScatter, send, receive, count, data_type, op, 0, comm, stream);
    ncclBroadcastConfig pncclBroadcastConfig (send: usize, receive: usize, count: usize, data_type: i32, root: i32, comm: usize, stream: usize, _config: usize)
        => calls::collective(Kind::Broadcast, send, receive, count, data_type, 0, root, comm, stream);
    ncclAllGatherConfig pncclAllGatherConfig (send: usize, receive: usize, count: usize, data_type: i32, comm: usize, stream: usize, _config: usize)
        => calls::collective(Kind::AllGather, send, receive, count, data_type, 0, 0, comm, stream);
    ncclAlltoAllConfig pncclAlltoAllConfig (send: usize, receive: usize, count: usize, data_type: i32, comm: usize, stream: usize, _config: usize)
        => calls::all_to_all(send, receive, count, data_type, comm, stream);
    ncclGatherConfig pncclGatherConfig (send: usize, receive: usize, count: usize, data_type: i32, root: i32, comm: usize, stream: usize, _config: usize)
        => calls::gather(send, receive, count, data_type, root, comm, stream);
    ncclScatterConfig pncclScatterConfig (send: usize, receive: usize, count: usize, data_type: i32, root: i32, comm: usize, stream: usize, _config: usize)
        => calls::scatter(send, receive, count, data_type, root, comm, stream);
}

unsupported! {
    ncclCommRevoke pncclCommRevoke;
    ncclCommGetUniqueId pncclCommGetUniqueId;
    ncclCommGrow pncclCommGrow;
    ncclCommSuspend pncclCommSuspend;
    ncclCommResume pncclCommResume;
    ncclCommMemStats pncclCommMemStats;
    ncclWinGetUserPtr pncclWinGetUserPtr;
    ncclPutSignal pncclPutSignal;
    ncclSignal pncclSignal;
    ncclWaitSignal pncclWaitSignal;
    ncclSetEncryption pncclSetEncryption;
    ncclDevCommCreate pncclDevCommCreate;
    ncclDevCommDestroy pncclDevCommDestroy;
    ncclGetLsaDevicePointer pncclGetLsaDevicePointer;
    ncclGetLsaMultimemDevicePointer pncclGetLsaMultimemDevicePointer;
    ncclGetMultimemDevicePointer pncclGetMultimemDevicePointer;
    ncclGetPeerDevicePointer pncclGetPeerDevicePointer;
}

macro_rules! texts {
    ($($name:ident ($argument:ident: $kind:ty) => $body:expr;)*) => {$(
        /// A function of NCCL that returns a text.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "NCCL's name")]
        pub extern "C" fn $name($argument: $kind) -> *const c_char {
            $body
        }
    )*};
}

texts! {
    ncclGetErrorString(result: i32) => Status(result).text().as_ptr();
    pncclGetErrorString(result: i32) => Status(result).text().as_ptr();
    ncclGetLastError(_comm: *mut c_void) => status::last_error();
    pncclGetLastError(_comm: *mut c_void) => status::last_error();
}

/// `ncclResetDebugInit` of NCCL, which has no effect.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "NCCL's name")]
pub extern "C" fn ncclResetDebugInit() {}

/// `ncclResetDebugInit` of NCCL, for profilers.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "NCCL's name")]
pub extern "C" fn pncclResetDebugInit() {}
