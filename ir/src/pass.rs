//! Passes: each a file with one `run` that changes a function.
//!
//! [`prepare`] is the order in which a kernel is made ready for an engine that runs regions.

pub mod inline;
mod places;
pub mod points;
pub mod simplify;
pub mod waiting;

use crate::entity::FuncId;
use crate::function::Function;
use crate::module::Module;

/// Names of the passes of [`prepare`], in order.
pub const NAMES: &[&str] = &["inline", "simplify", "waiting", "points"];

/// A kernel (or function) with calls inlined where possible and every point at the end of its block.
/// With `after`, stops behind the pass of that name.
pub fn prepare(module: &Module, id: FuncId, after: Option<&str>) -> Function {
    let mut function = module.functions[id].clone();
    let passes: [&dyn Fn(&mut Function); 4] = [
        &|f| inline::run(f, module, id),
        &|f| simplify::run(f),
        &|f| waiting::run(f),
        &|f| points::run(f, module),
    ];
    for (name, pass) in NAMES.iter().zip(passes) {
        if function.has_body() {
            pass(&mut function);
        }
        if after == Some(*name) {
            break;
        }
    }
    function
}
