//! `stages`: measures lexing, parsing, lowering and compiling a small, a medium and a large PTX text. The results are
//! in bytes of text per second.

use std::hint::black_box;

use criterion::{
    BatchSize, BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
    measurement::WallTime,
};
use margay::Runtime;
use margay_benches::stages::{self, Loaded, Text};

fn group<'c>(criterion: &'c mut Criterion, name: &str) -> BenchmarkGroup<'c, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10);
    group
}

fn each(
    criterion: &mut Criterion,
    stage: &str,
    texts: &[Text],
    mut bench: impl FnMut(&mut criterion::Bencher<'_>, &Text),
) {
    let mut group = group(criterion, stage);
    for text in texts {
        group.throughput(Throughput::Bytes(text.source.text().len() as u64));
        group.bench_with_input(BenchmarkId::from_parameter(text.name), text, &mut bench);
    }
    group.finish();
}

fn all(criterion: &mut Criterion) {
    let texts = stages::texts();
    each(criterion, "lex", &texts, |b, text| {
        b.iter(|| stages::lex(black_box(text.source.text())));
    });
    each(criterion, "parse", &texts, |b, text| {
        b.iter(|| {
            let parsed = stages::parse(black_box(&text.source));
            let resolution = stages::resolved(&parsed);
            (parsed, resolution)
        });
    });
    each(criterion, "lower", &texts, |b, text| {
        let parsed = stages::parse(&text.source);
        let resolution = stages::resolved(&parsed);
        b.iter(|| stages::lower(black_box(&parsed), &resolution));
    });
    let runtime = Runtime::builder().without_disk_cache().build();
    let runtime = runtime.expect("starts");
    each(criterion, "compile", &texts, |b, text| {
        let load = || Loaded::new(&runtime, text.source.text()).expect("loads");
        b.iter_batched(load, |loaded| loaded.launch_all(), BatchSize::PerIteration);
    });
}

criterion_group!(benches, all);
criterion_main!(benches);
