//! Tests of events of the host.

use std::sync::Arc;

use margay::observe::{AllocationKind, CopyDirection, Events, HostEvent, Launch, Request, Tool};
use margay::{KernelInfo, LaunchConfig, Runtime};
use parking_lot::Mutex;

use super::kernels::module;

/// A tool that stores a list of the events of the host.
#[derive(Default)]
struct Host(Mutex<Vec<String>>);

impl Tool for Host {
    fn name(&self) -> &str {
        "host"
    }

    fn request(&self, _: &KernelInfo) -> Request {
        Request::none().launches()
    }

    fn events(&self, launch: &Launch, _: Events<'_>) {
        self.0.lock().push(format!("run {}", launch.id()));
    }

    fn observes_host(&self) -> bool {
        true
    }

    fn host(&self, event: &HostEvent<'_>) {
        let text = match *event {
            HostEvent::Launch { kernel, stream, .. } => format!("{kernel} {}", stream.is_some()),
            HostEvent::Copy {
                direction, bytes, ..
            } => format!("{direction:?} {bytes}"),
            HostEvent::Fill { bytes, .. } => format!("fill {bytes}"),
            HostEvent::Allocate { bytes, kind, .. } => format!("allocate {bytes} {kind:?}"),
            HostEvent::Free { .. } => "free".to_owned(),
            HostEvent::LoadModule { kernels, .. } => format!("load {}", kernels[0].name),
            HostEvent::UnloadModule { .. } => "unload".to_owned(),
            HostEvent::Submit { .. }
            | HostEvent::BeginWork { .. }
            | HostEvent::EndWork { .. }
            | HostEvent::BeginWait { .. }
            | HostEvent::EndWait => return,
            _ => panic!("{event:?} is unknown"),
        };
        self.0.lock().push(text);
    }
}

#[test]
fn the_host_submits_work() {
    let tool = Arc::new(Host::default());
    let runtime = Runtime::builder()
        .tool(tool.clone())
        .build()
        .expect("built");
    let module = runtime.load_ptx(&module("    st.global.u32 [%own], %i;"));
    let module = module.expect("loads");
    let kernel = module.kernel("kernel").expect("known");
    let mut buffer = runtime.upload(&[0u32; 64]).expect("room");
    runtime
        .launch(&kernel, LaunchConfig::new(1, 64), (&mut buffer,))
        .expect("launched");
    assert_eq!(buffer.to_vec().expect("no fault")[63], 63);
    let context = runtime.context().expect("known");
    let pinned = context.alloc_host(100, Default::default()).expect("room");
    context.free_host(pinned).expect("allocated");
    drop(buffer);
    module.unload().expect("loaded");
    let mut events = tool.0.lock().clone();
    // The launch runs while the program goes on.
    let runs = events
        .iter()
        .filter(|event| event.starts_with("run"))
        .count();
    assert_eq!(runs, 2, "the beginning and the end");
    events.retain(|event| !event.starts_with("run"));
    let expected = [
        "load kernel".to_owned(),
        format!("allocate 256 {:?}", AllocationKind::Device),
        format!("{:?} 256", CopyDirection::HostToDevice),
        "kernel true".to_owned(),
        format!("{:?} 256", CopyDirection::DeviceToHost),
        format!("allocate 100 {:?}", AllocationKind::Pinned),
        "free".to_owned(),
        "free".to_owned(),
        "unload".to_owned(),
    ];
    assert_eq!(events, expected);
}
