//! Generates `read.py`, the Python program that reads the result files of a probe file.

use std::fmt::Write;

use crate::model::{Map, ProbeFile};
use crate::width::Width;

/// How the reader counts the warps of a CTA.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Warps {
    /// A last warp with fewer than 32 threads counts.
    #[default]
    RoundedUp,
    /// Only full warps count, as in the original's reader.
    RoundedDown,
}

const START: &str = r#"# Reads the result files of these probes. It needs only the standard library of Python.
#
#     header, sections, records = parse("result/0.123456.bin")
#
# records[map][cta][slot] is the list of the records of one thread or warp. Fields of 64 bits are signed.
import struct
from collections import namedtuple

TraceHeader = namedtuple("TraceHeader", "gridDimX gridDimY gridDimZ blockDimX blockDimY blockDimZ sharedMemBytes numProbes")
TraceSection = namedtuple("TraceSection", "size warpDiv offset")

# For each map: the type of its records, and how a record is stored.
MAPS = [
"#;

/// Returns the text of `read.py`.
pub fn reader(file: &ProbeFile, warps: Warps) -> String {
    let mut text = START.to_owned();
    for map in &file.maps {
        let fields: Vec<String> = map
            .layout()
            .iter()
            .map(|(index, _)| format!("{:?}", map.fields[*index].name))
            .collect();
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "    ({:?}, namedtuple({:?}, [{}], rename=True), struct.Struct({:?})),",
            map.name,
            map.name,
            fields.join(", "),
            format(map)
        );
    }
    text.push_str("]\n\n\n");
    let slots = match warps {
        Warps::RoundedUp => "-(-threads // section.warpDiv)",
        Warps::RoundedDown => "threads // section.warpDiv",
    };
    text.push_str(&END.replace("SLOTS", slots));
    text
}

const END: &str = r#"def parse(path):
    with open(path, "rb") as file:
        data = file.read()
    header = TraceHeader(*struct.unpack_from("<8i", data, 0))
    sections = [TraceSection(*struct.unpack_from("<IIQ", data, 32 + 16 * i)) for i in range(header.numProbes)]
    ctas = header.gridDimX * header.gridDimY * header.gridDimZ
    threads = header.blockDimX * header.blockDimY * header.blockDimZ
    records = {}
    for (name, record, layout), section in zip(MAPS, sections):
        slots = SLOTS
        count = section.size // layout.size

        def slot(index):
            start = section.offset + index * section.size
            return [record._make(layout.unpack_from(data, start + k * layout.size)) for k in range(count)]

        records[name] = [[slot(cta * slots + i) for i in range(slots)] for cta in range(ctas)]
    return header, sections, records


if __name__ == "__main__":
    import sys

    header, sections, records = parse(sys.argv[1])
    print(header)
    for name, ctas in records.items():
        for cta, slots in enumerate(ctas):
            for slot, found in enumerate(slots):
                print(name, cta, slot, *(tuple(record) for record in found))
"#;

/// Returns the format of a record for Python's `struct`.
fn format(map: &Map) -> String {
    let mut format = "<".to_owned();
    let mut bytes = 0;
    for (index, _) in map.layout() {
        let width = map.fields[index].width;
        format.push(match width {
            Width::U64 => 'q',
            Width::U32 => 'I',
        });
        bytes += width.bytes();
    }
    if bytes < map.record {
        let _ = write!(format, "{}x", map.record - bytes);
    }
    format
}
