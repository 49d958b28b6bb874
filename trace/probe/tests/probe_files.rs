//! The dialects of probe files, and the errors in them.

use margay_probe::{
    Capacity, Faults, Field, Level, Packing, Point, Width, load, load_dsl, load_toml,
};

const CURRENT: &str = r#"regs = 2
CALLBACK = "look.py"

[probe.zeta]
level = "warp"
position = "kernel:ld.shared::cta:st"
before = "mov.u64 %NR4, %clock64;"

[probe.alpha]
level = "thread"
pos = "kernel"
after = """
SAVE [ M ] { %NR0, ADDR }
"""

[map.M]
level = "thread"
type = "array"
size = 16
cap = 3

[map.M.regs]
second = ["u64", "None"]
first = ["u64", 7]
"#;

#[test]
fn the_current_dialect() {
    let file = load_toml("a.toml", CURRENT).expect("the file is valid");
    let names: Vec<&str> = file
        .probes
        .iter()
        .map(|probe| probe.name.as_str())
        .collect();
    assert_eq!(names, ["zeta", "alpha"], "the order of the file");
    assert_eq!(file.registers, 5, "the file's number is too small");
    assert_eq!(file.callback.as_deref(), Some("look.py"));
    let points = &file.probes[0].points;
    let text = |text: &str| Point::Instruction(text.to_owned());
    assert_eq!(points, &[Point::Kernel, text("ld.shared::cta"), text("st")]);
    let map = &file.maps[0];
    assert_eq!(
        (map.level, map.record, map.capacity),
        (Level::Thread, 16, Capacity::Records(3))
    );
    assert_eq!(
        map.fields
            .iter()
            .map(|field| field.name.as_str())
            .collect::<Vec<_>>(),
        ["second", "first"]
    );
    assert_eq!(file.text, CURRENT);
}

#[test]
fn the_spelling_of_the_documentation() {
    let text = r#"
callback = "block_sched.py"
[ map.block_sched ]
type = "array"
level = "warp"
size = "16"
cap = "1"
[ probe.ends ]
position = "kernel"
level = "warp"
register = { u32 = 2, u64 = 3 }
before = """.reg .b64 %PD<3>;
.reg .b32 %P<2>;
mov.u64 %PD0, %clock64;"""
after = """mov.u64 %PD1, %clock64;
sub.u64 %PD1, %PD1, %PD0;
cvt.u32.u64 %P1, %PD1;
mov.u32 %P2, %smid;
SAVE [ block_sched ] {%PD0, %P1, %P2};"""
"#;
    let file = load_toml("doc.toml", text).expect("the file is valid");
    let field = |name: &str, width| Field {
        name: name.to_owned(),
        width,
    };
    let expected = [
        field("PD0_0", Width::U64),
        field("P1_1", Width::U32),
        field("P2_2", Width::U32),
    ];
    assert_eq!(file.maps[0].fields, expected);
    assert_eq!(file.callback.as_deref(), Some("block_sched.py"));
}

#[test]
fn the_dialect_of_the_artifact() {
    let text = r#"
author = "A"
description = "D"
dynamic = true
analyze_hook = "hook.py"

[start]
position = "kernel"
before = """
.reg .b64 %lstart;
mov.u64 %lstart, %clock64;
"""

[loads]
position = "ld.global:st.global"
datamodel = "thread:24:count"
no_pred = true
after = """
.reg .b64 %now;
mov.u64 %now, %clock64;
SAVE.u64 {%lstart, %now};
SAVE.u32 {%smid, 3};
"""

[ends]
position = "kernel"
datamodel = "warp:8"
after = "SAVE.u64 {%lstart};"
"#;
    let file = load_toml("old.toml", text).expect("the file is valid");
    assert_eq!(file.callback.as_deref(), Some("hook.py"));
    assert_eq!(
        file.probes
            .iter()
            .map(|probe| probe.level)
            .collect::<Vec<_>>(),
        [Level::Thread, Level::Thread, Level::Warp]
    );
    assert!(file.probes[1].ignores_predicate);
    let [loads, ends] = file.maps.as_slice() else {
        panic!("two maps");
    };
    assert_eq!(
        (loads.record, loads.capacity, loads.packing),
        (24, Capacity::Dynamic, Packing::AsWritten)
    );
    let names: Vec<&str> = loads
        .fields
        .iter()
        .map(|field| field.name.as_str())
        .collect();
    assert_eq!(names, ["lstart_0", "now_1", "smid_2", "field3"]);
    assert_eq!(
        (ends.level, ends.capacity),
        (Level::Warp, Capacity::Records(1))
    );
}

