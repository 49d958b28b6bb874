//! Tests of native kernels, together with kernels from PTX.

mod faults;
mod graphs;
mod observed;
mod ranges;

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Barrier};

use parking_lot::Mutex;

use crate::native_kernel::{MemoryRange, NativeKernel, TaskError};
use crate::{Context, DeviceBuffer, Error, FaultKind, Kernel, LaunchConfig, Runtime, Stream};

/// `triple` replaces each word of an array by three times the word plus one.
const PTX: &str = ".version 7.0
.target sm_80
.address_size 64
.visible .entry triple(.param .u64 to)
{
    .reg .b32 %r<4>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [to];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r1, %r1, 32, %r2;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd1, %rd1, %rd2;
    ld.global.u32 %r3, [%rd1];
    mad.lo.u32 %r3, %r3, 3, 1;
    st.global.u32 [%rd1], %r3;
    ret;
}";

/// Number of words of the array, and number of words that a task or a block processes.
const WORDS: usize = 256;
const EACH: usize = 32;

struct Setup {
    runtime: Runtime,
    context: Context,
    triple: Kernel,
    words: DeviceBuffer<u32>,
}

impl Setup {
    fn new() -> Setup {
        Setup::with(Runtime::builder().workers(2))
    }

    fn with(builder: crate::RuntimeBuilder) -> Setup {
        let runtime = builder.build().expect("built");
        let module = runtime.load_ptx(PTX).expect("loads");
        Setup {
            context: runtime.context().expect("alive"),
            triple: module.kernel("triple").expect("known"),
            words: runtime.upload(&[1u32; WORDS]).expect("uploaded"),
            runtime,
        }
    }

    fn stream(&self) -> Stream {
        let kind = crate::StreamKind::NonBlocking;
        self.context.create_stream(kind, 0).expect("created")
    }

    fn range(&self) -> MemoryRange {
        MemoryRange::of(self.words.ptr().address(), 4 * WORDS as u64)
    }

    /// Launches `triple`.
    fn triple(&self, stream: &Stream) -> Result<(), Error> {
        let config = LaunchConfig::new((WORDS / EACH) as u32, EACH as u32);
        stream.launch(&self.triple, config, (&self.words,))
    }

    /// Returns a native kernel that doubles each word of the array.
    fn double(&self) -> NativeKernel {
        let address = self.words.ptr().address() as usize;
        let double = move |task: u32| {
            let first = (address as *mut u32).wrapping_add(task as usize * EACH);
            for index in 0..EACH {
                let word = first.wrapping_add(index);
                // SAFETY: the word is in the array, which the test keeps alive, and only this task accesses it.
                unsafe { *word *= 2 };
            }
            Ok(())
        };
        let range = self.range();
        let tasks = (WORDS / EACH) as u32;
        NativeKernel::new("double", tasks, double)
            .reads(range)
            .writes(range)
    }
}

