//! Tests of what tools see of native kernels.

use super::*;
use crate::KernelInfo;
use crate::observe::{Event, EventKind, Events, HostEvent, Launch, Request, Tool};

#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Tool for Recorder {
    fn name(&self) -> &str {
        "recorder"
    }

    fn request(&self, kernel: &KernelInfo) -> Request {
        self.0.lock().push(format!("request {}", kernel.name));
        Request::none().launches().events(EventKind::Ctas)
    }

    fn events(&self, launch: &Launch, events: Events<'_>) {
        let name = &launch.kernel().name;
        let mut log = self.0.lock();
        for event in events {
            match event {
                Event::KernelBegin => log.push(format!("begin {name}")),
                Event::CtaBegin(cta) => log.push(format!("task {}", cta.linear)),
                Event::KernelEnd { completed, .. } => log.push(format!("end {name} {completed}")),
                _ => {}
            }
        }
    }

    fn observes_host(&self) -> bool {
        true
    }

    fn host(&self, event: &HostEvent<'_>) {
        match event {
            HostEvent::LoadModule { kernels, .. } => {
                let text = format!("load {}", kernels[0].name);
                self.0.lock().push(text);
            }
            HostEvent::Launch { kernel, grid, .. } => {
                self.0.lock().push(format!("launch {kernel} {}", grid.x));
            }
            _ => {}
        }
    }
}

#[test]
fn tools_see_native_kernels_as_kernels() {
    let recorder = Arc::new(Recorder::default());
    let runtime = Runtime::builder().workers(2).tool(recorder.clone());
    let runtime = runtime.build().expect("built");
    let context = runtime.context().expect("alive");
    let stream = context.legacy_stream();
    for fails in [false, true] {
        let kernel = NativeKernel::new("seen", 3, move |task| match fails && task == 0 {
            true => Err("no".into()),
            false => Ok(()),
        });
        stream.launch_native(&kernel).expect("launched");
        let _ = stream.synchronize();
    }
    let log = recorder.0.lock();
    let first = [
        "request seen",
        "load seen",
        "launch seen 3",
        "begin seen",
        "task 0",
        "task 1",
        "task 2",
        "end seen true",
        "launch seen 3",
        "begin seen",
    ];
    assert_eq!(log[..first.len()], first);
    assert_eq!(log.last().map(String::as_str), Some("end seen false"));
}
