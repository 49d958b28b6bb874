//! Classifies the values of the benchmarks' kernels by how they depend on the thread's coordinates, and checks how many
//! of the values that live across barriers can be computed again instead of being kept for each thread.
//!
//! `cargo test -p margay-frontend --test coordinates -- --nocapture` prints the numbers for each kernel.

use std::collections::BTreeMap;
use std::path::Path;

use margay_frontend::resolve::resolve;
use margay_frontend::{SourceFile, lower, parse};
use margay_ir::analysis::coordinates::{CtaClass, Shape};
use margay_ir::analysis::{Cfg, Coordinates, Regions};
use margay_ir::function::Function;
use margay_ir::pass::prepare;
use margay_ops::ops::Opcode;

/// Numbers of values of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counts {
    launch: u32,
    cta: u32,
    affine: u32,
    /// Affine values whose form has conditions.
    conditional: u32,
    varying: u32,
    /// Predicates that consist of guards.
    guards: u32,
    /// Values that are live across a barrier and are stored in the frame, for all barriers.
    live: u32,
    /// Those of `live` that are equal for all threads of the CTA.
    live_uniform: u32,
    /// Those of `live` that are affine and can be computed again.
    live_affine: u32,
    /// Those of `live` that a few instructions compute again for each thread.
    live_computed: u32,
}

fn counts(function: &Function) -> Counts {
    let cfg = Cfg::new(function);
    let coordinates = Coordinates::new(function, &cfg, Shape::of(function));
    let mut counts = Counts::default();
    for &block in cfg.rpo() {
        let insts = function.insts(block).iter();
        let results = insts.flat_map(|&inst| function.dfg.results(inst));
        for &value in function.dfg.blocks[block].params.iter().chain(results) {
            match coordinates.class(value) {
                CtaClass::Launch => counts.launch += 1,
                CtaClass::Cta => counts.cta += 1,
                CtaClass::Affine(form) => {
                    counts.affine += 1;
                    counts.conditional += u32::from(!form.is_unconditional());
                }
                CtaClass::Varying => counts.varying += 1,
            }
            counts.guards += u32::from(coordinates.predicate(value).is_some());
        }
    }
    for point in &Regions::new(function, &cfg).resume_points {
        let is_barrier = |inst| function.dfg.insts[inst].opcode == Opcode::Bar;
        if !point.sync_point.is_some_and(is_barrier) {
            continue;
        }
        for &value in &point.live_in {
            counts.live += 1;
            let recipe = coordinates.recomputable(function, value, point.block);
            match recipe.map(|recipe| (recipe.class, recipe.steps.is_empty())) {
                None => {}
                Some((CtaClass::Affine(_), true)) => counts.live_affine += 1,
                Some((_, true)) => counts.live_uniform += 1,
                Some((_, false)) => counts.live_computed += 1,
            }
        }
    }
    counts
}

/// Returns the numbers of each kernel of the benchmarks, by file and kernel.
fn benchmarks() -> BTreeMap<(String, String), Counts> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/cuda");
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "ptx") {
            continue;
        }
        let file = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let parsed = parse(SourceFile::new(file.clone(), text));
        let module = lower(&parsed, &resolve(&parsed)).unwrap();
        for (id, kernel) in module.kernels() {
            let function = prepare(&module, id, None);
            all.insert((file.clone(), kernel.name.clone()), counts(&function));
        }
    }
    all
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "launch {:3} cta {:3} affine {:3} ({:2} conditional) varying {:4} guards {:2}",
            self.launch, self.cta, self.affine, self.conditional, self.varying, self.guards
        )?;
        write!(
            f,
            "; live {:2}: uniform {} affine {} computed {}",
            self.live, self.live_uniform, self.live_affine, self.live_computed
        )
    }
}

#[test]
fn values_of_the_benchmarks_are_affine() {
    let all = benchmarks();
    for ((file, kernel), counts) in &all {
        println!("{:32} {counts}", format!("{file}/{kernel}"));
    }
    let of = |file: &str, kernel: &str| all[&(file.to_owned(), kernel.to_owned())];
    // In the loop over tiles, all indices and addresses are affine. Only the sum of each thread is kept, once for each
    // of the two barriers.
    let gemm = of("gemm_half", "gemm_half");
    let kept = gemm.live - gemm.live_uniform - gemm.live_affine - gemm.live_computed;
    assert_eq!((gemm.live, kept), (12, 2));
}
