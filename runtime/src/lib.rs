//! Margay: CUDA kernels on the CPU.
