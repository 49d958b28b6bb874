//! Litmus tests of the memory model. The tests run small programs many times, at every scope, and
//! check that forbidden results do not occur.
//!
//! Each actor of a test is a CTA, or a warp if the scope is the CTA. The actors wait for each other before each round,
//! so that their accesses overlap, and each round uses different words of memory. The test counts
//! each combination of results, and the forbidden combination must not occur.

use std::collections::BTreeMap;

use margay::{DeviceBuffer, EngineChoice, LaunchConfig};

use super::machines;

/// Number of bytes between the words of consecutive rounds. Each word is on a separate cache line.
const TURN: usize = 256;

/// A litmus test: the code of each actor, and the forbidden results (`%a` and `%b` of each actor,
/// in order). The code of an actor accesses the memory words `[%x]` and `[%y]`, and writes its
/// results to the registers `%a` and `%b`. `SCOPE` stands for the scope, and `BAR` stands for the
/// `membar` of that scope. If an actor begins with `EIGHT`, its code runs eight times, with
/// `NUMBER` from 1 to 8.
struct Litmus {
    name: &'static str,
    actors: &'static [&'static str],
    forbidden: fn(&[u32]) -> bool,
}

const TESTS: &[Litmus] = &[
    Litmus {
        name: "message passing, release and acquire",
        actors: &[
            "st.relaxed.SCOPE.global.u32 [%x], 1; st.release.SCOPE.global.u32 [%y], 1;",
            "ld.acquire.SCOPE.global.u32 %a, [%y]; ld.relaxed.SCOPE.global.u32 %b, [%x];",
        ],
        forbidden: |r| r[2] == 1 && r[3] == 0,
    },
    Litmus {
        name: "message passing, a plain word",
        actors: &[
            "st.global.u32 [%x], 1; st.release.SCOPE.global.u32 [%y], 1;",
            "mov.u32 %b, 1; ld.acquire.SCOPE.global.u32 %a, [%y]; setp.ne.u32 %q, %a, 0; @%q ld.global.u32 %b, [%x];",
        ],
        forbidden: |r| r[2] == 1 && r[3] == 0,
    },
    Litmus {
        name: "message passing, fences",
        actors: &[
            "st.relaxed.SCOPE.global.u32 [%x], 1; fence.acq_rel.SCOPE; st.relaxed.SCOPE.global.u32 [%y], 1;",
            "ld.relaxed.SCOPE.global.u32 %a, [%y]; fence.acq_rel.SCOPE; ld.relaxed.SCOPE.global.u32 %b, [%x];",
        ],
        forbidden: |r| r[2] == 1 && r[3] == 0,
    },
    Litmus {
        name: "message passing, volatile and membar",
        actors: &[
            "st.volatile.global.u32 [%x], 1; BAR; st.volatile.global.u32 [%y], 1;",
            "ld.volatile.global.u32 %a, [%y]; BAR; ld.volatile.global.u32 %b, [%x];",
        ],
        forbidden: |r| r[2] == 1 && r[3] == 0,
    },
    Litmus {
        name: "message passing, atomics",
        actors: &[
            "st.global.u32 [%x], 1; atom.release.SCOPE.global.exch.b32 %a, [%y], 1;",
            "mov.u32 %b, 1; atom.acquire.SCOPE.global.add.u32 %a, [%y], 0; setp.ne.u32 %q, %a, 0; @%q ld.global.u32 %b, [%x];",
        ],
        forbidden: |r| r[2] == 1 && r[3] == 0,
    },
    Litmus {
        name: "store buffering, fence.sc",
        actors: &[
            "st.relaxed.SCOPE.global.u32 [%x], 1; fence.sc.SCOPE; ld.relaxed.SCOPE.global.u32 %a, [%y];",
            "st.relaxed.SCOPE.global.u32 [%y], 1; fence.sc.SCOPE; ld.relaxed.SCOPE.global.u32 %a, [%x];",
        ],
        forbidden: |r| r[0] == 0 && r[2] == 0,
    },
    Litmus {
        name: "store buffering, volatile and membar",
        actors: &[
            "st.volatile.global.u32 [%x], 1; BAR; ld.volatile.global.u32 %a, [%y];",
            "st.volatile.global.u32 [%y], 1; BAR; ld.volatile.global.u32 %a, [%x];",
        ],
        forbidden: |r| r[0] == 0 && r[2] == 0,
    },
    Litmus {
        name: "load buffering",
        actors: &[
            "ld.relaxed.SCOPE.global.u32 %a, [%y]; fence.acq_rel.SCOPE; st.relaxed.SCOPE.global.u32 [%x], 1;",
            "ld.relaxed.SCOPE.global.u32 %a, [%x]; fence.acq_rel.SCOPE; st.relaxed.SCOPE.global.u32 [%y], 1;",
        ],
        forbidden: |r| r[0] == 1 && r[2] == 1,
    },
    Litmus {
        name: "independent reads of independent writes",
        actors: &[
            "st.relaxed.SCOPE.global.u32 [%x], 1;",
            "st.relaxed.SCOPE.global.u32 [%y], 1;",
            "ld.relaxed.SCOPE.global.u32 %a, [%x]; fence.sc.SCOPE; ld.relaxed.SCOPE.global.u32 %b, [%y];",
            "ld.relaxed.SCOPE.global.u32 %a, [%y]; fence.sc.SCOPE; ld.relaxed.SCOPE.global.u32 %b, [%x];",
        ],
        forbidden: |r| r[4] == 1 && r[5] == 0 && r[6] == 1 && r[7] == 0,
    },
    Litmus {
        name: "coherence of reads",
        actors: &[
            "st.relaxed.SCOPE.global.u32 [%x], 1;",
            "ld.relaxed.SCOPE.global.u32 %a, [%x]; ld.relaxed.SCOPE.global.u32 %b, [%x];",
        ],
        forbidden: |r| r[2] == 1 && r[3] == 0,
    },
    Litmus {
        name: "coherence of volatile reads",
        actors: &[
            "st.volatile.global.u32 [%x], 1; st.volatile.global.u32 [%x], 2;",
            "ld.volatile.global.u32 %a, [%x]; ld.volatile.global.u32 %b, [%x];",
        ],
        forbidden: |r| r[2] > r[3],
    },
    Litmus {
        name: "a strong element is one access",
        actors: &[
            "st.relaxed.SCOPE.global.u64 [%x], -1;",
            "ld.relaxed.SCOPE.global.u64 %w, [%x]; mov.b64 {%a, %b}, %w;",
        ],
        forbidden: |r| r[2] != r[3],
    },
    Litmus {
        name: "a strong pair is one access",
        actors: &[
            "EIGHT st.relaxed.SCOPE.global.v2.u32 [%x], {NUMBER, NUMBER};",
            "EIGHT { .reg .b32 %v<2>; ld.relaxed.SCOPE.global.v2.u32 {%v0, %v1}, [%x]; xor.b32 %v0, %v0, %v1; or.b32 %a, %a, %v0; }",
        ],
        // Nonzero if a load returned a vector whose first and last elements differ.
        forbidden: |r| r[2] != 0,
    },
    Litmus {
        name: "a volatile pair is one access",
        actors: &[
            "EIGHT st.volatile.global.v2.u32 [%x], {NUMBER, NUMBER};",
            "EIGHT { .reg .b32 %v<2>; ld.volatile.global.v2.u32 {%v0, %v1}, [%x]; xor.b32 %v0, %v0, %v1; or.b32 %a, %a, %v0; }",
        ],
        // Nonzero if a load returned a vector whose first and last elements differ.
        forbidden: |r| r[2] != 0,
    },
    Litmus {
        name: "sixteen bytes are one access",
        actors: &[
            "EIGHT st.relaxed.SCOPE.global.v2.u64 [%x], {NUMBER, NUMBER};",
            "EIGHT { .reg .b64 %v<2>; ld.relaxed.SCOPE.global.v2.u64 {%v0, %v1}, [%x]; xor.b64 %v0, %v0, %v1; cvt.u32.u64 %t, %v0; or.b32 %a, %a, %t; }",
        ],
        // Nonzero if a load returned a vector whose first and last elements differ.
        forbidden: |r| r[2] != 0,
    },
    Litmus {
        name: "a strong quad is one access",
        actors: &[
            "EIGHT st.relaxed.SCOPE.global.v4.u32 [%x], {NUMBER, NUMBER, NUMBER, NUMBER};",
            "EIGHT { .reg .b32 %v<4>; ld.relaxed.SCOPE.global.v4.u32 {%v0, %v1, %v2, %v3}, [%x]; xor.b32 %v0, %v0, %v3; or.b32 %a, %a, %v0; }",
        ],
        // Nonzero if a load returned a vector whose first and last elements differ.
        forbidden: |r| r[2] != 0,
    },
    Litmus {
        name: "a read-modify-write is one access",
        actors: &[
            "atom.relaxed.SCOPE.global.add.u32 %a, [%x], 1;",
            "atom.relaxed.SCOPE.global.add.u32 %a, [%x], 1;",
        ],
        // If the results are correct, one actor reads 0 and the other actor reads 1.
        forbidden: |r| r[0] == r[2],
    },
];

