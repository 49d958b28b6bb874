//! Files that end early, and files that cannot be written.

use std::time::Duration;

use margay_timeline::{Event, Format, Options, Timeline};
use serde_json::Value;

use crate::file::{Memory, options, timeline};
use crate::reader::read;

fn small(format: Format) -> Options {
    Options {
        buffer: 512,
        ..options(format)
    }
}

#[test]
fn a_file_without_end_can_be_read() {
    let (timeline, file) = timeline(&small(Format::Perfetto));
    let main = timeline.host_thread(77, "main");
    main.begin(1, &Event::new("NVTX", "never popped"));
    for at in 2..100 {
        main.slice(10 * at, 10 * at + 5, &Event::new("c", "call"));
    }
    let slices = read(&file.bytes()).slices;
    assert!((80..99).contains(&slices.len()), "{}", slices.len());
    assert_eq!(slices[0].end, None);
    timeline.flush();
    assert_eq!(read(&file.bytes()).slices.len(), 99);
}

#[test]
fn a_json_file_without_end_lacks_only_the_brackets() {
    let (timeline, file) = timeline(&small(Format::Chrome));
    let main = timeline.host_thread(77, "main");
    for at in 2..100 {
        main.slice(10 * at, 10 * at + 5, &Event::new("c", "call"));
    }
    let mut bytes = file.bytes();
    let before = bytes.len();
    assert!(timeline.flush_without_waiting());
    assert!(file.bytes().len() > before);
    bytes.extend_from_slice(b"]}");
    let read: Value = serde_json::from_slice(&bytes).unwrap();
    assert!(read["traceEvents"].as_array().unwrap().len() > 80);
    drop((main, timeline));
    assert!(
        serde_json::from_slice::<Value>(&file.bytes()).is_ok(),
        "the last handle ends the file"
    );
}

#[test]
fn buffers_are_written_after_their_time() {
    let slow = Options {
        buffer_time: Duration::from_millis(1),
        ..options(Format::Perfetto)
    };
    let (timeline, file) = timeline(&slow);
    let main = timeline.host_thread(77, "main");
    main.instant(0, &Event::new("c", "early"));
    main.instant(999_999, &Event::new("c", "soon"));
    assert_eq!(read(&file.bytes()).instants, []);
    main.instant(1_000_000, &Event::new("c", "late"));
    assert_eq!(read(&file.bytes()).instants.len(), 3);
}

#[test]
fn a_dropped_track_is_written_and_can_return() {
    let (timeline, file) = timeline(&options(Format::Perfetto));
    timeline
        .host_thread(78, "worker")
        .instant(1, &Event::new("c", "first"));
    assert_eq!(read(&file.bytes()).instants, [(1, "first".to_owned())]);
    timeline
        .host_thread(78, "worker")
        .instant(2, &Event::new("c", "second"));
    assert_eq!(read(&file.bytes()).instants.len(), 2);
}

#[test]
fn nothing_is_recorded_after_the_end() {
    for format in [Format::Perfetto, Format::Chrome] {
        let (timeline, file) = timeline(&options(format));
        let main = timeline.host_thread(77, "main");
        main.slice(1, 2, &Event::new("c", "n"));
        let summary = timeline.finish().unwrap();
        let bytes = file.bytes();
        assert_eq!(summary.bytes, bytes.len() as u64);
        let span = main.slice(3, 5, &Event::new("c", "n"));
        assert_eq!((span.begin, span.end), (3, 5));
        timeline
            .host_thread(78, "other")
            .instant(4, &Event::new("c", "n"));
        assert_eq!(timeline.finish().unwrap(), summary);
        drop((main, timeline));
        assert_eq!(file.bytes(), bytes);
    }
}

#[test]
fn the_first_error_of_the_file_is_reported() {
    let file = Memory::with_limit(1000);
    let timeline = Timeline::new(Box::new(file.clone()), &small(Format::Perfetto));
    let main = timeline.host_thread(77, "main");
    for at in 0..1000 {
        main.slice(10 * at, 10 * at + 5, &Event::new("c", "call"));
    }
    assert_eq!(timeline.error().as_deref(), Some("the disk is full"));
    assert_eq!(
        timeline.finish().unwrap_err().to_string(),
        "the disk is full"
    );
    assert!(
        !read(&file.bytes()).slices.is_empty(),
        "what fits can be read"
    );
}
