//! Implements the entry points for libraries and their kernels.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Arc;
use std::time::Instant;

use margay::{Device, Library, Runtime};

use super::context::preference;
use super::function::{LAST_CACHE_CONFIG, function_attribute, param_info};
use super::module::{give_symbol, load_failed, read_file};
use crate::convert::{OptOut, Out, Text};
use crate::dump;
use crate::guard::Call;
use crate::handles::{
    Function, FunctionObject, LibraryObject, current, functions, kernel_handle, libraries,
    library_handle, library_module_handle, module_function_handle, modules,
};
use crate::images::Images;
use crate::jit_options::{JitOptions, check_library_options};
use crate::result::{CuResult, Served};
use crate::types::{CUfunction, CUjit_option, CUkernel, CUlibrary, CUlibraryOption, CUmodule};

#[expect(
    clippy::too_many_arguments,
    reason = "the entry point has as many parameters"
)]
pub(crate) fn library_load_data(
    _: &Call,
    out: Out<CUlibrary>,
    code: *const c_void,
    options: *mut CUjit_option,
    values: *mut *mut c_void,
    count: c_uint,
    library_options: *mut CUlibraryOption,
    _library_values: *mut *mut c_void,
    library_count: c_uint,
) -> Served {
    // SAFETY: the caller guarantees that the option arrays are valid.
    let options = unsafe { JitOptions::read(count, options, values) }?;
    // SAFETY: the caller guarantees that the option arrays are valid.
    unsafe { check_library_options(library_count, library_options) }?;
    // SAFETY: the caller guarantees the image.
    let images = unsafe { Images::at(code) }?;
    out.set(load(&images, &options)?);
    Ok(())
}

#[expect(
    clippy::too_many_arguments,
    reason = "the entry point has as many parameters"
)]
pub(crate) fn library_load_from_file(
    _: &Call,
    out: Out<CUlibrary>,
    path: Text,
    options: *mut CUjit_option,
    values: *mut *mut c_void,
    count: c_uint,
    library_options: *mut CUlibraryOption,
    _library_values: *mut *mut c_void,
    library_count: c_uint,
) -> Served {
    // SAFETY: the caller guarantees that the option arrays are valid.
    let options = unsafe { JitOptions::read(count, options, values) }?;
    // SAFETY: the caller guarantees that the option arrays are valid.
    unsafe { check_library_options(library_count, library_options) }?;
    let bytes = read_file(&path.0)?;
    out.set(load(&Images::of(&bytes)?, &options)?);
    Ok(())
}

fn load(images: &Images<'_>, options: &JitOptions) -> Result<CUlibrary, CuResult> {
    let runtime = Runtime::global()?;
    let load_options = options.load_options(runtime.device(0)?.compute_capability());
    let start = Instant::now();
    let loaded = Library::load(runtime, images.image(), &load_options);
    let seconds = start.elapsed().as_secs_f32();
    dump::image("cuLibraryLoad", images, load_options.capability, || {
        let kernels = loaded.as_ref()?.kernels();
        Ok(kernels.iter().map(|kernel| kernel.name.clone()).collect())
    });
    match loaded {
        Ok(library) => {
            options.write_back("", "", seconds);
            let object = Arc::new(LibraryObject::new(library, images.is_wrapped()));
            let handle = libraries().insert(object);
            handle.map(CUlibrary).ok_or(CuResult::OUT_OF_MEMORY)
        }
        Err(error) => Err(load_failed(error, options, seconds)),
    }
}

pub(crate) fn library_unload(call: &Call, library: CUlibrary) -> Served {
    let object = libraries()
        .remove(library.0)
        .ok_or_else(|| call.bad_handle())?;
    object.forget_handles();
    Ok(object.library.unload()?)
}

pub(crate) fn library_get_kernel(
    _: &Call,
    kernel: Out<CUkernel>,
    library: Arc<LibraryObject>,
    name: Text,
) -> Served {
    kernel.set(kernel_handle(&library, &name.0)?);
    Ok(())
}

pub(crate) fn library_get_kernel_count(
    _: &Call,
    count: Out<c_uint>,
    library: Arc<LibraryObject>,
) -> Served {
    count.set(library.library.kernels().len() as c_uint);
    Ok(())
}

