//! Creates the texts in which reports of faults describe the memory that is, or was, at an address.
//!
//! The functions that describe memory are called only for reports, so they need not be fast.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

use super::space::Record;
use super::{AddressSpace, Allocation, MemoryKind, UNALLOCATED};
use crate::call_stack::CallStack;
use crate::demangle;

/// Maximum number of freed allocations that are recorded.
const REMEMBERED: usize = 4096;

/// How an allocation was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FreedBy {
    /// The program freed this allocation with a call.
    Call,
    /// The allocation was freed because its owner (a context) was destroyed or reset.
    Owner,
}

/// The stacks of the calls that allocated and freed memory. Both fields are `None` in runs that do not store call
/// stacks.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    pub(super) allocated: Option<CallStack>,
    /// The call that freed the memory, or that submitted the free to a stream.
    pub(super) freed: Option<CallStack>,
}

/// A freed allocation.
#[derive(Clone, Debug)]
struct FreedRecord {
    allocation: Allocation,
    by: FreedBy,
    variable: Option<Arc<str>>,
    calls: Calls,
}

/// The most recently freed allocations, oldest first.
#[derive(Debug, Default)]
pub(super) struct Freed(VecDeque<FreedRecord>);

impl Freed {
    pub(super) fn note(&mut self, record: &Record, by: FreedBy) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(FreedRecord {
            allocation: record.allocation,
            by,
            variable: record.variable.clone(),
            calls: record.calls.clone(),
        });
    }

    /// Returns whether a recently freed allocation contained an address.
    pub(super) fn holds(&self, address: u64) -> bool {
        self.find(address).is_some()
    }

    /// Returns the most recently freed allocation that contained an address.
    fn find(&self, address: u64) -> Option<FreedRecord> {
        let mut latest = self.0.iter().rev();
        latest
            .find(|freed| freed.allocation.holds(address, 1))
            .cloned()
    }
}

/// Returns the name of a kind of memory.
fn name(kind: MemoryKind) -> &'static str {
    match kind {
        MemoryKind::Device => "device memory",
        MemoryKind::Pinned => "pinned memory",
        MemoryKind::Managed => "managed memory",
        MemoryKind::Registered => "registered memory",
        MemoryKind::Pool => "memory of a pool",
        MemoryKind::Mapped => "mapped device memory",
        MemoryKind::Imported => "another process's memory",
    }
}

/// Returns the name of the call that frees this kind of memory.
fn end_of(kind: MemoryKind) -> &'static str {
    match kind {
        MemoryKind::Device | MemoryKind::Managed => "cuMemFree",
        MemoryKind::Pinned => "cuMemFreeHost",
        MemoryKind::Registered => "cuMemHostUnregister",
        MemoryKind::Pool => "cuMemFreeAsync",
        MemoryKind::Mapped => "cuMemUnmap",
        MemoryKind::Imported => "cuIpcCloseMemHandle",
    }
}

/// Formats a number of bytes.
fn bytes(count: u64) -> String {
    match count {
        1 => "1 byte".to_owned(),
        _ => format!("{count} bytes"),
    }
}

/// Formats a number of bytes with thousands separators.
pub fn grouped_bytes(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index != 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + if count == 1 { " byte" } else { " bytes" }
}

/// The position of an address relative to an allocation. The field of each variant is a number of
/// bytes: the distance from the start for an address inside the allocation, the distance from the
/// end for an address after the allocation, or the distance to the start for an address before the
/// allocation.
enum Place {
    Inside(u64),
    After(u64),
    Before(u64),
}

/// An allocation that is, or was, at or near an address.
struct Found {
    place: Place,
    allocation: Allocation,
    /// How the allocation was freed; `None` if it has not been freed.
    by: Option<FreedBy>,
    /// The name of the module variable that the allocation contains.
    variable: Option<Arc<str>>,
    calls: Calls,
}

impl Found {
    /// Describes the address in a run that does not store the stacks of calls.
    fn plain(&self) -> String {
        let what = name(self.allocation.kind);
        let size = bytes(self.allocation.size);
        match (&self.place, self.by) {
            (_, Some(FreedBy::Call)) => {
                format!(
                    "{what} of {size}, freed by {}",
                    end_of(self.allocation.kind)
                )
            }
            (_, Some(FreedBy::Owner)) => format!("{what} of {size}, freed with its context"),
            (Place::Inside(at), None) => format!("{} into {what} of {size}", bytes(*at)),
            (Place::After(at), None) => format!("{} after the end of {what} of {size}", bytes(*at)),
            (Place::Before(at), None) => format!("{} before {what} of {size}", bytes(*at)),
        }
    }

