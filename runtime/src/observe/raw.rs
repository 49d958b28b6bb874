//! The format of records of events: sequences of 64-bit words.
//!
//! The first word contains the kind of record (bit 0: 0 for an access, 1 for any other event), the warp (bits 16 to 31)
//! and the mask (bits 32 to 63). For an access, the first word also contains the layout of the addresses (bit 1:
//! strided), whether the address is generic (bit 2), whether the access was counted (bit 3), and the space (bits 8 to
//! 15). The properties of the access and the position follow, and then the base and the stride, or the address of each
//! lane in the mask. For any other event, the first word also contains the number of operands (bits 8 to 15). The payload
//! and the position follow, and then the operands.

use margay_ir::function::SourceLoc;
use margay_ir::observe::{AccessMode, ObservedAccess, ObservedEvent};

use super::event::{Access, AccessKind, Addresses, Event, MemoryOrder, MemoryScope, Space};
use super::events;
use super::launch::Position;

/// Number of words that precede the addresses in the record of an access.
const HEAD: usize = 3;

/// An access of lanes of a warp that is to be recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawAccess<'a> {
    pub(crate) access: &'a ObservedAccess,
    pub(crate) loc: SourceLoc,
    /// The space to which all addresses refer.
    pub(crate) space: Space,
    pub(crate) warp: u32,
    /// The mask of the lanes that access memory; not 0.
    pub(crate) mask: u32,
    pub(crate) addresses: RawAddresses<'a>,
    /// Whether the access was counted for the tools that request counts.
    pub(crate) is_counted: bool,
}

/// The addresses of an access that is to be recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RawAddresses<'a> {
    /// Base and stride: the address of lane `n` of the warp is `base + stride * n`.
    Strided(u64, i64),
    /// The address for each lane of the warp. The addresses of lanes that are not in the mask have
    /// no meaning.
    Each(&'a [u64; 32]),
}

impl RawAddresses<'_> {
    /// Returns the address of a lane of the warp, which is in the mask.
    pub(super) fn of(self, lane: usize) -> u64 {
        match self {
            RawAddresses::Strided(base, stride) => {
                base.wrapping_add((stride as u64).wrapping_mul(lane as u64))
            }
            RawAddresses::Each(all) => all[lane],
        }
    }
}

/// Returns the numbers of the lanes in `mask`, the lowest first.
fn lanes(mask: u32) -> impl Iterator<Item = u32> {
    (0..32).filter(move |lane| mask >> lane & 1 != 0)
}

/// Returns the base and the stride of addresses, or `None` if the lanes have no common stride.
fn strided(mask: u32, addresses: &[u64; 32]) -> Option<(u64, i64)> {
    let mut active = lanes(mask);
    let first = active.next()?;
    let at = addresses[first as usize];
    let stride = match active.next() {
        None => 0,
        Some(next) => {
            let apart = addresses[next as usize].wrapping_sub(at) as i64;
            let lanes = i64::from(next - first);
            (apart % lanes == 0).then(|| apart / lanes)?
        }
    };
    let base = at.wrapping_sub((stride as u64).wrapping_mul(first.into()));
    let of = |lane: u32| base.wrapping_add((stride as u64).wrapping_mul(lane.into()));
    lanes(mask)
        .all(|lane| addresses[lane as usize] == of(lane))
        .then_some((base, stride))
}

