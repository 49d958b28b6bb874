//! Writes the findings as one HTML page that needs no other file: grouped by tool and kernel, with
//! excerpts of the source and pictures of allocations.

use margay::checks::Tool;

use super::options::Demangle;
use super::record::{Coordinates, Record, Spot};
use super::source::Sources;
use super::summary::Summary;
use super::words::{self, Layout};
use super::xml::escape;

/// Number of source lines that an excerpt shows before, and after, the line of a finding.
const RADIUS: u64 = 3;

/// Returns the report as an HTML page. `program` is the command line of the checked program.
pub(crate) fn report(records: &[Record], summary: &Summary, program: &str) -> String {
    let mut page = Page {
        out: String::new(),
        sources: Sources::default(),
    };
    page.head(program);
    page.counts(summary);
    if records.is_empty() {
        page.add("<p>The checks found nothing.</p>\n");
    }
    for of_tool in records.chunk_by(|a, b| a.tool == b.tool) {
        page.tool(of_tool);
    }
    page.add("</body>\n</html>\n");
    page.out
}

/// Returns the beginning of a page: the title, the style sheet, the heading and the command line of the program.
pub(crate) fn head((title, heading): (&str, &str), program: &str, style: &str) -> String {
    let program = escape(program);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}: {program}</title>\n<style>\n{style}</style>\n</head>\n<body>\n\
         <h1>{heading}</h1>\n<p class=\"soft\"><code>{program}</code></p>\n"
    )
}

struct Page {
    out: String,
    sources: Sources,
}

impl Page {
    fn add(&mut self, html: &str) {
        self.out.push_str(html);
    }

    fn head(&mut self, program: &str) {
        let heading = ("Findings", "Findings of margay check");
        self.add(&head(heading, program, include_str!("page.css")));
    }

    fn counts(&mut self, summary: &Summary) {
        let counts = [
            (summary.errors, "error", "errors"),
            (summary.warnings, "warning", "warnings"),
            (summary.infos, "info", "infos"),
            (summary.leaked_bytes, "byte leaked", "bytes leaked"),
            (summary.suppressed, "suppressed", "suppressed"),
        ];
        self.add("<ul class=\"counts\">");
        for (index, (count, one, many)) in counts.into_iter().enumerate() {
            if index < 3 || count > 0 {
                let word = if count == 1 { one } else { many };
                self.add(&format!("<li><b>{}</b> {word}</li>", words::grouped(count)));
            }
        }
        self.add("</ul>\n");
        if summary.not_initialised {
            self.add("<p>The program ended before it initialised CUDA.</p>\n");
        }
        if summary.leaks_unexamined {
            self.add(&format!("<p>Leaks: {}.</p>\n", words::UNEXAMINED));
        }
        if summary.kernels_skipped {
            self.add(&format!("<p>{}.</p>\n", words::SKIPPED));
        }
        if summary.incomplete {
            self.add(&format!("<p>{}.</p>\n", words::INCOMPLETE));
        }
        if summary.damaged > 0 {
            let lines = words::counted(summary.damaged, "line", "lines");
            self.add(&format!("<p>{lines} of the log could not be read.</p>\n"));
        }
    }

    fn tool(&mut self, records: &[Record]) {
        let Some(first) = records.first() else {
            return;
        };
        let count = words::counted(records.len() as u64, "finding", "findings");
        let about = Tool::named(&first.tool).map(about).unwrap_or_default();
        let tool = escape(&first.tool);
        self.add(&format!(
            "<section>\n<h2>{tool} <small class=\"soft\">{about} {count}</small></h2>\n"
        ));
        for of_kernel in records.chunk_by(|a, b| a.kernel == b.kernel) {
            if let Some(kernel) = of_kernel.first().and_then(|record| record.kernel.as_ref()) {
                let name = escape(&words::kernel_name(kernel, Demangle::Full));
                self.add(&format!("<h3>Kernel <code>{name}</code></h3>\n"));
            }
            of_kernel.iter().for_each(|record| self.finding(record));
        }
        self.add("</section>\n");
    }

