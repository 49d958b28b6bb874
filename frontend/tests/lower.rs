//! Checks that every PTX program in `tests/cuda/ptx` is lowered without errors and without unsupported instructions.

use std::io::Read;
use std::path::Path;

use margay_frontend::resolve::resolve;
use margay_frontend::{SourceFile, lower, parse};
use margay_ir::function::split_symbol_payload;
use margay_ops::ops::Opcode;

fn text_of(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap();
    if path.extension().is_some_and(|e| e == "gz") {
        let mut text = String::new();
        flate2::read::GzDecoder::new(&bytes[..])
            .read_to_string(&mut text)
            .unwrap();
        text
    } else {
        String::from_utf8(bytes).unwrap()
    }
}

#[test]
fn checked_in_programs_lower() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cuda/ptx");
    let mut kernels = 0;
    let mut problems = Vec::new();
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let parsed = parse(SourceFile::new(name.clone(), text_of(&path)));
        problems.extend(parsed.diagnostics.iter().map(|d| d.summary(&parsed.source)));
        match lower(&parsed, &resolve(&parsed)) {
            Ok(module) => {
                kernels += module.kernels().count();
                for function in module.functions.values() {
                    for (line, what) in &function.unsupported {
                        problems.push(format!("{name}:{line}: {what} is left out"));
                    }
                }
            }
            Err(errors) => problems.extend(errors.iter().map(|d| d.summary(&parsed.source))),
        }
    }
    assert!(
        problems.is_empty(),
        "{} problems\n{}",
        problems.len(),
        problems.join("\n")
    );
    assert!(kernels > 80, "only {kernels} kernels");
}

/// Lowers a kernel with a quarter of a million statements, in which each guarded store has its own block and all
/// registers are live everywhere. The time to lower one basic block must not depend on the number
/// of blocks; otherwise this test takes very long.
#[test]
fn many_guarded_accesses_lower() {
    let mut text = String::from(
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 p) {\n\
         .reg .b32 %r<64>; .reg .b64 %rd; .reg .pred %p;\nld.param.u64 %rd, [p];\n",
    );
    const STORES: usize = 120_000;
    for i in 0..STORES {
        let (to, from) = (i % 64, (i + 7) % 64);
        text.push_str(&format!(
            "add.u32 %r{to}, %r{to}, %r{from};\n@%p st.global.u32 [%rd], %r{to};\n"
        ));
    }
    text.push_str("ret;\n}\n");
    let parsed = parse(SourceFile::new("long", text));
    let module = lower(&parsed, &resolve(&parsed)).expect("a valid module");
    let kernel = module.kernel("k").expect("the kernel");
    let stores = module.functions[kernel].blocks().iter().flat_map(|&block| {
        let function = &module.functions[kernel];
        function.layout.insts[block]
            .iter()
            .filter(|&&inst| function.dfg.insts[inst].desc().opcode == Opcode::St)
    });
    assert_eq!(stores.count(), STORES);
}

/// Regression test of CUB's test `MaxPotentialDynamicSmemBytes`: a variable that a body declares and that no instruction
/// names was missing in the static shared memory. `ptxas` reports the same variables for these functions.
#[test]
fn shared_variables_of_a_body_are_part_of_it() {
    let text = "
.version 7.0
.target sm_80
.address_size 64
.shared .align 4 .b8 outside[512];
.shared .align 4 .b8 used[64];
.func (.reg .b32 r) helper() { .shared .align 4 .b8 mine[256]; mov.u32 r, 5; ret; }
.entry unnamed() { .shared .align 1 .b8 memory[4096]; ret; }
.entry block() { .reg .pred %p; { .shared .align 8 .b8 inner[2048]; @%p ret; } ret; }
.entry none() { ret; }
.entry both() { .shared .b32 a; .shared .b32 b; .reg .b32 %r; ld.shared.u32 %r, [b]; ret; }
.entry outer() { .reg .b32 %r; ld.shared.u32 %r, [used]; call (%r), helper; ret; }";
    let parsed = parse(SourceFile::new("shared", text.to_owned()));
    let module = lower(&parsed, &resolve(&parsed)).expect("a valid module");
    let mut found = Vec::new();
    for function in module.functions.values() {
        let insts = function.blocks().iter().flat_map(|&b| function.insts(b));
        let data = insts.map(|&inst| &function.dfg.insts[inst]);
        let addresses = data.filter(|data| data.opcode == Opcode::SymbolAddr);
        let names = addresses.map(|data| {
            let (symbol, _) = split_symbol_payload(data.payload());
            module.symbols[symbol].name.as_str()
        });
        found.push((function.name.as_str(), names.collect::<Vec<_>>()));
    }
    found.sort_unstable();
    let expected = [
        ("block", vec!["inner"]),
        ("both", vec!["a", "b"]),
        ("helper", vec!["mine"]),
        ("none", vec![]),
        ("outer", vec!["used"]),
        ("unnamed", vec!["memory"]),
    ];
    assert_eq!(found, expected);
}
