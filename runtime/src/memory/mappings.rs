//! Limits the number of mappings that allocations use. The operating system limits the number of
//! mappings of a process (`vm.max_map_count`), and the rest of the process also needs mappings.
//!
//! Each allocation with pages of its own uses up to two mappings. If allocations used all mappings, no thread could
//! start, no allocation could be unmapped, and the host's `malloc` would fail.

use std::io::Read as _;

/// Number of mappings that allocations leave to the rest of the process. If this number is larger
/// than an eighth of the system's limit, an eighth is left instead.
const REST: u64 = 4096;
/// Number of pieces that may be opened (made accessible) before the mappings are counted for the
/// first time. A piece is a range with pages of its own.
const UNCHECKED: u64 = 1024;
/// The system's default of `vm.max_map_count`, for systems that do not report it.
const USUAL: u64 = 65_530;

/// Decides whether allocations may use further mappings. The mappings of the process are counted only from time to
/// time, because counting is slow.
#[derive(Debug)]
pub(super) struct Mappings {
    /// Number of pieces that can be opened before the mappings are counted the next time.
    unchecked: u64,
}

impl Mappings {
    pub(super) fn new() -> Mappings {
        Mappings {
            unchecked: UNCHECKED,
        }
    }

    /// Returns whether another piece, which uses up to two mappings, may be opened (made
    /// accessible). If the result is true, also counts this piece.
    pub(super) fn allow(&mut self) -> bool {
        if self.unchecked == 0 {
            self.unchecked = pieces_left(most(), used());
        }
        let allowed = self.unchecked > 0;
        self.unchecked = self.unchecked.saturating_sub(1);
        allowed
    }
}

/// Returns the number of pieces that can be opened before the mappings are counted the next time.
/// These pieces use only a part of the available mappings, because the rest of the process also
/// creates mappings.
fn pieces_left(most: u64, used: u64) -> u64 {
    let rest = REST.min(most / 8);
    match most.saturating_sub(used).saturating_sub(rest) {
        0 => 0,
        left => (left / 8).max(1),
    }
}

fn most() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    text.trim().parse().unwrap_or(USUAL)
}

/// Returns the number of mappings of the process; 0 if the system does not report it.
fn used() -> u64 {
    let Ok(mut maps) = std::fs::File::open("/proc/self/maps") else {
        return 0;
    };
    let mut lines = 0;
    // The stack of the calling thread can be small.
    let mut buffer = vec![0; 4096];
    while let Ok(len @ 1..) = maps.read(&mut buffer) {
        lines += buffer[..len].iter().filter(|&&byte| byte == b'\n').count() as u64;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_mappings_is_left() {
        assert_eq!(pieces_left(65_530, 100), (65_530 - 100 - 4096) / 8);
        assert_eq!(pieces_left(65_530, 61_433), 1);
        assert_eq!(pieces_left(65_530, 61_434), 0);
        assert_eq!(pieces_left(65_530, 65_600), 0);
        assert_eq!(pieces_left(800, 100), 75);
        assert!(used() > 5 && most() > 1000);
    }
}
