//! The contexts of the process.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{Context, Inner};
use crate::machine::Machine;
use crate::mem::Allocation;

/// A context that has handles; the table keeps none of them alive.
struct Known {
    /// The address of its machine. A context keeps its machine, so a context that is alive is of the machine there.
    machine: usize,
    context: Weak<Inner>,
}

/// All contexts; a destroyed one disappears with its last handle.
static CONTEXTS: Mutex<Vec<Known>> = Mutex::new(Vec::new());

fn address(machine: &Machine) -> usize {
    std::ptr::from_ref(machine) as usize
}

pub(super) fn add(context: &Arc<Inner>) {
    let mut contexts = CONTEXTS.lock();
    contexts.retain(|known| known.context.strong_count() > 0);
    contexts.push(Known {
        machine: address(&context.machine),
        context: Arc::downgrade(context),
    });
}

impl Context {
    /// All contexts of a machine. Those of other machines are not upgraded: the last handle of one, dropped here under
    /// the lock, would drop its machine.
    pub(crate) fn all_of(machine: &Machine) -> Vec<Context> {
        let contexts = CONTEXTS.lock();
        let own = contexts
            .iter()
            .filter(|known| known.machine == address(machine));
        let living = own.filter_map(|known| known.context.upgrade());
        living.map(Context::from).collect()
    }

    fn find(machine: &Machine, wanted: impl Fn(&Inner) -> bool) -> Option<Context> {
        let all = Context::all_of(machine).into_iter();
        { all }.find(|context| wanted(&context.inner))
    }

    /// A device's primary context; `None` once the runtime is gone.
    pub(crate) fn primary_of(machine: &Machine, ordinal: i32) -> Option<Context> {
        Context::find(machine, |known| known.primary && known.device == ordinal)
    }

    /// The context of an allocation. An allocation without a context counts to its device's primary context, or to the
    /// first device's if its device does not exist.
    pub(crate) fn of_allocation(machine: &Machine, found: &Allocation) -> Option<Context> {
        let primary = |device| Context::primary_of(machine, device);
        match found.context {
            0 => primary(found.device).or_else(|| primary(0)),
            id => Context::find(machine, |known| known.id == id),
        }
    }
}
