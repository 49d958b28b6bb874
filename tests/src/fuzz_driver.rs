//! The fuzz target for sequences of driver calls.
//!
//! An input describes a sequence of calls. One byte selects the entry point of a call, and one byte
//! selects each argument. The type of the parameter, from Margay's table of entry points,
//! determines the kind of the argument. Arguments are numbers from a list of edge values, handles
//! from earlier calls (or null or invalid handles), and pointers to valid memory. The target
//! therefore calls every implemented entry point without a separate list of them, except those in
//! `LEFT_OUT` and those with floating-point parameters. Every failure is a defect of the library.
//!
//! The target fails if a call crashes, never ends, or returns `CUDA_ERROR_UNKNOWN`. The library
//! returns this error if its code has panicked.

use std::ffi::c_void;
use std::sync::{LazyLock, Mutex};

use cuda::{ApiRow, CuResult, api_rows};

/// Maximum number of arguments of an entry point.
const MAX_ARGUMENTS: usize = 14;
/// Maximum number of calls that one input describes; later bytes have no effect.
const MAX_CALLS: usize = 64;
/// Number of bytes of the memory to which each typed pointer argument points.
const SLOT: usize = 1 << 16;
/// Number of bytes of the memory to which an untyped pointer argument points: more than any size that is passed with
/// such a pointer.
const BULK: usize = 2 << 20;
/// Maximum number of values from the outputs of calls that are stored for later calls.
const KEPT: usize = 64;

/// The function type with which all entry points are called. Integers and pointers are passed in the same way, and a
/// function ignores additional arguments.
type Entry = unsafe extern "C" fn(
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
) -> CuResult;

/// Entry points that are not called: they wait for an action of another thread, or write files.
const LEFT_OUT: &[&str] = &[
    "cuStreamWaitValue",
    "cuStreamBatchMemOp",
    "cuLogsDumpToFile",
    "cuGraphDebugDotPrint",
];

/// Entry points whose only size argument is the number of elements of their only array.
const COUNTED: &[&str] = &[
    "cuMemSetAccess",
    "cuMemPoolSetAccess",
    "cuMemcpy3DBatchAsync",
    "cuStreamUpdateCaptureDependencies",
];

/// A module with a kernel that can be launched with any arguments, because it has no parameters.
const IMAGE: &str = ".version 7.0\n.target sm_70\n.address_size 64\n\
    .visible .global .align 4 .u32 counter = 5;\n\
    .visible .entry count() { .reg .b32 %r; atom.global.add.u32 %r, [counter], 1; ret; }\n";

/// Names that are passed to entry points that look up an object by name.
const NAMES: &[&str] = &[
    "count\0",
    "counter\0",
    "\0",
    "cuInit\0",
    "nothing\0",
    "/nowhere/deep\0",
];

/// Types of objects that belong to no context, and the entry points that destroy them. At the end
/// of each input, the target destroys the input's objects, so that the memory of the process grows
/// only if the library leaks memory.
const DESTROY: &[(&str, &str)] = &[
    ("CUgraphExec", "cuGraphExecDestroy"),
    ("CUgraph", "cuGraphDestroy"),
    ("CUlibrary", "cuLibraryUnload"),
    ("CUlinkState", "cuLinkDestroy"),
    ("CUmemGenericAllocationHandle", "cuMemRelease"),
    ("CUmemoryPool", "cuMemPoolDestroy"),
    ("CUtexref", "cuTexRefDestroy"),
    ("CUuserObject", "cuUserObjectRelease"),
    ("CUgreenCtx", "cuGreenCtxDestroy"),
    ("CUcontext", "cuCtxDestroy_v2"),
];

/// Numbers for arguments that often reveal defects.
const NUMBERS: &[u64] = &[
    0,
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    15,
    16,
    31,
    32,
    33,
    64,
    75,
    100,
    255,
    256,
    257,
    1000,
    1024,
    1025,
    4096,
    65535,
    65536,
    1 << 20,
    (1 << 20) + 1,
    1 << 31,
    1 << 32,
    1 << 40,
    u32::MAX as u64,
    i64::MAX as u64,
    u64::MAX - 7,
    u64::MAX,
];

