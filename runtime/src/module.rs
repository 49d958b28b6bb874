//! Modules and libraries: loaded images, their kernels and variables.
//!
//! A [`Library`] is an image that belongs to no context; each context that uses it gets a
//! [`Module`] of its own, made on first use. Invariant: a kernel keeps its module's code and
//! variables alive, a stale handle answers an error and never runs freed code.

use crate::buffer::DevicePtr;
use crate::context::Context;
use crate::engine::{Image, KernelInfo, LoadOptions, VariableInfo};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::runtime::Runtime;

/// A variable of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    /// Where it lives.
    pub ptr: DevicePtr,
    /// Its size in bytes.
    pub size: u64,
    /// It is constant memory.
    pub constant: bool,
    /// It is managed memory.
    pub managed: bool,
}

/// An image loaded into a context. Clones are the same module.
#[derive(Debug, Clone)]
pub struct Module {
    context: Context,
}

impl Module {
    /// The context it is loaded in.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Unique in the process, never reused.
    pub fn id(&self) -> u64 {
        0
    }

    /// Warnings and notes of the compilation.
    pub fn log(&self) -> &str {
        ""
    }

    /// A kernel by its (mangled) name.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        Err(Error::NotFound(name.into()))
    }

    /// All kernels, in the image's order.
    pub fn kernels(&self) -> Vec<Kernel> {
        Vec::new()
    }

    /// A variable by its (mangled) name.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn global(&self, name: &str) -> Result<Symbol> {
        Err(Error::NotFound(name.into()))
    }

    /// Unloads: frees the variables once the work submitted so far is complete.
    pub fn unload(&self) -> Result<()> {
        Ok(())
    }
}

/// An image that belongs to no context (`CUlibrary`). Clones are the same library.
#[derive(Clone)]
pub struct Library {
    runtime: Runtime,
}

impl Library {
    /// Reads an image.
    pub fn load(runtime: &Runtime, image: Image<'_>, options: &LoadOptions) -> Result<Library> {
        let _ = (runtime, image, options);
        Err(Error::unsupported("libraries"))
    }

    /// The runtime it belongs to.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Its kernels.
    pub fn kernels(&self) -> &[KernelInfo] {
        &[]
    }

    /// Its variables.
    pub fn variables(&self) -> &[VariableInfo] {
        &[]
    }

    /// Its module in a context, made on first use.
    pub fn module(&self, context: &Context) -> Result<Module> {
        let _ = context;
        Err(Error::unsupported("libraries"))
    }

    /// A managed variable; needs no context (`cuLibraryGetManaged`).
    pub fn managed(&self, name: &str) -> Result<Symbol> {
        Err(Error::NotFound(name.into()))
    }

    /// Unloads its modules.
    pub fn unload(&self) -> Result<()> {
        Ok(())
    }
}
