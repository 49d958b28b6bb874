//! Tables of graphs, nodes and conditional handles by ID.
//!
//! IDs are unique in the process. When a graph, node or handle is destroyed, its entry is removed, so lookups find only
//! objects that exist.

use super::Inner;
use super::conditional::ConditionalHandle;
use crate::object_table::Table;

/// All graphs, by their IDs.
pub(crate) static GRAPHS: Table<u64, Inner> = Table::new();
/// For each node, by its ID, the graph to which the node belongs.
pub(crate) static NODES: Table<u64, Inner> = Table::new();
/// All conditional handles, by their IDs.
pub(crate) static CONDITIONALS: Table<u64, ConditionalHandle> = Table::new();
