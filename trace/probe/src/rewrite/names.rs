//! Names for the registers and labels that probes add.
//!
//! Invariant: no name of the module starts with the prefix of these names.

/// The part that all added names have in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Names {
    word: String,
}

impl Names {
    /// Chooses names that no name in the module's text resembles.
    pub(super) fn new(text: &str) -> Names {
        let mut word = "probe_".to_owned();
        let mut number = 0;
        // Each number needs at least one name in the text, so the search ends.
        while text.contains(&word) {
            number += 1;
            word = format!("probe{number}_");
        }
        Names { word }
    }

    /// Returns the name of an added register.
    pub(super) fn register(&self, suffix: &str) -> String {
        format!("%{}{suffix}", self.word)
    }

    /// Returns the name of an added label.
    pub(super) fn label(&self, suffix: &str) -> String {
        format!("${}{suffix}", self.word)
    }

    /// Returns the name of the added register that stands for a register that a probe declares.
    pub(super) fn declared(&self, name: &str) -> String {
        self.register(&format!("r_{}", name.trim_start_matches(['%', '$'])))
    }
}
