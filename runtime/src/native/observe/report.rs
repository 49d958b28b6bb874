//! Creates the findings of a checking run about accesses of kernels.

use margay_ir::function::SourceLoc;
use margay_ops::mods::StateSpace;

use super::{Examiner, Observed};
use crate::checks::{Access, Finding, Kind, Place, ThreadPlace};
use crate::demangle;
use crate::memory::grouped_bytes;
use crate::native::faults;
use crate::native::kernel::KernelCode;

impl Examiner<'_> {
    /// Adds a finding about an access that is not permitted.
    #[cold]
    pub(super) fn report_access(
        &mut self,
        at: &Observed<'_>,
        (address, bytes): (u64, u32),
        kind: Kind,
    ) {
        self.report(at, kind, |examiner| {
            let space = space_name(examiner.space_of(at.access.space, address));
            let what = Access::of(at.access.mode).name();
            let text = format!(
                "Invalid {space} {what} of size {}",
                grouped_bytes(bytes.into())
            );
            let mut finding = examiner.memory_finding((kind, text), at, (space, address, bytes));
            finding.allocation = Some(examiner.describe(at, address, kind));
            finding
        });
    }

    /// Adds a finding about a read of bytes that have not been written.
    #[cold]
    pub(super) fn report_initialisation(
        &mut self,
        at: &Observed<'_>,
        (address, bytes): (u64, u32),
        kind: Kind,
    ) {
        self.report(at, kind, |examiner| {
            let space = space_name(examiner.space_of(at.access.space, address));
            let text = format!(
                "Uninitialized {space} memory read of size {}",
                grouped_bytes(bytes.into())
            );
            let mut finding = examiner.memory_finding((kind, text), at, (space, address, bytes));
            finding.allocation = match space {
                "__shared__" => Some(examiner.shared_text(address)),
                _ => examiner.visible.describe(address),
            };
            finding
        });
    }

    /// Adds a finding about a call of `free` with an address that `malloc` did not return, or with
    /// a block that is already free.
    #[cold]
    pub(super) fn report_free(&mut self, at: &Observed<'_>, address: u64, kind: Kind) {
        self.report(at, kind, |examiner| {
            let what = match kind {
                Kind::DoubleFree => "Double free",
                _ => "Invalid pointer to free",
            };
            let text = format!("Malloc/Free error encountered : {what}");
            let mut finding = examiner.finding(kind, text, at);
            finding.access = None;
            finding.address = Some(address);
            finding
        });
    }

    /// Adds the finding that `create` returns. `create` is called only if this examiner has not yet
    /// added a finding of this kind for the same instruction.
    fn report(&mut self, at: &Observed<'_>, kind: Kind, create: impl FnOnce(&Self) -> Finding) {
        let key = (kind, at.loc.ptx_line, at.loc.loc, at.access.to_bits());
        if let Some(&known) = self.reported.get(&key)
            && self.findings.again(known)
        {
            return;
        }
        let finding = create(self);
        let id = self.findings.add(finding, self.launch.shape.call.as_ref());
        if let Some(id) = id {
            self.reported.insert(key, id);
        }
    }

    /// Creates a finding about the access `at`.
    fn finding(&self, kind: Kind, text: String, at: &Observed<'_>) -> Finding {
        let mut finding = Finding::new(kind, text);
        let code = &self.launch.code;
        finding.kernel = Some(code.name.clone());
        finding.place = place_of(code, at.loc);
        finding.access = Some(Access::of(at.access.mode));
        finding.thread = Some(ThreadPlace {
            thread: self.info.thread_index(at.thread),
            block: self.info.cta_index(self.cta.linear),
        });
        finding
    }

    /// Creates a finding about an access to bytes at an address in a state space.
    fn memory_finding(
        &self,
        (kind, text): (Kind, String),
        at: &Observed<'_>,
        (space, address, bytes): (&'static str, u64, u32),
    ) -> Finding {
        let mut finding = self.finding(kind, text, at);
        finding.space = Some(space);
        finding.size = Some(bytes.into());
        finding.address = Some(address);
        finding
    }

    /// Returns a text that describes the memory to which an access that is not permitted refers.
    fn describe(&self, at: &Observed<'_>, address: u64, kind: Kind) -> String {
        let place = match self.space_of(at.access.space, address) {
            StateSpace::Shared | StateSpace::SharedCluster => self.shared_text(address),
            StateSpace::Local => "outside of the thread's local memory".to_owned(),
            _ => self
                .visible
                .describe(address)
                .unwrap_or_else(|| crate::memory::host_memory(address)),
        };
        match kind {
            Kind::Misaligned => format!("address is misaligned: {place}"),
            Kind::WrongSpace if self.visible.is_constant(address) => {
                format!(
                    "address is in a constant variable, which a kernel of its module cannot write: {place}"
                )
            }
            _ => format!("address is out of bounds: {place}"),
        }
    }

    /// Returns a text that describes an address in shared memory.
    pub(super) fn shared_text(&self, address: u64) -> String {
        let (_, offset) = self.shared_place(address);
        let variables = &self.launch.code.shared.variables;
        let fixed = u64::from(self.info.static_shared);
        let dynamic = u64::from(self.info.dynamic_shared);
        if offset >= fixed && dynamic != 0 {
            let size = grouped_bytes(dynamic);
            return match offset - fixed {
                at if at < dynamic => {
                    format!("{} into {size} of dynamic shared memory", grouped_bytes(at))
                }
                at => format!(
                    "{} after {size} of dynamic shared memory",
                    grouped_bytes(at - dynamic)
                ),
            };
        }
        let next = variables.partition_point(|variable| variable.start <= offset);
        let variable = next.checked_sub(1).map(|index| &variables[index]);
        let Some(variable) = variable else {
            return format!("offset {:#x} in shared memory", offset as i64);
        };
        let size = grouped_bytes(variable.end - variable.start);
        let name = demangle::readable(&variable.name);
        match offset.checked_sub(variable.end) {
            None => format!(
                "{} into {name} of {size}",
                grouped_bytes(offset - variable.start)
            ),
            Some(behind) => format!(
                "{} after the end of {name} of {size}",
                grouped_bytes(behind)
            ),
        }
    }
}

/// Converts the source position `loc` to the type that findings contain.
pub(super) fn place_of(code: &KernelCode, loc: SourceLoc) -> Place {
    Place {
        ptx_line: (loc.ptx_line != 0).then_some(loc.ptx_line),
        source: faults::source_of(code, loc),
    }
}

/// Returns the name that reports use for a state space.
pub(super) fn space_name(space: StateSpace) -> &'static str {
    match space {
        StateSpace::Shared | StateSpace::SharedCluster => "__shared__",
        StateSpace::Local => "__local__",
        StateSpace::Global | StateSpace::None => "__global__",
        StateSpace::Const => "__constant__",
        StateSpace::Param | StateSpace::ParamFunc => "__parameter__",
    }
}
