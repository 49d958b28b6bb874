//! Perfetto's format: bytes decoded by hand, and contents read by an independent decoder.

use margay_timeline::{
    Arg, Clocks, Event, FlowEnd, FlowKind, Format, MAX_DEPTH, Options, Process, Quantity,
    StreamKind, TOO_DEEP, Value,
};
use proptest::prelude::*;
use serde_json::json;

use crate::file::{options, written};
use crate::reader::{packets, read};

fn perfetto() -> Options {
    options(Format::Perfetto)
}

/// The packets of one slice on one track, byte by byte.
#[test]
fn bytes_of_a_slice() {
    let bytes = written(&perfetto(), |timeline| {
        let track = timeline.host_thread(77, "main");
        let args = [Arg::new("result", -1_i64)];
        track.slice(300, 301, &Event::new("cuda_driver", "cuInit").args(&args));
    });
    let packets = packets(&bytes);
    assert_eq!(packets.len(), 5, "root, process, thread, begin, end");
    #[rustfmt::skip]
    let expected = [
        // Trace.packet, 73 bytes: timestamp 300, sequence 2, sequence_flags 2
        0x0a, 73, 0x40, 0xac, 0x02, 0x50, 2, 0x68, 2,
        // track_event, 21 bytes: type SLICE_BEGIN, name_iid 1, category_iids 1
        0x5a, 21, 0x48, 1, 0x50, 1, 0x18, 1,
        // debug_annotations, 13 bytes: name_iid 1, int_value -1
        0x22, 13, 0x08, 1, 0x20, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
        // interned_data, 41 bytes: event_names {1, "cuInit"}
        0x62, 41, 0x12, 10, 0x08, 1, 0x12, 6, b'c', b'u', b'I', b'n', b'i', b't',
        // event_categories {1, "cuda_driver"}
        0x0a, 15, 0x08, 1, 0x12, 11, b'c', b'u', b'd', b'a', b'_', b'd', b'r', b'i', b'v', b'e', b'r',
        // debug_annotation_names {1, "result"}
        0x1a, 10, 0x08, 1, 0x12, 6, b'r', b'e', b's', b'u', b'l', b't',
        // Trace.packet: timestamp 301, sequence 2, sequence_flags 2, track_event {type SLICE_END}
        0x0a, 11, 0x40, 0xad, 0x02, 0x50, 2, 0x68, 2, 0x5a, 2, 0x48, 2,
    ];
    assert_eq!(bytes[bytes.len() - expected.len()..], expected);
    // The first packet: sequence 1, track_descriptor {uuid 0, process_ordering 1, thread_ordering 1}.
    let root = [
        0x0a, 13, 0x50, 1, 0xe2, 0x03, 8, 0x08, 0, 0x98, 1, 1, 0xa0, 1, 1,
    ];
    assert_eq!(bytes[..root.len()], root);
}

#[test]
fn a_slice_has_typed_arguments() {
    let size = [Arg::new("x", 4_u32), Arg::new("y", 2_u32)];
    let block = [Value::Uint(256), Value::Text("é\"\n")];
    let args = [
        Arg::new("flag", true),
        Arg::new("least", i64::MIN),
        Arg::new("most", u64::MAX),
        Arg::new("share", 0.1),
        Arg::new("none", f64::NAN),
        Arg::new("pointer", Value::Address(0x7f00)),
        Arg::new("grid", &size[..]),
        Arg::new("block", &block[..]),
        Arg::new("nothing", Value::Group(&[])),
        Arg::new("no items", Value::List(&[])),
    ];
    let contents = read(&written(&perfetto(), |timeline| {
        let stream = timeline.stream(1, 7, StreamKind::Default);
        let event = Event::new("kernel", "add").correlation(5).args(&args);
        stream.slice(1 << 54, (1 << 54) + 1, &event);
    }));
    let slice = &contents.slices[0];
    assert_eq!(
        (slice.begin, slice.end),
        (18_014_398_509_481_984, Some(18_014_398_509_481_985))
    );
    assert_eq!(
        (&*slice.category, &*slice.track),
        ("kernel", "Stream 7 (default)")
    );
    let expected = json!({
        "correlation": 5, "flag": true, "least": i64::MIN, "most": u64::MAX, "share": "0.1", "none": "NaN",
        "pointer": "0x7f00", "grid": {"x": 4, "y": 2}, "block": [256, "é\"\n"], "nothing": "{}", "no items": "[]",
    });
    assert_eq!(slice.args, expected);
}

