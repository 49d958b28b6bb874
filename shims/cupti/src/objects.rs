//! The functions that return the numbers of CUDA's objects in records.

use margay_activity::interface::{Object, Outcome};

use crate::driver::driver;
use crate::{check, guarded, store};

/// Stores the number of an object.
///
/// # Safety
/// `place` is null or points to a variable.
unsafe fn number<T>(
    object: Object,
    handle: usize,
    context: usize,
    place: *mut T,
    convert: impl FnOnce(u64) -> T,
) -> Outcome {
    guarded(|| {
        if place.is_null() {
            return Err(Outcome::INVALID_PARAMETER);
        }
        let mut found = 0;
        check((driver()?.object)(
            object as u32,
            handle,
            context,
            &raw mut found,
        ))?;
        // SAFETY: the caller guarantees the variable.
        unsafe { store(place, convert(found)) }
    })
}

/// Declares functions with one handle.
macro_rules! numbers {
    ($($name:ident $object:ident $type:ty, $missing:expr, $doc:literal;)*) => {$(
        #[doc = $doc]
        ///
        /// # Safety
        /// `id` is null or points to a variable.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(handle: usize, id: *mut $type) -> Outcome {
            if handle == 0 {
                return $missing;
            }
            // SAFETY: the caller guarantees the variable.
            unsafe { number(Object::$object, handle, 0, id, |found| found as $type) }
        }
    )*};
}

numbers! {
    cuptiGetContextId Context u32, Outcome::INVALID_CONTEXT, "Stores the ID of a context.";
    cuptiGetDeviceId Device u32, Outcome::INVALID_DEVICE, "Stores the ordinal of the device of a context.";
    cuptiGetGraphId Graph u32, Outcome::INVALID_PARAMETER, "Stores the ID of a graph.";
    cuptiGetGraphNodeId Node u64, Outcome::INVALID_PARAMETER, "Stores the ID of a node of a graph.";
    cuptiGetCudaEventId Event u32, Outcome::INVALID_PARAMETER, "Stores the ID of a CUDA event.";
}

/// Stores the ID of an executable graph.
///
/// # Safety
/// `id` is null or points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetGraphExecId(graph: usize, id: *mut u32) -> Outcome {
    if graph == 0 {
        return Outcome::INVALID_PARAMETER;
    }
    // SAFETY: the caller guarantees the variable.
    unsafe { number(Object::GraphExec, graph, 0, id, |found| found as u32) }
}

/// Stores the ID of a stream. A null stream is the legacy default stream of the context; a null context is the current
/// context.
///
/// # Safety
/// `id` is null or points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetStreamId(context: usize, stream: usize, id: *mut u32) -> Outcome {
    // SAFETY: the caller guarantees the variable.
    unsafe { number(Object::Stream, stream, context, id, |found| found as u32) }
}

/// Stores the ID of a stream. A null stream is the default stream of the thread if `per_thread` is 1.
///
/// # Safety
/// `id` is null or points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetStreamIdEx(
    context: usize,
    stream: usize,
    per_thread: u8,
    id: *mut u32,
) -> Outcome {
    let object = match per_thread {
        0 => Object::Stream,
        _ => Object::ThreadStream,
    };
    // SAFETY: the caller guarantees the variable.
    unsafe { number(object, stream, context, id, |found| found as u32) }
}
