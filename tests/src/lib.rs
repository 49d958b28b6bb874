//! Code that the project's tests share: the corpus of the checking tools, the conformance data, the bodies of the fuzz
//! targets, file tests written from literal cases, and the coverage of the file tests.

pub mod checks;
pub mod conformance;
pub mod forms;
pub mod fuzz;
mod fuzz_driver;
mod fuzz_images;
mod fuzz_kernels;
mod fuzz_process;
pub mod gpu;
pub mod literal;
pub mod ptx_files;
pub mod random;
pub mod sweep;