    fn finding(&mut self, record: &Record) {
        let class = record.severity.name();
        let severity = words::severity_word(record.severity);
        let message = escape(&words::group_bytes(&record.message));
        self.add(&format!(
            "<article class=\"{class}\">\n<h4><span class=\"severity\">{severity}:</span> {message}</h4>\n"
        ));
        match &record.other {
            Some(other) => {
                self.add("<div class=\"pair\">\n");
                self.side(&other.access, &other.spot, other.thread, other.block);
                let access = record.access.as_deref().unwrap_or("access");
                self.side(access, &record.spot, record.thread, record.block);
                self.add("</div>\n");
            }
            None => {
                self.place(&record.spot);
                self.excerpt(&record.spot);
            }
        }
        self.facts(record);
        self.picture(record);
        self.host(record);
        self.add("</article>\n");
    }

    /// Writes one of the two accesses of a race.
    fn side(
        &mut self,
        access: &str,
        spot: &Spot,
        thread: Option<Coordinates>,
        block: Option<Coordinates>,
    ) {
        let access = escape(&words::capital(access));
        let who = who(thread, block).unwrap_or_else(|| "by the host".to_owned());
        self.add(&format!("<div><h5>{access} {who}</h5>\n"));
        self.place(spot);
        self.excerpt(spot);
        self.add("</div>\n");
    }

    /// Writes the file and the line of the instruction at `spot`, and the calls of the inlined
    /// functions that contain the instruction.
    fn place(&mut self, spot: &Spot) {
        let mut parts = Vec::new();
        for (index, (file, line)) in spot.stack().iter().enumerate() {
            let start = if index == 0 { "" } else { "inlined at " };
            parts.push(format!("{start}<code>{}:{line}</code>", escape(file)));
        }
        parts.extend(spot.ptx_line.map(|line| format!("PTX line {line}")));
        if !parts.is_empty() {
            self.add(&format!(
                "<div class=\"where soft\">{}</div>\n",
                parts.join(", ")
            ));
        }
    }

    fn excerpt(&mut self, spot: &Spot) {
        let Some((file, line)) = spot.stack().first().map(|(f, l)| ((*f).to_owned(), *l)) else {
            return;
        };
        let lines = self.sources.around(&file, line, RADIUS);
        let Some(width) = lines.last().map(|(number, _)| number.to_string().len()) else {
            return;
        };
        self.add("<pre>");
        for (number, text) in lines {
            let class = if number == line {
                " class=\"here\""
            } else {
                ""
            };
            self.add(&format!(
                "<span{class}><i>{number:>width$}</i>  {}</span>",
                escape(&text)
            ));
        }
        self.add("</pre>\n");
    }

    fn facts(&mut self, record: &Record) {
        let mut facts: Vec<(&str, String)> = Vec::new();
        let is_race = record.other.is_some();
        let thread = who(record.thread, record.block).filter(|_| !is_race);
        facts.extend(thread.map(|text| ("Executed", text)));
        if let Some((warp, lanes)) = record.lanes {
            facts.push(("Lanes", format!("warp {warp}, lanes {lanes:#010x}")));
        }
        let memory = words::address_sentences(record).join(" ");
        facts.extend((!memory.is_empty()).then_some(("Memory", memory)));
        facts.extend(record.missing.clone().map(|text| ("Missing", text)));
        facts.push(("Occurred", words::counted(record.count, "time", "times")));
        if record.pids.len() > 1 {
            facts.push(("Processes", record.pids.len().to_string()));
        }
        self.add("<dl>");
        for (name, text) in facts {
            self.add(&format!("<dt>{name}</dt><dd>{}</dd>", escape(&text)));
        }
        self.add("</dl>\n");
    }

    fn picture(&mut self, record: &Record) {
        let layout = record.allocation.as_deref().and_then(words::layout);
        if let Some(layout) = layout.filter(|layout| layout.size > 0) {
            let picture = picture(layout, record.size.unwrap_or(1));
            self.add(&picture);
        }
    }

