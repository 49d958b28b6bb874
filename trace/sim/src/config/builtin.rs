//! The built-in configurations.

use crate::config::{
    CacheShape, Clocks, Config, CoreShape, DramShape, L1Shape, L2Shape, LaunchShape, Policy,
    SharedShape, Unit, Units,
};

const KIB: u32 = 1024;

const fn unit(latency: u32, interval: u32) -> Unit {
    Unit {
        count: 4,
        latency,
        interval,
    }
}

/// No such unit.
const ABSENT: Unit = Unit {
    count: 0,
    latency: 1,
    interval: 1,
};

const BRANCH: Unit = unit(4, 4);
const TEXTURE: Unit = unit(200, 4);
const UNIFORM: Unit = unit(4, 1);

/// Quadro V100: Volta with 80 cores and HBM2.
pub(super) fn qv100() -> Config {
    Config {
        name: "SM7_QV100".to_owned(),
        clusters: 80,
        cores_per_cluster: 1,
        core: CoreShape {
            threads: 2048,
            ctas: 32,
            registers: 65536,
            schedulers: 4,
            policy: Policy::LooseRoundRobin,
            sub_cores: true,
        },
        units: Units {
            fp32: unit(2, 2),
            integer: unit(2, 2),
            fp64: unit(8, 4),
            special: unit(20, 8),
            specialized: [BRANCH, TEXTURE, unit(2, 2), ABSENT],
        },
        launch: LaunchShape {
            kernel_latency: 5000,
            cta_latency: 0,
            max_kernels: 128,
            share_cores: false,
        },
        l1: L1Shape {
            cache: CacheShape {
                sets: 4,
                ways: 64,
                hashed: false,
                outstanding: 512,
                merges: 8,
                miss_queue: 16,
            },
            latency: 20,
            banks: 4,
            flush: true,
            skip_global: false,
            adaptive: true,
            unified_bytes: 128 * KIB,
            shared_options: [0, 8, 16, 32, 64, 96].map(|size| size * KIB).to_vec(),
        },
        shared: SharedShape {
            bytes: 96 * KIB,
            latency: 20,
            banks: 32,
        },
        l2: L2Shape {
            cache: CacheShape {
                sets: 32,
                ways: 24,
                hashed: true,
                outstanding: 192,
                merges: 4,
                miss_queue: 32,
            },
            latency: 160,
            slices_per_channel: 2,
            hashed: true,
        },
        dram: DramShape {
            channels: 32,
            latency: 100,
            bus_bytes: 16,
            burst: 2,
            transfers_per_cycle: 2,
            queue: 64,
            banks: 16,
            bank_groups: 4,
            column_to_column: 1,
            column_to_column_in_group: 2,
            row_cycle: 40,
            row_to_row: 3,
            row_to_column: 12,
            precharge: 12,
            column_latency: 12,
        },
        clocks: Clocks {
            core: 1132.0,
            dram: 850.0,
        },
        copies_fill_l2: true,
        ignored: Vec::new(),
    }
}

/// GeForce RTX 2060: Turing with 30 cores and GDDR6.
pub(super) fn rtx2060() -> Config {
    let volta = qv100();
    Config {
        name: "SM75_RTX2060".to_owned(),
        clusters: 30,
        core: CoreShape {
            threads: 1024,
            ctas: 16,
            ..volta.core
        },
        units: Units {
            fp64: unit(64, 64),
            special: unit(21, 8),
            specialized: [BRANCH, TEXTURE, unit(16, 16), UNIFORM],
            ..volta.units
        },
        l1: L1Shape {
            cache: CacheShape {
                outstanding: 256,
                merges: 32,
                ..volta.l1.cache
            },
            latency: 32,
            unified_bytes: 96 * KIB,
            shared_options: [32, 64].map(|size| size * KIB).to_vec(),
            ..volta.l1
        },
        shared: SharedShape {
            bytes: 64 * KIB,
            latency: 30,
            banks: 32,
        },
        l2: L2Shape {
            cache: CacheShape {
                sets: 64,
                ways: 16,
                ..volta.l2.cache
            },
            latency: 194,
            slices_per_channel: 2,
            hashed: false,
        },
        dram: DramShape {
            channels: 12,
            latency: 96,
            ..gddr6()
        },
        clocks: Clocks {
            core: 1365.0,
            dram: 3500.5,
        },
        ..volta
    }
}

/// GeForce RTX 3070: Ampere with 46 cores and GDDR6.
pub(super) fn rtx3070() -> Config {
    let volta = qv100();
    Config {
        name: "SM86_RTX3070".to_owned(),
        clusters: 46,
        core: CoreShape {
            threads: 1536,
            ..volta.core
        },
        units: Units {
            fp32: unit(2, 1),
            fp64: unit(64, 64),
            special: unit(21, 8),
            specialized: [BRANCH, TEXTURE, unit(32, 32), UNIFORM],
            ..volta.units
        },
        l1: L1Shape {
            cache: CacheShape {
                ways: 256,
                outstanding: 384,
                merges: 48,
                ..volta.l1.cache
            },
            latency: 39,
            unified_bytes: 128 * KIB,
            shared_options: [0, 8, 16, 32, 64, 100].map(|size| size * KIB).to_vec(),
            ..volta.l1
        },
        shared: SharedShape {
            bytes: 100 * KIB,
            latency: 29,
            banks: 32,
        },
        l2: L2Shape {
            cache: CacheShape {
                sets: 64,
                ways: 16,
                ..volta.l2.cache
            },
            latency: 187,
            slices_per_channel: 2,
            hashed: true,
        },
        dram: DramShape {
            channels: 16,
            latency: 254,
            ..gddr6()
        },
        clocks: Clocks {
            core: 1132.0,
            dram: 3500.5,
        },
        ..volta
    }
}

/// The memory of both GeForce cards.
fn gddr6() -> DramShape {
    DramShape {
        channels: 16,
        latency: 100,
        bus_bytes: 2,
        burst: 16,
        transfers_per_cycle: 4,
        queue: 64,
        banks: 16,
        bank_groups: 4,
        column_to_column: 4,
        column_to_column_in_group: 6,
        row_cycle: 78,
        row_to_row: 12,
        row_to_column: 24,
        precharge: 24,
        column_latency: 24,
    }
}
