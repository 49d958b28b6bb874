//! Reads the log of a checking run: lines of JSON that the processes of the program have written.
//!
//! A line with the member `kind` is a finding. A line with `event` states something about a process or about the run:
//! for example, that the process has initialised the library or has launched a kernel. Other lines update the count and
//! the severity of a finding, which `pid` and `id` identify. A line that cannot be read is counted and left out,
//! because a process may end while it writes.

use std::collections::{BTreeSet, HashMap};

use margay::checks::{Severity, Tool};
use serde_json::Value;

use super::runtime_api;

/// Coordinates of a thread or a block.
pub(crate) type Coordinates = [u64; 3];

/// The position of an instruction in a kernel.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Spot {
    pub(crate) file: Option<String>,
    /// The line of the source; for inlined code, the line of the outermost inlined call.
    pub(crate) line: Option<u64>,
    pub(crate) ptx_line: Option<u64>,
    /// File and line in each inlined function, from the outermost to the innermost.
    pub(crate) inlined: Vec<(String, u64)>,
    /// The offset of the instruction from the start of the kernel.
    pub(crate) pc: Option<u64>,
}

impl Spot {
    /// Returns the source locations (file and line) of the instruction: the location in the innermost
    /// inlined function first, and that in the kernel last.
    pub(crate) fn stack(&self) -> Vec<(&str, u64)> {
        let inner = self.inlined.iter().rev();
        let inner = inner.map(|(file, line)| (file.as_str(), *line));
        let outer = self.file.as_deref().zip(self.line);
        inner.chain(outer).collect()
    }
}

/// A function on the host's stack.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct HostFrame {
    pub(crate) function: String,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u64>,
    pub(crate) module: Option<String>,
    pub(crate) offset: Option<u64>,
}

/// One access of a race; the fields of the [`Record`] itself describe the other access.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Other {
    pub(crate) kernel: Option<String>,
    pub(crate) spot: Spot,
    pub(crate) access: String,
    pub(crate) thread: Option<Coordinates>,
    pub(crate) block: Option<Coordinates>,
}

/// A finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub(crate) tool: String,
    pub(crate) kind: String,
    pub(crate) severity: Severity,
    pub(crate) message: String,
    /// An additional sentence that explains the message for this finding.
    pub(crate) explanation: Option<String>,
    pub(crate) kernel: Option<String>,
    pub(crate) spot: Spot,
    pub(crate) access: Option<String>,
    pub(crate) space: Option<String>,
    pub(crate) size: Option<u64>,
    pub(crate) thread: Option<Coordinates>,
    pub(crate) block: Option<Coordinates>,
    /// The index of a warp in the block, and the mask of the lanes that the finding concerns.
    pub(crate) lanes: Option<(u64, u64)>,
    pub(crate) address: Option<u64>,
    pub(crate) allocation: Option<String>,
    pub(crate) other: Option<Other>,
    pub(crate) missing: Option<String>,
    pub(crate) count: u64,
    pub(crate) host: Vec<HostFrame>,
    /// The host's stack at the call that allocated the memory, if `host` is the stack of another
    /// call.
    pub(crate) origin: Vec<HostFrame>,
    /// The processes in which the finding occurred.
    pub(crate) pids: BTreeSet<u64>,
}

impl Record {
    pub(crate) fn is_of(&self, tool: Tool) -> bool {
        self.tool == tool.name()
    }

    /// Returns a key of this finding. If findings of several processes have equal keys, reports
    /// list them as one finding.
    fn identity(&self) -> impl Eq + std::hash::Hash + use<> {
        // Objects that one place creates are one finding, so their addresses do not count.
        let is_by_place = self.kind == "leaked-object" && !self.host.is_empty();
        let described = || (!is_by_place).then(|| (self.address, self.message.clone()));
        let host = self.kernel.is_none();
        (
            self.kind.clone(),
            self.kernel.clone(),
            self.spot.clone(),
            self.other.as_ref().map(|other| other.spot.clone()),
            host.then(|| (described(), self.host.clone())),
        )
    }

    /// Returns the key by which reports sort the findings.
    fn order(&self) -> impl Ord + '_ {
        let tool = Tool::ALL.iter().position(|tool| self.is_of(*tool));
        (
            (tool.unwrap_or(usize::MAX), &self.tool),
            &self.kernel,
            (&self.spot.file, self.spot.line, self.spot.ptx_line),
            self.other.as_ref().map(|other| &other.spot),
            &self.kind,
            &self.spot,
            (&self.message, self.address),
        )
    }

    /// Merges `same`, which is the same finding in another process, into this finding. If the two
    /// descriptions differ, keeps the description that names the lower block and thread, so that
    /// the result does not depend on the order of the processes.
    fn absorb(&mut self, mut same: Record) {
        let place = |record: &Record| (record.block, record.thread, record.address);
        if place(&same) < place(self) {
            std::mem::swap(self, &mut same);
        }
        self.count = self.count.saturating_add(same.count);
        self.severity = self.severity.max(same.severity);
        self.pids.append(&mut same.pids);
    }
}

