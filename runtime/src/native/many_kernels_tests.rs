//! Tests of the contents of a compiled kernel: its data does not grow with the number of kernels in
//! its module, and it contains no code that its launches do not run.

use std::fmt::Write;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::disk::Caching;
use super::image::PtxLoader;
use super::kernel::KernelCode;
use crate::engine::{EngineChoice, Image, LoadOptions};
use crate::environment;
use crate::launch::Dim3;
use margay_ir::pass::instrument::Request;
use margay_jit::Specialisation;

const HEAD: &str = ".version 7.0 .target sm_80 .address_size 64 .visible .global .u32 last;";

/// Loads a module and compiles all of its kernels.
fn compiled(text: &str) -> Vec<Arc<KernelCode>> {
    compiled_with(text, Request::default())
}

fn compiled_with(text: &str, request: Request) -> Vec<Arc<KernelCode>> {
    let loader = PtxLoader::new(EngineChoice::Native).caching(Caching::Off);
    let loader = loader.observing(request);
    let image = loader.open(Image::Ptx(text), &LoadOptions::default());
    let image = image.expect("loads");
    let symbols = Arc::new(image.bound_symbols(image.addresses(&[0x7000])));
    let count = crate::engine::LoadedImage::kernels(&*image).len();
    let kernels = (0..count).map(|index| {
        let source = image.source(index, Arc::clone(&symbols));
        let code = source.make_ready(Dim3::new(64, 1, 1), EngineChoice::Native);
        code.expect("compiles")
    });
    kernels.collect()
}

// Regression test: code with trusted addresses was compiled before the first launch of a checking run. The launch then
// compiled the code again without trust, which is the only code that a checked launch runs.
#[test]
fn checked_kernels_are_compiled_without_trusted_addresses() {
    for (accesses, barrier) in [
        (false, ""),
        (true, ""),
        (false, "bar.sync 0;"),
        (true, "bar.sync 0;"),
    ] {
        let request = Request {
            accesses,
            ..Request::default()
        };
        let text = format!(
            "{HEAD} .visible .entry k(.param .u64 p) {{ .reg .u64 %p; .reg .u32 %t; ld.param.u64 %p, [p]; \
             mov.u32 %t, %tid.x; st.global.u32 [%p], %t; {barrier} st.global.u32 [%p+4], %t; ret; }}"
        );
        let kernels = compiled_with(&text, request);
        let native = kernels[0].native.as_ref().expect("has native code");
        let all = [Specialisation::SINGLE, native.specialisation([64, 1, 1])];
        let has = |trusted: bool| {
            let mut all = all.iter().map(|code| code.trusted(trusted));
            all.any(|code| native.has_entry(code))
        };
        let trusts = environment::isolated() && !accesses;
        assert_eq!((has(false), has(true)), (!trusts, trusts), "{text}");
    }
}

// Regression test: each kernel had its own tables of all functions and all symbols of the module. Launches of 16,000
// kernels therefore needed more than 4 GB.
#[test]
fn kernels_share_their_tables() {
    const COUNT: usize = 100;
    let mut text = HEAD.to_owned();
    for i in 0..COUNT {
        write!(
            text,
            ".func f{i}(.param .b32 n) {{ .reg .b32 %n; .reg .pred %p; ld.param.u32 %n, [n]; \
             st.global.u32 [last], %n; setp.eq.u32 %p, %n, 0; @%p ret; sub.u32 %n, %n, 1; \
             {{ .param .b32 a; st.param.b32 [a], %n; call f{i}, (a); }} ret; }}\n\
             .visible .entry k{i}() {{ .shared .align 4 .b8 s{i}[64]; .reg .b32 %n; ld.shared.u32 %n, [s{i}]; \
             {{ .param .b32 a; st.param.b32 [a], %n; call f{i}, (a); }} ret; }}\n"
        )
        .expect("written");
    }
    let kernels = compiled(&text);
    assert_eq!(kernels.len(), COUNT);
    let mut tables = FxHashSet::default();
    for code in &kernels {
        let native = code.native.as_ref().expect("has native code");
        assert_eq!(native.functions.len(), 1, "{}", code.name);
        tables.insert(code.symbols.origin());
    }
    assert_eq!(tables.len(), 1);
}

// The variable `b` has offset 64 in the first kernel and offset 0 in the second.
#[test]
fn kernels_with_other_offsets_have_tables_of_their_own() {
    let text = format!(
        "{HEAD} .shared .align 4 .b8 a[64]; .shared .align 4 .b8 b[64]; \
         .visible .entry both() {{ .reg .b32 %n; ld.shared.u32 %n, [a]; st.shared.u32 [b], %n; ret; }} \
         .visible .entry second() {{ .reg .b32 %n; ld.shared.u32 %n, [b]; st.global.u32 [last], %n; ret; }} \
         .visible .entry first() {{ .reg .b32 %n; ld.shared.u32 %n, [a]; st.global.u32 [last], %n; ret; }}"
    );
    let kernels = compiled(&text);
    let [both, second, first] = kernels.as_slice() else {
        panic!("three kernels");
    };
    let address = |code: &KernelCode, name: &str| {
        let symbol = code.module.symbols_by_name[name];
        code.symbols.get(symbol)
    };
    assert_eq!(
        (address(both, "a"), address(both, "b")),
        (Some(0), Some(64))
    );
    assert_eq!(
        (address(first, "a"), address(first, "last")),
        (Some(0), Some(0x7000))
    );
    assert_eq!(
        (address(second, "b"), address(second, "last")),
        (Some(0), Some(0x7000))
    );
    assert_eq!(both.symbols.origin(), first.symbols.origin());
    assert_ne!(both.symbols.origin(), second.symbols.origin());
}
