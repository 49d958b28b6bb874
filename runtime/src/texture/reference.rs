//! Texture and surface references, to which the program binds texels. A reference is a variable of
//! a module, or an object that the program creates.

use std::sync::Arc;

use margay_ops::texture::{Reference, ReferenceKind, Sampler};
use parking_lot::Mutex;

use super::array::Array;
use super::object::{Resource, sampler_for, surface_texels};
use crate::context::Context;
use crate::error::Result;
use crate::texture_table::{Bound, Texels};

/// A texture reference. Clones refer to the same reference.
///
/// ```
/// use margay::texture::{Resource, Sampler, TextureReference};
///
/// let rt = margay::Runtime::new()?;
/// let texels = rt.upload(&[0.0f32, 1.0])?;
/// let address = texels.ptr().address();
/// let reference = TextureReference::new(&rt.context()?, Sampler::default());
/// reference.bind(&Resource::Linear { address, format: 0x20, channels: 1, bytes: 8 })?;
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct TextureReference {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    context: Context,
    life: u64,
    /// Handle of the reference in the machine's texture table.
    handle: u64,
    state: Mutex<ReferenceState>,
}

#[derive(Debug)]
struct ReferenceState {
    texels: Option<Arc<Texels>>,
    sampler: Sampler,
}

impl TextureReference {
    /// Creates a reference without texels and adds it to the texture table of the context's machine.
    pub fn new(context: &Context, sampler: Sampler) -> TextureReference {
        let bound = Bound::texture(None, sampler);
        let handle = context.machine().textures.insert(bound, context.id());
        TextureReference {
            inner: Arc::new(Inner {
                context: context.clone(),
                life: context.life(),
                handle,
                state: Mutex::new(ReferenceState {
                    texels: None,
                    sampler,
                }),
            }),
        }
    }

    /// Returns the handle that kernels use for the reference.
    pub fn handle(&self) -> u64 {
        self.inner.handle
    }

    /// Returns the context that owns the reference.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// Binds texels to the reference. Launches that were submitted before this call use the
    /// previous texels.
    ///
    /// # Errors
    /// [`crate::Error::InvalidValue`] if a texture cannot use the resource.
    pub fn bind(&self, resource: &Resource) -> Result<()> {
        self.check()?;
        let texels = resource.texels(&self.inner.context)?;
        self.change(|state| state.texels = Some(texels));
        Ok(())
    }

    /// Returns an error if the reference's context was destroyed or reset, or has a sticky error.
    ///
    /// # Errors
    /// [`crate::Error::ContextDestroyed`] if the context was destroyed or reset; otherwise the
    /// context's sticky error.
    pub fn check(&self) -> Result<()> {
        self.inner.context.check(self.inner.life)
    }

    /// Sets the sampler, which states how texels are addressed and filtered.
    pub fn set_sampler(&self, sampler: Sampler) {
        self.change(|state| state.sampler = sampler);
    }

    /// Returns the sampler, which states how texels are addressed and filtered.
    pub fn sampler(&self) -> Sampler {
        self.inner.state.lock().sampler
    }

    fn change(&self, work: impl FnOnce(&mut ReferenceState)) {
        let mut state = self.inner.state.lock();
        work(&mut state);
        let bound = Bound::texture(state.texels.clone(), sampler_for(state.sampler));
        let registry = &self.inner.context.machine().textures;
        registry.replace(self.inner.handle, bound);
    }

    /// Removes the reference from the machine's texture table.
    pub fn destroy(&self) {
        self.inner
            .context
            .machine()
            .textures
            .remove(self.inner.handle);
    }
}

/// A surface reference. Clones refer to the same reference.
///
/// ```
/// use margay::texture::SurfaceReference;
///
/// let rt = margay::Runtime::new()?;
/// let reference = SurfaceReference::new(&rt.context()?);
/// assert_ne!(reference.handle(), 0);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SurfaceReference {
    context: Context,
    life: u64,
    handle: u64,
}

impl SurfaceReference {
    /// Creates a reference without texels and adds it to the texture table of the context's machine.
    pub fn new(context: &Context) -> SurfaceReference {
        let bound = Bound::Surface(None);
        let handle = context.machine().textures.insert(bound, context.id());
        SurfaceReference {
            context: context.clone(),
            life: context.life(),
            handle,
        }
    }

    /// Returns the handle that kernels use for the reference.
    pub fn handle(&self) -> u64 {
        self.handle
    }

    /// Returns the context that owns the reference.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Binds an array to the reference. Launches that were submitted before this call use the
    /// previous array.
    ///
    /// # Errors
    /// [`crate::Error::InvalidValue`] for an array that was not created for surfaces.
    pub fn bind(&self, array: &Array) -> Result<()> {
        self.context.check(self.life)?;
        let texels = surface_texels(array)?;
        let bound = Bound::Surface(Some(texels));
        self.context.machine().textures.replace(self.handle, bound);
        Ok(())
    }

    /// Removes the reference from the machine's texture table.
    pub fn destroy(&self) {
        self.context.machine().textures.remove(self.handle);
    }
}

/// An opaque reference in a loaded module.
#[derive(Debug, Clone)]
pub(crate) enum OpaqueVariable {
    /// A `.texref` variable.
    Texture(TextureReference),
    /// A `.samplerref` variable, with its context and its handle.
    Sampler(Context, u64),
    /// A `.surfref` variable.
    Surface(SurfaceReference),
}

impl OpaqueVariable {
    /// Creates the variable according to its declaration in the module.
    pub(crate) fn new(context: &Context, reference: &Reference) -> OpaqueVariable {
        match reference.kind {
            ReferenceKind::Texture => {
                OpaqueVariable::Texture(TextureReference::new(context, reference.sampler()))
            }
            ReferenceKind::Sampler => {
                let bound = Bound::Sampler(reference.sampler());
                let handle = context.machine().textures.insert(bound, context.id());
                OpaqueVariable::Sampler(context.clone(), handle)
            }
            ReferenceKind::Surface => OpaqueVariable::Surface(SurfaceReference::new(context)),
        }
    }

    /// Returns the handle that kernels use for the variable.
    pub(crate) fn handle(&self) -> u64 {
        match self {
            OpaqueVariable::Texture(reference) => reference.handle(),
            OpaqueVariable::Sampler(_, handle) => *handle,
            OpaqueVariable::Surface(reference) => reference.handle(),
        }
    }

    /// Removes the variable from the machine's texture table.
    pub(crate) fn destroy(&self) {
        match self {
            OpaqueVariable::Texture(reference) => reference.destroy(),
            OpaqueVariable::Sampler(context, handle) => {
                context.machine().textures.remove(*handle);
            }
            OpaqueVariable::Surface(reference) => reference.destroy(),
        }
    }
}
