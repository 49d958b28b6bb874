//! Tests of the memory that lies behind the cores.

use margay_accelsim::{Addresses, Instruction};
use margay_sim::{Config, Counters, Options};

use crate::support::{BASE, Kernel, access, op, run, run_with, trace};

fn qv100() -> Config {
    Config::builtin("qv100").unwrap()
}

/// Simulates one warp on the Quadro V100.
fn counters_of(instructions: Vec<Instruction>) -> Counters {
    let kernel = Kernel::new(1, 1, move |_, _| instructions.clone());
    run(&[kernel]).unwrap().totals.counters
}

fn barrier() -> Instruction {
    op("MEMBAR.SC.GPU", None, &[])
}

#[test]
fn asynchronous_copies_end_at_their_wait() {
    let kernel = |wait: i64| {
        let mut kernel = Kernel::new(1, 1, move |_, _| {
            let mut depbar = op("DEPBAR.LE", None, &[]);
            depbar.immediate = wait;
            let copy = |line: u64| access("LDGSTS.E", None, &[4], BASE + 4096 * line, 4);
            let commit = || op("LDGDEPBAR", None, &[]);
            let mut all = vec![copy(0), commit(), depbar.clone(), copy(1), commit(), depbar];
            all.push(op("IADD3", Some(6), &[6]));
            all
        });
        kernel.header.binary_version = 86;
        let config = Config::builtin("rtx3070").unwrap();
        let report = run_with(&[kernel], &config, Options::default()).unwrap();
        assert_eq!(report.totals.counters.l1.accesses, 8);
        report.totals.cycles
    };
    let (all, one) = (kernel(0), kernel(1));
    // With one open group, the second copy does not wait for the first one.
    assert!(one + 300 < all, "{one} {all}");
    assert!(one.abs_diff(kernel(2)) < 10, "{one} {}", kernel(2));
}

/// Returns the cycles and the reads of device memory of a kernel behind a copy, with the options of `change`.
fn behind_a_copy(list: &str, base: u64, config: &Config, options: Options<'_>) -> (u64, u64) {
    let load = |index: u64| access("LDG.E", Some(4), &[4], base + 4096 * index, 4);
    let (_folder, path) = trace(&[Kernel::new(1, 1, |_, _| (0..64).map(load).collect())]);
    std::fs::write(&path, list).unwrap();
    let report = margay_sim::simulate(&path, config, options).unwrap();
    (report.totals.cycles, report.totals.counters.dram_reads)
}

#[test]
fn a_copy_below_4_gib_fills_the_second_cache() {
    const LOW: u64 = 0x10_0000;
    let list = format!("MemcpyHtoD,{LOW:#x},262144\nkernel-1.traceg\n");
    let mut config = qv100();
    let (warm, reads) = behind_a_copy(&list, LOW, &config, Options::default());
    assert_eq!(reads, 0);
    config.copies_fill_l2 = false;
    let (cold, reads) = behind_a_copy(&list, LOW, &config, Options::default());
    assert_eq!(reads, 256);
    assert!(cold > warm + 64 * 100);
}

#[test]
fn copies_use_32_bits_of_addresses_unless_told_otherwise() {
    let list = format!("MemcpyHtoD,{BASE:#x},262144\nkernel-1.traceg\n");
    let config = qv100();
    let (cold, reads) = behind_a_copy(&list, BASE, &config, Options::default());
    assert_eq!(reads, 256);
    let options = Options {
        whole_copy_addresses: true,
        ..Options::default()
    };
    let (warm, reads) = behind_a_copy(&list, BASE, &config, options);
    assert_eq!(reads, 0);
    assert!(cold > warm + 64 * 100);
}

#[test]
fn other_lines_of_a_list_have_no_effect() {
    let cycles = |list: &str| behind_a_copy(list, BASE, &qv100(), Options::default()).0;
    assert_eq!(
        cycles("kernel-1.traceg\n"),
        cycles("# MemcpyDtoH\nkernel-1.traceg\n")
    );
}

/// Returns the reads that a load after stores with these masks misses in both caches. A memory barrier would make the first
/// cache invalid, so that the load waits for a result instead.
fn misses_after_stores(masks: &[u32]) -> (u64, u64) {
    let mut all = Vec::new();
    for mask in masks {
        let mut store = access("STG.E", None, &[4, 5], BASE, 4);
        store.mask = *mask;
        let lanes = (0..32).filter(|lane| mask >> lane & 1 == 1);
        let addresses: Vec<u64> = lanes.map(|lane| BASE + 4 * lane).collect();
        store.addresses = Some(Addresses::compress(*mask, &addresses));
        all.push(store);
    }
    all.push(access("LDG.E", Some(6), &[4], BASE, 4));
    let counters = counters_of(all);
    (counters.l1.read_misses, counters.l2.read_misses)
}

