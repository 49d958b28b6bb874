//! Compares the comments that an analysis adds to a listing with those of a text.

use margay_ir::function::Function;
use margay_ir::module::Module;
use margay_ir::parse;
use margay_ir::print::Notes;
use margay_ir::verify::{self, Stage};

/// Returns a kernel with the blocks `body`, which must be valid.
pub(crate) fn kernel(parameters: u32, body: &str) -> Function {
    let text = format!("kernel @k {{\n  parameters {parameters}\n{body}\n}}");
    let function = parse::function(&text).unwrap();
    let problems = verify::function(&Module::default(), &function, Stage::Lowered);
    assert_eq!(problems, []);
    function
}

/// Compares the notes of a function's blocks and instructions with the comments `// ...` in the text of the blocks.
pub(crate) fn compare(function: &Function, notes: &impl Notes, body: &str) {
    let mut wanted = body.lines().filter(|line| !line.trim().is_empty());
    let mut check = |found: Option<String>| {
        let line = wanted.next().unwrap_or_default();
        if let Some((code, wanted)) = line.split_once("//") {
            assert_eq!(found.as_deref(), Some(wanted.trim()), "{code}");
        }
    };
    for &block in function.blocks() {
        check(notes.block(block));
        for &inst in function.insts(block) {
            check(notes.inst(inst));
        }
    }
}
