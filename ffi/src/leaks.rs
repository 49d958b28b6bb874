//! Records findings about objects that the program has not destroyed, in runs with leak checks.
//!
//! The objects of a context are examined when the context is destroyed or reset, and all other
//! objects when the process exits. NVIDIA's runtime loads the modules that are linked into a
//! program and never unloads them, so there are no findings about these modules.

use margay::checks::{CallStack, Finding, Kind, Tool};
use margay::{Context, Runtime};

use crate::checking::{self, report, selected};
use crate::guard;
use crate::handle_table::HandleTable;
use crate::handles::{
    all_graphs, arrays, events, graph_execs, libraries, links, mipmapped_arrays, modules, pools,
    streams, surf_objects, tex_objects, user_objects,
};

/// The address of the function that records leaks and completes the log of findings when the
/// process exits. The dynamic loader calls the function after all exit handlers and destructors of
/// the program, so memory that the destructor of a global variable frees is not a leak.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

extern "C" fn at_exit() {
    if !guard::is_ready() || !checking::any() {
        return;
    }
    let _ = std::panic::catch_unwind(|| {
        let Ok(runtime) = Runtime::global() else {
            return;
        };
        if selected(Tool::Leak) {
            report_objects(None);
        }
        runtime.finish_checks();
    });
}

/// Records a finding for each allocation and object of a context that the program has not freed or
/// destroyed. Callers call this function before the context ends. After a fault in the context,
/// records no findings about objects.
pub(crate) fn of_context(context: &Context) {
    if selected(Tool::Leak) {
        context.report_leaks();
        if context.status().is_ok() {
            report_objects(Some(context));
        }
    }
}

/// Records a finding for each object that is still in a handle table. If `of` is a context,
/// considers only the objects that this context owns. Leaves out objects that the program cannot or
/// need not destroy (such as modules of libraries and of NVIDIA's runtime, levels of mipmapped
/// arrays, and default pools) and, if `of` is `None`, objects of contexts in which a fault occurred
/// or that have ended.
fn report_objects(of: Option<&Context>) {
    let owned = |context: &Context| match of {
        Some(wanted) => context == wanted,
        None => context.status().is_ok(),
    };
    each(streams(), "Stream", |stream| owned(stream.context()));
    each(events(), "Event", |event| owned(event.context()));
    each(modules(), "Module", |object| {
        !object.is_of_runtime() && object.library.is_none() && owned(object.module.context())
    });
    each(arrays(), "Array", |object| {
        !object.is_level && owned(object.array.context())
    });
    each(mipmapped_arrays(), "Mipmapped array", |object| {
        owned(object.array.context())
    });
    for (&handle, known) in tex_objects().read().iter() {
        if owned(known.object.context()) {
            undestroyed("Texture object", handle as usize, known.call.as_ref());
        }
    }
    for (&handle, known) in surf_objects().read().iter() {
        if owned(known.object.context()) {
            undestroyed("Surface object", handle as usize, known.call.as_ref());
        }
    }
    if of.is_none() {
        each(libraries(), "Library", |object| !object.is_of_runtime());
        each(links(), "Link", |_| true);
        each(pools(), "Memory pool", |pool| !pool.is_default);
        each(graph_execs(), "Executable graph", |_| true);
        each(user_objects(), "User object", |_| true);
        for (handle, call) in all_graphs() {
            undestroyed("Graph", handle, call.as_ref());
        }
    }
}

fn each<T: Clone>(table: &HandleTable<T>, what: &str, wanted: impl Fn(&T) -> bool) {
    for (handle, object, call) in table.entries() {
        if wanted(&object) {
            undestroyed(what, handle, call.as_ref());
        }
    }
}

fn undestroyed(what: &str, handle: usize, call: Option<&CallStack>) {
    let text = format!("{what} {handle:#x} is not destroyed");
    report(Finding::new(Kind::LeakedObject, text), call);
}