    fn host(&mut self, record: &Record) {
        if record.host.is_empty() {
            return;
        }
        let heading = escape(words::host_heading(record));
        self.add(&format!("<details><summary>{heading}</summary><ol>"));
        for frame in &record.host {
            let file = frame.file.as_ref().or(frame.module.as_ref());
            let line = frame
                .line
                .map(|line| format!(":{line}"))
                .unwrap_or_default();
            let place = file
                .map(|file| format!(" in {file}{line}"))
                .unwrap_or_default();
            let text = escape(&format!("{}{place}", frame.function));
            self.add(&format!("<li><code>{text}</code></li>"));
        }
        self.add("</ol></details>\n");
    }
}

/// Returns a phrase that describes the findings that a tool reports.
fn about(tool: Tool) -> &'static str {
    match tool {
        Tool::Memory => "Accesses to memory that the thread may not access.",
        Tool::Initialisation => "Reads of memory that was never written.",
        Tool::Race => "Unordered accesses to the same memory.",
        Tool::Synchronisation => "Undefined synchronisation between threads.",
        Tool::Leak => "Memory that the program does not free.",
        Tool::Api => "Calls with wrong arguments, and calls that fail.",
    }
}

fn who(thread: Option<Coordinates>, block: Option<Coordinates>) -> Option<String> {
    let (thread, block) = (words::coordinates(thread?), words::coordinates(block?));
    Some(format!("by thread {thread} in block {block}"))
}

/// Draws an allocation and an access of `bytes` bytes. If the distance between them is larger than
/// the allocation, the picture shows a distance as large as the allocation.
fn picture(layout: Layout, bytes: u64) -> String {
    const LEFT: f64 = 10.0;
    const WIDTH: f64 = 620.0;
    const THINNEST: f64 = 3.0;
    let size = layout.size as f64;
    let end = i128::from(layout.size);
    let access = bytes as f64;
    // The distance between the access and the block, on either side.
    let before = (-layout.offset - i128::from(bytes)).max(0) as f64;
    let after = (layout.offset - end).max(0) as f64;
    let (before_shown, after_shown) = (before.min(size), after.min(size));
    let start = match layout.offset {
        offset if offset + i128::from(bytes) <= 0 => -before_shown - access,
        offset if offset >= end => size + after_shown,
        offset => offset as f64,
    };
    let low = start.min(0.0);
    let high = (start + access).max(size);
    let scale = WIDTH / (high - low);
    let x = |at: f64| LEFT + (at - low) * scale;
    let (block_x, block_width) = (x(0.0), size * scale);
    let access_width = (access * scale).max(THINNEST);
    let access_x = x(start).min(LEFT + WIDTH - access_width);
    let middle = access_x + access_width / 2.0;
    let (anchor, label_x) = match middle {
        m if m < 200.0 => ("start", access_x),
        m if m > 440.0 => ("end", access_x + access_width),
        m => ("middle", m),
    };
    let what = words::counted(bytes, "byte", "bytes");
    let offset = layout.offset;
    let sign = if offset < 0 { "-" } else { "" };
    let offset = words::grouped(u64::try_from(offset.unsigned_abs()).unwrap_or(u64::MAX));
    let label = format!("access of {what} at offset {sign}{offset}");
    let mut gap = String::new();
    if before.max(after) > size {
        let (from, to) = match after > 0.0 {
            true => (block_x + block_width, access_x),
            false => (access_x + access_width, block_x),
        };
        gap = format!("<path class=\"gap\" d=\"M{from:.1} 38H{to:.1}\"/>");
    }
    let block = words::counted(layout.size, "byte", "bytes");
    format!(
        "<svg viewBox=\"0 0 640 72\" role=\"img\" aria-label=\"Block of {block}, {label}\">\
         <rect class=\"block\" x=\"{block_x:.1}\" y=\"26\" width=\"{block_width:.1}\" height=\"24\"/>{gap}\
         <rect class=\"access\" x=\"{access_x:.1}\" y=\"22\" width=\"{access_width:.1}\" height=\"32\"/>\
         <text x=\"{label_x:.1}\" y=\"16\" text-anchor=\"{anchor}\">{label}</text>\
         <text x=\"{block_x:.1}\" y=\"68\">0</text>\
         <text x=\"{:.1}\" y=\"68\" text-anchor=\"end\">{block}</text></svg>\n",
        block_x + block_width
    )
}

