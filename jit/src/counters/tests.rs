//! Tests, on functions written as text, which events generated code counts, and in which words.

use margay_ir::parse;
use margay_ir::pass::instrument;
use margay_ops::mods::Mode;

use super::*;

const SPACES: [StateSpace; 2] = [StateSpace::Global, StateSpace::Shared];

fn counted() -> Selection {
    let modes = [AccessMode::Load, AccessMode::Store];
    let mut selection = Selection::default()
        .with_accesses(&SPACES, &modes)
        .with_counted(&SPACES);
    selection.instruction_runs = true;
    selection.synchronisation = true;
    selection.counts_runs = true;
    selection.counts_warps = true;
    selection.whole_warps = true;
    selection
}

/// Returns the counters of a kernel with this body, with the accesses that `selection` contains.
fn counters(body: &str, selection: Selection) -> (Function, Counters) {
    let text = format!("kernel @k {{\n  parameters 16\n{body}\n}}");
    let mut function = parse::function(&text).expect("the text is correct");
    let request = instrument::Request {
        selection,
        ..instrument::Request::default()
    };
    instrument::run(&mut function, request);
    let counters = Counters::of(&function, selection);
    (function, counters)
}

fn run_at(first: u32, count: u32) -> u64 {
    let function = 3;
    ObservedEvent::InstructionRun {
        function,
        first,
        count,
    }
    .to_payload()
}

/// Returns how the operations of a function with this op are counted, in order.
fn all_counted(function: &Function, counters: &Counters, opcode: Opcode) -> Vec<Option<Counted>> {
    let blocks = function.blocks().iter();
    let insts = blocks.flat_map(|&block| function.insts(block));
    insts
        .filter(|&&inst| function.dfg.insts[inst].opcode == opcode)
        .map(|&inst| counters.get(inst))
        .collect()
}

/// A body with runs of 4 and 2 instructions, a barrier of the warp, and a run of 1 instruction.
fn three_runs() -> String {
    format!(
        "block0:
  observe.event {}
  observe.event {}
  v0: b32 = const.b32 0xffffffff
  bar.warp.sync v0
  observe.event {}
  exit",
        run_at(0, 4),
        run_at(4, 2),
        run_at(7, 1)
    )
}

#[test]
fn the_first_run_counts_the_instructions_up_to_a_barrier() {
    let (function, counters) = counters(&three_runs(), counted());
    let first = RUNS;
    let run = |index: usize, instructions| {
        let at = first + RUN_WORDS * index;
        Some(Counted::Run { at, instructions })
    };
    let events = all_counted(&function, &counters, Opcode::ObserveEvent);
    let runs: Vec<_> = events.into_iter().flatten().map(Some).collect();
    assert_eq!(runs, [run(0, 6), run(1, 0), run(2, 1)]);
    let payloads: Vec<_> = counters.runs().map(|(at, run)| (at, run.payload)).collect();
    let expected = [
        (first, run_at(0, 4)),
        (first + 5, run_at(4, 2)),
        (first + 10, run_at(7, 1)),
    ];
    assert_eq!(payloads, expected);
    assert_eq!(counters.words(), 32 + 3 * 5);
    assert!(counters.counts_warps());
}

#[test]
fn the_report_of_a_barrier_ends_the_runs_in_front_of_it() {
    let synchronisation = ObservedEvent::Synchronisation {
        opcode: Opcode::BarWarp,
        mode: Mode::None,
    };
    let body = format!(
        "block0:
  observe.event {}
  observe.event {}
  observe.event {}
  exit",
        run_at(0, 4),
        synchronisation.to_payload(),
        run_at(5, 2)
    );
    let (function, counters) = counters(&body, counted());
    let steps = all_counted(&function, &counters, Opcode::ObserveEvent)
        .into_iter()
        .map(|counted| match counted {
            Some(Counted::Run { instructions, .. }) => Some(instructions),
            _ => None,
        });
    assert_eq!(steps.collect::<Vec<_>>(), [Some(4), None, Some(2)]);
}

