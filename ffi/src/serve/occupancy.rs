//! Implements the entry points for occupancy, which is the number of blocks or clusters that can be
//! active at the same time.

use std::ffi::{c_int, c_uint};

use super::launch::launch_config;
use crate::callback;
use crate::convert::{In, OptOut, Out};
use crate::guard::Call;
use crate::handles::Function;
use crate::result::{CuResult, Served};
use crate::types::{CUlaunchConfig, CUoccupancyB2DSize};

/// `CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE`, the only flag of the occupancy functions.
const ALL_FLAGS: c_uint = 1;

fn positive(number: c_int) -> Result<u32, CuResult> {
    match u32::try_from(number) {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(CuResult::INVALID_VALUE),
    }
}

fn check_flags(flags: c_uint) -> Served {
    match flags & !ALL_FLAGS {
        0 => Ok(()),
        _ => Err(CuResult::INVALID_VALUE),
    }
}

pub(crate) fn occupancy_max_active_blocks_per_multiprocessor(
    _: &Call,
    blocks: Out<c_int>,
    function: Function,
    block_size: c_int,
    dynamic_shared: usize,
) -> Served {
    let block = positive(block_size)?;
    let kernel = function.here()?;
    blocks.set(kernel.max_active_blocks(block, dynamic_shared as u64)? as c_int);
    Ok(())
}

pub(crate) fn occupancy_max_active_blocks_per_multiprocessor_with_flags(
    call: &Call,
    blocks: Out<c_int>,
    function: Function,
    block_size: c_int,
    dynamic_shared: usize,
    flags: c_uint,
) -> Served {
    check_flags(flags)?;
    occupancy_max_active_blocks_per_multiprocessor(
        call,
        blocks,
        function,
        block_size,
        dynamic_shared,
    )
}

pub(crate) fn occupancy_max_potential_block_size(
    _: &Call,
    min_grid: OptOut<c_int>,
    block: OptOut<c_int>,
    function: Function,
    shared_of: CUoccupancyB2DSize,
    dynamic_shared: usize,
    limit: c_int,
) -> Served {
    if !min_grid.is_wanted() || !block.is_wanted() {
        return Err(CuResult::INVALID_VALUE);
    }
    let limit = u32::try_from(limit).map_err(|_| CuResult::INVALID_VALUE)?;
    let mut shared = |block: u32| match shared_of {
        // SAFETY: the caller passed a function that takes a block size.
        Some(function) => unsafe { callback::of_block_size(function, block as c_int) as u64 },
        None => dynamic_shared as u64,
    };
    let (grid, size) = function
        .here()?
        .max_potential_block_size(&mut shared, limit)?;
    min_grid.set(grid as c_int);
    block.set(size as c_int);
    Ok(())
}

pub(crate) fn occupancy_max_potential_block_size_with_flags(
    call: &Call,
    min_grid: OptOut<c_int>,
    block: OptOut<c_int>,
    function: Function,
    shared_of: CUoccupancyB2DSize,
    dynamic_shared: usize,
    limit: c_int,
    flags: c_uint,
) -> Served {
    check_flags(flags)?;
    occupancy_max_potential_block_size(
        call,
        min_grid,
        block,
        function,
        shared_of,
        dynamic_shared,
        limit,
    )
}

pub(crate) fn occupancy_available_dynamic_smem_per_block(
    _: &Call,
    bytes: Out<usize>,
    function: Function,
    blocks: c_int,
    block_size: c_int,
) -> Served {
    let (blocks, block) = (positive(blocks)?, positive(block_size)?);
    let kernel = function.here()?;
    bytes.set(kernel.available_dynamic_shared(blocks, block)? as usize);
    Ok(())
}

pub(crate) fn occupancy_max_potential_cluster_size(
    _: &Call,
    size: Out<c_int>,
    function: Function,
    given: In<CUlaunchConfig>,
) -> Served {
    let config = launch_config(&given.0)?;
    size.set(function.here()?.max_potential_cluster_size(&config)? as c_int);
    Ok(())
}

pub(crate) fn occupancy_max_active_clusters(
    _: &Call,
    clusters: Out<c_int>,
    function: Function,
    given: In<CUlaunchConfig>,
) -> Served {
    let config = launch_config(&given.0)?;
    clusters.set(function.here()?.max_active_clusters(&config)? as c_int);
    Ok(())
}
