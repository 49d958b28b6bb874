//! The registry of all contexts of the process.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{Context, Inner};
use crate::machine::Machine;
use crate::mem::Allocation;

/// An entry of the registry. The entry does not keep its context alive.
struct Known {
    /// The address of the context's machine. A living context keeps its machine alive, so this address is not reused.
    machine: usize,
    context: Weak<Inner>,
}

/// All contexts. When the number of entries has doubled since the last removal, entries of dropped
/// contexts are removed.
struct Registry {
    /// The contexts by ID. IDs ascend in the order of creation.
    contexts: BTreeMap<u64, Known>,
    /// The primary contexts, by the address of the machine and the ordinal of the device.
    primaries: BTreeMap<(usize, i32), Weak<Inner>>,
    /// The number of entries at which the entries of dropped contexts are removed next.
    remove_at: usize,
}

/// Minimum number of contexts that are added between two removals of dropped contexts.
const LEAST_REMOVED: usize = 16;

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    contexts: BTreeMap::new(),
    primaries: BTreeMap::new(),
    remove_at: LEAST_REMOVED,
});

impl Registry {
    fn remove_dropped(&mut self) {
        let lives = |context: &Weak<Inner>| context.strong_count() > 0;
        self.contexts.retain(|_, known| lives(&known.context));
        self.primaries.retain(|_, context| lives(context));
        self.remove_at = 2 * self.contexts.len() + LEAST_REMOVED;
    }
}

fn address(machine: &Machine) -> usize {
    std::ptr::from_ref(machine) as usize
}

pub(super) fn add(context: &Arc<Inner>) {
    let mut registry = REGISTRY.lock();
    if registry.contexts.len() >= registry.remove_at {
        registry.remove_dropped();
    }
    let machine = address(&context.machine);
    let known = Known {
        machine,
        context: Arc::downgrade(context),
    };
    registry.contexts.insert(context.id, known);
    if context.primary {
        let place = (machine, context.device);
        registry.primaries.insert(place, Arc::downgrade(context));
    }
}

impl Context {
    /// Returns all contexts of a machine, in the order of their creation. Does not upgrade weak
    /// references to contexts of other machines: an upgraded reference could become the last
    /// reference to its context. Dropping this reference here would drop the context and its
    /// machine while the registry is locked.
    pub(crate) fn all_of(machine: &Machine) -> Vec<Context> {
        let registry = REGISTRY.lock();
        let all = registry.contexts.values();
        let own = all.filter(|known| known.machine == address(machine));
        let living = own.filter_map(|known| known.context.upgrade());
        living.map(Context::from).collect()
    }

    /// Returns the context of `machine` that has this ID.
    fn by_id(machine: &Machine, id: u64) -> Option<Context> {
        let registry = REGISTRY.lock();
        let found = registry.contexts.get(&id);
        let own = found.filter(|known| known.machine == address(machine));
        own?.context.upgrade().map(Context::from)
    }

    /// Returns a device's primary context; `None` if the device does not exist or its runtime has been dropped.
    pub(crate) fn primary_of(machine: &Machine, ordinal: i32) -> Option<Context> {
        let registry = REGISTRY.lock();
        let found = registry.primaries.get(&(address(machine), ordinal));
        found?.upgrade().map(Context::from)
    }

    /// Returns the context of an allocation. For an allocation without a context, returns the
    /// primary context of the allocation's device or, if this device does not exist, the primary
    /// context of the first device.
    pub(crate) fn of_allocation(machine: &Machine, found: &Allocation) -> Option<Context> {
        let primary = |device| Context::primary_of(machine, device);
        match found.context {
            0 => primary(found.device).or_else(|| primary(0)),
            id => Context::by_id(machine, id),
        }
    }
}
