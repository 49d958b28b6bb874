//! The objects that handles of the driver API denote, and each thread's stack of contexts.
//!
//! Invariant: entry points find an object only by looking up its handle: in the table of its kind or, for graphs and
//! nodes, in the runtime. When a context is destroyed, the objects that it owns are removed from their tables, so their
//! handles become invalid.

/// Declares functions that return the handle tables, one for each kind of object.
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
mod context_stack;
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
    library_handle, library_module_handle, module_function_handle, native_handle,
};
pub(crate) use graph::{
    all_graphs, disown_graph, graph, graph_execs, graph_handle, is_own_graph, node, node_handle,
    own_graph, user_objects,
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
    /// Returns the table of created streams.
    streams: Stream = 2;
    /// Returns the table of events.
    events: Event = 3;
    /// Returns the table of modules.
    modules: Arc<ModuleObject> = 4;
    /// Returns the table of libraries.
    libraries: Arc<LibraryObject> = 6;
    /// Returns the table of link operations that `cuLinkDestroy` has not ended.
    links: Arc<LinkObject> = 7;
    /// Returns the table of memory pools.
    pools: Arc<PoolObject> = 8;
    /// Returns the table of green contexts.
    green_contexts: Arc<GreenObject> = 24;
    /// Returns the table of resource descriptors.
    resource_descriptions: Description = 25;
    // Kind 26 is used by the callbacks of the log (`crate::error_log`).
}

/// Implements [`FromAbi`] for handles: for a handle that is not in its table, the call returns its
/// result for invalid handles ([`Call::bad_handle`]).
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

/// Returns the stream of a handle. Handle 0 is the default stream of the entry point.
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

/// Invalidates the handles of all objects that a context owns.
pub(crate) fn forget_objects_of(context: &margay::Context) {
    texture::forget_textures_of(context);
    streams().remove_where(|stream| stream.context() == context);
    events().remove_where(|event| event.context() == context);
    for module in modules().remove_where(|module| module.module.context() == context) {
        module.forget_functions();
    }
    function::forget_natives_of(context);
}
