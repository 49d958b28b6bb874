//! `recording`: measures sequences of launches without tools, with a tool that counts the events of the host, and with a
//! timeline. The differences are the costs of recording.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use margay::observe::{Events, HostEvent, Launch, Request, Tool};
use margay::{KernelInfo, Runtime};
use margay_benches::launches::{Launches, MANY};
use margay_trace::timeline::{Format, Recorder};

/// Counts the events of the host.
#[derive(Default)]
struct Counter(AtomicU64);

impl Tool for Counter {
    fn name(&self) -> &str {
        "counter"
    }

    fn request(&self, _: &KernelInfo) -> Request {
        Request::none()
    }

    fn events(&self, _: &Launch, _: Events<'_>) {}

    fn observes_host(&self) -> bool {
        true
    }

    fn host(&self, _: &HostEvent<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn all(criterion: &mut Criterion) {
    let counter = Arc::new(Counter::default());
    let timeline = Recorder::create(Path::new("/dev/null"), Format::Perfetto).expect("creates");
    let subjects: [(&str, Vec<Arc<dyn Tool>>); 3] = [
        ("no tool", Vec::new()),
        ("host events", vec![counter.clone()]),
        ("timeline", vec![Arc::new(timeline)]),
    ];
    let mut group = criterion.benchmark_group("recording");
    group.throughput(Throughput::Elements(u64::from(MANY)));
    group.sample_size(20);
    for (name, tools) in subjects {
        let builder = tools
            .into_iter()
            .fold(Runtime::builder(), |builder, tool| builder.tool(tool));
        let runtime = builder.build().expect("starts");
        let launches = Launches::new(&runtime).expect("loads");
        group.bench_function(name, |b| b.iter(|| launches.many(MANY)));
    }
    group.finish();
    assert!(
        counter.0.load(Ordering::Relaxed) > u64::from(MANY),
        "a launch has events"
    );
}

criterion_group!(benches, all);
criterion_main!(benches);