    /// Describes the address, and the calls with which the program allocated and freed the memory.
    /// For the memory of a module variable, the text contains the variable's name instead of the
    /// call that allocated the memory, because loading the module allocates this memory.
    fn with_calls(&self) -> String {
        let what = match &self.variable {
            Some(variable) => format!("variable {}", demangle::readable(variable)),
            None => name(self.allocation.kind).to_owned(),
        };
        let size = grouped_bytes(self.allocation.size);
        let (at, word) = match self.place {
            Place::Inside(at) => (at, "into"),
            Place::After(at) => (at, "after"),
            Place::Before(at) => (at, "before"),
        };
        let mut text = format!("{} {word} {what} of {size}", grouped_bytes(at));
        let site = |call: &Option<CallStack>| call.as_ref().and_then(CallStack::site);
        let allocated = site(&self.calls.allocated).filter(|_| self.variable.is_none());
        let allocated = allocated.map(|site| format!("allocated {site}"));
        let Some(by) = self.by else {
            text += &allocated.map_or(String::new(), |allocated| format!(" {allocated}"));
            if self.allocation.flags & UNALLOCATED != 0 {
                text += ", while its graph has not allocated it";
            }
            return text;
        };
        match (by, site(&self.calls.freed)) {
            (FreedBy::Owner, _) => text += " freed with its context",
            (FreedBy::Call, Some(site)) => text += &format!(" freed {site}"),
            (FreedBy::Call, None) => text += &format!(" freed by {}", end_of(self.allocation.kind)),
        }
        text + &allocated.map_or(String::new(), |allocated| format!(" ({allocated})"))
    }
}

impl AddressSpace {
    /// Describes the allocation that is, or was, at or near an address. Returns `None` if the
    /// address is outside the reserved range and is not in a current or freed allocation or
    /// registration.
    pub fn describe(&self, address: u64) -> Option<String> {
        // No lock is held while the text is created, because looking up the function names of call stacks can take
        // long.
        match self.nearest(address) {
            Some(found) if self.keeps_calls() => Some(found.with_calls()),
            Some(found) => Some(found.plain()),
            None if self.contains(address) => Some("no allocation of device memory".to_owned()),
            None => None,
        }
    }

    fn nearest(&self, address: u64) -> Option<Found> {
        if let Some(record) = self.record_of(address) {
            return Some(Found {
                place: Place::Inside(address - record.allocation.base),
                allocation: record.allocation,
                by: None,
                variable: record.variable,
                calls: record.calls,
            });
        }
        if let Some(freed) = self.books.lock().freed.find(address) {
            return Some(Found {
                place: Place::Inside(address - freed.allocation.base),
                allocation: freed.allocation,
                by: Some(freed.by),
                variable: freed.variable,
                calls: freed.calls,
            });
        }
        match self.contains(address) {
            true => self.neighbour(address),
            false => None,
        }
    }

    /// Returns the record of the allocation that contains an address.
    pub(super) fn record_of(&self, address: u64) -> Option<Record> {
        let index = self.index.read();
        let (_, record) = index.range(..=address).next_back()?;
        record.allocation.holds(address, 1).then(|| record.clone())
    }

    /// Returns the live allocation that is nearest to an address in no live allocation. Returns `None` if the distance
    /// is 2 MiB or more.
    fn neighbour(&self, address: u64) -> Option<Found> {
        const NEAR: u64 = 2 << 20;
        let index = self.index.read();
        let before = index.range(..=address).next_back();
        let behind = index.range(address..).next();
        // The subtraction fails if another thread has allocated the address since the caller looked for it.
        let beyond = before
            .and_then(|(_, found)| Some((address.checked_sub(found.allocation.end())?, found)));
        let ahead = behind.map(|(_, found)| (found.allocation.base - address, found));
        let near = |side: Option<(u64, &Record)>| {
            let side = side.filter(|&(distance, _)| distance < NEAR);
            side.map(|(distance, found)| (distance, found.clone()))
        };
        let found = |place: Place, record: Record| Found {
            place,
            allocation: record.allocation,
            by: None,
            variable: record.variable,
            calls: record.calls,
        };
        match (near(beyond), near(ahead)) {
            (Some((distance, record)), other)
                if other.as_ref().is_none_or(|(d, _)| distance <= *d) =>
            {
                Some(found(Place::After(distance), record))
            }
            (_, Some((distance, record))) => Some(found(Place::Before(distance), record)),
            _ => None,
        }
    }
}