#[test]
fn equal_runs_share_their_words() {
    let body = format!(
        "block0:
  observe.event {0}
  jump block1
block1:
  observe.event {0}
  exit",
        run_at(0, 4)
    );
    let (function, counters) = counters(&body, counted());
    let both = all_counted(&function, &counters, Opcode::ObserveEvent);
    let expected = Some(Counted::Run {
        at: RUNS,
        instructions: 4,
    });
    assert_eq!(both, [expected, expected]);
    assert_eq!(counters.runs().count(), 1);
}

#[test]
fn nothing_is_counted_without_a_request() {
    let mut selection = counted();
    selection.counts_runs = false;
    let (_, runs) = counters(&three_runs(), selection);
    assert_eq!(runs.words(), 0);
    let mut partial = counted();
    partial.whole_warps = false;
    let (_, accesses) = counters(NEIGHBOURS, partial);
    assert!(accesses.groups().is_empty());
}

/// Loads at distances of 0, 8 and -4 bytes from an address, a barrier, and a load from the same address.
const NEIGHBOURS: &str = "block0:
  v0: b64 = ld.u64{space:param} v1
  v1: b64 = const.b64 0x0
  v2: b64 = const.b64 0x8
  v3: b64 = const.b64 0xfffffffffffffffc
  v4: b64 = add.u64 v0, v2
  v5: b64 = add.u64 v0, v3
  v6: b32 = ld.u32{space:global} v4
  v7: b32 = ld.u32{space:global} v0
  st.u32{space:global} v5, v7
  v8: b32 = const.b32 0xffffffff
  bar.warp.sync v8
  v9: b32 = ld.u32{space:global} v4
  exit";

#[test]
fn accesses_at_constant_distances_are_a_group() {
    let (function, counters) = counters(NEIGHBOURS, counted());
    let offsets: Vec<Vec<i64>> = counters
        .groups()
        .iter()
        .map(|group| group.members.iter().map(|member| member.offset).collect())
        .collect();
    assert_eq!(offsets, [vec![0, -8, -12], vec![0]]);
    assert!(counters.groups().iter().all(|group| !group.narrow));
    let first = |group: u32| {
        let at = counters.group_word(group as usize);
        Some(Counted::First { group, at })
    };
    let expected = [
        first(0),
        Some(Counted::Other),
        Some(Counted::Other),
        first(1),
    ];
    let accesses = all_counted(&function, &counters, Opcode::ObserveAccess);
    assert_eq!(accesses, expected);
}

#[test]
fn only_selected_spaces_are_counted() {
    let mut only_shared = counted();
    only_shared.counted_spaces = 1 << StateSpace::Shared as u32;
    let (function, counters) = counters(NEIGHBOURS, only_shared);
    let accesses = all_counted(&function, &counters, Opcode::ObserveAccess);
    assert_eq!(accesses, [None, None, None, None]);
}

#[test]
fn a_guard_is_known_if_only_runs_use_its_operand() {
    let body = |others: &str| {
        format!(
            "block0:
  v0: b32 = sreg.u32 %tid.x
  v1: pred = setp.u32{{cmp:lt}} v0, v0
  v2: b32 = const.b32 0x1
  v3: b32 = const.b32 0x0
  v4: b32 = selp.b32 v2, v3, v1
  observe.event {} v4
  {others}
  exit",
            run_at(0, 1)
        )
    };
    let guards = |others: &str| {
        let (_, counters) = counters(&body(others), counted());
        counters.guards.len()
    };
    assert_eq!(guards(""), 1);
    assert_eq!(guards("v5: b32 = add.u32 v4, v0"), 0);
    let barrier = "v6: b32 = const.b32 0xffffffff\n  bar.warp.sync v6";
    let again = format!("{barrier}\n  observe.event {} v4", run_at(2, 1));
    assert_eq!(guards(&again), 0, "the operand is live at the barrier");
}

#[test]
fn patterns_have_a_stride_if_all_distances_are_equal() {
    let strided = Pattern::strided(-4);
    assert_eq!(
        (strided.stride, strided.distances[31]),
        (-4, 0u64.wrapping_sub(124))
    );
    assert_eq!(strided.narrow[1], 0xffff_fffc);
    let mut distances = strided.distances;
    distances[17] = 0;
    assert_eq!(Pattern::new(distances).stride, IRREGULAR);
    assert_eq!(Pattern::new([0; 32]).stride, 0);
}
