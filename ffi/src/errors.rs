//! Translates errors of the runtime into result codes. No other module translates errors; [`CuResult::of_fault`] lists
//! the codes of faults.
//!
//! Invariant: each variant of [`margay::Error`] and each [`margay::FaultKind`] has one code. Details that a code cannot
//! express (a diagnostic, the name of an unsupported feature) go to standard error. The runtime itself writes the
//! location of a fault to standard error.

use margay::container::{ImageError, ImageFault};
use margay::{CaptureError, Error};

use crate::guard::warn;
use crate::result::CuResult;
use crate::{client, dump};

impl From<Error> for CuResult {
    fn from(error: Error) -> CuResult {
        report(&error);
        code_of(&error)
    }
}

impl From<ImageError> for CuResult {
    fn from(error: ImageError) -> CuResult {
        warn(format_args!("{error}"));
        match error.fault() {
            ImageFault::InvalidImage => CuResult::INVALID_IMAGE,
            ImageFault::NoBinary => CuResult::NO_BINARY_FOR_GPU,
            ImageFault::OutOfMemory => CuResult::OUT_OF_MEMORY,
        }
    }
}

/// Returns the result code of an error.
pub(crate) fn code_of(error: &Error) -> CuResult {
    match error {
        Error::InvalidValue(_) => CuResult::INVALID_VALUE,
        Error::OutOfMemory { .. } => CuResult::OUT_OF_MEMORY,
        Error::NotInitialized => CuResult::NOT_INITIALIZED,
        Error::Deinitialized => CuResult::DEINITIALIZED,
        Error::NoDevice => CuResult::NO_DEVICE,
        Error::InvalidDevice(_) => CuResult::INVALID_DEVICE,
        Error::InvalidImage(_) => CuResult::INVALID_IMAGE,
        Error::InvalidContext(_) => CuResult::INVALID_CONTEXT,
        Error::NoBinary(_) => CuResult::NO_BINARY_FOR_GPU,
        Error::UnsupportedLimit(_) => CuResult::UNSUPPORTED_LIMIT,
        Error::PeerAccessUnsupported => CuResult::PEER_ACCESS_UNSUPPORTED,
        Error::InvalidPtx { .. } => CuResult::INVALID_PTX,
        Error::UnsupportedPtxVersion(_) => CuResult::UNSUPPORTED_PTX_VERSION,
        Error::InvalidSource(_) => CuResult::INVALID_SOURCE,
        Error::FileNotFound(_) => CuResult::FILE_NOT_FOUND,
        Error::UnresolvedSymbol(_) => CuResult::SHARED_OBJECT_SYMBOL_NOT_FOUND,
        Error::OperatingSystem(_) => CuResult::OPERATING_SYSTEM,
        Error::InvalidHandle(_) => CuResult::INVALID_HANDLE,
        Error::IllegalState(_) => CuResult::ILLEGAL_STATE,
        Error::NotFound(_) => CuResult::NOT_FOUND,
        Error::NotReady => CuResult::NOT_READY,
        Error::LaunchOutOfResources(_) => CuResult::LAUNCH_OUT_OF_RESOURCES,
        Error::PeerAccessAlreadyEnabled => CuResult::PEER_ACCESS_ALREADY_ENABLED,
        Error::PeerAccessNotEnabled => CuResult::PEER_ACCESS_NOT_ENABLED,
        Error::PrimaryContextActive => CuResult::PRIMARY_CONTEXT_ACTIVE,
        Error::ContextDestroyed => CuResult::CONTEXT_IS_DESTROYED,
        Error::HostMemoryAlreadyRegistered => CuResult::HOST_MEMORY_ALREADY_REGISTERED,
        Error::HostMemoryNotRegistered => CuResult::HOST_MEMORY_NOT_REGISTERED,
        Error::CooperativeLaunchTooLarge { .. } => CuResult::COOPERATIVE_LAUNCH_TOO_LARGE,
        Error::InvalidClusterSize(_) => CuResult::INVALID_CLUSTER_SIZE,
        Error::NotPermitted(_) => CuResult::NOT_PERMITTED,
        Error::LossyQuery(_) => CuResult::LOSSY_QUERY,
        Error::Capture(error) => capture_code(*error),
        Error::GraphUpdate(_) => CuResult::GRAPH_EXEC_UPDATE_FAILURE,
        Error::Unsupported { .. } => CuResult::NOT_SUPPORTED,
        Error::Fault(fault) => CuResult::of_fault(fault.kind),
        // This arm is for `Error::Internal`. Because `Error` is non-exhaustive, the compiler does not report that a new
        // variant needs an arm of its own.
        _ => CuResult::UNKNOWN,
    }
}

fn capture_code(error: CaptureError) -> CuResult {
    match error {
        CaptureError::Unsupported => CuResult::STREAM_CAPTURE_UNSUPPORTED,
        CaptureError::Invalidated => CuResult::STREAM_CAPTURE_INVALIDATED,
        CaptureError::Merge => CuResult::STREAM_CAPTURE_MERGE,
        CaptureError::Unmatched => CuResult::STREAM_CAPTURE_UNMATCHED,
        CaptureError::Unjoined => CuResult::STREAM_CAPTURE_UNJOINED,
        CaptureError::Isolation => CuResult::STREAM_CAPTURE_ISOLATION,
        CaptureError::Implicit => CuResult::STREAM_CAPTURE_IMPLICIT,
        CaptureError::CapturedEvent => CuResult::CAPTURED_EVENT,
        CaptureError::WrongThread => CuResult::STREAM_CAPTURE_WRONG_THREAD,
    }
}

/// Adds an error other than [`Error::NotReady`] to the dump ([`crate::dump`]). Errors of images,
/// unsupported features and internal errors are also written to standard error, because a result
/// code does not express their details. Faults are not written there, because the runtime has
/// already written them.
pub(crate) fn report(error: &Error) {
    if !matches!(error, Error::NotReady) {
        dump::problem(error);
    }
    match error {
        Error::NoBinary(_) => {
            let way = client::way_out().map_or_else(String::new, |way| format!("; {way}"));
            warn(format_args!("{}: {error}{way}", client::name()));
        }
        Error::InvalidPtx { .. }
        | Error::UnsupportedPtxVersion(_)
        | Error::InvalidImage(_)
        | Error::UnresolvedSymbol(_)
        | Error::Unsupported { .. }
        | Error::Internal(_) => warn(format_args!("{error}")),
        _ => tracing::debug!("{error}"),
    }
}

#[cfg(test)]
mod tests {
    use margay::Fault;

    use margay::FaultKind;

    use super::*;

    #[test]
    fn faults_have_the_numbers_of_the_documentation() {
        let number = |kind| code_of(&Error::from(Fault::new(kind, "k"))).0;
        assert_eq!(number(FaultKind::IllegalAddress), 700);
        assert_eq!(number(FaultKind::Timeout), 702);
        assert_eq!(number(FaultKind::Deadlock), 702);
        assert_eq!(number(FaultKind::Hang), 702);
        assert_eq!(number(FaultKind::Assert), 710);
        assert_eq!(number(FaultKind::Stack), 714);
        assert_eq!(number(FaultKind::IllegalInstruction), 715);
        assert_eq!(number(FaultKind::MisalignedAddress), 716);
        assert_eq!(number(FaultKind::InvalidAddressSpace), 717);
        assert_eq!(number(FaultKind::InvalidPc), 718);
        assert_eq!(number(FaultKind::OutOfResources), 701);
        assert_eq!(number(FaultKind::LaunchFailed), 719);
    }
}