/// Returns the error in a probe file.
fn fails(text: &str) -> String {
    load_toml("x.toml", text)
        .expect_err("the file has an error")
        .to_string()
}

#[test]
fn errors_name_line_and_probe() {
    let cases = [
        ("a = [", "x.toml:1: unclosed array, expected `]`"),
        ("", "x.toml: there is no table of a probe"),
        (
            "[probe.a]\npos = \"add\"\nlevel = \"thread\"\nafter = \"\"",
            "x.toml: there is no table `map`",
        ),
        ("probe = 3", "x.toml:1: `probe` must be a table"),
        (
            "[probe.a]\nlevel = \"thread\"\nafter = \"\"",
            "x.toml:1: `a`: `pos` is missing",
        ),
        (
            "[probe.a]\npos = \"add\"\nlevel = \"thread\"",
            "x.toml:1: `a`: neither `before` nor `after` is present",
        ),
        (
            "[probe.a]\npos = \"add\"\nlevel = \"block\"\nafter = \"\"",
            "x.toml:3: `a`: the level is `block`, but must be `thread` or `warp`",
        ),
        (
            "[probe.a]\npos = \"add:\"\nlevel = \"thread\"\nafter = \"\"",
            "x.toml:2: `a`: a tracepoint is empty",
        ),
        (
            "[probe.a]\npos = \"add\"\nlevel = \"thread\"\nafter = \"\"\"\n\nadd.u64 %NR0, %NR0, 1\n\"\"\"",
            "x.toml:7: `a`: `;` is missing before the end of the text",
        ),
        (
            "[probe.a]\npos = \"add\"\nlevel = \"thread\"\nafter = \"{ ret;\"",
            "x.toml:4: `a`: a `{` has no `}`",
        ),
        (
            "[probe.a]\npos = \"add\"\nlevel = \"thread\"\nafter = \"}\"",
            "x.toml:4: `a`: a `}` has no `{`",
        ),
        (
            "[probe.a]\npos = \"add\"\nlevel = \"thread\"\nafter = \"SAVE [ M { 1 };\"",
            "x.toml:4: `a`: `]` is missing before `{`",
        ),
        (
            "[probe.a]\npos = \"add\"\nlevel = \"thread\"\nafter = \"mov.u64 ADDR, 1;\"",
            "x.toml:4: `a`: `mov.u64` writes to the helper ADDR",
        ),
        (
            "[probe.a]\npos = \"add\"\nlevel = \"thread\"\nafter = \".shared .b32 x;\"",
            "x.toml:4: `a`: a probe declares only registers, not `.shared`",
        ),
        (
            "[a]\nposition = \"add\"\nafter = \"SAVE.u64 {1};\"",
            "x.toml:1: `a`: the probe saves values, but has no `datamodel`",
        ),
        (
            "[a]\nposition = \"add\"\ndatamodel = \"thread:x\"\nafter = \"SAVE.u64 {1};\"",
            "x.toml:3: `a`: the datamodel is `thread:x`, but must be `thread` or `warp`, the bytes, and a number or `count`",
        ),
        (
            "[a]\nposition = \"add\"\ndatamodel = \"thread:16\"\nafter = \"SAVE.u64 {1};\"",
            "x.toml:1: `a`: the fields have 8 bytes, but the size of a record is 16 bytes",
        ),
        (
            "[a]\nposition = \"add\"\ndatamodel = \"thread:16\"\nafter = \"\"\"SAVE.u32 {1};\nSAVE.u64 {1};\"\"\"",
            "x.toml:5: `a`: `SAVE.u64` follows an odd number of 32-bit values and would not be aligned",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(fails(text).lines().next(), Some(expected), "{text}");
    }
}

#[test]
fn errors_in_maps() {
    let with = |map: &str, save: &str| {
        fails(&format!(
            "[probe.a]\npos = \"add\"\nlevel = \"thread\"\nafter = \"SAVE [ M ] {{ {save} }};\"\n[map.M]\n{map}"
        ))
    };
    let shape = |size: &str, cap: &str, regs: &str| {
        format!(
            "level = \"thread\"\ntype = \"array\"\nsize = {size}\ncap = {cap}\n[map.M.regs]\n{regs}"
        )
    };
    let one = "a = [\"u64\"]";
    assert_eq!(
        with(&shape("12", "1", one), "1"),
        "x.toml:5: `M`: the size of a record is 12 bytes, but must be a multiple of 8 from 8 to 4096"
    );
    assert_eq!(
        with(&shape("16", "1", one), "1"),
        "x.toml:5: `M`: the fields have 8 bytes, but the size of a record is 16 bytes"
    );
    assert_eq!(
        with(&shape("8", "-1", one), "1"),
        "x.toml:9: `M`: `cap` must be a number from 0 to 4294967295"
    );
    assert_eq!(
        with(&shape("8", "\"many\"", one), "1"),
        "x.toml:9: `M`: `cap` must be a number from 0 to 4294967295"
    );
    assert_eq!(
        with(&shape("8", "1", "a = [\"f32\"]"), "1"),
        "x.toml:11: `M`: the field `a` must have the type `u32` or `u64`"
    );
    assert_eq!(
        with(&shape("8", "1", one), "1, 2"),
        "x.toml:4: `a`: SAVE has 2 values, but the map `M` has 1 fields"
    );
    assert_eq!(
        with("type = \"hash\"", "1"),
        "x.toml:6: `M`: the type of a map must be `array`"
    );
    assert_eq!(
        with(
            "level = \"warp\"\ntype = \"array\"\nsize = 16\ncap = 1",
            "1"
        ),
        "x.toml:5: `M`: the fields have 8 bytes, but the size of a record is 16 bytes"
    );
}

const PYTHON: &str = r#"
"""A program."""
from neutrino import probe, Map
import neutrino.language as nl

CALLBACK = "look.py"

@Map(level="thread", type="array", size=16, cap="dynamic")
class M:
    small: nl.u32
    wide: nl.u64
    other: nl.u32

counter: nl.u64 = 0
scale: nl.u64 = 3

@probe(pos="kernel", level="thread", before=True)
def init():
    counter = 5

@probe(pos="ld.global", level="thread")
def first():
    counter += nl.bytes
    counter = -counter * (scale + 1) << 2

@probe(pos="ld.global", level="thread")
def second():
    M.save(nl.cuid(), nl.addr, nl.clock() - counter / 2)
"#;

#[test]
fn python_programs_become_toml() {
    let file = load_dsl("p.py", PYTHON, Faults::Fixed).expect("the program is valid");
    let expected = r#"regs = 6
CALLBACK = "look.py"
dynamic = true

[probe.first_values_of_registers]
pos = "kernel"
level = "thread"
before = """
mov.u64 %NR1, 3;
"""

[probe.init]
pos = "kernel"
level = "thread"
before = """
mov.u64 %NR0, 5;"""

[probe.first_second]
pos = "ld.global"
level = "thread"
after = """
add.u64 %NR0, %NR0, BYTES;
neg.s64 %NR3, %NR0;
add.u64 %NR4, %NR1, 1;
mul.lo.u64 %NR2, %NR3, %NR4;
{
.reg .u32 %amount;
.reg .u64 %wide;
mov.u64 %wide, 2;
min.u64 %wide, %wide, 64;
cvt.u32.u64 %amount, %wide;
shl.b64 %NR0, %NR2, %amount;
}
{
.reg .b32 %cuid;
mov.u32 %cuid, %smid;
cvt.u64.u32 %NR2, %cuid;
}
mov.u64 %NR4, %clock64;
div.u64 %NR5, %NR0, 2;
sub.u64 %NR3, %NR4, %NR5;
SAVE [ M ] { %NR2, ADDR, %NR3 };"""

[map.M]
level = "thread"
type = "array"
size = 16
cap = "dynamic"

[map.M.regs]
small = ["u32", "None"]
wide = ["u64", "None"]
other = ["u32", "None"]
"#;
    assert_eq!(file.text, expected);
    assert_eq!(file.name, "p.py");
    let same = load("p.py", Some(PYTHON), Faults::Fixed).expect("the program is valid");
    assert_eq!(same, file);
}

#[test]
fn the_original_compiler_has_faults() {
    let text = PYTHON.replace("-counter", "counter").replace(" << 2", "");
    let file = load_dsl("p.py", &text, Faults::Original).expect("the program is valid");
    assert!(
        file.text.contains("before = \"\"\"\n\"\"\""),
        "constants vanish: {}",
        file.text
    );
    assert!(!file.text.contains("first_values_of_registers"));
    assert!(
        file.text.contains("mul.u64 %NR0, %NR0, %NR2;{"),
        "{}",
        file.text
    );
    assert!(
        file.text.contains("wide = [\"u64\", \"None\"]\nsmall"),
        "fields are sorted"
    );
    let error = load_dsl("p.py", PYTHON, Faults::Original).expect_err("negation is not supported");
    assert_eq!(
        error.to_string(),
        "p.py:24: this expression is not supported"
    );
}

#[test]
fn errors_in_python_programs_have_lines() {
    let with = |old: &str, new: &str| {
        assert!(PYTHON.contains(old), "{old}");
        load_dsl("p.py", &PYTHON.replace(old, new), Faults::Fixed)
            .expect_err("the program has an error")
            .to_string()
    };
    let cases = [
        (
            "counter = 5",
            "counter = = 5",
            "p.py:19: Expected an expression",
        ),
        (
            "counter = 5",
            "missing = 5",
            "p.py:19: only a register of the module can be assigned",
        ),
        (
            "counter = 5",
            "if counter: pass",
            "p.py:19: a probe has only assignments and `map.save(...)`",
        ),
        (
            "counter = 5",
            "counter = 5.0",
            "p.py:19: the value must be an integer from 0 to 2^64 - 1",
        ),
        (
            "counter = 5",
            "counter = counter % 2",
            "p.py:19: only + - * / and << are supported",
        ),
        (
            "counter = 5",
            "counter = nl.tid()",
            "p.py:19: only clock(), time() and cuid() of neutrino.language have values",
        ),
        (
            "counter = 5",
            "counter = missing",
            "p.py:19: `missing` is not a register of the module",
        ),
        (
            "counter = 5",
            "counter",
            "p.py:19: an expression has no effect",
        ),
        (
            "nl.cuid(), nl.addr, ",
            "",
            "p.py:28: the map `M` has 3 fields, but 1 values are saved",
        ),
        ("M.save", "N.save", "p.py:28: there is no map `N`"),
        (
            "    wide: nl.u64",
            "    wide: nl.f64",
            "p.py:11: the type must be `u32` or `u64` of neutrino.language",
        ),
        (
            "size=16",
            "size=12",
            "p.py:9: `M`: the size of a record is 12 bytes, but must be a multiple of 8 from 8 to 4096",
        ),
        (
            "cap=\"dynamic\"",
            "cap=\"big\"",
            "p.py:8: cap must be a number or \"dynamic\"",
        ),
        (
            "@probe(pos=\"kernel\", level=\"thread\", before=True)",
            "",
            "p.py:18: a function needs the decorator `@probe(...)`",
        ),
        (
            "scale: nl.u64 = 3",
            "counter: nl.u64 = 3",
            "p.py:15: the register `counter` is declared twice",
        ),
        (
            "scale: nl.u64 = 3",
            "for x in y: pass",
            "p.py:15: this statement is not supported at module level",
        ),
        (
            "pos=\"kernel\", level",
            "level",
            "p.py:17: the probe has no `pos`",
        ),
        (
            "class M",
            "class Mü",
            "p.py:9: the name has letters that PTX does not have",
        ),
    ];
    for (old, new, expected) in cases {
        assert_eq!(with(old, new), expected);
    }
}

#[test]
fn deep_and_long_programs_are_refused() {
    let deep = |open: &str, close: &str| {
        let value = format!("{}counter{}", open.repeat(20_000), close.repeat(20_000));
        load_dsl(
            "p.py",
            &PYTHON.replace("counter = 5", &format!("counter = {value}")),
            Faults::Fixed,
        )
        .expect_err("the expression is too deep")
    };
    for (open, close) in [
        ("(", ")"),
        ("-", ""),
        ("not ", ""),
        ("a.", ""),
        ("lambda: ", ""),
        ("nl.clock() + ", ""),
    ] {
        assert_eq!(deep(open, close).line, 19, "{open}");
    }
    let long = "#".repeat((1 << 20) + 1);
    assert_eq!(
        load_dsl("p.py", &long, Faults::Fixed)
            .expect_err("too long")
            .to_string(),
        "p.py: the program has more than 1048576 bytes"
    );
}
