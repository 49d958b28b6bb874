//! The properties of a launch that threads can observe: the sizes of grid, blocks and clusters,
//! special registers, and coordinates.

use std::sync::Arc;

use margay_ops::sreg::SpecialReg;

use crate::symbols::SymbolTable;

/// The properties of a launch that the engines (native code and the interpreter) need: sizes,
/// addresses of the launch's data, and values of special registers.
#[derive(Clone, Debug, Default)]
pub struct LaunchInfo {
    /// The number of CTAs of the grid in the dimensions x, y, z.
    pub grid: [u32; 3],
    /// The number of threads of a CTA in the dimensions x, y, z.
    pub block: [u32; 3],
    /// The number of CTAs of a cluster in the dimensions x, y, z; each is 1 if the launch has no
    /// clusters.
    pub cluster: [u32; 3],
    /// The host address of the buffer that contains the kernel's arguments.
    pub params: u64,
    /// The size in bytes of the shared memory that is reserved for the system. It begins at offset
    /// 0 of a CTA's shared memory.
    pub reserved_shared: u32,
    /// The total size in bytes of reserved shared memory and of the kernel's `.shared` variables.
    /// Dynamic shared memory begins after them.
    pub static_shared: u32,
    /// The size in bytes of a CTA's dynamic shared memory.
    pub dynamic_shared: u32,
    /// In a checking run: the size in bytes of the spare memory after a CTA's shared memory, which
    /// suppressed accesses read or write. In other runs, 0.
    pub spare_shared: u32,
    /// The sizes in bytes of two windows: the window of shared memory and the window of local
    /// memory.
    pub window_spans: [u64; 2],
    /// Value of `%gridid`.
    pub grid_id: u64,
    /// Value of `%nsmid`.
    pub sm_count: u32,
    /// The value of the special register `%nwarpid`: the number of warps that can be resident in a
    /// multiprocessor.
    pub sm_warps: u32,
    /// The address of the memory that cooperative launches use to synchronise the grid. `%envreg1`
    /// contains its high 32 bits, and `%envreg2` its low 32 bits.
    pub workspace: u64,
    /// The table of the addresses of the symbols (variables) that the kernel uses.
    pub symbols: SymbolTable,
    /// The host address and the size in bytes of each variable of the module in constant memory.
    pub constants: Arc<[(u64, u64)]>,
    /// The handle of function 0; the handle of function `i` is `function_base + 16 * i`.
    pub function_base: u64,
}

/// The largest number of bytes that one bulk operation (bulk copy, bulk reduction or `st.bulk`)
/// accesses. No valid operation is larger: PTX limits `st.bulk` to 16 MiB, and every bulk copy
/// reads or writes shared memory, which is smaller.
const MAX_BULK: u64 = 16 << 20;

/// The number of bytes of a unit of shared memory. GPUs allocate units of at least 128 bytes. This unit is the greatest
/// alignment that most kernels need, so that shared memory can begin at a multiple of it and end at the end of a page.
const SHARED_UNIT: u64 = 16;

impl LaunchInfo {
    /// Returns the largest number of bytes that one bulk operation (bulk copy, bulk reduction or
    /// `st.bulk`) accesses in this launch. Every bulk operation accesses shared memory, so a larger
    /// operation accesses at least 16 bytes beyond the shared memory of the CTA or the cluster. In
    /// checking runs, the limit is only 16 bytes larger than this shared memory. This limit is
    /// sufficient to detect an operation that is too large; the checking run would suppress the
    /// rest of its accesses anyway.
    pub fn bulk_limit(&self) -> u64 {
        if self.spare_shared == 0 {
            return MAX_BULK;
        }
        let size = match self.cluster_size() {
            1 => u64::from(self.static_shared) + u64::from(self.dynamic_shared),
            ctas => u64::from(ctas) << self.shared_shift(),
        };
        (size.next_multiple_of(16) + 16).min(MAX_BULK)
    }

    /// Returns the number of threads of a CTA.
    pub fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// Returns the number of warps of a CTA.
    pub fn warps(&self) -> u32 {
        self.threads().div_ceil(32)
    }

    /// Returns the number of CTAs of the grid.
    pub fn ctas(&self) -> u64 {
        self.grid.iter().map(|&n| u64::from(n)).product()
    }

    /// Returns the number of CTAs of a cluster.
    pub fn cluster_size(&self) -> u32 {
        self.cluster.iter().map(|&n| n.max(1)).product()
    }

    /// Returns the rank of a CTA in its cluster.
    pub fn cluster_rank(&self, cta: &CtaInfo) -> u32 {
        let cluster = self.cluster.map(|n| n.max(1));
        let at: [u32; 3] = std::array::from_fn(|i| cta.index[i] % cluster[i]);
        at[0] + cluster[0] * (at[1] + cluster[1] * at[2])
    }

