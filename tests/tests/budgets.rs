//! Checks the time and the memory that kernels of growing size need to be loaded, compiled and run.
//! For every kind of code, time and memory must grow at most about linearly with the size. Results
//! must be right whether or not the kernel has native code.
//!
//! Each kernel runs twice, in separate processes: with a size and with four times that size. The
//! test checks the growth of processor time and of the largest resident memory. It does not check
//! absolute values, so a busy machine does not affect the test. The kernel of four times the size
//! may cost up to [`MOST`] times as much as the smaller kernel; quadratic growth would cost 16
//! times as much.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the process that runs a kernel tells the one that compares"
)]

use std::fmt::Write;
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};
use margay::{DeviceBuffer, EngineChoice, LaunchConfig, Runtime};

/// The environment variable that contains the kernel's name and size. The test sets it for the
/// process that runs the kernel.
const CASE: &str = "MARGAY_TEST_BUDGET_CASE";
/// Maximum cost of a kernel of four times the size, relative to the cost of the smaller kernel.
const MOST: f64 = 9.0;
/// Processor time in seconds and memory in bytes. If the larger kernel needs less than this, the
/// growth is not checked.
const LEAST: (f64, f64) = (1.5, 96e6);
/// Number of threads of the grid's single block.
const THREADS: u32 = 64;

/// A kind of kernels, of which a kernel of any size can be generated.
struct Case {
    name: &'static str,
    size: usize,
    text: fn(usize) -> String,
    /// Function that returns the expected result of a thread. Its arguments are the size and the
    /// thread's number.
    expected: fn(usize, u32) -> u32,
}

/// Kernels that the interpreter runs for any size.
const INTERPRETED: &[&str] = &["branches_to_anywhere", "branch_tables_interpreted"];

