//! Tests of launches whose threads poll memory: launches that can never end, and launches that end
//! late because other work or the host writes the memory.
//!
//! Each test takes longer than the time without progress after which the runtime begins to search
//! for a hang.

use std::time::{Duration, Instant};

use margay::checks::{Kind, Tool};
use margay::{
    DevicePtr, EngineChoice, Error, Fault, FaultKind, HostFlags, Kernel, LaunchConfig, Runtime,
    Stream, StreamKind, Transfer,
};

const PTX: &str = r"
.version 7.0
.target sm_80
.address_size 64
.visible .entry poll(.param .u64 p) {
    .reg .pred %p; .reg .b32 %r; .reg .b64 %rd;
    ld.param.u64 %rd, [p];
again:
    ld.volatile.global.u32 %r, [%rd];
    setp.eq.u32 %p, %r, 0;
    @%p bra again;
    ret;
}
.visible .entry take_lock_twice(.param .u64 p) {
    .reg .pred %p; .reg .b32 %r; .reg .b64 %rd;
    ld.param.u64 %rd, [p];
first:
    atom.global.cas.b32 %r, [%rd], 0, 1;
    setp.ne.u32 %p, %r, 0;
    @%p bra first;
second:
    atom.global.cas.b32 %r, [%rd], 0, 1;
    setp.ne.u32 %p, %r, 0;
    @%p bra second;
    st.global.u32 [%rd], 0;
    ret;
}
.visible .entry poll_until_time(.param .u64 p) {
    .reg .pred %p<3>; .reg .b32 %r; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [p];
    mov.u64 %rd2, %globaltimer;
    add.u64 %rd3, %rd2, 2000000000;
again:
    ld.volatile.global.u32 %r, [%rd1];
    setp.ne.u32 %p1, %r, 0;
    @%p1 bra done;
    mov.u64 %rd4, %globaltimer;
    setp.lt.u64 %p2, %rd4, %rd3;
    @%p2 bra again;
done:
    ret;
}
.func (.param .b64 t) time_of_call() {
    .reg .b64 %t;
    mov.u64 %t, %globaltimer;
    st.param.b64 [t], %t;
    ret;
}
.visible .entry poll_until_time_of_call(.param .u64 p) {
    .reg .pred %p<3>; .reg .b32 %r; .reg .b64 %rd<5>;
    .param .b64 t;
    ld.param.u64 %rd1, [p];
    call (t), time_of_call, ();
    ld.param.b64 %rd2, [t];
    add.u64 %rd3, %rd2, 2000000000;
again:
    ld.volatile.global.u32 %r, [%rd1];
    setp.ne.u32 %p1, %r, 0;
    @%p1 bra done;
    call (t), time_of_call, ();
    ld.param.b64 %rd4, [t];
    setp.lt.u64 %p2, %rd4, %rd3;
    @%p2 bra again;
done:
    ret;
}
.visible .entry half_a_grid_barrier(.param .u64 p) {
    .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %rd<4>;
    mov.u32 %r1, %ctaid.x;
    setp.ne.u32 %p, %r1, 0;
    @%p bra done;
    mov.u32 %r1, %envreg1;
    mov.u32 %r2, %envreg2;
    cvt.u64.u32 %rd1, %r1;
    cvt.u64.u32 %rd2, %r2;
    shl.b64 %rd1, %rd1, 32;
    or.b64 %rd3, %rd1, %rd2;
    atom.add.u32 %r3, [%rd3+4], 1;
again:
    ld.volatile.u32 %r4, [%rd3+4];
    setp.ne.u32 %p, %r4, 2;
    @%p bra again;
done:
    ret;
}
.visible .entry count(.param .u64 p) {
    .reg .pred %p; .reg .b32 %r; .reg .b64 %rd;
    ld.param.u64 %rd, [p];
again:
    atom.global.add.u32 %r, [%rd], 1;
    setp.lt.u32 %p, %r, 500000;
    @%p bra again;
    ret;
}
";

/// If a launch makes no progress for this time, the runtime has certainly searched for a hang.
const LATE: Duration = Duration::from_millis(2500);

struct Program {
    runtime: Runtime,
    stream: Stream,
    other: Stream,
    memory: DevicePtr,
}

impl Program {
    fn new(checked: bool, engine: EngineChoice) -> Result<Program, Error> {
        let mut builder = Runtime::builder()
            .workers(2)
            .engine(engine)
            .without_disk_cache()
            .time_limit(Duration::from_secs(30));
        if checked {
            for tool in [Tool::Memory, Tool::Race, Tool::Synchronisation] {
                builder = builder.check(tool);
            }
        }
        let runtime = builder.build()?;
        let context = runtime.context()?;
        let stream = context.create_stream(StreamKind::NonBlocking, 0)?;
        let other = context.create_stream(StreamKind::NonBlocking, 0)?;
        let memory = context.alloc(4)?;
        stream.fill(memory, 0, 4, 1, 1, 0)?;
        stream.synchronize()?;
        Ok(Program {
            runtime,
            stream,
            other,
            memory,
        })
    }

    fn kernel(&self, name: &str) -> Result<Kernel, Error> {
        self.runtime.load_ptx(PTX)?.kernel(name)
    }

