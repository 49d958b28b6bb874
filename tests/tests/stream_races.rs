//! Tests of the race detector for work of different streams. For each way in which CUDA orders
//! streams, the detector must report no race in a program that uses this way, and must report a
//! race in the same program without the order.

use margay::capture::CaptureMode;
use margay::checks::{Finding, Kind, Tool};
use margay::graph::InstantiateFlags;
use margay::{
    Context, DevicePtr, Dim3, Error, EventFlags, Kernel, LaunchConfig, Runtime, Stream, StreamKind,
    Transfer,
};

const PTX: &str = r#"
.version 8.0
.target sm_80
.address_size 64
.visible .entry add_one(.param .u64 p) {
    .reg .b64 %rd<4>;
    .reg .b32 %r<4>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3];
    add.u32 %r2, %r2, 1;
    st.global.u32 [%rd3], %r2;
    ret;
}
"#;
const BYTES: u64 = 128;

struct Program {
    runtime: Runtime,
    context: Context,
    kernel: Kernel,
    memory: DevicePtr,
    first: Stream,
    second: Stream,
}

impl Program {
    fn new(kind: StreamKind) -> Result<Program, Error> {
        let runtime = Runtime::builder()
            .workers(2)
            .without_disk_cache()
            .check(Tool::Race)
            .build()?;
        let context = runtime.context()?;
        let kernel = runtime.load_ptx(PTX)?.kernel("add_one")?;
        let memory = context.alloc(BYTES)?;
        context
            .legacy_stream()
            .fill(memory, 0, 4, BYTES / 4, 1, 0)?;
        context.synchronize()?;
        let [first, second] = [0, 1].map(|_| context.create_stream(kind, 0));
        Ok(Program {
            runtime,
            context,
            kernel,
            memory,
            first: first?,
            second: second?,
        })
    }

    fn launch(&self, stream: &Stream) -> Result<(), Error> {
        let config = LaunchConfig {
            grid: Dim3::new(1, 1, 1),
            block: Dim3::new(32, 1, 1),
            ..LaunchConfig::default()
        };
        stream.launch(
            &self.kernel,
            config,
            &self.memory.address().to_le_bytes()[..],
        )
    }

    /// Waits for all work of the program and returns the findings about races.
    fn races(&self) -> Result<Vec<Finding>, Error> {
        self.context.synchronize()?;
        Ok(self.runtime.take_findings().0)
    }
}

/// Runs a program with streams of the kind `kind`, and returns whether the detector has reported
/// races. Fails if a report does not state which order is missing.
fn has_races(
    kind: StreamKind,
    program: impl Fn(&Program) -> Result<(), Error>,
) -> Result<bool, Error> {
    let run = Program::new(kind)?;
    program(&run)?;
    let races = run.races()?;
    for race in &races {
        assert_eq!(
            (race.kind, race.missing),
            (Kind::Race, Some("stream order"))
        );
    }
    Ok(!races.is_empty())
}

const FREE: StreamKind = StreamKind::NonBlocking;

#[test]
fn launches_of_two_streams_race() -> Result<(), Error> {
    for kind in [StreamKind::NonBlocking, StreamKind::Blocking] {
        assert!(has_races(kind, |p| {
            p.launch(&p.first)?;
            p.launch(&p.second)
        })?);
        assert!(!has_races(kind, |p| {
            p.launch(&p.first)?;
            p.launch(&p.first)
        })?);
    }
    Ok(())
}

#[test]
fn waits_of_the_host_order_streams() -> Result<(), Error> {
    assert!(!has_races(FREE, |p| {
        p.launch(&p.first)?;
        p.first.synchronize()?;
        p.launch(&p.second)
    })?);
    assert!(!has_races(FREE, |p| {
        p.launch(&p.first)?;
        p.context.synchronize()?;
        p.launch(&p.second)
    })?);
    // The host waits for another stream.
    assert!(has_races(FREE, |p| {
        p.launch(&p.first)?;
        p.second.synchronize()?;
        p.launch(&p.second)
    })?);
    Ok(())
}

#[test]
fn events_order_streams() -> Result<(), Error> {
    assert!(!has_races(FREE, |p| {
        let event = p.context.create_event(EventFlags::default())?;
        p.launch(&p.first)?;
        event.record(&p.first)?;
        p.second.wait_event(&event)?;
        p.launch(&p.second)
    })?);
    assert!(!has_races(FREE, |p| {
        let event = p.context.create_event(EventFlags::default())?;
        p.launch(&p.first)?;
        event.record(&p.first)?;
        event.synchronize()?;
        p.launch(&p.second)
    })?);
    // The event is recorded before the launch.
    assert!(has_races(FREE, |p| {
        let event = p.context.create_event(EventFlags::default())?;
        event.record(&p.first)?;
        p.launch(&p.first)?;
        p.second.wait_event(&event)?;
        p.launch(&p.second)
    })?);
    Ok(())
}

