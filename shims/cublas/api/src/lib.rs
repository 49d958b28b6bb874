//! The entry points of cuBLAS and cuBLASLt, and the code that is generated from them when the libraries are built.
//!
//! `cublas.txt` and `cublaslt.txt` list the entry points. A line describes a family of functions:
//!
//! ```text
//! {S,D,C,Z}gemm v2 64 legacy xt = gemm::gemm::<T> : transa op, m int, alpha &T, A *T, C @T
//! NAME          FLAGS             FUNCTION          PARAMETERS
//! ```
//!
//! The C function's name is `cublas` and the name. A name with codes in braces stands for one function for each code,
//! which determines the types `T`, `R` (the real type that belongs to `T`) and `U` ([`types_of`]). The flags list the
//! forms of the function: without flags there is one function, whose first parameter is a handle. `v2` appends `_v2` to
//! the name, `64` adds a function with 64-bit integers, whose name ends in `_64`; `legacy` adds the function of
//! `cublas.h`, `xt` that of `cublasXt.h`, and with `onlylegacy` and `onlyxt` there is no other. `free` means that there is
//! no handle, `12` and `13` that only this toolkit has the function. `-> usize`, `-> text` and `-> void` are results other
//! than a status. The function is a Rust function of the crate `margay-cublas`; `missing` means that there is none.
//!
//! The kind of a parameter is one of these:
//!
//! | kind | C type | Rust function gets |
//! |---|---|---|
//! | `int` | `int`, `int64_t` (`_64`), `size_t` (`Xt`) | `i64` |
//! | `op`, `uplo`, `side`, `diag` | an enumeration; `char` in the legacy interface | `i32` |
//! | `i32`, `i64`, `u64`, `usize`, `f32`, `ptr` | this type in each form | the same |
//! | `&T` | `const T *`; `T` in the legacy interface | `*const T` |
//! | `*T`, `@T` | `const T *`, `T *` | `*const T`, `*mut T` |
//! | `**T`, `@@T` | `const T *const *`, `T *const *` | `*const *const T`, `*const *mut T` |
//! | `=T` | `T *`; the function's result in the legacy interface | `*mut T` |
//! | `=index` | `int *`, `int64_t *` (`_64`); the result in the legacy interface | `Index` |
//! | `ints` | `const int *`, `const int64_t *` (`_64`) | `Integers` |

pub mod build;
mod emit;
mod parse;

pub use emit::{functions, trampolines};
pub use parse::{Entry, Form, Library, Parameter, Returns, entries, missing_families, types_of};
