//! Tests of the vectoriser: VIR programs, which the VIR interpreter runs, against single threads of the kernel.

mod flow;
mod kernels;
mod launch;
mod local;
mod order;
mod pairs;
mod random;
mod runs;
mod thread;
mod waiting;
