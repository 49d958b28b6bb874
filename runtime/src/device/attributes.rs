//! The device's attributes, by `CUdevice_attribute` number.
//!
//! The table has one row per number, in ascending order. The table reports features that Margay
//! does not support as absent, so that programs avoid them.

use super::DeviceConfig;

/// Reported PCI domain.
pub const PCI_DOMAIN: i32 = 0;
/// The attribute that reports the PCI bus.
pub const PCI_BUS_ID: i32 = 33;
/// Reported PCI bus of the first device. Each further device has the next bus number.
pub const PCI_BUS: i32 = 0xa0;
/// Reported PCI device.
pub const PCI_DEVICE: i32 = 0;

/// Reported clock rate in kHz; `%clock` ticks at this rate.
pub const CLOCK_KHZ: i32 = 1_000_000;

/// The highest attribute number in the table.
pub const LAST: i32 = FIRST + VALUES.len() as i32 - 1;

const FIRST: i32 = 1;

/// The value in a row of the table. The value is either fixed or computed from the configuration.
enum Value {
    Is(i32),
    Of(fn(&DeviceConfig) -> i32),
}

use Value::{Is, Of};

const NO: Value = Is(0);
const YES: Value = Is(1);

/// The name and value of each attribute. The first row is attribute 1.
#[rustfmt::skip]
const VALUES: &[(&str, Value)] = &[
    ("max_threads_per_block", Is(1024)),
    ("max_block_dim_x", Is(1024)),
    ("max_block_dim_y", Is(1024)),
    ("max_block_dim_z", Is(64)),
    ("max_grid_dim_x", Is(0x7fff_ffff)),
    ("max_grid_dim_y", Is(65_535)),
    ("max_grid_dim_z", Is(65_535)),
    ("max_shared_memory_per_block", Is(48 << 10)),
    ("total_constant_memory", Is(64 << 10)),
    ("warp_size", Is(32)),
    ("max_pitch", Is(0x7fff_ffff)),
    ("max_registers_per_block", Is(64 << 10)),
    ("clock_rate", Is(CLOCK_KHZ)),
    ("texture_alignment", Is(512)),
    ("gpu_overlap", YES),
    ("multiprocessor_count", Of(|c| c.sms as i32)),
    ("kernel_exec_timeout", NO),
    ("integrated", NO),
    ("can_map_host_memory", YES),
    ("compute_mode", NO),
    ("maximum_texture1d_width", Is(131_072)),
    ("maximum_texture2d_width", Is(131_072)),
    ("maximum_texture2d_height", Is(65_536)),
    ("maximum_texture3d_width", Is(16_384)),
    ("maximum_texture3d_height", Is(16_384)),
    ("maximum_texture3d_depth", Is(16_384)),
    ("maximum_texture2d_layered_width", Is(32_768)),
    ("maximum_texture2d_layered_height", Is(32_768)),
    ("maximum_texture2d_layered_layers", Is(2048)),
    ("surface_alignment", Is(512)),
    ("concurrent_kernels", YES),
    ("ecc_enabled", NO),
    ("pci_bus_id", Is(PCI_BUS)),
    ("pci_device_id", Is(PCI_DEVICE)),
    ("tcc_driver", NO),
    ("memory_clock_rate", Is(1_600_000)),
    ("global_memory_bus_width", Is(128)),
    ("l2_cache_size", Is(4 << 20)),
    ("max_threads_per_multiprocessor", Of(|c| c.capability.limits().threads as i32)),
    ("async_engine_count", YES),
    ("unified_addressing", YES),
    ("maximum_texture1d_layered_width", Is(32_768)),
    ("maximum_texture1d_layered_layers", Is(2048)),
    ("can_tex2d_gather", YES),
    ("maximum_texture2d_gather_width", Is(32_768)),
    ("maximum_texture2d_gather_height", Is(32_768)),
    ("maximum_texture3d_width_alternate", Is(8192)),
    ("maximum_texture3d_height_alternate", Is(8192)),
    ("maximum_texture3d_depth_alternate", Is(32_768)),
    ("pci_domain_id", Is(PCI_DOMAIN)),
    ("texture_pitch_alignment", Is(32)),
    ("maximum_texturecubemap_width", Is(32_768)),
    ("maximum_texturecubemap_layered_width", Is(32_768)),
    ("maximum_texturecubemap_layered_layers", Is(2046)),
    ("maximum_surface1d_width", Is(32_768)),
    ("maximum_surface2d_width", Is(131_072)),
    ("maximum_surface2d_height", Is(65_536)),
    ("maximum_surface3d_width", Is(16_384)),
    ("maximum_surface3d_height", Is(16_384)),
    ("maximum_surface3d_depth", Is(16_384)),
    ("maximum_surface1d_layered_width", Is(32_768)),
    ("maximum_surface1d_layered_layers", Is(2048)),
    ("maximum_surface2d_layered_width", Is(32_768)),
    ("maximum_surface2d_layered_height", Is(32_768)),
    ("maximum_surface2d_layered_layers", Is(2048)),
    ("maximum_surfacecubemap_width", Is(32_768)),
    ("maximum_surfacecubemap_layered_width", Is(32_768)),
    ("maximum_surfacecubemap_layered_layers", Is(2046)),
    ("maximum_texture1d_linear_width", Is(1 << 28)),
    ("maximum_texture2d_linear_width", Is(131_072)),
    ("maximum_texture2d_linear_height", Is(65_000)),
    ("maximum_texture2d_linear_pitch", Is(2_097_120)),
    ("maximum_texture2d_mipmapped_width", Is(32_768)),
    ("maximum_texture2d_mipmapped_height", Is(32_768)),
    ("compute_capability_major", Of(|c| c.capability.major as i32)),
    ("compute_capability_minor", Of(|c| c.capability.minor as i32)),
    ("maximum_texture1d_mipmapped_width", Is(32_768)),
    ("stream_priorities_supported", YES),
    ("global_l1_cache_supported", YES),
    ("local_l1_cache_supported", YES),
    ("max_shared_memory_per_multiprocessor", Of(|c| c.capability.limits().shared as i32)),
    ("max_registers_per_multiprocessor", Of(|c| c.capability.limits().registers as i32)),
    ("managed_memory", YES),
    ("multi_gpu_board", NO),
    ("multi_gpu_board_group_id", NO),
    ("host_native_atomic_supported", NO),
    ("single_to_double_precision_perf_ratio", Of(|c| c.capability.limits().double_ratio as i32)),
    ("pageable_memory_access", Of(|_| i32::from(!crate::environment::isolated()))),
    ("concurrent_managed_access", YES),
    ("compute_preemption_supported", YES),
    ("can_use_host_pointer_for_registered_mem", YES),
    ("can_use_stream_mem_ops_v1", YES),
    ("can_use_64_bit_stream_mem_ops_v1", YES),
    ("can_use_stream_wait_value_nor_v1", YES),
    ("cooperative_launch", YES),
    ("cooperative_multi_device_launch", NO),
    ("max_shared_memory_per_block_optin", Of(|c| c.capability.limits().shared_optin as i32)),
    ("can_flush_remote_writes", YES),
    ("host_register_supported", YES),
    ("pageable_memory_access_uses_host_page_tables", Of(|_| i32::from(!crate::environment::isolated()))),
    ("direct_managed_mem_access_from_host", NO),
    ("virtual_memory_management_supported", YES),
    ("handle_type_posix_file_descriptor_supported", YES),
    ("handle_type_win32_handle_supported", NO),
    ("handle_type_win32_kmt_handle_supported", NO),
    ("max_blocks_per_multiprocessor", Of(|c| c.capability.limits().ctas as i32)),
    ("generic_compression_supported", NO),
    ("max_persisting_l2_cache_size", NO),
    ("max_access_policy_window_size", NO),
    ("gpu_direct_rdma_with_cuda_vmm_supported", NO),
    ("reserved_shared_memory_per_block", Of(|c| c.capability.limits().shared_reserved as i32)),
    ("sparse_cuda_array_supported", NO),
    ("read_only_host_register_supported", YES),
    ("timeline_semaphore_interop_supported", NO),
    ("memory_pools_supported", YES),
    ("gpu_direct_rdma_supported", NO),
    ("gpu_direct_rdma_flush_writes_options", NO),
    ("gpu_direct_rdma_writes_ordering", NO),
    // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    ("mempool_supported_handle_types", Is(1)),
    ("cluster_launch", Of(|c| i32::from(c.capability.major >= 9))),
    ("deferred_mapping_cuda_array_supported", NO),
    ("can_use_64_bit_stream_mem_ops", YES),
    ("can_use_stream_wait_value_nor", YES),
    ("dma_buf_supported", NO),
    ("ipc_event_supported", YES),
    ("mem_sync_domain_count", YES),
    ("tensor_map_access_supported", NO),
    ("handle_type_fabric_supported", NO),
    ("unified_function_pointers", NO),
    ("numa_config", NO),
    ("numa_id", Is(-1)),
    ("multicast_supported", NO),
    ("mps_enabled", NO),
    ("host_numa_id", Is(0)),
    ("d3d12_cig_supported", NO),
    ("mem_decompress_algorithm_mask", NO),
    ("mem_decompress_maximum_length", NO),
    ("vulkan_cig_supported", NO),
    ("gpu_pci_device_id", NO),
    ("gpu_pci_subsystem_id", NO),
    ("host_numa_virtual_memory_management_supported", YES),
    ("host_numa_memory_pools_supported", YES),
    ("host_numa_multinode_ipc_supported", NO),
    ("host_memory_pools_supported", YES),
    ("host_virtual_memory_management_supported", YES),
    ("host_alloc_dma_buf_supported", NO),
    ("only_partial_host_native_atomic_supported", NO),
    ("atomic_reduction_supported", NO),
    ("locality_domain_count", YES),
];