#[test]
fn a_sector_can_be_read_as_soon_as_all_of_its_bytes_are_written() {
    assert_eq!(misses_after_stores(&[u32::MAX]), (0, 0));
    assert_eq!(misses_after_stores(&[0xff]), (3, 3));
    assert_eq!(misses_after_stores(&[0x7f]), (4, 4));
    assert_eq!(misses_after_stores(&[0x0f0f_0f0f, 0xf0f0_f0f0]), (0, 0));
    assert_eq!(misses_after_stores(&[0x0f0f_0f0f, 0xf0f0_f070]), (1, 1));
}

#[test]
fn a_memory_barrier_makes_the_first_cache_invalid() {
    let load = || access("LDG.E", Some(4), &[4], BASE, 4);
    let kernel = || Kernel::new(1, 1, move |_, _| vec![load(), barrier(), load()]);
    let misses = |config: &Config| {
        let report = run_with(&[kernel()], config, Options::default()).unwrap();
        report.totals.counters.l1.read_misses
    };
    let mut config = qv100();
    assert_eq!(misses(&config), 8);
    config.l1.flush = false;
    assert_eq!(misses(&config), 4);
}

#[test]
fn a_memory_barrier_waits_for_registers_but_not_for_stores() {
    let cycles = |first: Instruction| {
        let kernel = Kernel::new(1, 1, move |_, _| {
            let mut all = vec![first.clone(), barrier()];
            all.extend(vec![op("FADD", Some(9), &[9]); 100]);
            all
        });
        run(&[kernel]).unwrap().totals.cycles
    };
    let idle = cycles(op("NOP", None, &[]));
    assert!(cycles(access("STG.E", None, &[4, 5], BASE, 4)) < idle + 10);
    assert!(cycles(access("LDG.E", Some(4), &[5], BASE, 4)) > idle + 250);
}

#[test]
fn only_loads_with_a_named_memory_bypass_the_first_cache() {
    let accesses = |opcode: &str| {
        let counters = counters_of(vec![access(opcode, Some(4), &[4], BASE, 4)]);
        counters.l1.accesses
    };
    assert_eq!(accesses("LDG.E.STRONG.GPU"), 0);
    assert_eq!(accesses("LDG.E.STRONG.SYS"), 4);
    assert_eq!(accesses("LD.E.STRONG.GPU"), 4);
}

#[test]
fn local_memory_is_interleaved_by_threads() {
    // All lanes access the same four words: each is a line.
    let load = || access("LDL.128", Some(4), &[4], 0x40, 0);
    let counters = counters_of(vec![load(), load()]);
    let l1 = &counters.l1;
    assert_eq!((l1.accesses, l1.read_misses), (32, 16));
    // Warps, CTAs and cores have lines of their own, for one word 4 sectors each.
    let kernel = Kernel::new(160, 2, |_, _| vec![access("LDL", Some(4), &[4], 0x40, 0)]);
    let counters = run(&[kernel]).unwrap().totals.counters;
    assert_eq!(
        (counters.l1.accesses, counters.l2.read_misses),
        (1280, 1280)
    );
    // A generic address in the window of local memory is one in local memory.
    let load = access("LD.E", Some(4), &[4], 0x7f10_0100_0040, 0);
    assert_eq!(counters_of(vec![load]).l1.accesses, 4);
}

#[test]
fn reads_of_a_requested_sector_are_limited() {
    let cycles = |merges: [u32; 2], ctas: u32, warps: u32, step: u64| {
        let mut config = qv100();
        [config.l1.cache.merges, config.l2.cache.merges] = merges;
        // All warps load the same sector. Then they load one behind it in the same bank or slice, which has to wait if the
        // first load of a warp waits.
        let kernel = Kernel::new(ctas, warps, |_, warp| {
            let own = BASE + step * u64::from(warp + 1);
            vec![
                access("LDG.E", Some(4), &[8], BASE, 0),
                access("LDG.E", Some(5), &[8], own, 0),
            ]
        });
        let report = run_with(&[kernel], &config, Options::default()).unwrap();
        report.totals.cycles
    };
    let many = u32::MAX >> 12;
    let free = cycles([many, many], 1, 16, 4096);
    assert!(cycles([4, many], 1, 16, 4096) > free + 100);
    assert_eq!(cycles([many, 1], 1, 16, 4096), free);
    let free = cycles([many, many], 16, 1, 128);
    assert!(cycles([many, 4], 16, 1, 128) > free + 100);
}
