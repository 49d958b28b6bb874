//! Compares the races that the detector finds if it records the accesses of several lanes together
//! with the races that it finds if it records these accesses one by one.

use super::super::reads::tests::Numbers;
use super::super::*;
use super::{ATOMIC, X};

/// Performs random accesses of chunks of lanes, and random synchronisation. Returns for each race
/// the sites of both accesses and the missing operation. If `together` is true, one call records
/// all lanes of a chunk. If `only` is true, the test declares that only barriers order the threads.
/// If `updates` is true, some accesses are atomic updates.
fn races_of_chunks(
    seed: u64,
    ctas: u32,
    (together, only, updates): (bool, bool, bool),
) -> std::collections::BTreeSet<(Site, Site, Missing)> {
    let mut numbers = Numbers(seed);
    let mut detector = Detector::default();
    let ids: Vec<CtaId> = (0..ctas)
        .map(|index| detector.add_cta(1, index.into(), index.into(), 128))
        .collect();
    for &id in ids.iter().filter(|_| only) {
        detector.order_by_barriers_only(id);
    }
    let mut races = std::collections::BTreeSet::new();
    for _ in 0..60 {
        let id = ids[numbers.below(ctas) as usize];
        let warp = numbers.below(4);
        match numbers.below(8) {
            0 => detector.complete_barrier(id, 0, &[u32::MAX; 4], &[u32::MAX; 4]),
            1 => detector.synchronise_warp(id, warp, u32::MAX, u32::MAX),
            _ => {
                let site = numbers.below(if updates { 10 } else { 4 });
                let mut bytes = [4, 8, 1, 2][numbers.below(4) as usize];
                let access = match site {
                    0 | 2 => Access::READ,
                    1 | 3 => Access::WRITE,
                    _ => {
                        bytes = [4, 8][site as usize % 2];
                        Access {
                            element: bytes,
                            ..ATOMIC
                        }
                    }
                };
                let stride = [u64::from(bytes), u64::from(bytes), 0, 12][numbers.below(4) as usize];
                let start = match numbers.below(2) {
                    0 => 4096 + u64::from(numbers.below(3) * 64),
                    _ => 4096 + u64::from(numbers.below(40) * 4),
                };
                let active = [0xffff, 0xff, 0xa5a5, 0xfff0][numbers.below(4) as usize];
                let first = warp * 32 + 16 * numbers.below(2);
                let address = |lane: u32| start + stride * u64::from(lane);
                let mut note = |race: Race| {
                    races.insert((race.earlier.0, site, race.missing));
                };
                if together {
                    let shape = match stride {
                        0 => Shape::Uniform,
                        _ if stride == u64::from(bytes) && active != 0xa5a5 => Shape::Adjacent,
                        _ => Shape::Any,
                    };
                    let lanes = (active, bytes, shape);
                    detector.access_lanes(id, first, (site, access), lanes, address, |_, race| {
                        note(race)
                    });
                } else {
                    for lane in cta::lanes(active) {
                        let range = (address(lane), bytes);
                        let by = (id, first + lane);
                        detector.access_with(false, by, (site, access), range, &mut note);
                    }
                }
            }
        }
    }
    races
}

#[test]
fn lanes_together_race_like_lanes_apart() {
    let mut found = 0;
    let sites = |races: &std::collections::BTreeSet<(Site, Site, Missing)>| {
        let pairs = races.iter().map(|&(a, b, _)| (a, b));
        pairs.collect::<std::collections::BTreeSet<_>>()
    };
    let instructions = |races: &std::collections::BTreeSet<(Site, Site, Missing)>| {
        let both = races.iter().flat_map(|&(a, b, _)| [a, b]);
        both.collect::<std::collections::BTreeSet<_>>()
    };
    for seed in 0..2000 {
        for (ctas, only) in [(1, false), (2, false), (5, false), (1, true), (3, true)] {
            let apart = races_of_chunks(seed, ctas, (false, only, false));
            let together = races_of_chunks(seed, ctas, (true, only, false));
            match ctas {
                // If three clusters write with the same instruction, two of the writes are kept. If a later write of
                // another instruction replaces one of them, further accesses race with that later write instead.
                3.. if only => {
                    assert_eq!(instructions(&apart), instructions(&together), "seed {seed}");
                }
                // If three CTAs or warps read with the same instruction, two of the reads are kept. The race is then
                // found, but its missing operation can differ.
                3.. => assert_eq!(sites(&apart), sites(&together), "seed {seed}"),
                _ if only => assert_eq!(sites(&apart), sites(&together), "seed {seed}"),
                _ => assert_eq!(apart, together, "seed {seed}, {ctas} CTAs"),
            }
            found += apart.len();
        }
    }
    assert!(found > 1000);
}

