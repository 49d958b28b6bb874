//! Tests of requests for events that are not implemented, and of tools that panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use margay::observe::{AccessKind, Event, EventKind, Events, Launch, Request, Space, Tool};
use margay::{Error, KernelInfo, LaunchConfig, Runtime};

use super::kernels::module;
use super::run;

struct Asks(Request);

impl Tool for Asks {
    fn name(&self) -> &str {
        "asks"
    }

    fn request(&self, _: &KernelInfo) -> Request {
        self.0
    }

    fn events(&self, _: &Launch, _: Events<'_>) {}
}

#[test]
fn launches_fail_if_a_tool_requests_what_is_not_implemented() {
    for kind in EventKind::ALL {
        let tool = Asks(Request::none().events(kind));
        let runtime = Runtime::builder()
            .tool(Arc::new(tool))
            .build()
            .expect("built");
        let text = module("    st.global.u32 [%own], %i;");
        let kernel = runtime.load_ptx(&text).expect("loads");
        let kernel = kernel.kernel("kernel").expect("known");
        let mut buffer = runtime.alloc::<u32>(1).expect("room");
        let launched = runtime.launch(&kernel, LaunchConfig::new(1, 1), (&mut buffer,));
        match (kind.is_implemented(), launched) {
            (true, launched) => launched.expect("launched"),
            (false, Err(Error::Unsupported { what })) => {
                let expected = format!("events that the tool `asks` requests: {}", kind.name());
                assert!(what.contains(&expected), "{what}");
            }
            (false, other) => panic!("{kind:?}: {other:?}"),
        }
    }
}

/// A tool that panics at the second access.
#[derive(Default)]
struct Panics(AtomicU32);

impl Tool for Panics {
    fn name(&self) -> &str {
        "panics"
    }

    fn request(&self, _: &KernelInfo) -> Request {
        Request::none().accesses(&[Space::Global], &AccessKind::ALL)
    }

    fn events(&self, _: &Launch, events: Events<'_>) {
        for event in events {
            if let Event::Access(_) = event {
                assert_eq!(self.0.fetch_add(1, Ordering::Relaxed), 0, "on purpose");
            }
        }
    }
}

/// Tests that a tool that panics receives no further events, and that the kernel and the other
/// tools continue.
#[test]
fn a_panic_disables_the_tool() {
    let (panics, counts) = (
        Arc::new(Panics::default()),
        Arc::new(super::Collector::default()),
    );
    let builder = Runtime::builder().tool(panics.clone()).tool(counts.clone());
    let runtime = builder.build().expect("built");
    let text = module("    st.global.u32 [%own], %i;");
    let (output, _) = run(&text, &runtime, LaunchConfig::new(4, 64));
    assert_eq!(output[255], 255);
    assert_eq!(panics.0.load(Ordering::Relaxed), 2);
    assert_eq!(counts.threads.lock().len(), 256);
    let failures = runtime.tool_failures();
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].tool, "panics");
    assert!(failures[0].reason.contains("on purpose"));
}
