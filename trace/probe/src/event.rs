//! The lines of `event.log`.

use std::fmt;

use crate::layout::Geometry;
use crate::model::Level;

/// An event. Its text is one line of `event.log`, without the line break.
#[derive(Clone, PartialEq, Debug)]
pub enum Event<'e> {
    /// The tool started in the process with this number.
    Process(u32),
    /// The command line of the process, with spaces between the words.
    Command(&'e str),
    /// The tool is ready.
    Ready,
    /// A module was loaded or asked for; the text describes the call.
    Module(&'e str),
    /// A module's image: its type (`ptx`, `elf`, `fatbin` or `warpped_fatbin`) and its bytes.
    Image(&'e str, u64),
    /// Memory was allocated: the result of the call, the address and the bytes.
    Alloc(u32, u64, u64),
    /// Memory was freed: the result of the call and the address.
    Free(u32, u64),
    /// A launched function is unknown.
    Unknown(u64),
    /// The state of the tool's work on a kernel, such as `find`, `mkdir`, `write` or `finish`, and facts about it.
    Probe(&'e str, &'e str),
    /// The maximum of bytes in a slot that the counting run found.
    Count(u32),
    /// The arguments of a launch: nanoseconds since 1970 and the values.
    Arguments(u64, &'e [u64]),
    /// The shape of a launch.
    Launch(Geometry),
    /// A launch of a kernel that is not probed.
    Unprobed(Geometry),
    /// The memory of one map: its level, the CTAs, the slots of a CTA, the bytes of a slot, and all bytes.
    Map(Level, u64, u64, i64, u64),
    /// The memory of all maps in bytes.
    Memory(u64),
    /// The result of a launch; 0 means success.
    Result(u32),
    /// A result file was written: its path and its bytes.
    Saved(&'e str, u64),
    /// A result file could not be written.
    NotSaved(&'e str),
    /// `SAVE`s that were dropped: the name of the map and their number.
    Dropped(&'e str, u64),
    /// The milliseconds before, in and after the kernel.
    Times(f64, f64, f64),
    /// The times of a benchmark: milliseconds before, in and after the kernel, those of the kernel without probes, and
    /// the result of the last launch.
    Benchmark(f64, f64, f64, f64, u32),
    /// A callback started: the interpreter, the script and the result file.
    Callback(&'e str, &'e str, &'e str),
    /// A callback ended; true means success.
    CallbackEnded(bool),
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Event::Process(number) => write!(f, "[init] pid {number}"),
            Event::Command(text) => write!(f, "[init] cmd {} {text}", text.len()),
            Event::Ready => f.write_str("[init] success"),
            Event::Module(text) => write!(f, "[mod] {text}"),
            Event::Image(kind, bytes) => write!(f, "[bin] type {kind} size {bytes}"),
            Event::Alloc(result, address, bytes) => {
                write!(
                    f,
                    "[mem] cuMemAlloc_v2 {result} dptr {address:x} bytesize {bytes}"
                )
            }
            Event::Free(result, address) => {
                write!(f, "[mem] cuMemFree_v2 {result} dptr {address:x}")
            }
            Event::Unknown(function) => write!(f, "[exec] funcmap-not-find {function:#x}"),
            Event::Probe(state, "") => write!(f, "[probe] {state}"),
            Event::Probe(state, facts) => write!(f, "[probe] {state} {facts}"),
            Event::Count(bytes) => write!(f, "[count] size: {bytes} "),
            Event::Arguments(time, values) => {
                write!(f, "[exec] {time} param ")?;
                values.iter().try_for_each(|value| write!(f, "{value:x} "))
            }
            Event::Launch(launch) => write!(f, "[exec] grid {}", Shape(launch)),
            Event::Unprobed(launch) => write!(f, "[exec] backup {}", Shape(launch)),
            Event::Map(level, ctas, slots, slot, total) => {
                // The original pads `warp` to the width of `block`.
                let word = match level {
                    Level::Thread => "block",
                    Level::Warp => "warp ",
                };
                write!(
                    f,
                    "[exec] grid {ctas} {word} {slots} probe {slot} total {total}"
                )
            }
            Event::Memory(bytes) => write!(f, "[exec] probe-mem {bytes} (bytes)"),
            Event::Result(0) => f.write_str("[exec] succeed 0"),
            Event::Result(code) => write!(f, "[exec] failed {code}"),
            Event::Saved(path, bytes) => write!(f, "[exec] save {path} size {bytes}"),
            Event::NotSaved(path) => write!(f, "[exec] can't-save {path}"),
            Event::Dropped(map, count) => write!(f, "[exec] {map}: {count} records dropped"),
            Event::Times(before, kernel, after) => {
                let ratio = (before + kernel + after) / kernel;
                write!(
                    f,
                    "[exec] prologue {before:.6} kernel {kernel:.6} epilogue {after:.6} ratio {ratio:.6}"
                )
            }
            Event::Benchmark(before, kernel, after, original, result) => {
                let impact = kernel / original;
                write!(
                    f,
                    "[benchmark] prologue {before:.6} kernel {kernel:.6} epilogue {after:.6} original {original:.6} impact {impact:.6} {result}"
                )
            }
            Event::Callback(python, script, file) => {
                write!(f, "[callback] subproc {python} {script} {file}")
            }
            Event::CallbackEnded(true) => f.write_str("[callback] succeed"),
            Event::CallbackEnded(false) => f.write_str("[callback] failed"),
        }
    }
}

struct Shape(Geometry);

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Geometry {
            grid: [x, y, z],
            block: [a, b, c],
            shared,
        } = self.0;
        write!(f, "{x} {y} {z} block {a} {b} {c} shared {shared}")
    }
}
