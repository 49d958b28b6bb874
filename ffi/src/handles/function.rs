//! The objects that handles of modules, libraries and functions denote.
//!
//! `CUfunction` and `CUkernel` share one kind of handle, because programs may pass a handle of either type where the
//! other type is expected. A `CUfunction` belongs to a module, which is loaded into one context. A `CUkernel` belongs
//! to a library. When an entry point receives a kernel, this module looks up the kernel's function in the context that
//! the call uses.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::{Arc, Weak};

use margay::{Context, Kernel, Library, Module, ParamInfo};
use parking_lot::Mutex;

use super::{current, libraries};
use crate::convert::FromAbi;
use crate::guard::Call;
use crate::handle_table::HandleTable;
use crate::result::CuResult;
use crate::types::{CUfunction, CUkernel, CUlibrary, CUmodule};

/// A loaded module with the handles of its functions.
pub(crate) struct ModuleObject {
    pub(crate) module: Module,
    /// The library that contains this module, if any.
    pub(crate) library: Option<Weak<LibraryObject>>,
    /// Whether NVIDIA's runtime loaded the module.
    of_runtime: bool,
    functions: Mutex<HashMap<String, usize>>,
}

impl ModuleObject {
    pub(crate) fn new(module: Module, of_runtime: bool) -> ModuleObject {
        ModuleObject {
            module,
            library: None,
            of_runtime,
            functions: Mutex::default(),
        }
    }

    fn of_library(module: Module, library: &Arc<LibraryObject>) -> ModuleObject {
        ModuleObject {
            library: Some(Arc::downgrade(library)),
            ..ModuleObject::new(module, library.of_runtime)
        }
    }

    /// Returns whether NVIDIA's runtime loaded the module.
    pub(crate) fn is_of_runtime(&self) -> bool {
        self.of_runtime
    }

    /// Invalidates the handles of the module's functions and of its texture and surface references.
    pub(crate) fn forget_functions(&self) {
        for (_, handle) in self.functions.lock().drain() {
            functions().remove(handle);
        }
        super::texture::forget_references_of(self.module.id());
    }
}

/// A library with the handles of its kernels and modules.
pub(crate) struct LibraryObject {
    pub(crate) library: Library,
    /// Whether NVIDIA's runtime loaded the library.
    of_runtime: bool,
    kernels: Mutex<HashMap<String, usize>>,
    /// The handle of the library's module in each context, by context ID.
    pub(crate) modules: Mutex<HashMap<u64, CUmodule>>,
}

impl LibraryObject {
    pub(crate) fn new(library: Library, of_runtime: bool) -> LibraryObject {
        LibraryObject {
            library,
            of_runtime,
            kernels: Mutex::default(),
            modules: Mutex::default(),
        }
    }

    /// Returns whether NVIDIA's runtime loaded the library.
    pub(crate) fn is_of_runtime(&self) -> bool {
        self.of_runtime
    }

    /// Invalidates the handles of the library's kernels and modules.
    pub(crate) fn forget_handles(&self) {
        for (_, handle) in self.kernels.lock().drain() {
            functions().remove(handle);
        }
        for (_, handle) in self.modules.lock().drain() {
            if let Some(module) = super::modules().remove(handle.0) {
                module.forget_functions();
            }
        }
    }
}

/// The object that a `CUfunction` or `CUkernel` handle denotes.
pub(crate) enum FunctionObject {
    /// A kernel that is loaded into a context.
    Loaded {
        kernel: Kernel,
        module: Weak<ModuleObject>,
        name: Arc<CStr>,
    },
    /// A kernel of a library, which is loaded into the context that uses it.
    OfLibrary {
        library: Arc<LibraryObject>,
        name: Arc<CStr>,
    },
}

/// A function or kernel, as passed to entry points.
pub(crate) type Function = Arc<FunctionObject>;

/// Returns the table of all functions and kernels.
pub(crate) fn functions() -> &'static HandleTable<Function> {
    static TABLE: HandleTable<Function> = HandleTable::new(5);
    &TABLE
}

impl FunctionObject {
    /// Returns the loaded kernel that this object denotes. If it is a kernel of a library, loads
    /// the library's module into `context` if necessary, and returns the kernel of this module.
    /// Every other kernel was loaded into a context together with its module, so `context` is not
    /// used.
    pub(crate) fn in_context(&self, context: &Context) -> Result<Cow<'_, Kernel>, CuResult> {
        match self {
            FunctionObject::Loaded { kernel, .. } => Ok(Cow::Borrowed(kernel)),
            FunctionObject::OfLibrary { library, .. } => {
                let module = library.library.module(context)?;
                Ok(Cow::Owned(module.kernel(self.text()?)?))
            }
        }
    }

    /// Returns the loaded kernel that this object denotes. If it is a kernel of a library, returns
    /// the kernel in the current context, or in the primary context of device 0 if no context is
    /// current. Every other kernel was loaded into a context together with its module.
    pub(crate) fn here(&self) -> Result<Kernel, CuResult> {
        match self {
            FunctionObject::Loaded { kernel, .. } => Ok(kernel.clone()),
            FunctionObject::OfLibrary { library, .. } => {
                let context = match current() {
                    Ok(context) => context,
                    Err(_) => library.library.runtime().device(0)?.primary_context()?,
                };
                Ok(self.in_context(&context)?.into_owned())
            }
        }
    }

    /// Returns whether NVIDIA's runtime loaded the function or kernel.
    pub(crate) fn is_of_runtime(&self) -> bool {
        match self {
            FunctionObject::Loaded { module, .. } => {
                module.upgrade().is_some_and(|module| module.of_runtime)
            }
            FunctionObject::OfLibrary { library, .. } => library.of_runtime,
        }
    }

    /// Returns the mangled name of the kernel. The text stays in memory as long as the handle is
    /// valid.
    pub(crate) fn name(&self) -> &CStr {
        match self {
            FunctionObject::Loaded { name, .. } | FunctionObject::OfLibrary { name, .. } => name,
        }
    }

    fn text(&self) -> Result<&str, CuResult> {
        self.name().to_str().map_err(|_| CuResult::UNKNOWN)
    }

    /// Returns the kernel's parameters. No context needs to be current.
    pub(crate) fn params(&self) -> Result<Vec<ParamInfo>, CuResult> {
        match self {
            FunctionObject::Loaded { kernel, .. } => Ok(kernel.params().to_vec()),
            FunctionObject::OfLibrary { library, .. } => {
                let name = self.text()?;
                let info = library.library.kernel_info(name);
                Ok(info.ok_or(CuResult::NOT_FOUND)?.params.clone())
            }
        }
    }
}

