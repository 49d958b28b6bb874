//! Writes the text report, in the format of compute-sanitizer: each line begins with a prefix such
//! as `=========`.

use std::collections::BTreeMap;

use margay::checks::{Severity, Tool};

use super::filter::is_printed;
use super::options::{Backtrace, Demangle, PrintLevel, RaceReport};
use super::record::{Coordinates, Launch, Record, Spot};
use super::source::Sources;
use super::summary::Summary;
use super::words;

/// The options that determine how the report is written, such as whether it has colours.
pub(crate) struct Style {
    pub(crate) tools: Vec<Tool>,
    pub(crate) level: PrintLevel,
    /// Maximum number of findings that are printed for each tool; 0 for all.
    pub(crate) limit: usize,
    pub(crate) races: RaceReport,
    pub(crate) backtrace: Backtrace,
    /// Maximum number of host functions, and maximum number of inlined device functions, that are
    /// printed of a stack.
    pub(crate) callers: [usize; 2],
    /// Whether names of files are printed without their folders.
    pub(crate) strips: bool,
    /// Whether the report has no first line and no summary.
    pub(crate) quiet: bool,
    /// The text with which each line of the report begins.
    pub(crate) prefix: String,
    pub(crate) demangle: Demangle,
    pub(crate) colours: bool,
}

/// The content of the report.
pub(crate) struct Content<'a> {
    pub(crate) records: &'a [Record],
    pub(crate) launches: &'a [Launch],
    pub(crate) summary: Summary,
    /// States how the program ended, if a signal ended it or if its exit code is not 0 and `--check-exit-code` is not
    /// `no`.
    pub(crate) end: Option<String>,
    /// The program's process ID and command line, if they are printed.
    pub(crate) session: Option<(u32, String)>,
}

/// The colour of a line of the report.
#[derive(Clone, Copy)]
enum Ink {
    Plain,
    Error,
    Warning,
    Source,
    Good,
}

impl Ink {
    fn of(severity: Severity) -> Ink {
        match severity {
            Severity::Error => Ink::Error,
            Severity::Warning => Ink::Warning,
            Severity::Info => Ink::Plain,
        }
    }

    fn code(self) -> Option<&'static str> {
        match self {
            Ink::Plain => None,
            Ink::Error => Some("1;31"),
            Ink::Warning => Some("1;33"),
            Ink::Source => Some("36"),
            Ink::Good => Some("32"),
        }
    }
}

/// Returns the report.
pub(crate) fn write(content: &Content, style: &Style) -> String {
    let mut frame = Frame {
        out: String::new(),
        style,
        sources: Sources::default(),
    };
    if !style.quiet {
        frame.line("COMPUTE-SANITIZER");
    }
    if let Some((pid, command)) = &content.session {
        frame.line(&format!("Process {pid}: {command}"));
    }
    if style.level <= PrintLevel::Info {
        content
            .launches
            .iter()
            .for_each(|launch| frame.launch(launch));
    }
    frame.findings(content.records);
    if content.summary.not_initialised {
        let text = "Error: Target application terminated before first instrumented API call";
        frame.inked(text, Ink::Error);
    }
    if content.summary.incomplete {
        frame.inked(&format!("Error: {}", words::INCOMPLETE), Ink::Error);
    }
    if let Some(end) = &content.end {
        frame.inked(end, Ink::Error);
    }
    if !style.quiet {
        frame.summary(&content.summary);
    }
    frame.out
}

/// The text of the report so far, and the options and source files with which it is written.
struct Frame<'a> {
    out: String,
    style: &'a Style,
    sources: Sources,
}

/// One of the two accesses of a race, as the report describes it.
struct Side<'a> {
    access: &'a str,
    kernel: Option<&'a str>,
    spot: &'a Spot,
    thread: Option<Coordinates>,
    block: Option<Coordinates>,
}