#[test]
fn groups_that_are_nested_too_deeply_are_cut() {
    fn nested(depth: usize, inner: &[Arg<'_>], run: &mut dyn FnMut(&[Arg<'_>])) {
        if depth == 0 {
            run(inner);
        } else {
            nested(depth - 1, &[Arg::new("in", inner)], run);
        }
    }
    for format in [Format::Perfetto, Format::Chrome] {
        let bytes = written(&options(format), |timeline| {
            let track = timeline.worker(0);
            nested(MAX_DEPTH + 1000, &[Arg::new("in", 1)], &mut |args| {
                track.slice(1, 2, &Event::new("c", "n").args(args));
            });
        });
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!(text.matches(TOO_DEEP).count(), 1, "{format:?}");
    }
}

#[test]
fn arrows_lead_from_launch_to_run_and_along_dependences() {
    let contents = read(&written(&perfetto(), |timeline| {
        let thread = timeline.host_thread(77, "main");
        let stream = timeline.stream(0, 7, StreamKind::Created);
        let other = timeline.stream(0, 8, StreamKind::Created);
        let first = stream.slice(100, 200, &Event::new("kernel", "first"));
        let target = [FlowEnd::target(FlowKind::Launch, 9)];
        let second = other.slice(200, 300, &Event::new("kernel", "second").flows(&target));
        let third = stream.slice(200, 300, &Event::new("kernel", "third"));
        // A source has several targets, and the arrow to a run can be recorded before the call.
        other.flow(FlowKind::Event, 1, first, second);
        stream.flow(FlowKind::StreamOrder, 1, first, third);
        stream.flow(FlowKind::Launch, 3, thread.point(60), first);
        let source = [FlowEnd::source(FlowKind::Launch, 9)];
        thread.slice(
            70,
            80,
            &Event::new("cuda_driver", "cuLaunchKernel").flows(&source),
        );
        thread.slice(50, 65, &Event::new("cuda_driver", "cuGraphLaunch"));
    }));
    let mut flows: Vec<_> = contents
        .flows
        .iter()
        .map(|(a, b, c, d)| [&**a, &**b, &**c, &**d])
        .collect();
    flows.sort_unstable();
    let expected = [
        ["", "", "cuLaunchKernel", "second"],
        ["ac2g", "ac2g", "cuGraphLaunch", "first"],
        ["dep", "event", "first", "second"],
        ["dep", "stream_order", "first", "third"],
    ];
    assert_eq!(flows, expected);
}

#[test]
fn counters_are_below_the_memory_process() {
    let bytes = written(&perfetto(), |timeline| {
        let counter = timeline.counter(Quantity::DeviceBytes(0));
        counter.set(5, 4096);
        timeline.counter(Quantity::DeviceBytes(1)).set(6, -1);
        counter.set(7, 0);
        timeline.counter(Quantity::Count("launches")).set(8, 1);
    });
    let contents = read(&bytes);
    let expected = [
        (5, "device bytes", 4096),
        (6, "device 1 bytes", -1),
        (7, "device bytes", 0),
        (8, "launches", 1),
    ];
    let values: Vec<_> = contents
        .values
        .iter()
        .map(|(at, name, value)| (*at, &**name, *value))
        .collect();
    assert_eq!(values, expected);
    let by_name = |name: &str| {
        contents
            .tracks
            .values()
            .find(|track| track.name.as_deref() == Some(name))
            .unwrap()
    };
    let parent = &contents.tracks[&by_name("device bytes").parent.unwrap()];
    assert_eq!(
        parent.process.as_ref().unwrap().name.as_deref(),
        Some("Memory")
    );
    let unit = |name| by_name(name).counter.as_ref().unwrap().unit;
    assert_eq!((unit("device bytes"), unit("launches")), (Some(3), Some(2)));
    assert!(by_name("device bytes").rank < by_name("device 1 bytes").rank);
}

