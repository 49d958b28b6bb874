//! Handles of arrays, textures and surfaces.
//!
//! The runtime chooses the handles of texture and surface objects, because kernels receive these handles. This module
//! keeps the descriptors from which the objects were created.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use margay::Context;
use margay::checks::CallStack;
use margay::texture::{
    Array, MipmappedArray, SurfaceObject, SurfaceReference, TextureObject, TextureReference,
};
use parking_lot::{Mutex, RwLock};

use crate::convert::FromAbi;
use crate::guard::Call;
use crate::handle_table::HandleTable;
use crate::result::CuResult;
use crate::types::*;

/// An array, and whether it is a level of a mipmapped array.
pub(crate) struct ArrayObject {
    pub(crate) array: Array,
    pub(crate) is_level: bool,
}

/// A mipmapped array with the handles of its levels.
pub(crate) struct MipmappedObject {
    pub(crate) array: MipmappedArray,
    levels: Mutex<HashMap<u32, CUarray>>,
}

/// The resource that is bound to a texture reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Binding {
    Nothing,
    Array(CUarray),
    Mipmapped(CUmipmappedArray),
    /// Linear memory: the requested address, the aligned base address, and the number of bytes from the base.
    Linear {
        asked: u64,
        base: u64,
        bytes: u64,
    },
    Rows(u64),
}

/// The state of a texture reference, as the driver API returns it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TexRefState {
    pub(crate) binding: Binding,
    pub(crate) format: CUarray_format,
    pub(crate) channels: u32,
    pub(crate) desc: CUDA_TEXTURE_DESC,
}

/// A texture reference.
pub(crate) struct TexRefObject {
    pub(crate) reference: TextureReference,
    /// The id of the module that declares the reference, or `None` if `cuTexRefCreate` created it.
    pub(crate) module: Option<u64>,
    pub(crate) state: Mutex<TexRefState>,
}

/// A surface reference.
pub(crate) struct SurfRefObject {
    pub(crate) reference: SurfaceReference,
    pub(crate) module: u64,
    pub(crate) array: Mutex<CUarray>,
}

/// A texture object with the descriptors from which it was created.
#[derive(Clone)]
pub(crate) struct TexObject {
    pub(crate) object: TextureObject,
    pub(crate) resource: CUDA_RESOURCE_DESC,
    pub(crate) texture: CUDA_TEXTURE_DESC,
    pub(crate) view: Option<CUDA_RESOURCE_VIEW_DESC>,
    /// In checking runs, the stack of the call that created the object.
    pub(crate) call: Option<CallStack>,
}

/// A surface object with the descriptor from which it was created.
#[derive(Clone)]
pub(crate) struct SurfObject {
    pub(crate) object: SurfaceObject,
    pub(crate) resource: CUDA_RESOURCE_DESC,
    /// In checking runs, the stack of the call that created the object.
    pub(crate) call: Option<CallStack>,
}

tables! {
    /// Returns the table of arrays.
    arrays: Arc<ArrayObject> = 20;
    /// Returns the table of mipmapped arrays.
    mipmapped_arrays: Arc<MipmappedObject> = 21;
    /// Returns the table of texture references.
    texrefs: Arc<TexRefObject> = 22;
    /// Returns the table of surface references.
    surfrefs: Arc<SurfRefObject> = 23;
}

/// Returns all texture objects, by the handle that kernels receive.
pub(crate) fn tex_objects() -> &'static RwLock<HashMap<u64, TexObject>> {
    static TABLE: OnceLock<RwLock<HashMap<u64, TexObject>>> = OnceLock::new();
    TABLE.get_or_init(RwLock::default)
}

/// Returns all surface objects, by the handle that kernels receive.
pub(crate) fn surf_objects() -> &'static RwLock<HashMap<u64, SurfObject>> {
    static TABLE: OnceLock<RwLock<HashMap<u64, SurfObject>>> = OnceLock::new();
    TABLE.get_or_init(RwLock::default)
}

impl MipmappedObject {
    pub(crate) fn new(array: MipmappedArray) -> MipmappedObject {
        MipmappedObject {
            array,
            levels: Mutex::default(),
        }
    }

    /// Returns the handle of the level `number`. Every call for the same level returns the same
    /// handle.
    pub(crate) fn level(&self, number: u32) -> Result<CUarray, CuResult> {
        let mut levels = self.levels.lock();
        if let Some(&known) = levels.get(&number) {
            return Ok(known);
        }
        let array = self.array.level(number)?;
        let object = Arc::new(ArrayObject {
            array,
            is_level: true,
        });
        let handle = arrays().insert(object).ok_or(CuResult::OUT_OF_MEMORY)?;
        levels.insert(number, CUarray(handle));
        Ok(CUarray(handle))
    }

    /// Invalidates the handles of the array's levels.
    pub(crate) fn forget_levels(&self) {
        for (_, handle) in self.levels.lock().drain() {
            arrays().remove(handle.0);
        }
    }
}

macro_rules! from_table {
    ($($raw:ident => $object:ty, $table:expr;)*) => {$(
        impl FromAbi<$raw> for $object {
            unsafe fn from_abi(raw: $raw, call: &Call) -> Result<$object, CuResult> {
                $table.get(raw.0).ok_or_else(|| call.bad_handle())
            }
        }
    )*};
}

from_table! {
    CUarray => Arc<ArrayObject>, arrays();
    CUmipmappedArray => Arc<MipmappedObject>, mipmapped_arrays();
    CUtexref => Arc<TexRefObject>, texrefs();
    CUsurfref => Arc<SurfRefObject>, surfrefs();
}

/// Invalidates the handles of a module's texture and surface references.
pub(crate) fn forget_references_of(module: u64) {
    texrefs().remove_where(|object| object.module == Some(module));
    surfrefs().remove_where(|object| object.module == module);
}

/// Invalidates the handles of the arrays, textures and surfaces that a context owns.
pub(crate) fn forget_textures_of(context: &Context) {
    arrays().remove_where(|object| object.array.context() == context);
    mipmapped_arrays().remove_where(|object| object.array.context() == context);
    texrefs().remove_where(|object| object.reference.context() == context);
    surfrefs().remove_where(|object| object.reference.context() == context);
    tex_objects()
        .write()
        .retain(|_, known| known.object.context() != context);
    surf_objects()
        .write()
        .retain(|_, known| known.object.context() != context);
}
