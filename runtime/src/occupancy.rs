//! Computes how many CTAs can be resident on a multiprocessor, according to the rules of CUDA's
//! occupancy calculation.

use crate::device_config::Capability;
use crate::device_config::capability::SmLimits;

/// The resource that limits how many CTAs can be resident on a multiprocessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limiter {
    /// The maximum number of resident CTAs.
    Ctas,
    /// The maximum number of resident warps.
    Warps,
    /// The registers.
    Registers,
    /// The shared memory.
    SharedMemory,
}

impl Limiter {
    /// Returns the name of the resource, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Limiter::Ctas => "blocks",
            Limiter::Warps => "warps",
            Limiter::Registers => "registers",
            Limiter::SharedMemory => "shared memory",
        }
    }
}

/// How well CTAs of a kernel fill a multiprocessor of a GPU.
///
/// ```
/// use margay::occupancy::{Limiter, Occupancy};
///
/// // On a GPU with compute capability 8.6, 6 blocks of 256 threads fill all 48 warps.
/// let of = Occupancy::of("8.6", 256, 32, 0).unwrap();
/// assert_eq!((of.ctas, of.warps, of.max_warps, of.limiter), (6, 48, 48, Limiter::Warps));
/// assert_eq!(Occupancy::of("none", 256, 32, 0), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupancy {
    /// Number of resident CTAs; 0 if not even one CTA fits.
    pub ctas: u32,
    /// Number of resident warps.
    pub warps: u32,
    /// The maximum number of resident warps.
    pub max_warps: u32,
    /// The resource that permits the fewest CTAs. If several permit equally few, the first of
    /// [`Limiter`]'s variants.
    pub limiter: Limiter,
}

impl Occupancy {
    /// Computes the occupancy of a multiprocessor. `capability` is the compute capability of the GPU, such as `8.6`;
    /// `registers` the number of registers of a thread, 0 if it is unknown; `shared` the number of bytes of static and
    /// dynamic shared memory of a CTA together. Returns `None` if `capability` is not a compute capability.
    pub fn of(capability: &str, threads: u32, registers: u32, shared: u64) -> Option<Occupancy> {
        let limits = Capability::parse(capability)?.limits();
        let cta = Footprint {
            threads,
            registers,
            shared,
        };
        let by = by_resource(&limits, &cta);
        let (ctas, limiter) = by.into_iter().min_by_key(|&(ctas, _)| ctas)?;
        Some(Occupancy {
            ctas,
            warps: ctas * threads.div_ceil(32).max(1),
            max_warps: limits.threads / 32,
            limiter,
        })
    }
}

/// The resources of a multiprocessor that a CTA needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Footprint {
    /// Number of threads.
    pub(crate) threads: u32,
    /// Registers per thread.
    pub(crate) registers: u32,
    /// Number of bytes of static and dynamic shared memory together.
    pub(crate) shared: u64,
}

/// The number of registers that are allocated for a warp is a multiple of this number.
const REGISTER_UNIT: u32 = 256;
/// Number of partitions of an SM. A warp belongs to one partition and uses only registers of this
/// partition.
const PARTITIONS: u32 = 4;

/// Returns how many CTAs can be resident on one SM; 0 if not even one CTA fits.
pub(crate) fn resident(limits: &SmLimits, cta: &Footprint) -> u32 {
    let by = by_resource(limits, cta);
    by.into_iter().map(|(ctas, _)| ctas).min().unwrap_or(0)
}

/// Returns how many CTAs each resource permits.
fn by_resource(limits: &SmLimits, cta: &Footprint) -> [(u32, Limiter); 4] {
    let warps = cta.threads.div_ceil(32).max(1);
    let by_registers = resident_by_registers(limits, warps, cta.registers);
    [
        (limits.ctas, Limiter::Ctas),
        (limits.threads / 32 / warps, Limiter::Warps),
        (by_registers, Limiter::Registers),
        (
            resident_by_shared(limits, cta.shared),
            Limiter::SharedMemory,
        ),
    ]
}

fn resident_by_registers(limits: &SmLimits, warps: u32, registers: u32) -> u32 {
    if registers == 0 {
        return u32::MAX;
    }
    let per_warp = registers
        .saturating_mul(32)
        .checked_next_multiple_of(REGISTER_UNIT)
        .unwrap_or(u32::MAX);
    let warps_per_partition = limits.registers / PARTITIONS / per_warp;
    warps_per_partition * PARTITIONS / warps
}

fn resident_by_shared(limits: &SmLimits, shared: u64) -> u32 {
    if shared > u64::from(limits.shared_optin) {
        return 0;
    }
    let taken = (shared + u64::from(limits.shared_reserved))
        .next_multiple_of(u64::from(limits.shared_unit));
    if taken == 0 {
        return u32::MAX;
    }
    (u64::from(limits.shared) / taken) as u32
}

/// Returns the maximum number of bytes of shared memory that each CTA may have if `ctas` CTAs are
/// resident on one SM.
pub(crate) fn shared_of(limits: &SmLimits, ctas: u32) -> u32 {
    let share = limits.shared / ctas.max(1) / limits.shared_unit * limits.shared_unit;
    share
        .saturating_sub(limits.shared_reserved)
        .min(limits.shared_optin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_config::Capability;

    fn on(capability: &str, threads: u32, registers: u32, shared: u64) -> u32 {
        let limits = Capability::parse(capability).expect("known").limits();
        resident(
            &limits,
            &Footprint {
                threads,
                registers,
                shared,
            },
        )
    }

    /// The expected values are computed by hand from the tables of the CUDA programming guide.
    #[test]
    fn follows_the_rules_of_each_resource() {
        // 48 warps fit on an SM, which makes 6 CTAs of 8 warps.
        assert_eq!(on("8.6", 256, 32, 0), 6);
        // At most 16 CTAs are resident.
        assert_eq!(on("8.6", 32, 16, 0), 16);
        // 1024 threads take 32 of 48 warps.
        assert_eq!(on("8.6", 1024, 32, 0), 1);
        // With 64 registers per thread a warp needs 2048, so 8 warps fit in a partition, and 4 CTAs of 8 warps on an
        // SM.
        assert_eq!(on("8.6", 256, 64, 0), 4);
        // With 255 registers per thread a warp needs 8192, so 2 warps fit in a partition, and 8 warps on an SM.
        assert_eq!(on("8.6", 256, 255, 0), 1);
        assert_eq!(on("8.6", 288, 255, 0), 0);
        // A CTA needs 48 KiB and 1 KiB of reserved memory, so 2 CTAs fit in 100 KiB.
        assert_eq!(on("8.6", 128, 32, 48 << 10), 2);
        // A CTA may have at most 99 KiB.
        assert_eq!(on("8.6", 128, 32, 99 << 10), 1);
        assert_eq!(on("8.6", 128, 32, (99 << 10) + 1), 0);
        // Devices before 8.0 reserve no shared memory.
        assert_eq!(on("7.5", 128, 32, 32 << 10), 2);
    }
}