#[test]
fn processes_threads_and_ranges_have_names_and_order() {
    let bytes = written(&perfetto(), |timeline| {
        timeline.name_process(Process::Device(0), "Device 0: Margay");
        let helper = timeline.host_thread(78, "helper");
        timeline.host_thread(77, "main");
        timeline
            .stream(0, 12, StreamKind::PerThread)
            .rename("copies");
        helper.begin_range(5, 1, &Event::new("NVTX", "load"));
        helper.begin_range(6, 2, &Event::new("solver", "step"));
        helper.end_range(9, 1, "NVTX", "load");
        timeline
            .host_thread(77, "main")
            .end_range(8, 2, "solver", "step");
    });
    let contents = read(&bytes);
    let outline = contents.outline();
    let expected = [
        ("NVTX ranges", "load", 5, Some(9), 0),
        ("NVTX ranges: solver", "step", 6, Some(8), 0),
    ];
    assert_eq!(outline, expected);
    let mut threads: Vec<_> = contents
        .tracks
        .values()
        .filter(|track| track.thread.is_some())
        .collect();
    threads.sort_by_key(|track| (track.thread.as_ref().unwrap().pid, track.rank));
    let names: Vec<_> = threads
        .iter()
        .map(|track| track.thread.as_ref().unwrap().name.as_deref().unwrap())
        .collect();
    assert_eq!(names, ["copies", "main", "helper"]);
    let mut groups: Vec<_> = contents
        .tracks
        .values()
        .filter(|track| track.process.is_some())
        .collect();
    groups.sort_by_key(|track| track.rank);
    let names: Vec<_> = groups
        .iter()
        .map(|track| track.process.as_ref().unwrap().name.as_deref().unwrap())
        .collect();
    assert_eq!(names, ["test", "Device 0: Margay"]);
}

#[test]
fn clocks_are_written_and_named() {
    let clocks = Clocks {
        monotonic: 10,
        boottime: 20,
        realtime: 30,
    };
    let with_clocks = Options {
        clocks: Some(clocks),
        ..perfetto()
    };
    let packets = packets(&written(&with_clocks, |timeline| {
        timeline
            .host_thread(77, "main")
            .instant(11, &Event::new("c", "n"))
    }));
    let snapshot = packets
        .iter()
        .find_map(|packet| packet.clock_snapshot.as_ref())
        .unwrap();
    let readings: Vec<_> = snapshot
        .clocks
        .iter()
        .map(|clock| (clock.id.unwrap(), clock.timestamp.unwrap()))
        .collect();
    assert_eq!(
        (readings, snapshot.primary),
        (vec![(3, 10), (6, 20), (1, 30)], Some(3))
    );
    let defaults: Vec<_> = packets
        .iter()
        .filter_map(|packet| packet.defaults.as_ref()?.clock)
        .collect();
    assert_eq!(defaults, [3]);
}

#[test]
fn interned_strings_start_again_when_they_take_too_much_memory() {
    let bytes = written(&perfetto(), |timeline| {
        let track = timeline.worker(0);
        for index in 0..10_000 {
            track.slice(
                2 * index,
                2 * index + 1,
                &Event::new("worker", &format!("kernel {index}")),
            );
        }
    });
    let contents = read(&bytes);
    let is_right =
        |(index, slice): (usize, &crate::reader::Slice)| slice.name == format!("kernel {index}");
    assert_eq!(contents.slices.len(), 10_000);
    assert!(contents.slices.iter().enumerate().all(is_right));
    let cleared = packets(&bytes)
        .iter()
        .filter(|packet| packet.flags == Some(1))
        .count();
    assert!((3..6).contains(&cleared), "{cleared}");
}

proptest! {
    #[test]
    fn any_text_is_read_back(name in ".*", category in ".*", argument in ".*", text in ".*", value: i64, at in 0..u64::MAX) {
        let contents = read(&written(&perfetto(), |timeline| {
            let args = [Arg::new(&argument, text.as_str()), Arg::new("value", value)];
            timeline.host_thread(1, &name).slice(at, at + 1, &Event::new(&category, &name).args(&args[usize::from(argument == "value")..]));
        }));
        let slice = &contents.slices[0];
        prop_assert_eq!((&slice.name, &slice.category, &slice.track), (&name, &category, &name));
        prop_assert_eq!((slice.begin, slice.end), (at, Some(at + 1)));
        prop_assert_eq!(&slice.args["value"], &json!(value));
        if argument != "value" {
            prop_assert_eq!(&slice.args[&argument], &json!(text));
        }
    }
}
