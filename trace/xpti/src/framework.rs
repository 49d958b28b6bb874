//! The C interface of the framework library: the only module with `unsafe` code.
//!
//! Events belong to the framework. This module distinguishes events that stay valid until the process ends ([`Event`])
//! from those that the producer releases ([`OwnedEvent`]), so that safe code cannot use a released event:
//! [`Framework::release`] takes the only value that names it.
//!
//! The functions must not be called after [`Framework::finalize`]; [`crate::flights`] ensures this.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::mem::transmute_copy;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::abi::{self, EventType, FunctionWithArgs, MemAlloc, ObjectType, Payload};

/// The loaded library. It is never unloaded, because threads of subscribers may run its code.
pub(crate) struct Framework {
    initialize: unsafe extern "C" fn(),
    finalize: unsafe extern "C" fn(),
    initialize_stream: unsafe extern "C" fn(*const c_char, u32, u32, *const c_char) -> i32,
    finalize_stream: unsafe extern "C" fn(*const c_char),
    register_stream: unsafe extern "C" fn(*const c_char) -> u8,
    trace_enabled: unsafe extern "C" fn() -> bool,
    check_enabled: unsafe extern "C" fn(u8, u16) -> bool,
    make_event: MakeEvent,
    release_event: unsafe extern "C" fn(*mut c_void),
    notify: Notify,
    register_object: unsafe extern "C" fn(*const c_char, usize, u8) -> i32,
    add_metadata: unsafe extern "C" fn(*mut c_void, *const c_char, i32) -> i32,
    unique_id: unsafe extern "C" fn() -> u64,
    set_universal_id: unsafe extern "C" fn(u64),
    universal_id: unsafe extern "C" fn() -> u64,
}

type MakeEvent =
    unsafe extern "C" fn(*const c_char, *mut Payload, u16, i32, *mut u64) -> *mut c_void;
type Notify = unsafe extern "C" fn(u8, u16, *mut c_void, *mut c_void, u64, *const c_void) -> i32;

/// An event that stays valid until the process ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Event(NonNull<c_void>);

/// An event that the producer may release.
#[derive(Debug)]
pub(crate) struct OwnedEvent(NonNull<c_void>);

/// A valid event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventRef<'a>(NonNull<c_void>, PhantomData<&'a ()>);

// SAFETY: the framework accepts its events on every thread.
unsafe impl Send for Event {}
// SAFETY: the framework accepts its events on every thread.
unsafe impl Sync for Event {}
// SAFETY: the framework accepts its events on every thread.
unsafe impl Send for OwnedEvent {}
// SAFETY: the framework accepts its events on every thread.
unsafe impl Sync for OwnedEvent {}

impl Event {
    pub(crate) fn handle(&self) -> EventRef<'_> {
        EventRef(self.0, PhantomData)
    }
}

impl OwnedEvent {
    pub(crate) fn handle(&self) -> EventRef<'_> {
        EventRef(self.0, PhantomData)
    }
}

impl EventRef<'_> {
    /// Returns the event's unique ID.
    pub(crate) fn unique_id(self) -> u64 {
        self.word(abi::event::UNIQUE_ID).load(Relaxed)
    }

    /// Makes the event an edge between two events.
    pub(crate) fn set_edge(self, source: u64, target: u64) {
        self.word(abi::event::SOURCE_ID).store(source, Relaxed);
        self.word(abi::event::TARGET_ID).store(target, Relaxed);
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: every release's event is larger than the offsets in `abi::event`.
        let word = unsafe { self.0.as_ptr().byte_add(offset) };
        // SAFETY: the event is valid and aligned to 8 bytes, and so is the word. The threads of this process access it
        // only through this function.
        unsafe { AtomicU64::from_ptr(word.cast()) }
    }
}

/// The address of a call's arguments, which subscribers receive.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a>(*const c_void, PhantomData<&'a ()>);

impl Arguments<'_> {
    /// No arguments: a null pointer.
    pub const NONE: Arguments<'static> = Arguments(ptr::null(), PhantomData);
}

impl<'a> Arguments<'a> {
    /// Returns the arguments in a structure that consists of these words. Without words, there are no arguments.
    pub fn of_words(words: &'a [u64]) -> Arguments<'a> {
        match words.is_empty() {
            true => Arguments::NONE,
            false => Arguments(words.as_ptr().cast(), PhantomData),
        }
    }
}

impl<'a, T> From<&'a T> for Arguments<'a> {
    fn from(structure: &'a T) -> Self {
        Arguments(ptr::from_ref(structure).cast(), PhantomData)
    }
}

/// A driver call, for the user data of its two notifications.
#[derive(Clone, Copy)]
pub(crate) struct CallData<'a> {
    pub(crate) number: u32,
    pub(crate) name: &'a CStr,
    pub(crate) arguments: Arguments<'a>,
    /// The `CUresult`, at the end of the call.
    pub(crate) result: Option<&'a u32>,
}

/// The user data of a notification.
#[derive(Clone, Copy)]
pub(crate) enum User<'a> {
    None,
    Text(&'a CStr),
    Call(CallData<'a>),
    Memory { address: u64, bytes: u64 },
}

/// What identifies an event for the framework.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) name: &'static CStr,
    pub(crate) file: &'static CStr,
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) kind: EventType,
}

