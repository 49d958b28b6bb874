#!/usr/bin/env python3
"""Runs `timeline.c` with `margay trace` and compares what its Perfetto file contains with the calls of the program.

Usage: program.py FOLDER SOURCES

FOLDER contains the program `margay` and the driver library, SOURCES contains `timeline.c`.
"""

import collections
import os
import subprocess
import sys
import tempfile

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent

import decode

# What the program does: calls by name (those that it repeats or that matter here), kernels, copies.
CALLS = {
    "cuModuleLoadData": 1,
    "cuMemAlloc_v2": 2,
    "cuMemcpyHtoD_v2": 1,
    "cuStreamCreate": 2,
    "cuLaunchKernel": 6,
    "cuEventRecord": 1,
    "cuStreamWaitEvent": 1,
    "cuStreamBeginCapture_v2": 1,
    "cuStreamEndCapture": 1,
    "cuGraphLaunch": 1,
    "cuMemcpyDtoDAsync_v2": 1,
    "cuMemcpyDtoH_v2": 1,
    "cuStreamSynchronize": 2,
    "cuMemFree_v2": 1,
}
WORK = {"increment": 6, "Memcpy HtoD": 1, "Memcpy DtoD": 1, "Memcpy DtoH": 1}
# Arrows: from the call to each piece of work, and along the order of the streams, the event and the graph.
ARROWS = {"ac2g": 9, "stream_order": 4, "event": 1, "graph": 2}


def trace(folder, sources, work):
    """Returns the path of the timeline of the program."""
    library = os.path.join(work, "libcuda.so.1")
    os.symlink(os.path.join(folder, "libcuda.so"), library)
    program = os.path.join(work, "timeline")
    options = ["-std=gnu11", "-O0", "-o", program, os.path.join(sources, "timeline.c"), library]
    subprocess.run(["cc", *options], check=True)
    file = os.path.join(work, "timeline.pftrace")
    command = [os.path.join(folder, "margay"), "trace", "--perfetto", file, "--", program]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return file


def check(file):
    _, _, events = decode.read_perfetto(file)
    slices = collections.defaultdict(collections.Counter)
    arrows, open_slices, live = collections.Counter(), collections.Counter(), []
    for _, track, sequence, event in events:
        name = sequence.names.get(event.name_iid)
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            slices[sequence.categories[event.category_iids[0]]][name] += 1
            open_slices[track] += 1
        elif event.type == TrackEvent.TYPE_SLICE_END:
            open_slices[track] -= 1
        elif event.type == TrackEvent.TYPE_COUNTER:
            live.append(event.counter_value)
        elif event.HasField("legacy_event"):
            arrows[name, chr(event.legacy_event.phase)] += 1
            assert open_slices[track] > 0, event
    assert not any(open_slices.values()), open_slices
    calls = slices["cuda_driver"] + slices["cuda_sync"]
    assert {name: calls[name] for name in CALLS} == CALLS, calls
    work = slices["kernel"] + slices["gpu_memcpy"]
    assert work == WORK, work
    assert arrows == {(name, end): count for name, count in ARROWS.items() for end in "sf"}, arrows
    assert live == [512, 0], live
    count = sum(sum(names.values()) for names in slices.values())
    print(f"{file}: {count} slices, {sum(ARROWS.values())} flows, {len(live)} counter values")


if __name__ == "__main__":
    folder, sources = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as work:
        check(trace(folder, sources, work))