    /// Returns the binary logarithm of the distance in bytes between the shared memories of two CTAs of a cluster with
    /// consecutive ranks. All shared memories of a cluster are in one window; the shared memory of the CTA with rank
    /// `r` begins at offset `r << shared_shift()`. A 32-bit shared address is an offset in this window, so it refers to
    /// the same bytes in all CTAs of the cluster (PTX ISA 5.1.7: `.shared::cta` is a part of `.shared::cluster`).
    pub fn shared_shift(&self) -> u32 {
        let bytes = self.own_shared_bytes().max(1 << 10);
        bytes.next_power_of_two().trailing_zeros()
    }

    /// Returns the number of bytes of one CTA's shared memory that the CTA may access. Like GPUs, Margay allocates shared
    /// memory in units, which have [`SHARED_UNIT`] bytes. In checking runs, this number includes the spare memory instead
    /// of the rest of the last unit.
    pub fn own_shared_bytes(&self) -> u64 {
        let own = u64::from(self.static_shared) + u64::from(self.dynamic_shared);
        match self.spare_shared {
            0 => own.next_multiple_of(SHARED_UNIT),
            spare => own + u64::from(spare),
        }
    }

    /// Converts `offset`, an offset in the window of the cluster, to the rank of the CTA whose
    /// shared memory is at this offset, and an offset in this shared memory. If the cluster has one
    /// CTA, the rank is always 0. Otherwise, the rank for an offset beyond the window is not less
    /// than the number of CTAs.
    pub fn shared_place(&self, offset: u64) -> (u64, u64) {
        match self.cluster_size() {
            1 => (0, offset),
            _ => {
                let shift = self.shared_shift();
                (offset >> shift, offset & ((1 << shift) - 1))
            }
        }
    }

    /// Returns whether a generic address is in the shared memory of a CTA or, if `of_cluster` is set, of its cluster.
    /// If a cluster has only one CTA, the whole window belongs to this CTA.
    #[inline]
    pub fn is_shared(&self, cta: &CtaInfo, address: u64, of_cluster: bool) -> bool {
        let offset = address.wrapping_sub(cta.shared_base);
        match (self.cluster_size(), of_cluster) {
            (1, _) => offset < self.window_spans[0],
            (count, true) => offset < u64::from(count) << self.shared_shift(),
            (_, false) => offset >> self.shared_shift() == u64::from(self.cluster_rank(cta)),
        }
    }

    /// Returns whether a generic address is in the window of local memory, at or after `start`, where the local memory
    /// of a thread begins.
    pub fn is_local(&self, cta: &CtaInfo, start: u64, address: u64) -> bool {
        let offset = address.wrapping_sub(cta.local_base);
        offset < self.window_spans[1] && address >= start
    }

    /// Returns whether a generic address refers to a variable of the module in constant memory.
    pub fn is_constant(&self, address: u64) -> bool {
        let mut constants = self.constants.iter();
        constants.any(|&(start, bytes)| address.wrapping_sub(start) < bytes)
    }

    /// Returns the coordinates (x, y, z) in the CTA of the thread with the linear index `thread`.
    pub fn thread_index(&self, thread: u32) -> [u32; 3] {
        let [x, y, _] = self.block.map(|n| n.max(1));
        [thread % x, thread / x % y, thread / x / y]
    }

    /// Returns the coordinates (x, y, z) in the grid of the CTA with the linear index `cta`.
    pub fn cta_index(&self, cta: u64) -> [u32; 3] {
        let [x, y, _] = self.grid.map(|n| u64::from(n.max(1)));
        [(cta % x) as u32, (cta / x % y) as u32, (cta / x / y) as u32]
    }
}

/// A resident CTA.
#[derive(Clone, Copy, Debug, Default)]
pub struct CtaInfo {
    /// The coordinates of the CTA in the grid.
    pub index: [u32; 3],
    /// The linear index of the CTA in the grid.
    pub linear: u64,
    /// The host address of the window of shared memory, which is the same for all CTAs of a
    /// cluster.
    pub shared_base: u64,
    /// The host address of the window of local memory.
    pub local_base: u64,
    /// Size in bytes of the local memory of each thread.
    pub local_stride: u32,
    /// Number of bytes of `local_stride` that variables and stack frames may occupy. The rest is spare memory for
    /// suppressed accesses of checking runs.
    pub stack_limit: u32,
    /// Value of `%smid`.
    pub sm: u32,
}