/// Appends the record of an access to `words`.
pub(super) fn encode(what: &RawAccess<'_>, words: &mut Vec<u64>) {
    let stride = match what.addresses {
        RawAddresses::Strided(base, stride) => Some((base, stride)),
        RawAddresses::Each(addresses) => strided(what.mask, addresses),
    };
    let generic = what.access.space == margay_ops::mods::StateSpace::None;
    let head = u64::from(stride.is_some()) << 1
        | u64::from(generic) << 2
        | u64::from(what.is_counted) << 3
        | (what.space as u64) << 8
        | u64::from(what.warp & 0xffff) << 16
        | u64::from(what.mask) << 32;
    let loc = what.loc.to_bits();
    let access = what.access.to_bits();
    match (stride, what.addresses) {
        (Some((base, stride)), _) => {
            words.extend_from_slice(&[head, access, loc, base, stride as u64]);
        }
        (None, RawAddresses::Each(addresses)) => {
            words.extend_from_slice(&[head, access, loc]);
            words.extend(lanes(what.mask).map(|lane| addresses[lane as usize]));
        }
        (None, RawAddresses::Strided(..)) => {}
    }
}

/// An event, other than an access, that is to be recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawEvent<'a> {
    pub(crate) event: ObservedEvent,
    pub(crate) loc: SourceLoc,
    pub(crate) warp: u32,
    /// The mask of the lanes in which the event occurs; not 0.
    pub(crate) mask: u32,
    /// The operands, which are equal in all lanes. The operand of an instruction is the mask of the lanes that execute
    /// the instruction. The operand of a branch is the mask of the lanes that take the branch.
    pub(crate) operands: &'a [u32],
}

/// Appends the record of an event other than an access to `words`.
pub(super) fn encode_event(what: &RawEvent<'_>, words: &mut Vec<u64>) {
    words.push(
        1 | (what.operands.len() as u64) << 8
            | u64::from(what.warp & 0xffff) << 16
            | u64::from(what.mask) << 32,
    );
    words.push(what.event.to_payload());
    words.push(what.loc.to_bits());
    words.extend(what.operands.iter().map(|&operand| u64::from(operand)));
}

/// A decoded record, and the words that follow the record.
pub(super) struct Decoded<'a> {
    pub(super) event: Event<'a>,
    pub(super) rest: &'a [u64],
    /// Whether the event is an access that was counted.
    pub(super) is_counted: bool,
}

/// Decodes the first record of `words`. Returns `None` if `words` begins with no complete record.
pub(super) fn decode(words: &[u64]) -> Option<Decoded<'_>> {
    let &[first, what, loc, ..] = words else {
        return None;
    };
    let mask = (first >> 32) as u32;
    let number = (first >> 8 & 0xff) as usize;
    let count = match first & 3 {
        0 => mask.count_ones() as usize,
        2 => 2,
        _ => number,
    };
    let (own, rest) = words[HEAD..].split_at_checked(count)?;
    let place = Place {
        position: Position::new(SourceLoc::from_bits(loc)),
        warp: (first >> 16) as u32 & 0xffff,
        mask,
    };
    let event = match first & 1 {
        0 => Event::Access(access(first, what, place, own)),
        _ => events::of(ObservedEvent::from_payload(what)?, place, own)?,
    };
    Some(Decoded {
        event,
        rest,
        is_counted: first & 9 == 8,
    })
}

/// The position of an event's instruction, the warp, and the lanes in which the event occurs.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) position: Position,
    pub(super) warp: u32,
    pub(super) mask: u32,
}

/// Returns the event of an access that is to be recorded. `addresses` receives the addresses of the lanes in the mask.
pub(super) fn access_of<'a>(what: &RawAccess<'_>, addresses: &'a mut [u64; 32]) -> Access<'a> {
    let addresses = match what.addresses {
        RawAddresses::Strided(base, stride) => Addresses::Strided { base, stride },
        RawAddresses::Each(all) => {
            let mut count = 0;
            for lane in lanes(what.mask) {
                addresses[count] = all[lane as usize];
                count += 1;
            }
            Addresses::Each(&addresses[..count])
        }
    };
    let place = Place {
        position: Position::new(what.loc),
        warp: what.warp,
        mask: what.mask,
    };
    described(what.access, what.space, place, addresses)
}

/// Returns the place of an event that is to be recorded.
pub(super) fn place_of(what: &RawEvent<'_>) -> Place {
    Place {
        position: Position::new(what.loc),
        warp: what.warp,
        mask: what.mask,
    }
}

