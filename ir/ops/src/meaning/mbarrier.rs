//! The operations on an mbarrier, which is one 64-bit word of shared memory (PTX ISA, "mbarrier").
//!
//! PTX does not define the layout of the word. In Margay's layout, from the lowest bit to the highest, the word
//! contains the count of pending arrivals of the current phase (20 bits), the count of arrivals that each phase expects
//! (20 bits), the count of outstanding bytes of transactions (21 bits, signed), two unused bits, and the parity of the
//! phase. A phase completes when no arrivals and no bytes are pending.

use super::Bits;

/// The number of bits of each of the two counts of arrivals in an mbarrier.
const COUNT_BITS: u32 = 20;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
const EXPECTED: u32 = COUNT_BITS;
const PENDING_TX: u32 = 2 * COUNT_BITS;
const TX: u64 = 0x1f_ffff;

/// The index of the bit that is the parity of the phase.
pub const PARITY: u32 = 63;
/// The product of this factor and a count is the word of a new mbarrier whose phases expect this
/// count of arrivals.
pub const OF_COUNT: u64 = 1 | 1 << EXPECTED;
/// A mask of the bits that contain the count of pending arrivals of the current phase.
pub const PENDING: u64 = COUNT;

/// Returns the word of the mbarrier after `count` arrivals and the addition of `tx` to its count of
/// pending bytes. `tx` is taken modulo 2^21 and is negative for bytes that have arrived. Later
/// phases expect `dropped` fewer arrivals.
fn after(object: u64, count: u64, dropped: u64, tx: u64) -> u64 {
    let expected = (object >> EXPECTED).wrapping_sub(dropped) & COUNT;
    let pending = (object & COUNT).wrapping_sub(count) & COUNT;
    let bytes = (object >> PENDING_TX).wrapping_add(tx) & TX;
    let parity = object & 1 << PARITY;
    let rest = expected << EXPECTED | bytes << PENDING_TX;
    match (pending, bytes) {
        (0, 0) => (parity ^ 1 << PARITY) | rest | expected,
        _ => parity | rest | pending,
    }
}

/// Returns the word of the mbarrier after `count` arrivals and the addition of `tx` to its count of
/// pending bytes.
pub(super) fn signal(old: Bits, count: Bits, tx: Bits) -> Bits {
    after(old as u64, count as u64, 0, tx as u64).into()
}

/// Returns the word of the mbarrier after the addition of `tx` to its count of pending bytes and
/// `count` arrivals of threads that do not arrive in later phases.
pub(super) fn signal_drop(old: Bits, count: Bits, tx: Bits) -> Bits {
    after(old as u64, count as u64, count as u64, tx as u64).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(object: u64) -> u64 {
        object & PENDING
    }

    fn parity(object: u64) -> u64 {
        object >> PARITY
    }

    #[test]
    fn a_phase_ends_with_its_last_arrival() {
        let mut object = 3 * OF_COUNT;
        for phase in [0, 1, 0, 1] {
            for left in [3, 2, 1] {
                assert_eq!((parity(object), pending(object)), (phase, left));
                object = after(object, 1, 0, 0);
            }
        }
        assert_eq!(object, 3 * OF_COUNT, "two phases on it is as it was");
        assert_eq!(parity(after(object, 3, 0, 0)), 1, "three arrivals at once");
    }

    #[test]
    fn bytes_are_awaited_too() {
        let object = after(OF_COUNT, 1, 0, 4096);
        assert_eq!(object, 4096 << PENDING_TX | 1 << EXPECTED);
        let object = after(object, 0, 0, 1000u64.wrapping_neg());
        assert_eq!(parity(object), 0);
        let object = after(object, 0, 0, 3096u64.wrapping_neg());
        assert_eq!(object, OF_COUNT | 1 << PARITY);
        // Bytes may arrive before the object expects them.
        let object = after(object, 0, 0, 16u64.wrapping_neg());
        assert_eq!(parity(object), 1);
        assert_eq!(after(object, 1, 0, 16), OF_COUNT);
    }

    #[test]
    fn who_drops_out_is_not_expected_again() {
        let object = after(2 * OF_COUNT, 1, 1, 0);
        assert_eq!((parity(object), pending(object)), (0, 1));
        let object = after(object, 1, 0, 0);
        assert_eq!(object, OF_COUNT | 1 << PARITY);
    }

    #[test]
    fn counts_fill_their_fields() {
        let most = COUNT * OF_COUNT;
        assert_eq!(pending(most), COUNT);
        assert_eq!(pending(after(most, 1, 0, TX / 2)), COUNT - 1);
        assert_eq!(parity(after(most, COUNT, 0, 0)), 1);
    }
}