const CASES: &[Case] = &[
    Case {
        name: "branch_tables",
        size: 22_500,
        text: branch_tables,
        expected: |n, t| walked(n.isqrt(), t, true),
    },
    Case {
        name: "branch_tables_interpreted",
        size: 22_500,
        text: branch_tables,
        expected: |n, t| walked(n.isqrt(), t, true),
    },
    Case {
        name: "branches_to_anywhere",
        size: 2_500,
        text: |n| {
            let blocks = (0..n).fold(String::new(), |mut text, i| {
                let _ = writeln!(
                    text,
                    "{} shr.u32 %r4, %r2, 13; and.b32 %r4, %r4, 1; setp.eq.u32 %p2, %r4, 0; @%p2 bra B{};",
                    step(i),
                    anywhere(i, n)
                );
                text
            });
            kernel("", &format!("mov.u32 %r3, 0;\n{blocks}END:"))
        },
        expected: |n, t| walked(n, t, false),
    },
    Case {
        name: "barriers",
        size: 2_000,
        text: |n| repeated(n, |_| "add.u32 %r2, %r2, 1; bar.sync 0;".into()),
        expected: |n, t| t + n as u32,
    },
    Case {
        name: "very_many_barriers",
        size: 20_000,
        text: |n| repeated(n, |_| "add.u32 %r2, %r2, 1; bar.sync 0;".into()),
        expected: |n, t| t + n as u32,
    },
    Case {
        name: "shuffles",
        size: 1_250,
        text: shuffles,
        expected: |n, t| (t ^ (n as u32 & 1)) + n as u32,
    },
    Case {
        // From 100 shuffles on, a quadratic loop of the register allocator takes most of the time (regalloc2 0.15.2,
        // moves of block parameters).
        name: "shuffles_in_vector_code",
        size: 20,
        text: shuffles,
        expected: |n, t| (t ^ (n as u32 & 1)) + n as u32,
    },
    Case {
        name: "atomics",
        size: 4_500,
        text: |n| {
            let added = "atom.global.add.u32 %r3, [%rd1], 1; add.u32 %r2, %r2, %r3;";
            repeated(n, |_| added.into())
        },
        expected: |n, t| {
            let n = n as u32;
            t.wrapping_add(n * (n - 1) / 2)
        },
    },
    Case {
        name: "branch_tables_in_vector_code",
        size: 40,
        text: |n| {
            repeated(n, |i| {
                format!(
                    "T{i}: .branchtargets A{i}, B{i}; and.b32 %r3, %r2, 1; brx.idx %r3, T{i}; \
                     A{i}: add.u32 %r2, %r2, 3; B{i}: add.u32 %r2, %r2, 1;"
                )
            })
        },
        expected: |n, t| (0..n).fold(t, |sum, _| sum + if sum % 2 == 0 { 4 } else { 1 }),
    },
    Case {
        name: "irreducible_loops_in_vector_code",
        size: 8,
        text: irreducible,
        expected: |n, t| {
            let (mut x, mut turns, mut part, mut is_left) = (t, 0, 0, t % 2 == 1);
            while turns < 500 && part < n {
                turns += 1;
                x = if is_left {
                    x + part as u32
                } else {
                    x ^ (5 * part as u32 + 3)
                };
                let stays = x & if is_left { 4 } else { 2 } != 0;
                part += usize::from(stays);
                is_left = is_left == stays;
            }
            x
        },
    },
    Case {
        name: "branches",
        size: 4_000,
        text: |n| repeated(n, branch),
        expected: |n, t| t + (0..n as u32).map(|i| added(i, t)).sum::<u32>(),
    },
    Case {
        name: "very_many_branches",
        size: 20_000,
        text: |n| repeated(n, branch),
        expected: |n, t| t + (0..n as u32).map(|i| added(i, t)).sum::<u32>(),
    },
    Case {
        name: "labels",
        size: 100_000,
        text: |n| {
            repeated(n, |i| match i % 10 {
                0 => format!("L{i}: add.u32 %r2, %r2, 1;"),
                _ => format!("L{i}:"),
            })
        },
        expected: |n, t| t + n.div_ceil(10) as u32,
    },
    Case {
        name: "straight",
        size: 50_000,
        text: |n| repeated(n, |_| "mad.lo.u32 %r2, %r2, 3, %r1;".into()),
        expected: |n, t| (0..n).fold(t, |x, _| x.wrapping_mul(3).wrapping_add(t)),
    },
    Case {
        name: "values_passed_to_a_block",
        size: 7_000,
        text: |n| {
            // Each iteration of the loop rotates the values.
            let values = (0..n).fold(String::new(), |mut text, i| {
                let _ = writeln!(
                    text,
                    "ld.global.u32 %v{i}, [%rd1]; add.u32 %v{i}, %v{i}, {i};"
                );
                text
            });
            let moves = (1..n).fold(String::new(), |mut text, i| {
                let _ = writeln!(text, "mov.u32 %v{}, %v{i};", i - 1);
                text
            });
            let last = n - 1;
            let code = format!(
                ".reg .b32 %v<{n}>;\n{values}mov.u32 %r3, 0;\nL: mov.u32 %r4, %v0;\n{moves}mov.u32 %v{last}, %r4;
add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 5; @%p1 bra L;\nadd.u32 %r2, %r2, %v{last};"
            );
            kernel("", &code)
        },
        expected: |_, t| t + 4,
    },
    Case {
        name: "values_across_a_barrier",
        size: 10_000,
        text: |n| {
            let values = (0..n).fold(String::new(), |mut text, i| {
                let _ = writeln!(
                    text,
                    "ld.global.u32 %v{i}, [%rd1]; add.u32 %v{i}, %v{i}, {i};"
                );
                text
            });
            let uses = (0..n).fold(String::new(), |mut text, i| {
                let _ = writeln!(text, "add.u32 %r2, %r2, %v{i};");
                text
            });
            kernel(
                "",
                &format!(".reg .b32 %v<{n}>; {values} bar.sync 0; {uses}"),
            )
        },
        expected: |n, t| t + (0..n as u32).fold(0, |sum: u32, i| sum.wrapping_add(i)),
    },
    Case {
        name: "loops_in_loops",
        size: 300,
        text: |n| {
            let mut text = format!(".reg .b32 %v<{n}>;\n");
            for i in 0..n {
                let _ = writeln!(text, "mov.u32 %v{i}, 0; A{i}:");
            }
            text.push_str("add.u32 %r2, %r2, 1;\n");
            for i in (0..n).rev() {
                let _ = writeln!(
                    text,
                    "add.u32 %v{i}, %v{i}, 1; setp.lt.u32 %p1, %v{i}, 1; @%p1 bra A{i};"
                );
            }
            kernel("", &text)
        },
        expected: |_, t| t + 1,
    },
    Case {
        name: "loops_that_wait",
        size: 400,
        text: |n| {
            repeated(n, |i| {
                format!(
                    "mov.u32 %r3, 0; A{i}: bar.sync 0; add.u32 %r2, %r2, 1; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 2; @%p1 bra A{i};"
                )
            })
        },
        expected: |n, t| t + 2 * n as u32,
    },
    Case {
        name: "targets_of_a_switch",
        size: 5_000,
        text: |n| switch(n, " bra END;"),
        expected: |n, t| t + t % n as u32,
    },
    // Each target also falls through to the next target, so every block has two predecessors: the branch table and the
    // previous target.
    Case {
        name: "targets_that_follow_each_other",
        size: 12_000,
        text: |n| switch(n, ""),
        expected: |n, t| (t % n as u32..n as u32).fold(t, |sum, i| sum.wrapping_add(i)),
    },
    Case {
        name: "joins_of_many_values",
        size: 500,
        text: |n| {
            let mut text = String::from(".reg .b32 %v<50>;\n");
            for i in 0..50 {
                let _ = writeln!(text, "mov.u32 %v{i}, 0;");
            }
            for i in 0..n {
                let _ = writeln!(
                    text,
                    "setp.eq.u32 %p1, %r1, {i}; @%p1 bra END; add.u32 %v{}, %r2, {i};",
                    i % 50
                );
            }
            text.push_str("END:\n");
            for i in 0..50 {
                let _ = writeln!(text, "add.u32 %r2, %r2, %v{i};");
            }
            kernel("", &text)
        },
        expected: |n, t| {
            let mut values = [0u32; 50];
            for i in 0..n.min(t as usize) {
                values[i % 50] = t + i as u32;
            }
            t + values.iter().sum::<u32>()
        },
    },
    Case {
        name: "calls_in_a_row",
        size: 5_000,
        text: |n| {
            let call = "call (%r2), f0, (%r2);\n";
            kernel(&function(0, ""), &call.repeat(n))
        },
        expected: |n, t| t + n as u32,
    },
    Case {
        name: "calls_in_a_chain",
        size: 2_500,
        text: |n| {
            let call = |i: usize| format!("call (o), f{}, (o);", i - 1);
            kernel(
                &functions(n, call),
                &format!("call (%r2), f{}, (%r2);", n - 1),
            )
        },
        expected: |n, t| t + n as u32,
    },
    Case {
        name: "calls_of_each_twice",
        size: 10,
        text: |n| {
            kernel(
                &functions(n, twice),
                &format!("call (%r2), f{}, (%r2);", n - 1),
            )
        },
        expected: |n, t| t + n as u32,
    },
    Case {
        name: "calls_of_each_twice_with_a_barrier",
        size: 8,
        text: |n| {
            let all = functions(n, twice).replacen("add.u32", "bar.sync 0; add.u32", 1);
            kernel(&all, &format!("call (%r2), f{}, (%r2);", n - 1))
        },
        expected: |n, t| t + n as u32,
    },
    Case {
        name: "calls_of_a_recursive_function_with_a_barrier",
        size: 1_500,
        text: |n| {
            let itself = "bar.sync 0; setp.gt.u32 q, a, 100000; @q call (o), f0, (o);";
            kernel(&function(0, itself), &"call (%r2), f0, (%r2);\n".repeat(n))
        },
        expected: |n, t| t + n as u32,
    },
    Case {
        name: "functions_that_call_each_other",
        size: 150,
        text: |n| {
            let mut text = String::new();
            for i in 0..n {
                let _ = writeln!(text, ".func (.reg .b32 o) f{i} (.reg .b32 a);");
            }
            for i in 0..n {
                let next = (i + 1) % n;
                let _ = writeln!(
                    text,
                    ".func (.reg .b32 o) f{i} (.reg .b32 a) {{ .reg .pred q; mov.u32 o, a; setp.gt.u32 q, a, 40; @q ret; add.u32 o, a, 1; call (o), f{next}, (o); ret; }}"
                );
            }
            kernel(&text, "call (%r2), f0, (%r2);")
        },
        expected: |_, t| t.max(41),
    },
    Case {
        name: "values_of_128_bits",
        size: 6_000,
        text: |n| {
            let part = "mov.b128 {%e1, %e2}, %q; add.u64 %e1, %e1, %e2; mov.b128 %q, {%e1, %e2};";
            let before = ".reg .b64 %e<3>; .reg .b128 %q; cvt.u64.u32 %e1, %r1; mov.u64 %e2, 3;";
            let code = vec![part; n].join("\n");
            let code = format!("{before} mov.b128 %q, {{%e1, %e2}};\n{code} cvt.u32.u64 %r2, %e1;");
            kernel("", &code).replace(".version 8.0", ".version 8.3")
        },
        expected: |n, t| t + 3 * n as u32,
    },
    Case {
        name: "calls_of_any_function_with_a_barrier",
        size: 250,
        text: |n| {
            let mut text = functions(n, |i| format!("bar.sync 0; add.u32 o, o, {i};"));
            let names: Vec<String> = (0..n).map(|i| format!("f{i}")).collect();
            let _ = writeln!(text, ".global .u64 table[{n}] = {{{}}};", names.join(", "));
            let call = |i: usize| {
                format!(
                    "ld.global.u64 %rd3, [table+{}]; call (%r2), %rd3, (%r2), proto;",
                    8 * i
                )
            };
            let code: Vec<String> = (0..n).map(call).collect();
            let proto = "proto: .callprototype (.reg .b32 o) _ (.reg .b32 a);";
            kernel(&text, &format!("{proto}\n{}", code.join("\n")))
        },
        expected: |n, t| t + (n + n * (n - 1) / 2) as u32,
    },
];

