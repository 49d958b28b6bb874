//! Tests of the table of native kernels, which replacements of NVIDIA's libraries use.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};

use super::{address, call, driver, table};

const NATIVE_KERNELS: u128 = u128::from_be_bytes(*b"MargayNativeKern");

const INVALID_VALUE: u32 = 1;
const INVALID_CONTEXT: u32 = 201;
const INVALID_HANDLE: u32 = 400;
const ILLEGAL_ADDRESS: u32 = 700;

#[repr(C)]
struct Kernel {
    size: usize,
    name: *const c_char,
    context: *mut c_void,
    tasks: u32,
    pad: u32,
    run: Option<extern "C" fn(*mut c_void, u32) -> u32>,
    drop: Option<extern "C" fn(*mut c_void)>,
    ranges: *const Range,
    range_count: usize,
}

#[repr(C)]
struct Range {
    address: usize,
    bytes: usize,
    writes: u32,
    pad: u32,
}

/// What a native kernel has done.
#[derive(Default)]
struct Counts {
    /// The number of calls, and the sum of the tasks.
    calls: AtomicU32,
    sum: AtomicU32,
    dropped: AtomicU32,
    /// The result of each task.
    result: AtomicU32,
}

impl Counts {
    fn values(&self) -> (u32, u32, u32) {
        let value = |count: &AtomicU32| count.load(SeqCst);
        (value(&self.calls), value(&self.sum), value(&self.dropped))
    }

    fn kernel(&self, tasks: u32) -> Kernel {
        Kernel {
            size: size_of::<Kernel>(),
            name: c"counts".as_ptr(),
            context: std::ptr::from_ref(self).cast_mut().cast(),
            tasks,
            pad: 0,
            run: Some(run),
            drop: Some(dropped),
            ranges: std::ptr::null(),
            range_count: 0,
        }
    }
}

fn counts(pointer: *mut c_void) -> &'static Counts {
    // SAFETY: each test passes a `Counts` that it never frees.
    unsafe { &*pointer.cast::<Counts>() }
}

extern "C" fn run(context: *mut c_void, task: u32) -> u32 {
    let counts = counts(context);
    counts.calls.fetch_add(1, SeqCst);
    counts.sum.fetch_add(task, SeqCst);
    counts.result.load(SeqCst)
}

extern "C" fn dropped(context: *mut c_void) {
    counts(context).dropped.fetch_add(1, SeqCst);
}

fn new_counts() -> &'static Counts {
    Box::leak(Box::default())
}

fn words() -> &'static [usize] {
    table(NATIVE_KERNELS, 5)
}

fn launch(stream: usize, per_thread: usize, kernel: &Kernel) -> u32 {
    let kernel = std::ptr::from_ref(kernel) as usize;
    call(words()[2], [stream, per_thread, kernel, 0])
}

/// Creates a context, makes it current and returns its handle.
fn context() -> usize {
    let mut context = 0;
    let code = driver().call("cuCtxCreate_v2", &[address(&mut context), 0, 0]);
    assert_eq!(code, 0);
    context
}

fn destroy(context: usize) {
    assert_eq!(driver().call("cuCtxDestroy_v2", &[context]), 0);
}

fn new_stream() -> usize {
    let mut stream = 0;
    let code = driver().call("cuStreamCreate", &[address(&mut stream), 0]);
    assert_eq!(code, 0);
    stream
}

#[test]
fn the_table_states_its_size_and_version() {
    assert_eq!(words()[..2], [5 * 8, 1]);
    let workers = call(words()[4], [0; 4]);
    assert!(workers >= 1);
}

#[test]
fn tasks_run_in_every_kind_of_stream() {
    let context = context();
    let own = new_stream();
    for (stream, per_thread) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (own, 0), (own, 7)] {
        let counts = new_counts();
        assert_eq!(launch(stream, per_thread, &counts.kernel(5)), 0);
        assert_eq!(driver().call("cuCtxSynchronize", &[]), 0);
        assert_eq!(counts.values(), (5, 10, 1), "stream {stream}");
    }
    let counts = new_counts();
    assert_eq!(launch(0, 0, &counts.kernel(0)), 0);
    assert_eq!(counts.values(), (0, 0, 1), "no tasks");
    let kernel = Kernel {
        drop: None,
        ..counts.kernel(1)
    };
    assert_eq!(launch(0, 0, &kernel), 0);
    assert_eq!(driver().call("cuCtxSynchronize", &[]), 0);
    assert_eq!(
        counts.values(),
        (1, 0, 1),
        "no function to drop the context"
    );
    destroy(context);
}

