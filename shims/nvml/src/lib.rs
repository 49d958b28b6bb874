//! `libnvidia-ml.so.1`.
