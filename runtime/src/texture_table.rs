//! The table that maps handles to textures, samplers and surfaces.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use margay_ops::texture::{Image, Plan, ReferenceKind, Sampler};
use parking_lot::Mutex;

/// The texels of an array, texture or surface, and the memory that contains them.
pub(crate) struct Texels {
    /// The layout and the format of the texels.
    pub(crate) image: Image,
    /// The owner of an array's memory, which is not freed while this value exists; `None` for
    /// memory that the program allocates and frees.
    pub(crate) _storage: Option<Arc<dyn Any + Send + Sync>>,
    /// The addresses of the texels if they are in host memory that the program has registered. The program may end the
    /// registration while a texture still refers to the texels, so each access checks this range.
    pub(crate) registered: Option<Range<u64>>,
}

impl fmt::Debug for Texels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Texels({:?})", self.image)
    }
}

/// A texture, with precomputed data (a plan) for its most common fetches.
#[derive(Debug, Clone)]
pub(crate) struct Texture {
    /// The texels, if any are bound to the texture.
    pub(crate) texels: Option<Arc<Texels>>,
    /// The sampler, which states how texels are addressed and filtered.
    pub(crate) sampler: Sampler,
    /// Precomputed data for the most common fetches. If the plan is `None`, all fetches use the
    /// general code.
    pub(crate) plan: Option<Arc<Plan>>,
}

/// The object that a handle refers to.
#[derive(Debug, Clone)]
pub(crate) enum Bound {
    /// A texture.
    Texture(Texture),
    /// A sampler without texels.
    Sampler(Sampler),
    /// A surface, with the texels that are bound to it, if any.
    Surface(Option<Arc<Texels>>),
}

impl Bound {
    /// Returns a texture with a sampler and the texels that are bound to the texture, if any.
    pub(crate) fn texture(texels: Option<Arc<Texels>>, sampler: Sampler) -> Bound {
        let plan = texels
            .as_ref()
            .and_then(|texels| Plan::of(&texels.image, &sampler));
        Bound::Texture(Texture {
            texels,
            sampler,
            plan: plan.map(Arc::new),
        })
    }

    /// Returns the kind of the object: texture, sampler or surface.
    pub(crate) fn kind(&self) -> ReferenceKind {
        match self {
            Bound::Texture(..) => ReferenceKind::Texture,
            Bound::Sampler(_) => ReferenceKind::Sampler,
            Bound::Surface(_) => ReferenceKind::Surface,
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Slot {
    generation: u32,
    /// The object that the slot contains, and the ID of the context that owns the object.
    bound: Option<(Bound, u64)>,
}

/// The object of each handle. A launch uses the table as it was when the launch was submitted.
#[derive(Debug, Clone, Default)]
pub struct TextureTable {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// Returns the two parts of a handle: the index of a slot, and a generation, which must be equal to
/// the generation of the slot.
fn parts(handle: u64) -> Option<(usize, u32)> {
    let slot = (handle as u32).checked_sub(1)?;
    Some((slot as usize, (handle >> 32) as u32))
}

impl TextureTable {
    /// Returns the object that a handle refers to; `None` if the handle is invalid.
    pub(crate) fn get(&self, handle: u64) -> Option<&Bound> {
        let (slot, generation) = parts(handle)?;
        let slot = self.slots.get(slot)?;
        let (bound, _) = slot.bound.as_ref()?;
        (slot.generation == generation).then_some(bound)
    }

    fn insert(&mut self, bound: Bound, context: u64) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.bound = Some((bound, context));
        u64::from(slot.generation) << 32 | u64::from(index + 1)
    }

    fn slot_mut(&mut self, handle: u64) -> Option<(u32, &mut Slot)> {
        let (index, generation) = parts(handle)?;
        let slot = self.slots.get_mut(index)?;
        (slot.generation == generation && slot.bound.is_some()).then_some((index as u32, slot))
    }

    fn replace(&mut self, handle: u64, bound: Bound) {
        if let Some((_, slot)) = self.slot_mut(handle)
            && let Some((known, _)) = &mut slot.bound
        {
            *known = bound;
        }
    }

    fn remove(&mut self, handle: u64) -> bool {
        let Some((index, slot)) = self.slot_mut(handle) else {
            return false;
        };
        slot.bound = None;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        true
    }

    fn remove_of(&mut self, context: u64) {
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            if slot.bound.as_ref().is_some_and(|(_, of)| *of == context) {
                slot.bound = None;
                slot.generation = slot.generation.wrapping_add(1);
                self.free.push(index as u32);
            }
        }
    }
}

/// The texture table of a machine. If a launch still uses the table, a change is made in a copy,
/// which replaces the table.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    table: Mutex<Arc<TextureTable>>,
}

impl Registry {
    /// Returns a snapshot of the present table.
    pub(crate) fn now(&self) -> Arc<TextureTable> {
        Arc::clone(&self.table.lock())
    }

    /// Adds a texture, sampler or surface that belongs to `context`, and returns its handle.
    pub(crate) fn insert(&self, bound: Bound, context: u64) -> u64 {
        Arc::make_mut(&mut self.table.lock()).insert(bound, context)
    }

    /// Makes a handle refer to `bound` instead of its present object.
    pub(crate) fn replace(&self, handle: u64, bound: Bound) {
        Arc::make_mut(&mut self.table.lock()).replace(handle, bound);
    }

    /// Removes a handle and its object from the table; returns false if the handle is already
    /// invalid.
    pub(crate) fn remove(&self, handle: u64) -> bool {
        Arc::make_mut(&mut self.table.lock()).remove(handle)
    }

    /// Removes all handles of a context, and their objects, from the table.
    pub(crate) fn remove_of(&self, context: u64) {
        let mut table = self.table.lock();
        let owns = |slot: &Slot| slot.bound.as_ref().is_some_and(|(_, of)| *of == context);
        if table.slots.iter().any(owns) {
            Arc::make_mut(&mut table).remove_of(context);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_and_invented_handles_name_nothing() {
        let registry = Registry::default();
        let first = registry.insert(Bound::Surface(None), 1);
        let before = registry.now();
        assert!(registry.remove(first));
        assert!(!registry.remove(first));
        let second = registry.insert(Bound::Sampler(Sampler::default()), 2);
        assert_ne!(first, second, "the slot is used again under another handle");
        let now = registry.now();
        for handle in [0, first, second + 1, u64::MAX, 1 << 40] {
            assert!(now.get(handle).is_none(), "{handle:#x}");
        }
        assert!(matches!(now.get(second), Some(Bound::Sampler(_))));
        assert!(before.get(first).is_some(), "a launch keeps what it saw");
        registry.remove_of(2);
        assert!(registry.now().get(second).is_none());
    }
}
