//! Functions in LTO-IR that only PTX inputs of a link call.
//!
//! NVIDIA's linker translates LTO-IR to PTX without the PTX inputs, so it removes the functions that no kernel in LTO-IR
//! calls. This module therefore gives it one kernel more, which takes the addresses of the functions that the PTX inputs
//! call. NVRTC compiles this kernel to LTO-IR. Afterwards this module removes the kernel from the translated PTX and
//! makes the functions visible to the other inputs.

use std::ffi::{CString, c_int};

use margay_frontend::ast::{FunctionKind, Linkage, Module};
use margay_frontend::{SourceFile, parse};

use super::super::nvrtc;

/// The name of the additional kernel.
const KERNEL: &str = "__margay_link_references";

/// Functions of the driver and names that NVRTC declares itself.
const BUILT_IN: [&str; 4] = ["vprintf", "malloc", "free", "__assertfail"];

/// Returns the names of the functions that `texts` declare as external and do not define.
pub(super) fn undefined(texts: &[Vec<u8>]) -> Vec<String> {
    let mut declared: Vec<String> = Vec::new();
    let mut defined = Vec::new();
    for text in texts {
        let parsed = parse(SourceFile::from_bytes("input", text));
        for (_, function) in parsed.module.functions() {
            let name = parsed.module.text(function.name.name).to_owned();
            match (function.linkage, &function.body) {
                (Linkage::Extern, None) => declared.push(name),
                (Linkage::Visible | Linkage::Weak, Some(_)) => defined.push(name),
                _ => {}
            }
        }
    }
    declared.sort_unstable();
    declared.dedup();
    let outside = |name: &String| {
        !defined.contains(name)
            && !BUILT_IN.contains(&name.as_str())
            && !name.starts_with("cuda")
            && !name.starts_with("__cuda")
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    declared.retain(outside);
    declared
}

/// Returns LTO-IR with a kernel that refers to `functions`, for the architecture `sm`. `major` is the major version of
/// NVIDIA's linker. Returns the reason as text if NVRTC is not available or fails.
pub(super) fn references(functions: &[String], sm: u32, major: c_int) -> Result<Vec<u8>, String> {
    let mut source = String::new();
    for name in functions {
        source += &format!("extern \"C\" __device__ void {name}();\n");
    }
    source += &format!("extern \"C\" __global__ void {KERNEL}(void **out) {{\n");
    for (index, name) in functions.iter().enumerate() {
        source += &format!("  out[{index}] = (void *)&{name};\n");
    }
    source += "}\n";
    let source = CString::new(source).map_err(|_| "a name contains NUL".to_owned())?;
    nvrtc::link_time_code(&source, sm, major)
}

/// Removes from `ptx` the kernel of [`references`] and the declarations that it caused, and makes `functions` visible.
pub(super) fn finish(ptx: &str, functions: &[String]) -> String {
    let parsed = parse(SourceFile::new("link-time code", ptx));
    let module: &Module = &parsed.module;
    let mut finished = String::with_capacity(ptx.len());
    let mut at = 0;
    for (_, function) in module.functions() {
        let name = module.text(function.name.name);
        let is_ours = function.kind == FunctionKind::Entry && name == KERNEL;
        let wanted = functions.iter().any(|function| function == name);
        let start = function.span.start as usize;
        let end = function.whole.end as usize;
        // Besides the declaration, only the kernel of this module contains the name.
        let is_unused = || function.body.is_none() && ptx.matches(name).count() <= 2;
        if is_ours || (wanted && is_unused()) {
            finished += &ptx[at..start];
            // A declaration ends with a semicolon, which its source range can leave out.
            let rest = &ptx[end..];
            let blank = rest.len() - rest.trim_start().len();
            at = match rest[blank..].starts_with(';') {
                true => end + blank + 1,
                false => end,
            };
        } else if wanted && function.body.is_some() && function.linkage == Linkage::Internal {
            finished += &ptx[at..start];
            finished += ".visible ";
            at = start;
        }
    }
    finished += &ptx[at..];
    finished
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .extern .func (.param .b32 r) f (.param .b32 a);\n.extern .func g ();\n\
        .extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n\
        .visible .func g () { ret; }\n.visible .entry k() { call.uni g; ret; }\n";

    #[test]
    fn functions_that_no_input_defines_are_found() {
        let texts = [CALLER.as_bytes().to_vec()];
        assert_eq!(undefined(&texts), ["f"]);
    }

    #[test]
    fn the_kernel_goes_and_the_functions_become_visible() {
        let ptx = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.extern .func h\n()\n;\n\
             .func  (.param .b32 r) f(\n\t.param .b32 a\n)\n{{\n\tret;\n}}\n\
             .func other()\n{{\n\tret;\n}}\n\
             .visible .entry {KERNEL}(\n\t.param .u64 p\n)\n{{\n\tret;\n}}\n"
        );
        let finished = finish(&ptx, &["f".to_owned(), "h".to_owned()]);
        let expected = ".version 8.0\n.target sm_80\n.address_size 64\n\n\
             .visible .func  (.param .b32 r) f(\n\t.param .b32 a\n)\n{\n\tret;\n}\n\
             .func other()\n{\n\tret;\n}\n\n";
        assert_eq!(finished, expected);
    }
}
