//! Checks that threads read only bytes that have been written.

use margay_ops::mods::StateSpace;
use margay_shadow::init::Written;

use super::{Examiner, Observed};
use crate::checks::Kind;

impl Examiner<'_> {
    /// Marks the shared memory of the current CTA as unwritten. If the current CTA has already been
    /// recorded as the owner of this memory, does nothing. Reserved memory is always marked as
    /// written, because the cooperative groups of CUDA C++ first access it with atomic operations
    /// that clear single bits.
    pub(super) fn begin_shared(&self) {
        let own = u64::from(self.info.static_shared) + u64::from(self.info.dynamic_shared);
        let shadow = self.findings.shadow();
        if let Some(initialised) = &shadow.initialised
            && own != 0
        {
            let start = self.cta.shared_base + self.shared_offset();
            if shadow.is_new_owner(start, (self.info.grid_id, self.cta.linear)) {
                initialised.track(start, own);
                initialised.set(start, self.info.reserved_shared.into());
            }
        }
    }

    /// For generated code, returns the address of the record that states which bytes of a range
    /// have been written, or 0 if all bytes have been written or the run does not check initialisation.
    /// Returns `None` if generated code cannot use the record. The address is valid as long as this
    /// examiner exists.
    pub(super) fn record_of(&mut self, (start, size): (u64, u64)) -> Option<u64> {
        let Some(initialised) = &self.findings.shadow().initialised else {
            return Some(0);
        };
        self.written.record(initialised, start, size)
    }

    /// Adds a finding if the access reads bytes that have not been written. If the access writes,
    /// records that its bytes have been written.
    pub(super) fn initialisation(&mut self, at: &Observed<'_>, address: u64, bytes: u32) {
        let findings = self.findings;
        let Some(initialised) = &findings.shadow().initialised else {
            return;
        };
        if matches!(at.access.space, StateSpace::Local | StateSpace::Const) {
            return;
        }
        if at.access.uses_memory() {
            let kind = match self.written.written(initialised, address, bytes.into()) {
                Written::All => None,
                // Copies of structures also copy the padding, which programs need not write.
                Written::Some if at.access.only_copied => Some(Kind::PartlyUninitialized),
                // The elements of a vector access can be different members of a structure, of which the program uses
                // only some.
                Written::Some if self.is_element_written(at, address, bytes) => {
                    Some(Kind::PartlyUninitialized)
                }
                Written::Some | Written::None => Some(Kind::Uninitialized),
            };
            let is_shared = matches!(
                self.space_of(at.access.space, address),
                StateSpace::Shared | StateSpace::SharedCluster
            );
            let options = findings.options();
            let selected = match is_shared {
                true => options.init_shared,
                false => options.init_global,
            };
            if let Some(kind) = kind.filter(|_| selected) {
                self.report_initialisation(at, (address, bytes), kind);
            }
        }
        if at.access.mode.writes() {
            self.written.set(initialised, address, bytes.into());
        }
    }

    /// Returns whether the access has several elements, and each of them is either completely written
    /// or completely unwritten.
    fn is_element_written(&self, at: &Observed<'_>, address: u64, bytes: u32) -> bool {
        let element = u64::from(at.access.element.max(1));
        let Some(initialised) = &self.findings.shadow().initialised else {
            return true;
        };
        element < u64::from(bytes)
            && (0..u64::from(bytes) / element)
                .all(|i| initialised.written(address + i * element, element) != Written::Some)
    }
}
