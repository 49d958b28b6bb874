//! Receives the annotations that a program makes through NVTX, and passes them to tools.
//!
//! The client of NVTX that a program contains finds this library in one of two ways: by the environment variable
//! `NVTX_INJECTION64_PATH`, which leads to [`InitializeInjectionNvtx2`], or, newer ones, by the exported function
//! [`cuNvtxGetInjectionInitializer`]. The client then asks for functions, which this module stores in its tables. If no
//! tool wants annotations, the initialisation reports failure, and the client calls nothing.
//!
//! Source: the headers of NVTX 3 (`nvtxDetail/nvtxInit.h`, `nvtxTypes.h`).

#![allow(
    non_snake_case,
    reason = "the client looks for functions with these names"
)]

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use margay::observe::{Annotation, AnnotationKind, AnnotationPayload, HostEvent, Named};
use margay_timeline::nvtx::{Attributes, Colour, Message, Module, Payload, Registry};
use margay_timeline::{text_of_bytes, text_of_wide};

use crate::guard::{Call, DefaultStream};
use crate::{readable, tools};

/// What the program has named.
static REGISTRY: LazyLock<Registry> = LazyLock::new(Registry::default);

/// The function of the client that returns its tables by number.
type GetTable = Option<unsafe extern "C" fn(c_uint) -> *const c_void>;

/// A function without its type.
type Pointer = *const c_void;

/// The table with number 1 of a client.
#[repr(C)]
struct Callbacks {
    size: usize,
    /// Returns the table of a module: pointers to the variables that contain the functions, and their number.
    module: Option<unsafe extern "C" fn(c_uint, *mut *mut *mut Pointer, *mut c_uint) -> c_int>,
}

/// The number of [`Callbacks`] for [`GetTable`].
const CALLBACKS: c_uint = 1;

/// Stores this library's functions in the tables of a client. Returns 1, or 0 if no tool wants annotations or the client
/// has another interface.
///
/// # Safety
/// `get` is the function of an NVTX client that its interface describes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtx2(get: GetTable) -> c_int {
    let wanted = catch_unwind(tools::want_annotations).unwrap_or(false);
    let Some(get) = get.filter(|_| wanted) else {
        return 0;
    };
    // SAFETY: the caller guarantees the function.
    let callbacks = unsafe { get(CALLBACKS) }.cast::<Callbacks>();
    if callbacks.is_null() {
        return 0;
    }
    // SAFETY: a table begins with its size.
    let size = unsafe { callbacks.cast::<usize>().read() };
    if size < size_of::<Callbacks>() {
        return 0;
    }
    // SAFETY: the table has at least the size of the structure.
    let Some(module) = (unsafe { (*callbacks).module }) else {
        return 0;
    };
    for kind in [Module::Core, Module::Cuda, Module::Core2] {
        let (mut table, mut count) = (std::ptr::null_mut(), 0);
        // SAFETY: the client's function writes the two variables.
        let known = unsafe { module(kind as c_uint, &raw mut table, &raw mut count) };
        if known == 0 || table.is_null() {
            continue;
        }
        for (name, function) in functions(kind) {
            let slot = kind.slot(name).filter(|&slot| slot < count as usize);
            if let Some(slot) = slot {
                // SAFETY: the table has `count` elements.
                let variable = unsafe { table.add(slot).read() };
                if !variable.is_null() {
                    // SAFETY: an element that is not null is the address of a variable of the client.
                    unsafe { variable.write(*function) };
                }
            }
        }
    }
    1
}

/// Returns the initialiser for a kind of NVTX client: 1 for the core interface. Returns 0 for success.
///
/// # Safety
/// `function` is null or points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuNvtxGetInjectionInitializer(
    kind: c_uint,
    function: *mut Pointer,
) -> c_int {
    const CORE: c_uint = 1;
    const INVALID_VALUE: c_int = 1;
    // SAFETY: the caller guarantees the pointer.
    match unsafe { function.as_mut() } {
        Some(function) if kind == CORE => {
            *function = InitializeInjectionNvtx2 as Pointer;
            0
        }
        Some(function) => {
            *function = std::ptr::null();
            INVALID_VALUE
        }
        None => INVALID_VALUE,
    }
}

