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

/// The programs that read the results of shipped probe files: the name and the text of each, in alphabetical order. They
/// have to be in the same folder as `read.py`.
const CALLBACKS: [(&str, &str); 3] = [
    (
        "block_sched_callback.py",
        include_str!("../tools/block_sched_callback.py"),
    ),
    (
        "dmat_callback.py",
        include_str!("../tools/dmat_callback.py"),
    ),
    (
        "gmem_bytes_analysis.py",
        include_str!("../tools/gmem_bytes_analysis.py"),
    ),
];

/// Returns the name and the text of the shipped callback with this file name.
pub fn callback(name: &str) -> Option<(&'static str, &'static str)> {
    CALLBACKS.into_iter().find(|(known, _)| *known == name)
}
