//! `kernels`: measures each kernel on one worker and on all workers. The benchmark compares the results of a kernel
//! with the expected results before it measures the kernel's time. Without `--bench`, as in CI, the data is small and
//! each kernel runs once. `margay bench` also measures other implementations of the kernels.

use criterion::{Criterion, criterion_group, criterion_main};
use margay::Runtime;
use margay_benches::Prepared;
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
        for (workers, runtime) in [("1 worker", &one), ("all workers", &every)] {
            let prepared = Prepared::new(case, scale, runtime);
            let mut prepared = prepared.unwrap_or_else(|wrong| panic!("{wrong}"));
            group.bench_function(workers, |b| b.iter(|| prepared.run()));
        }
        group.finish();
    }
}

criterion_group!(benches, all);
criterion_main!(benches);