/// A table of functions by their names in NVTX.
macro_rules! table {
    ($($name:literal => $function:path),* $(,)?) => {
        {
            static TABLE: Table = Table(&[$(($name, $function as Pointer)),*]);
            TABLE.0
        }
    };
}

struct Table(&'static [(&'static str, Pointer)]);

// SAFETY: the pointers are addresses of functions.
unsafe impl Sync for Table {}

fn functions(module: Module) -> &'static [(&'static str, Pointer)] {
    match module {
        Module::Core => table! {
            "nvtxMarkEx" => mark_ex,
            "nvtxMarkA" => mark_a,
            "nvtxMarkW" => mark_w,
            "nvtxRangeStartEx" => start_ex,
            "nvtxRangeStartA" => start_a,
            "nvtxRangeStartW" => start_w,
            "nvtxRangeEnd" => end,
            "nvtxRangePushEx" => push_ex,
            "nvtxRangePushA" => push_a,
            "nvtxRangePushW" => push_w,
            "nvtxRangePop" => pop,
            "nvtxNameCategoryA" => name_category_a,
            "nvtxNameCategoryW" => name_category_w,
            "nvtxNameOsThreadA" => name_thread_a,
            "nvtxNameOsThreadW" => name_thread_w,
        },
        Module::Cuda => table! {
            "nvtxNameCuStreamA" => name_stream_a,
            "nvtxNameCuStreamW" => name_stream_w,
        },
        Module::Core2 => table! {
            "nvtxDomainMarkEx" => domain_mark_ex,
            "nvtxDomainRangeStartEx" => domain_start_ex,
            "nvtxDomainRangeEnd" => domain_end,
            "nvtxDomainRangePushEx" => domain_push_ex,
            "nvtxDomainRangePop" => domain_pop,
            "nvtxDomainNameCategoryA" => domain_name_category_a,
            "nvtxDomainNameCategoryW" => domain_name_category_w,
            "nvtxDomainRegisterStringA" => register_string_a,
            "nvtxDomainRegisterStringW" => register_string_w,
            "nvtxDomainCreateA" => create_domain_a,
            "nvtxDomainCreateW" => create_domain_w,
        },
        Module::CudaRuntime => &[],
    }
}

/// The text of an annotation, and what belongs to it.
#[derive(Default)]
struct Details {
    text: String,
    category: u32,
    colour: Option<u32>,
    payload: Option<AnnotationPayload>,
}

impl Details {
    fn of_text(text: String) -> Details {
        Details {
            text,
            ..Details::default()
        }
    }
}

/// Copies a text that ends with 0; the empty text if it is not readable.
fn narrow(text: *const c_char) -> String {
    // SAFETY: the bytes are copied at once, and the program does not change them during the call.
    let bytes = unsafe { readable::until_zero(text.cast()) };
    bytes.map_or_else(|_| String::new(), |bytes| text_of_bytes(bytes).into_owned())
}

/// Copies a text of 32-bit characters that ends with 0.
fn wide(text: *const u32) -> String {
    const MOST: usize = 1 << 16;
    let mut units = Vec::new();
    let mut address = text.cast::<u8>();
    while units.len() < MOST {
        // SAFETY: as for `narrow`.
        match unsafe { readable::array::<4>(address) } {
            Ok(unit) if unit != [0; 4] => units.push(u32::from_le_bytes(unit)),
            _ => break,
        }
        address = address.wrapping_add(4);
    }
    text_of_wide(&units)
}

