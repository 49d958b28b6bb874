//! Writes the library's exported functions.

fn main() {
    margay_cublas_api::build::exporting_library(margay_cublas_api::Library::CublasLt, 12);
}