/// The kind of an argument, which determines how the argument is generated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A 32-bit number: a count, an index or the value of an enumeration.
    Count,
    /// The ordinal of a device.
    Device,
    /// A size in bytes, or another 64-bit number.
    Size,
    /// A device address or an opaque handle.
    Handle,
    /// A pointer to a name.
    Name,
    /// A pointer to read-only data: an image, or the source of a copy.
    Read,
    /// A pointer to writable memory of unknown extent.
    Bulk,
    /// A pointer to an array of pointers, or to memory for a pointer that the call returns.
    Pointers,
    /// A pointer to one value or to a few values.
    Slot,
    /// A callback function.
    Callback,
}

impl Kind {
    /// Returns the kind of argument for a type's text; `None` for a type that cannot be passed as
    /// an integer.
    fn of(ty: &str) -> Option<Kind> {
        const COUNTS: &[&str] = &["c_int", "c_uint", "c_uchar", "c_ushort", "CUresult"];
        let ty = ty.trim();
        Some(match ty {
            "c_float" | "f32" | "f64" | "c_double" => return None,
            "*const c_char" => Kind::Name,
            "*const c_void" => Kind::Read,
            "*mut c_void" | "*mut c_char" => Kind::Bulk,
            "CUhostFn"
            | "CUstreamCallback"
            | "CUoccupancyB2DSize"
            | "CUlogsCallback"
            | "CUcoredumpStatusCallback" => Kind::Callback,
            "CUdevice" => Kind::Device,
            "usize" | "u64" | "c_ulonglong" => Kind::Size,
            _ if ty.starts_with("*mut *") => Kind::Pointers,
            _ if ty.starts_with('*') => Kind::Slot,
            _ if COUNTS.contains(&ty) => Kind::Count,
            // Names of enumerations have lower-case words after the prefix; names of handles do not.
            _ if ty.starts_with("CU")
                && (ty.contains('_') || ty.contains("cache") || ty.contains("config")) =>
            {
                Kind::Count
            }
            _ if ty.starts_with("CU") => Kind::Handle,
            _ => return None,
        })
    }
}

/// A parameter of an entry point.
#[derive(Clone, Copy)]
struct Parameter {
    kind: Kind,
    /// The text of a type: for a [`Kind::Slot`], the type of the value that the pointer points to;
    /// for a handle, the type of the parameter.
    ty: &'static str,
}

impl Parameter {
    /// Parses a parameter of the table, `name: type`.
    fn parse(text: &'static str) -> Option<Self> {
        let ty = text.split_once(':')?.1.trim();
        let pointee = ty.strip_prefix("*mut ").unwrap_or(ty);
        Some(Parameter {
            kind: Kind::of(ty)?,
            ty: pointee,
        })
    }
}

/// An entry point with its parameters.
struct Callable {
    row: &'static ApiRow,
    parameters: Vec<Parameter>,
}

impl Callable {
    /// Returns the entry point that `row` describes, if it is implemented and all its arguments can
    /// be passed as integers.
    fn new(row: &'static ApiRow) -> Option<Self> {
        if !row.is_implemented() || LEFT_OUT.iter().any(|name| row.export.starts_with(name)) {
            return None;
        }
        let list = row
            .parameters
            .trim()
            .trim_start_matches('(')
            .trim_end_matches(')');
        let texts = list.split(',').filter(|p| !p.trim().is_empty());
        let parameters: Option<Vec<Parameter>> = texts.map(Parameter::parse).collect();
        parameters
            .filter(|parameters| parameters.len() <= MAX_ARGUMENTS)
            .map(|parameters| Callable { row, parameters })
    }

    /// Returns the largest argument of the kind `kind` that the target passes to this entry point.
    /// With larger arguments, the call could access memory outside the memory of its pointers, or a
    /// launch could take too long.
    fn limit(&self, kind: Kind) -> u64 {
        const SMALL: u64 = 4096;
        const LAUNCH: u64 = 3;
        /// Maximum number of elements in an array of structures, so that the array fits into a slot.
        const ELEMENTS: u64 = 512;
        let count = |wanted: &[Kind]| {
            self.parameters
                .iter()
                .filter(|p| wanted.contains(&p.kind))
                .count()
        };
        let untyped = count(&[Kind::Name, Kind::Read, Kind::Bulk]) > 0;
        let arrays = count(&[Kind::Slot, Kind::Pointers]);
        match kind {
            _ if self.row.export.starts_with("cuLaunch") => LAUNCH,
            _ if COUNTED.iter().any(|name| self.row.export.starts_with(name)) => ELEMENTS,
            Kind::Size if untyped || arrays > 1 => SMALL,
            Kind::Count if untyped || arrays > 0 => SMALL,
            _ => u64::MAX,
        }
    }
}