/// Returns a kernel with `n` consecutive shuffles.
fn shuffles(n: usize) -> String {
    let code = "shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1; add.u32 %r2, %r3, 1;";
    repeated(n, |_| code.into())
}

/// Returns a kernel in which each basic block ends with a branch through the same table. The
/// control-flow graph has `n` edges in total.
fn branch_tables(n: usize) -> String {
    let n = n.isqrt();
    let names: Vec<String> = (0..n).map(|i| format!("B{i}")).collect();
    let mut text = format!("mov.u32 %r3, 0;\nT: .branchtargets {};\n", names.join(", "));
    for i in 0..n {
        let _ = writeln!(
            text,
            "{} shr.u32 %r4, %r2, 8; rem.u32 %r4, %r4, {n}; brx.idx %r4, T;",
            step(i)
        );
    }
    kernel("", &format!("{text}END:"))
}

/// The maximum number of basic blocks that a thread executes in a kernel whose basic blocks begin
/// with [`step`].
const STEPS: u32 = 300;

/// Returns the start of basic block `i`. This code ends the kernel after a thread has executed
/// [`STEPS`] basic blocks.
fn step(i: usize) -> String {
    format!(
        "B{i}: add.u32 %r3, %r3, 1; setp.gt.u32 %p1, %r3, {STEPS}; @%p1 bra END; mad.lo.u32 %r2, %r2, 1664525, {i};"
    )
}

