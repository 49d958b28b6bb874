//! How probes are inserted: the default behaviour, and switches for single traits of the original engine.

/// Which instructions a tracepoint selects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Matching {
    /// Instructions whose opcode with its modifiers is the text, or starts with the text and a dot.
    #[default]
    Prefix,
    /// Instructions whose text contains the text anywhere, also in names of registers and variables.
    Substring,
}

/// What `ADDR`, and the address operands, mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Addresses {
    /// The address that is accessed.
    #[default]
    Effective,
    /// The value of the base register, without the constant offset.
    Base,
}

/// Where the text after a branch goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AfterTransfer {
    /// In front of the branch, so that it runs in each lane that branches.
    #[default]
    InFront,
    /// Behind the branch. It does not run where the branch is taken.
    Behind,
}

/// The options of [`rewrite`](crate::rewrite()).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Which instructions a tracepoint selects.
    pub matching: Matching,
    /// What addresses mean.
    pub addresses: Addresses,
    /// Where the text after a branch goes.
    pub after_transfer: AfterTransfer,
}
