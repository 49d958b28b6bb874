//! Stops a checking run with apicheck in a debugger before the first call of the driver, if `MARGAY_CHECK_DEBUGGER=1`.

use std::fs;
use std::sync::Once;
use std::time::Duration;

use margay::files::tell;

/// The time between two tests whether a debugger is attached.
const PAUSE: Duration = Duration::from_millis(20);

/// If `MARGAY_CHECK_DEBUGGER=1`, waits until a debugger is attached to this process, and raises `SIGTRAP`, at which the
/// debugger stops the process. Later calls do nothing.
pub(crate) fn stop_once() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if std::env::var_os("MARGAY_CHECK_DEBUGGER").is_none_or(|value| value != "1") {
            return;
        }
        if !is_attached() {
            let process = std::process::id();
            tell(format_args!(
                "margay: process {process} waits for a debugger (gdb -p {process})"
            ));
        }
        while !is_attached() {
            std::thread::sleep(PAUSE);
        }
        // SAFETY: the attached debugger handles the signal.
        unsafe { libc::raise(libc::SIGTRAP) };
    });
}

/// Returns whether another process traces this one.
fn is_attached() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}
