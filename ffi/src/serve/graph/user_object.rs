//! Implements the entry points for user objects: objects of the program that exist as long as the
//! program or a graph has references to them.

use std::ffi::{c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use margay::graph::{Graph, UserObject};

use crate::callback;
use crate::convert::Out;
use crate::guard::Call;
use crate::handles::user_objects;
use crate::result::{CuResult, Served};
use crate::types::{CUhostFn, CUuserObject};

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`.
const NO_DESTRUCTOR_SYNC: c_uint = 1;
/// `CU_GRAPH_USER_OBJECT_MOVE`.
const MOVE: c_uint = 1;

/// Returns `number`, a count of references, if it is between 1 and `INT_MAX`, and `INVALID_VALUE`
/// otherwise.
fn count(number: c_uint) -> Result<u32, CuResult> {
    match number {
        1..=0x7fff_ffff => Ok(number),
        _ => Err(CuResult::INVALID_VALUE),
    }
}

/// The pointer to the program's object. It is passed to the thread that calls the destructor.
struct Object(*mut c_void);

// SAFETY: the driver API passes the pointer to the destructor's thread; the caller is responsible for the memory that
// it points to.
unsafe impl Send for Object {}

impl Object {
    /// Returns the pointer. A closure that calls this method captures the whole value, which is `Send`, and not only
    /// the pointer.
    fn pointer(&self) -> *mut c_void {
        self.0
    }
}

pub(crate) fn user_object_create(
    _: &Call,
    out: Out<CUuserObject>,
    pointer: *mut c_void,
    destroy: CUhostFn,
    references: c_uint,
    flags: c_uint,
) -> Served {
    let destroy = destroy.ok_or(CuResult::INVALID_VALUE)?;
    if flags != NO_DESTRUCTOR_SYNC {
        return Err(CuResult::INVALID_VALUE);
    }
    let handle = Arc::new(AtomicUsize::new(0));
    let (own, object) = (Arc::clone(&handle), Object(pointer));
    let body = move || {
        user_objects().remove(own.load(Ordering::Acquire));
        // SAFETY: the caller passed a function of this type together with its data.
        unsafe { callback::with_pointer(destroy, object.pointer()) };
    };
    let object = UserObject::new(Box::new(body), count(references)?)?;
    let number = user_objects().insert(object);
    let number = number.ok_or(CuResult::OUT_OF_MEMORY)?;
    handle.store(number, Ordering::Release);
    out.set(CUuserObject(number));
    Ok(())
}

pub(crate) fn user_object_retain(_: &Call, object: UserObject, number: c_uint) -> Served {
    Ok(object.retain(count(number)?)?)
}

pub(crate) fn user_object_release(_: &Call, object: UserObject, number: c_uint) -> Served {
    object.release(count(number)?)?;
    Ok(())
}

pub(crate) fn graph_retain_user_object(
    _: &Call,
    graph: Graph,
    object: UserObject,
    number: c_uint,
    flags: c_uint,
) -> Served {
    let number = count(number)?;
    match flags {
        MOVE if object.is_gone() => return Err(CuResult::INVALID_VALUE),
        MOVE => {}
        0 => object.retain(number)?,
        _ => return Err(CuResult::INVALID_VALUE),
    }
    graph.retain_object(&object, number);
    Ok(())
}

pub(crate) fn graph_release_user_object(
    _: &Call,
    graph: Graph,
    object: UserObject,
    number: c_uint,
) -> Served {
    Ok(graph.release_object(&object, count(number)?)?)
}
