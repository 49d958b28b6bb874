//! Tests which check that the running time of programs with tens of thousands of objects is
//! proportional to the number of objects.

use crate::capture::{CaptureMode, CaptureStatus};
use crate::testing::{Bench, assert_linear};
use crate::{Context, Stream, StreamKind};

fn streams(context: &Context, size: usize) -> Vec<Stream> {
    let kinds = [StreamKind::Blocking, StreamKind::NonBlocking];
    let kinds = kinds.into_iter().cycle().take(size);
    kinds
        .map(|kind| context.create_stream(kind, 0).expect("made"))
        .collect()
}

#[test]
fn streams_cost_the_same_however_many_there_are() {
    let bench = Bench::new(1, Vec::new());
    assert_linear("streams", 10_000, |size| {
        let streams = streams(&bench.context, size);
        let legacy = bench.context.legacy_stream();
        for stream in &streams {
            stream.mark().expect("submitted");
            legacy.mark().expect("submitted");
        }
        for stream in &streams {
            stream.destroy().expect("alive");
        }
    });
}

#[test]
fn contexts_cost_the_same_however_many_there_are() {
    let bench = Bench::new(1, Vec::new());
    assert_linear("contexts", 10_000, |size| {
        let create = || bench.context.device().create_context(0).expect("made");
        let contexts: Vec<Context> = (0..size).map(|_| create()).collect();
        let last = contexts.last().expect("a context");
        let ptr = last.alloc(256).expect("room");
        for _ in 0..size {
            let info = bench.runtime.pointer_info(ptr.address()).expect("known");
            assert!(info.context == *last);
        }
        for context in &contexts {
            context.destroy().expect("alive");
        }
    });
}

#[test]
fn captures_cost_the_same_however_many_there_are() {
    let bench = Bench::new(1, Vec::new());
    let legacy = bench.context.legacy_stream();
    assert_linear("captures", 5_000, |size| {
        let streams = streams(&bench.context, size);
        for stream in &streams {
            stream.begin_capture(CaptureMode::Relaxed).expect("begun");
        }
        assert!(legacy.capture_status().is_err());
        for stream in &streams {
            let status = stream.capture_status().expect("alive");
            assert_eq!(status, CaptureStatus::Active);
        }
        let (ended, destroyed) = streams.split_at(size / 2);
        for stream in ended {
            stream.end_capture().expect("captured");
        }
        assert!(legacy.capture_status().is_err());
        for stream in destroyed {
            stream.destroy().expect("alive");
        }
        let status = legacy.capture_status().expect("nothing is captured");
        assert_eq!(status, CaptureStatus::None);
    });
}
