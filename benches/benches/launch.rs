//! `launch`: measures single launches and sequences of launches in a stream. The launched kernels are empty, and their
//! first launches are not measured.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use margay::Runtime;
use margay_benches::launches::{Launches, MANY, VERY_MANY};

fn all(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("starts");
    let launches = Launches::new(&runtime).expect("loads");
    let mut group = criterion.benchmark_group("launch");
    group.bench_function("empty", |b| b.iter(|| launches.empty()));
    group.bench_function("with arguments", |b| b.iter(|| launches.with_arguments()));
    group.throughput(Throughput::Elements(u64::from(MANY)));
    group.sample_size(20);
    group.bench_function("1000 in a stream", |b| b.iter(|| launches.many(MANY)));
    group.throughput(Throughput::Elements(u64::from(VERY_MANY)));
    group.bench_function("10000 in a stream", |b| b.iter(|| launches.many(VERY_MANY)));
    group.finish();
}

criterion_group!(benches, all);
criterion_main!(benches);
