//! A function that is ready to compile.

use margay_ir::analysis::Regions;
use margay_ir::function::Function;
use serde::{Deserialize, Serialize};

use crate::budget::Shape;

/// The results of the passes and analyses on which all native code of a function depends.
#[derive(Serialize, Deserialize)]
pub struct PreparedFunction {
    pub(crate) function: Function,
    pub(crate) regions: Regions,
    pub(crate) shape: Shape,
    /// Whether calls were kept because the function would have become too large.
    pub(crate) calls_kept: bool,
}