/// A launch of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Launch {
    pub(crate) pid: u64,
    pub(crate) kernel: String,
    pub(crate) grid: Coordinates,
    pub(crate) block: Coordinates,
    /// Number of bytes of dynamic shared memory.
    pub(crate) shared: u64,
}

/// The content of the log of a checking run.
#[derive(Default, Debug)]
pub(crate) struct Log {
    /// The findings, sorted.
    pub(crate) records: Vec<Record>,
    /// The launches in the order in which they began.
    pub(crate) launches: Vec<Launch>,
    /// The processes that have initialised the library.
    pub(crate) started: BTreeSet<u64>,
    /// The processes that examine memory and objects when they exit.
    pub(crate) exits: BTreeSet<u64>,
    /// The processes of `exits` that have done this.
    pub(crate) exited: BTreeSet<u64>,
    /// Whether the order in which threads ran determined which threads synchronised with each
    /// other. If so, the reported races are those of this order only.
    pub(crate) one_order: bool,
    /// Whether some memory was not examined for leaks, because an error had ended its context, or because its process
    /// ended without exit handlers.
    pub(crate) leaks_unexamined: bool,
    /// Whether a kernel did not run because an error had ended its context.
    pub(crate) kernels_skipped: bool,
    /// Number of lines that could not be read.
    pub(crate) damaged: u64,
    /// Whether lines are missing or damaged, for example because a process could not write them.
    pub(crate) incomplete: bool,
    /// Whether the file contains the line with which files of `--save` end. Logs of running
    /// programs have no such line.
    pub(crate) has_end: bool,
}

/// Reads a log. If `pid` is given, ignores the lines of all other processes.
pub(crate) fn parse(bytes: &[u8], pid: Option<u64>) -> Log {
    let mut log = Log::default();
    let mut found: Vec<Record> = Vec::new();
    let mut known: HashMap<(u64, u64), usize> = HashMap::new();
    for line in bytes.split(|&byte| byte == b'\n') {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let value = serde_json::from_slice(line).unwrap_or(Value::Null);
        let from = number(&value, "pid").unwrap_or(0);
        if value.is_object() && pid.is_some_and(|pid| pid != from) {
            continue;
        }
        if let Some(record) = finding(&value) {
            // A later process may have the same process ID, so updates apply to the latest finding with this `pid` and
            // `id`.
            if let Some(id) = number(&value, "id") {
                known.insert((from, id), found.len());
            }
            found.push(record);
        } else if read_event(&value, from, &mut log).is_none()
            && update(&value, from, &known, &mut found).is_none()
        {
            log.damaged += 1;
        }
    }
    log.incomplete |= log.damaged > 0;
    log.records = merge(found);
    log
}

/// Merges findings of several processes whose keys ([`Record::identity`]) are equal, and sorts the
/// result.
fn merge(found: Vec<Record>) -> Vec<Record> {
    let mut places: HashMap<_, usize> = HashMap::new();
    let mut records: Vec<Record> = Vec::new();
    for record in found {
        match places.get(&record.identity()) {
            Some(&at) => records[at].absorb(record),
            None => {
                places.insert(record.identity(), records.len());
                records.push(record);
            }
        }
    }
    records.sort_by(|a, b| a.order().cmp(&b.order()));
    records
}

fn read_event(value: &Value, pid: u64, log: &mut Log) -> Option<()> {
    match text(value, "event")?.as_str() {
        "start" => {
            log.started.insert(pid);
        }
        "exits" => {
            log.exits.insert(pid);
        }
        "exit" => {
            log.exited.insert(pid);
        }
        "order" => log.one_order = true,
        "leaks-unexamined" => log.leaks_unexamined = true,
        "kernels-skipped" => log.kernels_skipped = true,
        "incomplete" => log.incomplete = true,
        "end" => log.has_end = true,
        "launch" => log.launches.push(Launch {
            pid,
            kernel: text(value, "kernel")?,
            grid: coordinates(value, "grid")?,
            block: coordinates(value, "block")?,
            shared: number(value, "shared").unwrap_or(0),
        }),
        _ => {}
    }
    Some(())
}