/// One notification.
#[derive(Clone, Copy)]
pub(crate) struct Notification<'a> {
    pub(crate) point: u16,
    pub(crate) parent: Option<EventRef<'a>>,
    pub(crate) event: Option<EventRef<'a>>,
    pub(crate) instance: u64,
    pub(crate) user: User<'a>,
}

impl Framework {
    /// Loads the library at `path`. The error names the library or the function that is missing.
    pub(crate) fn load(path: &CStr) -> Result<Framework, String> {
        // SAFETY: the path is a C string. The user chose the library, and its initialisers run as those of any library.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let library = NonNull::new(library).ok_or_else(loader_error)?;
        let framework = Functions { library, path };
        // SAFETY: each field has the type of the C function that it is named after (see the crate's documentation).
        unsafe {
            Ok(Framework {
                initialize: framework.get(c"xptiFrameworkInitialize")?,
                finalize: framework.get(c"xptiFrameworkFinalize")?,
                initialize_stream: framework.get(c"xptiInitialize")?,
                finalize_stream: framework.get(c"xptiFinalize")?,
                register_stream: framework.get(c"xptiRegisterStream")?,
                trace_enabled: framework.get(c"xptiTraceEnabled")?,
                check_enabled: framework.get(c"xptiCheckTraceEnabled")?,
                make_event: framework.get(c"xptiMakeEvent")?,
                release_event: framework.get(c"xptiReleaseEvent")?,
                notify: framework.get(c"xptiNotifySubscribers")?,
                register_object: framework.get(c"xptiRegisterObject")?,
                add_metadata: framework.get(c"xptiAddMetadata")?,
                unique_id: framework.get(c"xptiGetUniqueId")?,
                set_universal_id: framework.get(c"xptiSetUniversalId")?,
                universal_id: framework.get(c"xptiGetUniversalId")?,
            })
        }
    }

    /// Loads the subscribers.
    pub(crate) fn initialize(&self) {
        // SAFETY: the function has no arguments.
        unsafe { (self.initialize)() }
    }

    /// Unloads the subscribers.
    pub(crate) fn finalize(&self) {
        // SAFETY: the function has no arguments.
        unsafe { (self.finalize)() }
    }

    /// Announces a stream to each subscriber.
    pub(crate) fn initialize_stream(&self, name: &CStr, version: (u32, u32), text: &CStr) {
        // SAFETY: both texts are C strings.
        unsafe {
            (self.initialize_stream)(name.as_ptr(), version.0, version.1, text.as_ptr());
        }
    }

    /// Announces the end of a stream to each subscriber.
    pub(crate) fn finalize_stream(&self, name: &CStr) {
        // SAFETY: the name is a C string.
        unsafe { (self.finalize_stream)(name.as_ptr()) }
    }

    /// Returns the ID of the stream `name`.
    pub(crate) fn register_stream(&self, name: &CStr) -> u8 {
        // SAFETY: the name is a C string.
        unsafe { (self.register_stream)(name.as_ptr()) }
    }

    /// Tells whether tracing is on and a subscriber is loaded.
    pub(crate) fn trace_enabled(&self) -> bool {
        // SAFETY: the function has no arguments.
        unsafe { (self.trace_enabled)() }
    }

    /// Tells whether a subscriber has registered for `point` on `stream`.
    pub(crate) fn check_enabled(&self, stream: u8, point: u16) -> bool {
        // SAFETY: the function accepts all numbers.
        unsafe { (self.check_enabled)(stream, point) }
    }

    /// Creates the first event of a site, which is never released. Returns the event and its instance number.
    pub(crate) fn make_first(&self, identity: &Identity) -> Option<(Event, u64)> {
        let (event, instance) = self.make(identity)?;
        Some((Event(event), instance))
    }

    /// Creates an event of a site whose first event is `first`. Returns the instance number, and the event if it is a
    /// new one: depending on its release, the framework returns `first` again.
    pub(crate) fn make_again(
        &self,
        identity: &Identity,
        first: Event,
    ) -> Option<(Option<OwnedEvent>, u64)> {
        let (event, instance) = self.make(identity)?;
        Some(((event != first.0).then_some(OwnedEvent(event)), instance))
    }

    fn make(&self, identity: &Identity) -> Option<(NonNull<c_void>, u64)> {
        let mut payload = Payload {
            name: identity.name.as_ptr(),
            stack_trace: ptr::null(),
            source_file: identity.file.as_ptr(),
            line: identity.line,
            column: identity.column,
            code: ptr::null(),
            internal: 0,
            flags: abi::PAYLOAD_FLAGS,
            uid: [0; 3],
            padding: [0; 22],
        };
        let mut instance = 0;
        let name = identity.name.as_ptr();
        // SAFETY: the framework copies the payload, which is larger than every release's structure. The name and the
        // file are C strings that are never freed.
        let event = unsafe {
            (self.make_event)(
                name,
                &raw mut payload,
                identity.kind as u16,
                abi::ACTIVE,
                &raw mut instance,
            )
        };
        Some((NonNull::new(event)?, instance))
    }

