//! The amount of memory that this process may use, according to the machine, the process's control group and its
//! resource limits.
//!
//! Invariant: if a file of the operating system that states a limit is missing or malformed, the
//! functions of this module assume that there is no such limit, and never return an error.

/// Returns the total number of bytes of memory that this process can use.
pub(super) fn physical_memory() -> u64 {
    let pages = sysconf(libc::_SC_PHYS_PAGES);
    let ram = pages.saturating_mul(page_size());
    [control_group_limit(), resource_limit(libc::RLIMIT_DATA)]
        .into_iter()
        .flatten()
        .fold(ram, u64::min)
}

/// Returns the size of a page in bytes.
pub(super) fn page_size() -> u64 {
    sysconf(libc::_SC_PAGESIZE).max(4096)
}

/// Returns the number of bytes of address space that are left under `ulimit -v`; `None` if this limit is not set.
pub(crate) fn address_space_left() -> Option<u64> {
    let limit = resource_limit(libc::RLIMIT_AS)?;
    Some(limit.saturating_sub(used_memory(0)))
}

/// Returns the number of bytes of private writable memory, including thread stacks, that are left under `ulimit -d`;
/// `None` if this limit is not set.
pub(super) fn data_left() -> Option<u64> {
    let limit = resource_limit(libc::RLIMIT_DATA)?;
    Some(limit.saturating_sub(used_memory(5)))
}

/// Returns the maximum number of bytes of a new stack or heap under `ulimit -v` and `ulimit -d`; `None` if neither
/// limit is set.
pub(crate) fn private_memory_left() -> Option<u64> {
    address_space_left().into_iter().chain(data_left()).min()
}

/// Returns a field of `/proc/self/statm` in bytes [proc_pid_statm(5)]. Field 0 is the size of the process's address
/// space; field 5 is the size of its data and stacks. Returns 0 if the file cannot be read.
fn used_memory(field: usize) -> u64 {
    std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').nth(field)?.parse::<u64>().ok())
        .unwrap_or(0)
        .saturating_mul(page_size())
}

/// Number of bytes of address space that glibc's allocator reserves for the heap arena of a thread [malloc(3), arenas].
const ARENA: u64 = 64 << 20;

/// Returns the maximum number of threads that the limits of the process allow, if each thread needs
/// `bytes` bytes. The result is at least 1, and `usize::MAX` if no limit is set. The function
/// reserves half of the remaining memory for other uses. The reserve is necessary because the
/// process ends if a thread starts when no memory is left: neither glibc nor Rust handles this
/// error.
pub(crate) fn most_threads(bytes: u64) -> usize {
    let bytes = bytes.max(1);
    let by_addresses = address_space_left().map(|left| left / 2 / (bytes + ARENA));
    let by_data = data_left().map(|left| left / 2 / bytes);
    let most = by_addresses.into_iter().chain(by_data).min();
    most.map_or(usize::MAX, |most| most as usize).max(1)
}

fn sysconf(name: i32) -> u64 {
    // SAFETY: sysconf has no preconditions.
    u64::try_from(unsafe { libc::sysconf(name) }).unwrap_or(0)
}

/// Returns the soft limit of a resource; `None` if the resource is not limited.
pub(crate) fn resource_limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: `limit` is valid for the call.
    let failed = unsafe { libc::getrlimit(resource, &mut limit) } != 0;
    (!failed && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

fn control_group_limit() -> Option<u64> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mut smallest = None;
    let mut path = std::path::PathBuf::from("/sys/fs/cgroup").join(group.trim_start_matches('/'));
    // The limits of all parent groups apply as well.
    while path.starts_with("/sys/fs/cgroup") {
        let limit = std::fs::read_to_string(path.join("memory.max"))
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok());
        smallest = [smallest, limit].into_iter().flatten().min();
        if !path.pop() {
            break;
        }
    }
    smallest
}

/// Returns whether every page of `address..address + bytes` is mapped in this process.
pub(super) fn is_mapped(address: u64, bytes: u64) -> bool {
    const STEP_PAGES: u64 = 16 << 10;
    let page = page_size();
    let Some(end) = address
        .checked_add(bytes)
        .and_then(|end| super::round_up(end, page))
    else {
        return false;
    };
    let mut states = vec![0u8; STEP_PAGES as usize];
    let mut at = address & !(page - 1);
    while at < end {
        let len = (end - at).min(STEP_PAGES * page);
        // SAFETY: mincore only writes to `states`, which has a byte for each queried page.
        let failed = unsafe { libc::mincore(at as *mut _, len as usize, states.as_mut_ptr()) };
        if failed != 0 {
            return false;
        }
        at += len;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_plausible() {
        assert!(physical_memory() > 64 << 20);
        assert!(physical_memory() < 1 << 47);
        assert!(page_size().is_power_of_two());
        assert!(most_threads(0) >= 1);
        let local = 0u8;
        assert!(is_mapped(&raw const local as u64, 1));
        assert!(!is_mapped(0, 1));
        assert!(!is_mapped(&raw const local as u64, 1 << 46));
        assert!(!is_mapped(u64::MAX - 10, 8));
        if let Some(left) = address_space_left() {
            assert!(left > 0);
        }
    }
}
