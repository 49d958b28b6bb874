//! Tests the verifier. It must return no problem for a valid module. If a test changes a module so
//! that it violates an invariant, the verifier must return a problem with the violated rule and the
//! location.

use margay_ir::builder::FunctionBuilder;
use margay_ir::entity::{Block, Entity, FuncId, Inst, SigId, Slot, SymbolId, Value};
use margay_ir::function::{
    BlockCall, Function, KernelData, KernelParam, Linkage, Signature, SlotData, SourceLoc,
    ValueDef, symbol_payload,
};
use margay_ir::module::{Loc, Module, Reloc, RelocTarget, Symbol};
use margay_ir::pass;
use margay_ir::verify::{self, MAX_PROBLEMS, ProblemSite, Rule, Stage};
use margay_ops::meaning::Desc;
use margay_ops::mods::{CmpOp, Mods, Rounding, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use margay_ops::types::{OpType, Type};

fn desc(opcode: Opcode, ty: OpType, mods: Mods) -> Desc {
    Desc {
        opcode,
        ty,
        src: OpType::None,
        mods,
    }
}

/// Returns a valid module with a function `add_one` and a kernel. The kernel counts `%tid.x` down in a loop with a
/// barrier, and then calls the function.
///
/// The kernel has three blocks: the entry, the loop (with one parameter) and the end.
fn sound() -> (Module, FuncId) {
    let mut module = Module {
        files: vec!["a.cu".into()],
        ..Module::default()
    };
    module.locs.push(Loc {
        file: 0,
        line: 3,
        column: 1,
        inlined_at: None,
    });
    let unary = Signature {
        params: vec![Type::B32],
        returns: vec![Type::B32],
    };
    module.signatures.push(unary.clone());
    let mut b = FunctionBuilder::new(Function {
        name: "add_one".into(),
        signature: unary,
        ..Function::default()
    });
    let param = b.function.dfg.blocks[b.function.entry()].params[0];
    let one = b.constant(Type::B32, 1);
    let sum = b.simple(Opcode::Add, OpType::U32, &[param, one]);
    b.end(Opcode::Ret, &[sum]);
    let callee = module.add_function(b.finish());
    module.add_symbol(Symbol {
        name: "table".into(),
        space: StateSpace::Global,
        size: 16,
        align: 8,
        init: vec![1, 2, 3],
        relocs: vec![Reloc {
            offset: 8,
            size: 8,
            shift: 0,
            target: RelocTarget::Func(callee),
            addend: 0,
        }],
        linkage: Linkage::Visible,
        managed: false,
        owner: None,
        reference: None,
    });
    let kernel = kernel(callee);
    let id = module.add_function(kernel);
    (module, id)
}

fn kernel(callee: FuncId) -> Function {
    let data = KernelData {
        params: vec![KernelParam {
            name: "p".into(),
            offset: 0,
            size: 8,
            align: 8,
        }],
        param_bytes: 8,
        ..KernelData::default()
    };
    let mut b = FunctionBuilder::new(Function {
        name: "k".into(),
        kernel: Some(data),
        ..Function::default()
    });
    b.set_loc(SourceLoc {
        ptx_line: 5,
        loc: 1,
    });
    let slot = b.slot(SlotData {
        name: "buffer".into(),
        size: 8,
        align: 4,
    });
    let counter = b.declare(Type::B32);
    let (turn, done) = (b.create_block(), b.create_block());
    let tid = b.sreg(SpecialReg::TidX);
    b.write(counter, tid);
    b.jump(turn);
    b.switch_to(turn);
    let (old, one, zero) = (
        b.read(counter),
        b.constant(Type::B32, 1),
        b.constant(Type::B32, 0),
    );
    let new = b.simple(Opcode::Sub, OpType::U32, &[old, one]);
    b.write(counter, new);
    b.inst(desc(Opcode::BarWarp, OpType::None, Mods::NONE), &[one], &[]);
    let greater = desc(Opcode::Setp, OpType::U32, Mods::NONE.with_cmp(CmpOp::Gt));
    let more = b.op(greater, &[new, zero], Type::PRED);
    b.brif(more, turn, done);
    b.switch_to(done);
    let last = b.read(counter);
    let call = desc(Opcode::Call, OpType::None, Mods(u64::from(callee.0)));
    let called = b.inst(call, &[last], &[Type::B32]);
    let result = b.function.dfg.results(called)[0];
    let address = b.payload(Opcode::LocalAddr, OpType::U64, u64::from(slot.0), Type::B64);
    let local = Mods::NONE.with_space(StateSpace::Local);
    b.inst(
        desc(Opcode::St, OpType::U32, local),
        &[address, result],
        &[],
    );
    b.payload(
        Opcode::SymbolAddr,
        OpType::U64,
        symbol_payload(SymbolId(0), 4),
        Type::B64,
    );
    b.payload(Opcode::ParamAddr, OpType::U64, 0, Type::B64);
    b.end(Opcode::Exit, &[]);
    b.finish()
}

/// Returns the first instruction with the opcode `opcode` in a function.
fn find(function: &Function, opcode: Opcode) -> Inst {
    let all = function.blocks().iter().flat_map(|&b| function.insts(b));
    all.copied()
        .find(|&inst| function.dfg.insts[inst].opcode == opcode)
        .unwrap()
}

/// Applies `break_it` to the valid kernel, and checks that the verifier reports a problem of `rule` at `place`. Also
/// checks that verifying the kernel and the whole module does not panic.
fn broken(rule: Rule, place: impl Fn(&Function) -> ProblemSite, break_it: impl Fn(&mut Function)) {
    broken_at(Stage::Lowered, rule, place, break_it);
}

fn broken_at(
    stage: Stage,
    rule: Rule,
    place: impl Fn(&Function) -> ProblemSite,
    break_it: impl Fn(&mut Function),
) {
    let (mut module, id) = sound();
    if stage == Stage::Cut {
        let cut = pass::prepare(&module, id, None);
        assert_eq!(verify::function(&module, &cut, stage), []);
        module.functions[id] = cut;
    }
    break_it(&mut module.functions[id]);
    let function = &module.functions[id];
    let place = place(function);
    let problems = verify::function(&module, function, stage);
    assert!(
        problems.iter().any(|p| p.rule == rule && p.place == place),
        "no {rule:?} at {place:?} in {problems:?}"
    );
    assert!(!verify::module(&module).is_empty() || stage == Stage::Cut);
}

fn at(opcode: Opcode) -> impl Fn(&Function) -> ProblemSite {
    move |f| ProblemSite::Inst(find(f, opcode))
}

fn at_block(index: usize) -> impl Fn(&Function) -> ProblemSite {
    move |f| ProblemSite::Block(f.blocks()[index])
}

#[test]
fn a_sound_module_has_no_problem() {
    let (module, id) = sound();
    assert_eq!(verify::module(&module), []);
    pass::prepare_watched(&module, id, None, |pass, _, function| {
        let problems = verify::function(&module, function, pass.stage);
        assert_eq!(problems, [], "behind {}", pass.name);
    });
}

#[test]
fn references_lead_somewhere() {
    use Rule::Structure;
    let ghost = Block::new(1 << 30);
    broken(
        Structure,
        |_| ProblemSite::Block(ghost),
        |f| f.layout.order.push(ghost),
    );
    let ghost_inst = Inst::new(1 << 30);
    broken(
        Structure,
        |_| ProblemSite::Inst(ghost_inst),
        |f| {
            let block = f.blocks()[1];
            f.layout.insts[block].insert(0, ghost_inst);
        },
    );
    broken(Structure, at(Opcode::Sub), |f| {
        let list = f.dfg.insts[find(f, Opcode::Sub)].args;
        f.dfg.pool.get_mut(list)[0] = Value(u32::MAX);
    });
    broken(Structure, at(Opcode::Sub), |f| {
        let inst = find(f, Opcode::Sub);
        // An argument list that belongs to another, larger pool.
        let mut other = f.dfg.pool.clone();
        for _ in 0..100 {
            other.push(&[Value(0)]);
        }
        f.dfg.insts[inst].args = other.push(&[Value(0)]);
    });
    broken(Structure, at(Opcode::Brif), |f| {
        let inst = find(f, Opcode::Brif);
        f.dfg.targets.get_mut(&inst).unwrap()[0].block = ghost;
    });
    broken(Structure, at(Opcode::Brif), |f| {
        let inst = find(f, Opcode::Brif);
        f.dfg.targets.get_mut(&inst).unwrap()[0].args[0] = Value(1 << 30);
    });
    broken(Structure, at_block(1), |f| {
        let block = f.blocks()[1];
        f.dfg.blocks[block].params.push(Value(1 << 30));
    });
}

#[test]
fn the_layout_holds_everything_once() {
    use Rule::Structure;
    broken(Structure, at_block(1), |f| {
        let block = f.blocks()[1];
        f.layout.order.push(block);
    });
    broken(Structure, at(Opcode::Sub), |f| {
        let (inst, block) = (find(f, Opcode::Sub), f.blocks()[1]);
        f.layout.insts[block].insert(0, inst);
    });
    broken(Structure, at_block(2), |f| {
        let block = f.blocks()[2];
        f.layout.insts[block].clear();
    });
}

#[test]
fn blocks_end_with_their_only_terminator() {
    use Rule::Structure;
    broken(Structure, at(Opcode::ParamAddr), |f| {
        let block = f.blocks()[2];
        f.layout.insts[block].pop();
    });
    broken(Structure, at(Opcode::Exit), |f| {
        let block = f.blocks()[2];
        f.layout.insts[block].rotate_right(1);
    });
    broken(Structure, at(Opcode::Brif), |f| {
        let inst = find(f, Opcode::Brif);
        f.dfg.targets.get_mut(&inst).unwrap().pop();
    });
    broken(Structure, at(Opcode::Exit), |f| {
        let (inst, block) = (find(f, Opcode::Exit), f.blocks()[2]);
        let call = smallvec::smallvec![BlockCall::to(block)];
        f.dfg.targets.insert(inst, call);
    });
}

#[test]
fn the_entry_is_nobodys_target_and_takes_the_parameters() {
    broken(Rule::Structure, at(Opcode::Jump), |f| {
        let (inst, entry) = (find(f, Opcode::Jump), f.entry());
        f.dfg.targets.get_mut(&inst).unwrap()[0] = BlockCall::to(entry);
    });
    broken(Rule::Structure, at_block(0), |f| {
        let entry = f.entry();
        f.dfg.append_param(entry, Type::B32);
    });
}

#[test]
fn values_know_where_they_come_from() {
    let param = |f: &Function| ProblemSite::Value(f.dfg.blocks[f.blocks()[1]].params[0]);
    broken(Rule::Value, param, |f| {
        let block = f.blocks()[1];
        let param = f.dfg.blocks[block].params[0];
        f.dfg.values[param].def = ValueDef::Param(block, 7);
    });
    broken(Rule::Value, at(Opcode::Call), |f| {
        let list = f.dfg.insts[find(f, Opcode::Call)].args;
        let old = f.dfg.pool.get(list)[0];
        let alias = f.dfg.values.push(margay_ir::function::ValueData {
            ty: Type::B32,
            def: ValueDef::Alias(old),
        });
        f.dfg.pool.get_mut(list)[0] = alias;
    });
    broken(Rule::Value, at(Opcode::Call), |f| {
        let list = f.dfg.insts[find(f, Opcode::Call)].args;
        let pending = f.dfg.values.push(margay_ir::function::ValueData {
            ty: Type::B32,
            def: ValueDef::Pending,
        });
        f.dfg.pool.get_mut(list)[0] = pending;
    });
    // The definition is removed, and the use stays.
    broken(Rule::Value, at(Opcode::St), |f| {
        let (inst, block) = (find(f, Opcode::LocalAddr), f.blocks()[2]);
        f.layout.insts[block].retain(|&i| i != inst);
    });
}

#[test]
fn definitions_dominate_uses() {
    // In one block: a value is used before its definition.
    broken(Rule::Dominance, at(Opcode::St), |f| {
        let (inst, block) = (find(f, Opcode::St), f.blocks()[2]);
        f.layout.insts[block].retain(|&i| i != inst);
        f.layout.insts[block].insert(0, inst);
    });
    // Across blocks: the loop uses a value that the end block defines.
    broken(Rule::Dominance, at(Opcode::Sub), |f| {
        let result = f.dfg.results(find(f, Opcode::Call))[0];
        let list = f.dfg.insts[find(f, Opcode::Sub)].args;
        f.dfg.pool.get_mut(list)[1] = result;
    });
}

#[test]
fn branches_pass_what_targets_take() {
    broken(Rule::Argument, at(Opcode::Brif), |f| {
        let inst = find(f, Opcode::Brif);
        f.dfg.targets.get_mut(&inst).unwrap()[0].args.clear();
    });
    broken(Rule::Argument, at(Opcode::Brif), |f| {
        let inst = find(f, Opcode::Brif);
        let pred = f.dfg.args(inst)[0];
        f.dfg.targets.get_mut(&inst).unwrap()[0].args[0] = pred;
    });
}

#[test]
fn instructions_have_the_shape_of_their_op() {
    let retype = |ty: OpType| {
        move |f: &mut Function| {
            let inst = find(f, Opcode::Sub);
            f.dfg.insts[inst].ty = ty;
        }
    };
    broken(Rule::Type, at(Opcode::Sub), retype(OpType::E4M3));
    broken(Rule::Type, at(Opcode::Sub), retype(OpType::None));
    broken(Rule::Operand, at(Opcode::Sub), retype(OpType::U64));
    broken(Rule::Result, at(Opcode::Sub), retype(OpType::F32));
    broken(Rule::Type, at(Opcode::Sub), |f| {
        let inst = find(f, Opcode::Sub);
        f.dfg.insts[inst].src = OpType::U32;
    });
    broken(Rule::Operand, at(Opcode::Sub), |f| {
        let inst = find(f, Opcode::Sub);
        f.dfg.insts[inst].args = Default::default();
    });
    broken(Rule::Operand, at(Opcode::Brif), |f| {
        let tid = f.dfg.results(find(f, Opcode::SReg))[0];
        let list = f.dfg.insts[find(f, Opcode::Brif)].args;
        f.dfg.pool.get_mut(list)[0] = tid;
    });
    // The instruction has no carry result, although with `.cc` it must have one.
    broken(Rule::Result, at(Opcode::Sub), |f| {
        let inst = find(f, Opcode::Sub);
        f.dfg.insts[inst].mods = Mods::NONE.with_carry_out(true);
    });
}

#[test]
fn modifiers_are_those_of_the_op() {
    broken(Rule::Modifier, at(Opcode::Setp), |f| {
        let inst = find(f, Opcode::Setp);
        f.dfg.insts[inst].mods = Mods::NONE.with_rounding(Rounding::Rn);
    });
    broken(Rule::Modifier, at(Opcode::Setp), |f| {
        let inst = find(f, Opcode::Setp);
        f.dfg.insts[inst].mods = Mods(1 << 63);
    });
}

#[test]
fn payloads_name_what_exists() {
    let set = |opcode: Opcode, payload: u64| {
        move |f: &mut Function| {
            let inst = find(f, opcode);
            f.dfg.insts[inst].mods = Mods(payload);
        }
    };
    for (opcode, payload) in [
        (Opcode::Const, 1 << 32),
        (Opcode::LocalAddr, 1),
        (Opcode::LocalAddr, 1 << 32),
        (Opcode::SymbolAddr, symbol_payload(SymbolId(1), 0)),
        (Opcode::Call, 9),
        (Opcode::SReg, 10_000),
        (Opcode::SReg, SpecialReg::Clock as u64),
    ] {
        broken(Rule::Payload, at(opcode), set(opcode, payload));
    }
    broken(
        Rule::Type,
        at(Opcode::SReg),
        set(Opcode::SReg, SpecialReg::Gridid as u64),
    );
    let become_op = |opcode: Opcode, payload: u64| {
        move |f: &mut Function| {
            let inst = find(f, Opcode::Call);
            f.dfg.insts[inst].opcode = opcode;
            f.dfg.insts[inst].mods = Mods(payload);
        }
    };
    for opcode in [Opcode::CallIndirect, Opcode::Syscall, Opcode::FuncAddr] {
        broken(Rule::Payload, at(opcode), become_op(opcode, 99));
    }
    // Only kernels have kernel parameters.
    broken(Rule::Payload, at(Opcode::ParamAddr), |f| f.kernel = None);
}

#[test]
fn calls_and_returns_agree_with_signatures() {
    broken(Rule::Call, at(Opcode::Call), |f| {
        let inst = find(f, Opcode::Call);
        f.dfg.insts[inst].args = Default::default();
    });
    broken(Rule::Call, at(Opcode::Call), |f| {
        let inst = find(f, Opcode::Call);
        f.dfg.results[inst] = Default::default();
    });
    // The call is changed to a call of the kernel itself.
    broken(Rule::Call, at(Opcode::Call), |f| {
        let inst = find(f, Opcode::Call);
        f.dfg.insts[inst].mods = Mods(1);
    });
    broken(Rule::Call, at(Opcode::Ret), |f| {
        let inst = find(f, Opcode::Exit);
        f.dfg.insts[inst].opcode = Opcode::Ret;
    });
    // A call through a handle whose operands are only the argument, without the handle.
    broken(Rule::Call, at(Opcode::CallIndirect), |f| {
        let inst = find(f, Opcode::Call);
        f.dfg.insts[inst].opcode = Opcode::CallIndirect;
        f.dfg.insts[inst].mods = Mods(u64::from(SigId(0).0));
    });
    // The operands of `ret` must match the signature of the function.
    let (mut module, _) = sound();
    let callee = &mut module.functions[FuncId(0)];
    let inst = find(callee, Opcode::Ret);
    callee.dfg.insts[inst].args = Default::default();
    let problems = verify::module(&module);
    assert!(
        problems
            .iter()
            .any(|p| p.rule == Rule::Call && p.function == Some(FuncId(0)))
    );
}

#[test]
fn sync_points_stand_alone_after_the_pass() {
    // Without the pass `sync-points`, the sync point is in the middle of its block.
    let (module, id) = sound();
    let problems = verify::function(&module, &module.functions[id], Stage::Cut);
    assert!(problems.iter().all(|p| p.rule == Rule::SyncPoint));
    assert_eq!(problems.len(), 1);
    // The jump after the sync point is replaced by another terminator.
    broken_at(Stage::Cut, Rule::SyncPoint, at(Opcode::BarWarp), |f| {
        let jump = after_sync_point(f);
        f.dfg.insts[jump].opcode = Opcode::Exit;
        f.dfg.targets.remove(&jump);
    });
    // The block after the sync point has a parameter.
    broken_at(Stage::Cut, Rule::SyncPoint, at(Opcode::BarWarp), |f| {
        let jump = after_sync_point(f);
        let next = f.dfg.targets(jump)[0].block;
        let tid = f.dfg.results(find(f, Opcode::SReg))[0];
        f.dfg.append_param(next, Type::B32);
        f.dfg.targets.get_mut(&jump).unwrap()[0].args.push(tid);
    });
    // Another branch also leads to the block after the sync point.
    broken_at(Stage::Cut, Rule::SyncPoint, at(Opcode::BarWarp), |f| {
        let next = f.dfg.targets(after_sync_point(f))[0].block;
        let brif = find(f, Opcode::Brif);
        f.dfg.targets.get_mut(&brif).unwrap()[1] = BlockCall::to(next);
    });
}

fn after_sync_point(f: &Function) -> Inst {
    let sync_point = find(f, Opcode::BarWarp);
    let block = f
        .blocks()
        .iter()
        .find(|&&b| f.insts(b).contains(&sync_point));
    *f.insts(*block.unwrap()).last().unwrap()
}

#[test]
fn slots_and_source_positions_are_sound() {
    broken(
        Rule::Slot,
        |_| ProblemSite::Slot(Slot(0)),
        |f| f.slots[Slot(0)].align = 3,
    );
    broken(Rule::Source, at(Opcode::Sub), |f| {
        let inst = find(f, Opcode::Sub);
        f.dfg.locs[inst].loc = 2;
    });
}

#[test]
fn kernel_parameters_lie_in_their_buffer() {
    let kernel =
        |change: fn(&mut KernelData)| move |f: &mut Function| change(f.kernel.as_mut().unwrap());
    let function = |_: &Function| ProblemSite::Function;
    broken(Rule::Module, function, kernel(|k| k.param_bytes = 4));
    broken(Rule::Module, function, kernel(|k| k.params[0].align = 0));
    broken(
        Rule::Module,
        function,
        kernel(|k| k.params[0].offset = u32::MAX),
    );
    broken(
        Rule::Module,
        function,
        kernel(|k| {
            let first = k.params[0].clone();
            k.params.push(first);
        }),
    );
    broken(Rule::Module, function, |f| {
        f.signature.params.push(Type::B32);
    });
}

fn broken_module(rule: Rule, place: ProblemSite, break_it: impl Fn(&mut Module)) {
    let (mut module, _) = sound();
    break_it(&mut module);
    let problems = verify::module(&module);
    assert!(
        problems.iter().any(|p| p.rule == rule && p.place == place),
        "{problems:?}"
    );
}

#[test]
fn variables_are_sound() {
    let table = ProblemSite::Symbol(SymbolId(0));
    let changes: [fn(&mut Symbol); 8] = [
        |s| s.space = StateSpace::Local,
        |s| s.align = 0,
        |s| s.init = vec![0; 17],
        |s| s.owner = Some(FuncId(5)),
        |s| s.relocs[0].offset = 9,
        |s| s.relocs[0].offset = u64::MAX,
        |s| s.relocs[0].size = 9,
        |s| s.relocs[0].target = RelocTarget::Func(FuncId(77)),
    ];
    for change in changes {
        broken_module(Rule::Module, table, |m| {
            change(&mut m.symbols[SymbolId(0)]);
        });
    }
    broken_module(Rule::Module, table, |m| {
        m.symbols[SymbolId(0)].relocs[0].target = RelocTarget::Symbol {
            symbol: SymbolId(7),
            generic: true,
        };
    });
}

#[test]
fn tables_of_the_module_are_sound() {
    broken_module(Rule::Source, ProblemSite::Module, |m| m.locs[0].file = 1);
    broken_module(Rule::Source, ProblemSite::Module, |m| {
        m.locs[0].inlined_at = Some(0);
    });
    broken_module(Rule::Module, ProblemSite::Module, |m| {
        m.by_name.insert("other".into(), FuncId(0));
    });
    broken_module(Rule::Module, ProblemSite::Module, |m| {
        m.symbols_by_name.insert("other".into(), SymbolId(3));
    });
}

#[test]
fn many_problems_are_reported_but_not_without_end() {
    let (mut module, id) = sound();
    for _ in 0..1000 {
        module.locs.push(Loc {
            file: 9,
            line: 0,
            column: 0,
            inlined_at: None,
        });
    }
    assert_eq!(verify::module(&module).len(), MAX_PROBLEMS);
    let function = &mut module.functions[id];
    for opcode in [Opcode::Sub, Opcode::Setp] {
        let inst = find(function, opcode);
        function.dfg.insts[inst].ty = OpType::E4M3;
    }
    let problems = verify::function(&module, &module.functions[id], Stage::Lowered);
    let of_type = problems.iter().filter(|p| p.rule == Rule::Type).count();
    assert_eq!(of_type, 2);
    let text = problems[0].to_string();
    assert!(text.contains("`sub` has no type e4m3"), "{text}");
}

/// Problems of structure are found after [`MAX_PROBLEMS`] other problems, too: the checks that follow would index
/// missing entities.
#[test]
fn many_problems_do_not_hide_a_problem_of_structure() {
    let (module, id) = sound();
    let mut function = module.functions[id].clone();
    for _ in 0..MAX_PROBLEMS {
        function.slots.push(SlotData {
            name: "crooked".into(),
            size: 4,
            align: 3,
        });
    }
    let sub = find(&function, Opcode::Sub);
    let list = function.dfg.insts[sub].args;
    function.dfg.pool.get_mut(list)[0] = Value(u32::MAX);
    let problems = verify::function(&module, &function, Stage::Lowered);
    assert_eq!(problems.len(), MAX_PROBLEMS);
    assert!(problems.iter().all(|problem| problem.rule == Rule::Slot));
}
