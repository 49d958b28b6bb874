//! Kernel launches.
//!
//! Arguments arrive in one of two forms: as one pointer for each parameter, or as a packed buffer
//! (`extra`). In the first form, the sizes of the arguments are known only from the kernel's
//! declaration.

use std::ffi::{c_uint, c_void};

use margay::{Device, Dim3, Event, Kernel, LaunchConfig, Params, Stream};

use crate::convert::{In, read_array};
use crate::guard::Call;
use crate::handles::{Function, events, stream};
use crate::result::{CuResult, Served};
use crate::types::{CUlaunchAttribute, CUlaunchAttributeValue, CUlaunchConfig};

/// The key that ends the list `extra` of a launch. The two constants below are the other keys: the
/// packed buffer and its size.
const EXTRA_END: usize = 0;
const EXTRA_POINTER: usize = 1;
const EXTRA_SIZE: usize = 2;
/// The maximum number of pairs in `extra`.
const MAX_EXTRA: usize = 16;

/// This constant and the four below are the numbers of the launch attributes that have an effect.
/// Other attributes are hints and have none.
const COOPERATIVE: c_uint = 2;
const PRIORITY: c_uint = 8;
const CLUSTER_DIMENSION: c_uint = 4;
const PROGRAMMATIC_EVENT: c_uint = 7;
const LAUNCH_COMPLETION_EVENT: c_uint = 12;

#[expect(
    clippy::too_many_arguments,
    reason = "the entry point has as many parameters"
)]
pub(crate) fn launch_kernel(
    _: &Call,
    function: Function,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: Stream,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Served {
    let config = config(
        [grid_x, grid_y, grid_z],
        [block_x, block_y, block_z],
        shared,
    );
    launch(&function, &stream, config, params, extra)
}

#[expect(
    clippy::too_many_arguments,
    reason = "the entry point has as many parameters"
)]
pub(crate) fn launch_cooperative_kernel(
    _: &Call,
    function: Function,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: Stream,
    params: *mut *mut c_void,
) -> Served {
    let config = config(
        [grid_x, grid_y, grid_z],
        [block_x, block_y, block_z],
        shared,
    );
    let config = config.with_cooperative();
    launch(&function, &stream, config, params, std::ptr::null_mut())
}

