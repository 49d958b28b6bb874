//! Converts faults of native code and of the interpreter to the faults that the runtime reports to
//! the program.

use margay_exec::{CtaInfo, Fault as IrFault, FaultKind as IrKind};
use margay_ir::function::SourceLoc;
use margay_jit::abi::{UNKNOWN_HANDLE, status};

use super::kernel::KernelCode;
use super::launch::PtxLaunch;
use crate::error::{Fault, FaultKind, STOPPED, SourceLine};
use crate::fault::{AccessFault, AccessKind, Trap, TrapKind};

/// Returns a text about a thread that was executing when its launch was stopped. The text states
/// the thread's block, its index and its source position.
pub(super) fn place(fault: &Fault) -> String {
    let mut text = String::new();
    if let Some([x, y, z]) = fault.cta {
        text += &format!("block ({x},{y},{z}): ");
    }
    if let Some([x, y, z]) = fault.thread {
        text += &format!("thread ({x},{y},{z}) ");
    }
    text += "runs";
    if let Some(line) = fault.ptx_line {
        text += &format!(" at PTX line {line}");
    }
    text
}

/// Returns the fault kind for the fault of an access that a helper performed.
pub(super) fn of_access(fault: AccessFault) -> IrKind {
    let write = Some(fault.access == AccessKind::Write);
    match fault.kind {
        TrapKind::Misaligned => IrKind::Misaligned {
            address: Some(fault.address),
        },
        _ => IrKind::IllegalAddress {
            address: Some(fault.address),
            write,
        },
    }
}

/// Returns the fault kind of a trap in generated code.
pub(super) fn of_trap(trap: &Trap) -> IrKind {
    match trap.kind {
        TrapKind::Misaligned => IrKind::Misaligned {
            address: trap.address,
        },
        TrapKind::StackOverflow => IrKind::StackOverflow,
        // Generated code executes trap instructions only after a failed alignment test of an address (`margay_jit`) or
        // after the host has refused an access. In the second case, `fault_of` in `native_cta` uses the fault that the
        // host has recorded instead of this kind.
        TrapKind::IllegalInstruction => IrKind::Misaligned { address: None },
        TrapKind::Arithmetic => IrKind::IllegalInstruction,
        TrapKind::Stopped => IrKind::Stopped,
        _ => IrKind::IllegalAddress {
            address: trap.address,
            write: trap.access.map(|access| access == AccessKind::Write),
        },
    }
}

/// Returns the fault kind for the status code `code`, which generated code has returned. `handle`
/// is the field `ended_handle` of the native context.
pub(super) fn of_status(code: i32, handle: u64) -> IrKind {
    match code {
        status::TRAP => IrKind::Trap,
        status::BREAKPOINT => IrKind::Breakpoint,
        status::STACK => IrKind::StackOverflow,
        status::INVALID_PC => IrKind::InvalidPc {
            handle: (handle != UNKNOWN_HANDLE).then_some(handle),
        },
        _ => IrKind::IllegalInstruction,
    }
}

/// Returns the source file and the line of the position `loc` in a kernel's code.
pub(super) fn source_of(code: &KernelCode, loc: SourceLoc) -> Option<SourceLine> {
    SourceLine::of(&code.module, loc)
}

/// Converts the fault of a CTA from the type of the engine to the type that the runtime reports.
pub(super) fn report(launch: &PtxLaunch, cta: &CtaInfo, fault: IrFault) -> Fault {
    let mut report = Fault::new(FaultKind::LaunchFailed, &launch.code.name).at_cta(cta.index);
    report.thread = fault.thread.map(|thread| launch.info.thread_index(thread));
    report.ptx_line = (fault.loc.ptx_line != 0).then_some(fault.loc.ptx_line);
    report.source = source_of(&launch.code, fault.loc);
    report.kind = match fault.kind {
        IrKind::IllegalAddress { address, write } => {
            report.address = address;
            report.write = write;
            FaultKind::IllegalAddress
        }
        IrKind::Misaligned { address } => {
            report.address = address;
            FaultKind::MisalignedAddress
        }
        IrKind::IllegalInstruction => FaultKind::IllegalInstruction,
        IrKind::Trap => {
            report.detail = "trap".into();
            FaultKind::LaunchFailed
        }
        IrKind::Breakpoint => {
            report.detail = "breakpoint without a debugger".into();
            FaultKind::LaunchFailed
        }
        IrKind::InvalidPc { handle } => {
            let handle = handle.map_or_else(|| "a value".into(), |handle| format!("{handle:#x}"));
            report.detail =
                format!("call through {handle}, which is not a function with the called prototype");
            FaultKind::InvalidPc
        }
        IrKind::Assert { message } => {
            report.detail = message;
            FaultKind::Assert
        }
        IrKind::StackOverflow => FaultKind::Stack,
        IrKind::Deadlock { waiting } => {
            report.detail = waiting.join("; ");
            FaultKind::Deadlock
        }
        IrKind::InvalidReference { what } => {
            report.detail = what;
            FaultKind::IllegalAddress
        }
        IrKind::SurfaceBounds { at, size } => {
            report.detail = format!("surface access at {at:?}, the surface is {size:?}");
            FaultKind::LaunchFailed
        }
        IrKind::Stopped => {
            report.detail = STOPPED.into();
            FaultKind::LaunchFailed
        }
        IrKind::Unsupported { what } => {
            report.detail = what;
            FaultKind::Unsupported
        }
    };
    report
}
