//! Implements the linker (`cuLink*`), which joins PTX inputs into an image that can be loaded.

use std::ffi::{c_char, c_uint, c_void};
use std::sync::Arc;
use std::time::Instant;

use margay::container::{ImageKind, calls_device_runtime, detect, join, select_ptx};
use margay::{Image, Library, Runtime};
use parking_lot::Mutex;

use super::module::{load_failed, read_file};
use crate::convert::{OptOut, Out, Text};
use crate::guard::Call;
use crate::handles::{LinkObject, current, links};
use crate::jit_options::JitOptions;
use crate::readable;
use crate::result::{CuResult, Served};
use crate::types::{CUjit_option, CUlinkState};

/// `CU_JIT_INPUT_PTX`.
const INPUT_PTX: c_uint = 1;
/// `CU_JIT_INPUT_CUBIN`, `CU_JIT_INPUT_FATBINARY`, `CU_JIT_INPUT_OBJECT` and `CU_JIT_INPUT_LIBRARY`: containers that
/// can contain PTX.
const INPUT_CONTAINERS: [c_uint; 4] = [0, 2, 3, 4];

pub(crate) fn link_create(
    _: &Call,
    count: c_uint,
    options: *mut CUjit_option,
    values: *mut *mut c_void,
    out: Out<CUlinkState>,
) -> Served {
    current()?;
    let object = Arc::new(LinkObject {
        // SAFETY: the caller guarantees that the option arrays are valid.
        options: unsafe { JitOptions::read(count, options, values) }?,
        state: Mutex::default(),
    });
    let handle = links().insert(object).ok_or(CuResult::OUT_OF_MEMORY)?;
    out.set(CUlinkState(handle));
    Ok(())
}

#[expect(
    clippy::too_many_arguments,
    reason = "the entry point has as many parameters"
)]
pub(crate) fn link_add_data(
    _: &Call,
    link: Arc<LinkObject>,
    kind: c_uint,
    data: *mut c_void,
    size: usize,
    _name: *const c_char,
    count: c_uint,
    options: *mut CUjit_option,
    values: *mut *mut c_void,
) -> Served {
    // SAFETY: the caller guarantees that the option arrays are valid. The options of an input have no effect.
    unsafe { JitOptions::read(count, options, values) }?;
    if data.is_null() || size == 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the caller guarantees `size` bytes, which are used during this call only.
    let bytes = unsafe { readable::bytes(data.cast::<u8>(), size) }?;
    add(&link, kind, bytes)
}

pub(crate) fn link_add_file(
    _: &Call,
    link: Arc<LinkObject>,
    kind: c_uint,
    path: Text,
    count: c_uint,
    options: *mut CUjit_option,
    values: *mut *mut c_void,
) -> Served {
    // SAFETY: the caller guarantees that the option arrays are valid. The options of an input have no effect.
    unsafe { JitOptions::read(count, options, values) }?;
    add(&link, kind, &read_file(&path.0)?)
}

fn add(link: &LinkObject, kind: c_uint, bytes: &[u8]) -> Served {
    let mut state = link.state.lock();
    if state.output.is_some() {
        return Err(CuResult::INVALID_VALUE);
    }
    match kind {
        INPUT_PTX if detect(bytes) != Some(ImageKind::Text) => {
            return Err(CuResult::INVALID_PTX);
        }
        kind if kind == INPUT_PTX || INPUT_CONTAINERS.contains(&kind) => {
            let (major, minor) = Runtime::global()?.device(0)?.compute_capability();
            let selection = select_ptx(&[bytes], (major * 10 + minor) as u32)?;
            if let Some(entry) = selection.device_runtime {
                state.device_runtime = Some(entry.text()?.text.into_bytes());
            }
            let texts = selection.texts.into_iter();
            state.texts.extend(texts.map(|text| text.text.into_bytes()));
        }
        _ => return Err(CuResult::INVALID_VALUE),
    }
    Ok(())
}

pub(crate) fn link_complete(
    _: &Call,
    link: Arc<LinkObject>,
    out: Out<*mut c_void>,
    size: OptOut<usize>,
) -> Served {
    let mut state = link.state.lock();
    if state.texts.is_empty() {
        return Err(CuResult::INVALID_VALUE);
    }
    if state.output.is_none() {
        if state.texts.iter().any(|text| calls_device_runtime(text)) {
            let runtime = state.device_runtime.take();
            state.texts.extend(runtime);
        }
        check(&link.options, &state.texts)?;
        state.output = Some(join(&state.texts).into_boxed_slice());
    }
    let output = state.output.as_deref().unwrap_or_default();
    out.set(output.as_ptr().cast_mut().cast());
    size.set(output.len());
    Ok(())
}

/// Loads the inputs as a library and unloads it again, so that `cuLinkComplete` returns an error if
/// the inputs contain one.
fn check(options: &JitOptions, texts: &[Vec<u8>]) -> Served {
    let runtime = Runtime::global()?;
    let load_options = options.load_options(runtime.device(0)?.compute_capability());
    let parts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let start = Instant::now();
    let image = match parts.as_slice() {
        [one] => Image::Bytes(one),
        many => Image::Linked(many),
    };
    let loaded = Library::load(runtime, image, &load_options);
    let seconds = start.elapsed().as_secs_f32();
    match loaded {
        Ok(library) => {
            options.write_back("", "", seconds);
            Ok(library.unload()?)
        }
        Err(error) => Err(load_failed(error, options, seconds)),
    }
}

pub(crate) fn link_destroy(_: &Call, link: CUlinkState) -> Served {
    let removed = links().remove(link.0);
    removed.map(|_| ()).ok_or(CuResult::INVALID_HANDLE)
}
