//! Writes a small timeline: `cargo run -p margay-timeline --example write_timeline -- FORMAT FILE`.
//!
//! FORMAT is `perfetto` or `chrome`. `tests/decode.py` reads the result and checks every number in it.

use std::path::Path;

use margay_timeline::{
    Arg, Clocks, Event, FlowEnd, FlowKind, Format, Options, Process, Quantity, StreamKind,
    Timeline, Value, category,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [format, path] = arguments.as_slice() else {
        return Err("arguments: perfetto|chrome FILE".into());
    };
    let format = if format == "chrome" {
        Format::Chrome
    } else {
        Format::Perfetto
    };
    let options = Options {
        origin: T0,
        clocks: Some(Clocks {
            monotonic: T0,
            boottime: T0 + 5,
            realtime: 1_700_000_000_000_000_000,
        }),
        ..Options::new(format, 4711, "vecadd")
    };
    let timeline = Timeline::create(Path::new(path), &options)?;
    record(&timeline);
    let summary = timeline.finish()?;
    eprintln!("{summary:?}");
    Ok(())
}

/// About 116 days, so that the times in nanoseconds exceed 2^53.
const T0: u64 = 10_000_000_000_000_001;

fn record(timeline: &Timeline) {
    timeline.name_process(Process::Device(0), "Device 0: Margay CPU");
    let main = timeline.host_thread(4711, "main");
    let stream = timeline.stream(0, 7, StreamKind::Default);
    let other = timeline.stream(0, 13, StreamKind::Created);
    let worker = timeline.worker(0);
    let bytes = timeline.counter(Quantity::DeviceBytes(0));
    bytes.set(T0 + 50, 4096);
    main.begin(T0 + 100, &Event::new(category::NVTX, "step \"1\"\n"));
    main.begin_range(
        T0 + 120,
        1,
        &Event::new("loader", "batch").args(&[Arg::new("payload", -3)]),
    );
    let size = [
        Arg::new("x", 4_u32),
        Arg::new("y", 1_u32),
        Arg::new("z", 1_u32),
    ];
    let block = [Value::Uint(256), Value::Uint(1), Value::Uint(1)];
    let args = [
        Arg::new("grid", &size[..]),
        Arg::new("block", &block[..]),
        Arg::new("shared", 48_u32),
        Arg::new("occupancy", 0.75),
        Arg::new("file", "vecadd.cu"),
        Arg::new("stream pointer", Value::Address(0x7f00_0000_1000)),
    ];
    let mut previous = None;
    for launch in 0..3_u64 {
        let (at, id) = (T0 + 1000 * (launch + 1), launch + 1);
        let source = [FlowEnd::source(FlowKind::Launch, id)];
        let call = Event::new(category::DRIVER, "cuLaunchKernel")
            .correlation(id)
            .flows(&source);
        let (run, target) = (at + 500, [FlowEnd::target(FlowKind::Launch, id)]);
        let kernel = Event::new(category::KERNEL, "add(float*, int)")
            .correlation(id)
            .args(&args)
            .flows(&target);
        // The last launch goes to the other stream, which waits for an event.
        let (track, kind) = if launch == 2 {
            (&other, FlowKind::Event)
        } else {
            (&stream, FlowKind::StreamOrder)
        };
        let span = track.slice(run, run + 900, &kernel);
        main.slice(at, at + 300, &call);
        if let Some(previous) = previous.replace(span) {
            track.flow(kind, id, previous, span);
        }
        worker.slice(
            run + 10,
            run + 890,
            &Event::new(category::WORKER, "add(float*, int)"),
        );
    }
    other.instant(T0 + 4500, &Event::new(category::EVENT_RECORD, "event 1"));
    main.end_range(T0 + 4600, 1, "loader", "batch");
    main.end(T0 + 5000);
    bytes.set(T0 + 5100, 0);
}
