//! What device code may call: printf, assertions, malloc and free.

/// The system calls' state for one launch.
#[derive(Debug, Default)]
pub struct Services {}
