//! `kernels`: each kernel on one worker and on all, beside the same loop in Rust on one thread and on all. The
//! results are compared before anything is timed; without `--bench`, as in CI, the data is small and each runs once.

use criterion::{Criterion, criterion_group, criterion_main};
use margay::Runtime;
use margay_benches::case::Scale;
use margay_benches::kernels::CASES;

fn all(criterion: &mut Criterion) {
    let timed = std::env::args().any(|argument| argument == "--bench");
    let scale = if timed { Scale::Full } else { Scale::Small };
    let one = Runtime::builder().workers(1).build().expect("starts");
    let every = Runtime::new().expect("starts");
    for case in CASES {
        let mut group = criterion.benchmark_group(case.name);
        group.sample_size(10);
        let mut prepared = case
            .prepare(scale, &[&one, &every])
            .unwrap_or_else(|wrong| panic!("{wrong}"));
        group.bench_function("kernel, 1 worker", |b| b.iter(|| prepared.devices[0].run()));
        group.bench_function("Rust, 1 thread", |b| b.iter(|| prepared.work.serial()));
        group.bench_function("kernel, all workers", |b| {
            b.iter(|| prepared.devices[1].run())
        });
        group.bench_function("Rust, rayon", |b| b.iter(|| prepared.work.parallel()));
        group.finish();
    }
}

criterion_group!(benches, all);
criterion_main!(benches);