/// Returns the target of the branch in basic block `i` of `n`.
fn anywhere(i: usize, n: usize) -> usize {
    (i as u32).wrapping_mul(2_654_435_761) as usize / 7 % n
}

/// Returns the expected result of a thread in a kernel of `n` basic blocks that begin with
/// [`step`].
fn walked(n: usize, thread: u32, has_tables: bool) -> u32 {
    let (mut value, mut block) = (thread, 0);
    for _ in 0..STEPS {
        if block == n {
            break;
        }
        value = value.wrapping_mul(1_664_525).wrapping_add(block as u32);
        block = match (has_tables, value >> 13 & 1) {
            (true, _) => (value >> 8) as usize % n,
            (false, 0) => anywhere(block, n),
            (false, _) => block + 1,
        };
    }
    value
}

fn branch(i: usize) -> String {
    let (bit, number) = (1 << (i % 5), i % 7 + 1);
    format!(
        "and.b32 %r3, %r1, {bit}; setp.eq.u32 %p1, %r3, 0; @%p1 bra L{i}; add.u32 %r2, %r2, {number}; L{i}:"
    )
}

/// Returns the value that a thread adds after the branch `i`, which depends on whether the thread
/// takes the branch.
fn added(i: u32, thread: u32) -> u32 {
    let taken = thread & 1 << (i % 5) == 0;
    if taken { 0 } else { i % 7 + 1 }
}

