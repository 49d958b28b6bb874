//! Chrome's format, read by `serde_json`.

use margay_timeline::{
    Arg, Event, FlowEnd, FlowKind, Format, Options, Quantity, StreamKind, Value, text_of_bytes,
};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::file::{options, written};

fn chrome() -> Options {
    options(Format::Chrome)
}

/// Returns the events other than metadata.
pub(crate) fn events(bytes: &[u8]) -> Vec<Json> {
    let Json::Object(mut file) = serde_json::from_slice(bytes).unwrap() else {
        panic!("an object");
    };
    assert_eq!(file["displayTimeUnit"], "ns");
    let Json::Array(events) = file["traceEvents"].take() else {
        panic!("an array");
    };
    events
        .into_iter()
        .filter(|event| event["ph"] != "M")
        .collect()
}

#[test]
fn text_of_a_small_file() {
    let bytes = written(&chrome(), |timeline| {
        let args = [
            Arg::new("result", 0),
            Arg::new("pointer", Value::Address(0x10)),
        ];
        let track = timeline.host_thread(77, "main");
        track.slice(
            1_000,
            3_005,
            &Event::new("cuda_driver", "cuInit")
                .correlation(1)
                .args(&args),
        );
    });
    let expected = r#"{"displayTimeUnit":"ns","traceEvents":[
{"ph":"M","name":"process_sort_index","pid":1,"args":{"sort_index":0}},
{"ph":"M","name":"process_name","pid":1,"args":{"name":"test"}},
{"ph":"M","name":"process_sort_index","pid":1,"args":{"sort_index":0}},
{"ph":"M","name":"process_labels","pid":1,"args":{"labels":"process 77"}},
{"ph":"M","name":"thread_name","pid":1,"tid":77,"args":{"name":"main"}},
{"ph":"M","name":"thread_sort_index","pid":1,"tid":77,"args":{"sort_index":0}},
{"ph":"X","name":"cuInit","cat":"cuda_driver","pid":1,"tid":77,"ts":1.000,"dur":2.005,"args":{"correlation":1,"result":0,"pointer":"0x10"}}
]}
"#;
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}

#[test]
fn every_kind_of_event_has_its_phase() {
    let bytes = written(&chrome(), |timeline| {
        let main = timeline.host_thread(77, "main");
        let stream = timeline.stream(0, 7, StreamKind::Default);
        main.begin(1_000, &Event::new("NVTX", "push"));
        main.begin_range(1_500, 26, &Event::new("io", "load"));
        let source = [FlowEnd::source(FlowKind::Launch, 4)];
        main.slice(
            2_000,
            3_000,
            &Event::new("cuda_driver", "cuLaunchKernel").flows(&source),
        );
        let target = [FlowEnd::target(FlowKind::Launch, 4)];
        let first = stream.slice(4_000, 5_000, &Event::new("kernel", "a").flows(&target));
        let second = stream.slice(5_000, 6_000, &Event::new("kernel", "b"));
        stream.flow(FlowKind::StreamOrder, 1, first, second);
        main.end_range(6_500, 26, "io", "load");
        main.instant(6_600, &Event::new("diagnostic", "slow copy"));
        main.end(7_000);
        timeline.counter(Quantity::DeviceBytes(0)).set(8_000, 512);
    });
    let mut events = events(&bytes);
    events.sort_by(|one, other| {
        one["ts"]
            .as_f64()
            .partial_cmp(&other["ts"].as_f64())
            .unwrap()
    });
    let place = |pid: u32, tid: u32, event: Json| {
        let mut event = event;
        event["pid"] = pid.into();
        event["tid"] = tid.into();
        event
    };
    let expected = [
        place(
            1,
            77,
            json!({"ph": "B", "name": "push", "cat": "NVTX", "ts": 1.0}),
        ),
        place(
            1,
            77,
            json!({"ph": "b", "name": "load", "cat": "io", "ts": 1.5, "id": "0x1a"}),
        ),
        place(
            1,
            77,
            json!({"ph": "X", "name": "cuLaunchKernel", "cat": "cuda_driver", "ts": 2.0, "dur": 1.0}),
        ),
        place(
            1,
            77,
            json!({"ph": "s", "name": "ac2g", "cat": "ac2g", "ts": 2.0, "id": 4}),
        ),
        place(
            2,
            7,
            json!({"ph": "X", "name": "a", "cat": "kernel", "ts": 4.0, "dur": 1.0}),
        ),
        place(
            2,
            7,
            json!({"ph": "f", "name": "ac2g", "cat": "ac2g", "ts": 4.0, "id": 4, "bp": "e"}),
        ),
        // An arrow leaves a slice in its last nanosecond, in which the slice is open.
        place(
            2,
            7,
            json!({"ph": "s", "name": "stream_order", "cat": "dep", "ts": 4.999, "id": 1}),
        ),
        place(
            2,
            7,
            json!({"ph": "X", "name": "b", "cat": "kernel", "ts": 5.0, "dur": 1.0}),
        ),
        place(
            2,
            7,
            json!({"ph": "f", "name": "stream_order", "cat": "dep", "ts": 5.0, "id": 1, "bp": "e"}),
        ),
        place(
            1,
            77,
            json!({"ph": "e", "name": "load", "cat": "io", "ts": 6.5, "id": "0x1a"}),
        ),
        place(
            1,
            77,
            json!({"ph": "i", "name": "slow copy", "cat": "diagnostic", "ts": 6.6, "s": "t"}),
        ),
        place(1, 77, json!({"ph": "E", "ts": 7.0})),
        json!({"ph": "C", "name": "device bytes", "pid": 3, "ts": 8.0, "args": {"live": 512}}),
    ];
    assert_eq!(events, expected);
}

