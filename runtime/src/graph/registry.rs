//! Tables of graphs, nodes and conditional handles by ID.
//!
//! IDs are unique in the process. The destructor of a graph, node or handle removes its entry, so only existing ones
//! are found.

use super::Inner;
use super::conditional::ConditionalHandle;
use crate::object_table::Table;

/// Graphs by their IDs.
pub(crate) static GRAPHS: Table<u64, Inner> = Table::new();
/// The graphs of nodes, by the IDs of the nodes.
pub(crate) static NODES: Table<u64, Inner> = Table::new();
/// Conditional handles by their IDs.
pub(crate) static CONDITIONALS: Table<u64, ConditionalHandle> = Table::new();