/// Returns code with two calls of the function with the number `i - 1`. Each thread executes only
/// one of these calls.
fn twice(i: usize) -> String {
    let before = i - 1;
    format!(
        "setp.gt.u32 q, a, 100000; @q bra X; call (o), f{before}, (o); ret; X: call (o), f{before}, (o);"
    )
}

/// Returns the text of a function that adds one to its argument and then executes `code`.
fn function(number: usize, code: &str) -> String {
    format!(
        ".func (.reg .b32 o) f{number} (.reg .b32 a) {{ .reg .pred q; add.u32 o, a, 1; {code} ret; }}\n"
    )
}

/// Returns the text of `count` functions ([`function`]). `code` returns the code of each function
/// except the first, which contains no further code.
fn functions(count: usize, code: impl Fn(usize) -> String) -> String {
    let others = (1..count).map(|i| function(i, &code(i)));
    std::iter::once(function(0, "")).chain(others).collect()
}

fn repeated(n: usize, part: impl Fn(usize) -> String) -> String {
    let parts: Vec<String> = (0..n).map(part).collect();
    kernel("", &parts.join("\n"))
}

/// Returns a kernel with `n` parts. Each part has two basic blocks that branch to each other, and
/// threads can enter both of them (irreducible control flow).
fn irreducible(n: usize) -> String {
    let mut text =
        "mov.u32 %r4, 0; and.b32 %r3, %r2, 1; setp.eq.u32 %p1, %r3, 0; @%p1 bra R0;\n".to_owned();
    for i in 0..n {
        let _ = writeln!(
            text,
            "L{i}: setp.ge.u32 %p2, %r4, 500; @%p2 bra END; add.u32 %r4, %r4, 1; \
             add.u32 %r2, %r2, {i}; and.b32 %r3, %r2, 4; setp.eq.u32 %p1, %r3, 0; @%p1 bra R{i}; bra L{next}; \
             R{i}: setp.ge.u32 %p2, %r4, 500; @%p2 bra END; add.u32 %r4, %r4, 1; \
             xor.b32 %r2, %r2, {}; and.b32 %r3, %r2, 2; setp.eq.u32 %p1, %r3, 0; @%p1 bra L{i}; bra R{next};",
            5 * i + 3,
            next = i + 1,
        );
    }
    text += &format!("L{n}: R{n}: END:");
    kernel("", &text)
}

/// Returns a kernel with a branch through a table of `n` targets; the code of each target is followed by `then`.
fn switch(n: usize, then: &str) -> String {
    let names: Vec<String> = (0..n).map(|i| format!("L{i}")).collect();
    let mut text = format!(
        "T: .branchtargets {};\nrem.u32 %r3, %r1, {n}; brx.idx %r3, T;\n",
        names.join(", ")
    );
    for i in 0..n {
        let _ = writeln!(text, "L{i}: add.u32 %r2, %r2, {i};{then}");
    }
    kernel("", &format!("{text}END:"))
}

/// Returns a kernel. Before `code`, `%r1` and `%r2` contain the thread's number, and the word at `[%rd1]` is zero.
/// After `code`, the thread stores `%r2` to `[%rd1]`.
fn kernel(functions: &str, code: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n{functions}
.visible .entry k(.param .u64 p) {{
.reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %p<4>;
ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2; mov.u32 %r2, %r1;
{code}
st.global.u32 [%rd1], %r2; ret;
}}\n"
    )
}

