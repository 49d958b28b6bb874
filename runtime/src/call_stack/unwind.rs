//! Walks the stack of the calling thread with `_Unwind_Backtrace`, which is part of the unwinder that Rust's standard
//! library links (`libgcc_s` with glibc).

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use super::resolve::mappings;

/// Maximum number of frames that are stored.
const MOST: usize = 192;
/// `_URC_NO_REASON` and `_URC_END_OF_STACK`.
const NEXT: c_int = 0;
const STOP: c_int = 5;

#[repr(C)]
struct Context([u8; 0]);

unsafe extern "C" {
    fn _Unwind_Backtrace(
        visit: extern "C" fn(*mut Context, *mut c_void) -> c_int,
        state: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIPInfo(context: *mut Context, before: *mut c_int) -> usize;
}

extern "C" fn visit(context: *mut Context, state: *mut c_void) -> c_int {
    // SAFETY: `return_addresses` passes a pointer to its vector, which nothing else uses during the walk.
    let addresses = unsafe { &mut *state.cast::<Vec<usize>>() };
    let mut before = 0;
    // SAFETY: the unwinder passes a valid context.
    let address = unsafe { _Unwind_GetIPInfo(context, &raw mut before) };
    if address == 0 || addresses.len() == MOST {
        return STOP;
    }
    // A return address is the end of the call instruction, and may belong to the next line or function.
    addresses.push(if before == 0 { address - 1 } else { address });
    NEXT
}

/// Returns an address inside the call instruction of each frame, innermost first. If this library
/// is a separate file and not linked into the program, omits the frames of this library.
pub(super) fn return_addresses() -> Vec<usize> {
    let mut addresses: Vec<usize> = Vec::with_capacity(MOST);
    // SAFETY: `visit` has the type that the unwinder expects, does not unwind, and receives a pointer to the vector.
    unsafe { _Unwind_Backtrace(visit, (&raw mut addresses).cast()) };
    if let Some((start, end)) = *own_range() {
        let own = addresses.iter().take_while(|at| (start..end).contains(at));
        let own = own.count();
        addresses.drain(..own);
    }
    addresses.shrink_to_fit();
    addresses
}

/// Returns the address range of this library; `None` if the library is linked into the program.
fn own_range() -> &'static Option<(usize, usize)> {
    static RANGE: OnceLock<Option<(usize, usize)>> = OnceLock::new();
    RANGE.get_or_init(|| {
        let program = std::fs::read_link("/proc/self/exe").ok();
        let here = own_range as *const () as usize;
        let all = mappings();
        let own = all.iter().find(|known| known.holds(here))?;
        if program.is_some_and(|program| program.as_os_str() == own.file.as_str()) {
            return None;
        }
        let parts = || all.iter().filter(|known| known.file == own.file);
        let start = parts().map(|part| part.start).min()?;
        let end = parts().map(|part| part.end).max()?;
        Some((start, end))
    })
}
