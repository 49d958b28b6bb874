//! Kernels in the text form of the IR.
