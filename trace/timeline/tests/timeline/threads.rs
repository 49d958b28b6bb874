//! Many threads record at once.

use std::sync::atomic::{AtomicU64, Ordering};

use margay_timeline::{Event, FlowKind, Format, Options, Quantity, StreamKind};

use crate::chrome::events;
use crate::file::{options, timeline};
use crate::reader::read;

const THREADS: u64 = 8;
const SLICES: u64 = 500;

#[test]
fn threads_record_at_once() {
    for format in [Format::Perfetto, Format::Chrome] {
        let small = Options {
            buffer: 1024,
            ..options(format)
        };
        let (timeline, file) = timeline(&small);
        let clock = AtomicU64::new(1);
        let now = || clock.fetch_add(10, Ordering::Relaxed);
        std::thread::scope(|scope| {
            for number in 0..THREADS {
                let (timeline, now) = (&timeline, &now);
                scope.spawn(move || {
                    let track = timeline.host_thread(100 + number, &format!("thread {number}"));
                    let stream = timeline.stream(0, number + 1, StreamKind::Created);
                    let bytes = timeline.counter(Quantity::DeviceBytes(0));
                    for index in 0..SLICES {
                        let call =
                            track.slice(now(), now(), &Event::new("c", &format!("call {number}")));
                        let run = stream.slice(now(), now() + 1, &Event::new("kernel", "run"));
                        stream.flow(FlowKind::Launch, number * SLICES + index, call, run);
                        bytes.set(now(), index as i64);
                        if index % 100 == 0 {
                            timeline.flush();
                        }
                    }
                });
            }
        });
        let summary = timeline.finish().unwrap();
        let slices = THREADS * SLICES;
        assert_eq!(
            (summary.slices, summary.values, summary.flows),
            (2 * slices, slices, slices)
        );
        assert_eq!((summary.overlaps, summary.omitted), (0, 0));
        let bytes = file.bytes();
        assert_eq!(summary.bytes, bytes.len() as u64);
        if format == Format::Perfetto {
            let contents = read(&bytes);
            assert_eq!(
                (contents.slices.len() as u64, contents.flows.len() as u64),
                (2 * slices, slices)
            );
            let is_right = |(_, _, from, to): &(String, String, String, String)| {
                from.starts_with("call") && to == "run"
            };
            assert!(contents.flows.iter().all(is_right));
        } else {
            let count = |phase: &str| {
                events(&bytes)
                    .iter()
                    .filter(|event| event["ph"] == phase)
                    .count() as u64
            };
            assert_eq!(
                (count("X"), count("s"), count("f"), count("C")),
                (2 * slices, slices, slices, slices)
            );
        }
    }
}