impl Frame<'_> {
    fn line(&mut self, text: &str) {
        self.inked(text, Ink::Plain);
    }

    /// Writes a line in a colour, if the report has colours.
    fn inked(&mut self, text: &str, ink: Ink) {
        let text: String = text.chars().map(words::visible).collect();
        self.out.push_str(&self.style.prefix);
        self.out.push(' ');
        match ink.code().filter(|_| self.style.colours) {
            Some(code) => self.out.push_str(&format!("\x1b[{code}m{text}\x1b[0m")),
            None => self.out.push_str(&text),
        }
        self.out.push('\n');
    }

    fn continued(&mut self, text: &str) {
        self.line(&format!("    {text}"));
    }

    fn launch(&mut self, launch: &Launch) {
        let kernel = words::kernel_name(&launch.kernel, self.style.demangle);
        let (grid, block) = (
            words::coordinates(launch.grid),
            words::coordinates(launch.block),
        );
        let shared = words::counted(launch.shared, "byte", "bytes");
        self.line(&format!(
            "Info: Launch of {kernel} with grid {grid}, block {block}, {shared} of dynamic shared memory, in process {}",
            launch.pid
        ));
    }

    fn findings(&mut self, records: &[Record]) {
        let mut printed: BTreeMap<&str, usize> = BTreeMap::new();
        let mut left: BTreeMap<&str, u64> = BTreeMap::new();
        for record in records {
            if !is_printed(record, self.style.level) {
                continue;
            }
            let count = printed.entry(&record.tool).or_default();
            if self.style.limit != 0 && *count == self.style.limit {
                *left.entry(&record.tool).or_default() += 1;
                continue;
            }
            *count += 1;
            match &record.other {
                Some(_) => self.race(record),
                None => self.finding(record),
            }
        }
        for (tool, count) in left {
            let further = words::counted(count, "further report", "further reports");
            self.line(&format!(
                "{further} of {tool} not printed: --print-limit is {}",
                self.style.limit
            ));
        }
    }

    fn finding(&mut self, record: &Record) {
        let mut text = words::group_bytes(&record.message);
        if record.severity != Severity::Error {
            text = format!("{}: {text}", words::severity_word(record.severity));
        }
        self.inked(&text, Ink::of(record.severity));
        // A finding about a call of the host has no place in a kernel.
        if record.kernel.is_some() {
            let position = self.position(record.kernel.as_deref(), &record.spot);
            self.continued(&position);
        }
        self.excerpt(&record.spot);
        self.ptx_line(&record.spot);
        self.device_frames(&record.spot);
        if let Some(thread) = thread_sentence(record.thread, record.block) {
            let lanes = record
                .lanes
                .map(|(warp, lanes)| format!(", warp {warp}, lanes {lanes:#010x}"));
            self.continued(&format!("{thread}{}", lanes.unwrap_or_default()));
        }
        self.memory(record);
        if let Some(explanation) = &record.explanation {
            self.continued(explanation);
        }
        if let Some(missing) = &record.missing {
            self.continued(&format!("missing: {missing}"));
        }
        if record.count > 1 {
            let further = words::counted(record.count - 1, "further hit", "further hits");
            self.continued(&format!("and {further}"));
        }
        self.host(record);
        self.line("");
    }

    /// Writes the sentences about the address that a finding concerns, and about the memory at this
    /// address.
    fn memory(&mut self, record: &Record) {
        for sentence in words::address_sentences(record) {
            self.continued(&sentence);
        }
    }

    fn race(&mut self, record: &Record) {
        if self.style.races != RaceReport::Analysis {
            self.hazard(record);
        }
        if self.style.races != RaceReport::Hazard {
            self.analysis(record);
        }
    }

    /// Writes a race in the form `analysis`: the source positions of its two accesses.
    fn analysis(&mut self, record: &Record) {
        let severity = words::severity_word(record.severity);
        // A race is counted for each group of four bytes, a hazard for each byte.
        let bytes = record.size.map_or(1, |size| size.clamp(1, 4));
        let hazards = words::counted(record.count.saturating_mul(bytes), "hazard", "hazards");
        let mut start = format!("{severity}: Race reported between ");
        let sides = sides(record, true);
        for (index, side) in sides.iter().enumerate() {
            let access = words::capital(side.access);
            let end = match index + 1 == sides.len() {
                true => format!(" [{hazards}]"),
                false => String::new(),
            };
            let text = format!(
                "{start}{access} access {}{end}",
                self.position(side.kernel, side.spot)
            );
            match index {
                0 => self.inked(&text, Ink::of(record.severity)),
                _ => self.line(&text),
            }
            self.excerpt(side.spot);
            self.ptx_line(side.spot);
            self.device_frames(side.spot);
            if let Some(thread) = thread_sentence(side.thread, side.block) {
                self.continued(&thread);
            }
            start = "    and ".to_owned();
        }
        self.order_and_memory(record);
    }

    /// Writes a race in the form `hazard`: the kind of the hazard (such as read after write), the
    /// address and the threads.
    fn hazard(&mut self, record: &Record) {
        let severity = words::severity_word(record.severity);
        let in_warp = match record.severity {
            Severity::Warning => "(Warp Level Programming) ",
            _ => "",
        };
        let sides = sides(record, false);
        let hazard = hazard(&sides);
        let space = record.space.as_deref().unwrap_or("__global__");
        let address = record.address.map(|address| format!(" {address:#x}"));
        let block = record
            .block
            .map(|block| format!(" in block {}", words::coordinates(block)));
        let text = format!(
            "{severity}: {in_warp}Potential {hazard} hazard detected at {space}{}{} :",
            address.unwrap_or_default(),
            block.unwrap_or_default()
        );
        self.inked(&text, Ink::of(record.severity));
        for side in sides {
            let access = words::capital(side.access);
            let thread = side
                .thread
                .map(|thread| format!("Thread {} ", words::coordinates(thread)));
            let who = thread.unwrap_or_else(|| "by the host ".to_owned());
            let block = side.block.filter(|_| side.block != record.block);
            let block = block.map(|block| format!("in block {} ", words::coordinates(block)));
            let position = self.position(side.kernel, side.spot);
            self.continued(&format!(
                "{access} {who}{}{position}",
                block.unwrap_or_default()
            ));
            self.excerpt(side.spot);
            self.ptx_line(side.spot);
        }
        self.order_and_memory(record);
    }

    /// Writes the lines with which both report formats of a race end: the memory, the explanation,
    /// the missing synchronisation, and the host's stack.
    fn order_and_memory(&mut self, record: &Record) {
        self.memory(record);
        if let Some(explanation) = &record.explanation {
            self.continued(explanation);
        }
        if let Some(missing) = &record.missing {
            self.continued(&format!("missing: {missing}"));
        }
        self.host(record);
        self.line("");
    }

    /// Returns the position of an access, as `at KERNEL+OFFSET in FILE:LINE` without the parts that are unknown, or as
    /// `of the host`.
    fn position(&self, kernel: Option<&str>, spot: &Spot) -> String {
        let kernel = kernel.map(|kernel| words::kernel_name(kernel, self.style.demangle));
        let mut text = match kernel {
            Some(kernel) => format!("at {kernel}"),
            None => "of the host".to_owned(),
        };
        if let Some(pc) = spot.pc {
            text.push_str(&format!("+{pc:#x}"));
        }
        if let Some((file, line)) = spot.stack().first() {
            text.push_str(&format!(" in {}:{line}", self.file(file)));
        }
        text
    }

    /// Returns the name of a file as the report prints it: without its folders if `--strip-paths`
    /// requests this.
    fn file<'f>(&self, file: &'f str) -> &'f str {
        match self.style.strips {
            true => file.rsplit('/').next().unwrap_or(file),
            false => file,
        }
    }

    /// Writes the text of the source line at `spot`.
    fn excerpt(&mut self, spot: &Spot) {
        let stack = spot.stack();
        let text = stack
            .first()
            .and_then(|(file, line)| Some((*line, self.sources.line(file, *line)?)));
        if let Some((line, text)) = text {
            self.inked(&format!("        {line} | {text}"), Ink::Source);
        }
    }

    fn ptx_line(&mut self, spot: &Spot) {
        if let Some(line) = spot.ptx_line {
            self.continued(&format!("PTX line {line}"));
        }
    }

    /// For each inlined function at `spot`, writes the source line of its call.
    fn device_frames(&mut self, spot: &Spot) {
        if self.style.backtrace.device() {
            let stack = spot.stack();
            for &(path, line) in stack.iter().skip(1).take(self.style.callers[1]) {
                let file = self.file(path);
                self.line(&format!("        Device Frame: inlined at {file}:{line}"));
                if let Some(text) = self.sources.line(path, line) {
                    self.inked(&format!("            {line} | {text}"), Ink::Source);
                }
            }
        }
    }

    fn host(&mut self, record: &Record) {
        if record.host.is_empty() || !self.style.backtrace.host() {
            return;
        }
        self.continued(words::host_heading(record));
        for frame in record.host.iter().take(self.style.callers[0]) {
            let mut text = format!("        Host Frame: {}", frame.function);
            match (&frame.file, frame.line) {
                (Some(file), Some(line)) => {
                    text.push_str(&format!(" in {}:{line}", self.file(file)));
                }
                (Some(file), None) => text.push_str(&format!(" in {}", self.file(file))),
                (None, _) => {
                    let at = frame.offset.map(|offset| format!("{offset:#x}"));
                    // The name of a function without a symbol already contains the offset.
                    let at = at.filter(|at| !frame.function.ends_with(at));
                    text.extend(at.map(|at| format!(" [{at}]")));
                    let module = frame.module.as_ref();
                    text.extend(module.map(|module| format!(" in {}", self.file(module))));
                }
            }
            self.line(&text);
        }
    }

    fn summary(&mut self, summary: &Summary) {
        if self.style.tools.contains(&Tool::Leak) {
            let unexamined = match summary.leaks_unexamined {
                true => format!(" ({})", words::UNEXAMINED),
                false => String::new(),
            };
            self.line(&format!(
                "LEAK SUMMARY: {} bytes leaked in {} allocations{unexamined}",
                summary.leaked_bytes, summary.leaked_allocations
            ));
        }
        if self.style.tools.contains(&Tool::Race) {
            let (errors, warnings) = (summary.race_errors, summary.race_warnings);
            self.line(&format!(
                "RACECHECK SUMMARY: {} displayed ({}, {})",
                words::counted(errors + warnings, "hazard", "hazards"),
                words::counted(errors, "error", "errors"),
                words::counted(warnings, "warning", "warnings"),
            ));
        }
        if summary.kernels_skipped {
            self.line(words::SKIPPED);
        }
        if summary.one_order && self.style.tools.contains(&Tool::Race) {
            self.line(
                "Locks or queues order the threads of a kernel. Checked launches ran in one order; another order may \
                 have other races.",
            );
        }
        let hidden = match self.style.level {
            PrintLevel::Info => 0,
            _ => summary.infos,
        };
        let lines = [
            (
                hidden,
                "info not printed (--print-level info)",
                "infos not printed (--print-level info)",
            ),
            (
                summary.elsewhere,
                "report of initcheck about other memory left out (--initcheck-address-space all)",
                "reports of initcheck about other memory left out (--initcheck-address-space all)",
            ),
            (
                summary.suppressed,
                "report suppressed",
                "reports suppressed",
            ),
            (
                summary.damaged,
                "line of the log could not be read",
                "lines of the log could not be read",
            ),
        ];
        for (count, one, many) in lines {
            if count > 0 {
                self.line(&words::counted(count, one, many));
            }
        }
        let errors = summary.all_errors();
        let ink = if errors == 0 { Ink::Good } else { Ink::Error };
        let text = words::counted(errors, "error", "errors");
        self.inked(&format!("ERROR SUMMARY: {text}"), ink);
    }
}

