//! A driver for tests: the memory of the process is device memory, and each stream is a thread.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};

use parking_lot::Mutex;

use crate::driver::{Driver, Native, Range};
use margay_native::table::Kernel;

/// Addresses below this one belong to no memory.
const FIRST: usize = 1 << 16;

enum Item {
    Kernel {
        context: usize,
        tasks: u32,
        run: extern "C" fn(*mut c_void, u32) -> u32,
        drop: Option<extern "C" fn(*mut c_void)>,
    },
    Wait(usize, u32),
    Done(Sender<u32>),
}

/// Number of kernels and waits that have not ended.
static OPEN: AtomicUsize = AtomicUsize::new(0);
static STREAMS: LazyLock<Mutex<HashMap<usize, Sender<Item>>>> = LazyLock::new(Mutex::default);

fn send(stream: usize, item: Item) {
    OPEN.fetch_add(1, SeqCst);
    let mut streams = STREAMS.lock();
    let sender = streams.entry(stream).or_insert_with(|| {
        let (sender, receiver) = channel::<Item>();
        std::thread::spawn(move || {
            let mut code = 0;
            for item in receiver {
                match item {
                    Item::Kernel {
                        context,
                        tasks,
                        run,
                        drop,
                    } => {
                        // The order of tasks is free.
                        for task in (0..tasks).rev() {
                            code = run(context as *mut c_void, task).max(code);
                        }
                        if let Some(drop) = drop {
                            drop(context as *mut c_void);
                        }
                    }
                    Item::Wait(address, value) => {
                        // SAFETY: the library keeps the word until the stream has passed.
                        let word = unsafe { &*(address as *const AtomicU32) };
                        while word.load(SeqCst) != value {
                            std::thread::yield_now();
                        }
                    }
                    Item::Done(answer) => {
                        answer.send(std::mem::take(&mut code)).expect("a receiver")
                    }
                }
                OPEN.fetch_sub(1, SeqCst);
            }
        });
        sender
    });
    sender.send(item).expect("a stream");
}

/// Waits for a stream. Returns the largest result of its tasks since the last call.
pub(crate) fn synchronize(stream: usize) -> u32 {
    let (sender, receiver) = channel();
    send(stream, Item::Done(sender));
    receiver.recv().expect("an answer")
}

unsafe extern "C" fn launch(stream: usize, _per_thread: u32, kernel: *const Kernel) -> u32 {
    // SAFETY: the caller passes a kernel.
    let kernel = unsafe { &*kernel };
    // SAFETY: the kernel has this many ranges.
    let ranges = unsafe { std::slice::from_raw_parts(kernel.ranges, kernel.range_count) };
    let wrong = |range: &Range| range.bytes != 0 && range.address.addr() < FIRST;
    if ranges.iter().any(wrong) {
        if let Some(drop) = kernel.drop {
            drop(kernel.context);
        }
        return 1;
    }
    let item = Item::Kernel {
        context: kernel.context as usize,
        tasks: kernel.tasks,
        run: kernel.run,
        drop: kernel.drop,
    };
    send(stream, item);
    0
}

unsafe extern "C" fn memory(address: *const c_void, _bytes: usize) -> u32 {
    u32::from(address.addr() >= FIRST)
}

extern "C" fn workers() -> u32 {
    3
}

macro_rules! answers {
    ($($name:ident($($argument:ident: $kind:ty),*) => $value:expr;)*) => {$(
        unsafe extern "C" fn $name($($argument: $kind),*) -> u32 {
            $(let _ = &$argument;)*
            $value
        }
    )*};
}

fn put<T>(place: *mut T, value: T) -> u32 {
    // SAFETY: the library passes a variable.
    unsafe { place.write(value) };
    0
}

thread_local! {
    static CONTEXT: std::cell::Cell<usize> = const { std::cell::Cell::new(1) };
}
static EVENTS: AtomicUsize = AtomicUsize::new(1);

answers! {
    zero(flags: u32) => 0;
    device_count(count: *mut c_int) => put(count, 8);
    context(place: *mut usize) => put(place, CONTEXT.get());
    set_context(new: usize) => { CONTEXT.set(new); 0 };
    device(place: *mut c_int) => put(place, CONTEXT.get() as c_int - 1);
    retain_primary(place: *mut usize, device: c_int) => put(place, device as usize + 1);
    register(address: usize, bytes: usize, flags: u32) => 0;
    number(number: usize) => 0;
    query_event(event: usize) => if OPEN.load(SeqCst) == 0 { 0 } else { 600 };
    wait_value(stream: usize, address: usize, value: u32, flags: u32) => { send(stream, Item::Wait(address, value)); 0 };
    capture_info(stream: usize, status: *mut u32, id: *mut u64, a: usize, b: usize, c: usize) => put(status, 0) + put(id, 0);
    create_event(place: *mut usize, flags: u32) => put(place, EVENTS.fetch_add(1, SeqCst));
    two(event: usize, stream: usize) => 0;
    wait_event(stream: usize, event: usize, flags: u32) => 0;
    alloc(place: *mut usize, size: usize) => put(place, 1 << 20);
}

/// Returns the driver.
pub(crate) fn driver() -> Driver {
    static NATIVE: Native = Native {
        size: size_of::<Native>(),
        version: 1,
        launch,
        memory,
        workers,
    };
    Driver {
        init: zero,
        device_count,
        context,
        set_context,
        device,
        retain_primary,
        register,
        unregister: number,
        wait_value,
        capture_info,
        create_event,
        record_event: two,
        wait_event,
        query_event,
        destroy_event: number,
        alloc,
        free: number,
        native: &NATIVE,
    }
}
