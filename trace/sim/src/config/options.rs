//! The options of the simulator's files that the model uses, each with the function that parses its value.

use std::str::FromStr;

use crate::config::{CacheShape, Config, Policy, Unit};

/// Sets what an option means, or says what is wrong with the value.
type Set = fn(&mut Config, &str) -> Result<(), String>;

/// The options, in byte order.
const OPTIONS: [(&str, Set); 54] = [
    ("-dram_data_command_freq_ratio", |config, value| {
        set(&mut config.dram.transfers_per_cycle, value, 1, 64)
    }),
    ("-dram_latency", |config, value| {
        set(&mut config.dram.latency, value, 0, MAX_LATENCY)
    }),
    ("-gpgpu_TB_launch_latency", |config, value| {
        set(&mut config.launch.cta_latency, value, 0, MAX_LAUNCH)
    }),
    ("-gpgpu_adaptive_cache_config", |config, value| {
        config.l1.adaptive = flag(value)?;
        Ok(())
    }),
    ("-gpgpu_cache:dl1", |config, value| {
        config.l1.cache = cache(value)?;
        Ok(())
    }),
    ("-gpgpu_cache:dl2", |config, value| {
        config.l2.cache = cache(value)?;
        Ok(())
    }),
    ("-gpgpu_clock_domains", clocks),
    ("-gpgpu_concurrent_kernel_sm", |config, value| {
        config.launch.share_cores = flag(value)?;
        Ok(())
    }),
    ("-gpgpu_dram_burst_length", |config, value| {
        set(&mut config.dram.burst, value, 1, 1024)
    }),
    ("-gpgpu_dram_buswidth", |config, value| {
        set(&mut config.dram.bus_bytes, value, 1, 1024)
    }),
    ("-gpgpu_dram_timing_opt", dram_timing),
    ("-gpgpu_flush_l1_cache", |config, value| {
        config.l1.flush = flag(value)?;
        Ok(())
    }),
    ("-gpgpu_frfcfs_dram_sched_queue_size", |config, value| {
        set(&mut config.dram.queue, value, 1, 1 << 20)
    }),
    ("-gpgpu_gmem_skip_L1D", |config, value| {
        config.l1.skip_global = flag(value)?;
        Ok(())
    }),
    ("-gpgpu_kernel_launch_latency", |config, value| {
        set(&mut config.launch.kernel_latency, value, 0, MAX_LAUNCH)
    }),
    ("-gpgpu_l1_banks", |config, value| {
        let mut banks = 0;
        set(&mut banks, value, 1, 64)?;
        if !u32::is_power_of_two(banks) {
            return Err(malformed(value, "a power of two"));
        }
        config.l1.banks = banks;
        Ok(())
    }),
    ("-gpgpu_l1_latency", |config, value| {
        set(&mut config.l1.latency, value, 0, MAX_LATENCY)
    }),
    ("-gpgpu_l2_rop_latency", |config, value| {
        set(&mut config.l2.latency, value, 0, MAX_LATENCY)
    }),
    ("-gpgpu_max_concurrent_kernel", |config, value| {
        set(&mut config.launch.max_kernels, value, 1, 1024)
    }),
    ("-gpgpu_memory_partition_indexing", |config, value| {
        let mut index = 0;
        set(&mut index, value, 0, 4)?;
        config.l2.hashed = index != 0;
        Ok(())
    }),
    ("-gpgpu_n_clusters", |config, value| {
        set(&mut config.clusters, value, 1, 4096)
    }),
    ("-gpgpu_n_cores_per_cluster", |config, value| {
        set(&mut config.cores_per_cluster, value, 1, 64)
    }),
    ("-gpgpu_n_mem", |config, value| {
        set(&mut config.dram.channels, value, 1, 1024)
    }),
    ("-gpgpu_n_sub_partition_per_mchannel", |config, value| {
        set(&mut config.l2.slices_per_channel, value, 1, 64)
    }),
    ("-gpgpu_num_dp_units", |config, value| {
        set(&mut config.units.fp64.count, value, 0, 64)
    }),
    ("-gpgpu_num_int_units", |config, value| {
        set(&mut config.units.integer.count, value, 0, 64)
    }),
    ("-gpgpu_num_sched_per_core", |config, value| {
        set(&mut config.core.schedulers, value, 1, 64)
    }),
    ("-gpgpu_num_sfu_units", |config, value| {
        set(&mut config.units.special.count, value, 0, 64)
    }),
    ("-gpgpu_num_sp_units", |config, value| {
        set(&mut config.units.fp32.count, value, 1, 64)
    }),
    ("-gpgpu_perf_sim_memcpy", |config, value| {
        config.copies_fill_l2 = flag(value)?;
        Ok(())
    }),
    ("-gpgpu_scheduler", |config, value| {
        config.core.policy = match value {
            "lrr" => Policy::LooseRoundRobin,
            "gto" => Policy::GreedyThenOldest,
            _ => return Err(malformed(value, "lrr or gto, the policies of this model")),
        };
        Ok(())
    }),
    ("-gpgpu_shader_core_pipeline", |config, value| {
        let [threads, warp] = numbers(value, ':')?;
        if warp != 32 || !(32..=32 * 1024).contains(&threads) || threads % 32 != 0 {
            return Err(malformed(
                value,
                "threads in warps of 32, at most 1024 warps",
            ));
        }
        config.core.threads = threads;
        Ok(())
    }),
    ("-gpgpu_shader_cta", |config, value| {
        set(&mut config.core.ctas, value, 1, 1024)
    }),
    ("-gpgpu_shader_registers", |config, value| {
        set(&mut config.core.registers, value, 1, 1 << 28)
    }),
    ("-gpgpu_shmem_num_banks", |config, value| {
        set(&mut config.shared.banks, value, 1, 1024)
    }),
    ("-gpgpu_shmem_option", |config, value| {
        let sizes: Result<Vec<u32>, String> = value
            .split(',')
            .map(|text| number(text, 0, 1 << 16))
            .collect();
        config.l1.shared_options = sizes?.into_iter().map(|size: u32| size * 1024).collect();
        config.l1.shared_options.sort_unstable();
        Ok(())
    }),
    ("-gpgpu_shmem_size", |config, value| {
        set(&mut config.shared.bytes, value, 0, 1 << 28)
    }),
    ("-gpgpu_smem_latency", |config, value| {
        set(&mut config.shared.latency, value, 0, MAX_LATENCY)
    }),
    ("-gpgpu_sub_core_model", |config, value| {
        config.core.sub_cores = flag(value)?;
        Ok(())
    }),
    ("-gpgpu_unified_l1d_size", |config, value| {
        let size: u32 = number(value, 0, 1 << 16)?;
        config.l1.unified_bytes = size * 1024;
        Ok(())
    }),
    ("-specialized_unit_1", |config, value| {
        specialized(config, 0, value)
    }),
    ("-specialized_unit_2", |config, value| {
        specialized(config, 1, value)
    }),
    ("-specialized_unit_3", |config, value| {
        specialized(config, 2, value)
    }),
    ("-specialized_unit_4", |config, value| {
        specialized(config, 3, value)
    }),
    ("-trace_opcode_latency_initiation_dp", |config, value| {
        timing(&mut config.units.fp64, value)
    }),
    ("-trace_opcode_latency_initiation_int", |config, value| {
        timing(&mut config.units.integer, value)
    }),
    ("-trace_opcode_latency_initiation_sfu", |config, value| {
        timing(&mut config.units.special, value)
    }),
    ("-trace_opcode_latency_initiation_sp", |config, value| {
        timing(&mut config.units.fp32, value)
    }),
    (
        "-trace_opcode_latency_initiation_spec_op_1",
        |config, value| timing(&mut config.units.specialized[0], value),
    ),
    (
        "-trace_opcode_latency_initiation_spec_op_2",
        |config, value| timing(&mut config.units.specialized[1], value),
    ),
    (
        "-trace_opcode_latency_initiation_spec_op_3",
        |config, value| timing(&mut config.units.specialized[2], value),
    ),
    (
        "-trace_opcode_latency_initiation_spec_op_4",
        |config, value| timing(&mut config.units.specialized[3], value),
    ),
    ("-trace_opcode_latency_initiation_tensor", |_, value| {
        // The specialized unit 3 executes matrix operations.
        numbers::<2>(value, ',').map(|_| ())
    }),
    (
        "-trace_opcode_latency_initiation_tensor_core",
        |_, value| numbers::<2>(value, ',').map(|_| ()),
    ),
];