/// If only barriers order the threads, the detector records at most two of the unordered updates of
/// a location. It must nevertheless find all races.
#[test]
fn updates_that_order_nothing_race_like_all_updates() {
    let instructions = |races: &std::collections::BTreeSet<(Site, Site, Missing)>| {
        let both = races.iter().flat_map(|&(a, b, _)| [a, b]);
        both.collect::<std::collections::BTreeSet<_>>()
    };
    let mut found = 0;
    for seed in 0..3000 {
        for ctas in [1, 2, 3] {
            let all = instructions(&races_of_chunks(seed, ctas, (false, false, true)));
            for together in [false, true] {
                let few = instructions(&races_of_chunks(seed, ctas, (together, true, true)));
                assert_eq!(all, few, "seed {seed}, {ctas} CTAs, together {together}");
            }
            found += usize::from(all.contains(&4));
        }
    }
    assert!(found > 1000);
}

/// Records a write or read of 16 neighbouring words by the first 16 lanes of a CTA. Returns the
/// races.
fn access_unit(detector: &mut Detector, id: CtaId, site: Site, access: Access) -> Vec<Race> {
    let mut races = Vec::new();
    let lanes = (0xffff, 4, Shape::Adjacent);
    let address = |lane: u32| X + 4 * u64::from(lane);
    detector.access_lanes(id, 0, (site, access), lanes, address, |_, race| {
        races.extend((0..race.threads).map(|number| race.of_thread(number, 4)));
    });
    races
}

#[test]
fn equal_writes_of_many_ctas_race_with_two_of_them() {
    // CTAs 0, 2 and 3 are tested as the reader, each with and without a barrier before the read. The read must race
    // with a write by another CTA.
    for (reader, waits) in [
        (0, false),
        (0, true),
        (2, false),
        (2, true),
        (3, false),
        (3, true),
    ] {
        let mut detector = Detector::default();
        // The first two CTAs are of one cluster.
        for (index, cluster) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3)] {
            let id = detector.add_cta(0, index, cluster, 32);
            detector.order_by_barriers_only(id);
        }
        let write = |detector: &mut Detector, id| access_unit(detector, id, 1, Access::WRITE);
        assert_eq!(write(&mut detector, 0), []);
        let races = write(&mut detector, 2);
        assert_eq!(races.len(), 16);
        assert_eq!(races[0].earlier, (1, 0, 0));
        assert_eq!(races[15].earlier, (1, 0, 15));
        assert_eq!((races[15].thread, races[15].address), (15, X + 60));
        let alike = |race: &Race| race.both_write && race.missing == Missing::GridOrder;
        assert!(races.iter().all(alike));
        for id in [1, 3, 4] {
            assert_eq!(write(&mut detector, id).len(), 32, "CTA {id}");
        }
        if waits {
            detector.complete_barrier(reader, 0, &[u32::MAX], &[u32::MAX]);
        }
        let races = access_unit(&mut detector, reader, 2, Access::READ);
        let of_others = |race: &Race| race.earlier.1 != reader && race.earlier_writes;
        assert!(races.iter().all(of_others));
        let words: std::collections::BTreeSet<u64> =
            races.iter().map(|race| race.address).collect();
        assert_eq!(words.len(), 16, "CTA {reader}");
    }
}

#[test]
fn writes_of_one_cluster_do_not_stand_for_those_of_others() {
    let mut detector = Detector::default();
    for (index, cluster) in [(0, 0), (1, 0), (2, 1)] {
        let id = detector.add_cta(0, index, cluster, 32);
        detector.order_by_barriers_only(id);
        access_unit(&mut detector, id, 1, Access::WRITE);
    }
    let races = access_unit(&mut detector, 0, 2, Access::READ);
    assert!(
        races
            .iter()
            .any(|race| race.earlier.1 == 2 && race.missing == Missing::GridOrder)
    );
}

#[test]
fn a_later_launch_does_not_race_with_either_write_of_a_unit() {
    let mut detector = Detector::default();
    for (launch, index) in [(0, 0), (0, 1), (1, 0)] {
        let id = detector.add_cta(launch, index, index, 32);
        detector.order_by_barriers_only(id);
        let races = access_unit(&mut detector, id, 1, Access::WRITE);
        assert_eq!(races.len(), if (launch, index) == (0, 1) { 16 } else { 0 });
    }
    assert_eq!(access_unit(&mut detector, 2, 2, Access::READ), []);
}