pub(crate) fn launch_kernel_ex(
    call: &Call,
    given: In<CUlaunchConfig>,
    function: Function,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Served {
    let stream = stream(given.0.stream, call)?;
    let (config, completion) = read_config(&given.0)?;
    launch(&function, &stream, config, params, extra)?;
    match completion {
        Some(event) => Ok(event.record(&stream)?),
        None => Ok(()),
    }
}

/// Converts the launch configuration that the program passes to a query of occupancy. An event in
/// the attributes of the configuration has no effect.
pub(crate) fn launch_config(given: &CUlaunchConfig) -> Result<LaunchConfig, CuResult> {
    read_config(given).map(|(config, _)| config)
}

/// Converts the launch configuration that the program passes. Returns it with the event to record
/// after the launch, if the attributes contain an event.
fn read_config(given: &CUlaunchConfig) -> Result<(LaunchConfig, Option<Event>), CuResult> {
    let mut config = config(given.grid_dim, given.block_dim, given.shared_mem_bytes);
    // SAFETY: the caller guarantees as many attributes as the count says.
    let attributes = unsafe { read_array(given.attrs.cast_const(), given.num_attrs as usize) }?;
    let mut completion = None;
    for attribute in &attributes {
        apply(attribute, &mut config, &mut completion)?;
    }
    Ok((config, completion))
}

fn apply(
    attribute: &CUlaunchAttribute,
    config: &mut LaunchConfig,
    completion: &mut Option<Event>,
) -> Served {
    let value = &attribute.value;
    match attribute.id {
        COOPERATIVE => config.cooperative = word(value, 0) != 0,
        PRIORITY => config.priority = Some(word(value, 0).cast_signed()),
        CLUSTER_DIMENSION => {
            let cluster = [0, 1, 2].map(|index| word(value, index));
            if cluster.contains(&0) {
                return Err(CuResult::INVALID_VALUE);
            }
            config.cluster = Some(dim(cluster));
        }
        PROGRAMMATIC_EVENT | LAUNCH_COMPLETION_EVENT => {
            let handle = word(value, 0) as usize | (word(value, 1) as usize) << 32;
            *completion = Some(events().get(handle).ok_or(CuResult::INVALID_HANDLE)?);
        }
        _ => {}
    }
    Ok(())
}

fn word(value: &CUlaunchAttributeValue, index: usize) -> u32 {
    let bytes = &value.bytes[index * 4..index * 4 + 4];
    bytes
        .iter()
        .rev()
        .fold(0, |word, byte| word << 8 | u32::from(*byte))
}

fn dim([x, y, z]: [u32; 3]) -> Dim3 {
    Dim3::new(x, y, z)
}

/// Returns the launch configuration with this grid, this block and `shared` bytes of dynamic shared
/// memory.
pub(crate) fn config(grid: [u32; 3], block: [u32; 3], shared: u32) -> LaunchConfig {
    LaunchConfig::new(dim(grid), dim(block)).with_shared(shared)
}

/// The number that NVIDIA's runtime calls `cudaErrorInvalidConfiguration`. The driver API does not
/// define this number; NVIDIA's runtime returns it to the program unchanged.
const INVALID_CONFIGURATION: CuResult = CuResult(9);
/// The device attribute that limits the number of threads in a block. The two constants below are
/// the attributes that limit the block dimensions and the grid dimensions.
const MAX_THREADS: i32 = 1;
const MAX_BLOCK: [i32; 3] = [2, 3, 4];
const MAX_GRID: [i32; 3] = [5, 6, 7];

/// A grid dimension that every device accepts. The two constants below are the block dimensions and
/// the number of threads in a block that every device accepts.
const USUAL_GRID: u32 = 65_535;
const USUAL_BLOCK: [u32; 3] = [1024, 1024, 64];
const USUAL_THREADS: u64 = 1024;

/// Returns whether the grid and block dimensions are so small that every device accepts them; in
/// this case, no device attribute must be queried.
fn is_usual(config: &LaunchConfig) -> bool {
    let within = |extent: u32, limit: u32| (1..=limit).contains(&extent);
    let block = config.block.to_array().into_iter().zip(USUAL_BLOCK);
    let mut grid = config.grid.to_array().into_iter();
    grid.all(|extent| within(extent, USUAL_GRID))
        && { block }.all(|(extent, limit)| within(extent, limit))
        && config.block.count() <= USUAL_THREADS
}

/// Returns an error if the grid or block dimensions exceed the limits of `device`.
///
/// # Errors
/// Returns `INVALID_VALUE` for invalid dimensions, but `INVALID_CONFIGURATION` for kernels that NVIDIA's runtime
/// loaded.
pub(crate) fn check_extents(function: &Function, device: &Device, config: &LaunchConfig) -> Served {
    if is_usual(config) {
        return Ok(());
    }
    let within = |extent: u32, attribute: i32| {
        let limit = device.attribute(attribute).unwrap_or(i32::MAX);
        extent > 0 && i64::from(extent) <= i64::from(limit)
    };
    let all = |extents: Dim3, limits: [i32; 3]| {
        let mut pairs = extents.to_array().into_iter().zip(limits);
        pairs.all(|(extent, limit)| within(extent, limit))
    };
    let threads = u32::try_from(config.block.count()).unwrap_or(u32::MAX);
    let good =
        all(config.grid, MAX_GRID) && all(config.block, MAX_BLOCK) && within(threads, MAX_THREADS);
    match good {
        true => Ok(()),
        false if function.is_of_runtime() => Err(INVALID_CONFIGURATION),
        false => Err(CuResult::INVALID_VALUE),
    }
}

fn launch(
    function: &Function,
    stream: &Stream,
    config: LaunchConfig,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Served {
    check_extents(function, &stream.context().device(), &config)?;
    let kernel = &*function.in_context(stream.context())?;
    // SAFETY: the caller guarantees that the arguments are valid.
    let packed = unsafe { pack_arguments(kernel, params, extra) }?;
    Ok(stream.launch_packed(kernel, config, packed)?)
}

/// Returns the packed arguments of a launch, which the caller passes in `params` or in `extra`.
///
/// # Errors
/// Returns `INVALID_VALUE` in each of these cases: the caller passes both, the caller passes neither and the kernel has
/// parameters, or an argument pointer or the list `extra` is invalid.
///
/// # Safety
/// `params` must be null or contain a valid pointer for each parameter. `extra` must be null or a
/// list as CUDA documents it.
pub(crate) unsafe fn pack_arguments(
    kernel: &Kernel,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result<Params, CuResult> {
    match (params.is_null(), extra.is_null()) {
        (_, _) if kernel.params().is_empty() && extra.is_null() => Ok(kernel.empty_params()),
        (false, false) => Err(CuResult::INVALID_VALUE),
        // SAFETY: the caller guarantees a valid pointer for each parameter.
        (false, true) => unsafe { gather(kernel, params) },
        // SAFETY: the caller guarantees a valid list.
        (true, false) => unsafe { from_extra(kernel, extra) },
        (true, true) => Err(CuResult::INVALID_VALUE),
    }
}

/// Returns packed arguments: for each parameter of the kernel, copies the argument from its pointer
/// in `params`.
///
/// # Safety
/// For each parameter, `params` must contain a pointer that is valid for reads of the parameter's
/// size.
unsafe fn gather(kernel: &Kernel, params: *mut *mut c_void) -> Result<Params, CuResult> {
    let mut packed = kernel.empty_params();
    for (index, param) in kernel.params().iter().enumerate() {
        // SAFETY: there are as many pointers as parameters.
        let source = unsafe { params.add(index).read_unaligned() }.cast::<u8>();
        let (offset, size) = (param.offset as usize, param.size as usize);
        let place = packed
            .bytes_mut()
            .get_mut(offset..offset + size)
            .ok_or(CuResult::UNKNOWN)?;
        if source.is_null() {
            return Err(CuResult::INVALID_VALUE);
        }
        // SAFETY: the pointer is valid for the parameter's size, and `place` is part of a new buffer.
        unsafe { std::ptr::copy_nonoverlapping(source, place.as_mut_ptr(), size) };
    }
    Ok(packed)
}

/// Returns a copy of the packed arguments that the list `extra` describes.
///
/// # Safety
/// `extra` must be a terminated list of keys and values, and the buffer must be as long as the list
/// states.
unsafe fn from_extra(kernel: &Kernel, extra: *mut *mut c_void) -> Result<Params, CuResult> {
    let (mut start, mut len) = (std::ptr::null::<u8>(), None);
    for pair in 0..MAX_EXTRA {
        // SAFETY: the list has not ended before this pair.
        let key = unsafe { extra.add(2 * pair).read_unaligned() } as usize;
        if key == EXTRA_END {
            break;
        }
        // SAFETY: a value follows each key except the terminator.
        let value = unsafe { extra.add(2 * pair + 1).read_unaligned() };
        match key {
            EXTRA_POINTER => start = value.cast_const().cast(),
            EXTRA_SIZE if value.is_null() => return Err(CuResult::INVALID_VALUE),
            // SAFETY: the value is a pointer to the size.
            EXTRA_SIZE => len = Some(unsafe { value.cast::<usize>().read_unaligned() }),
            _ => return Err(CuResult::INVALID_VALUE),
        }
    }
    let len = len.ok_or(CuResult::INVALID_VALUE)?;
    let needed = kernel
        .params()
        .last()
        .map_or(0, |p| p.offset as usize + p.size as usize);
    if len < needed || (start.is_null() && len > 0) {
        return Err(CuResult::INVALID_VALUE);
    }
    let mut packed = kernel.empty_params();
    let place = packed.bytes_mut();
    let used = len.min(place.len());
    // SAFETY: the buffer has `len` bytes, the destination at least `used`.
    unsafe { std::ptr::copy_nonoverlapping(start, place.as_mut_ptr(), used) };
    Ok(packed)
}

/// Launches a kernel with `bytes`, the packed arguments.
pub(crate) fn launch_with_bytes(
    function: &Function,
    stream: &Stream,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    bytes: &[u8],
) -> Served {
    let config = config(grid, block, shared);
    check_extents(function, &stream.context().device(), &config)?;
    let kernel = function.in_context(stream.context())?;
    let mut packed = kernel.empty_params();
    let place = packed.bytes_mut();
    let used = bytes.len().min(place.len());
    place[..used].copy_from_slice(&bytes[..used]);
    Ok(stream.launch_packed(&kernel, config, packed)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_extents_are_those_that_fit_everywhere() {
        let usual = |grid, block| is_usual(&config(grid, block, 0));
        assert!(usual([1, 1, 1], [1, 1, 1]));
        assert!(usual([65_535; 3], [1024, 1, 1]));
        assert!(usual([1, 1, 1], [4, 4, 64]));
        assert!(
            !usual([65_536, 1, 1], [1, 1, 1]),
            "only some devices take it"
        );
        assert!(!usual([1, 0, 1], [1, 1, 1]));
        assert!(!usual([1, 1, 1], [1, 1, 65]));
        assert!(!usual([1, 1, 1], [1025, 1, 1]));
        assert!(!usual([1, 1, 1], [64, 17, 1]));
    }

    #[test]
    fn words_of_an_attribute() {
        let mut value = CUlaunchAttributeValue { bytes: [0; 64] };
        value.bytes[4..8].copy_from_slice(&0x0102_0304u32.to_le_bytes());
        assert_eq!(word(&value, 0), 0);
        assert_eq!(word(&value, 1), 0x0102_0304);
    }
}