    fn launch(&self, name: &str, at: u64) -> Result<(), Error> {
        let config = LaunchConfig::new(2, 32);
        let kernel = self.kernel(name)?;
        self.stream.launch(&kernel, config, &at.to_le_bytes()[..])
    }

    fn set(&self, stream: &Stream) -> Result<(), Error> {
        stream.fill(self.memory, 1, 4, 1, 1, 0)
    }
}

fn fault(result: Result<(), Error>) -> Fault {
    match result {
        Err(Error::Fault(fault)) => (*fault).clone(),
        other => panic!("a fault is expected: {other:?}"),
    }
}

#[test]
fn a_checked_launch_that_polls_forever_ends() -> Result<(), Error> {
    for engine in [EngineChoice::Native, EngineChoice::Interpreter] {
        for name in ["poll", "take_lock_twice"] {
            let program = Program::new(true, engine)?;
            let begin = Instant::now();
            program.launch(name, program.memory.address())?;
            let fault = fault(program.stream.synchronize());
            assert_eq!(fault.kind, FaultKind::Hang, "{fault}");
            assert!(begin.elapsed() < Duration::from_secs(15), "{fault}");
            assert_eq!(fault.address, Some(program.memory.address()), "{fault}");
            assert!(
                fault.ptx_line.is_some() && fault.thread.is_some(),
                "{fault}"
            );
            assert!(fault.detail.contains("polls"), "{fault}");
            let (found, _) = program.runtime.take_findings();
            assert!(
                found.iter().any(|one| one.kind == Kind::Deadlock),
                "{found:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn a_checked_grid_barrier_that_a_block_skips_ends() -> Result<(), Error> {
    let program = Program::new(true, EngineChoice::Native)?;
    let kernel = program.kernel("half_a_grid_barrier")?;
    let config = LaunchConfig::new(2, 32).with_cooperative();
    let argument = program.memory.address().to_le_bytes();
    program.stream.launch(&kernel, config, &argument[..])?;
    let fault = fault(program.stream.synchronize());
    assert_eq!(fault.kind, FaultKind::Hang, "{fault}");
    assert!(
        fault.detail.contains("the state of the grid barrier"),
        "{fault}"
    );
    Ok(())
}

#[test]
fn an_unchecked_launch_that_polls_forever_goes_on() -> Result<(), Error> {
    let program = Program::new(false, EngineChoice::Native)?;
    program.launch("poll", program.memory.address())?;
    let setter = std::thread::spawn({
        let (memory, other) = (program.memory, program.other.clone());
        // This thread uses the driver for the first time after the other threads have waited for a long time.
        move || {
            std::thread::sleep(LATE);
            other.fill(memory, 1, 4, 1, 1, 0)
        }
    });
    program.stream.synchronize()?;
    setter.join().expect("no panic")
}

#[test]
fn another_thread_ends_a_wait_with_a_copy() -> Result<(), Error> {
    let program = Program::new(true, EngineChoice::Native)?;
    program.launch("poll", program.memory.address())?;
    std::thread::scope(|scope| {
        let setter = scope.spawn(|| {
            // The thread has used the driver, and does not wait.
            program.other.synchronize()?;
            std::thread::sleep(LATE);
            program.set(&program.other)
        });
        program.stream.synchronize()?;
        setter.join().expect("no panic")
    })
}

#[test]
fn the_host_ends_a_wait_for_pinned_memory() -> Result<(), Error> {
    let program = Program::new(true, EngineChoice::Native)?;
    let context = program.runtime.context()?;
    let flag = context.alloc_host(4, HostFlags::default())?;
    // SAFETY: the memory has four bytes, which no kernel accesses yet.
    unsafe { flag.cast::<u32>().write_volatile(0) };
    program.launch("poll", context.host_device_pointer(flag)?.address())?;
    let address = flag as usize;
    let setter = std::thread::spawn(move || {
        // This thread does not use the driver.
        std::thread::sleep(LATE);
        // SAFETY: the memory lives until the kernel has ended.
        unsafe { (address as *mut u32).write_volatile(1) };
    });
    program.stream.synchronize()?;
    setter.join().expect("no panic");
    Ok(())
}

#[test]
fn a_host_function_and_a_copy_end_a_wait() -> Result<(), Error> {
    let program = Program::new(true, EngineChoice::Native)?;
    program.launch("poll", program.memory.address())?;
    program.other.host_function(|| std::thread::sleep(LATE))?;
    let one = program.runtime.context()?.alloc(4)?;
    program.other.fill(one, 1, 4, 1, 1, 0)?;
    let transfer = Transfer::on_device(program.memory, one, 4);
    // SAFETY: both ranges are device memory.
    unsafe { program.other.copy_async(transfer)? };
    program.stream.synchronize()
}

#[test]
fn loops_with_a_time_limit_or_a_counter_end() -> Result<(), Error> {
    for name in ["poll_until_time", "count"] {
        let program = Program::new(true, EngineChoice::Native)?;
        program.launch(name, program.memory.address())?;
        program.stream.synchronize()?;
    }
    // The interpreter does not inline the function that reads the clock.
    let program = Program::new(true, EngineChoice::Interpreter)?;
    program.launch("poll_until_time_of_call", program.memory.address())?;
    program.stream.synchronize()?;
    Ok(())
}
