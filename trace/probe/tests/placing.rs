//! Where probes go in texts that are laid out in different ways.

mod support;

use std::sync::Arc;

use margay_frontend::{SourceFile, parse};
use margay_probe::{Options, Outcome, ProbeFile, Selection, rewrite};
use support::{Argument, FIRST, Launch, lowered, rewritten, shipped, toml, words};

const HEAD: &str = ".version 7.8\n.target sm_80\n.address_size 64\n";

/// A map `M` of `cap` words for each thread.
fn with_map(probes: &str, cap: u32) -> ProbeFile {
    toml(&format!(
        "regs = 2\n{probes}\n[map.M]\nlevel = \"thread\"\ntype = \"array\"\nsize = 8\ncap = {cap}\n[map.M.regs]\na = [\"u64\"]\n"
    ))
}

fn probe(name: &str, pos: &str, text: &str) -> String {
    format!("[probe.{name}]\npos = \"{pos}\"\nlevel = \"thread\"\n{text}\n")
}

fn run(body: &str, threads: u32, file: &ProbeFile) -> Vec<Vec<u64>> {
    let text = format!("{HEAD}.visible .entry k(.param .u64 p){body}");
    let launch = Launch {
        text: &text,
        kernel: "k",
        grid: [1, 1, 1],
        block: [threads, 1, 1],
        arguments: vec![Argument::Buffer(vec![0; 1024])],
    };
    let expected = launch.run();
    let ran = launch.probed(file);
    assert_eq!(ran.buffers, expected);
    (0..u64::from(threads))
        .map(|thread| ran.words(0, thread))
        .collect()
}

#[test]
fn instructions_share_lines_and_span_lines() {
    let file = with_map(&probe("a", "add", "after = \"SAVE [ M ] { OUT };\""), 4);
    let body = "{.reg .b32 %a;mov.b32 %a,1;add.u32 %a,%a,%a;add.u32 %a,%a,%a;/* add; */ // add
        add // between
          .u32
            %a ,
            %a, /* ; */ 1
        ;ret;}";
    assert_eq!(run(body, 1, &file), [[2, 4, 5, 0]]);
}

#[test]
fn probes_run_in_the_order_of_the_file() {
    let file = with_map(
        &[
            probe(
                "a",
                "add",
                "before = \"SAVE [ M ] { 1 };\"\nafter = \"SAVE [ M ] { 2 };\"",
            ),
            probe(
                "b",
                "add:add.u32",
                "before = \"SAVE [ M ] { 3 };\"\nafter = \"SAVE [ M ] { 4 };\"",
            ),
            probe(
                "c",
                "kernel",
                "before = \"SAVE [ M ] { 5 };\"\nafter = \"SAVE [ M ] { 6 };\"",
            ),
            probe(
                "d",
                "ret:kernel",
                "before = \"SAVE [ M ] { 7 };\"\nafter = \"SAVE [ M ] { 8 };\"",
            ),
        ]
        .concat(),
        12,
    );
    let body = "{.reg .b32 %a;mov.b32 %a,1;add.u32 %a,%a,%a;ret;}";
    assert_eq!(run(body, 1, &file), [[5, 7, 1, 3, 2, 4, 6, 7, 8, 0, 0, 0]]);
}

#[test]
fn labels_stay_in_front_of_the_probe() {
    let file = with_map(&probe("a", "add", "before = \"SAVE [ M ] { OUT };\""), 4);
    let body = "{.reg .pred %p;.reg .b32 %a;mov.b32 %a,0;L: add.u32 %a,%a,1;setp.lt.u32 %p,%a,3;@%p bra L;ret;}";
    assert_eq!(run(body, 1, &file), [[0, 1, 2, 0]]);
}

