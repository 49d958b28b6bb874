//! The statuses of cuRAND (`curandStatus_t`).

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Status {
    /// The generator is unknown.
    NotInitialized = 101,
    /// Memory is exhausted.
    AllocationFailed = 102,
    /// The generator has another type.
    TypeError = 103,
    /// An argument is out of range.
    OutOfRange = 104,
    /// The number of results is not a multiple of the dimensions, or not even.
    LengthNotMultiple = 105,
    /// The work could not be submitted.
    LaunchFailure = 201,
    /// There is no driver or no device.
    InitializationFailed = 203,
    /// Something else failed.
    InternalError = 999,
}

/// The result of a call.
pub(crate) type Outcome = Result<(), Status>;

/// Returns a status unless a condition holds.
pub(crate) fn need(condition: bool, status: Status) -> Outcome {
    condition.then_some(()).ok_or(status)
}