#[test]
fn damaged_structures_are_refused() {
    let context = context();
    let code = |stream: usize, change: &dyn Fn(&mut Kernel)| {
        let counts = new_counts();
        let mut kernel = counts.kernel(5);
        change(&mut kernel);
        let code = launch(stream, 0, &kernel);
        (code, counts.values())
    };
    let refused = |change: &dyn Fn(&mut Kernel)| code(0, change);
    let (untouched, freed) = ((0, 0, 0), (0, 0, 1));
    assert_eq!(call(words()[2], [0; 4]), INVALID_VALUE, "no structure");
    for size in [0, 8, size_of::<Kernel>() - 1] {
        let result = refused(&|kernel| kernel.size = size);
        assert_eq!(result, (INVALID_VALUE, untouched), "size {size}");
    }
    let larger = refused(&|kernel| kernel.size += 64);
    assert_eq!(larger.0, 0, "a later version of the structure");
    let result = refused(&|kernel| kernel.run = None);
    assert_eq!(result, (INVALID_VALUE, freed));
    let result = refused(&|kernel| kernel.name = std::ptr::null());
    assert_eq!(result, (INVALID_VALUE, freed));
    let long = std::ffi::CString::new("n".repeat(4097)).expect("no NUL");
    let result = refused(&|kernel| kernel.name = long.as_ptr());
    assert_eq!(result, (INVALID_VALUE, freed));
    let result = refused(&|kernel| kernel.tasks = u32::MAX);
    assert_eq!(result, (INVALID_VALUE, freed));
    let result = refused(&|kernel| kernel.range_count = 1);
    assert_eq!(result, (INVALID_VALUE, freed), "no ranges");
    let result = refused(&|kernel| {
        kernel.ranges = std::ptr::dangling();
        kernel.range_count = usize::MAX;
    });
    assert_eq!(result, (INVALID_VALUE, freed), "too many ranges");
    let mut device = 0usize;
    let code_of = driver().call("cuMemAlloc_v2", &[address(&mut device), 64]);
    assert_eq!(code_of, 0);
    let in_range = |address: usize, bytes: usize| {
        let range = Range {
            address,
            bytes,
            writes: 1,
            pad: 0,
        };
        refused(&|kernel| {
            kernel.ranges = &raw const range;
            kernel.range_count = 1;
        })
    };
    assert_eq!(in_range(device, 64).0, 0);
    for (address, bytes) in [(device, 65), (device, usize::MAX), (0, 1), (device + 64, 1)] {
        let result = in_range(address, bytes);
        assert_eq!(result, (INVALID_VALUE, freed), "{address:#x}, {bytes}");
    }
    let own = [0u8; 16];
    let result = in_range(own.as_ptr() as usize, 16);
    assert_eq!(result, (INVALID_VALUE, freed), "host memory");
    assert_eq!(driver().call("cuMemFree_v2", &[device]), 0);
    assert_eq!(in_range(device, 64), (INVALID_VALUE, freed), "freed memory");
    let result = code(0x1234_5678, &|_| {});
    assert_eq!(result, (INVALID_HANDLE, freed), "no stream");
    destroy(context);
    let result = code(0, &|_| {});
    assert_eq!(result, (INVALID_CONTEXT, freed), "no context");
}

#[test]
fn the_result_of_a_task_is_the_error_of_the_context() {
    let context = context();
    let counts = new_counts();
    counts.result.store(ILLEGAL_ADDRESS, SeqCst);
    assert_eq!(launch(0, 0, &counts.kernel(1)), 0);
    assert_eq!(driver().call("cuCtxSynchronize", &[]), ILLEGAL_ADDRESS);
    assert_eq!(counts.values(), (1, 0, 1));
    assert_eq!(launch(0, 0, &counts.kernel(1)), ILLEGAL_ADDRESS);
    assert_eq!(counts.values(), (1, 0, 2), "the context has failed");
    destroy(context);
}

