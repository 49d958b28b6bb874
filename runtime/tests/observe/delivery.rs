//! Tests of the order of events, of failed launches, and of records that do not fit into memory and
//! need a file.

use std::sync::Arc;
use std::time::Duration;

use margay::observe::{AccessKind, Event, EventKind, Events, Launch, Request, Space, Tool};
use margay::{KernelInfo, LaunchConfig, Runtime};
use parking_lot::Mutex;

use super::kernels::{BARRIERS, module};
use super::run;

/// A tool that stores a list of the events that it receives and, for each call of the tool, the
/// number of accesses.
#[derive(Default)]
struct Lists {
    events: Mutex<Vec<String>>,
}

impl Tool for Lists {
    fn name(&self) -> &str {
        "lists"
    }

    fn request(&self, kernel: &KernelInfo) -> Request {
        assert_eq!(kernel.name, "kernel");
        Request::none()
            .accesses(&[Space::Global], &AccessKind::ALL)
            .events(EventKind::Ctas)
    }

    fn events(&self, _: &Launch, events: Events<'_>) {
        let mut list = self.events.lock();
        let mut bytes = 0;
        for event in events {
            match event {
                Event::Access(access) => bytes += access.bytes * access.mask.count_ones(),
                Event::CtaBegin(cta) => list.push(format!("begin {:?}", cta.index)),
                Event::CtaEnd { cta, completed } => {
                    list.push(format!("{bytes} bytes, end {} {completed}", cta.linear));
                }
                Event::KernelBegin => list.push("kernel".to_owned()),
                Event::KernelEnd { completed, lost } => {
                    list.push(format!("end {completed} {lost}"))
                }
                _ => panic!("{event:?} was not requested"),
            }
        }
    }
}

/// In this test, each of the 32 threads of a CTA loads 4 bytes and stores 4 bytes.
#[test]
fn ctas_are_delivered_in_grid_order() {
    let builders = [
        Runtime::builder().workers(1),
        Runtime::builder().workers(4),
        Runtime::builder().workers(3).reverse(),
        Runtime::builder().workers(3).shuffle(3),
    ];
    for builder in builders {
        let tool = Arc::new(Lists::default());
        let runtime = builder.tool(tool.clone()).build().expect("built");
        run(&module(BARRIERS), &runtime, LaunchConfig::new((3, 2), 32));
        let mut expected = vec!["kernel".to_owned()];
        for linear in 0..6 {
            expected.push(format!("begin [{}, {}, 0]", linear % 3, linear / 3));
            expected.push(format!("256 bytes, end {linear} true"));
        }
        expected.push("end true false".to_owned());
        assert_eq!(*tool.events.lock(), expected);
    }
}

/// Tests a launch whose second CTA accesses memory that does not exist. The launch fails, and the
/// last event tells the tool that it has failed.
#[test]
fn a_failed_launch_ends_with_an_event() {
    let tool = Arc::new(Lists::default());
    let builder = Runtime::builder().workers(1).tool(tool.clone());
    let runtime = builder.build().expect("built");
    let text = module(
        "    mov.u64 %x, 64;
    setp.ge.u32 %p, %i, 32;
    selp.b64 %own, %x, %own, %p;
    st.global.u32 [%own], %i;",
    );
    let module = runtime.load_ptx(&text).expect("loads");
    let kernel = module.kernel("kernel").expect("known");
    let mut buffer = runtime.alloc::<u32>(64).expect("room");
    runtime
        .launch(&kernel, LaunchConfig::new(2, 32), (&mut buffer,))
        .expect("launched");
    buffer.to_vec().expect_err("the launch fails");
    let events = tool.events.lock();
    assert_eq!(events[0], "kernel");
    assert_eq!(events.last().expect("known"), "end false false");
}

/// The limit is 1,000 bytes, so the records of most CTAs are in a temporary file until the tool
/// receives them.
#[test]
fn records_beyond_the_limit_are_kept_in_a_file() {
    let count = |builder: margay::RuntimeBuilder| {
        let ran = super::observe(&module(BARRIERS), builder, false, LaunchConfig::new(16, 96));
        (ran.output, ran.threads)
    };
    let expected = count(Runtime::builder().workers(1));
    let limited = Runtime::builder().workers(2).reverse().tool_memory(1000);
    assert!(count(limited) == expected);
}

/// A tool that counts the launches that ran to their end.
#[derive(Default)]
struct Ends(Mutex<u32>);

impl Tool for Ends {
    fn name(&self) -> &str {
        "ends"
    }

    fn request(&self, _: &KernelInfo) -> Request {
        Request::none().launches()
    }

    fn events(&self, _: &Launch, events: Events<'_>) {
        let is_end = |event: &Event<'_>| {
            matches!(
                event,
                Event::KernelEnd {
                    completed: true,
                    ..
                }
            )
        };
        *self.0.lock() += events.filter(is_end).count() as u32;
    }
}

/// Regression test: native code runs few CTAs at once if a tool observes the launch. The number of CTAs that it was to
/// run next was doubled after each such part; after about 60 parts it overflowed, and the launch did not end.
#[test]
fn a_launch_of_many_small_ctas_ends() {
    let tool = Arc::new(Ends::default());
    let runtime = Runtime::builder()
        .workers(1)
        .time_limit(Duration::from_secs(60))
        .tool(tool.clone())
        .build()
        .expect("a runtime");
    let text = ".version 7.0 .target sm_80 .address_size 64 .visible .entry kernel() { ret; }";
    let module = runtime.load_ptx(text).expect("a module");
    let kernel = module.kernel("kernel").expect("a kernel");
    for _ in 0..3 {
        runtime
            .launch(&kernel, LaunchConfig::new(1 << 18, 1), ())
            .expect("a launch");
    }
    runtime.synchronize().expect("the launches end");
    assert_eq!(*tool.0.lock(), 3);
}
