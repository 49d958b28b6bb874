//! Reads Perfetto's format as its trace processor does: resolves interned strings, sorts by time, and nests slices.

use std::collections::HashMap;

use prost::Message;
use serde_json::{Map, Value, json};

use crate::proto::{Annotation, Interned, Packet, Trace, TrackDescriptor, TrackEvent};

/// What a file contains, in the order of times.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) slices: Vec<Slice>,
    /// Time and name.
    pub(crate) instants: Vec<(u64, String)>,
    /// Time, name of the track, value.
    pub(crate) values: Vec<(u64, String, i64)>,
    /// Category, name of the arrow, names of the slices at both ends.
    pub(crate) flows: Vec<(String, String, String, String)>,
    pub(crate) tracks: HashMap<u64, TrackDescriptor>,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Slice {
    pub(crate) track: String,
    pub(crate) name: String,
    pub(crate) category: String,
    pub(crate) begin: u64,
    pub(crate) end: Option<u64>,
    pub(crate) depth: usize,
    pub(crate) args: Value,
}

impl Contents {
    /// Returns track, name, begin, end and depth of each slice.
    pub(crate) fn outline(&self) -> Vec<(&str, &str, u64, Option<u64>, usize)> {
        let outline = |slice: &'_ Slice| (slice.begin, slice.end, slice.depth);
        self.slices
            .iter()
            .map(|slice| (&*slice.track, &*slice.name, outline(slice)))
            .map(|(track, name, (begin, end, depth))| (track, name, begin, end, depth))
            .collect()
    }
}

/// The state of a sequence of packets.
#[derive(Default)]
struct Sequence {
    names: HashMap<u64, String>,
    categories: HashMap<u64, String>,
    args: HashMap<u64, String>,
    track: Option<u64>,
    is_valid: bool,
}

/// An event whose strings are resolved.
struct Resolved {
    at: u64,
    track: u64,
    name: String,
    category: String,
    args: Value,
    event: TrackEvent,
}

pub(crate) fn packets(bytes: &[u8]) -> Vec<Packet> {
    Trace::decode(bytes).unwrap().packet
}

pub(crate) fn read(bytes: &[u8]) -> Contents {
    let mut contents = Contents::default();
    let mut sequences: HashMap<u32, Sequence> = HashMap::new();
    let mut events = Vec::new();
    for packet in packets(bytes) {
        let sequence = sequences.entry(packet.sequence.unwrap()).or_default();
        sequence.update(&packet);
        if let Some(descriptor) = packet.descriptor {
            contents.tracks.insert(descriptor.uuid.unwrap(), descriptor);
        }
        if let Some(event) = packet.event {
            events.push(sequence.resolve(packet.timestamp.unwrap(), event));
        }
    }
    events.sort_by_key(|event| event.at);
    contents.replay(events);
    contents
}

impl Sequence {
    fn update(&mut self, packet: &Packet) {
        let flags = packet.flags.unwrap_or(0);
        if flags & 1 != 0 {
            *self = Sequence {
                is_valid: true,
                ..Sequence::default()
            };
        }
        assert!(
            flags & 2 == 0 || self.is_valid,
            "needs state that was not sent"
        );
        if let Some(defaults) = &packet.defaults {
            self.track = defaults.event.as_ref().unwrap().track;
        }
        if let Some(interned) = &packet.interned {
            define(&mut self.categories, &interned.categories);
            define(&mut self.names, &interned.names);
            define(&mut self.args, &interned.annotation_names);
        }
    }

    fn resolve(&self, at: u64, event: TrackEvent) -> Resolved {
        let args = event
            .annotations
            .iter()
            .map(|arg| (self.args[&arg.name.unwrap()].clone(), self.value(arg)));
        Resolved {
            at,
            track: event.track.or(self.track).unwrap(),
            name: event
                .name
                .map(|number| self.names[&number].clone())
                .unwrap_or_default(),
            category: event
                .categories
                .first()
                .map(|number| self.categories[number].clone())
                .unwrap_or_default(),
            args: Value::Object(args.collect()),
            event,
        }
    }

