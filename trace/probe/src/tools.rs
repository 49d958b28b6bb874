//! The probe files that come with Margay.

/// The name and the text of each shipped probe file, in alphabetical order.
pub const TOOLS: [(&str, &str); 6] = [
    ("block_sched", include_str!("../tools/block_sched.toml")),
    ("dmat", include_str!("../tools/dmat.toml")),
    ("gmem_bytes", include_str!("../tools/gmem_bytes.toml")),
    (
        "program_progress",
        include_str!("../tools/program_progress.toml"),
    ),
    ("tensorop", include_str!("../tools/tensorop.toml")),
    ("warp_sched", include_str!("../tools/warp_sched.toml")),
];

/// Returns the text of the shipped probe file with this name, which has no suffix.
pub fn tool(name: &str) -> Option<&'static str> {
    TOOLS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}
