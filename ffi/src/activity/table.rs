//! The table of functions for `libcupti` ([`margay_activity::interface`]).
//!
//! No panic propagates out of a function of the table, and pointers of the caller are checked for null.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use margay_activity::Kind;
use margay_activity::interface::{Interface, Object, Outcome, Receiver, VERSION};

use super::{announce_contexts, announce_devices, callbacks};
use crate::convert::FromAbi;
use crate::guard::{Call, DefaultStream};
use crate::handles::{
    ContextOrCurrent, contexts, current, events, graph, graph_execs, node, stream,
};
use crate::records::{self, RECEIVER, recorder, thread_number};
use crate::tools;
use crate::types::{CUcontext, CUgraph, CUgraphNode, CUstream};

static INTERFACE: Interface = Interface {
    size: size_of::<Interface>(),
    version: VERSION,
    attach,
    detach,
    set_kind,
    set_call,
    set_callback,
    get_callback,
    set_system_threads,
    set_clock,
    now,
    thread,
    push,
    pop,
    object,
    want_annotations,
};

/// Returns the address of the table.
pub(crate) fn start() -> *const c_void {
    (&raw const INTERFACE).cast()
}

fn guarded(body: impl FnOnce() -> Outcome) -> Outcome {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        std::mem::forget(panic);
        Outcome::UNKNOWN
    })
}

/// Passes calls of the driver API to the recorder while a client wants records or callbacks.
fn adjust() {
    recorder().follow_calls(callbacks::any());
    tools::follow_calls(recorder().wants_calls());
}

extern "C" fn attach(receiver: *const Receiver) -> Outcome {
    guarded(|| {
        // SAFETY: the pointer is null or points to a structure of the same version.
        let Some(new) = (unsafe { receiver.as_ref() }) else {
            return Outcome::INVALID_PARAMETER;
        };
        tools::observe_calls_with(callbacks::OBSERVER);
        let mut known = RECEIVER.write();
        match *known {
            Some(old) if !std::ptr::fn_addr_eq(old.record, new.record) => {
                Outcome::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
            }
            _ => {
                *known = Some(*new);
                Outcome::SUCCESS
            }
        }
    })
}

extern "C" fn detach() {
    guarded(|| {
        callbacks::clear();
        recorder().stop();
        recorder().set_clock(None);
        recorder().set_threads(Some(thread_number));
        *RECEIVER.write() = None;
        adjust();
        Outcome::SUCCESS
    });
}

extern "C" fn set_kind(kind: u32, on: u32) -> Outcome {
    guarded(|| {
        let Some(kind) = Kind::of_number(kind) else {
            return Outcome::NOT_SUPPORTED;
        };
        recorder().set_kind(kind, on != 0);
        adjust();
        match kind {
            Kind::Device => announce_devices(),
            Kind::Context => announce_contexts(),
            _ => {}
        }
        Outcome::SUCCESS
    })
}

extern "C" fn set_call(number: u32, on: u32) -> Outcome {
    guarded(|| {
        if !recorder().set_call(number, on != 0) {
            return Outcome::INVALID_PARAMETER;
        }
        adjust();
        Outcome::SUCCESS
    })
}

extern "C" fn set_callback(domain: u32, number: u32, on: u32) -> Outcome {
    guarded(|| {
        let outcome = callbacks::set(domain, number, on != 0);
        adjust();
        outcome
    })
}

extern "C" fn get_callback(domain: u32, number: u32, on: *mut u32) -> Outcome {
    guarded(|| {
        // SAFETY: the pointer is null or points to a variable.
        match (callbacks::get(domain, number), unsafe { on.as_mut() }) {
            (Some(found), Some(on)) => {
                *on = found.into();
                Outcome::SUCCESS
            }
            _ => Outcome::INVALID_PARAMETER,
        }
    })
}

extern "C" fn set_system_threads(on: u32) {
    let threads = (on == 0).then_some(thread_number as fn() -> u32);
    recorder().set_threads(threads);
}

