//! The fuzz target for images with wrong size fields.
//!
//! The input is placed at the end of a mapping, directly before an inaccessible page, so that a
//! driver that reads beyond the input because of a wrong size field faults. The target passes the
//! input, directly and in a fat binary wrapper, to each driver function that receives an image as a
//! pointer without a size. It passes the input to the linker with its true size and with sizes that
//! are too large. The test fails if the driver crashes or returns `CUDA_ERROR_UNKNOWN`.

use cuda::CuResult;

use crate::fuzz_driver::call_named;

const PAGE: usize = 4096;
/// The values of `CU_JIT_INPUT_*`, the kinds of inputs of the driver's linker.
const LINK_INPUTS: std::ops::Range<u64> = 0..5;

/// A memory mapping. The last byte of its accessible pages is the last byte of the input.
struct AtTheEnd {
    mapping: *mut libc::c_void,
    len: usize,
    start: *mut u8,
}

impl AtTheEnd {
    fn new(bytes: &[u8]) -> Option<AtTheEnd> {
        let room = bytes.len().next_multiple_of(PAGE);
        let len = room + PAGE;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the call creates a new mapping.
        let mapping = unsafe { libc::mmap(std::ptr::null_mut(), len, rights, flags, -1, 0) };
        if mapping == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the last page and the bytes before it belong to the new mapping.
        let start = unsafe {
            libc::mprotect(mapping.add(room), PAGE, libc::PROT_NONE);
            let start = mapping.cast::<u8>().add(room - bytes.len());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len());
            start
        };
        Some(AtTheEnd {
            mapping,
            len,
            start,
        })
    }
}

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and no call keeps an image.
        unsafe { libc::munmap(self.mapping, self.len) };
    }
}

/// Runs the fuzz target: passes the input to each driver function that receives an image as a
/// pointer without a size, and to the linker with the correct size and with sizes that are too
/// large.
pub fn image_sizes(bytes: &[u8]) {
    let Some(image) = AtTheEnd::new(bytes) else {
        return;
    };
    let mut slot = [0_u64; 4];
    let out = slot.as_mut_ptr() as u64;
    let _ = call_named("cuInit", &[0]);
    if call_named("cuDevicePrimaryCtxRetain", &[out, 0]) != CuResult::SUCCESS {
        return;
    }
    let _ = call_named("cuCtxSetCurrent", &[slot[0]]);
    let address = image.start as u64;
    let list = [address, address, 0];
    let wrappers = [
        [0x1_4662_43b1_u64, address, 0],
        [0x2_4662_43b1, address, list.as_ptr() as u64],
        // A list without a terminator: the input itself.
        [0x2_4662_43b1, address, address],
    ];
    let wrapped = wrappers.iter().map(|wrapper| wrapper.as_ptr() as u64);
    for start in wrapped.chain([address]) {
        let known = |result| assert_ne!(result, CuResult::UNKNOWN);
        for load in ["cuModuleLoadData", "cuModuleLoadFatBinary"] {
            let result = call_named(load, &[out, start]);
            known(result);
            if result == CuResult::SUCCESS {
                known(call_named("cuModuleUnload", &[slot[0]]));
            }
        }
        let result = call_named("cuModuleLoadDataEx", &[out, start, 0, 0, 0]);
        known(result);
        if result == CuResult::SUCCESS {
            known(call_named("cuModuleUnload", &[slot[0]]));
        }
        let result = call_named("cuLibraryLoadData", &[out, start, 0, 0, 0, 0, 0, 0]);
        known(result);
        if result == CuResult::SUCCESS {
            known(call_named("cuLibraryUnload", &[slot[0]]));
        }
    }
    for kind in LINK_INPUTS {
        if call_named("cuLinkCreate_v2", &[0, 0, 0, out]) != CuResult::SUCCESS {
            break;
        }
        let link = slot[0];
        // The true size, and two sizes that are too large.
        for size in [bytes.len() as u64, bytes.len() as u64 + 1, 1 << 40] {
            let arguments = [link, kind, address, size, 0, 0, 0, 0];
            assert_ne!(
                call_named("cuLinkAddData_v2", &arguments),
                CuResult::UNKNOWN
            );
        }
        let _ = call_named("cuLinkDestroy", &[link]);
    }
}
