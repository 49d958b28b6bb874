//! The profile as comma-separated values: a row for each source line of each kernel.

use margay_profile::{Class, LineSummary, Precision, Profile};

/// Returns the text, with a header line. Lines without line information have an empty file and the line of the PTX text.
pub(super) fn text(profile: &Profile) -> String {
    let mut out = String::from("kernel,file,line,warp_instructions,thread_instructions");
    for class in Class::ALL {
        out.push_str(&format!(",{}", class.name()));
    }
    for precision in Precision::ALL {
        out.push_str(&format!(",flops_{}", precision.name()));
    }
    out.push_str(",branches,divergent_branches");
    for space in ["global", "local", "constant"] {
        out.push_str(&format!(
            ",{space}_requests,{space}_loaded_bytes,{space}_stored_bytes,{space}_sectors,{space}_ideal_sectors"
        ));
    }
    out.push_str(",shared_requests,shared_loaded_bytes,shared_stored_bytes,shared_cycles,shared_ideal_cycles");
    out.push_str(",atomics,collisions\n");
    for kernel in &profile.kernels {
        for line in LineSummary::of(kernel) {
            row(&mut out, kernel.title(), &line);
        }
    }
    out
}

fn row(out: &mut String, kernel: &str, line: &LineSummary) {
    let summary = &line.summary;
    let file = line.file.as_deref().unwrap_or_default();
    let mut fields = vec![quoted(kernel), quoted(file), line.line.to_string()];
    fields.extend([summary.warps, summary.executed].map(|count| count.to_string()));
    let class = |class| summary.classes.get(&class).copied().unwrap_or(0);
    fields.extend(Class::ALL.map(|of| class(of).to_string()));
    let flops = |precision| summary.flops.0.get(&precision).copied().unwrap_or(0);
    fields.extend(Precision::ALL.map(|of| flops(of).to_string()));
    fields.extend([summary.branches, summary.divergent].map(|count| count.to_string()));
    for traffic in [&summary.global, &summary.local, &summary.constant] {
        let counts = [
            traffic.requests,
            traffic.loaded,
            traffic.stored,
            traffic.sectors,
            traffic.ideal_sectors,
        ];
        fields.extend(counts.map(|count| count.to_string()));
    }
    let shared = &summary.shared;
    let counts = [
        shared.requests,
        shared.loaded,
        shared.stored,
        shared.cycles,
        shared.ideal_cycles,
        summary.atomics,
        summary.collisions,
    ];
    fields.extend(counts.map(|count| count.to_string()));
    out.push_str(&fields.join(","));
    out.push('\n');
}

/// Returns a field. A field with a comma, a quotation mark or a line break is in quotation marks (RFC 4180).
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_are_quoted() {
        assert_eq!(quoted("a b"), "a b");
        assert_eq!(quoted("f(int, \"x\")"), "\"f(int, \"\"x\"\")\"");
    }
}