/// A reader of the input's bytes. After the last byte, it returns zeros.
struct Input<'a>(std::slice::Iter<'a, u8>);

impl Input<'_> {
    fn byte(&mut self) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0))
    }

    fn is_empty(&self) -> bool {
        self.0.as_slice().is_empty()
    }
}

/// The memory to which arguments point, and the outputs of calls.
struct World {
    slots: Vec<u64>,
    bulk: Vec<u64>,
    image: Vec<u8>,
    /// Handles and addresses from the outputs of earlier calls, each with its type.
    kept: Vec<(&'static str, u64)>,
    /// Objects of this input that belong to no context, each with the entry point that destroys it.
    objects: Vec<(&'static str, u64)>,
}

impl World {
    fn new() -> Self {
        let mut image = vec![0; BULK];
        image[..IMAGE.len()].copy_from_slice(IMAGE.as_bytes());
        World {
            slots: vec![0; MAX_ARGUMENTS * SLOT / 8],
            bulk: vec![0; BULK / 8],
            image,
            kept: Vec::new(),
            objects: Vec::new(),
        }
    }

    /// Discards the outputs of the calls of the previous input. The address of the memory does not
    /// change, because the library may still contain pointers to it.
    fn reset(&mut self) {
        self.slots.fill(0);
        self.bulk.fill(0);
        self.kept.clear();
    }

    fn argument(
        &mut self,
        index: usize,
        parameter: Parameter,
        limit: u64,
        input: &mut Input<'_>,
    ) -> u64 {
        let kind = parameter.kind;
        let choice = input.byte();
        match kind {
            Kind::Callback => 0,
            Kind::Count | Kind::Size => NUMBERS[choice % NUMBERS.len()].min(limit),
            // For most inputs the argument is device 0.
            Kind::Device => NUMBERS[choice.saturating_sub(240) % NUMBERS.len()],
            Kind::Handle => self.handle(parameter.ty, choice),
            _ if choice == 0xff => 0,
            Kind::Name => NAMES[choice % NAMES.len()].as_ptr() as u64,
            Kind::Read => self.image.as_ptr() as u64,
            Kind::Bulk => self.bulk.as_mut_ptr() as u64,
            Kind::Slot | Kind::Pointers => {
                let bulk = self.bulk.as_mut_ptr() as u64;
                let slot = &mut self.slots[index * SLOT / 8..(index + 1) * SLOT / 8];
                // A structure of zeros is harmless.
                slot.fill(if kind == Kind::Pointers && choice.is_multiple_of(2) {
                    bulk
                } else {
                    0
                });
                slot.as_mut_ptr() as u64
            }
        }
    }

    /// Returns a handle of the type `ty` for most values of `choice`, and for the others a handle
    /// of another type or a number.
    fn handle(&self, ty: &str, choice: usize) -> u64 {
        let right: Vec<u64> = self
            .kept
            .iter()
            .filter(|(t, _)| *t == ty)
            .map(|(_, v)| *v)
            .collect();
        match choice {
            0..=179 if !right.is_empty() => {
                let offset = if ty == "CUdeviceptr" && choice % 8 == 7 {
                    4
                } else {
                    0
                };
                right[choice % right.len()].wrapping_add(offset)
            }
            0..=219 if !self.kept.is_empty() => self.kept[choice % self.kept.len()].1,
            220..=239 => (choice - 220) as u64,
            _ => 0x1234_5678_9abc,
        }
    }

    /// Stores, for later calls, the new handles and device addresses that a call wrote to the
    /// memory of its slots. Other pointers are not stored: if a later call passed such a pointer to
    /// `cuMemcpy`, the library would write to the process's own memory.
    fn keep(&mut self, parameters: &[Parameter]) {
        for (index, parameter) in parameters.iter().enumerate() {
            let value = self.slots[index * SLOT / 8];
            let written = value != 0 && value != self.bulk.as_ptr() as u64;
            let handle = parameter.ty.starts_with("CU");
            if matches!(parameter.kind, Kind::Slot | Kind::Pointers) && written && handle {
                self.kept.push((parameter.ty, value));
                let destroy = DESTROY.iter().find(|(ty, _)| *ty == parameter.ty);
                self.objects.extend(destroy.map(|(_, name)| (*name, value)));
            }
        }
        let excess = self.kept.len().saturating_sub(KEPT);
        self.kept.drain(..excess);
    }

    fn call(&mut self, callable: &Callable, input: &mut Input<'_>) -> CuResult {
        let mut arguments = [0; MAX_ARGUMENTS];
        for (index, parameter) in callable.parameters.iter().enumerate() {
            let limit = callable.limit(parameter.kind);
            arguments[index] = self.argument(index, *parameter, limit, input);
        }
        let result = enter(callable.row, arguments);
        self.keep(&callable.parameters);
        result
    }
}

fn enter(row: &ApiRow, a: [u64; MAX_ARGUMENTS]) -> CuResult {
    // SAFETY: the address is that of an entry point whose parameters are all integers or pointers, passed as such.
    // Pointers are null or point to memory that is larger than the call may access, because the sizes passed with them
    // are bounded; the memory lives as long as the world, which outlives all calls.
    unsafe {
        let entry = std::mem::transmute::<*const c_void, Entry>(row.address());
        entry(
            a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13],
        )
    }
}

/// Calls the entry point `name` with `arguments`. For each input, the target first performs some of
/// these calls.
pub(crate) fn call_named(name: &str, arguments: &[u64]) -> CuResult {
    let row = api_rows()
        .find(|row| row.export == name)
        .expect("an entry point of the table");
    let mut all = [0; MAX_ARGUMENTS];
    all[..arguments.len()].copy_from_slice(arguments);
    enter(row, all)
}

/// Checks that the library still works after any sequence of calls: no call crashes or panics, and
/// later calls still succeed.
///
/// The calls change the state of the process: threads of the library, and objects that belong to no
/// context, continue to exist.
pub fn driver_calls(bytes: &[u8]) {
    // The library may write to this memory later, so all inputs use the same memory, at the same address.
    static WORLD: LazyLock<Mutex<World>> = LazyLock::new(|| Mutex::new(World::new()));
    let callables: Vec<Callable> = api_rows().filter_map(Callable::new).collect();
    let world = &mut *WORLD.lock().expect("no input panicked");
    world.reset();
    begin(world);
    let mut input = Input(bytes.iter());
    for _ in 0..MAX_CALLS {
        if input.is_empty() {
            break;
        }
        let which = input.byte() << 8 | input.byte();
        let callable = &callables[which % callables.len()];
        let result = world.call(callable, &mut input);
        assert!(
            result != CuResult::UNKNOWN,
            "{} panicked",
            callable.row.export
        );
    }
    let version = world.slots.as_mut_ptr() as u64;
    assert_eq!(
        call_named("cuDriverGetVersion", &[version]),
        CuResult::SUCCESS
    );
    assert!(world.slots[0] >= 12_000, "the library still answers");
    for (name, object) in world.objects.drain(..).rev() {
        // The second argument is the number of references that `cuUserObjectRelease` removes.
        let _ = call_named(name, &[object, 1]);
    }
}

/// Creates a new primary context, loads a module into it, and stores the handles of both for later
/// calls.
fn begin(world: &mut World) {
    let slot = world.slots.as_mut_ptr() as u64;
    let _ = call_named("cuInit", &[0]);
    let _ = call_named("cuDevicePrimaryCtxReset_v2", &[0]);
    if call_named("cuDevicePrimaryCtxRetain", &[slot, 0]) != CuResult::SUCCESS {
        return;
    }
    let context = world.slots[0];
    world.kept.push(("CUcontext", context));
    let _ = call_named("cuCtxSetCurrent", &[context]);
    if call_named("cuModuleLoadData", &[slot, world.image.as_ptr() as u64]) == CuResult::SUCCESS {
        let module = world.slots[0];
        world.kept.push(("CUmodule", module));
        if call_named(
            "cuModuleGetFunction",
            &[slot, module, NAMES[0].as_ptr() as u64],
        ) == CuResult::SUCCESS
        {
            world.kept.push(("CUfunction", world.slots[0]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_served_entry_points_can_be_called() {
        let served = api_rows().filter(|row| row.is_implemented()).count();
        let callable = api_rows().filter_map(Callable::new).count();
        assert!(callable * 10 >= served * 9, "{callable} of {served}");
    }

    #[test]
    fn kinds_by_type() {
        assert_eq!(Kind::of("*const c_char"), Some(Kind::Name));
        assert_eq!(Kind::of("CUstream"), Some(Kind::Handle));
        assert_eq!(Kind::of("CUdeviceptr"), Some(Kind::Handle));
        assert_eq!(Kind::of("CUfunction_attribute"), Some(Kind::Count));
        assert_eq!(Kind::of("*mut CUdeviceptr"), Some(Kind::Slot));
        assert_eq!(Kind::of("c_float"), None);
    }
}
