//! Libraries. A library is an image that does not belong to a context.
//!
//! Each context that uses a [`Library`] has its own [`Module`]. The first use of the library in a
//! context creates this module.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::context::Context;
use crate::engine::{Image, KernelInfo, LoadOptions, LoadedImage, VariableInfo};
use crate::error::{Error, Result};
use crate::module::{Module, Symbol};
use crate::names::Names;
use crate::pointer::{DevicePtr, PointerKind};
use crate::runtime::Runtime;

/// An image that does not belong to a context (`CUlibrary`). Clones refer to the same library.
///
/// ```
/// use margay::{Image, Library, LoadOptions};
///
/// let rt = margay::Runtime::new()?;
/// let ptx = ".version 7.0 .target sm_80 .address_size 64 .visible .entry nothing() { ret; }";
/// let library = Library::load(&rt, Image::Ptx(ptx), &LoadOptions::default())?;
/// let module = library.module(&rt.context()?)?;
/// assert!(module.kernel("nothing").is_ok());
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Clone)]
pub struct Library {
    inner: Arc<LibraryInner>,
}

struct LibraryInner {
    runtime: Runtime,
    loaded: Arc<dyn LoadedImage>,
    names: Arc<Names>,
    /// Index and address of each managed variable, in ascending order of the indices; all contexts share these
    /// variables.
    managed: Vec<(usize, u64)>,
    modules: Mutex<Vec<Module>>,
    unloaded: AtomicBool,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Library({:p})", Arc::as_ptr(&self.inner))
    }
}

impl Drop for LibraryInner {
    fn drop(&mut self) {
        self.free_managed();
    }
}

impl LibraryInner {
    fn free_managed(&self) {
        let memory = &self.runtime.machine().memory;
        for (_, address) in &self.managed {
            // Only this function frees this memory, so freeing cannot fail.
            let _ = memory.release(*address, true);
        }
    }
}

impl Library {
    /// Loads an image.
    pub fn load(runtime: &Runtime, image: Image<'_>, options: &LoadOptions) -> Result<Library> {
        crate::process::check_fork()?;
        let machine = runtime.machine();
        let mut options = options.clone();
        if options.capability == 0 {
            options.capability = machine.config.capability.number();
        }
        let loaded = machine.loader.load(image, &options)?;
        let mut inner = LibraryInner {
            runtime: runtime.clone(),
            managed: Vec::new(),
            names: Arc::new(Names::of(&*loaded)),
            loaded,
            modules: Mutex::new(Vec::new()),
            unloaded: AtomicBool::new(false),
        };
        inner.place_managed()?;
        Ok(Library {
            inner: Arc::new(inner),
        })
    }

    fn check(&self) -> Result<()> {
        crate::process::check_fork()?;
        if self.inner.unloaded.load(Ordering::Acquire) {
            return Err(Error::InvalidHandle("the library is unloaded".into()));
        }
        Ok(())
    }

    /// Returns the runtime that the library belongs to.
    pub fn runtime(&self) -> &Runtime {
        &self.inner.runtime
    }

    /// Returns the kernels.
    pub fn kernels(&self) -> &[KernelInfo] {
        self.inner.loaded.kernels()
    }

    /// Returns the properties of a kernel. `name` is the kernel's name in the PTX; names of C++
    /// kernels are mangled.
    pub fn kernel_info(&self, name: &str) -> Option<&KernelInfo> {
        self.kernels().get(self.inner.names.kernel(name)?)
    }

    /// Returns the variables.
    pub fn variables(&self) -> &[VariableInfo] {
        self.inner.loaded.variables()
    }

    /// Returns the warnings and other messages of the compilation.
    pub fn log(&self) -> &str {
        self.inner.loaded.log()
    }

    /// Returns the library's module in a context. The first call for a context creates the module.
    pub fn module(&self, context: &Context) -> Result<Module> {
        self.check()?;
        context.status()?;
        let mut modules = self.inner.modules.lock();
        modules.retain(|module| module.is_of_current_life());
        if let Some(module) = modules.iter().find(|module| module.context() == context) {
            return Ok(module.clone());
        }
        let loaded = Arc::clone(&self.inner.loaded);
        let names = Arc::clone(&self.inner.names);
        let module = Module::bind(context, loaded, names, &self.inner.managed)?;
        modules.push(module.clone());
        Ok(module)
    }

    /// Returns a managed variable; the call needs no context (`cuLibraryGetManaged`).
    ///
    /// # Errors
    /// [`Error::NotFound`] when no managed variable has this name.
    pub fn managed(&self, name: &str) -> Result<Symbol> {
        self.check()?;
        let managed = &self.inner.managed;
        let index = self.inner.names.variable(name);
        let at = index.and_then(|index| managed.binary_search_by_key(&index, |&(at, _)| at).ok());
        let symbol = |at: usize| {
            let (index, address) = managed[at];
            Symbol {
                ptr: DevicePtr::new(address),
                size: self.variables()[index].size,
                constant: false,
                managed: true,
            }
        };
        at.map(symbol)
            .ok_or_else(|| Error::NotFound(format!("managed variable {name}")))
    }

    /// Unloads the library and its modules. Later uses of the library return an error.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] when the library is already unloaded.
    pub fn unload(&self) -> Result<()> {
        self.check()?;
        self.inner.unloaded.store(true, Ordering::Release);
        for module in self.inner.modules.lock().drain(..) {
            // `unload` returns an error if the module's context has failed, was reset or was destroyed.
            let _ = module.unload();
        }
        Ok(())
    }
}

impl LibraryInner {
    /// Allocates and initialises the managed variables, which do not belong to a context.
    fn place_managed(&mut self) -> Result<()> {
        let memory = &self.runtime.machine().memory;
        let variables = self.loaded.variables();
        let managed = variables.iter().enumerate().filter(|(_, v)| v.managed);
        for (index, variable) in managed {
            let allocation = memory.allocate_zeroed(crate::mem::Request {
                size: variable.size.max(1),
                kind: PointerKind::Managed,
                context: 0,
                device: 0,
                flags: Default::default(),
                pooled: false,
                internal: true,
                constant: false,
            })?;
            self.managed.push((index, allocation.base));
        }
        if self.managed.is_empty() {
            return Ok(());
        }
        // Managed variables belong to no context, so their initial bytes cannot contain addresses of a context's
        // variables. Such addresses are null.
        let mut addresses = vec![0; variables.len()];
        for &(index, address) in &self.managed {
            addresses[index] = address;
        }
        let bound = self.loaded.bind(&addresses)?;
        for &(index, address) in &self.managed {
            let bytes = bound.initial.get(index).map_or(&[][..], Vec::as_slice);
            memory.write(address, bytes)?;
        }
        Ok(())
    }
}