/// Copies the attributes of an annotation.
fn details(attributes: *const u8) -> Details {
    // SAFETY: as for `narrow`.
    let bytes = unsafe { readable::array::<{ Attributes::SIZE }>(attributes) };
    let decoded = bytes.ok().and_then(|bytes| Attributes::decode(&bytes).ok());
    let Some(decoded) = decoded else {
        return Details::default();
    };
    Details {
        text: match decoded.message {
            Message::Bytes(address) => narrow(address as *const c_char),
            Message::Wide(address) => wide(address as *const u32),
            Message::Registered(handle) => REGISTRY
                .string(handle)
                .map_or_else(String::new, |text| text.to_string()),
            _ => String::new(),
        },
        category: decoded.category,
        colour: match decoded.colour {
            Colour::Argb(colour) => Some(colour),
            _ => None,
        },
        payload: match decoded.payload {
            Payload::Uint(value) => Some(AnnotationPayload::Unsigned(value)),
            Payload::Int(value) => Some(AnnotationPayload::Signed(value)),
            Payload::Float(value) => Some(AnnotationPayload::Float(value)),
            _ => None,
        },
    }
}

/// Passes an annotation to the tools.
fn tell(kind: AnnotationKind, domain: u64, range: u64, details: &Details) {
    let name = REGISTRY.domain(domain);
    let category = REGISTRY.category(domain, details.category);
    let mut annotation = Annotation::new(kind, &details.text);
    annotation.range = range;
    annotation.domain = if domain == 0 { "" } else { &name };
    annotation.category = details.category;
    annotation.category_name = category.as_deref();
    annotation.colour = details.colour;
    annotation.payload = details.payload;
    tools::tell(&HostEvent::Annotate(annotation));
}

/// Runs the body of a function that the program calls. A panic does not reach the program.
fn guarded<T: Default>(body: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(panic) => {
            std::mem::forget(panic);
            T::default()
        }
    }
}

thread_local! {
    /// For each domain, the number of ranges that the thread has pushed and not popped.
    static LEVELS: RefCell<Vec<(u64, c_int)>> = const { RefCell::new(Vec::new()) };
}

/// The result of a function for ranges that nest if there is no level.
const NO_LEVEL: c_int = -1;

/// Changes the number of pushed ranges of a domain. Returns the number before a push, or after a pop.
fn level(domain: u64, change: c_int) -> c_int {
    let changed = LEVELS.try_with(|levels| {
        let mut levels = levels.borrow_mut();
        let index = levels
            .iter()
            .position(|(of, _)| *of == domain)
            .unwrap_or_else(|| {
                levels.push((domain, 0));
                levels.len() - 1
            });
        let level = &mut levels[index].1;
        let before = *level;
        if before + change < 0 {
            return NO_LEVEL;
        }
        *level += change;
        before.min(*level)
    });
    changed.unwrap_or(NO_LEVEL)
}

fn mark(domain: u64, details: &Details) {
    tell(AnnotationKind::Mark, domain, 0, details);
}

fn start(domain: u64, details: &Details) -> u64 {
    let range = REGISTRY.start_range(domain, &details.text);
    tell(AnnotationKind::Start, domain, range, details);
    range
}

fn push(domain: u64, details: &Details) -> c_int {
    tell(AnnotationKind::Push, domain, 0, details);
    level(domain, 1)
}

fn pop_in(domain: u64) -> c_int {
    let level = level(domain, -1);
    if level != NO_LEVEL {
        tell(AnnotationKind::Pop, domain, 0, &Details::default());
    }
    level
}

fn end_range(domain: u64, range: u64) {
    if let Some(open) = REGISTRY.end_range(range) {
        let details = Details::of_text(open.name.to_string());
        tell(AnnotationKind::End, domain, range, &details);
    }
}

extern "C" fn mark_ex(attributes: *const u8) {
    guarded(|| mark(0, &details(attributes)));
}

extern "C" fn mark_a(text: *const c_char) {
    guarded(|| mark(0, &Details::of_text(narrow(text))));
}

extern "C" fn mark_w(text: *const u32) {
    guarded(|| mark(0, &Details::of_text(wide(text))));
}

extern "C" fn start_ex(attributes: *const u8) -> u64 {
    guarded(|| start(0, &details(attributes)))
}