impl FromAbi<CUfunction> for Function {
    unsafe fn from_abi(raw: CUfunction, call: &Call) -> Result<Function, CuResult> {
        functions().get(raw.0).ok_or_else(|| call.bad_handle())
    }
}

impl FromAbi<CUkernel> for Function {
    unsafe fn from_abi(raw: CUkernel, call: &Call) -> Result<Function, CuResult> {
        functions().get(raw.0).ok_or_else(|| call.bad_handle())
    }
}

fn c_name(name: &str) -> Result<Arc<CStr>, CuResult> {
    let owned = CString::new(name).map_err(|_| CuResult::INVALID_VALUE)?;
    Ok(owned.into())
}

/// Returns the handle of the module's kernel called `name`. Every call for the same kernel returns
/// the same handle.
pub(crate) fn module_function_handle(
    object: &Arc<ModuleObject>,
    name: &str,
) -> Result<CUfunction, CuResult> {
    let mut known = object.functions.lock();
    if let Some(handle) = known.get(name) {
        return Ok(CUfunction(*handle));
    }
    let function = FunctionObject::Loaded {
        kernel: object.module.kernel(name)?,
        module: Arc::downgrade(object),
        name: c_name(name)?,
    };
    let handle = functions()
        .insert(Arc::new(function))
        .ok_or(CuResult::OUT_OF_MEMORY)?;
    known.insert(name.to_owned(), handle);
    Ok(CUfunction(handle))
}

/// Returns a handle of a native kernel, which belongs to no module. Every call for the same kernel returns the same handle
/// until the context of the kernel is reset.
pub(crate) fn native_handle(kernel: &Kernel) -> Option<CUfunction> {
    let same = |known: &Function| matches!(&**known, FunctionObject::Loaded { kernel: held, .. } if held == kernel);
    if let Some(known) = functions().find(same) {
        return Some(CUfunction(known));
    }
    // A name can contain a NUL.
    let name = kernel.name().replace('\0', " ");
    let function = FunctionObject::Loaded {
        kernel: kernel.clone(),
        module: Weak::new(),
        name: c_name(&name).ok()?,
    };
    functions().insert(Arc::new(function)).map(CUfunction)
}

/// Invalidates the handles of a context's native kernels.
pub(super) fn forget_natives_of(context: &Context) {
    functions().remove_where(|known| match &**known {
        FunctionObject::Loaded { kernel, module, .. } => {
            module.strong_count() == 0 && kernel.module().context() == context
        }
        FunctionObject::OfLibrary { .. } => false,
    });
}

/// Returns the handle of the library's kernel called `name`. Every call for the same kernel returns
/// the same handle.
pub(crate) fn kernel_handle(object: &Arc<LibraryObject>, name: &str) -> Result<CUkernel, CuResult> {
    let mut known = object.kernels.lock();
    if let Some(handle) = known.get(name) {
        return Ok(CUkernel(*handle));
    }
    if object.library.kernel_info(name).is_none() {
        return Err(CuResult::NOT_FOUND);
    }
    let function = FunctionObject::OfLibrary {
        library: object.clone(),
        name: c_name(name)?,
    };
    let handle = functions()
        .insert(Arc::new(function))
        .ok_or(CuResult::OUT_OF_MEMORY)?;
    known.insert(name.to_owned(), handle);
    Ok(CUkernel(handle))
}

/// Returns the handle of the module as which the library is loaded into `context`. The handle stays
/// the same until the context is reset.
pub(crate) fn library_module_handle(
    object: &Arc<LibraryObject>,
    context: &Context,
) -> Result<CUmodule, CuResult> {
    let module = object.library.module(context)?;
    let mut known = object.modules.lock();
    if let Some(handle) = known.get(&context.id()) {
        let same = |held: &Arc<ModuleObject>| held.module.id() == module.id();
        if super::modules().get(handle.0).as_ref().is_some_and(same) {
            return Ok(*handle);
        }
    }
    let held = Arc::new(ModuleObject::of_library(module, object));
    let handle = super::modules()
        .insert(held)
        .ok_or(CuResult::OUT_OF_MEMORY)?;
    known.insert(context.id(), CUmodule(handle));
    Ok(CUmodule(handle))
}

/// Returns the handle of a library; `None` if the library is unloaded.
pub(crate) fn library_handle(object: &Arc<LibraryObject>) -> Option<CUlibrary> {
    libraries()
        .find(|held| Arc::ptr_eq(held, object))
        .map(CUlibrary)
}