pub(crate) fn library_enumerate_kernels(
    _: &Call,
    out: *mut CUkernel,
    room: c_uint,
    library: Arc<LibraryObject>,
) -> Served {
    if out.is_null() || room == 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    let kernels = library.library.kernels().iter();
    for (index, info) in kernels.take(room as usize).enumerate() {
        let handle = kernel_handle(&library, &info.name)?;
        // SAFETY: the caller guarantees memory for `room` elements.
        unsafe { out.add(index).write(handle) };
    }
    Ok(())
}

pub(crate) fn library_get_module(
    _: &Call,
    module: Out<CUmodule>,
    library: Arc<LibraryObject>,
) -> Served {
    module.set(library_module_handle(&library, &current()?)?);
    Ok(())
}

pub(crate) fn library_get_global(
    _: &Call,
    address: OptOut<u64>,
    bytes: OptOut<usize>,
    library: Arc<LibraryObject>,
    name: Text,
) -> Served {
    let context = current()?;
    give_symbol(&address, &bytes, || {
        Ok(library.library.module(&context)?.global(&name.0)?)
    })
}

pub(crate) fn library_get_managed(
    _: &Call,
    address: OptOut<u64>,
    bytes: OptOut<usize>,
    library: Arc<LibraryObject>,
    name: Text,
) -> Served {
    give_symbol(&address, &bytes, || Ok(library.library.managed(&name.0)?))
}

pub(crate) fn kernel_get_function(_: &Call, out: Out<CUfunction>, kernel: CUkernel) -> Served {
    let function = functions().get(kernel.0).ok_or(CuResult::INVALID_HANDLE)?;
    let FunctionObject::OfLibrary { library, name } = &*function else {
        // A function that is passed as a kernel is returned unchanged.
        out.set(CUfunction(kernel.0));
        return Ok(());
    };
    let module = library_module_handle(library, &current()?)?;
    let module = modules().get(module.0).ok_or(CuResult::INVALID_HANDLE)?;
    let name = name.to_str().map_err(|_| CuResult::UNKNOWN)?;
    out.set(module_function_handle(&module, name)?);
    Ok(())
}

pub(crate) fn kernel_get_library(_: &Call, out: Out<CUlibrary>, kernel: Function) -> Served {
    let library = match &*kernel {
        FunctionObject::OfLibrary { library, .. } => Some(library.clone()),
        FunctionObject::Loaded { module, .. } => module
            .upgrade()
            .and_then(|module| module.library.clone()?.upgrade()),
    };
    let handle = library.as_ref().and_then(library_handle);
    out.set(handle.ok_or(CuResult::INVALID_HANDLE)?);
    Ok(())
}

/// Returns an attribute of the kernel in the current context, or in the primary context of device 0 if no context is
/// current. The device argument must be valid, but does not affect the result.
pub(crate) fn kernel_get_attribute(
    _: &Call,
    value: Out<c_int>,
    attribute: c_uint,
    kernel: Function,
    _device: Device,
) -> Served {
    let attribute = function_attribute(attribute)?;
    value.set(kernel.here()?.attribute(attribute)?);
    Ok(())
}

pub(crate) fn kernel_set_attribute(
    _: &Call,
    attribute: c_uint,
    value: c_int,
    kernel: Function,
    _device: Device,
) -> Served {
    let attribute = function_attribute(attribute)?;
    Ok(kernel.here()?.set_attribute(attribute, value)?)
}

pub(crate) fn kernel_set_cache_config(
    _: &Call,
    kernel: Function,
    config: c_uint,
    _device: Device,
) -> Served {
    let config = preference(config, LAST_CACHE_CONFIG)?;
    Ok(kernel.here()?.set_cache_config(config)?)
}

pub(crate) fn kernel_get_name(_: &Call, name: Out<*const c_char>, kernel: Function) -> Served {
    name.set(kernel.name().as_ptr());
    Ok(())
}

pub(crate) fn kernel_get_param_info(
    _: &Call,
    kernel: Function,
    index: usize,
    offset: Out<usize>,
    size: OptOut<usize>,
) -> Served {
    param_info(&kernel, index, &offset, &size)
}

pub(crate) fn kernel_get_param_count(_: &Call, kernel: Function, count: Out<usize>) -> Served {
    count.set(kernel.params()?.len());
    Ok(())
}
