#!/usr/bin/env python3
"""Checks the two files of the example `write_timeline` with Perfetto's own message classes and Python's JSON reader.

Usage: decode.py FILE.pftrace FILE.json

The package `perfetto` from PyPI contains the classes. If its program trace_processor can be downloaded, set
TRACE_PROCESSOR=1 to let it read both files as well.
"""

import collections
import json
import os
import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent

T0 = 10_000_000_000_000_001


class Sequence:
    """The state of a packet sequence: interned strings and the default track."""

    def __init__(self):
        self.names, self.categories, self.args, self.track = {}, {}, {}, None

    def update(self, packet):
        if packet.sequence_flags & TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
            self.__init__()
        if packet.HasField("trace_packet_defaults"):
            self.track = packet.trace_packet_defaults.track_event_defaults.track_uuid
        for strings, known in [
            (packet.interned_data.event_names, self.names),
            (packet.interned_data.event_categories, self.categories),
            (packet.interned_data.debug_annotation_names, self.args),
        ]:
            for string in strings:
                assert string.iid not in known, string
                known[string.iid] = string.name

    def value(self, annotation):
        if annotation.dict_entries:
            return {self.args[entry.name_iid]: self.value(entry) for entry in annotation.dict_entries}
        if annotation.array_values:
            return [self.value(item) for item in annotation.array_values]
        return getattr(annotation, annotation.WhichOneof("value"))


