//! The kinds of findings.

use std::fmt;

pub use margay_exec::Undefined;

/// The tools of a checking run. Each finding is reported by one tool.
///
/// ```
/// use margay::checks::Tool;
///
/// assert_eq!(Tool::Memory.name(), "memcheck");
/// assert_eq!(Tool::named("racecheck"), Some(Tool::Race));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Tool {
    /// Reports accesses outside of allocations, misaligned accesses, and faults that end kernels.
    Memory,
    /// Reports reads of memory that has not been written.
    Initialisation,
    /// Reports races: unordered accesses to the same memory.
    Race,
    /// Reports undefined synchronisation between threads.
    Synchronisation,
    /// Reports memory and objects that the program does not free.
    Leak,
    /// Reports calls of the driver API with wrong arguments, and calls that fail.
    Api,
}

impl Tool {
    /// All tools.
    pub const ALL: [Tool; 6] = [
        Tool::Memory,
        Tool::Initialisation,
        Tool::Race,
        Tool::Synchronisation,
        Tool::Leak,
        Tool::Api,
    ];

    /// Returns the name of the tool in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Tool::Memory => "memcheck",
            Tool::Initialisation => "initcheck",
            Tool::Race => "racecheck",
            Tool::Synchronisation => "synccheck",
            Tool::Leak => "leakcheck",
            Tool::Api => "apicheck",
        }
    }

    /// Returns the tool with this name.
    pub fn named(name: &str) -> Option<Tool> {
        Tool::ALL.into_iter().find(|tool| tool.name() == name)
    }
}

/// How serious a finding is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// The finding describes behaviour of the program that is not necessarily a defect.
    Info,
    /// A probable defect.
    Warning,
    /// A defect.
    Error,
}

impl Severity {
    /// Returns the name of the severity in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident $tool:ident $severity:ident $name:literal;)*) => {
        /// A kind of finding.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum Kind { $($(#[$doc])* $variant,)* }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Kind] = &[$(Kind::$variant,)*];

            /// Returns the kind with this name.
            pub fn named(name: &str) -> Option<Kind> {
                Kind::ALL.iter().copied().find(|kind| kind.name() == name)
            }

            /// Returns the tool that reports this kind.
            pub const fn tool(self) -> Tool {
                match self { $(Kind::$variant => Tool::$tool,)* }
            }

            /// Returns how serious a finding of this kind is, unless the finding states another severity.
            pub const fn severity(self) -> Severity {
                match self { $(Kind::$variant => Severity::$severity,)* }
            }

            /// Returns the name of the kind in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Kind::$variant => $name,)* }
            }
        }
    };
}