/// Returns the text of the test's kernel, in which the actor with the number `%who` runs its code
/// once in each round.
fn text(litmus: &Litmus, scope: &str) -> String {
    let fence = match scope {
        "cta" => "membar.cta",
        "gpu" => "membar.gl",
        _ => "membar.sys",
    };
    let who = if scope == "cta" { "%tid.y" } else { "%ctaid.x" };
    let mut parts = String::new();
    for (index, actor) in litmus.actors.iter().enumerate() {
        let actor = match actor.strip_prefix("EIGHT ") {
            Some(once) => (1..=8)
                .map(|number| once.replace("NUMBER", &number.to_string()))
                .collect(),
            None => actor.to_string(),
        };
        let actor = actor.replace("SCOPE", scope).replace("BAR", fence);
        parts += &format!(
            "setp.ne.u32 %q, %who, {index}; @%q bra after{index};\n{actor}\nbra done;\nafter{index}:\n"
        );
    }
    let actors = litmus.actors.len();
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64
.visible .entry litmus(.param .u64 words, .param .u64 results, .param .u64 count, .param .u32 turns) {{
    .reg .pred %q; .reg .b32 %who, %i, %n, %a, %b, %t, %want; .reg .b64 %x, %y, %r, %c, %w;
    mov.u32 %t, %tid.x; setp.ne.u32 %q, %t, 0; @%q exit;
    mov.u32 %who, {who};
    ld.param.u64 %x, [words]; ld.param.u64 %c, [count]; ld.param.u32 %n, [turns];
    ld.param.u64 %r, [results]; mad.wide.u32 %r, %who, 8, %r;
    mov.u32 %i, 0; mov.u32 %want, 0;
turn:
    add.u64 %y, %x, 128; mov.u32 %a, 0; mov.u32 %b, 0;
    add.u32 %want, %want, {actors};
    atom.acq_rel.gpu.global.add.u32 %t, [%c], 1;
meet:
    ld.acquire.gpu.global.u32 %t, [%c]; setp.lt.u32 %q, %t, %want; @%q bra meet;
    {parts}
done:
    st.global.v2.u32 [%r], {{%a, %b}};
    add.u64 %r, %r, {}; add.u64 %x, %x, {TURN};
    add.u32 %i, %i, 1; setp.lt.u32 %q, %i, %n; @%q bra turn;
    ret;
}}",
        8 * actors
    )
}

