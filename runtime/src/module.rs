//! Modules: images loaded into a context, with their kernels and variables.
//!
//! Invariant: a kernel keeps its module's code alive. The variables of a module exist until [`Module::unload`], until
//! the last reference to the module is dropped, or until the context is reset or destroyed. After a call of
//! [`Module::unload`], launches return an error, and so do searches for kernels and variables.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::context::Context;
use crate::engine::{
    BoundImage, Engine, Image, KernelInfo, LoadOptions, LoadedImage, VariableInfo,
};
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::names::Names;
use crate::observe::HostEvent;
use crate::pointer::{DevicePtr, PointerKind};
use crate::process::next_id;
use crate::texture::{OpaqueVariable, SurfaceReference, TextureReference};

/// A variable of a module.
///
/// ```
/// let rt = margay::Runtime::new()?;
/// let module = rt.load_ptx(
///     ".version 7.0 .target sm_80 .address_size 64 .visible .global .u32 counters[4];",
/// )?;
/// assert_eq!(module.global("counters")?.size, 16);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    /// The address.
    pub ptr: DevicePtr,
    /// The size of the variable in bytes.
    pub size: u64,
    /// Whether the variable is in constant memory.
    pub constant: bool,
    /// Whether the variable is in managed memory.
    pub managed: bool,
}

/// An image loaded into a context. Clones refer to the same module.
///
/// ```
/// let rt = margay::Runtime::new()?;
/// let module = rt.load_ptx(".version 7.0 .target sm_80 .address_size 64 .visible .entry nothing() { ret; }")?;
/// let names: Vec<String> = module.kernels().iter().map(|k| k.name().to_owned()).collect();
/// assert_eq!(names, ["nothing"]);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Clone)]
pub struct Module {
    inner: Arc<Inner>,
}

struct Inner {
    id: u64,
    context: Context,
    life: u64,
    loaded: Arc<dyn LoadedImage>,
    /// Address of each variable, in the image's order.
    addresses: Vec<u64>,
    /// The addresses of the variables that are freed together with the module.
    owned: Vec<u64>,
    /// The index of each variable of opaque type, together with the variable, in ascending order of
    /// the indices.
    opaque: Vec<(usize, OpaqueVariable)>,
    kernels: Vec<Arc<Entry>>,
    names: Arc<Names>,
    unloaded: AtomicBool,
}

/// The image of a module that contains a native kernel.
struct NoImage;

impl LoadedImage for NoImage {
    fn kernels(&self) -> &[KernelInfo] {
        &[]
    }

    fn variables(&self) -> &[VariableInfo] {
        &[]
    }

    fn bind(&self, _: &[u64]) -> Result<BoundImage> {
        Err(Error::unsupported("to bind the image of a native kernel"))
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({})", self.inner.id)
    }
}

impl PartialEq for Module {
    fn eq(&self, other: &Module) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Module {}

impl Drop for Inner {
    fn drop(&mut self) {
        self.free_variables();
    }
}

impl Inner {
    fn free_variables(&self) {
        if !self.unloaded.swap(true, Ordering::AcqRel) && self.context.life() == self.life {
            free(&self.context, &self.owned);
            self.opaque
                .iter()
                .for_each(|(_, variable)| variable.destroy());
        }
    }
}

fn free(context: &Context, addresses: &[u64]) {
    for &address in addresses {
        context.free_internal(DevicePtr::new(address));
    }
}

impl Module {
    /// Binds a loaded image to addresses in `context`. `names` contains the names of the image. `fixed` contains the
    /// index and the address of each variable that is allocated elsewhere, in ascending order of
    /// the indices. Passes the loading of the module as an event to the tools that observe the
    /// runtime ([`crate::observe`]).
    pub(crate) fn bind(
        context: &Context,
        loaded: Arc<dyn LoadedImage>,
        names: Arc<Names>,
        fixed: &[(usize, u64)],
    ) -> Result<Module> {
        let mut owned = Vec::new();
        let mut opaque = Vec::new();
        let bound = Module::place(context, &loaded, fixed, &mut owned, &mut opaque);
        let (addresses, kernels) = bound.inspect_err(|_| {
            free(context, &owned);
            opaque.iter().for_each(|(_, variable)| variable.destroy());
        })?;
        let id = next_id();
        context.machine().tools.tell(|| HostEvent::LoadModule {
            module: id,
            context: context.id(),
            kernels: loaded.kernels(),
        });
        Ok(Module {
            inner: Arc::new(Inner {
                id,
                context: context.clone(),
                life: context.life(),
                loaded,
                addresses,
                owned,
                opaque,
                kernels,
                names,
                unloaded: AtomicBool::new(false),
            }),
        })
    }