/// Returns the value of a special register in a thread. The register must not be a clock.
pub fn special_register(
    launch: &LaunchInfo,
    cta: &CtaInfo,
    thread: u32,
    register: SpecialReg,
) -> u64 {
    use SpecialReg as R;
    let tid = launch.thread_index(thread);
    let lane = thread % 32;
    let bit = 1u32 << lane;
    let axis = |values: [u32; 3], i: usize| u64::from(values[i]);
    let cluster = launch.cluster.map(|n| n.max(1));
    let in_cluster = |i: usize| cta.index[i] % cluster[i];
    match register {
        R::TidX | R::TidY | R::TidZ => axis(tid, register as usize - R::TidX as usize),
        R::NtidX | R::NtidY | R::NtidZ => axis(launch.block, register as usize - R::NtidX as usize),
        R::CtaidX | R::CtaidY | R::CtaidZ => {
            axis(cta.index, register as usize - R::CtaidX as usize)
        }
        R::NctaidX | R::NctaidY | R::NctaidZ => {
            axis(launch.grid, register as usize - R::NctaidX as usize)
        }
        R::Laneid => u64::from(lane),
        R::Warpid => u64::from(thread / 32),
        R::Nwarpid => u64::from(launch.sm_warps),
        R::Smid => u64::from(cta.sm),
        R::Nsmid => u64::from(launch.sm_count),
        R::Gridid => launch.grid_id,
        R::LanemaskEq => u64::from(bit),
        R::LanemaskLt => u64::from(bit - 1),
        R::LanemaskLe => u64::from((bit - 1) | bit),
        R::LanemaskGe => u64::from(!(bit - 1)),
        R::LanemaskGt => u64::from(!(bit - 1) & !bit),
        R::DynamicSmemSize => u64::from(launch.dynamic_shared),
        R::TotalSmemSize | R::AggrSmemSize => {
            u64::from(launch.static_shared) + u64::from(launch.dynamic_shared)
        }
        R::ClusteridX => u64::from(cta.index[0] / cluster[0]),
        R::ClusteridY => u64::from(cta.index[1] / cluster[1]),
        R::ClusteridZ => u64::from(cta.index[2] / cluster[2]),
        R::NclusteridX => u64::from(launch.grid[0] / cluster[0]),
        R::NclusteridY => u64::from(launch.grid[1] / cluster[1]),
        R::NclusteridZ => u64::from(launch.grid[2] / cluster[2]),
        R::ClusterCtaidX => u64::from(in_cluster(0)),
        R::ClusterCtaidY => u64::from(in_cluster(1)),
        R::ClusterCtaidZ => u64::from(in_cluster(2)),
        R::ClusterNctaidX => u64::from(cluster[0]),
        R::ClusterNctaidY => u64::from(cluster[1]),
        R::ClusterNctaidZ => u64::from(cluster[2]),
        R::ClusterCtarank => u64::from(launch.cluster_rank(cta)),
        R::ClusterNctarank => u64::from(launch.cluster_size()),
        R::SharedShift => u64::from(launch.shared_shift()),
        R::BulkLimit => launch.bulk_limit(),
        R::IsExplicitCluster => u64::from(cluster != [1, 1, 1]),
        R::Envreg1 => launch.workspace >> 32,
        R::Envreg2 => launch.workspace & 0xffff_ffff,
        R::ReservedSmemEnd | R::ReservedSmemCap => u64::from(launch.reserved_shared),
        // Reserved shared memory begins at offset 0, and so do both of its parts, as on an H100. The remaining
        // registers are performance counters, registers about graphs, and environment registers of NVIDIA's driver.
        // They are 0.
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_operations_that_are_too_large_leave_shared_memory() {
        let launch = LaunchInfo {
            static_shared: 1000,
            dynamic_shared: 100,
            ..Default::default()
        };
        assert_eq!(launch.bulk_limit(), 16 << 20);
        let checked = LaunchInfo {
            spare_shared: 64,
            ..launch
        };
        assert_eq!(checked.bulk_limit(), 1120);
        let cluster = LaunchInfo {
            cluster: [2, 2, 1],
            ..checked
        };
        assert_eq!(cluster.bulk_limit(), (4 << cluster.shared_shift()) + 16);
    }

    #[test]
    fn shared_memory_consists_of_whole_units() {
        let bytes = |static_shared, dynamic_shared, spare_shared| {
            let launch = LaunchInfo {
                static_shared,
                dynamic_shared,
                spare_shared,
                ..Default::default()
            };
            launch.own_shared_bytes()
        };
        assert_eq!(bytes(0, 0, 0), 0);
        assert_eq!(bytes(2180, 0, 0), 2192);
        assert_eq!(bytes(2180, 12, 0), 2192);
        // A checking run finds accesses after the last byte.
        assert_eq!(bytes(2180, 0, 64), 2180 + 64);
    }

    #[test]
    fn coordinates_of_a_thread_in_a_box() {
        let launch = LaunchInfo {
            block: [4, 3, 2],
            grid: [1, 1, 1],
            ..Default::default()
        };
        assert_eq!(launch.thread_index(4 * 3 + 4 + 2), [2, 1, 1]);
        let cta = CtaInfo::default();
        assert_eq!(special_register(&launch, &cta, 18, SpecialReg::TidY), 1);
        assert_eq!(
            special_register(&launch, &cta, 18, SpecialReg::LanemaskGt),
            0xfff8_0000
        );
    }
}