extern "C" fn set_clock(clock: Option<extern "C" fn() -> u64>) {
    recorder().set_clock(clock);
}

extern "C" fn now() -> u64 {
    recorder().now()
}

extern "C" fn thread() -> u32 {
    recorder().thread()
}

extern "C" fn push(kind: u32, id: u64) -> Outcome {
    guarded(|| {
        recorder().push_external(kind, id);
        Outcome::SUCCESS
    })
}

extern "C" fn pop(kind: u32, id: *mut u64) -> Outcome {
    guarded(|| {
        let Some(popped) = recorder().pop_external(kind) else {
            return Outcome::QUEUE_EMPTY;
        };
        // SAFETY: the pointer is null or points to a variable.
        if let Some(id) = unsafe { id.as_mut() } {
            *id = popped;
        }
        Outcome::SUCCESS
    })
}

extern "C" fn object(object: u32, handle: usize, context: usize, number: *mut u64) -> Outcome {
    guarded(|| {
        // SAFETY: the pointer is null or points to a variable.
        let Some(number) = (unsafe { number.as_mut() }) else {
            return Outcome::INVALID_PARAMETER;
        };
        match number_of(object, handle, context) {
            Ok(found) => {
                *number = found;
                Outcome::SUCCESS
            }
            Err(outcome) => outcome,
        }
    })
}

static LEGACY: Call = Call::new("cuptiGetStreamId", DefaultStream::Legacy);
static PER_THREAD: Call = Call::new("cuptiGetStreamIdEx", DefaultStream::PerThread);

fn context_of(handle: usize) -> Result<margay::Context, Outcome> {
    // SAFETY: the conversion only looks the handle up.
    let found = unsafe { ContextOrCurrent::from_abi(CUcontext(handle), &LEGACY) };
    found
        .map(|found| found.0)
        .map_err(|_| Outcome::INVALID_CONTEXT)
}

/// Returns the number of a stream. A default stream is that of the given context, or of the current context.
fn stream_number(handle: usize, context: usize, call: &Call) -> Result<u64, Outcome> {
    let legacy = match handle {
        0 => call.default_stream == DefaultStream::Legacy,
        1 => true,
        2 => false,
        _ => {
            let found = stream(CUstream(handle), call).map_err(|_| Outcome::INVALID_STREAM)?;
            if let Some(object) = contexts().get(context)
                && found.context() != &object.context
            {
                return Err(Outcome::INVALID_STREAM);
            }
            return Ok(found.id());
        }
    };
    let context = match context {
        0 => current().map_err(|_| Outcome::INVALID_CONTEXT)?,
        _ => context_of(context)?,
    };
    Ok(match legacy {
        true => context.legacy_stream().id(),
        false => context.per_thread_stream().id(),
    })
}

fn number_of(object: u32, handle: usize, context: usize) -> Result<u64, Outcome> {
    let unknown = |_| Outcome::INVALID_PARAMETER;
    Ok(match object {
        _ if object == Object::Context as u32 => context_of(handle)?.id(),
        _ if object == Object::Device as u32 => context_of(handle)?.device().ordinal() as u64,
        _ if object == Object::Stream as u32 => stream_number(handle, context, &LEGACY)?,
        _ if object == Object::ThreadStream as u32 => stream_number(handle, context, &PER_THREAD)?,
        _ if object == Object::Graph as u32 => graph(CUgraph(handle)).map_err(unknown)?.id(),
        _ if object == Object::GraphExec as u32 => {
            let found = graph_execs().get(handle);
            found.ok_or(Outcome::INVALID_PARAMETER)?.id()
        }
        _ if object == Object::Node as u32 => node(CUgraphNode(handle)).map_err(unknown)?.id(),
        _ if object == Object::Event as u32 => {
            let found = events().get(handle);
            found.ok_or(Outcome::INVALID_PARAMETER)?.id()
        }
        _ => return Err(Outcome::INVALID_PARAMETER),
    })
}

extern "C" fn want_annotations() {
    records::want_annotations();
}
