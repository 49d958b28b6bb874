//! Reports memory that the program has not freed, when its context or the process ends.

use super::Context;
use crate::call_stack::CallStack;
use crate::checks::{Finding, Findings, Kind, Tool};
use crate::machine::Machine;
use crate::memory::{self, MemoryKind, grouped_bytes};

impl Context {
    /// Reports the memory that the program allocated in this context and has not freed, if this is a run with leak
    /// checks. Reports nothing after a fault, because a program cannot be expected to free memory then.
    pub fn report_leaks(&self) {
        let Some(findings) = finder(self.machine()) else {
            return;
        };
        if !self.inner.is_alive() || self.fault_status().is_err() {
            return;
        }
        self.settle();
        report_unfreed(self.machine(), findings, Some(self.id()));
        self.report_heap(findings);
    }

    /// Reports the blocks that device code allocated and has not freed.
    fn report_heap(&self, findings: &Findings) {
        for (address, bytes) in self.inner.heap.unfreed() {
            let text = leaked(bytes, "", address) + " on the device heap";
            report(findings, text, address, bytes, None);
        }
    }
}

/// Reports all memory that the program has not freed.
pub(crate) fn report_all(machine: &Machine) {
    let Some(findings) = finder(machine) else {
        return;
    };
    let contexts = Context::all_of(machine);
    if contexts
        .iter()
        .any(|context| context.fault_status().is_err())
    {
        return;
    }
    report_unfreed(machine, findings, None);
    for context in contexts {
        context.report_heap(findings);
    }
}

fn finder(machine: &Machine) -> Option<&Findings> {
    let findings = machine.findings.as_deref();
    findings.filter(|findings| findings.tools().contains(Tool::Leak))
}

fn report_unfreed(machine: &Machine, findings: &Findings, owner: Option<u64>) {
    for (found, call) in machine.memory.unfreed(owner) {
        let memory::Allocation { base, size, .. } = found;
        let kind = match found.kind {
            MemoryKind::Registered => {
                let bytes = grouped_bytes(size);
                let text =
                    format!("Registration of {bytes} of host memory at {base:#x} not removed");
                let mut finding = Finding::new(Kind::LeakedObject, text);
                finding.address = Some(base);
                findings.add(finding, call.as_ref());
                continue;
            }
            MemoryKind::Device => "",
            MemoryKind::Pinned => " of pinned memory",
            MemoryKind::Managed => " of managed memory",
            MemoryKind::Pool => " of a pool",
            MemoryKind::Mapped => " of mapped device memory",
            MemoryKind::Imported => " of another process's memory",
        };
        report(
            findings,
            leaked(size, kind, base),
            base,
            size,
            call.as_ref(),
        );
    }
}

fn leaked(bytes: u64, kind: &str, address: u64) -> String {
    format!("Leaked {}{kind} at {address:#x}", grouped_bytes(bytes))
}

fn report(findings: &Findings, text: String, address: u64, bytes: u64, call: Option<&CallStack>) {
    let mut finding = Finding::new(Kind::LeakedMemory, text);
    (finding.address, finding.size) = (Some(address), Some(bytes));
    findings.add(finding, call);
}
