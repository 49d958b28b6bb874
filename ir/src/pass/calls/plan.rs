//! Decides whether the functions that a kernel calls must be merged into it, and finds these functions.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Body, MAX_INSTS, frame};
use crate::analysis::callees::{callees, with_handles};
use crate::entity::{FuncId, SigId, Value};
use crate::function::{Function, payload_sig};
use crate::module::Module;
use crate::pass::inline::Inlining;
use crate::pass::iterations::Acting;
use crate::pass::{prepare_within, sync_points};
use margay_ops::ops::Opcode;

/// Returns the functions that a kernel reaches, in ascending order of the number of calls on the shortest path from the
/// kernel; `None` if none of these functions has sync points.
///
/// # Errors
///
/// Returns the reason why the functions cannot be merged into the kernel.
pub(super) fn bodies(
    kernel: &Function,
    module: &Module,
    inline: &Inlining,
) -> Result<Option<Vec<Body>>, String> {
    let mut work = callees(module, kernel);
    if kernel.kernel.is_none() || work.is_empty() {
        return Ok(None);
    }
    let mut seen: FxHashSet<FuncId> = work.iter().copied().collect();
    let mut found: Vec<Body> = Vec::new();
    let mut next = 0;
    let mut waits = false;
    let mut size = insts(kernel);
    while let Some(&id) = work.get(next) {
        next += 1;
        if !module.functions.get(id).is_some_and(Function::has_body) {
            return Err("a call of a function without a body".into());
        }
        let function = prepare_within(module, id, inline, Some("waiting"));
        size += insts(&function);
        waits = waits || has_sync_points(&function, module);
        if size > MAX_INSTS && waits {
            return Err(format!(
                "calls of functions that may wait, of more than {MAX_INSTS} instructions together"
            ));
        }
        work.extend(
            callees(module, &function)
                .into_iter()
                .filter(|&id| seen.insert(id)),
        );
        found.push(Body {
            id,
            function,
            frame: 0,
        });
    }
    if !waits {
        return Ok(None);
    }
    let all = || found.iter().map(|body| &body.function).chain([kernel]);
    for function in all() {
        expressible(function)?;
    }
    let compared: usize = all().map(|function| compared(function, module)).sum();
    if compared > MAX_COMPARED {
        return Err(format!(
            "calls through handles that may reach functions which may wait: more than {MAX_COMPARED} possible targets, \
             counted at each call"
        ));
    }
    Ok(Some(found))
}

/// Maximum number of possible targets of calls through handles in a merged kernel, counted at each call. Each target
/// adds at most four blocks.
const MAX_COMPARED: usize = 10_000;

/// Returns the total number of functions that the calls through handles in `function` may reach. A function that
/// several of these calls may reach counts once for each of them.
fn compared(function: &Function, module: &Module) -> usize {
    let mut known: FxHashMap<SigId, usize> = FxHashMap::default();
    let insts = function.blocks().iter().flat_map(|&b| function.insts(b));
    insts
        .map(|&inst| &function.dfg.insts[inst])
        .filter(|data| data.opcode == Opcode::CallIndirect)
        .map(|data| {
            let id = payload_sig(data.payload());
            *known.entry(id).or_insert_with(|| {
                let signature = module.signatures.get(id);
                signature.map_or(0, |signature| with_handles(module, signature).count())
            })
        })
        .sum()
}

fn insts(function: &Function) -> usize {
    let blocks = function.blocks().iter();
    blocks.map(|&block| function.insts(block).len()).sum()
}

/// Returns whether threads may wait in a function.
fn has_sync_points(function: &Function, module: &Module) -> bool {
    let mut cut = function.clone();
    sync_points::run(&mut cut, module, &Acting::default());
    let mut insts = cut.blocks().iter().flat_map(|&block| cut.insts(block));
    insts.any(|&inst| cut.effects(inst).is_sync_point())
}

fn expressible(function: &Function) -> Result<(), String> {
    for &inst in function.blocks().iter().flat_map(|&b| function.insts(b)) {
        let opcode = function.dfg.insts[inst].opcode;
        if matches!(
            opcode,
            Opcode::Alloca | Opcode::StackSave | Opcode::StackRestore
        ) {
            return Err(format!(
                "{} together with calls of functions that may wait",
                opcode.name()
            ));
        }
        let mut results = function.dfg.results(inst).iter();
        if results.any(|&value: &Value| function.dfg.ty(value).lanes() != 1) {
            return Err("vectors together with calls of functions that may wait".into());
        }
    }
    let bytes = crate::analysis::slots::layout(function).1;
    if bytes > frame::MAX_SLOTS {
        return Err("too much local memory for calls of functions that may wait".into());
    }
    Ok(())
}