    /// Returns a module whose only kernel is `entry`, the entry of the native kernels with one name.
    pub(crate) fn of_native(context: &Context, entry: &Arc<Entry>) -> Module {
        static EMPTY: OnceLock<(Arc<dyn LoadedImage>, Arc<Names>)> = OnceLock::new();
        let (loaded, names) = EMPTY.get_or_init(|| {
            let names = Names::of(&NoImage);
            (Arc::new(NoImage), Arc::new(names))
        });
        Module {
            inner: Arc::new(Inner {
                id: entry.id,
                context: context.clone(),
                life: context.life(),
                loaded: Arc::clone(loaded),
                addresses: Vec::new(),
                owned: Vec::new(),
                opaque: Vec::new(),
                kernels: vec![Arc::clone(entry)],
                names: Arc::clone(names),
                unloaded: AtomicBool::new(false),
            }),
        }
    }

    fn place(
        context: &Context,
        loaded: &Arc<dyn LoadedImage>,
        fixed: &[(usize, u64)],
        owned: &mut Vec<u64>,
        opaque: &mut Vec<(usize, OpaqueVariable)>,
    ) -> Result<(Vec<u64>, Vec<Arc<Entry>>)> {
        let mut addresses = Vec::with_capacity(loaded.variables().len());
        let fixed_at = |index| fixed.binary_search_by_key(&index, |&(at, _)| at).ok();
        for (index, variable) in loaded.variables().iter().enumerate() {
            if let Some(at) = fixed_at(index) {
                addresses.push(fixed[at].1);
                continue;
            }
            if let Some(reference) = &variable.reference {
                let made = OpaqueVariable::new(context, reference);
                addresses.push(made.handle());
                opaque.push((index, made));
                continue;
            }
            let kind = match variable.managed {
                true => PointerKind::Managed,
                false => PointerKind::Device,
            };
            let ptr = context.alloc_variable(variable.size.max(1), kind, variable.constant)?;
            let space = context.machine().memory.space();
            space.name(ptr.address(), &variable.name);
            owned.push(ptr.address());
            addresses.push(ptr.address());
        }
        let bound = loaded.bind(&addresses)?;
        for (index, bytes) in bound.initial.iter().enumerate() {
            let (Some(variable), Some(&address)) =
                (loaded.variables().get(index), addresses.get(index))
            else {
                return Err(Error::Internal("initial bytes without a variable".into()));
            };
            if bytes.len() as u64 > variable.size {
                return Err(Error::Internal(format!(
                    "{}: too many initial bytes",
                    variable.name
                )));
            }
            // A library initialises its managed variables itself; opaque variables have no contents.
            if variable.reference.is_none() && fixed_at(index).is_none() {
                context.machine().memory.write(address, bytes)?;
            }
        }
        let entries = bound.kernels.into_iter().map(Entry::new).collect();
        Ok((addresses, entries))
    }

    /// Loads a PTX text that contains a variant of the kernel `name`. The text's variables are those of this module with
    /// the same names.
    pub(crate) fn variant(&self, text: &str, name: &str) -> Result<Arc<dyn Engine>> {
        let machine = self.context().machine();
        let options = LoadOptions {
            capability: machine.config.capability.number(),
            name: Some(format!("{name}.ptx")),
            unprobed: true,
            ..LoadOptions::default()
        };
        let loaded = machine.loader.load(Image::Ptx(text), &options)?;
        let own = self.inner.loaded.variables();
        let address = |variable: &VariableInfo| {
            let found = own.iter().position(|other| other.name == variable.name);
            let address = found.and_then(|index| self.inner.addresses.get(index));
            let missing = || Error::NotFound(format!("variable {}", variable.name));
            address.copied().ok_or_else(missing)
        };
        let addresses: Vec<u64> = loaded
            .variables()
            .iter()
            .map(address)
            .collect::<Result<_>>()?;
        let bound = loaded.bind(&addresses)?.kernels;
        let found = bound.into_iter().find(|engine| engine.info().name == name);
        found.ok_or_else(|| Error::NotFound(format!("kernel {name}")))
    }