/// Returns the value of attribute `number`; `None` when no attribute has this number.
pub fn value(config: &DeviceConfig, number: i32) -> Option<i32> {
    let (_, value) = VALUES.get(usize::try_from(number.checked_sub(FIRST)?).ok()?)?;
    Some(match value {
        Is(value) => *value,
        Of(function) => function(config),
    })
}

/// Returns the name of attribute `number`, in lower case.
pub fn name(number: i32) -> Option<&'static str> {
    let row = VALUES.get(usize::try_from(number.checked_sub(FIRST)?).ok()?)?;
    Some(row.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceConfig;

    /// The numbers of the rows equal the attribute numbers in `cuda.h`. If a row were missing or
    /// duplicated, all later rows would have wrong numbers.
    #[test]
    fn rows_stand_at_their_numbers() {
        for (number, expected) in [
            (1, "max_threads_per_block"),
            (10, "warp_size"),
            (16, "multiprocessor_count"),
            (33, "pci_bus_id"),
            (41, "unified_addressing"),
            (50, "pci_domain_id"),
            (75, "compute_capability_major"),
            (83, "managed_memory"),
            (95, "cooperative_launch"),
            (97, "max_shared_memory_per_block_optin"),
            (106, "max_blocks_per_multiprocessor"),
            (111, "reserved_shared_memory_per_block"),
            (115, "memory_pools_supported"),
            (120, "cluster_launch"),
            (126, "mem_sync_domain_count"),
            (131, "numa_id"),
            (143, "host_numa_multinode_ipc_supported"),
            (149, "locality_domain_count"),
        ] {
            assert_eq!(name(number), Some(expected));
        }
        assert_eq!(LAST, 149);
    }

    /// The expected values come from the CUDA programming guide's table of technical specifications per compute
    /// capability.
    #[test]
    fn values_follow_the_capability() {
        // The columns are threads, blocks, shared memory, opt-in limit, reserved bytes, ratio of f32 to f64, and
        // clusters.
        const NUMBERS: [i32; 7] = [39, 106, 81, 97, 111, 87, 120];
        const KIB: i32 = 1024;
        for (capability, wanted) in [
            (75, [1024, 16, 64 * KIB, 64 * KIB, 0, 32, 0]),
            (80, [2048, 32, 164 * KIB, 163 * KIB, KIB, 2, 0]),
            (86, [1536, 16, 100 * KIB, 99 * KIB, KIB, 32, 0]),
            (89, [1536, 24, 100 * KIB, 99 * KIB, KIB, 64, 0]),
            (90, [2048, 32, 228 * KIB, 227 * KIB, KIB, 2, 1]),
            (120, [1536, 24, 100 * KIB, 99 * KIB, KIB, 64, 1]),
        ] {
            let config = DeviceConfig {
                capability: crate::device_config::Capability::from_number(capability),
                ..DeviceConfig::from_env()
            };
            let have = NUMBERS.map(|number| value(&config, number));
            assert_eq!(have, wanted.map(Some), "{capability}");
            assert_eq!(value(&config, 75), Some(capability as i32 / 10));
            assert_eq!(value(&config, 76), Some(capability as i32 % 10));
        }
    }

    #[test]
    fn values_follow_the_configuration() {
        let config = DeviceConfig::from_env();
        assert_eq!(value(&config, 39), Some(1536));
        assert_eq!(value(&config, 81), Some(102_400));
        assert_eq!(value(&config, 97), Some(101_376));
        assert_eq!(value(&config, 0), None);
        assert_eq!(value(&config, 150), None);
        assert_eq!(value(&config, i32::MIN), None);
    }
}
