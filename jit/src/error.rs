//! Errors of native code generation.

use crate::fallback::Fallback;

/// The reason why a function has no native code.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CompileError {
    /// Native code does not support an operation of the function.
    #[error("no native code for {0}")]
    Unsupported(String),
    /// Native code would take too much time or memory to compile.
    #[error("{0}: too large for native code")]
    Budget(String),
    /// Cranelift cannot generate code for this machine.
    #[error("no code generator for this machine: {0}")]
    Machine(String),
    /// Cranelift failed to compile the function.
    #[error("code generation failed: {0}")]
    Backend(String),
    /// Executable memory could not be allocated.
    #[error("no memory for code: {0}")]
    Memory(String),
}

impl CompileError {
    /// Returns the fallback to count if a kernel runs in the interpreter because of this error.
    pub fn fallback(&self) -> Fallback {
        match self {
            CompileError::Unsupported(_) => Fallback::InterpreterUnsupported,
            CompileError::Budget(_) => Fallback::InterpreterBudget,
            CompileError::Machine(_) | CompileError::Memory(_) => Fallback::InterpreterMachine,
            CompileError::Backend(_) => Fallback::InterpreterBackend,
        }
    }
}