/// The maximum latency of a cache or unit in cycles.
const MAX_LATENCY: u32 = 1 << 16;
/// The maximum latency of a launch in cycles.
const MAX_LAUNCH: u64 = 1 << 32;

/// Returns the function of an option, or none if the model does not use it.
pub(super) fn find(name: &str) -> Option<Set> {
    let row = OPTIONS.binary_search_by_key(&name, |(known, _)| known);
    row.ok().map(|row| OPTIONS[row].1)
}

fn malformed(value: &str, expected: &str) -> String {
    format!("the value {value:?} is not {expected}")
}

fn number<T: FromStr + PartialOrd + std::fmt::Display>(
    text: &str,
    least: T,
    most: T,
) -> Result<T, String> {
    let number = text.trim().parse().ok();
    let number = number.filter(|number| *number >= least && *number <= most);
    number.ok_or_else(|| malformed(text, &format!("a number between {least} and {most}")))
}

fn set<T: FromStr + PartialOrd + std::fmt::Display>(
    target: &mut T,
    text: &str,
    least: T,
    most: T,
) -> Result<(), String> {
    *target = number(text, least, most)?;
    Ok(())
}

fn flag(value: &str) -> Result<bool, String> {
    match value {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(malformed(value, "0 or 1")),
    }
}