    /// Tells the framework that the event is not used any more.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the event is not valid afterwards"
    )]
    pub(crate) fn release(&self, event: OwnedEvent) {
        // SAFETY: no other value names the event: `make_again` returns each new event once, and references have ended.
        unsafe { (self.release_event)(event.0.as_ptr()) }
    }

    /// Calls the callbacks that are registered for the notification's trace point on `stream`.
    pub(crate) fn notify(&self, stream: u8, notification: &Notification<'_>) {
        match notification.user {
            User::None => self.send(stream, notification, ptr::null()),
            User::Text(text) => self.send(stream, notification, text.as_ptr().cast()),
            User::Call(call) => {
                let data = FunctionWithArgs {
                    function: call.number,
                    name: call.name.as_ptr(),
                    args: call.arguments.0,
                    ret: call.result.map_or(ptr::null(), ptr::from_ref).cast(),
                    user: ptr::null(),
                };
                self.send(stream, notification, (&raw const data).cast());
            }
            User::Memory { address, bytes } => {
                let data = MemAlloc {
                    object: 0,
                    pointer: address as usize,
                    size: bytes as usize,
                    guard_size: 0,
                    reserved: ptr::null(),
                };
                self.send(stream, notification, (&raw const data).cast());
            }
        }
    }

    fn send(&self, stream: u8, notification: &Notification<'_>, user: *const c_void) {
        let pointer =
            |event: Option<EventRef<'_>>| event.map_or(ptr::null_mut(), |event| event.0.as_ptr());
        // SAFETY: the events are valid, and the user data has the type that belongs to the trace point.
        unsafe {
            (self.notify)(
                stream,
                notification.point,
                pointer(notification.parent),
                pointer(notification.event),
                notification.instance,
                user,
            );
        }
    }

    /// Copies a value into the framework's table. Returns its ID.
    pub(crate) fn register_object(&self, bytes: &[u8], kind: ObjectType) -> Option<i32> {
        // SAFETY: the address and the size are those of the slice.
        let id = unsafe { (self.register_object)(bytes.as_ptr().cast(), bytes.len(), kind as u8) };
        (id >= 0).then_some(id)
    }

    /// Adds the value `object` to an event. An event keeps the first value of a key.
    pub(crate) fn add_metadata(&self, event: EventRef<'_>, key: &CStr, object: i32) {
        // SAFETY: the event is valid and the key is a C string.
        unsafe {
            (self.add_metadata)(event.0.as_ptr(), key.as_ptr(), object);
        }
    }

    /// Returns a number that is unique in this process.
    pub(crate) fn unique_id(&self) -> u64 {
        // SAFETY: the function has no arguments.
        unsafe { (self.unique_id)() }
    }

    /// Sets the universal ID of the calling thread.
    pub(crate) fn set_universal_id(&self, id: u64) {
        // SAFETY: the function accepts all numbers.
        unsafe { (self.set_universal_id)(id) }
    }

    /// Returns the universal ID of the calling thread.
    pub(crate) fn universal_id(&self) -> u64 {
        // SAFETY: the function has no arguments.
        unsafe { (self.universal_id)() }
    }
}

/// The functions of a loaded library.
struct Functions<'a> {
    library: NonNull<c_void>,
    path: &'a CStr,
}

impl Functions<'_> {
    /// # Safety
    /// `F` must be the type of the C function `name`.
    unsafe fn get<F: Copy>(&self, name: &CStr) -> Result<F, String> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the handle belongs to a loaded library, and the name is a C string.
        let address = unsafe { libc::dlsym(self.library.as_ptr(), name.as_ptr()) };
        if address.is_null() {
            let [path, name] = [self.path, name].map(CStr::to_string_lossy);
            return Err(format!("{path} has no function {name}"));
        }
        // SAFETY: the caller guarantees the type.
        Ok(unsafe { transmute_copy(&address) })
    }
}

/// Returns the dynamic linker's message about the last failure on this thread.
fn loader_error() -> String {
    // SAFETY: the function has no arguments.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the framework library does not load".to_owned();
    }
    // SAFETY: the message is a C string, which is valid until this thread's next call of the dynamic linker.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// Makes the system call `function` in each child that this process forks. The function may only store to atomics.
pub(crate) fn call_in_forked_children(function: extern "C" fn()) {
    // SAFETY: the function is valid as long as this library is loaded: glibc forgets it when the library is unloaded.
    // If the registration fails, there is not enough memory, and children are not protected.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(function)) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flights::{Flights, end_in_child};

    #[test]
    fn a_forked_child_does_not_enter() {
        call_in_forked_children(end_in_child);
        let flights = Flights::default();
        // SAFETY: the child calls only functions that are safe after a fork.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let entered = flights.enter().is_some() || flights.is_open();
            // SAFETY: the function has no preconditions.
            unsafe { libc::_exit(i32::from(entered)) };
        }
        let mut status = -1;
        // SAFETY: the status is valid during the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        assert!(flights.enter().is_some());
    }
}
