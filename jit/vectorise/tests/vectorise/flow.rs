//! The planned control flow of kernels in the text form of the IR.