fn update(
    value: &Value,
    pid: u64,
    known: &HashMap<(u64, u64), usize>,
    found: &mut [Record],
) -> Option<()> {
    let record = &mut found[*known.get(&(pid, number(value, "id")?))?];
    record.count = record.count.max(number(value, "count")?);
    let severity = severity(value).unwrap_or(record.severity);
    record.severity = record.severity.max(severity);
    Some(())
}

/// Reads a finding from a line of a log. Returns `None` if the line contains no finding.
pub(crate) fn finding(value: &Value) -> Option<Record> {
    let host = stack(value, "host");
    let message = text(value, "message")?;
    Some(Record {
        tool: text(value, "tool")?,
        kind: text(value, "kind")?,
        severity: severity(value)?,
        message: runtime_api::message(&message, &host).unwrap_or(message),
        explanation: text(value, "explanation"),
        kernel: text(value, "kernel"),
        spot: spot(value),
        access: text(value, "access"),
        space: text(value, "space"),
        size: number(value, "size"),
        thread: coordinates(value, "thread"),
        block: coordinates(value, "block"),
        lanes: number(value, "warp").zip(number(value, "lanes")),
        address: number(value, "address"),
        allocation: text(value, "allocation"),
        other: value.get("other").and_then(other),
        missing: text(value, "missing"),
        count: number(value, "count").unwrap_or(1).max(1),
        host,
        origin: stack(value, "origin"),
        pids: list(value, "pids")
            .filter_map(Value::as_u64)
            .chain(number(value, "pid"))
            .collect(),
    })
}

fn other(value: &Value) -> Option<Other> {
    Some(Other {
        kernel: text(value, "kernel"),
        spot: spot(value),
        access: text(value, "access")?,
        thread: coordinates(value, "thread"),
        block: coordinates(value, "block"),
    })
}

fn spot(value: &Value) -> Spot {
    let inlined = list(value, "inlined");
    Spot {
        file: text(value, "file"),
        line: number(value, "line"),
        ptx_line: number(value, "ptx_line"),
        inlined: inlined
            .filter_map(|frame| Some((text(frame, "file")?, number(frame, "line")?)))
            .collect(),
        pc: number(value, "pc"),
    }
}

/// Reads the host's stack from the member `name` of `value`.
pub(crate) fn stack(value: &Value, name: &str) -> Vec<HostFrame> {
    list(value, name).filter_map(host_frame).collect()
}

fn host_frame(value: &Value) -> Option<HostFrame> {
    Some(HostFrame {
        function: text(value, "function")?,
        file: text(value, "file"),
        line: number(value, "line"),
        module: text(value, "module"),
        offset: number(value, "offset"),
    })
}

fn severity(value: &Value) -> Option<Severity> {
    let all = [Severity::Info, Severity::Warning, Severity::Error];
    let name = text(value, "severity")?;
    all.into_iter().find(|severity| severity.name() == name)
}

pub(crate) fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name)?.as_str().map(str::to_owned)
}

fn number(value: &Value, name: &str) -> Option<u64> {
    value.get(name)?.as_u64()
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    let list = value.get(name).and_then(Value::as_array);
    list.into_iter().flatten()
}

