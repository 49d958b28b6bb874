//! The profile as one web page that needs no other file: an overview, a roofline picture, a timeline, and for each
//! kernel its totals, its findings and its source with counts beside the lines.

mod pictures;
mod source;

use margay_profile::{Finding, KernelProfile, Profile, Summary, findings};

use super::table;
use super::units::{bytes, count, percent, ratio, seconds};
use crate::check::html::head;
use crate::check::source::Sources;
use crate::check::xml::escape;

/// Returns the page.
pub(super) fn page(profile: &Profile) -> String {
    let mut page = Page {
        out: String::new(),
        sources: Sources::default(),
    };
    let findings = findings::of(profile);
    page.head(profile);
    page.program_findings(&findings);
    page.overview(profile);
    page.add(&pictures::roofline(profile));
    page.add(&pictures::timeline(profile));
    for (index, kernel) in profile.kernels.iter().enumerate() {
        let of_kernel = findings
            .iter()
            .filter(|finding| finding.kernel == Some(index));
        page.kernel(index, kernel, of_kernel);
    }
    page.add("<script>\n");
    page.add(include_str!("page.js"));
    page.add("</script>\n</body>\n</html>\n");
    page.out
}

struct Page {
    out: String,
    sources: Sources,
}

impl Page {
    fn add(&mut self, html: &str) {
        self.out.push_str(html);
    }

    fn head(&mut self, profile: &Profile) {
        let heading = ("Profile", "Profile");
        self.add(&head(heading, &profile.program, include_str!("page.css")));
        self.add("<ul class=\"counts\">");
        let mut item = |value: String, name: &str| {
            self.out
                .push_str(&format!("<li><b>{value}</b> {}</li>", escape(name)));
        };
        item(seconds(profile.seconds), "in all, with the profiler");
        if profile.processes != 1 {
            item(profile.processes.to_string(), "processes");
        }
        item(count(profile.kernels.len() as u64), "kernels");
        let launches = profile.kernels.iter().map(|kernel| kernel.launches).sum();
        item(count(launches), "launches");
        item(bytes(profile.peak_bytes), "of memory at most");
        for row in &profile.copies {
            item(
                bytes(row.bytes),
                &format!("{} ({})", row.direction, count(row.count)),
            );
        }
        self.add("</ul>\n");
    }

    fn program_findings(&mut self, findings: &[Finding]) {
        for finding in findings.iter().filter(|finding| finding.kernel.is_none()) {
            self.finding(finding);
        }
    }

    fn finding(&mut self, finding: &Finding) {
        let place = match &finding.source {
            Some(source) => match &source.file {
                Some(file) => format!("{}:{}", escape(file), source.line),
                None => format!("PTX line {}", source.ptx_line),
            },
            None => "whole kernel".to_owned(),
        };
        let weight = 100.0 * finding.weight;
        self.add(&format!(
            "<article>\n<h4>{} <small class=\"soft\">{place}; concerns {weight:.0} %</small></h4>\n<p>{}.</p>\n\
             <p class=\"advice\">{}</p>\n</article>\n",
            escape(finding.rule),
            escape(&finding.text),
            escape(finding.advice)
        ));
    }

    fn overview(&mut self, profile: &Profile) {
        const TITLES: [(&str, &str); 12] = [
            ("Kernel", ""),
            ("Launches", ""),
            ("Threads", ""),
            ("Time", "on this machine, with the profiler"),
            ("Warp instr.", "instructions, each counted once for a warp"),
            (
                "Lanes",
                "threads of a warp that execute an instruction, on average; 32 is best",
            ),
            (
                "Flops",
                "floating-point operations; a fused multiply-add counts as two",
            ),
            (
                "Global",
                "bytes that threads read and write in global memory",
            ),
            (
                "Sectors/req.",
                "32-byte sectors that a request to global memory touches",
            ),
            (
                "Best",
                "the same, if the bytes of each request were contiguous and aligned",
            ),
            (
                "Conflicts",
                "share of the cycles of shared memory that bank conflicts cost",
            ),
            (
                "Divergent",
                "share of the conditional branches that split a warp",
            ),
        ];
        self.add("<div class=\"scroll\"><table class=\"sortable\"><thead><tr>");
        for (title, about) in TITLES {
            self.add(&format!("<th title=\"{about}\">{title}</th>"));
        }
        self.add("</tr></thead>\n<tbody>\n");
        for (index, kernel) in profile.kernels.iter().enumerate() {
            let summary = Summary::of(kernel);
            let (global, shared) = (&summary.global, &summary.shared);
            let title = escape(kernel.title());
            self.add(&format!(
                "<tr><td data-key=\"{title}\"><a href=\"#kernel-{index}\"><code>{title}</code></a></td>"
            ));
            let excess = shared.cycles.saturating_sub(shared.ideal_cycles);
            let cells = [
                (kernel.launches as f64, count(kernel.launches)),
                (kernel.threads as f64, count(kernel.threads)),
                (kernel.seconds, seconds(kernel.seconds)),
                (summary.warps as f64, count(summary.warps)),
                (
                    summary.lanes_per_warp().unwrap_or(0.0),
                    table::lanes(&summary),
                ),
                (summary.flops.all() as f64, count(summary.flops.all())),
                (global.bytes() as f64, bytes(global.bytes())),
                (
                    quotient(global.sectors, global.requests),
                    ratio(global.sectors, global.requests),
                ),
                (
                    quotient(global.ideal_sectors, global.requests),
                    ratio(global.ideal_sectors, global.requests),
                ),
                (
                    quotient(excess, shared.cycles),
                    percent(excess, shared.cycles),
                ),
                (
                    quotient(summary.divergent, summary.branches),
                    percent(summary.divergent, summary.branches),
                ),
            ];
            for (key, text) in cells {
                self.add(&format!("<td data-key=\"{key}\">{text}</td>"));
            }
            self.add("</tr>\n");
        }
        self.add("</tbody></table></div>\n");
    }

    fn kernel<'a>(
        &mut self,
        index: usize,
        kernel: &KernelProfile,
        findings: impl Iterator<Item = &'a Finding>,
    ) {
        let summary = Summary::of(kernel);
        let title = escape(kernel.title());
        self.add(&format!(
            "<section id=\"kernel-{index}\">\n<h2><code>{title}</code></h2>\n<dl>\n"
        ));
        for (name, text) in table::facts(kernel, &summary) {
            self.add(&format!(
                "<dt>{}</dt><dd>{}</dd>\n",
                escape(name),
                escape(&text)
            ));
        }
        self.add("</dl>\n");
        findings.for_each(|finding| self.finding(finding));
        let annotated = source::annotated(kernel, &summary, &self.sources);
        self.add(&annotated);
        self.add("</section>\n");
    }
}

fn quotient(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        _ => part as f64 / whole as f64,
    }
}