def unknown_fields(message):
    from google.protobuf.unknown_fields import UnknownFieldSet

    count = len(UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        repeated = getattr(field, "is_repeated", None)
        values = value if (repeated if repeated is not None else field.label == 3) else [value]
        count += sum(unknown_fields(item) for item in values)
    return count


def read_perfetto(path):
    trace = Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    assert unknown_fields(trace) == 0
    tracks, sequences, events = {}, collections.defaultdict(Sequence), []
    for packet in trace.packet:
        sequence = sequences[packet.trusted_packet_sequence_id]
        sequence.update(packet)
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if packet.HasField("track_event"):
            event = packet.track_event
            track = event.track_uuid if event.HasField("track_uuid") else sequence.track
            events.append((packet.timestamp, track, sequence, event))
    events.sort(key=lambda event: event[0])
    return trace, tracks, events


def track_name(descriptor):
    if descriptor.HasField("thread"):
        return f"{descriptor.thread.pid}/{descriptor.thread.tid} {descriptor.thread.thread_name}"
    return descriptor.name


def check_perfetto(path):
    trace, tracks, events = read_perfetto(path)
    slices, flows, instants, counters, legacy = [], collections.defaultdict(list), [], [], []
    stacks = collections.defaultdict(list)
    for at, track, sequence, event in events:
        name = sequence.names.get(event.name_iid)
        args = {sequence.args[arg.name_iid]: sequence.value(arg) for arg in event.debug_annotations}
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            item = [track_name(tracks[track]), name, sequence.categories[event.category_iids[0]], at - T0, None, args]
            stacks[track].append(item)
            slices.append(item)
            for flow in event.flow_ids:
                flows[flow].append(("out", name))
            for flow in event.terminating_flow_ids:
                flows[flow].append(("in", name))
        elif event.type == TrackEvent.TYPE_SLICE_END:
            stacks[track].pop()[4] = at - T0
        elif event.type == TrackEvent.TYPE_INSTANT:
            instants.append((at - T0, name))
        elif event.type == TrackEvent.TYPE_COUNTER:
            counters.append((at - T0, tracks[track].name, event.counter_value))
        else:
            assert event.HasField("legacy_event"), event
            enclosing = stacks[track][-1]
            category = sequence.categories[event.category_iids[0]]
            legacy.append((chr(event.legacy_event.phase), event.legacy_event.unscoped_id, category, name, enclosing[3]))
    assert not any(stacks.values())

    by_track = collections.Counter(item[0] for item in slices)
    assert by_track == {
        "4711/4711 main": 4,
        "2/7 Stream 7 (default)": 2,
        "2/13 Stream 13": 1,
        "4/1 Worker 0": 3,
        "NVTX ranges: loader": 1,
    }, by_track
    kernels = [item for item in slices if item[2] == "kernel"]
    assert [item[3:5] for item in kernels] == [[1500, 2400], [2500, 3400], [3500, 4400]]
    for number, kernel in enumerate(kernels, 1):
        assert kernel[5] == {
            "correlation": number,
            "grid": {"x": 4, "y": 1, "z": 1},
            "block": [256, 1, 1],
            "shared": 48,
            "occupancy": 0.75,
            "file": "vecadd.cu",
            "stream pointer": 0x7F0000001000,
        }, kernel[5]
    assert ["4711/4711 main", 'step "1"\n', "NVTX", 100, 5000, {}] in slices
    assert ["NVTX ranges: loader", "batch", "loader", 120, 4600, {"payload": -3}] in slices
    assert instants == [(4500, "event 1")]
    assert counters == [(50, "device bytes", 4096), (5100, "device bytes", 0)]
    assert [sorted(ends) for ends in flows.values()] == [[("in", "add(float*, int)"), ("out", "cuLaunchKernel")]] * 3
    assert legacy == [
        ("s", 2, "dep", "stream_order", 1500),
        ("f", 2, "dep", "stream_order", 2500),
        ("s", 3, "dep", "event", 2500),
        ("f", 3, "dep", "event", 3500),
    ], legacy
    processes = {d.process.pid: (d.process.process_name, d.sibling_order_rank) for d in tracks.values() if d.HasField("process")}
    assert processes == {
        4711: ("vecadd", 0),
        2: ("Device 0: Margay CPU", 1),
        3: ("Memory", 1002),
        4: ("Margay workers", 1003),
    }, processes
    assert tracks[0].process_ordering == tracks[0].thread_ordering == 1
    snapshot = [packet.clock_snapshot for packet in trace.packet if packet.HasField("clock_snapshot")]
    assert len(snapshot) == 1 and snapshot[0].primary_trace_clock == 3
    print(f"{path}: {len(trace.packet)} packets, {len(slices)} slices, {len(flows)} + {len(legacy) // 2} flows, "
          f"{len(counters)} counter values")


def check_chrome(path):
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    assert trace["displayTimeUnit"] == "ns"
    events = trace["traceEvents"]
    phases = collections.Counter(event["ph"] for event in events)
    assert {phase: phases[phase] for phase in "XBEbeisfC"} == {
        "X": 9, "B": 1, "E": 1, "b": 1, "e": 1, "i": 1, "s": 5, "f": 5, "C": 2,
    }, phases
    kernel = min((event for event in events if event.get("cat") == "kernel"), key=lambda event: event["ts"])
    assert (kernel["ts"], kernel["dur"], kernel["pid"], kernel["tid"]) == (1.5, 0.9, 2, 7)
    assert kernel["args"] == {
        "correlation": 1,
        "grid": {"x": 4, "y": 1, "z": 1},
        "block": [256, 1, 1],
        "shared": 48,
        "occupancy": 0.75,
        "file": "vecadd.cu",
        "stream pointer": "0x7f0000001000",
    }
    assert [event["name"] for event in events if event["ph"] == "B"] == ['step "1"\n']
    names = {(e["pid"], e.get("tid")): e["args"]["name"] for e in events if e.get("name") in ("process_name", "thread_name")}
    assert names[(1, None)] == "vecadd" and names[(2, 7)] == "Stream 7 (default)" and names[(4, 1)] == "Worker 0"
    print(f"{path}: {len(events)} events")


def check_with_trace_processor(path):
    from perfetto.trace_processor import TraceProcessor

    with TraceProcessor(trace=path) as processor:
        count = lambda query: list(processor.query(query))[0].n
        assert count("select count(*) as n from slice where dur >= 0") == 12, path
        assert count("select count(*) as n from flow") == 5, path
        assert count("select count(*) as n from counter") == 2, path
        assert count("select count(*) as n from stats where severity = 'error' and value > 0") == 0, path
    print(f"{path}: read by trace_processor")


if __name__ == "__main__":
    check_perfetto(sys.argv[1])
    check_chrome(sys.argv[2])
    if os.environ.get("TRACE_PROCESSOR"):
        check_with_trace_processor(sys.argv[1])
        check_with_trace_processor(sys.argv[2])