    fn value(&self, annotation: &Annotation) -> Value {
        if !annotation.entries.is_empty() {
            let entries = annotation.entries.iter();
            let named =
                entries.map(|entry| (self.args[&entry.name.unwrap()].clone(), self.value(entry)));
            return Value::Object(named.collect::<Map<_, _>>());
        }
        if !annotation.items.is_empty() {
            return annotation
                .items
                .iter()
                .map(|item| self.value(item))
                .collect();
        }
        let values = [
            annotation.bool_value.map(|value| json!(value)),
            annotation.uint_value.map(|value| json!(value)),
            annotation.int_value.map(|value| json!(value)),
            annotation
                .double_value
                .map(|value| json!(value.to_string())),
            annotation.string_value.as_ref().map(|value| json!(value)),
            annotation
                .pointer_value
                .map(|value| json!(format!("{value:#x}"))),
        ];
        let mut present = values.into_iter().flatten();
        let value = present.next().unwrap();
        assert_eq!(present.next(), None, "one value of the group");
        value
    }
}

fn define(known: &mut HashMap<u64, String>, strings: &[Interned]) {
    for string in strings {
        let before = known.insert(string.number.unwrap(), string.name.clone().unwrap());
        assert_eq!(before, None, "defined twice");
    }
}

impl Contents {
    fn replay(&mut self, events: Vec<Resolved>) {
        let mut open: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut sources: HashMap<(String, String, u64), usize> = HashMap::new();
        for event in events {
            let stack = open.entry(event.track).or_default();
            match event.event.kind {
                Some(1) => {
                    stack.push(self.slices.len());
                    self.begin(&event, stack.len() - 1, &mut sources);
                }
                Some(2) => self.slices[stack.pop().expect("a slice is open")].end = Some(event.at),
                Some(3) => self.instants.push((event.at, event.name)),
                Some(4) => {
                    let track = self.track(event.track);
                    self.values
                        .push((event.at, track, event.event.value.unwrap()));
                }
                _ => {
                    let legacy = event.event.legacy.as_ref().expect("an arrow");
                    let slice = *stack.last().expect("an arrow ends at a slice");
                    let is_source = legacy.phase == Some(i32::from(b's'));
                    assert_eq!(legacy.binds_to_enclosing.unwrap_or(false), !is_source);
                    let key = (event.category, event.name, legacy.id.unwrap());
                    self.flow_end(key, slice, is_source, &mut sources);
                }
            }
        }
    }

    fn begin(
        &mut self,
        event: &Resolved,
        depth: usize,
        sources: &mut HashMap<(String, String, u64), usize>,
    ) {
        let index = self.slices.len();
        self.slices.push(Slice {
            track: self.track(event.track),
            name: event.name.clone(),
            category: event.category.clone(),
            begin: event.at,
            end: None,
            depth,
            args: event.args.clone(),
        });
        for (ids, is_source) in [
            (&event.event.flows, true),
            (&event.event.ending_flows, false),
        ] {
            for id in ids {
                self.flow_end(
                    (String::new(), String::new(), *id),
                    index,
                    is_source,
                    sources,
                );
            }
        }
    }

    fn flow_end(
        &mut self,
        key: (String, String, u64),
        slice: usize,
        is_source: bool,
        sources: &mut HashMap<(String, String, u64), usize>,
    ) {
        if is_source {
            assert_eq!(sources.insert(key, slice), None, "two sources");
        } else {
            let source = sources.remove(&key).expect("the source of an arrow");
            let name = |slice: usize| self.slices[slice].name.clone();
            self.flows.push((key.0, key.1, name(source), name(slice)));
        }
    }

    fn track(&self, uuid: u64) -> String {
        let descriptor = &self.tracks[&uuid];
        let thread = descriptor
            .thread
            .as_ref()
            .and_then(|thread| thread.name.clone());
        thread.or_else(|| descriptor.name.clone()).unwrap()
    }
}
