//! In messages about wrong calls, replaces the driver's function by the function that the program called. A program
//! that uses NVIDIA's runtime library calls a function of the runtime, for example `cudaMalloc`. The runtime then calls
//! the driver, which reports the error with the name of the driver's function.

use super::record::HostFrame;

/// Errors whose names in the runtime cannot be derived from their names in the driver. Each entry contains the driver's
/// name without `CUDA_ERROR_`, and the runtime's name without `cudaError`.
const OTHER_NAMES: [(&str, &str); 17] = [
    ("OUT_OF_MEMORY", "MemoryAllocation"),
    ("NOT_INITIALIZED", "InitializationError"),
    ("DEINITIALIZED", "CudartUnloading"),
    ("DEVICE_UNAVAILABLE", "DevicesUnavailable"),
    ("INVALID_IMAGE", "InvalidKernelImage"),
    ("INVALID_CONTEXT", "DeviceUninitialized"),
    ("MAP_FAILED", "MapBufferObjectFailed"),
    ("UNMAP_FAILED", "UnmapBufferObjectFailed"),
    ("NO_BINARY_FOR_GPU", "NoKernelImageForDevice"),
    ("ECC_UNCORRECTABLE", "ECCUncorrectable"),
    ("CONTEXT_ALREADY_IN_USE", "DeviceAlreadyInUse"),
    ("UNSUPPORTED_DEVSIDE_SYNC", "UnsupportedDevSideSync"),
    ("INVALID_HANDLE", "InvalidResourceHandle"),
    ("NOT_FOUND", "SymbolNotFound"),
    ("PRIMARY_CONTEXT_ACTIVE", "SetOnActiveProcess"),
    ("LAUNCH_FAILED", "LaunchFailure"),
    ("UNKNOWN", "Unknown"),
];

/// Converts a message about a call of the driver to a message about the runtime's function that the program called.
/// Returns `None` if the program called the driver itself, or if the message names no function of the driver.
///
/// The number of an error is the same in the driver and in the runtime.
pub(super) fn message(message: &str, host: &[HostFrame]) -> Option<String> {
    let call = caller(host)?;
    let Some(rest) = message.strip_prefix("Program hit ") else {
        return with_call(message, call);
    };
    let (error, rest) = rest.split_once(' ')?;
    let (reason, _) = rest.rsplit_once(" on CUDA API call to ")?;
    let error = match error.strip_prefix("CUDA_ERROR_") {
        Some(error) => runtime_error(error),
        None => error.to_owned(),
    };
    Some(format!(
        "Program hit {error} {reason} on CUDA API call to {call}."
    ))
}

/// Returns the runtime's function that the program called; `None` if the program called the driver itself.
pub(crate) fn caller(host: &[HostFrame]) -> Option<&str> {
    let mut names = host.iter().map(|frame| frame.function.as_str());
    names
        .find(|name| !is_unnamed(name))
        .filter(|name| is_runtime(name))
}

/// Returns `message` with the first name of a driver function in it replaced by `call`; `None` if
/// it contains no such name.
fn with_call(message: &str, call: &str) -> Option<String> {
    let is_start = |&(at, _): &(usize, &str)| message[..at].ends_with(' ') || at == 0;
    let is_name = |rest: &str| {
        let rest = rest.strip_prefix("cu");
        rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
    };
    let starts = message.char_indices().map(|(at, _)| (at, &message[at..]));
    let (start, rest) = starts.filter(is_start).find(|(_, rest)| is_name(rest))?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let end = start + end.unwrap_or(rest.len());
    Some(format!("{}{call}{}", &message[..start], &message[end..]))
}

/// Returns whether a frame is an internal function of the runtime. Such a function has no symbol in the shared library
/// (`libcudart.so+0x...`), and a number as its name in the static library (`libcudart_static_...`).
fn is_unnamed(name: &str) -> bool {
    name.starts_with("libcudart_static_") || (name.starts_with("libcudart") && name.contains("+0x"))
}

/// Returns whether a function belongs to the runtime's interface: its name is a C identifier that begins with `cuda`.
fn is_runtime(name: &str) -> bool {
    let rest = name.strip_prefix("cuda");
    rest.is_some_and(|rest| {
        rest.starts_with(|first: char| first.is_ascii_uppercase())
            && rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

fn runtime_error(error: &str) -> String {
    if let Some((_, name)) = OTHER_NAMES.iter().find(|(driver, _)| *driver == error) {
        return format!("cudaError{name}");
    }
    let words = error.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_owned() + &rest.to_ascii_lowercase()
    });
    "cudaError".to_owned() + &words.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(names: &[&str]) -> Vec<HostFrame> {
        let frame = |name: &&str| HostFrame {
            function: (*name).to_owned(),
            ..HostFrame::default()
        };
        names.iter().map(frame).collect()
    }

    const DRIVER: &str = "Program hit CUDA_ERROR_OUT_OF_MEMORY (error 2) due to \"out of memory\" on CUDA API call to \
                          cuMemAlloc_v2.";

    #[test]
    fn a_call_of_the_runtime_has_the_runtimes_names() {
        let host = frames(&["libcudart.so.13+0x4d7ed", "cudaMalloc", "main"]);
        let wanted = "Program hit cudaErrorMemoryAllocation (error 2) due to \"out of memory\" on CUDA API call to \
                      cudaMalloc.";
        assert_eq!(message(DRIVER, &host).as_deref(), Some(wanted));
        let host = frames(&["libcudart_static_ba5248a5", "cudaMalloc", "main"]);
        assert_eq!(message(DRIVER, &host).as_deref(), Some(wanted));
        let invalid = "Program hit CUDA_ERROR_INVALID_VALUE (error 1) due to \"invalid argument\" on CUDA API call to \
                       cuMemcpyHtoD_v2.";
        let wanted = "Program hit cudaErrorInvalidValue (error 1) due to \"invalid argument\" on CUDA API call to \
                      cudaMemcpy.";
        let host = frames(&["cudaMemcpy", "main"]);
        assert_eq!(message(invalid, &host).as_deref(), Some(wanted));
        let launch = "Program hit cudaErrorInvalidConfiguration (error 9) due to \"x\" on CUDA API call to cuLaunchKernel.";
        let host = frames(&["cudaLaunchKernel", "main"]);
        let wanted = launch.replace("cuLaunchKernel", "cudaLaunchKernel");
        assert_eq!(message(launch, &host), Some(wanted));
    }

    #[test]
    fn sentences_name_the_call_of_the_program() {
        let host = frames(&["libcudart.so.13+0x4d7ed", "cudaFree", "main"]);
        let text = "Pointer to cuMemFree_v2(0x10) is invalid: the memory is freed already";
        let wanted = "Pointer to cudaFree(0x10) is invalid: the memory is freed already";
        assert_eq!(message(text, &host).as_deref(), Some(wanted));
        let text = "The destination of cuMemcpyHtoD_v2 is 8 bytes at 0x10";
        let wanted = "The destination of cudaFree is 8 bytes at 0x10";
        assert_eq!(message(text, &host).as_deref(), Some(wanted));
        assert_eq!(message("Leaked 8 bytes at 0x10", &host), None);
    }

    #[test]
    fn a_call_of_the_driver_keeps_its_names() {
        for host in [
            &["main"][..],
            &["cuda_alloc", "cudaMalloc"],
            &["libx.so+0x1", "cudaMalloc"],
            &[],
        ] {
            assert_eq!(message(DRIVER, &frames(host)), None, "{host:?}");
        }
    }
}
