//! Reports as text, with the names that the simulator prints.

use std::io::{self, Write};

use crate::config::Config;
use crate::counters::CacheCounters;
use crate::program::UnitKind;
use crate::report::{KernelReport, NOTE, Report, Totals, ratio};

/// Writes what the simulator prints when a kernel ends. As there, counts other than `gpu_sim_` are sums over all kernels
/// that have ended.
///
/// # Errors
///
/// Those of the output.
pub fn write_kernel(
    out: &mut impl Write,
    config: &Config,
    kernel: &KernelReport,
) -> io::Result<()> {
    writeln!(out, "kernel_name = {}", kernel.name)?;
    writeln!(out, "kernel_launch_uid = {}", kernel.uid)?;
    writeln!(out, "kernel_stream_id = {}", kernel.stream)?;
    writeln!(out, "# {NOTE}")?;
    writeln!(out, "gpu_sim_cycle = {}", kernel.cycles())?;
    writeln!(out, "gpu_sim_insn = {}", kernel.counters.instructions)?;
    writeln!(out, "gpu_ipc = {:12.4}", kernel.ipc())?;
    let resident = kernel.occupancy.warps;
    let share = ratio(resident, u64::from(config.warps_per_core()));
    writeln!(out, "gpu_theoretical_occupancy = {:.4}%", share * 100.0)?;
    writeln!(
        out,
        "gpu_ctas_per_core = {} (limited by {})",
        kernel.occupancy.ctas, kernel.occupancy.limit
    )?;
    write_totals(out, &kernel.totals)
}

/// Writes the sums over all kernels.
///
/// # Errors
///
/// Those of the output.
pub fn write_totals(out: &mut impl Write, totals: &Totals) -> io::Result<()> {
    let counters = &totals.counters;
    writeln!(out, "gpu_tot_sim_cycle = {}", totals.cycles)?;
    writeln!(out, "gpu_tot_sim_insn = {}", counters.instructions)?;
    writeln!(out, "gpu_tot_ipc = {:12.4}", totals.ipc())?;
    writeln!(out, "gpu_tot_issued_cta = {}", counters.ctas)?;
    writeln!(out, "gpgpu_n_tot_w_icount = {}", counters.warp_instructions)?;
    for (name, count) in UnitKind::NAMES.iter().zip(counters.unit_instructions) {
        writeln!(out, "warp_instructions[{name}] = {count}")?;
    }
    writeln!(out, "gpgpu_n_shmem_accesses = {}", counters.shared_accesses)?;
    writeln!(
        out,
        "gpgpu_n_shmem_bkconflict = {}",
        counters.bank_conflicts
    )?;
    writeln!(out, "barrier_arrivals = {}", counters.barriers)?;
    write_cache(out, "L1D", &counters.l1)?;
    write_cache(out, "L2", &counters.l2)?;
    writeln!(out, "total dram reads = {}", counters.dram_reads)?;
    writeln!(out, "total dram writes = {}", counters.dram_writes)?;
    writeln!(
        out,
        "total dram activations = {}",
        counters.dram_activations
    )
}

fn write_cache(out: &mut impl Write, name: &str, cache: &CacheCounters) -> io::Result<()> {
    let CacheCounters {
        accesses,
        read_misses,
        ..
    } = *cache;
    writeln!(out, "\t{name}_total_cache_accesses = {accesses}")?;
    writeln!(out, "\t{name}_total_cache_misses = {read_misses}")?;
    let rate = ratio(read_misses, accesses);
    writeln!(out, "\t{name}_total_cache_miss_rate = {rate:.4}")?;
    let pending = cache.pending_hits;
    writeln!(out, "\t{name}_total_cache_pending_hits = {pending}")
}

impl Report {
    /// Writes a block for each kernel, then the totals.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for kernel in &self.kernels {
            write_kernel(out, &self.config, kernel)?;
            writeln!(out)?;
        }
        writeln!(out, "# {NOTE}")?;
        write_totals(out, &self.totals)
    }
}
