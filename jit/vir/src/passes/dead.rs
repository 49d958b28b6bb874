//! Dead code: removes operations whose results are not used, and block parameters that are not used.
//!
//! The pass keeps each load, because a load may fault.

use margay_ir::edit;

use crate::function::Function;

/// Removes dead operations and block parameters.
pub fn run(function: &mut Function) {
    edit::drop_dead(function, |function: &Function, inst| {
        function.effects(inst).is_empty()
    });
}