#[test]
fn the_legacy_stream_orders_blocking_streams() -> Result<(), Error> {
    for (kind, races) in [(StreamKind::Blocking, false), (FREE, true)] {
        assert_eq!(
            has_races(kind, |p| {
                p.launch(&p.first)?;
                p.launch(&p.context.legacy_stream())
            })?,
            races
        );
        assert_eq!(
            has_races(kind, |p| {
                p.launch(&p.context.legacy_stream())?;
                p.launch(&p.second)
            })?,
            races
        );
    }
    Ok(())
}

#[test]
fn host_functions_order_their_stream() -> Result<(), Error> {
    assert!(!has_races(FREE, |p| {
        p.launch(&p.first)?;
        p.first.host_function(|| {})?;
        p.launch(&p.first)
    })?);
    Ok(())
}

#[test]
fn copies_and_fills_race_with_launches() -> Result<(), Error> {
    let copy = |p: &Program, stream: &Stream, to_memory: bool| {
        let other = p.context.alloc(BYTES)?;
        let (to, from) = match to_memory {
            true => (p.memory, other),
            false => (other, p.memory),
        };
        // SAFETY: both ranges are device memory.
        unsafe { stream.copy_async(Transfer::on_device(to, from, BYTES)) }
    };
    for to_memory in [true, false] {
        assert!(has_races(FREE, |p| {
            p.launch(&p.first)?;
            copy(p, &p.second, to_memory)
        })?);
        assert!(has_races(FREE, |p| {
            copy(p, &p.second, to_memory)?;
            p.launch(&p.first)
        })?);
        assert!(!has_races(FREE, |p| {
            p.launch(&p.first)?;
            copy(p, &p.first, to_memory)
        })?);
        assert!(!has_races(FREE, |p| {
            copy(p, &p.second, to_memory)?;
            p.second.synchronize()?;
            p.launch(&p.first)
        })?);
    }
    let fill = |p: &Program, stream: &Stream| stream.fill(p.memory, 0, 4, BYTES / 4, 1, 0);
    assert!(has_races(FREE, |p| {
        p.launch(&p.first)?;
        fill(p, &p.second)
    })?);
    // Two copies that read do not race, and a copy and a fill do.
    assert!(!has_races(FREE, |p| {
        copy(p, &p.first, false)?;
        copy(p, &p.second, false)
    })?);
    assert!(has_races(FREE, |p| {
        copy(p, &p.first, false)?;
        fill(p, &p.second)
    })?);
    Ok(())
}

#[test]
fn rows_beside_those_of_another_stream_do_not_race() -> Result<(), Error> {
    // Each stream fills every second group of eight bytes.
    let column = |p: &Program, stream: &Stream, offset| {
        let start = DevicePtr::new(p.memory.address() + offset);
        stream.fill(start, 0, 4, 2, BYTES / 16, 16)
    };
    assert!(!has_races(FREE, |p| {
        column(p, &p.first, 0)?;
        column(p, &p.second, 8)
    })?);
    assert!(has_races(FREE, |p| {
        column(p, &p.first, 0)?;
        column(p, &p.second, 4)
    })?);
    Ok(())
}

#[test]
fn graphs_are_ordered_like_their_streams() -> Result<(), Error> {
    let captured = |p: &Program| {
        p.first.begin_capture(CaptureMode::Relaxed)?;
        p.launch(&p.first)?;
        let graph = p.first.end_capture()?;
        Ok::<_, Error>(
            graph
                .instantiate(InstantiateFlags::default())
                .expect("no problem"),
        )
    };
    assert!(has_races(FREE, |p| {
        let graph = captured(p)?;
        graph.launch(&p.first)?;
        p.launch(&p.second)
    })?);
    assert!(!has_races(FREE, |p| {
        let graph = captured(p)?;
        graph.launch(&p.first)?;
        p.launch(&p.first)
    })?);
    // Launches of one executable graph run one after the other.
    assert!(!has_races(FREE, |p| {
        let graph = captured(p)?;
        graph.launch(&p.first)?;
        graph.launch(&p.second)
    })?);
    Ok(())
}

#[test]
fn memory_with_a_new_use_does_not_race() -> Result<(), Error> {
    let run = Program::new(FREE)?;
    for stream in [&run.first, &run.second] {
        let memory = stream.alloc_async(BYTES)?;
        stream.fill(memory, 0, 4, BYTES / 4, 1, 0)?;
        stream.free_async(memory)?;
    }
    assert_eq!(run.races()?, []);
    Ok(())
}

#[test]
fn many_launches_without_a_wait_use_bounded_memory() -> Result<(), Error> {
    let run = Program::new(FREE)?;
    for _ in 0..3000 {
        run.launch(&run.first)?;
    }
    assert_eq!(run.races()?, []);
    Ok(())
}
