//! Configuration files.

use std::path::Path;

use margay_sim::{Config, Policy, Unit};

fn apply(text: &str) -> Result<Config, String> {
    let mut config = Config::builtin("SM7_QV100").unwrap();
    let applied = config.apply(Path::new("my.config"), text);
    applied.map(|()| config).map_err(|error| error.to_string())
}

#[test]
fn builtin_configurations_have_long_and_short_names() {
    for name in ["SM7_QV100", "qv100", "QV100"] {
        assert_eq!(Config::builtin(name).unwrap().name, "SM7_QV100");
    }
    for name in Config::BUILTIN {
        assert_eq!(Config::builtin(name).unwrap().name, name);
        assert_eq!(
            Config::load(&[name]).unwrap(),
            Config::builtin(name).unwrap()
        );
    }
    assert_eq!(Config::builtin("H100"), None);
}

#[test]
fn options_of_the_simulator_change_the_configuration() {
    let text = "
# A comment
-gpgpu_n_clusters 12   # half
-gpgpu_n_cores_per_cluster 2 -gpgpu_scheduler gto
-gpgpu_cache:dl1  S:8:128:32,L:T:m:L:L,A:99:9,17:0,32
-gpgpu_cache:dl2 S:64:128:16,L:B:m:L:P,A:192:4,32:0,32
-gpgpu_clock_domains 1000.5:1:2:3500
-gpgpu_dram_timing_opt \"nbk=8:CCD=3:RRD=4:RCD=13:RAS=28:RP=14:RC=41:
                        CL=15:WL=2:CDLR=3:WR=10:nbkgrp=2:CCDL=5:RTPL=3\"
-gpgpu_shmem_option 0,8,16
-specialized_unit_4 1,4,4,4,4,UDP
-trace_opcode_latency_initiation_spec_op_4 6,3
-trace_opcode_latency_initiation_sp 5,1
-gpgpu_shader_core_pipeline 1536:32
-gpgpu_frfcfs_dram_sched_queue_size 32
-visualizer_enabled 0
-some_number -1
";
    let config = apply(text).unwrap();
    assert_eq!(config.cores(), 24);
    assert_eq!(config.core.policy, Policy::GreedyThenOldest);
    let l1 = config.l1.cache;
    assert_eq!(
        (l1.sets, l1.ways, l1.hashed, l1.outstanding),
        (8, 32, false, 99)
    );
    let l2 = config.l2.cache;
    assert_eq!(
        (l2.sets, l2.ways, l2.hashed, l2.outstanding),
        (64, 16, true, 192)
    );
    assert_eq!((config.clocks.core, config.clocks.dram), (1000.5, 3500.0));
    let dram = &config.dram;
    assert_eq!(
        (dram.banks, dram.bank_groups, dram.column_to_column),
        (8, 2, 3)
    );
    assert_eq!(
        (dram.row_to_column, dram.precharge, dram.row_cycle),
        (13, 14, 41)
    );
    assert_eq!(
        (dram.column_latency, dram.column_to_column_in_group),
        (15, 5)
    );
    assert_eq!((dram.row_to_row, dram.queue), (4, 32));
    assert_eq!((l1.merges, l1.miss_queue), (9, 17));
    assert_eq!((l2.merges, l2.miss_queue), (4, 32));
    assert_eq!(config.l1.shared_options, [0, 8192, 16384]);
    let unit = |count, latency, interval| Unit {
        count,
        latency,
        interval,
    };
    assert_eq!(config.units.specialized[3], unit(4, 6, 3));
    assert_eq!(config.units.fp32, unit(4, 5, 1));
    assert_eq!(config.warps_per_core(), 48);
    let ignored: Vec<_> = config
        .ignored
        .iter()
        .map(|row| (row.line, row.option.as_str()))
        .collect();
    assert_eq!(ignored, [(16, "-visualizer_enabled"), (17, "-some_number")]);
}

#[test]
fn malformed_files_are_errors_with_the_line() {
    let error = |text: &str| apply(text).unwrap_err();
    assert_eq!(
        error("\n-gpgpu_n_clusters"),
        "my.config:2: option -gpgpu_n_clusters has no value"
    );
    assert_eq!(
        error("-gpgpu_n_clusters -gpgpu_n_mem 1"),
        "my.config:1: option -gpgpu_n_clusters has no value"
    );
    assert_eq!(
        error("\n\nvalue"),
        "my.config:3: expected an option, found \"value\""
    );
    assert_eq!(
        error("-a \"b\n\n"),
        "my.config:1: a quoted value does not end"
    );
    assert_eq!(
        error("\n-gpgpu_n_clusters x"),
        "my.config:2: option -gpgpu_n_clusters: the value \"x\" is not a number between 1 and 4096"
    );
    for text in [
        "-gpgpu_n_clusters 0",
        "-gpgpu_n_clusters -1",
        "-gpgpu_l1_banks 3",
        "-gpgpu_scheduler two_level",
        "-gpgpu_cache:dl1 S:4:64:64,L:T:m:L:L,A:512:8,16:0,32",
        "-gpgpu_cache:dl1 S:4:128:0,L:T:m:L:L,A:512:8,16:0,32",
        "-gpgpu_cache:dl1 S:4:128,L:T:m:L:L,A:512:8,16:0,32",
        "-gpgpu_cache:dl1 4:128:64",
        "-gpgpu_cache:dl1 none",
        "-gpgpu_shader_core_pipeline 2048:64",
        "-gpgpu_shader_core_pipeline 2048",
        "-gpgpu_clock_domains 1:2:3",
        "-gpgpu_clock_domains 0:1:1:1",
        "-gpgpu_clock_domains nan:1:1:1",
        "-gpgpu_dram_timing_opt nbk=0",
        "-gpgpu_dram_timing_opt XYZ=1",
        "-trace_opcode_latency_initiation_sp 4",
        "-trace_opcode_latency_initiation_sp 4,0",
        "-trace_opcode_latency_initiation_sp 4,4,4",
        "-specialized_unit_1 2,4",
        "-specialized_unit_1 1",
        "-gpgpu_perf_sim_memcpy yes",
        "-gpgpu_kernel_launch_latency 99999999999999999999",
    ] {
        assert!(
            error(text).starts_with("my.config:1: option -"),
            "{text}: {}",
            error(text)
        );
    }
    assert_eq!(
        error("-gpgpu_n_clusters 4096 -gpgpu_n_cores_per_cluster 64"),
        "my.config: the number of cores is 262144, not between 1 and 4096"
    );
}

#[test]
fn files_follow_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let one = file("one", "-gpgpu_n_clusters 5\n-gpgpu_n_mem 7\n");
    let two = file("two", "-gpgpu_n_clusters 6\n");
    let config = Config::load(&[one.as_str(), two.as_str()]).unwrap();
    assert_eq!((config.clusters, config.dram.channels), (6, 7));
    let config = Config::load(&[one.as_str(), "rtx3070", two.as_str()]).unwrap();
    assert_eq!((config.clusters, config.dram.channels), (6, 16));
    assert_eq!(config.name, format!("SM86_RTX3070 {two}"));
    let missing = Config::load(&[folder.path().join("none").to_str().unwrap()]);
    assert_eq!(missing.unwrap_err().line, 0);
}

#[test]
fn all_configurations_are_text_for_programs() {
    for name in Config::BUILTIN {
        let json = serde_json::to_value(Config::builtin(name).unwrap()).unwrap();
        assert_eq!(json["name"], name);
    }
}