fn access(first: u64, what: u64, place: Place, own: &[u64]) -> Access<'_> {
    let addresses = match (first & 2, own) {
        (2, &[base, stride]) => Addresses::Strided {
            base,
            stride: stride as i64,
        },
        _ => Addresses::Each(own),
    };
    let space = Space::ALL[(first >> 8 & 0xff) as usize % Space::ALL.len()];
    let is_generic = first & 4 != 0;
    Access {
        is_generic,
        ..described(&ObservedAccess::from_bits(what), space, place, addresses)
    }
}

fn described<'a>(
    access: &ObservedAccess,
    space: Space,
    place: Place,
    addresses: Addresses<'a>,
) -> Access<'a> {
    Access {
        position: place.position,
        kind: kind_of(access.mode),
        space,
        is_generic: access.space == margay_ops::mods::StateSpace::None,
        is_asynchronous: access.only_copied,
        bytes: access.bytes,
        element_bytes: access.element,
        order: MemoryOrder::of(access.order),
        scope: MemoryScope::of(access.scope),
        operation: match access.mode {
            AccessMode::Update => access.op.name(),
            _ => "",
        },
        warp: place.warp,
        mask: place.mask,
        addresses,
    }
}

/// Returns the kind of an access with the mode `mode`.
pub(super) fn kind_of(mode: AccessMode) -> AccessKind {
    match mode {
        AccessMode::Load | AccessMode::Copy | AccessMode::Release => AccessKind::Load,
        AccessMode::Store => AccessKind::Store,
        AccessMode::Update => AccessKind::Atomic,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use margay_ops::mods::StateSpace;

    fn round_trip(mask: u32, addresses: &[u64; 32]) -> (usize, Vec<(u32, u64)>) {
        let access = ObservedAccess {
            space: StateSpace::Shared,
            mode: AccessMode::Store,
            bytes: 8,
            element: 4,
            ..ObservedAccess::from_bits(0)
        };
        let raw = RawAccess {
            access: &access,
            loc: SourceLoc {
                ptx_line: 12,
                loc: 3,
            },
            space: Space::Shared,
            warp: 5,
            mask,
            addresses: RawAddresses::Each(addresses),
            is_counted: false,
        };
        let mut words = Vec::new();
        encode(&raw, &mut words);
        let decoded = decode(&words).unwrap();
        assert!(decoded.rest.is_empty());
        let Event::Access(access) = decoded.event else {
            panic!("an access was encoded");
        };
        assert_eq!((access.warp, access.mask), (5, mask));
        assert_eq!((access.bytes, access.element_bytes), (8, 4));
        assert_eq!(
            (access.kind, access.space),
            (AccessKind::Store, Space::Shared)
        );
        assert_eq!(access.position.ptx_line(), 12);
        (words.len(), access.lanes().collect())
    }

    #[test]
    fn strided_addresses_need_two_words() {
        let addresses = std::array::from_fn(|lane| 100 + 8 * lane as u64);
        let (words, lanes) = round_trip(u32::MAX, &addresses);
        assert_eq!(words, 3 + 2);
        assert_eq!((lanes[0], lanes[31]), ((0, 100), (31, 100 + 8 * 31)));
        let (words, lanes) = round_trip(0b1010_0000, &addresses);
        assert_eq!((words, lanes), (5, vec![(5, 140), (7, 156)]));
    }

    #[test]
    fn other_addresses_need_one_word_each() {
        let mut addresses = [0; 32];
        (addresses[1], addresses[2], addresses[31]) = (7, 5, u64::MAX);
        let (words, lanes) = round_trip(1 << 31 | 0b110, &addresses);
        assert_eq!(words, 3 + 3);
        assert_eq!(lanes, [(1, 7), (2, 5), (31, u64::MAX)]);
    }
}
