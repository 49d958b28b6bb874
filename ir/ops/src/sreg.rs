//! The special registers: their names, their types, and the groups of threads for which they have
//! the same value.

use crate::types::OpType;

/// The largest group of threads in which a value is always the same for all threads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Uniformity {
    /// The value can differ between the lanes of a warp.
    Varying,
    /// The value is the same for all lanes of a warp.
    Warp,
    /// The value is the same for all threads of a CTA.
    Cta,
    /// The value is the same for all threads of a launch.
    Launch,
}

macro_rules! sregs {
    ($($name:ident $text:literal $ty:ident $uniform:ident;)*) => {
        /// A special register (PTX ISA, section 10); each component of a vector register is a separate register.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "each variant is the register that its text spells")]
        pub enum SpecialReg { $($name,)* }

        impl SpecialReg {
            /// All registers.
            pub const ALL: &'static [SpecialReg] = &[$(SpecialReg::$name,)*];

            /// Returns the name of the register in PTX, with `%`.
            pub const fn name(self) -> &'static str {
                match self { $(SpecialReg::$name => $text,)* }
            }

            /// Returns the type that PTX specifies for the register.
            pub const fn ty(self) -> OpType {
                match self { $(SpecialReg::$name => OpType::$ty,)* }
            }

            /// Returns the largest group of threads in which the register always has the same value
            /// for all threads.
            pub const fn uniformity(self) -> Uniformity {
                match self { $(SpecialReg::$name => Uniformity::$uniform,)* }
            }

            /// Returns the register with this name in PTX, with `%`, or `None` if there is none.
            pub fn from_name(name: &str) -> Option<SpecialReg> {
                match name { $($text => Some(SpecialReg::$name),)* _ => None }
            }
        }
    };
}

sregs! {
    TidX "%tid.x" U32 Varying; TidY "%tid.y" U32 Varying; TidZ "%tid.z" U32 Varying;
    NtidX "%ntid.x" U32 Launch; NtidY "%ntid.y" U32 Launch; NtidZ "%ntid.z" U32 Launch;
    CtaidX "%ctaid.x" U32 Cta; CtaidY "%ctaid.y" U32 Cta; CtaidZ "%ctaid.z" U32 Cta;
    NctaidX "%nctaid.x" U32 Launch; NctaidY "%nctaid.y" U32 Launch; NctaidZ "%nctaid.z" U32 Launch;
    Laneid "%laneid" U32 Varying;
    Warpid "%warpid" U32 Warp;
    Nwarpid "%nwarpid" U32 Launch;
    Smid "%smid" U32 Cta;
    Nsmid "%nsmid" U32 Launch;
    Gridid "%gridid" U64 Launch;
    LanemaskEq "%lanemask_eq" U32 Varying;
    LanemaskLe "%lanemask_le" U32 Varying;
    LanemaskLt "%lanemask_lt" U32 Varying;
    LanemaskGe "%lanemask_ge" U32 Varying;
    LanemaskGt "%lanemask_gt" U32 Varying;
    Clock "%clock" U32 Varying;
    ClockHi "%clock_hi" U32 Varying;
    Clock64 "%clock64" U64 Varying;
    Globaltimer "%globaltimer" U64 Varying;
    GlobaltimerLo "%globaltimer_lo" U32 Varying;
    GlobaltimerHi "%globaltimer_hi" U32 Varying;
    DynamicSmemSize "%dynamic_smem_size" U32 Launch;
    TotalSmemSize "%total_smem_size" U32 Launch;
    AggrSmemSize "%aggr_smem_size" U32 Launch;
    CurrentGraphExec "%current_graph_exec" U64 Launch;
    IsExplicitCluster "%is_explicit_cluster" Pred Launch;
    ClusteridX "%clusterid.x" U32 Cta; ClusteridY "%clusterid.y" U32 Cta; ClusteridZ "%clusterid.z" U32 Cta;
    NclusteridX "%nclusterid.x" U32 Launch; NclusteridY "%nclusterid.y" U32 Launch; NclusteridZ "%nclusterid.z" U32 Launch;
    ClusterCtaidX "%cluster_ctaid.x" U32 Cta; ClusterCtaidY "%cluster_ctaid.y" U32 Cta; ClusterCtaidZ "%cluster_ctaid.z" U32 Cta;
    ClusterNctaidX "%cluster_nctaid.x" U32 Launch; ClusterNctaidY "%cluster_nctaid.y" U32 Launch; ClusterNctaidZ "%cluster_nctaid.z" U32 Launch;
    ClusterCtarank "%cluster_ctarank" U32 Cta;
    ClusterNctarank "%cluster_nctarank" U32 Launch;
    SharedShift "%shared_shift" U32 Launch;
    BulkLimit "%bulk_limit" U32 Launch;
    Pm0 "%pm0" U32 Varying; Pm1 "%pm1" U32 Varying; Pm2 "%pm2" U32 Varying; Pm3 "%pm3" U32 Varying;
    Pm4 "%pm4" U32 Varying; Pm5 "%pm5" U32 Varying; Pm6 "%pm6" U32 Varying; Pm7 "%pm7" U32 Varying;
    Pm0x64 "%pm0_64" U64 Varying; Pm1x64 "%pm1_64" U64 Varying; Pm2x64 "%pm2_64" U64 Varying; Pm3x64 "%pm3_64" U64 Varying;
    Pm4x64 "%pm4_64" U64 Varying; Pm5x64 "%pm5_64" U64 Varying; Pm6x64 "%pm6_64" U64 Varying; Pm7x64 "%pm7_64" U64 Varying;
    ReservedSmemBegin "%reserved_smem_offset_begin" U32 Launch;
    ReservedSmemEnd "%reserved_smem_offset_end" U32 Launch;
    ReservedSmemCap "%reserved_smem_offset_cap" U32 Launch;
    ReservedSmem0 "%reserved_smem_offset_0" U32 Launch;
    ReservedSmem1 "%reserved_smem_offset_1" U32 Launch;
    Envreg1 "%envreg1" U32 Launch;
    Envreg2 "%envreg2" U32 Launch;
    EnvregOther "%envreg" U32 Launch;
}

impl SpecialReg {
    /// Returns the register with this index in [`SpecialReg::ALL`]; `None` if the index is out of range.
    pub fn from_index(index: u64) -> Option<SpecialReg> {
        SpecialReg::ALL.get(usize::try_from(index).ok()?).copied()
    }

    /// Returns whether the register is a clock, so that two reads by the same thread may return
    /// different values.
    pub const fn is_time(self) -> bool {
        matches!(
            self,
            SpecialReg::Clock
                | SpecialReg::ClockHi
                | SpecialReg::Clock64
                | SpecialReg::Globaltimer
                | SpecialReg::GlobaltimerLo
                | SpecialReg::GlobaltimerHi
        )
    }
}
