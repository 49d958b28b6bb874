//! Implements the entry points with which processes share device memory.
//!
//! A handle names the exporting process and its memory file ([`margay::memory::Address`]). The importing process opens
//! the file through `/proc`, which the system permits to processes of the same user. From then on
//! the memory exists until the last process unmaps it.
//!
//! Invariant: if a context opens the same handle several times, the memory is mapped only once.

use std::collections::HashMap;
use std::ffi::{c_char, c_uint};
use std::sync::OnceLock;

use margay::memory::{Address, MemoryError, SharedKind, SharedMemory};
use margay::{Context, DevicePtr, PointerKind, Runtime};
use parking_lot::Mutex;

use crate::convert::Out;
use crate::guard::Call;
use crate::handles::current;
use crate::result::{CuResult, Served};
use crate::types::CUipcMemHandle;

/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`, a flag that `cuIpcOpenMemHandle` requires.
const LAZY_PEER_ACCESS: c_uint = 1;

const MAGIC: u64 = u64::from_le_bytes(*b"mrgyMem1");

/// The memory that a handle denotes: a range of a memory file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) file: Address,
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// Packs `named` into a handle of eight words. The first word is `magic`, and the last word is a checksum of the other
/// words.
pub(super) fn pack(magic: u64, named: &Named) -> [u8; 64] {
    let Named { file, offset, size } = *named;
    let mut words = [
        magic,
        u64::from(file.process as u32) | u64::from(file.descriptor as u32) << 32,
        file.started,
        file.inode,
        offset,
        size,
        0,
        0,
    ];
    words[7] = check(&words[..7]);
    let mut bytes = [0; 64];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Unpacks a handle that [`pack`] created with the same `magic`. Returns `None` for all other bytes.
pub(super) fn unpack(magic: u64, bytes: &[u8; 64]) -> Option<Named> {
    let mut words = [0; 8];
    for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(place.try_into().ok()?);
    }
    let valid = words[0] == magic && words[7] == check(&words[..7]);
    valid.then_some(Named {
        file: Address {
            process: words[1] as u32 as i32,
            descriptor: (words[1] >> 32) as i32,
            started: words[2],
            inode: words[3],
        },
        offset: words[4],
        size: words[5],
    })
}

fn check(words: &[u64]) -> u64 {
    words.iter().fold(0xcbf2_9ce4_8422_2325, |sum, word| {
        (sum ^ word)
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(29)
    })
}

pub(super) fn to_chars(bytes: [u8; 64]) -> [c_char; 64] {
    bytes.map(|byte| byte as c_char)
}

pub(super) fn to_bytes(chars: [c_char; 64]) -> [u8; 64] {
    chars.map(|char| char as u8)
}

/// Imported memory: a handle that a context has opened, and the address where the memory is mapped.
struct Opened {
    address: u64,
    context: u64,
    named: Named,
    uses: u64,
}

/// Returns the map of the opened handles; the key is the address of the mapping.
fn opened() -> &'static Mutex<HashMap<u64, Opened>> {
    static OPENED: OnceLock<Mutex<HashMap<u64, Opened>>> = OnceLock::new();
    OPENED.get_or_init(Mutex::default)
}

pub(crate) fn ipc_get_mem_handle(_: &Call, out: Out<CUipcMemHandle>, address: u64) -> Served {
    let context = current()?;
    context.status()?;
    let runtime = Runtime::global()?;
    let shareable = runtime.pointer_info(address).filter(|info| {
        let ours = !info.pooled && !info.mapped && !info.imported && !info.internal;
        info.kind == PointerKind::Device && ours
    });
    let info = shareable.ok_or(CuResult::INVALID_VALUE)?;
    let export = runtime.memory().export(info.base).map_err(map_failed)?;
    let named = Named {
        file: export.memory.address().map_err(map_failed)?,
        offset: export.offset,
        size: info.size,
    };
    out.set(CUipcMemHandle {
        reserved: to_chars(pack(MAGIC, &named)),
    });
    Ok(())
}

/// Converts `error`, which occurred while memory was exported or mapped, to the result that CUDA
/// documents for `cuIpc*` functions.
fn map_failed(error: MemoryError) -> CuResult {
    match error {
        MemoryError::OutOfMemory { .. } => CuResult::OUT_OF_MEMORY,
        MemoryError::NotAllocated(_) => CuResult::INVALID_VALUE,
        _ => CuResult::MAP_FAILED,
    }
}

pub(crate) fn ipc_open_mem_handle(
    _: &Call,
    out: Out<u64>,
    handle: CUipcMemHandle,
    flags: c_uint,
) -> Served {
    let context = current()?;
    context.status()?;
    if flags != LAZY_PEER_ACCESS {
        return Err(CuResult::INVALID_VALUE);
    }
    let named = unpack(MAGIC, &to_bytes(handle.reserved)).ok_or(CuResult::INVALID_HANDLE)?;
    if named.file.process == std::process::id() as i32 {
        // CUDA does not permit a process to open a handle that it exported itself.
        return Err(CuResult::INVALID_CONTEXT);
    }
    let mut opened = opened().lock();
    let known = opened
        .values_mut()
        .find(|known| known.named == named && known.context == context.id());
    if let Some(known) = known {
        known.uses += 1;
        out.set(known.address);
        return Ok(());
    }
    let memory = SharedMemory::open(&named.file).map_err(map_failed)?;
    if memory.label().kind != SharedKind::Allocation {
        return Err(CuResult::INVALID_HANDLE);
    }
    let address = context
        .import_memory(&memory, named.offset, named.size)
        .map_err(|_| CuResult::MAP_FAILED)?
        .address();
    opened.insert(
        address,
        Opened {
            address,
            context: context.id(),
            named,
            uses: 1,
        },
    );
    out.set(address);
    Ok(())
}

pub(crate) fn ipc_close_mem_handle(_: &Call, address: u64) -> Served {
    let context = current()?;
    {
        let mut opened = opened().lock();
        let known = opened.get_mut(&address).ok_or(CuResult::INVALID_VALUE)?;
        known.uses -= 1;
        if known.uses != 0 {
            return Ok(());
        }
        opened.remove(&address);
    }
    Ok(context.release_import(DevicePtr::new(address))?)
}

/// Removes the handles that a context opened from the map. The mappings of their memory are removed
/// when the context ends.
pub(crate) fn forget_imports_of(context: &Context) {
    opened()
        .lock()
        .retain(|_, known| known.context != context.id());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_survive_packing_and_damage_is_seen() {
        let named = Named {
            file: Address {
                process: 4711,
                started: 1 << 40,
                descriptor: 9,
                inode: 77,
            },
            offset: 4096,
            size: 100,
        };
        let bytes = pack(MAGIC, &named);
        assert_eq!(unpack(MAGIC, &bytes), Some(named));
        assert_eq!(unpack(MAGIC + 1, &bytes), None, "another kind of handle");
        for at in 0..64 {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert_eq!(unpack(MAGIC, &damaged), None, "byte {at}");
        }
        assert_eq!(unpack(MAGIC, &[0; 64]), None);
    }
}
