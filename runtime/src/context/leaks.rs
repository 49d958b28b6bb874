//! Reports memory that the program has not freed by the time when the memory's context or the
//! process ends.

use super::Context;
use crate::call_stack::CallStack;
use crate::checks::{Finding, Findings, Kind, Tool};
use crate::machine::Machine;
use crate::memory::{self, MemoryKind, grouped_bytes};

impl Context {
    /// In a run with leak checks, reports the memory that the program allocated in this context and
    /// has not freed. If the context has a fault, the function only reports that the memory was not
    /// examined, because programs seldom free their memory after a fault.
    pub fn report_leaks(&self) {
        let Some(findings) = finder(self.machine()) else {
            return;
        };
        if !self.inner.is_alive() {
            return;
        }
        if self.fault_status().is_err() {
            findings.note_unexamined_leaks();
            return;
        }
        self.settle();
        // NVIDIA's runtime ends its contexts in an exit handler, so `exit` can be on the stack.
        let call = CallStack::capture();
        let at_exit = call.frames().iter().any(|frame| frame.function == "exit");
        let when = (!at_exit).then_some("Found when its context ended");
        report_unfreed(self.machine(), findings, Some(self.id()), when);
        self.report_heap(findings);
    }

    /// Reports the blocks of the device heap that device code has not freed.
    fn report_heap(&self, findings: &Findings) {
        for (address, bytes) in self.inner.heap.unfreed() {
            let text = leaked(bytes, "", address) + " on the device heap";
            findings.add(leaked_block(text, address, bytes), None);
        }
    }
}

/// Reports all memory that the program has not freed. If any context has a fault, the function examines no memory, and
/// only reports this.
pub(crate) fn report_all(machine: &Machine) {
    let Some(findings) = finder(machine) else {
        return;
    };
    let contexts = Context::all_of(machine);
    if contexts
        .iter()
        .any(|context| context.fault_status().is_err())
    {
        findings.note_unexamined_leaks();
        return;
    }
    report_unfreed(machine, findings, None, None);
    for context in contexts {
        context.report_heap(findings);
    }
}

fn finder(machine: &Machine) -> Option<&Findings> {
    let findings = machine.findings.as_deref();
    findings.filter(|findings| findings.tools().contains(Tool::Leak))
}

/// Reports the unfreed memory of the context with the ID `owner`, or of all contexts if `owner` is
/// `None`. `when` is a text that states when the unfreed memory was found, or `None` at the exit of
/// the process.
fn report_unfreed(machine: &Machine, findings: &Findings, owner: Option<u64>, when: Option<&str>) {
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
        let mut finding = leaked_block(leaked(size, kind, base), base, size);
        finding.explanation = when.map(str::to_owned);
        findings.add(finding, call.as_ref());
    }
}

fn leaked(bytes: u64, kind: &str, address: u64) -> String {
    format!("Leaked {}{kind} at {address:#x}", grouped_bytes(bytes))
}

fn leaked_block(text: String, address: u64, bytes: u64) -> Finding {
    let mut finding = Finding::new(Kind::LeakedMemory, text);
    (finding.address, finding.size) = (Some(address), Some(bytes));
    finding
}