/// Returns the two accesses of a race: if `writes_first` is set, a write before a read; otherwise in the order of their
/// lines in the PTX.
fn sides(record: &Record, writes_first: bool) -> Vec<Side<'_>> {
    let mut sides = Vec::new();
    if let Some(other) = &record.other {
        sides.push(Side {
            access: &other.access,
            kernel: other.kernel.as_deref(),
            spot: &other.spot,
            thread: other.thread,
            block: other.block,
        });
    }
    sides.push(Side {
        access: record.access.as_deref().unwrap_or("access"),
        kernel: record.kernel.as_deref(),
        spot: &record.spot,
        thread: record.thread,
        block: record.block,
    });
    if writes_first {
        sides.sort_by_key(|side| side.access == "read");
    } else {
        sides.sort_by_key(|side| side.spot.ptx_line);
    }
    sides
}

/// Returns the hazard of a race, which depends on the kinds of the first and of the second access in `sides`: read
/// after write (`RAW`), write after read (`WAR`) or write after write (`WAW`).
fn hazard(sides: &[Side<'_>]) -> &'static str {
    let reads = |side: Option<&Side<'_>>| side.is_some_and(|side| side.access == "read");
    match (reads(sides.first()), reads(sides.last())) {
        (true, _) => "WAR",
        (false, true) => "RAW",
        (false, false) => "WAW",
    }
}

/// Returns the phrase that names a thread and its block; `None` if one of them is unknown.
fn thread_sentence(thread: Option<Coordinates>, block: Option<Coordinates>) -> Option<String> {
    let (thread, block) = (thread?, block?);
    Some(format!(
        "by thread {} in block {}",
        words::coordinates(thread),
        words::coordinates(block)
    ))
}

#[cfg(test)]
mod tests {
    use super::super::filter::Selection;
    use super::super::record::tests::{ACCESS, LEAK, RACE, records};
    use super::*;

    fn style() -> Style {
        Style {
            tools: vec![Tool::Memory],
            level: PrintLevel::Warn,
            limit: 100,
            races: RaceReport::Analysis,
            backtrace: Backtrace::Yes,
            callers: [usize::MAX; 2],
            strips: false,
            quiet: false,
            prefix: "=========".to_owned(),
            demangle: Demangle::Full,
            colours: false,
        }
    }

    fn report(lines: &[&str], style: &Style) -> String {
        let selection = Selection {
            records: records(lines),
            ..Selection::default()
        };
        let content = Content {
            records: &selection.records,
            launches: &[],
            summary: Summary::of(&selection),
            session: None,
            end: None,
        };
        write(&content, style)
    }

    /// Returns the report of a run with only `tool` and without findings.
    fn report_of(tool: Tool, summary: Summary) -> String {
        let content = Content {
            records: &[],
            launches: &[],
            summary,
            session: None,
            end: None,
        };
        let style = Style {
            tools: vec![tool],
            ..style()
        };
        write(&content, &style)
    }

    #[test]
    fn a_report_states_once_that_launches_ran_in_one_order() {
        let stated = |one_order, tool| {
            let summary = Summary {
                one_order,
                ..Summary::default()
            };
            report_of(tool, summary).matches("ran in one order").count()
        };
        assert_eq!(stated(true, Tool::Race), 1);
        assert_eq!(stated(false, Tool::Race), 0);
        assert_eq!(stated(true, Tool::Memory), 0);
    }

    #[test]
    fn a_report_states_that_memory_was_not_examined_for_leaks() {
        let stated = |leaks_unexamined, tool| {
            let summary = Summary {
                leaks_unexamined,
                ..Summary::default()
            };
            report_of(tool, summary).contains("memory was not examined")
        };
        assert!(stated(true, Tool::Leak));
        assert!(!stated(false, Tool::Leak));
        assert!(!stated(true, Tool::Race));
    }

    #[test]
    fn a_report_states_that_kernels_did_not_run() {
        let stated = |kernels_skipped| {
            let summary = Summary {
                kernels_skipped,
                ..Summary::default()
            };
            report_of(Tool::Race, summary).contains(words::SKIPPED)
        };
        assert!(stated(true));
        assert!(!stated(false));
    }

    #[test]
    fn a_wrong_access_names_thread_memory_and_stack() {
        let expected = "\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at fill(int*) in no/such/fill.cu:7
=========     PTX line 21
=========     by thread (6,0,0) in block (1,0,0)
=========     Address 0x1000 is out of bounds
=========     and is 16 bytes after the end of device memory of 1,024 bytes
=========     and 127 further hits
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: main in no/such/fill.cu:20
========= 
========= ERROR SUMMARY: 1 error
";
        assert_eq!(report(&[ACCESS], &style()), expected);
    }

    #[test]
    fn the_source_is_quoted() {
        let path = std::env::temp_dir().join(format!("margay-frame-{}.cu", std::process::id()));
        std::fs::write(&path, "\n\t p[i] = 1;\n").expect("written");
        let file = path.to_str().expect("text");
        let line = ACCESS
            .replace("no/such/fill.cu\",\"line\":7", &format!("{file}\",\"line\":9"))
            .replace(
                r#""ptx_line":21"#,
                &format!(r#""inlined":[{{"file":"a.cuh","line":3}},{{"file":"{file}","line":2}}],"pc":144"#),
            );
        let text = report(&[&line], &style());
        std::fs::remove_file(&path).expect("removed");
        let expected = format!(
            "\
=========     at fill(int*)+0x90 in {file}:2
=========         2 | p[i] = 1;
=========         Device Frame: inlined at a.cuh:3
=========         Device Frame: inlined at {file}:9
=========     by thread"
        );
        assert!(text.contains(&expected), "{text}");
    }

    #[test]
    fn hazards_are_named_by_their_order() {
        let hazard = |record: &Record| hazard(&sides(record, false));
        let after_write = &records(&[RACE])[0];
        assert_eq!(hazard(after_write), "RAW");
        let both = RACE.replace(r#""access":"read""#, r#""access":"atomic""#);
        assert_eq!(hazard(&records(&[&both])[0]), "WAW");
        let swapped = RACE
            .replace("write", "x")
            .replace("read", "write")
            .replace("x", "read");
        assert_eq!(hazard(&records(&[&swapped])[0]), "WAR");
    }

    #[test]
    fn a_race_names_both_accesses() {
        let mut style = style();
        style.tools = vec![Tool::Race];
        let expected = "\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at k in f.cu:41
=========     PTX line 30
=========     by thread (35,0,0) in block (0,0,0)
=========     and Read access at k in f.cu:51 [508 hazards]
=========     PTX line 40
=========     by thread (32,0,0) in block (0,0,0)
=========     Address 0x8c
=========     missing: barrier
========= 
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
========= ERROR SUMMARY: 1 error
";
        assert_eq!(report(&[RACE], &style), expected);
        style.races = RaceReport::Hazard;
        let expected = "\
========= Warning: (Warp Level Programming) Potential RAW hazard detected at __shared__ 0x8c in block (0,0,0) :
=========     Write Thread (35,0,0) at k in f.cu:41
=========     PTX line 30
=========     Read Thread (32,0,0) at k in f.cu:51
=========     PTX line 40
=========     Address 0x8c
=========     missing: barrier
========= 
========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)
========= ERROR SUMMARY: 0 errors
";
        let warning = RACE.replace(r#""error""#, r#""warning""#);
        let text = report(&[&warning], &style);
        assert_eq!(text, format!("========= COMPUTE-SANITIZER\n{expected}"));
    }

    #[test]
    fn a_race_with_the_host_names_it() {
        let host = RACE.replace(
            r#"{"kernel":"k","file":"f.cu","line":41,"ptx_line":30,"access":"write","thread":[35,0,0],"block":[0,0,0]}"#,
            r#"{"access":"write"}"#,
        );
        let text = report(&[&host], &style());
        assert!(
            text.contains("========= Error: Race reported between Write access of the host\n"),
            "{text}"
        );
    }

    #[test]
    fn leaks_are_summed_without_separators() {
        let mut style = style();
        style.tools = vec![Tool::Leak];
        let expected = "\
========= COMPUTE-SANITIZER
========= Leaked 1,024 bytes at 0x7000
=========     Saved host backtrace up to driver entry point at allocation time
=========         Host Frame: main
========= 
========= LEAK SUMMARY: 1024 bytes leaked in 1 allocations
========= ERROR SUMMARY: 1 error
";
        assert_eq!(report(&[LEAK], &style), expected);
    }

    #[test]
    fn synchronisation_names_the_lanes() {
        let sync = r#"{"tool":"synccheck","kind":"not-in-mask","severity":"error","message":"Barrier error detected. shfl: the member mask does not contain the executing thread","kernel":"k","ptx_line":9,"thread":[3,0,0],"block":[0,0,0],"warp":0,"lanes":8,"count":1,"host":[]}"#;
        let expected = "\
========= Barrier error detected. shfl: the member mask does not contain the executing thread
=========     at k
=========     PTX line 9
=========     by thread (3,0,0) in block (0,0,0), warp 0, lanes 0x00000008
========= 
";
        assert!(report(&[sync], &style()).contains(expected));
    }

    #[test]
    fn limits_and_levels_leave_findings_out() {
        let mut style = style();
        style.limit = 1;
        let second = ACCESS.replace(r#""line":7"#, r#""line":8"#);
        let third = ACCESS.replace(r#""line":7"#, r#""line":9"#);
        let text = report(&[ACCESS, &second, &third], &style);
        assert!(
            text.contains(
                "========= 2 further reports of memcheck not printed: --print-limit is 1\n"
            )
        );
        assert!(text.ends_with("========= ERROR SUMMARY: 3 errors\n"));
        style.limit = 0;
        let info = third.replace(r#""error""#, r#""info""#);
        let text = report(&[ACCESS, &second, &info], &style);
        assert!(!text.contains(":9\n"));
        assert!(text.contains("========= 1 info not printed (--print-level info)\n"));
        assert!(text.ends_with("========= ERROR SUMMARY: 2 errors\n"));
        style.level = PrintLevel::Info;
        let text = report(&[&info], &style);
        assert!(text.contains("========= Info: Invalid __global__ write of size 4 bytes\n"));
    }

    #[test]
    fn colours_are_outside_of_the_frame() {
        let mut style = style();
        style.colours = true;
        let control = ACCESS.replace("Invalid", "\\u001b[2JInvalid");
        let text = report(&[&control], &style);
        let first =
            "========= \x1b[1;31m\u{fffd}[2JInvalid __global__ write of size 4 bytes\x1b[0m\n";
        assert!(text.contains(first), "{text}");
    }
}
