//! The objects behind the handles of the interface, and each thread's stack of contexts.
//!
//! Invariant: an object is reached through its table only; destroying a context empties the
//! tables of what it owned, so that its handles are stale.

/// A table of handles for each kind of object.
macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident: $object:ty = $kind:literal;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name() -> &'static HandleTable<$object> {
            static TABLE: HandleTable<$object> = HandleTable::new($kind);
            &TABLE
        }
    )*};
}

mod context;
mod function;
mod graph;
mod green;
mod link;
mod pool;
mod pool_location;
mod texture;

use std::sync::Arc;

use margay::{Event, Stream};

pub(crate) use context::{
    ContextObject, ContextOrCurrent, contexts, current, current_alive, current_handle, forget,
    handle_of, pop_current, push_current, set_current,
};
pub(crate) use function::{
    Function, FunctionObject, LibraryObject, ModuleObject, functions, kernel_handle,
    library_handle, library_module_handle, module_function_handle,
};
pub(crate) use graph::{
    disown_graph, graph, graph_execs, graph_handle, is_own_graph, node, node_handle, own_graph,
    user_objects,
};
pub(crate) use green::{Description, GreenObject};
pub(crate) use link::LinkObject;
pub(crate) use pool::PoolObject;
pub(crate) use pool_location::PoolLocation;
pub(crate) use texture::{
    ArrayObject, Binding, MipmappedObject, SurfObject, SurfRefObject, TexObject, TexRefObject,
    TexRefState, arrays, mipmapped_arrays, surf_objects, surfrefs, tex_objects, texrefs,
};

use crate::convert::FromAbi;
use crate::guard::{Call, DefaultStream};
use crate::handle_table::HandleTable;
use crate::result::CuResult;
use crate::types::{CUevent, CUlibrary, CUlinkState, CUmemoryPool, CUmodule, CUstream};

/// `CU_STREAM_LEGACY`.
pub(crate) const STREAM_LEGACY: usize = 1;
/// `CU_STREAM_PER_THREAD`.
pub(crate) const STREAM_PER_THREAD: usize = 2;

tables! {
    /// Created streams.
    streams: Stream = 2;
    /// Events.
    events: Event = 3;
    /// Modules.
    modules: Arc<ModuleObject> = 4;
    /// Libraries.
    libraries: Arc<LibraryObject> = 6;
    /// Pending links.
    links: Arc<LinkObject> = 7;
    /// Memory pools.
    pools: Arc<PoolObject> = 8;
    /// Green contexts.
    green_contexts: Arc<GreenObject> = 24;
    /// Descriptions of device resources.
    resource_descriptions: Description = 25;
    // 26: callbacks of the log (`crate::error_log`).
}

/// Handles whose absence from a table is an invalid handle.
macro_rules! from_table {
    ($($raw:ident => $object:ty, $table:expr;)*) => {$(
        impl FromAbi<$raw> for $object {
            unsafe fn from_abi(raw: $raw, call: &Call) -> Result<$object, CuResult> {
                $table.get(raw.0).ok_or_else(|| call.bad_handle())
            }
        }
    )*};
}

from_table! {
    CUevent => Event, events();
    CUmodule => Arc<ModuleObject>, modules();
    CUlibrary => Arc<LibraryObject>, libraries();
    CUlinkState => Arc<LinkObject>, links();
}

impl FromAbi<CUmemoryPool> for Arc<PoolObject> {
    unsafe fn from_abi(raw: CUmemoryPool, _call: &Call) -> Result<Arc<PoolObject>, CuResult> {
        pools().get(raw.0).ok_or(CuResult::INVALID_VALUE)
    }
}

impl FromAbi<CUstream> for Stream {
    unsafe fn from_abi(raw: CUstream, call: &Call) -> Result<Stream, CuResult> {
        stream(raw, call)
    }
}

/// The stream behind a handle; 0 is the default stream of the entry point's kind.
pub(crate) fn stream(raw: CUstream, call: &Call) -> Result<Stream, CuResult> {
    let legacy = match raw.0 {
        0 => call.default_stream == DefaultStream::Legacy,
        STREAM_LEGACY => true,
        STREAM_PER_THREAD => false,
        handle => return streams().get(handle).ok_or_else(|| call.bad_handle()),
    };
    let context = current()?;
    context.status()?;
    Ok(match legacy {
        true => context.legacy_stream(),
        false => context.per_thread_stream(),
    })
}

/// Makes the handles of what a context owned stale.
pub(crate) fn forget_objects_of(context: &margay::Context) {
    texture::forget_textures_of(context);
    streams().remove_where(|stream| stream.context() == context);
    events().remove_where(|event| event.context() == context);
    for module in modules().remove_where(|module| module.module.context() == context) {
        module.forget_functions();
    }
}
