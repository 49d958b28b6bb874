//! `libcupti.so.12`: the functions of crate `margay_cupti` with the records of CUDA 12.

use margay_activity::layout::Toolkit;

/// The address of the function that selects the toolkit when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    margay_cupti::select(Toolkit::Cuda12);
}

margay_cupti::refuse! { margay_cupti::refused::Outcome::NOT_SUPPORTED, "Refuses a feature that does not exist.":
    cuptiDisableNonOverlappingMode
    cuptiEnableNonOverlappingMode
}