kinds! {
    /// An access outside of the memory that the thread may access.
    OutOfBounds Memory Error "out-of-bounds";
    /// An access whose address is not aligned to the size of the access.
    Misaligned Memory Error "misaligned";
    /// An access to memory that the program has freed.
    UseAfterFree Memory Error "use-after-free";
    /// An access near address 0.
    NullPointer Memory Error "null-pointer";
    /// An access to memory of another state space, or of the host.
    WrongSpace Memory Error "wrong-space";
    /// A call of `free` in device code for memory that is already free.
    DoubleFree Memory Error "double-free";
    /// A call of `free` in device code for an address that `malloc` did not return.
    InvalidFree Memory Error "invalid-free";
    /// A use of stream-ordered memory that is not ordered after the allocation.
    UseBeforeAllocation Memory Error "use-before-allocation";
    /// A free of stream-ordered memory that is not ordered after the allocation.
    FreeBeforeAllocation Memory Error "free-before-allocation";
    /// A use of stream-ordered memory that is not ordered before the free.
    UseAfterStreamFree Memory Error "use-after-stream-free";
    /// A fault that ended a kernel and that no finding of another kind reports, for example a trap,
    /// a failed assertion, a call through an invalid function pointer, or an exhausted stack.
    KernelFault Memory Error "kernel-fault";
    /// A read of bytes that have not been written.
    Uninitialized Initialisation Error "uninitialized";
    /// A read of several bytes, some of which have not been written, for example the padding of a structure.
    PartlyUninitialized Initialisation Info "partly-uninitialized";
    /// A copy to the host of bytes that have not been written.
    UninitializedCopy Initialisation Error "uninitialized-copy";
    /// An allocation that contains bytes which have not been written.
    UnusedMemory Initialisation Warning "unused-memory";
    /// Two unordered accesses to the same memory, at least one of which is a write.
    Race Race Error "race";
    /// See [`Undefined::NotInMask`].
    NotInMask Synchronisation Error "not-in-mask";
    /// See [`Undefined::MasksDiffer`].
    MasksDiffer Synchronisation Error "masks-differ";
    /// See [`Undefined::AbsentSource`].
    AbsentSource Synchronisation Error "absent-source";
    /// See [`Undefined::ShuffleWidth`].
    ShuffleWidth Synchronisation Warning "shuffle-width";
    /// See [`Undefined::PartOfWarp`].
    PartOfWarp Synchronisation Error "part-of-warp";
    /// See [`Undefined::DivergentBarrier`].
    DivergentBarrier Synchronisation Error "divergent-barrier";
    /// See [`Undefined::LeftBeforeBarrier`].
    LeftBeforeBarrier Synchronisation Info "left-before-barrier";
    /// See [`Undefined::SkippedBarrier`].
    SkippedBarrier Synchronisation Error "skipped-barrier";
    /// See [`Undefined::BarrierNumber`].
    BarrierNumber Synchronisation Error "barrier-number";
    /// See [`Undefined::BarrierCount`].
    BarrierCount Synchronisation Error "barrier-count";
    /// See [`Undefined::CountsDiffer`].
    CountsDiffer Synchronisation Error "counts-differ";
    /// See [`Undefined::MixedReduction`].
    MixedReduction Synchronisation Error "mixed-reduction";
    /// See [`Undefined::ArrivesTwice`].
    ArrivesTwice Synchronisation Error "arrives-twice";
    /// See [`Undefined::WaitsWithoutArrival`].
    WaitsWithoutArrival Synchronisation Error "waits-without-arrival";
    /// Threads wait for each other, or for memory that nothing changes, and none of them can continue.
    Deadlock Synchronisation Error "deadlock";
    /// Memory that the program has not freed.
    LeakedMemory Leak Error "leaked-memory";
    /// An object other than memory, for example a stream, that the program has not destroyed.
    LeakedObject Leak Warning "leaked-object";
    /// A call of the API that returns an error.
    FailedCall Api Error "failed-call";
    /// A copy to or from device memory with a pointer to host memory, or to or from host memory
    /// with a pointer to device memory.
    WrongDirection Api Error "wrong-direction";
    /// A copy or fill whose bytes are not all inside one allocation.
    OutsideAllocation Api Error "outside-allocation";
    /// A wrong pointer in a call: a free of an address at which no allocation begins, or a copy or fill at an address
    /// without memory.
    InvalidPointer Api Error "invalid-pointer";
    /// A use of an object that the program has destroyed.
    DestroyedHandle Api Error "destroyed-handle";
    /// A write to a red zone before or after an allocation.
    ChangedRedZone Api Error "changed-red-zone";
    /// A call of a function that Margay does not implement.
    UnimplementedFunction Api Error "unimplemented-function";
}

impl From<Undefined> for Kind {
    fn from(what: Undefined) -> Kind {
        match what {
            Undefined::NotInMask => Kind::NotInMask,
            Undefined::MasksDiffer => Kind::MasksDiffer,
            Undefined::AbsentSource => Kind::AbsentSource,
            Undefined::ShuffleWidth => Kind::ShuffleWidth,
            Undefined::PartOfWarp => Kind::PartOfWarp,
            Undefined::DivergentBarrier => Kind::DivergentBarrier,
            Undefined::LeftBeforeBarrier => Kind::LeftBeforeBarrier,
            Undefined::SkippedBarrier => Kind::SkippedBarrier,
            Undefined::BarrierNumber => Kind::BarrierNumber,
            Undefined::BarrierCount => Kind::BarrierCount,
            Undefined::CountsDiffer => Kind::CountsDiffer,
            Undefined::MixedReduction => Kind::MixedReduction,
            Undefined::ArrivesTwice => Kind::ArrivesTwice,
            Undefined::WaitsWithoutArrival => Kind::WaitsWithoutArrival,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