/// Runs the kernel of `case` with the size `size` in this process, and checks its results.
fn child(case: &Case, size: usize) -> Result<(), String> {
    let fail = |error: margay::Error| error.to_string();
    let engine = match INTERPRETED.contains(&case.name) {
        true => EngineChoice::Interpreter,
        false => EngineChoice::Auto,
    };
    let builder = Runtime::builder().workers(1).engine(engine);
    let runtime = builder.build().map_err(fail)?;
    let module = runtime.load_ptx(&(case.text)(size)).map_err(fail)?;
    let kernel = module.kernel("k").map_err(fail)?;
    let data: DeviceBuffer<u32> = runtime.alloc(THREADS as usize).map_err(fail)?;
    data.zero().map_err(fail)?;
    runtime
        .launch(&kernel, LaunchConfig::new(1, THREADS), (&data,))
        .map_err(fail)?;
    runtime.synchronize().map_err(fail)?;
    let found = data.to_vec().map_err(fail)?;
    let expected: Vec<u32> = (0..THREADS).map(|t| (case.expected)(size, t)).collect();
    if found != expected {
        return Err(format!("{found:?} instead of {expected:?}"));
    }
    Ok(())
}

/// Returns the processor time of this process in seconds, and its largest resident memory in bytes.
fn usage() -> Result<(f64, f64), String> {
    let read = |file: &str| std::fs::read_to_string(file).map_err(|error| error.to_string());
    let stat = read("/proc/self/stat")?;
    // The first field after the program's name is field 3. Fields 14 and 15 contain times in hundredths of a second.
    let (_, fields) = stat.rsplit_once(')').ok_or("no fields")?;
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    let status = read("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Ok((ticks as f64 / 100.0, peak.ok_or("no peak")? as f64 * 1024.0))
}

/// Kernels for which this test selects vector code from the first launch on, with chunks of 32
/// lanes.
const VECTORS: &[&str] = &[
    "shuffles_in_vector_code",
    "branch_tables_in_vector_code",
    "irreducible_loops_in_vector_code",
];

/// Runs the kernel of `case` with the size `size` in a separate process, and returns its processor
/// time in seconds and its memory in bytes.
fn measured(case: &Case, size: usize) -> Result<(f64, f64), Failed> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    if VECTORS.contains(&case.name) {
        command.env("MARGAY_LANES", "32");
    }
    let output = command
        .env(CASE, format!("{}:{size}", case.name))
        .env("MARGAY_QUIET", "1")
        .env("MARGAY_CACHE", "0")
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text
        .split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect();
    match numbers[..] {
        [time, memory] if output.status.success() => Ok((time, memory)),
        _ => Err(format!(
            "{} of size {size}: {} {text}{}",
            case.name,
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )
        .into()),
    }
}

fn grows_with_its_size(case: &Case) -> Result<(), Failed> {
    let (time, memory) = measured(case, case.size)?;
    let (more_time, more_memory) = measured(case, 4 * case.size)?;
    let grown = |small: f64, large: f64, least: f64| large.max(least) / small.max(least);
    let times = [
        ("processor time", grown(time, more_time, LEAST.0)),
        ("memory", grown(memory, more_memory, LEAST.1)),
    ];
    for (what, times) in times {
        if times > MOST {
            let (name, size) = (case.name, case.size);
            return Err(format!(
                "{name}: size {size} took {time:.2} s and {memory:.0} bytes, four times that {more_time:.2} s and {more_memory:.0}: {times:.1} times the {what}"
            )
            .into());
        }
    }
    Ok(())
}

fn run_case(asked: &str) -> Result<(), String> {
    let (name, size) = asked.split_once(':').ok_or("no size")?;
    let case = CASES
        .iter()
        .find(|case| case.name == name)
        .ok_or("no such case")?;
    child(case, size.parse().map_err(|_| "no number")?)?;
    let (time, memory) = usage()?;
    println!("{time} {memory}");
    Ok(())
}

fn main() -> ExitCode {
    if let Ok(asked) = std::env::var(CASE) {
        return match run_case(&asked) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("{why}");
                ExitCode::FAILURE
            }
        };
    }
    let trials = CASES
        .iter()
        .map(|case| Trial::test(case.name, || grows_with_its_size(case)))
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
