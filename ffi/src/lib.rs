//! The drop-in `libcuda.so.1`.
