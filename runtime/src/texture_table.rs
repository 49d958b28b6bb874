//! What handles name: the table that kernels look in.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use margay_ops::texture::{Image, Plan, ReferenceKind, Sampler};
use parking_lot::Mutex;

/// Texels, and the memory that they are in.
pub(crate) struct Texels {
    /// Where and what.
    pub(crate) image: Image,
    /// The array's memory; buffers of the program stay its own business.
    pub(crate) _storage: Option<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Texels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Texels({:?})", self.image)
    }
}

/// A texture and how its commonest fetches go.
#[derive(Debug, Clone)]
pub(crate) struct Texture {
    /// Its texels, if any are bound to it.
    pub(crate) texels: Option<Arc<Texels>>,
    /// How they are looked up.
    pub(crate) sampler: Sampler,
    /// `None`: all fetches go the long way.
    pub(crate) plan: Option<Arc<Plan>>,
}

/// What a handle names.
#[derive(Debug, Clone)]
pub(crate) enum Bound {
    /// A texture.
    Texture(Texture),
    /// A sampler alone.
    Sampler(Sampler),
    /// A surface, and its texels if any are bound to it.
    Surface(Option<Arc<Texels>>),
}

impl Bound {
    /// A texture of texels, if any are bound to it, and a sampler.
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

    /// What it is to PTX.
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
    /// And the context that it belongs to.
    bound: Option<(Bound, u64)>,
}

/// Everything that handles name at one time.
#[derive(Debug, Clone, Default)]
pub struct TextureTable {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// Slot and generation of a handle.
fn parts(handle: u64) -> Option<(usize, u32)> {
    let slot = (handle as u32).checked_sub(1)?;
    Some((slot as usize, (handle >> 32) as u32))
}

impl TextureTable {
    /// What a handle names.
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

/// The table of a machine. It is copied when it is changed while a launch looks in it.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    table: Mutex<Arc<TextureTable>>,
}

impl Registry {
    /// The table as it is now.
    pub(crate) fn now(&self) -> Arc<TextureTable> {
        Arc::clone(&self.table.lock())
    }

    /// Enters something of a context's; its handle.
    pub(crate) fn insert(&self, bound: Bound, context: u64) -> u64 {
        Arc::make_mut(&mut self.table.lock()).insert(bound, context)
    }

    /// Gives a handle another meaning.
    pub(crate) fn replace(&self, handle: u64, bound: Bound) {
        Arc::make_mut(&mut self.table.lock()).replace(handle, bound);
    }

    /// Makes a handle stale; false when it is already.
    pub(crate) fn remove(&self, handle: u64) -> bool {
        Arc::make_mut(&mut self.table.lock()).remove(handle)
    }

    /// Makes all handles of a context's stale.
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