    /// Returns whether the context has not been reset or destroyed since the module was loaded.
    pub(crate) fn is_of_current_life(&self) -> bool {
        self.inner.life == self.context().life()
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.inner.context.check(self.inner.life)?;
        if self.inner.unloaded.load(Ordering::Acquire) {
            return Err(Error::InvalidHandle("the module is unloaded".into()));
        }
        Ok(())
    }

    /// Returns the context that the module is loaded into.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// Returns the module's ID, which is unique in the process and never reused.
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// Returns the warnings and other messages of the compilation.
    pub fn log(&self) -> &str {
        self.inner.loaded.log()
    }

    /// Returns the bound kernel with a (mangled) name.
    pub(crate) fn entry(&self, name: &str) -> Option<&Arc<Entry>> {
        let index = self.inner.names.kernel(name)?;
        self.inner.kernels.get(index)
    }

    /// Returns all bound kernels, in the image's order.
    pub(crate) fn entries(&self) -> &[Arc<Entry>] {
        &self.inner.kernels
    }

    /// Returns the variable with a (mangled) name.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the module has no such variable.
    pub fn global(&self, name: &str) -> Result<Symbol> {
        self.check()?;
        let symbol = |index: usize| {
            let variable = self.inner.loaded.variables().get(index)?;
            Some(Symbol {
                ptr: DevicePtr::new(*self.inner.addresses.get(index)?),
                size: variable.size,
                constant: variable.constant,
                managed: variable.managed,
            })
        };
        let found = self.inner.names.variable(name).and_then(symbol);
        found.ok_or_else(|| Error::NotFound(format!("variable {name}")))
    }

    fn opaque(&self, name: &str) -> Result<&OpaqueVariable> {
        self.check()?;
        let opaque = &self.inner.opaque;
        let index = self.inner.names.reference(name);
        let at = index.and_then(|index| opaque.binary_search_by_key(&index, |&(at, _)| at).ok());
        at.map(|at| &opaque[at].1)
            .ok_or_else(|| Error::NotFound(format!("reference {name}")))
    }

    /// Returns the texture reference (`.texref`) with a name.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the module has no such `.texref`.
    pub fn texture(&self, name: &str) -> Result<TextureReference> {
        match self.opaque(name)? {
            OpaqueVariable::Texture(reference) => Ok(reference.clone()),
            _ => Err(Error::NotFound(format!("texture {name}"))),
        }
    }

    /// Returns the surface reference (`.surfref`) with a name.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the module has no such `.surfref`.
    pub fn surface(&self, name: &str) -> Result<SurfaceReference> {
        match self.opaque(name)? {
            OpaqueVariable::Surface(reference) => Ok(reference.clone()),
            _ => Err(Error::NotFound(format!("surface {name}"))),
        }
    }

    /// Unloads the module: waits for the work submitted so far and frees the variables.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] when the module is already unloaded.
    pub fn unload(&self) -> Result<()> {
        self.inner.context.check_wait(self.inner.life)?;
        self.check()?;
        self.inner.context.settle();
        self.inner.free_variables();
        let tools = &self.inner.context.machine().tools;
        tools.tell(|| HostEvent::UnloadModule {
            module: self.inner.id,
            context: self.inner.context.id(),
        });
        Ok(())
    }
}

impl Context {
    /// Loads an image into this context.
    pub fn load_module(&self, image: Image<'_>, options: &LoadOptions) -> Result<Module> {
        self.status()?;
        self.flush_output();
        let mut options = options.clone();
        let machine = self.machine();
        if options.capability == 0 {
            options.capability = machine.config.capability.number();
        }
        let loaded = machine.loader.load(image, &options)?;
        let names = Arc::new(Names::of(&*loaded));
        Module::bind(self, loaded, names, &[])
    }
}