fn coordinates(value: &Value, name: &str) -> Option<Coordinates> {
    let mut numbers = list(value, name).map(Value::as_u64);
    let mut next = || numbers.next().flatten();
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A finding with all members that a wrong access has.
    pub(crate) const ACCESS: &str = r#"{"tool":"memcheck","kind":"out-of-bounds","severity":"error","message":"Invalid __global__ write of size 4 bytes","kernel":"_Z4fillPi","file":"no/such/fill.cu","line":7,"ptx_line":21,"access":"write","space":"__global__","size":4,"thread":[6,0,0],"block":[1,0,0],"address":4096,"allocation":"address is out of bounds: 16 bytes after the end of device memory of 1024 bytes","count":128,"host":[{"function":"main","file":"no/such/fill.cu","line":20}],"id":0,"pid":41}"#;

    /// A race within a block.
    pub(crate) const RACE: &str = r#"{"tool":"racecheck","kind":"race","severity":"error","message":"Race between a read and a write of __shared__ memory","kernel":"k","file":"f.cu","line":51,"ptx_line":40,"access":"read","space":"__shared__","size":4,"thread":[32,0,0],"block":[0,0,0],"address":140,"other":{"kernel":"k","file":"f.cu","line":41,"ptx_line":30,"access":"write","thread":[35,0,0],"block":[0,0,0]},"missing":"barrier","count":127,"host":[],"id":1,"pid":41}"#;

    /// An allocation that the program does not free.
    pub(crate) const LEAK: &str = r#"{"tool":"leakcheck","kind":"leak","severity":"error","message":"Leaked 1024 bytes at 0x7000","size":1024,"address":28672,"count":1,"host":[{"function":"main","file":null,"line":null}],"id":2,"pid":41}"#;

    pub(crate) fn records(lines: &[&str]) -> Vec<Record> {
        parse(lines.join("\n").as_bytes(), None).records
    }

    #[test]
    fn updates_belong_to_a_process_and_processes_are_summed() {
        let in_another = ACCESS.replace(r#""pid":41"#, r#""pid":42"#);
        let lines = [
            ACCESS,
            &in_another,
            r#"{"id":0,"pid":41,"count":200,"severity":"error"}"#,
            r#"{"event":"start","pid":42}"#,
        ]
        .join("\n");
        let log = parse(lines.as_bytes(), None);
        assert_eq!(log.records.len(), 1);
        assert_eq!(log.records[0].count, 328);
        assert_eq!(log.records[0].pids, BTreeSet::from([41, 42]));
        assert_eq!(log.started, BTreeSet::from([42]));
        assert_eq!(log.damaged, 0);
        let one = parse(lines.as_bytes(), Some(42));
        assert_eq!(one.records[0].count, 128);
    }

    #[test]
    fn calls_of_different_places_stay_apart() {
        let stack = |pid: u32, offset: u32| {
            let frames = format!(
                r#""host":[{{"function":"main","module":"/bin/x","offset":{offset}}}],"id":2,"pid":{pid}"#
            );
            LEAK.replace(
                r#""host":[{"function":"main","file":null,"line":null}],"id":2,"pid":41"#,
                &frames,
            )
        };
        let found = records(&[&stack(41, 8), &stack(42, 8), &stack(43, 16)]);
        assert_eq!(
            found.iter().map(|record| record.count).collect::<Vec<_>>(),
            [2, 1]
        );
        // The addresses of objects are no part of the place.
        let object = |pid: u32, address: u32| {
            let line = stack(pid, 8).replace("28672", &address.to_string());
            line.replace(r#""kind":"leak""#, r#""kind":"leaked-object""#)
        };
        let found = records(&[&object(41, 4096), &object(42, 8192)]);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn a_number_of_a_process_may_come_back() {
        let later = LEAK.replace(r#""id":2"#, r#""id":0"#);
        let update = r#"{"id":0,"pid":41,"count":9,"severity":"error"}"#;
        let records = records(&[ACCESS, &later, update]);
        assert_eq!(records.len(), 2);
        assert_eq!((records[0].count, records[1].count), (128, 9));
    }

    #[test]
    fn damaged_lines_are_counted() {
        let half = &ACCESS[..100];
        let mut text = [half, RACE, "[1]", r#"{"id":7,"pid":41,"count":3}"#, "", "7"].join("\n");
        text.push_str("\n{\"tool\":3,\"kind\":\"race\"}\n");
        let mut bytes = text.into_bytes();
        bytes.extend(b"\xff\xfe\n");
        let log = parse(&bytes, None);
        assert_eq!(log.records.len(), 1);
        assert_eq!(log.damaged, 6);
        // Members of a wrong type count as absent.
        let odd = RACE
            .replace("[32,0,0]", "[32,\"x\"]")
            .replace("140", "-1")
            .replace("\"line\":51", "\"line\":{}");
        let record = &records(&[&odd])[0];
        assert_eq!((record.thread, record.address), (None, None));
        assert_eq!(record.spot.line, None);
    }

    #[test]
    fn findings_are_sorted() {
        let second = ACCESS.replace(r#""line":7"#, r#""line":9"#);
        let third = ACCESS.replace("_Z4fillPi", "_Z1aPi");
        let sorted = records(&[LEAK, RACE, &second, ACCESS, &third]);
        let order: Vec<_> = sorted
            .iter()
            .map(|r| (r.kernel.as_deref(), r.spot.line))
            .collect();
        let fill = Some("_Z4fillPi");
        let expected = [
            (Some("_Z1aPi"), Some(7)),
            (fill, Some(7)),
            (fill, Some(9)),
            (Some("k"), Some(51)),
            (None, None),
        ];
        assert_eq!(order, expected);
    }

    #[test]
    fn the_innermost_function_comes_first() {
        let inlined = ACCESS.replace(
            r#""ptx_line":21"#,
            r#""inlined":[{"file":"a.cuh","line":3},{"file":"b.cuh","line":5}]"#,
        );
        let record = &records(&[&inlined])[0];
        let stack = [("b.cuh", 5), ("a.cuh", 3), ("no/such/fill.cu", 7)];
        assert_eq!(record.spot.stack(), stack);
    }
}