extern "C" fn start_a(text: *const c_char) -> u64 {
    guarded(|| start(0, &Details::of_text(narrow(text))))
}

extern "C" fn start_w(text: *const u32) -> u64 {
    guarded(|| start(0, &Details::of_text(wide(text))))
}

extern "C" fn end(range: u64) {
    guarded(|| end_range(0, range));
}

extern "C" fn push_ex(attributes: *const u8) -> c_int {
    guarded(|| push(0, &details(attributes)))
}

extern "C" fn push_a(text: *const c_char) -> c_int {
    guarded(|| push(0, &Details::of_text(narrow(text))))
}

extern "C" fn push_w(text: *const u32) -> c_int {
    guarded(|| push(0, &Details::of_text(wide(text))))
}

extern "C" fn pop() -> c_int {
    guarded(|| pop_in(0))
}

extern "C" fn name_category_a(category: c_uint, name: *const c_char) {
    guarded(|| REGISTRY.name_category(0, category, &narrow(name)));
}

extern "C" fn name_category_w(category: c_uint, name: *const u32) {
    guarded(|| REGISTRY.name_category(0, category, &wide(name)));
}

fn name(object: Named, name: &str) {
    tools::tell(&HostEvent::Name { object, name });
}

extern "C" fn name_thread_a(thread: c_uint, text: *const c_char) {
    guarded(|| name(Named::Thread(thread.into()), &narrow(text)));
}

extern "C" fn name_thread_w(thread: c_uint, text: *const u32) {
    guarded(|| name(Named::Thread(thread.into()), &wide(text)));
}

/// Returns the ID of a stream; `None` if the handle denotes none.
fn stream_id(stream: crate::types::CUstream) -> Option<u64> {
    static CALL: Call = Call::new("nvtxNameCuStream", DefaultStream::Legacy);
    crate::handles::stream(stream, &CALL)
        .ok()
        .map(|stream| stream.id())
}

extern "C" fn name_stream_a(stream: crate::types::CUstream, text: *const c_char) {
    guarded(|| {
        if let Some(id) = stream_id(stream) {
            name(Named::Stream(id), &narrow(text));
        }
    });
}

extern "C" fn name_stream_w(stream: crate::types::CUstream, text: *const u32) {
    guarded(|| {
        if let Some(id) = stream_id(stream) {
            name(Named::Stream(id), &wide(text));
        }
    });
}

extern "C" fn domain_mark_ex(domain: u64, attributes: *const u8) {
    guarded(|| mark(domain, &details(attributes)));
}

extern "C" fn domain_start_ex(domain: u64, attributes: *const u8) -> u64 {
    guarded(|| start(domain, &details(attributes)))
}

extern "C" fn domain_end(domain: u64, range: u64) {
    guarded(|| end_range(domain, range));
}

extern "C" fn domain_push_ex(domain: u64, attributes: *const u8) -> c_int {
    guarded(|| push(domain, &details(attributes)))
}

extern "C" fn domain_pop(domain: u64) -> c_int {
    guarded(|| pop_in(domain))
}

extern "C" fn domain_name_category_a(domain: u64, category: c_uint, name: *const c_char) {
    guarded(|| REGISTRY.name_category(domain, category, &narrow(name)));
}

extern "C" fn domain_name_category_w(domain: u64, category: c_uint, name: *const u32) {
    guarded(|| REGISTRY.name_category(domain, category, &wide(name)));
}

extern "C" fn register_string_a(_domain: u64, text: *const c_char) -> u64 {
    guarded(|| REGISTRY.register_string(&narrow(text)))
}

extern "C" fn register_string_w(_domain: u64, text: *const u32) -> u64 {
    guarded(|| REGISTRY.register_string(&wide(text)))
}

extern "C" fn create_domain_a(name: *const c_char) -> u64 {
    guarded(|| REGISTRY.create_domain(&narrow(name)))
}

extern "C" fn create_domain_w(name: *const u32) -> u64 {
    guarded(|| REGISTRY.create_domain(&wide(name)))
}