#[test]
fn ranges_of_memory_have_kinds() {
    let context = context();
    let kind = |address: usize, bytes: usize| call(words()[3], [address, bytes, 0, 0]);
    let (mut device, mut managed, mut pinned) = (0usize, 0usize, 0usize);
    let code = driver().call("cuMemAlloc_v2", &[address(&mut device), 100]);
    assert_eq!(code, 0);
    let code = driver().call("cuMemAllocManaged", &[address(&mut managed), 100, 1]);
    assert_eq!(code, 0);
    let code = driver().call("cuMemHostAlloc", &[address(&mut pinned), 100, 0]);
    assert_eq!(code, 0);
    let mut own = vec![0u8; 8192];
    let start = own.as_mut_ptr() as usize;
    for (memory, expected) in [(device, 1), (managed, 1), (pinned, 2)] {
        assert_eq!(kind(memory, 100), expected);
        assert_eq!(kind(memory + 99, 1), expected);
        assert_eq!(kind(memory + 99, 0), expected, "no bytes");
        assert_eq!(kind(memory + 99, 2), 3);
        assert_eq!(kind(memory, usize::MAX), 3);
    }
    assert_eq!((kind(start, 8192), kind(0, 0)), (0, 0));
    let code = driver().call("cuMemHostRegister_v2", &[start + 4096, 64, 0]);
    assert_eq!(code, 0);
    assert_eq!(kind(start + 4096, 64), 2);
    assert_eq!((kind(start + 4096, 65), kind(start, 8192)), (3, 3));
    assert_eq!(kind(start, 4096), 0);
    assert_eq!(driver().call("cuMemHostUnregister", &[start + 4096]), 0);
    assert_eq!(driver().call("cuMemFree_v2", &[device]), 0);
    assert_eq!(kind(device, 100), 3, "freed");
    destroy(context);
}

static NAMED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn note(_: *mut c_void, task: u32) -> u32 {
    NAMED.fetch_add(task as usize + 1, SeqCst);
    0
}

#[test]
fn a_graph_runs_the_tasks_at_each_launch_and_names_the_kernel() {
    let context = context();
    let stream = new_stream();
    let counts = new_counts();
    let begin = driver().call("cuStreamBeginCapture_v2", &[stream, 0]);
    assert_eq!(begin, 0);
    let named = Kernel {
        name: c"a name".as_ptr(),
        run: Some(note),
        ..counts.kernel(3)
    };
    assert_eq!(launch(stream, 0, &named), 0);
    let (mut graph, mut exec, mut count) = (0usize, 0usize, 1usize);
    let code = driver().call("cuStreamEndCapture", &[stream, address(&mut graph)]);
    assert_eq!(code, 0);
    let mut node = 0usize;
    let code = driver().call(
        "cuGraphGetNodes",
        &[graph, address(&mut node), address(&mut count)],
    );
    assert_eq!((code, count), (0, 1));
    let mut params = [0usize; 16];
    let code = driver().call(
        "cuGraphKernelNodeGetParams_v2",
        &[node, address(&mut params)],
    );
    assert_eq!(code, 0);
    // The function, and the x and y extents of the grid.
    assert_eq!(params[1], 1 << 32 | 3);
    let mut name: *const c_char = std::ptr::null();
    let code = driver().call("cuFuncGetName", &[address(&mut name), params[0]]);
    assert_eq!(code, 0);
    // SAFETY: the driver returned a C string.
    assert_eq!(unsafe { CStr::from_ptr(name) }, c"a name");
    let again = driver().call(
        "cuGraphKernelNodeSetParams_v2",
        &[node, address(&mut params)],
    );
    assert_eq!(again, INVALID_VALUE, "only its library can launch it");
    let arguments = [params[0], 3, 1, 1, 1, 1, 1, 0, stream, 0, 0];
    assert_eq!(driver().call("cuLaunchKernel", &arguments), INVALID_VALUE);
    let code = driver().call(
        "cuGraphInstantiateWithFlags",
        &[address(&mut exec), graph, 0],
    );
    assert_eq!(code, 0);
    assert_eq!(driver().call("cuGraphDestroy", &[graph]), 0);
    for _ in 0..4 {
        assert_eq!(driver().call("cuGraphLaunch", &[exec, stream]), 0);
    }
    assert_eq!(driver().call("cuStreamSynchronize", &[stream]), 0);
    assert_eq!(NAMED.load(SeqCst), 4 * (1 + 2 + 3));
    assert_eq!(counts.values(), (0, 0, 0), "the graph keeps the context");
    assert_eq!(driver().call("cuGraphExecDestroy", &[exec]), 0);
    assert_eq!(counts.values(), (0, 0, 1));
    destroy(context);
}