#[test]
fn a_kernel_can_start_with_a_label_and_end_without_ret() {
    let file = with_map(
        &probe(
            "a",
            "kernel",
            "before = \"SAVE [ M ] { 1 };\"\nafter = \"SAVE [ M ] { 2 };\"",
        ),
        4,
    );
    let body = "{ L: { .reg .b32 %a; mov.b32 %a, 1; } }";
    assert_eq!(run(body, 1, &file), [[1, 2, 0, 0]]);
    // No text goes behind a kernel that cannot end there.
    let body = "{ bra M; N: ret; M: bra N; }";
    assert_eq!(run(body, 1, &file), [[1, 2, 0, 0]]);
}

#[test]
fn names_of_the_program_do_not_collide() {
    let file = with_map(
        &[
            probe("a", "kernel", "before = \".reg .b64 %mine, %two<2>;\\nmov.u64 %mine, 40;\\nadd.u64 %two2, %two1, 2;\""),
            probe("b", "add", "after = \"add.u64 %NR0, %mine, %two2;\\nSAVE [ M ] { %NR0 };\\nSAVE [ M ] { OUT };\""),
        ]
        .concat(),
        4,
    );
    let body = "{.reg .b64 %NR0, %mine, %probe_nr0, %probe1_t0; .reg .b32 %two<4>; .reg .b64 param_M;
        mov.u64 %NR0, 5; mov.u64 %mine, 6; mov.b32 %two1, 7; mov.u64 %probe_nr0, 0; mov.u64 param_M, 9;
        add.u64 %NR0, %NR0, %mine; ret; }";
    assert_eq!(run(body, 1, &file), [[42, 11, 0, 0]]);
}

#[test]
fn a_parameter_can_have_the_name_of_an_added_one() {
    let text = format!("{HEAD}.entry k(.param .u64 param_M) {{ ret; }}");
    let file = with_map(&probe("a", "kernel", "after = \"SAVE [ M ] { 1 };\""), 1);
    let done = rewritten(&text, &file, Options::default());
    assert!(
        done.text
            .contains(".param .u64 param_M,\n\t.param .u64 param_M_2)"),
        "{}",
        done.text
    );
    lowered(&done.text);
}