/// Returns the fault of a context that has failed.
fn fault_of(result: Result<(), Error>) -> Arc<crate::Fault> {
    match result {
        Err(Error::Fault(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn native_kernels_and_kernels_run_in_the_order_of_their_stream() {
    let mut setup = Setup::new();
    let per_thread = setup.context.per_thread_stream();
    for stream in [setup.stream(), per_thread, setup.context.legacy_stream()] {
        setup.words.write(&[1; WORDS]).expect("copied");
        let double = setup.double();
        stream.launch_native(&double).expect("launched");
        setup.triple(&stream).expect("launched");
        stream.launch_native(&double).expect("launched");
        setup.triple(&stream).expect("launched");
        stream.launch_native(&double).expect("launched");
        stream.synchronize().expect("no fault");
        // 1 * 2 = 2, 3 * 2 + 1 = 7, 7 * 2 = 14, 3 * 14 + 1 = 43, 43 * 2 = 86.
        assert_eq!(setup.words.to_vec().expect("copied"), [86; WORDS]);
    }
}

#[test]
fn the_tasks_of_a_launch_run_on_all_workers_at_once() {
    const WORKERS: usize = 3;
    let setup = Setup::with(Runtime::builder().workers(WORKERS));
    let threads = Arc::new(Mutex::new(Vec::new()));
    let (seen, barrier) = (Arc::clone(&threads), Barrier::new(WORKERS));
    let kernel = NativeKernel::new("meet", WORKERS as u32, move |task| {
        let name = std::thread::current().name().unwrap_or("").to_owned();
        seen.lock().push((task, name));
        barrier.wait();
        Ok(())
    });
    setup.stream().launch_native(&kernel).expect("launched");
    setup.context.synchronize().expect("no fault");
    let mut threads = threads.lock().clone();
    threads.sort();
    let tasks: Vec<u32> = threads.iter().map(|(task, _)| *task).collect();
    assert_eq!(tasks, [0, 1, 2]);
    let mut names: Vec<&str> = threads.iter().map(|(_, name)| &**name).collect();
    names.sort_unstable();
    let workers = ["margay-worker-0", "margay-worker-1", "margay-worker-2"];
    assert_eq!(names, workers);
}

#[test]
fn every_task_runs_once_whatever_their_number() {
    let setup = Setup::new();
    for tasks in [0u32, 1, 2, 1000, 100_001] {
        let (count, sum) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let shared = (Arc::clone(&count), Arc::clone(&sum));
        let kernel = NativeKernel::new("count", tasks, move |task| {
            shared.0.fetch_add(1, SeqCst);
            shared.1.fetch_xor(task, SeqCst);
            Ok(())
        });
        let stream = setup.stream();
        stream.launch_native(&kernel).expect("launched");
        stream.synchronize().expect("no fault");
        assert_eq!(count.load(SeqCst), tasks);
        let expected = (0..tasks).fold(0, |all, task| all ^ task);
        assert_eq!(sum.load(SeqCst), expected);
    }
}

#[test]
fn launches_that_cannot_be_kernels_are_invalid() {
    let setup = Setup::new();
    let stream = setup.stream();
    let invalid =
        |kernel: &NativeKernel| matches!(stream.launch_native(kernel), Err(Error::InvalidValue(_)));
    let nothing = |_| Ok(());
    assert!(invalid(&NativeKernel::new("many", 1 << 31, nothing)));
    let long = "n".repeat(NativeKernel::LONGEST_NAME);
    let fits = NativeKernel::new(&*long, 1, nothing);
    stream.launch_native(&fits).expect("launched");
    assert!(invalid(&NativeKernel::new(format!("{long}n"), 1, nothing)));
    let whole = MemoryRange::of(setup.words.ptr().address(), u64::MAX);
    assert!(invalid(
        &NativeKernel::new("wraps", 1, nothing).reads(whole)
    ));
    assert!(invalid(
        &NativeKernel::new("wraps", 0, nothing).writes(whole)
    ));
    stream.destroy().expect("destroyed");
    assert!(matches!(
        stream.launch_native(&fits),
        Err(Error::InvalidHandle(_))
    ));
}

#[test]
fn a_task_must_not_wait_for_work() {
    let setup = Setup::new();
    let (stream, other) = (setup.stream(), setup.stream());
    let refused = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&refused);
    let waiting = stream.clone();
    let kernel = NativeKernel::new("waits", 4, move |_| {
        for stream in [&waiting, &other] {
            if let Err(Error::NotPermitted(_)) = stream.synchronize() {
                count.fetch_add(1, SeqCst);
            }
        }
        Ok(())
    });
    stream.launch_native(&kernel).expect("launched");
    stream.synchronize().expect("no fault");
    assert_eq!(refused.load(SeqCst), 8);
}

/// Counts how often the values of this type were dropped.
struct Dropped(Arc<AtomicU32>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Returns a native kernel and the number of times that its function was dropped.
fn counted(result: Result<(), TaskError>) -> (NativeKernel, Arc<AtomicU32>) {
    let count = Arc::new(AtomicU32::new(0));
    let dropped = Dropped(Arc::clone(&count));
    let run = move |_| {
        let _used = &dropped;
        result.clone()
    };
    (NativeKernel::new("counted", 3, run), count)
}

#[test]
fn the_function_is_dropped_once_before_its_launch_is_complete() {
    let setup = Setup::new();
    let stream = setup.stream();
    for _ in 0..100 {
        let (kernel, dropped) = counted(Ok(()));
        stream.launch_native(&kernel).expect("launched");
        drop(kernel);
        stream.synchronize().expect("no fault");
        assert_eq!(dropped.load(SeqCst), 1);
    }
    let (kernel, of_refused) = counted(Ok(()));
    let kernel = kernel.reads(MemoryRange::of(8, 8));
    stream
        .launch_native(&kernel)
        .expect_err("not device memory");
    drop(kernel);
    assert_eq!(of_refused.load(SeqCst), 1);
    let (failing, of_failing) = counted(Err("no".into()));
    let (never, of_never) = counted(Ok(()));
    let hold = Arc::new(Barrier::new(2));
    let held = Arc::clone(&hold);
    let holds = move || {
        held.wait();
    };
    stream.host_function(holds).expect("submitted");
    stream.launch_native(&failing).expect("launched");
    stream.launch_native(&never).expect("launched");
    drop((failing, never));
    hold.wait();
    stream.synchronize().expect_err("the first kernel fails");
    assert_eq!(of_failing.load(SeqCst), 1);
    assert_eq!(of_never.load(SeqCst), 1, "dropped work");
}

#[test]
fn the_time_limit_ends_a_launch_between_tasks() {
    let setup = Setup::new();
    let limit = std::time::Duration::from_millis(30);
    setup.context.set_time_limit(Some(limit));
    let count = Arc::new(AtomicU32::new(0));
    let ran = Arc::clone(&count);
    let kernel = NativeKernel::new("slow", 1_000_000, move |_| {
        ran.fetch_add(1, SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(1));
        Ok(())
    });
    setup.stream().launch_native(&kernel).expect("launched");
    let fault = fault_of(setup.context.synchronize());
    assert_eq!((fault.kind, &*fault.kernel), (FaultKind::Timeout, "slow"));
    assert!((1..1_000_000).contains(&count.load(SeqCst)));
}
