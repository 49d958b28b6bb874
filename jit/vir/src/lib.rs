//! The vector intermediate representation (VIR): programs that compute many threads of a CTA at once.
//!
//! VIR is the language between the vectoriser, which turns the IR of a kernel into one program for whole CTAs, and the
//! back ends, which turn VIR into machine code. The vectoriser decides what is a vector, where masks are, and what stays
//! scalar; a back end only selects instructions. The interpreter ([`interpreter`]) defines the results of programs.
//!
//! # Values
//!
//! A function is in SSA form with block parameters. Each value has a [`Type`](margay_ops::types::Type): a kind (`pred`,
//! `b8` to `b128`, `f32`, `f64`) and a number of lanes, a power of two from 1 to 64. Values with one lane are scalars.
//! A vector of `pred` is a mask. The number of lanes is a property of the program, not of the machine: a back end splits
//! or joins registers as it needs. An integer value has no sign; operations have.
//!
//! # Operations
//!
//! An operation is a row of the op table ([`ops`]). Its instructions have a type, data that depends on the op
//! ([`data::Data`]), operands, results and branch targets.
//!
//! - `map` applies an operation of the IR without side effects to each lane. Its data is the
//!   [`Desc`](margay_ops::meaning::Desc) of the operation, so that PTX arithmetic has one definition in all engines: the
//!   reference functions of `margay-ops`. An operand is a vector, or a scalar that all lanes use.
//! - Other ops move lanes (`splat`, `permute`, `compress`), convert between masks and bits (`ballot`, `mask`), or reduce
//!   a vector to a scalar (`reduce`, `any`, `count`).
//! - `load` and `store` access memory at `address + displacement + stride * lane`; `gather` and `scatter` at
//!   `base + displacement + stride * offset`, with an offset for each lane. Addresses wrap modulo 2^64. All have an
//!   optional mask. Lanes whose mask is false do not access memory; a load gives them zero. The lanes of a `store` and
//!   of a `scatter` write in ascending order.
//! - `update` applies an atomic operation of the IR to memory at `base + offset` in each lane, in ascending order of the
//!   lanes. Its data is the [`Desc`](margay_ops::meaning::Desc) of the operation. If the state space is shared memory, no
//!   other host thread accesses the memory, and the update of a lane need not be one atomic instruction.
//! - `call` calls a helper function with scalar operands, `call.lanes` once for each lane of a mask, in ascending order.
//! - `jump`, `brif`, `ret`, `trap` and `trap.if` control the program. The condition of a branch is a scalar.
//!
//! # Floating point
//!
//! `map` rounds as its operation states; a back end never contracts, reorders or reassociates operations. Subnormal
//! operands and results are kept unless the operation has `.ftz`. A `reduce` combines lanes in one fixed order (see
//! [`meaning::reduce`]), whatever the width of registers is. The sign and the payload of a NaN result of an arithmetic
//! operation are unspecified where `docs/semantics.md` says so for native code; programs that observe the bits of such a
//! result first replace NaNs.
//!
//! # Faults
//!
//! An access to an address that is not accessible, and a trap, end the program with a [`interpreter::Fault`]: the first
//! lane, in ascending order, whose access faults. Stores of lower lanes have then happened. Each instruction has a
//! *place*, a number that the vectoriser chooses, by which the caller finds the PTX instruction.
//!
//! # Text
//!
//! [`mod@print`] writes functions and [`parse`] reads them:
//!
//! ```text
//! func @saxpy(b64, b64, f32, predx16) -> () {
//! block0(v0: b64, v1: b64, v2: f32, v3: predx16):
//!   v4: f32x16 = load.f32x16{f32 4} v0, v3
//!   v5: f32x16 = load.f32x16{f32 4} v1, v3
//!   v6: f32x16 = map.f32x16{fma.f32{rn}} v2, v4, v5
//!   store.f32x16{f32 4} v1, v6, v3  ; 17
//!   ret
//! }
//! ```
#![forbid(unsafe_code)]

pub mod builder;
pub mod constants;
pub mod data;
pub mod function;
pub mod interpreter;
pub mod meaning;
pub mod ops;
pub mod parse;
pub mod passes;
pub mod print;
#[cfg(feature = "testing")]
pub mod testing;
pub mod verify;
