//! Tests of tools with a gate, and of events that describe waits and memory.

use std::sync::Arc;

use margay::observe::{
    AccessKind, Events, Gate, HostEvent, Launch, MemoryPlace, Request, Space, Tool, WaitKind,
};
use margay::{KernelInfo, LaunchConfig, Runtime};
use parking_lot::Mutex;

use super::kernels::module;

/// A tool with a gate that logs the events of launches and of the host.
#[derive(Default)]
struct Gated {
    gate: Arc<Gate>,
    log: Mutex<Vec<String>>,
    /// Whether the tool requests accesses, which a tool with a gate cannot.
    wants_accesses: bool,
}

impl Tool for Gated {
    fn name(&self) -> &str {
        "gated"
    }

    fn request(&self, _: &KernelInfo) -> Request {
        match self.wants_accesses {
            true => Request::none().accesses(&[Space::Global], &[AccessKind::Store]),
            false => Request::none().launches(),
        }
    }

    fn events(&self, _: &Launch, _: Events<'_>) {
        self.log.lock().push("launch".to_owned());
    }

    fn observes_host(&self) -> bool {
        true
    }

    fn gate(&self) -> Option<Arc<Gate>> {
        Some(Arc::clone(&self.gate))
    }

    fn host(&self, event: &HostEvent<'_>) {
        let text = match *event {
            HostEvent::Launch {
                context, device, ..
            } => format!("kernel {} {device}", context != 0),
            HostEvent::Copy {
                places: [to, from], ..
            } => format!("copy {from:?} {to:?}"),
            HostEvent::BeginWait {
                kind,
                stream,
                event,
                ..
            } => {
                format!("wait {kind:?} {} {}", stream.is_some(), event.is_some())
            }
            HostEvent::EndWait => "end".to_owned(),
            HostEvent::Free { bytes, device, .. } => format!("free {bytes} {device}"),
            _ => return,
        };
        self.log.lock().push(text);
    }
}

#[test]
fn a_tool_receives_events_while_its_gate_is_open() {
    let tool = Arc::new(Gated::default());
    let runtime = Runtime::builder()
        .tool(tool.clone())
        .build()
        .expect("built");
    let module = runtime.load_ptx(&module("    st.global.u32 [%own], %i;"));
    let kernel = module.expect("loads").kernel("kernel").expect("known");
    let mut buffer = runtime.upload(&[0u32; 64]).expect("room");
    let mut run = || {
        let launched = runtime.launch(&kernel, LaunchConfig::new(1, 64), (&mut buffer,));
        launched.expect("launched");
        runtime.synchronize().expect("no fault");
        std::mem::take(&mut *tool.log.lock())
    };
    assert!(run().is_empty());
    tool.gate.set(true);
    let mut log = run();
    // The kernel runs while the program waits.
    log.sort();
    let expected = [
        "end",
        "kernel true 0",
        "launch",
        "launch",
        "wait Context false false",
    ];
    assert_eq!(log, expected);
    tool.gate.set(false);
    assert!(run().is_empty());
}

#[test]
fn events_describe_waits_and_memory() {
    let tool = Arc::new(Gated::default());
    let runtime = Runtime::builder()
        .tool(tool.clone())
        .build()
        .expect("built");
    tool.gate.set(true);
    let buffer = runtime.upload(&[0u32; 64]).expect("room");
    assert_eq!(buffer.to_vec().expect("no fault").len(), 64);
    drop(buffer);
    let context = runtime.context().expect("known");
    let stream = context.legacy_stream();
    let event = context.create_event(Default::default()).expect("room");
    event.record(&stream).expect("recorded");
    stream.wait_event(&event).expect("recorded");
    event.synchronize().expect("no fault");
    stream.synchronize().expect("no fault");
    let log = tool.log.lock().clone();
    let (device, host) = (MemoryPlace::Device(0), MemoryPlace::Pageable);
    let waits = |kind: WaitKind, stream, event| format!("wait {kind:?} {stream} {event}");
    let expected = [
        format!("copy {host:?} {device:?}"),
        format!("copy {device:?} {host:?}"),
        "free 256 0".to_owned(),
        waits(WaitKind::StreamEvent, true, true),
        "end".to_owned(),
        waits(WaitKind::Event, false, true),
        "end".to_owned(),
        waits(WaitKind::Stream, true, false),
        "end".to_owned(),
    ];
    assert_eq!(log, expected);
}

#[test]
fn a_tool_with_a_gate_cannot_observe_accesses() {
    let tool = Gated {
        wants_accesses: true,
        ..Gated::default()
    };
    let runtime = Runtime::builder()
        .tool(Arc::new(tool))
        .build()
        .expect("built");
    let module = runtime.load_ptx(&module("    st.global.u32 [%own], %i;"));
    let kernel = module.expect("loads").kernel("kernel").expect("known");
    let mut buffer = runtime.upload(&[0u32; 64]).expect("room");
    let launched = runtime.launch(&kernel, LaunchConfig::new(1, 64), (&mut buffer,));
    let failure = launched.and_then(|_| runtime.synchronize()).err();
    let text = failure.map(|error| error.to_string()).unwrap_or_default();
    assert!(text.contains("`gated`, which has a gate"), "{text}");
}