/// Describes an address outside of the memory that this library manages.
pub(crate) fn host_memory(address: u64) -> String {
    const NULL_PAGES: u64 = 64 << 10;
    if address < NULL_PAGES {
        return "a null pointer".to_owned();
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let Some((range, rights, file)) = maps.lines().find_map(|line| mapping(line, address)) else {
        return "nothing is mapped there".to_owned();
    };
    let mut text = match file {
        "[stack]" => "stack of the host thread that started the program".to_owned(),
        "[heap]" => "heap of the program".to_owned(),
        "" if is_stack(&range) => "stack of a host thread".to_owned(),
        "" => "host memory of the program".to_owned(),
        file if rights.contains('x') => format!("code of {file}"),
        file => format!("data of {file}"),
    };
    if !rights.starts_with('r') {
        let _ = write!(text, " (not readable)");
    }
    text
}

/// Returns the range, the rights and the name from a line of `/proc/self/maps` if the range contains `address`.
pub(super) fn mapping(line: &str, address: u64) -> Option<(std::ops::Range<u64>, &str, &str)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let range = u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?;
    let mut words = rest.splitn(5, ' ');
    let rights = words.next()?;
    let name = words.nth(3).unwrap_or_default();
    // The name follows the inode.
    range
        .contains(&address)
        .then_some((range, rights, name.trim_start()))
}

/// Returns whether a range contains the stack pointer of a waiting thread.
fn is_stack(range: &std::ops::Range<u64>) -> bool {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else {
        return false;
    };
    threads.flatten().any(|thread| {
        // For a waiting thread, the file contains the number and the operands of its system call, its stack pointer,
        // and its program counter.
        let call = std::fs::read_to_string(thread.path().join("syscall")).unwrap_or_default();
        let mut words = call.split_whitespace().rev();
        let pointer = words
            .nth(1)
            .and_then(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
        pointer.is_some_and(|pointer| range.contains(&pointer))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{MemoryConfig, Request};
    use super::*;

    fn request(bytes: u64, kind: MemoryKind) -> Request {
        Request {
            bytes,
            kind,
            device: 0,
            owner: 3,
            flags: 0,
        }
    }

    #[test]
    fn device_memory_is_named_while_it_lives_and_afterwards() {
        let space = AddressSpace::new(&MemoryConfig::default()).expect("address space");
        let array = space
            .alloc(&request(1000, MemoryKind::Device))
            .expect("room");
        let said = |address| space.describe(address).expect("ours");
        assert_eq!(
            said(array.base + 8),
            "8 bytes into device memory of 1000 bytes"
        );
        assert_eq!(
            said(array.base + 4096),
            "3096 bytes after the end of device memory of 1000 bytes"
        );
        assert_eq!(
            said(array.base - 1),
            "1 byte before device memory of 1000 bytes"
        );
        space.free(array.base, &[MemoryKind::Device]).expect("live");
        let freed = "device memory of 1000 bytes, freed by cuMemFree";
        assert_eq!(said(array.base + 999), freed);
        let pool = space
            .alloc(&request(70_000, MemoryKind::Pool))
            .expect("room");
        let managed = space.alloc(&request(5, MemoryKind::Managed)).expect("room");
        space.free(pool.base, &[MemoryKind::Pool]).expect("live");
        assert_eq!(
            said(pool.base),
            "memory of a pool of 70000 bytes, freed by cuMemFreeAsync"
        );
        space.free_owned(3);
        assert_eq!(
            said(managed.base + 4),
            "managed memory of 5 bytes, freed with its context"
        );
        assert_eq!(
            said(space.range().end - 1),
            "no allocation of device memory"
        );
        assert_eq!(space.describe(0x1234), None);
        assert_eq!(space.describe(u64::MAX), None);
    }

    #[test]
    fn host_memory_is_named() {
        static CONSTANT: [u8; 4] = [1, 2, 3, 4];
        assert_eq!(host_memory(0), "a null pointer");
        assert_eq!(host_memory(0x1000), "a null pointer");
        assert_eq!(host_memory(0x12_3456_7890), "nothing is mapped there");
        assert_eq!(host_memory(u64::MAX), "nothing is mapped there");
        let code = host_memory(host_memory as *const () as u64);
        assert!(code.starts_with("code of /"), "{code}");
        let data = host_memory(CONSTANT.as_ptr() as u64);
        assert!(data.starts_with("data of /"), "{data}");
        // The stack pointer can be read only while the thread waits in a system call.
        let (say, hear) = std::sync::mpsc::channel::<u64>();
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let here = 0u8;
            let _ = say.send(&raw const here as u64);
            let _ = wait.recv();
        });
        let there = hear.recv().expect("an address");
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(host_memory(there), "stack of a host thread");
        drop(end);
        thread.join().expect("no panic");
    }

    #[test]
    fn a_line_of_maps_is_read() {
        let line = "7f00-7f20 r-xp 00000000 08:01 1234                       /usr/lib/lib x.so";
        let found = mapping(line, 0x7f10).expect("inside");
        assert_eq!(found, (0x7f00..0x7f20, "r-xp", "/usr/lib/lib x.so"));
        assert_eq!(mapping(line, 0x7f20), None);
        let anonymous = "10-20 rw-p 00000000 00:00 0 ";
        assert_eq!(mapping(anonymous, 0x10).expect("inside").2, "");
    }
}
