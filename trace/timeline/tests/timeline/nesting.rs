//! Slices that overlap, and slices with equal times.

use margay_timeline::{Event, Format, Overlap, StreamKind};
use proptest::prelude::*;

use crate::file::{options, timeline, written};
use crate::reader::read;

fn kernel(name: &str) -> Event<'_> {
    Event::new("kernel", name)
}

#[test]
fn an_overlapping_slice_moves_to_an_overflow_track() {
    for format in [Format::Perfetto, Format::Chrome] {
        let (timeline, file) = timeline(&options(format));
        let stream = timeline.stream(0, 7, StreamKind::Created);
        stream.slice(10, 20, &kernel("a"));
        stream.slice(15, 25, &kernel("b"));
        stream.slice(18, 30, &kernel("c"));
        stream.slice(30, 40, &kernel("d"));
        let summary = timeline.finish().unwrap();
        assert_eq!(
            (summary.slices, summary.overlaps, summary.omitted),
            (4, 2, 0)
        );
        let overlap = Overlap {
            track: "Stream 7".to_owned(),
            name: "b".to_owned(),
            slice: (15, 25),
            other: (10, 20),
        };
        assert_eq!(summary.first_overlap, Some(overlap));
        if format == Format::Perfetto {
            let contents = read(&file.bytes());
            let tracks: Vec<_> = contents
                .slices
                .iter()
                .map(|slice| (&*slice.name, &*slice.track))
                .collect();
            let expected = [
                ("a", "Stream 7"),
                ("b", "Stream 7 (overflow)"),
                ("c", "Stream 7 (overflow 2)"),
                ("d", "Stream 7"),
            ];
            assert_eq!(tracks, expected);
        } else {
            let text = String::from_utf8(file.bytes()).unwrap();
            assert!(
                text.contains(r#""tid":1000000007,"args":{"name":"Stream 7 (overflow)"}"#),
                "{text}"
            );
        }
    }
}

#[test]
fn what_fits_on_no_overflow_track_is_counted() {
    let (timeline, _) = timeline(&options(Format::Perfetto));
    let stream = timeline.stream(0, 7, StreamKind::Created);
    for index in 0..12 {
        stream.slice(index, index + 100, &kernel("k"));
    }
    let summary = timeline.finish().unwrap();
    assert_eq!(
        (summary.slices, summary.overlaps, summary.omitted),
        (9, 11, 3)
    );
}

#[test]
fn pushes_and_pops_nest_with_calls() {
    let contents = read(&written(&options(Format::Perfetto), |timeline| {
        let main = timeline.host_thread(77, "main");
        main.begin(10, &kernel("outer"));
        main.slice(12, 14, &kernel("call"));
        main.begin(15, &kernel("inner"));
        assert_eq!(main.depth(), 2);
        main.end(18);
        main.end(20);
        assert_eq!(main.end(21), None);
    }));
    let expected = [
        ("main", "outer", 10, Some(20), 0),
        ("main", "call", 12, Some(14), 1),
        ("main", "inner", 15, Some(18), 1),
    ];
    assert_eq!(contents.outline(), expected);
}

#[test]
fn a_push_inside_a_recorded_slice_moves_with_its_pop() {
    let contents = read(&written(&options(Format::Perfetto), |timeline| {
        let main = timeline.host_thread(77, "main");
        main.slice(10, 20, &kernel("call"));
        main.begin(15, &kernel("push"));
        main.end(25);
    }));
    let expected = [
        ("main", "call", 10, Some(20), 0),
        ("main (overflow)", "push", 15, Some(25), 0),
    ];
    assert_eq!(contents.outline(), expected);
}

#[test]
fn pushes_without_pops_are_bounded() {
    let (timeline, _) = timeline(&options(Format::Perfetto));
    let main = timeline.host_thread(77, "main");
    for at in 0..5000 {
        main.begin(at, &kernel("push"));
    }
    let summary = timeline.finish().unwrap();
    assert_eq!((summary.slices, summary.omitted), (4096, 904));
}

/// Returns sets of slices that nest: each slice is split into parts at random.
fn nested() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0..40_u64, 0..40_u64), 1..30).prop_map(|intervals| {
        let mut kept: Vec<(u64, u64)> = Vec::new();
        for (one, other) in intervals {
            let new = (one.min(other) + 10, one.max(other) + 10);
            let crosses = |old: &(u64, u64)| {
                let (first, second) = if new.0 < old.0 {
                    (new, *old)
                } else {
                    (*old, new)
                };
                first.0 < second.0 && second.0 < first.1 && first.1 < second.1
            };
            if new.0 < new.1 && !kept.contains(&new) && !kept.iter().any(crosses) {
                kept.push(new);
            }
        }
        kept
    })
}

proptest! {
    /// A reader finds the slices in any order of recording, with times that differ by a nanosecond at most.
    #[test]
    fn slices_that_nest_are_read_back(mut slices in nested(), by_end: bool) {
        if by_end {
            slices.sort_by_key(|slice| (slice.1, std::cmp::Reverse(slice.0)));
        }
        let (timeline, file) = timeline(&options(Format::Perfetto));
        let stream = timeline.stream(0, 7, StreamKind::Created);
        // Even times leave room for the nanosecond.
        for (begin, end) in &slices {
            stream.slice(100 * begin, 100 * end, &kernel(&format!("{begin} {end}")));
        }
        let summary = timeline.finish().unwrap();
        let contents = read(&file.bytes());
        prop_assert_eq!(contents.slices.len(), slices.len());
        for slice in &contents.slices {
            let (begin, end) = slice.name.split_once(' ').unwrap();
            let (begin, end): (u64, u64) = (begin.parse().unwrap(), end.parse().unwrap());
            prop_assert!((100 * begin).abs_diff(slice.begin) <= 1, "{:?}", slice);
            prop_assert!((100 * end).abs_diff(slice.end.unwrap()) <= 1, "{:?}", slice);
        }
        // Only slices without room for the nanosecond move.
        prop_assert_eq!(summary.omitted, 0);
    }
}