#[cfg(test)]
mod tests {
    use super::super::filter::Selection;
    use super::super::record::tests::{ACCESS, LEAK, RACE, records};
    use super::*;

    fn page(lines: &[&str]) -> String {
        let selection = Selection {
            records: records(lines),
            ..Selection::default()
        };
        report(&selection.records, &Summary::of(&selection), "./fill <1>")
    }

    #[test]
    fn findings_are_grouped_and_the_page_is_alone() {
        let text = page(&[ACCESS, RACE, LEAK]);
        assert!(text.contains("<title>Findings: ./fill &lt;1&gt;</title>"));
        assert!(text.contains("<h2>memcheck <small"));
        assert!(text.contains("<h3>Kernel <code>fill(int*)</code></h3>"));
        assert!(text.contains("<li><b>3</b> errors</li>"));
        assert!(text.contains("<li><b>1,024</b> bytes leaked</li>"));
        for outside in ["http:", "https:", "<link", "<script", "url(", "@import"] {
            assert!(!text.contains(outside), "{outside}");
        }
        assert!(page(&[]).contains("The checks found nothing."));
        for tag in ["article", "section", "div", "dl", "pre", "svg", "details"] {
            let (open, closed) = (format!("<{tag}"), format!("</{tag}>"));
            assert_eq!(
                text.matches(&open).count(),
                text.matches(&closed).count(),
                "{tag}"
            );
        }
    }

    #[test]
    fn both_accesses_of_a_race_are_shown() {
        let text = page(&[RACE]);
        let sides = "<h5>Write by thread (35,0,0) in block (0,0,0)</h5>\n\
                     <div class=\"where soft\"><code>f.cu:41</code>, PTX line 30</div>\n</div>\n\
                     <div><h5>Read by thread (32,0,0) in block (0,0,0)</h5>\n";
        assert!(text.contains(sides), "{text}");
        assert!(text.contains("<dt>Missing</dt><dd>barrier</dd>"));
    }

    #[test]
    fn the_line_is_marked_among_seven() {
        let path = std::env::temp_dir().join(format!("margay-html-{}.cu", std::process::id()));
        let source: String = (1..=20).map(|n| format!("a<{n}>;\n")).collect();
        std::fs::write(&path, source).expect("written");
        let line = ACCESS.replace(
            "no/such/fill.cu\",\"line\":7",
            &format!("{}\",\"line\":10", path.display()),
        );
        let text = page(&[&line]);
        std::fs::remove_file(&path).expect("removed");
        let excerpt = "<pre><span><i> 7</i>  a&lt;7&gt;;</span>";
        assert!(text.contains(excerpt), "{text}");
        assert!(text.contains("<span class=\"here\"><i>10</i>  a&lt;10&gt;;</span>"));
        assert!(text.contains("<span><i>13</i>  a&lt;13&gt;;</span></pre>"));
    }

    #[test]
    fn the_picture_shows_where_the_access_is() {
        // 620 units for 1024 bytes, 16 bytes of distance and 4 bytes of access.
        let text = page(&[ACCESS]);
        let block = "<rect class=\"block\" x=\"10.0\" y=\"26\" width=\"608.1\" height=\"24\"/>\
                     <rect class=\"access\" x=\"627.0\" y=\"22\" width=\"3.0\" height=\"32\"/>";
        assert!(text.contains(block), "{text}");
        assert!(text.contains(">access of 4 bytes at offset 1,040</text>"));
        // A distance that is longer than the block is dashed.
        let layout = Layout {
            size: 100,
            offset: -1004,
        };
        let text = picture(layout, 4);
        assert!(
            text.contains("<path class=\"gap\" d=\"M22.2 38H326.1\"/>"),
            "{text}"
        );
        assert!(text.contains("at offset -1,004</text>"));
        assert!(!page(&[LEAK]).contains("<svg"));
    }
}
