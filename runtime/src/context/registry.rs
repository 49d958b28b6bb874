//! The registry of all contexts of the process.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{Context, Inner};
use crate::machine::Machine;
use crate::mem::Allocation;

/// An entry of the registry. The entry does not keep its context alive.
struct Known {
    /// The address of the context's machine. A living context keeps its machine alive, so this address is not reused.
    machine: usize,
    id: u64,
    /// The device's ordinal.
    device: i32,
    primary: bool,
    context: Weak<Inner>,
}

/// All contexts. The entry of a dropped context is removed when the next context is added.
static CONTEXTS: Mutex<Vec<Known>> = Mutex::new(Vec::new());

fn address(machine: &Machine) -> usize {
    std::ptr::from_ref(machine) as usize
}

pub(super) fn add(context: &Arc<Inner>) {
    let mut contexts = CONTEXTS.lock();
    contexts.retain(|known| known.context.strong_count() > 0);
    contexts.push(Known {
        machine: address(&context.machine),
        id: context.id,
        device: context.device,
        primary: context.primary,
        context: Arc::downgrade(context),
    });
}

impl Context {
    /// Returns all contexts of a machine. Upgrades no weak references to contexts of other machines: an upgraded
    /// reference could become the last one, and dropping it here would drop that context and its machine while the
    /// registry is locked.
    pub(crate) fn all_of(machine: &Machine) -> Vec<Context> {
        let contexts = CONTEXTS.lock();
        let own = contexts
            .iter()
            .filter(|known| known.machine == address(machine));
        let living = own.filter_map(|known| known.context.upgrade());
        living.map(Context::from).collect()
    }

    fn find(machine: &Machine, wanted: impl Fn(&Known) -> bool) -> Option<Context> {
        let contexts = CONTEXTS.lock();
        let own = |known: &&Known| known.machine == address(machine) && wanted(known);
        let mut found = contexts.iter().filter(own);
        found
            .find_map(|known| known.context.upgrade())
            .map(Context::from)
    }

    /// Returns a device's primary context; `None` if the device does not exist or its runtime has been dropped.
    pub(crate) fn primary_of(machine: &Machine, ordinal: i32) -> Option<Context> {
        Context::find(machine, |known| known.primary && known.device == ordinal)
    }

    /// Returns the context of an allocation. An allocation without a context belongs to the primary context of its
    /// device. If that device does not exist, the allocation belongs to the primary context of the first device.
    pub(crate) fn of_allocation(machine: &Machine, found: &Allocation) -> Option<Context> {
        let primary = |device| Context::primary_of(machine, device);
        match found.context {
            0 => primary(found.device).or_else(|| primary(0)),
            id => Context::find(machine, |known| known.id == id),
        }
    }
}
