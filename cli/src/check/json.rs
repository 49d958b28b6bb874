//! Writes the findings as JSON: the report that programs read, and the file of `--save`.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::record::{HostFrame, Launch, Log, Other, Record, Spot};
use super::summary::Summary;

/// A list that serialises as one JSON value for each record. The function `F` computes a value only
/// when the value is written, because the values of all records can need much memory.
pub(crate) struct List<'a, F>(pub(crate) &'a [Record], pub(crate) F);

impl<F: Fn(&Record) -> Value> Serialize for List<'_, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let List(records, element) = self;
        serializer.collect_seq(records.iter().map(element))
    }
}

/// The report.
#[derive(Serialize)]
struct Document<L> {
    findings: L,
    summary: Value,
}

/// Returns the JSON report. All members of a finding are present; members that do not apply to the
/// finding are null.
pub(crate) fn report<'a>(records: &'a [Record], summary: &Summary) -> impl Serialize + use<'a> {
    Document {
        findings: List(records, finding),
        summary: json!({
            "errors": summary.all_errors(),
            "warnings": summary.warnings,
            "infos": summary.infos,
            "hazards": summary.race_errors + summary.race_warnings,
            "leaked_bytes": summary.leaked_bytes,
            "leaked_allocations": summary.leaked_allocations,
            "suppressed": summary.suppressed,
            "other_memory": summary.elsewhere,
            "damaged_lines": summary.damaged,
            "complete": !summary.incomplete,
            "one_order": summary.one_order,
            "leaks_examined": !summary.leaks_unexamined,
            "kernels_skipped": summary.kernels_skipped,
            "cuda_initialised": !summary.not_initialised,
        }),
    }
}

/// Returns a finding as a JSON object.
fn finding(record: &Record) -> Value {
    let mut value = json!({
        "tool": record.tool,
        "kind": record.kind,
        "severity": record.severity.name(),
        "message": record.message,
        "explanation": record.explanation,
        "kernel": record.kernel,
        "access": record.access,
        "space": record.space,
        "size": record.size,
        "thread": record.thread,
        "block": record.block,
        "warp": record.lanes.map(|(warp, _)| warp),
        "lanes": record.lanes.map(|(_, lanes)| lanes),
        "address": record.address,
        "allocation": record.allocation,
        "other": record.other.as_ref().map(other),
        "missing": record.missing,
        "count": record.count,
        "host": record.host.iter().map(host_frame).collect::<Vec<_>>(),
        "pids": record.pids,
    });
    add_spot(&mut value, &record.spot);
    value
}

fn other(other: &Other) -> Value {
    let mut value = json!({
        "kernel": other.kernel,
        "access": other.access,
        "thread": other.thread,
        "block": other.block,
    });
    add_spot(&mut value, &other.spot);
    value
}

fn add_spot(value: &mut Value, spot: &Spot) {
    let frame = |(file, line): &(String, u64)| json!({"file": file, "line": line});
    value["file"] = json!(spot.file);
    value["line"] = json!(spot.line);
    value["ptx_line"] = json!(spot.ptx_line);
    value["pc"] = json!(spot.pc);
    value["inlined"] = spot.inlined.iter().map(frame).collect();
}

fn host_frame(frame: &HostFrame) -> Value {
    json!({
        "function": frame.function,
        "file": frame.file,
        "line": frame.line,
        "module": frame.module,
        "offset": frame.offset,
    })
}

fn launch(launch: &Launch) -> Value {
    json!({
        "event": "launch",
        "pid": launch.pid,
        "kernel": launch.kernel,
        "grid": launch.grid,
        "block": launch.block,
        "shared": launch.shared,
    })
}

/// Returns the file of `--save`, which [`super::record::parse`] reads.
pub(crate) fn saved(log: &Log, records: &[Record]) -> String {
    let start = |pid: &u64| json!({"event": "start", "pid": pid});
    let events = log.started.iter().map(start);
    let noted = [
        (log.one_order, "order"),
        (log.leaks_unexamined, "leaks-unexamined"),
        (log.kernels_skipped, "kernels-skipped"),
        (log.incomplete, "incomplete"),
    ];
    let noted = noted.into_iter().filter(|(is_noted, _)| *is_noted);
    let events = events.chain(noted.map(|(_, event)| json!({"event": event})));
    let lines = events.chain(log.launches.iter().map(launch));
    let lines = lines.chain(records.iter().map(finding));
    // Without this line, a file whose last lines are missing could not be recognised.
    let lines = lines.chain([json!({"event": "end"})]);
    lines.map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::filter::Selection;
    use super::super::record::{parse, tests};
    use super::*;

    #[test]
    fn a_report_has_all_members() {
        let selection = Selection {
            records: tests::records(&[tests::LEAK, tests::RACE]),
            ..Selection::default()
        };
        let report = report(&selection.records, &Summary::of(&selection));
        let report = serde_json::to_value(report).expect("JSON");
        let race = &report["findings"][0];
        let expected = json!({
            "tool": "racecheck", "kind": "race", "severity": "error",
            "message": "Race between a read and a write of __shared__ memory",
            "explanation": null,
            "kernel": "k", "file": "f.cu", "line": 51, "ptx_line": 40, "pc": null, "inlined": [],
            "access": "read", "space": "__shared__", "size": 4, "thread": [32, 0, 0], "block": [0, 0, 0],
            "warp": null, "lanes": null, "address": 140, "allocation": null,
            "other": {
                "kernel": "k", "file": "f.cu", "line": 41, "ptx_line": 30, "pc": null, "inlined": [],
                "access": "write", "thread": [35, 0, 0], "block": [0, 0, 0],
            },
            "missing": "barrier", "count": 127, "host": [], "pids": [41],
        });
        assert_eq!(*race, expected);
        let leak = &report["findings"][1];
        for member in [
            "kernel", "file", "line", "access", "thread", "other", "missing",
        ] {
            assert_eq!(leak.get(member), Some(&Value::Null), "{member}");
        }
        let summary = json!({
            "errors": 2, "warnings": 0, "infos": 0, "hazards": 1, "leaked_bytes": 1024, "leaked_allocations": 1,
            "suppressed": 0, "other_memory": 0, "damaged_lines": 0, "complete": true,
            "one_order": false, "leaks_examined": true, "kernels_skipped": false, "cuda_initialised": true,
        });
        assert_eq!(report["summary"], summary);
    }

    #[test]
    fn a_saved_file_is_read_back() {
        let lines = [
            tests::ACCESS,
            tests::RACE,
            tests::LEAK,
            r#"{"event":"start","pid":41}"#,
            r#"{"event":"order","pid":41}"#,
            r#"{"event":"leaks-unexamined","pid":41}"#,
            r#"{"event":"kernels-skipped","pid":41}"#,
            r#"{"event":"incomplete"}"#,
            r#"{"event":"launch","pid":41,"kernel":"k","grid":[2,1,1],"block":[32,1,1],"shared":16}"#,
        ];
        let log = parse(lines.join("\n").as_bytes(), None);
        let again = parse(saved(&log, &log.records).as_bytes(), None);
        assert_eq!(again.records, log.records);
        assert_eq!(again.launches, log.launches);
        assert_eq!((again.started, again.damaged), (log.started, 0));
        assert!(again.one_order && again.leaks_unexamined && again.incomplete);
        assert!(again.kernels_skipped);
        assert!(again.has_end && !log.has_end);
    }
}
