//! The messages of Perfetto's format that the tests read, with the numbers of its published definitions.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub(crate) packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Packet {
    #[prost(message, optional, tag = "6")]
    pub(crate) clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    pub(crate) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub(crate) sequence: Option<u32>,
    #[prost(message, optional, tag = "11")]
    pub(crate) event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    pub(crate) interned: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    pub(crate) flags: Option<u32>,
    #[prost(message, optional, tag = "59")]
    pub(crate) defaults: Option<Defaults>,
    #[prost(message, optional, tag = "60")]
    pub(crate) descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(crate) clocks: Vec<Clock>,
    #[prost(uint32, optional, tag = "2")]
    pub(crate) primary: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Clock {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub(crate) timestamp: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Defaults {
    #[prost(message, optional, tag = "11")]
    pub(crate) event: Option<TrackEvent>,
    #[prost(uint32, optional, tag = "58")]
    pub(crate) clock: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(crate) name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub(crate) process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    pub(crate) thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    pub(crate) parent: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub(crate) counter: Option<CounterDescriptor>,
    #[prost(int32, optional, tag = "12")]
    pub(crate) rank: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(crate) pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub(crate) name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(crate) pid: Option<i32>,
    #[prost(int64, optional, tag = "2")]
    pub(crate) tid: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub(crate) name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CounterDescriptor {
    #[prost(int32, optional, tag = "3")]
    pub(crate) unit: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TrackEvent {
    #[prost(uint64, repeated, tag = "3")]
    pub(crate) categories: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) annotations: Vec<Annotation>,
    #[prost(message, optional, tag = "6")]
    pub(crate) legacy: Option<LegacyEvent>,
    #[prost(int32, optional, tag = "9")]
    pub(crate) kind: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    pub(crate) name: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub(crate) track: Option<u64>,
    #[prost(int64, optional, tag = "30")]
    pub(crate) value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(crate) flows: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub(crate) ending_flows: Vec<u64>,
    #[prost(uint64, optional, tag = "52")]
    pub(crate) correlation: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LegacyEvent {
    #[prost(int32, optional, tag = "2")]
    pub(crate) phase: Option<i32>,
    #[prost(uint64, optional, tag = "6")]
    pub(crate) id: Option<u64>,
    #[prost(bool, optional, tag = "12")]
    pub(crate) binds_to_enclosing: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Annotation {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) name: Option<u64>,
    #[prost(bool, optional, tag = "2")]
    pub(crate) bool_value: Option<bool>,
    #[prost(uint64, optional, tag = "3")]
    pub(crate) uint_value: Option<u64>,
    #[prost(int64, optional, tag = "4")]
    pub(crate) int_value: Option<i64>,
    #[prost(double, optional, tag = "5")]
    pub(crate) double_value: Option<f64>,
    #[prost(string, optional, tag = "6")]
    pub(crate) string_value: Option<String>,
    #[prost(uint64, optional, tag = "7")]
    pub(crate) pointer_value: Option<u64>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) entries: Vec<Annotation>,
    #[prost(message, repeated, tag = "12")]
    pub(crate) items: Vec<Annotation>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct InternedData {
    #[prost(message, repeated, tag = "1")]
    pub(crate) categories: Vec<Interned>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) names: Vec<Interned>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) annotation_names: Vec<Interned>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Interned {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) number: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(crate) name: Option<String>,
}