#[test]
fn snippets_have_scopes_labels_and_guards() {
    let text = "before = '''
        { .reg .b32 %n; .reg .pred %q;
          mov.u32 %n, 0;
          AGAIN: add.u32 %n, %n, 1;
          setp.lt.u32 %q, %n, 4;   // four times
          @%q bra AGAIN;
          @!%q SAVE [ M ] { %n };
          @%q SAVE [ M ] { 99 } }
        '''";
    let file = with_map(&probe("a", "add", text), 4);
    let body = "{.reg .pred %q;.reg .b32 %n, %t;mov.u32 %t,%tid.x;setp.ne.u32 %q,%t,1;mov.b32 %n,1;
        @%q add.u32 %n,%n,%n;@!%q add.u32 %n,%n,%n;add.u32 %n,%n,%n;ret;}";
    assert_eq!(run(body, 3, &file), [[4, 4, 0, 0]; 3]);
}

#[test]
fn a_guard_that_the_instruction_overwrites() {
    let file = with_map(&probe("a", "setp.eq", "after = \"SAVE [ M ] { OUT };\""), 4);
    let body = "{.reg .pred %p;.reg .b32 %t;mov.u32 %t,%tid.x;setp.lt.u32 %p,%t,2;@%p setp.eq.u32 %p,%t,0;@!%p setp.eq.u32 %p, %t, 2;ret;}";
    // Thread 0 runs the first, thread 1 both, threads 2 and 3 the second.
    assert_eq!(
        run(body, 4, &file),
        [[1, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    );
    let counting = with_map(
        &[
            probe("a", "setp.eq", "after = \"add.u64 %NR0, %NR0, 1;\""),
            probe("b", "kernel", "after = \"SAVE [ M ] { %NR0 };\""),
        ]
        .concat(),
        1,
    );
    assert_eq!(run(body, 4, &counting), [[1], [2], [1], [1]]);
}

#[test]
fn calls_and_their_parameters() {
    let text = format!(
        "{HEAD}.func (.param .b32 r) twice(.param .b32 a) {{ .reg .b32 %a; ld.param.b32 %a, [a]; add.u32 %a, %a, %a; \
         st.param.b32 [r], %a; ret; }}
         .visible .entry k(.param .u64 p) {{ .reg .b32 %v; mov.b32 %v, 21;
         {{ .param .b32 a0; .param .b32 r0; st.param.b32 [a0], %v; call.uni (r0), twice, (a0); ld.param.b32 %v, [r0+0]; }}
         ret; }}"
    );
    let file = with_map(
        &[
            probe(
                "a",
                "call",
                "before = \"SAVE [ M ] { 1 };\"\nafter = \"SAVE [ M ] { 2 };\"",
            ),
            probe("b", "st.param", "after = \"SAVE [ M ] { ADDR };\""),
            probe("c", "ld.param.b32", "after = \"SAVE [ M ] { OUT };\""),
            // Device functions are not probed.
            probe("d", "add", "after = \"SAVE [ M ] { 77 };\""),
        ]
        .concat(),
        6,
    );
    let launch = Launch {
        text: &text,
        kernel: "k",
        grid: [1, 1, 1],
        block: [1, 1, 1],
        arguments: vec![Argument::U64(0)],
    };
    assert_eq!(launch.probed(&file).words(0, 0), [0, 1, 2, 42, 0, 0]);
}

#[test]
fn declarations_of_kernels_get_the_parameters_too() {
    let text = format!(
        "{HEAD}.entry k(.param .u64 p);\n.entry k(.param .u64 p) {{ ret; }}\n.entry e;\n.entry e {{ ret; }}"
    );
    let done = rewritten(&text, &shipped("dmat"), Options::default());
    assert_eq!(done.text.matches(".param .u32 bytes_DMAT").count(), 4);
    lowered(&done.text);
    assert_eq!(done.kernels.len(), 2);
    assert_eq!(
        (done.kernels[0].parameters, done.kernels[1].parameters),
        (1, 0)
    );
}

#[test]
fn kernels_that_device_code_launches_stay() {
    let text = format!(
        "{HEAD}.entry k() {{ ret; }}\n.global .u64 t[2] = {{ 0, k }};\n.entry l() {{ ret; }}"
    );
    let done = rewritten(&text, &shipped("block_sched"), Options::default());
    match &done.kernels[0].outcome {
        Outcome::Failed(error) => assert!(
            error
                .to_string()
                .starts_with("test.ptx:5: device code uses"),
            "{error}"
        ),
        other => panic!("{other:?}"),
    }
    assert_eq!(done.kernels[1].outcome, Outcome::Probed(2));
}

#[test]
fn a_probe_that_is_not_ptx_leaves_its_kernels_alone() {
    let text = format!(
        "{HEAD}.entry a(.param .u64 p) {{ .reg .b64 %x; mov.u64 %x, 1; ret; }}\n.entry b(.param .u64 p) {{ ret; }}"
    );
    let file = with_map(
        &probe("odd", "mov", "after = \"mul.u64 %NR0, %NR0, 2;\""),
        1,
    );
    let done = rewritten(&text, &file, Options::default());
    match &done.kernels[0].outcome {
        Outcome::Failed(error) => {
            assert_eq!((error.line, error.subject.as_deref()), (4, Some("odd")));
            assert!(
                error
                    .message
                    .starts_with("the text of the probe does not fit here: "),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(done.kernels[1].outcome, Outcome::Probed(0));
    assert!(done.text.contains(".entry a(.param .u64 p) {"));
}

#[test]
fn three_dimensions_have_slots_in_order() {
    let file = toml(
        "[probe.a]\npos = \"kernel\"\nlevel = \"thread\"\nafter = \"SAVE [ M ] { %ctaid.x, %ctaid.y, %ctaid.z, %tid.x, %tid.y, %tid.z };\"\n\
         [map.M]\nlevel = \"thread\"\ntype = \"array\"\nsize = 24\ncap = 1\n\
         [map.M.regs]\na = \"u32\"\nb = \"u32\"\nc = \"u32\"\nd = \"u32\"\ne = \"u32\"\nf = \"u32\"\n",
    );
    let text = format!("{HEAD}.entry k() {{ ret; }}");
    let launch = Launch {
        text: &text,
        kernel: "k",
        grid: [2, 3, 2],
        block: [3, 2, 2],
        arguments: Vec::new(),
    };
    let ran = launch.probed(&file);
    for slot in 0..144_u64 {
        let (cta, thread) = ((slot / 12) as u32, (slot % 12) as u32);
        let expected = [
            cta % 2,
            cta / 2 % 3,
            cta / 6,
            thread % 3,
            thread / 3 % 2,
            thread / 6,
        ];
        assert_eq!(support::halves(&ran.slot(0, slot)), expected, "slot {slot}");
    }
}

#[test]
fn divergent_threads_save_their_own_records() {
    let file = toml(
        "regs = 1\n[probe.a]\npos = \"add\"\nlevel = \"thread\"\nafter = \"SAVE [ M ] { OUT };\"\n\
         [map.M]\nlevel = \"thread\"\ntype = \"array\"\nsize = 8\ncap = \"dynamic\"\n[map.M.regs]\na = [\"u64\"]\n",
    );
    let text = format!(
        "{HEAD}.entry k() {{ .reg .pred %p; .reg .b32 %t, %n; mov.u32 %t, %tid.x; mov.b32 %n, 0;
         L: setp.ge.u32 %p, %n, %t; @%p bra E; add.u32 %n, %n, 1; bra L; E: ret; }}"
    );
    let launch = Launch {
        text: &text,
        kernel: "k",
        grid: [2, 1, 1],
        block: [70, 1, 1],
        arguments: Vec::new(),
    };
    let ran = launch.probed(&file);
    assert_eq!(ran.dropped, [0]);
    for slot in 0..140 {
        let thread = slot % 70;
        let expected: Vec<u64> = (1..70).map(|n| if n <= thread { n } else { 0 }).collect();
        assert_eq!(ran.words(0, slot), expected, "slot {slot}");
    }
    assert_eq!(words(&ran.file[32..48]), [(69 * 8) | (1 << 32), 48]);
}

#[test]
fn brx_is_a_transfer() {
    let file = with_map(&probe("a", "brx.idx", "after = \"SAVE [ M ] { OUT };\""), 2);
    let body = "{.reg .b32 %t;mov.u32 %t,%tid.x; ts: .branchtargets A, B; brx.idx %t, ts; A: ret; B: ret;}";
    assert_eq!(run(body, 2, &file), [[0, 0], [1, 0]]);
}

#[test]
fn no_pred_runs_in_all_lanes() {
    let file = with_map(
        &probe("a", "add", "no_pred = true\nafter = \"SAVE [ M ] { 1 };\""),
        1,
    );
    let body = "{.reg .pred %p;.reg .b32 %t;mov.u32 %t,%tid.x;setp.lt.u32 %p,%t,2;@%p add.u32 %t,%t,1;ret;}";
    assert_eq!(run(body, 4, &file), [[1]; 4]);
}

#[test]
fn positions_in_the_text_are_characters() {
    let text = format!(
        "{HEAD}// ü ß\n.entry k(.param .u64 p /* é */) {{ .reg .b64 %a; /* ñ */ ld.param.u64 %a, [p]; /*ü*/ ld.global.u32 %a, [%a]; ret; }}"
    );
    let parsed = parse(Arc::new(SourceFile::new("t.ptx", text)));
    let done = rewrite(
        &parsed,
        &shipped("dmat"),
        &Selection::default(),
        Options::default(),
    )
    .expect("it can be probed");
    assert!(done.text.contains("// ü ß") && done.text.contains("/*ü*/"));
    lowered(&done.text);
    let _ = FIRST;
}
