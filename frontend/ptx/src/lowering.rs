//! The names of the lowering functions for instructions that do not simply become one op with the same operands.

/// Declares [`Lowering`]. Each row contains a variant of the enum and the variant's name in the
/// syntax table.
macro_rules! lowerings {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// The lowering function for an instruction that becomes control flow, a call, several ops, or one op with
        /// other operands.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Lowering {
            $($(#[$doc])* $variant,)*
        }

        impl Lowering {
            /// Returns the lowering function that has this name in the syntax table.
            pub(crate) fn named(name: &str) -> Option<Lowering> {
                match name {
                    $($name => Some(Lowering::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

lowerings! {
    /// `bra`.
    Branch = "branch";
    /// `brx.idx`.
    IndexedBranch = "indexed_branch";
    /// `call`.
    Call = "call";
    /// `mbarrier.init`.
    MbarrierInit = "mbarrier_init";
    /// `mbarrier.inval`.
    MbarrierInval = "mbarrier_inval";
    /// `mbarrier.pending_count`.
    MbarrierPendingCount = "mbarrier_pending_count";
    /// Lowers `mbarrier.arrive`, `mbarrier.arrive_drop`, `mbarrier.expect_tx` and
    /// `mbarrier.complete_tx`.
    MbarrierArrive = "mbarrier_arrive";
    /// `mbarrier.test_wait` and `try_wait`.
    MbarrierWait = "mbarrier_wait";
    /// `cp.async.mbarrier.arrive`.
    CopyArrive = "copy_arrive";
    /// `cp.async.commit_group`.
    CopyCommit = "copy_commit";
    /// `cp.async.wait_group`.
    CopyWait = "copy_wait";
    /// `cp.async.wait_all`.
    CopyWaitAll = "copy_wait_all";
    /// `cp.async.bulk.commit_group`.
    BulkCommit = "bulk_commit";
    /// `cp.async.bulk.wait_group`.
    BulkWait = "bulk_wait";
    /// `cp.async.bulk`.
    BulkCopy = "bulk_copy";
    /// `cp.reduce.async.bulk`.
    BulkReduction = "bulk_reduction";
    /// `st.bulk`.
    BulkClear = "bulk_clear";
    /// `st.async`.
    AsyncStore = "async_store";
    /// `red.async`.
    AsyncReduction = "async_reduction";
    /// `mapa`.
    MapShared = "map_shared";
    /// `getctarank`.
    ClusterRank = "cluster_rank";
    /// `wmma.load`.
    TileLoad = "tile_load";
    /// `wmma.store`.
    TileStore = "tile_store";
    /// `ldmatrix`.
    MatrixLoad = "matrix_load";
    /// `stmatrix`.
    MatrixStore = "matrix_store";
    /// `movmatrix`.
    MatrixTranspose = "matrix_transpose";
}
