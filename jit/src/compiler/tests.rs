//! Tests of the choice of the back end, and of the counts of its fallbacks. They do nothing on hosts without AVX2.

use margay_ir::entity::{Entity, FuncId};
use margay_ir::parse;

use super::*;

/// Returns a kernel that contains these lines, in which `v1` is an address.
fn kernel(lines: &str) -> CompiledKernel {
    let text = format!(
        "module version 8.0 target sm_80

fn0 = kernel @k registers 8 {{
  parameters 8
  parameter @p offset 0 size 8 align 8
block0:
  v0: b64 = param.addr.u64 0
  v1: b64 = ld.u64{{space:param}} v0
  v2: b32 = const.b32 0x0
{lines}  st.u32{{space:global}} v1, v2
  exit
}}
"
    );
    let module = parse::module(&text).expect("the IR of a kernel");
    CompiledKernel::new(&module, FuncId::new(0)).expect("a small kernel")
}

fn compiler() -> Option<Compiler> {
    let compiler = Compiler::new().expect("a code generator for this machine");
    let compiler = compiler.with_wide(Wide::Avx2);
    compiler.uses_wide().then_some(compiler)
}

/// A barrier that returns a count, which the vectoriser refuses, although the fast test of the operations accepts it.
const COUNTING: &str = "  v3: pred = const.pred 0x1
  v4: b32 = bar.u32{op:popc mode:red flag} v2, v2, v3
";

/// A volatile store, which the fast test refuses.
const VOLATILE: &str = "  st.u32{space:global order:volatile} v1, v2\n";

#[test]
fn a_refusal_of_the_wide_back_end_is_counted() {
    let Some(compiler) = compiler() else {
        return;
    };
    for (lines, refusals) in [("", 0), (COUNTING, 1), (VOLATILE, 1)] {
        let kernel = kernel(lines);
        let specialisation = Specialisation::of([64, 1, 1], kernel.widths(&compiler));
        let made = match kernel.has_sync_points() {
            true => kernel.phases(&compiler, specialisation),
            false => kernel.cta(&compiler, specialisation),
        };
        assert_eq!(made.expect("compiles").only_from_start, refusals == 0);
        let counted = kernel.fallbacks.all();
        let refused = counted
            .iter()
            .find(|(why, _)| *why == Fallback::WideRefused);
        assert_eq!(refused.map_or(0, |&(_, count)| count), refusals, "{lines}");
    }
}

#[test]
fn the_compile_budget_is_estimated_without_translating_the_kernel() {
    let Some(compiler) = compiler() else {
        return;
    };
    for (lines, is_exact) in [("", true), (COUNTING, false)] {
        let kernel = kernel(lines);
        let estimate = kernel.compile_budget(&compiler);
        assert!(kernel.known_widths(&compiler).is_none());
        assert!(kernel.widths.get().is_none(), "the kernel was translated");
        kernel.widths(&compiler);
        assert!(kernel.known_widths(&compiler).is_some());
        let exact = kernel.compile_budget(&compiler);
        assert_eq!(estimate == exact, is_exact, "{estimate:?}, {exact:?}");
    }
    // The widths of other code are known without a translation.
    assert!(kernel(VOLATILE).known_widths(&compiler).is_some());
}