/// Parses exactly N numbers.
fn numbers<const N: usize>(value: &str, separator: char) -> Result<[u32; N], String> {
    let parts: Result<Vec<u32>, String> = value
        .split(separator)
        .map(|text| number(text, 0, u32::MAX))
        .collect();
    let error = || malformed(value, &format!("{N} numbers separated by {separator:?}"));
    parts?.try_into().map_err(|_| error())
}

fn timing(unit: &mut Unit, value: &str) -> Result<(), String> {
    let [latency, interval] = numbers(value, ',')?;
    if !(1..=MAX_LATENCY).contains(&latency) || !(1..=MAX_LATENCY).contains(&interval) {
        return Err(malformed(
            value,
            "a latency and an interval from 1 to 65536",
        ));
    }
    (unit.latency, unit.interval) = (latency, interval);
    Ok(())
}

/// `<enabled>,<units>,<largest latency>,<registers>,<registers>,<name>`.
fn specialized(config: &mut Config, index: usize, value: &str) -> Result<(), String> {
    let mut parts = value.split(',');
    let (enabled, units) = (parts.next(), parts.next());
    let (Some(enabled), Some(units)) = (enabled, units) else {
        return Err(malformed(
            value,
            "a flag, a number of units, and further fields",
        ));
    };
    let units = number(units, 0, 64)?;
    config.units.specialized[index].count = if flag(enabled)? { units } else { 0 };
    Ok(())
}

/// `<core>:<interconnect>:<L2>:<DRAM>` in MHz.
fn clocks(config: &mut Config, value: &str) -> Result<(), String> {
    let parts: Vec<&str> = value.split(':').collect();
    let [core, _, _, dram] = parts[..] else {
        return Err(malformed(value, "four clocks separated by ':'"));
    };
    let clock = |text| number(text, 1.0, 1e6);
    (config.clocks.core, config.clocks.dram) = (clock(core)?, clock(dram)?);
    Ok(())
}

/// `<kind>:<sets>:<line>:<ways>,<policies>,<table>:<entries>:<merges>,<queues>`.
fn cache(value: &str) -> Result<CacheShape, String> {
    let fields: Vec<&str> = value.split(',').collect();
    let error = || {
        malformed(
            value,
            "a cache with sets, line, ways, policies and outstanding misses",
        )
    };
    let [shape, policies, table, queue, ..] = fields[..] else {
        return Err(error());
    };
    let (kind, shape) = shape.trim().split_once(':').ok_or_else(error)?;
    if kind != "S" && kind != "N" {
        return Err(malformed(kind, "S or N, the kinds of cache of this model"));
    }
    let [sets, line, ways] = numbers(shape, ':')?;
    if line != 128 {
        return Err(malformed(value, "a cache with lines of 128 bytes"));
    }
    let mut table = table.split(':').skip(1);
    let outstanding = table.next().ok_or_else(error)?;
    let merges = table.next().ok_or_else(error)?;
    let queue = queue.split(':').next().ok_or_else(error)?;
    let index = policies.split(':').nth(4).ok_or_else(error)?;
    Ok(CacheShape {
        sets: number(&sets.to_string(), 1, 1 << 20)?,
        ways: number(&ways.to_string(), 1, 1 << 20)?,
        hashed: index != "L",
        outstanding: number(outstanding, 1, 1 << 20)?,
        merges: number(merges, 1, 1 << 20)?,
        miss_queue: number(queue, 1, 1 << 20)?,
    })
}

/// `nbk=16:CCD=1:...`, or the numbers alone in the order nbk, CCD, RRD, RCD, RAS, RP, RC, CL, and further ones.
fn dram_timing(config: &mut Config, value: &str) -> Result<(), String> {
    const ORDER: [&str; 14] = [
        "nbk", "CCD", "RRD", "RCD", "RAS", "RP", "RC", "CL", "WL", "CDLR", "WR", "nbkgrp", "CCDL",
        "RTPL",
    ];
    for (index, part) in value.split(':').enumerate() {
        let (name, text) = match part.split_once('=') {
            Some((name, text)) => (name.trim(), text),
            None => (*ORDER.get(index).unwrap_or(&""), part),
        };
        let least = u32::from(name.starts_with("nbk") || name.starts_with("CCD"));
        let number = number(text, least, 4096)?;
        let dram = &mut config.dram;
        let target = match name {
            "nbk" => &mut dram.banks,
            "CCD" => &mut dram.column_to_column,
            "RCD" => &mut dram.row_to_column,
            "RP" => &mut dram.precharge,
            "RC" => &mut dram.row_cycle,
            "RRD" => &mut dram.row_to_row,
            "CL" => &mut dram.column_latency,
            "nbkgrp" => &mut dram.bank_groups,
            "CCDL" => &mut dram.column_to_column_in_group,
            _ if ORDER.contains(&name) => continue,
            _ => return Err(malformed(part, "a DRAM timing")),
        };
        *target = number;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_sorted() {
        assert!(OPTIONS.is_sorted_by_key(|(name, _)| *name));
    }
}
