//! Implements the entry points that load modules and return their functions and variables.

use std::ffi::{c_uint, c_void};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use margay::{Error, Symbol};

use crate::convert::{OptOut, Out, Text};
use crate::dump;
use crate::errors::code_of;
use crate::guard::Call;
use crate::handles::{ModuleObject, current, module_function_handle, modules};
use crate::images::Images;
use crate::jit_options::JitOptions;
use crate::result::{CuResult, Served};
use crate::types::{CUfunction, CUjit_option, CUmodule};

pub(crate) fn module_load(_: &Call, module: Out<CUmodule>, path: Text) -> Served {
    let context = current()?;
    context.status()?;
    let bytes = read_file(&path.0)?;
    let images = Images::of(&bytes)?;
    module.set(load(&images, &JitOptions::none())?);
    Ok(())
}

/// Reads the file of an image, which can have up to [`margay::input::MAX_FILE`] bytes.
pub(crate) fn read_file(path: &str) -> Result<Vec<u8>, CuResult> {
    margay::input::read_image(Path::new(path)).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => CuResult::FILE_NOT_FOUND,
        ErrorKind::FileTooLarge | ErrorKind::InvalidData | ErrorKind::InvalidInput => {
            CuResult::INVALID_IMAGE
        }
        ErrorKind::OutOfMemory => CuResult::OUT_OF_MEMORY,
        _ => CuResult::OPERATING_SYSTEM,
    })
}

pub(crate) fn module_load_data(_: &Call, module: Out<CUmodule>, image: *const c_void) -> Served {
    module.set(load_at(image, &JitOptions::none())?);
    Ok(())
}

pub(crate) fn module_load_fat_binary(
    call: &Call,
    module: Out<CUmodule>,
    image: *const c_void,
) -> Served {
    module_load_data(call, module, image)
}

pub(crate) fn module_load_data_ex(
    _: &Call,
    module: Out<CUmodule>,
    image: *const c_void,
    count: c_uint,
    options: *mut CUjit_option,
    values: *mut *mut c_void,
) -> Served {
    // SAFETY: the caller guarantees that the option arrays are valid.
    let options = unsafe { JitOptions::read(count, options, values) }?;
    module.set(load_at(image, &options)?);
    Ok(())
}

/// Loads the image at an address into the current context.
pub(crate) fn load_at(image: *const c_void, options: &JitOptions) -> Result<CUmodule, CuResult> {
    current()?.status()?;
    // SAFETY: the caller guarantees the image; it is used during this call only.
    let images = unsafe { Images::at(image) }?;
    load(&images, options)
}

fn load(images: &Images<'_>, options: &JitOptions) -> Result<CUmodule, CuResult> {
    let context = current()?;
    let load_options = options.load_options(context.device().compute_capability());
    let start = Instant::now();
    let loaded = context.load_module(images.image(), &load_options);
    let seconds = start.elapsed().as_secs_f32();
    dump::image("cuModuleLoad", images, load_options.capability, || {
        let kernels = loaded.as_ref()?.kernels();
        Ok(kernels
            .iter()
            .map(|kernel| kernel.name().to_owned())
            .collect())
    });
    match loaded {
        Ok(module) => {
            options.write_back(module.log(), "", seconds);
            let object = Arc::new(ModuleObject::new(module, images.is_wrapped()));
            let handle = modules().insert(object).ok_or(CuResult::OUT_OF_MEMORY)?;
            Ok(CUmodule(handle))
        }
        Err(error) => Err(load_failed(error, options, seconds)),
    }
}

/// Writes the reason why a load failed to the caller's error log, or passes it to
/// [`crate::errors::report`] if the caller has none. An error about an image without PTX goes to
/// both. Returns the result code of the error.
pub(crate) fn load_failed(error: Error, options: &JitOptions, seconds: f32) -> CuResult {
    let text = match &error {
        Error::InvalidPtx { log } => log.clone(),
        other => other.to_string(),
    };
    options.write_back("", &text, seconds);
    if matches!(error, Error::NoBinary(_)) {
        // The error also goes to standard error, because programs that request a log rarely show the log to the user.
        return error.into();
    }
    match options.has_error_log() {
        true => code_of(&error),
        false => error.into(),
    }
}

pub(crate) fn module_unload(call: &Call, handle: CUmodule) -> Served {
    let object = modules().get(handle.0).ok_or_else(|| call.bad_handle())?;
    if object.library.is_some() {
        // A library's module is unloaded together with its library.
        return Err(CuResult::NOT_PERMITTED);
    }
    current()?;
    modules().remove(handle.0);
    object.forget_functions();
    Ok(object.module.unload()?)
}

pub(crate) fn module_get_function(
    _: &Call,
    function: Out<CUfunction>,
    module: Arc<ModuleObject>,
    name: Text,
) -> Served {
    function.set(module_function_handle(&module, &name.0)?);
    Ok(())
}

pub(crate) fn module_get_function_count(
    _: &Call,
    count: Out<c_uint>,
    module: Arc<ModuleObject>,
) -> Served {
    count.set(module.module.kernels().len() as c_uint);
    Ok(())
}

pub(crate) fn module_enumerate_functions(
    _: &Call,
    out: *mut CUfunction,
    room: c_uint,
    module: Arc<ModuleObject>,
) -> Served {
    if out.is_null() || room == 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    let kernels = module.module.kernels();
    for (index, kernel) in kernels.iter().take(room as usize).enumerate() {
        let handle = module_function_handle(&module, kernel.name())?;
        // SAFETY: the caller guarantees memory for `room` elements.
        unsafe { out.add(index).write(handle) };
    }
    Ok(())
}

pub(crate) fn module_get_global(
    _: &Call,
    address: OptOut<u64>,
    bytes: OptOut<usize>,
    module: Arc<ModuleObject>,
    name: Text,
) -> Served {
    give_symbol(&address, &bytes, || Ok(module.module.global(&name.0)?))
}

/// Writes a variable's address and size. At least one of the outputs must not be null.
pub(crate) fn give_symbol(
    address: &OptOut<u64>,
    bytes: &OptOut<usize>,
    find: impl FnOnce() -> Result<Symbol, CuResult>,
) -> Served {
    if !address.is_wanted() && !bytes.is_wanted() {
        return Err(CuResult::INVALID_VALUE);
    }
    let symbol = find()?;
    address.set(symbol.ptr.address());
    bytes.set(symbol.size as usize);
    Ok(())
}