#[test]
fn strings_are_escaped() {
    let bytes = written(&chrome(), |timeline| {
        let name = text_of_bytes(b"a\"b\\c\x01\n\xff\xf0\x9f");
        timeline
            .host_thread(77, "main")
            .instant(1, &Event::new("NVTX", &name));
    });
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(
        text.contains(r#""name":"a\"b\\c\u0001\n\\xff\\xf0\\x9f""#),
        "{text}"
    );
    assert_eq!(events(&bytes)[0]["name"], "a\"b\\c\u{1}\n\\xff\\xf0\\x9f");
}

#[test]
fn times_keep_their_nanoseconds() {
    let text = |origin: u64, at: u64| {
        let options = Options { origin, ..chrome() };
        let bytes = written(&options, |timeline| {
            timeline
                .host_thread(77, "main")
                .slice(at, at + 1, &Event::new("c", "n"));
        });
        let text = String::from_utf8(bytes).unwrap();
        let from = text.find("\"ts\":").unwrap();
        let until = text[from..].find('}').unwrap();
        text[from..from + until].to_owned()
    };
    assert_eq!(
        text(0, (1 << 53) + 1),
        r#""ts":9007199254740.993,"dur":0.001"#
    );
    assert_eq!(
        text(0, u64::MAX - 1),
        r#""ts":18446744073709551.614,"dur":0.001"#
    );
    assert_eq!(text(1 << 60, (1 << 60) + 42), r#""ts":0.042,"dur":0.001"#);
    assert_eq!(text(1_000_000, 998_999), r#""ts":-1.001,"dur":0.001"#);
}

#[test]
fn numbers_that_are_not_finite_are_strings() {
    let bytes = written(&chrome(), |timeline| {
        let args = [
            Arg::new("a", f64::NAN),
            Arg::new("b", f64::NEG_INFINITY),
            Arg::new("c", 1e300),
        ];
        timeline
            .host_thread(77, "main")
            .instant(1, &Event::new("c", "n").args(&args));
    });
    assert_eq!(
        events(&bytes)[0]["args"],
        json!({"a": "NaN", "b": "-inf", "c": 1e300})
    );
}

proptest! {
    #[test]
    fn any_text_is_read_back(name in ".*", argument in ".*", text in ".*", list in prop::collection::vec(any::<i64>(), 0..5)) {
        let bytes = written(&chrome(), |timeline| {
            let list: Vec<_> = list.iter().map(|value| Value::Int(*value)).collect();
            let inner = [Arg::new(&argument, text.as_str())];
            let args = [Arg::new("group", &inner[..]), Arg::new("list", &list[..])];
            timeline.host_thread(1, &name).slice(5, 6, &Event::new(&name, &name).args(&args));
        });
        let event = &events(&bytes)[0];
        prop_assert_eq!((&event["name"], &event["cat"]), (&json!(name), &json!(name)));
        prop_assert_eq!(&event["args"], &json!({"group": {argument: text}, "list": list}));
    }
}
