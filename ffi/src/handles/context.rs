//! Handles of contexts, and the current context.
//!
//! A primary context has the same handle until the process ends, whether the context is retained or
//! not, because NVIDIA's runtime makes the context current before it retains the context.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use margay::Context;
use parking_lot::RwLock;

use super::GreenObject;
use super::context_stack::with_stack;
use crate::convert::FromAbi;
use crate::guard::Call;
use crate::handle_table::HandleTable;
use crate::result::CuResult;
use crate::types::CUcontext;

/// A context with the data that only the driver API needs.
#[derive(Clone)]
pub(crate) struct ContextObject {
    pub(crate) context: Context,
    /// The number of uses that `cuCtxAttach` added.
    pub(crate) attachments: Arc<AtomicU32>,
    /// The green context, if the handle denotes a green context. In this case, `context` is the
    /// primary context.
    pub(crate) green: Option<Arc<GreenObject>>,
}

/// Returns the table of all contexts.
pub(crate) fn contexts() -> &'static HandleTable<ContextObject> {
    static TABLE: HandleTable<ContextObject> = HandleTable::new(1);
    &TABLE
}

fn by_id() -> &'static RwLock<HashMap<u64, CUcontext>> {
    static BY_ID: std::sync::OnceLock<RwLock<HashMap<u64, CUcontext>>> = std::sync::OnceLock::new();
    BY_ID.get_or_init(RwLock::default)
}

/// Returns the handle of a context. The first call for a context creates the handle.
pub(crate) fn handle_of(context: &Context) -> Result<CUcontext, CuResult> {
    if let Some(handle) = by_id().read().get(&context.id()) {
        return Ok(*handle);
    }
    let mut ids = by_id().write();
    if let Some(handle) = ids.get(&context.id()) {
        return Ok(*handle);
    }
    let object = ContextObject {
        context: context.clone(),
        attachments: Arc::default(),
        green: None,
    };
    let handle = contexts().insert(object).ok_or(CuResult::OUT_OF_MEMORY)?;
    ids.insert(context.id(), CUcontext(handle));
    Ok(CUcontext(handle))
}

/// Invalidates the handle of a destroyed context.
pub(crate) fn forget(handle: CUcontext) {
    if let Some(object) = contexts().remove(handle.0) {
        by_id().write().remove(&object.context.id());
    }
}

impl FromAbi<CUcontext> for Context {
    unsafe fn from_abi(raw: CUcontext, _call: &Call) -> Result<Context, CuResult> {
        contexts()
            .get(raw.0)
            .map(|object| object.context)
            .ok_or(CuResult::INVALID_CONTEXT)
    }
}

/// A context argument; null means the current context.
pub(crate) struct ContextOrCurrent(pub(crate) Context);

impl FromAbi<CUcontext> for ContextOrCurrent {
    unsafe fn from_abi(raw: CUcontext, _call: &Call) -> Result<ContextOrCurrent, CuResult> {
        match raw.0 {
            0 => current(),
            handle => contexts()
                .get(handle)
                .map(|object| object.context)
                .ok_or(CuResult::INVALID_CONTEXT),
        }
        .map(ContextOrCurrent)
    }
}

/// Returns the current context.
///
/// # Errors
/// Returns `INVALID_CONTEXT` if the thread has no current context.
pub(crate) fn current() -> Result<Context, CuResult> {
    with_stack(|stack| stack.last().map(|(_, context)| context.clone()))?
        .ok_or(CuResult::INVALID_CONTEXT)
}

/// Returns the current context if it is not destroyed. In contrast to [`Context::status`], this function accepts a
/// context after a fault, because calls that free memory still work in such a context.
///
/// # Errors
/// Returns `INVALID_CONTEXT` if the thread has no current context, and `CONTEXT_IS_DESTROYED` for a destroyed context.
pub(crate) fn current_alive() -> Result<Context, CuResult> {
    let context = current()?;
    match context.is_alive() {
        true => Ok(context),
        false => Err(CuResult::CONTEXT_IS_DESTROYED),
    }
}

/// Returns the current context's handle, or null if there is none.
pub(crate) fn current_handle() -> Result<CUcontext, CuResult> {
    with_stack(|stack| stack.last().map_or(CUcontext(0), |(handle, _)| *handle))
}

/// Pushes a context onto the thread's stack. The context becomes current.
pub(crate) fn push_current(handle: CUcontext, context: Context) -> Result<(), CuResult> {
    with_stack(|stack| stack.push((handle, context)))
}

/// Pops the current context from the thread's stack.
pub(crate) fn pop_current() -> Result<Option<CUcontext>, CuResult> {
    with_stack(|stack| stack.pop().map(|(handle, _)| handle))
}

/// Replaces the current context by `new`, or pops it from the thread's stack if `new` is `None`.
pub(crate) fn set_current(new: Option<(CUcontext, Context)>) -> Result<(), CuResult> {
    with_stack(|stack| {
        stack.pop();
        stack.extend(new);
    })
}
