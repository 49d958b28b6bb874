//! Why there is no native code.

use crate::fallback::Fallback;

/// Why there is no native code for a function.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CompileError {
    /// The code uses something native code cannot do; the interpreter can.
    #[error("no native code for {0}")]
    Unsupported(String),
    /// Native code would take too long to make, or too much memory.
    #[error("{0}: too large for native code")]
    Budget(String),
    /// The machine is not one that code can be made for.
    #[error("no code generator for this machine: {0}")]
    Machine(String),
    /// The code generator failed.
    #[error("code generation failed: {0}")]
    Backend(String),
    /// No memory for code.
    #[error("no memory for code: {0}")]
    Memory(String),
}

impl CompileError {
    /// The reason that is counted when a kernel has no native code.
    pub fn fallback(&self) -> Fallback {
        match self {
            CompileError::Unsupported(_) => Fallback::InterpreterUnsupported,
            CompileError::Budget(_) => Fallback::InterpreterBudget,
            CompileError::Machine(_) | CompileError::Memory(_) => Fallback::InterpreterMachine,
            CompileError::Backend(_) => Fallback::InterpreterBackend,
        }
    }
}
