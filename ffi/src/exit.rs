//! Completes the files of the process's tools when the process exits.

use crate::{profiling, tools, traces};

/// The address of the function that completes the files of the tools when the process exits.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

extern "C" fn at_exit() {
    if !tools::exist() {
        return;
    }
    let _ = std::panic::catch_unwind(|| {
        profiling::save();
        traces::finish();
    });
}