fn check(scope: &str) {
    let machines = machines(&[2]);
    for litmus in TESTS {
        let text = text(litmus, scope);
        for machine in &machines {
            let turns: usize = match machine.engine {
                EngineChoice::Interpreter => 150,
                _ => 1500,
            };
            let runtime = &machine.runtime;
            let actors = litmus.actors.len();
            let module = runtime.load_ptx(&text).expect(litmus.name);
            let kernel = module.kernel("litmus").expect("known");
            let words: DeviceBuffer<u8> = runtime.alloc(TURN * turns).expect("room");
            let results: DeviceBuffer<u32> = runtime.alloc(2 * actors * turns).expect("room");
            let count: DeviceBuffer<u32> = runtime.alloc(1).expect("room");
            let config = if scope == "cta" {
                LaunchConfig::new(1, (32, actors as u32))
            } else {
                LaunchConfig::new(actors as u32, 32)
            };
            let arguments = (&words, &results, &count, turns as u32);
            let launch = runtime.launch(&kernel, config, arguments);
            launch.expect("launched");
            let found = results.to_vec().expect("complete");
            let mut counts: BTreeMap<&[u32], usize> = BTreeMap::new();
            for result in found.chunks(2 * actors) {
                *counts.entry(result).or_default() += 1;
            }
            eprintln!("{}, {scope}, {}: {counts:?}", litmus.name, machine.label);
            assert!(
                !counts.keys().any(|result| (litmus.forbidden)(result)),
                "{}, {scope}, {}: {counts:?}",
                litmus.name,
                machine.label
            );
        }
    }
}

#[test]
fn scope_cta() {
    check("cta");
}

#[test]
fn scope_gpu() {
    check("gpu");
}

#[test]
fn scope_sys() {
    check("sys");
}

/// Runs the first litmus test at cluster scope between CTAs. This is correct because, in Margay, a
/// release at cluster scope provides the same ordering as a release at device scope.
#[test]
fn scope_cluster() {
    let machines = machines(&[2]);
    let litmus = &TESTS[0];
    let text = text(litmus, "cluster").replace("sm_80", "sm_90");
    for machine in machines {
        let turns = 200;
        let module = machine.runtime.load_ptx(&text).expect("loads");
        let kernel = module.kernel("litmus").expect("known");
        let words: DeviceBuffer<u8> = machine.runtime.alloc(TURN * turns).expect("room");
        let results: DeviceBuffer<u32> = machine.runtime.alloc(4 * turns).expect("room");
        let count: DeviceBuffer<u32> = machine.runtime.alloc(1).expect("room");
        let arguments = (&words, &results, &count, turns as u32);
        let config = LaunchConfig::new(2, 32);
        machine
            .runtime
            .launch(&kernel, config, arguments)
            .expect("launched");
        let found = results.to_vec().expect("complete");
        assert!(!found.chunks(4).any(litmus.forbidden), "{}", machine.label);
    }
}
