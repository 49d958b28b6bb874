//! Writes the text of generated kernels.
//!
//! When the text is written, the properties that depend on a statement's position are determined.
//! If lanes diverge at a statement that contains statements in which threads synchronise, a ballot
//! (for a switch, `match.any`) computes the mask of the lanes in each branch.

use std::fmt::Write as _;

use super::functions;
use super::layout::{INPUT_SECTION, Layout, REGISTERS};
use super::program::{Condition, Counting, Kernel, Leaf, Level, Statement, meets};

/// Returns the beginning of a module that contains kernels with the text `kernels`: the functions
/// and tables that the kernels use.
pub fn header(kernels: &str) -> String {
    let mut out = ".version 7.8\n.target sm_80\n.address_size 64\n".to_owned();
    if names(kernels, "table") {
        let element = |i: u32| i.wrapping_mul(i).wrapping_mul(0x0101_6b55).to_string();
        let elements: Vec<String> = (0..64).map(element).collect();
        let _ = writeln!(
            out,
            ".const .align 8 .u32 table[64] = {{{}}};",
            elements.join(", ")
        );
    }
    for (name, text) in functions::ALL {
        if names(kernels, name) {
            out += text;
        }
    }
    out
}

/// Returns the text of a kernel, whose module begins with [`header`].
pub fn kernel(kernel: &Kernel) -> String {
    let mut writer = Writer {
        kernel,
        counts: !kernel.body.iter().any(Statement::exits) && kernel.threads().is_multiple_of(32),
        out: String::new(),
        labels: 0,
    };
    let scope = Scope {
        level: Level::Cta,
        mask: "0xffffffff".to_owned(),
        depth: 0,
        looped: None,
    };
    writer.list(&kernel.body, &scope);
    let body = writer.out;
    let layout = Layout::new(kernel.all_threads());
    let mut out = String::new();
    let name = kernel.name();
    let _ = write!(
        out,
        "\n.visible .entry {name}(.param .u64 in, .param .u64 out, .param .u32 n, .param .u32 s, .param .f32 x)\n{{\n"
    );
    declare(kernel, &body, &mut out);
    begin(kernel, &body, &mut out);
    out += &body;
    end(kernel, &body, &layout, &mut out);
    out
}

/// Returns whether `text` contains the name `register` of a register, variable or function as a whole word.
fn names(text: &str, register: &str) -> bool {
    text.match_indices(register).any(|(at, _)| {
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let next = text[at + register.len()..].chars().next();
        let last = text[..at].chars().next_back();
        !next.is_some_and(part) && (register.starts_with('%') || !last.is_some_and(part))
    })
}

fn declare(kernel: &Kernel, body: &str, out: &mut String) {
    *out += "    .reg .pred %p<3>, %q<2>, %c<8>;\n";
    *out += "    .reg .b32 %r<5>, %w<2>, %t<8>, %i<8>, %n<8>, %m<8>, %lin, %gid, %lane, %n, %tx, %ty, %tz, %nx, %ny;\n";
    *out += "    .reg .b64 %d<3>, %u<3>, %in, %out;\n";
    *out += "    .reg .f32 %f<3>, %x<2>; .reg .f64 %e<2>; .reg .b16 %h<2>, %g<2>;\n";
    let threads = kernel.threads().next_multiple_of(32);
    let windows = [
        ("cells", 4 * threads),
        ("warpcells", 4 * threads),
        ("wide", 8 * threads),
        ("own", 16 * threads),
        ("sums", 64),
    ];
    for (name, bytes) in windows {
        if names(body, name) {
            let _ = writeln!(out, "    .shared .align 16 .b8 {name}[{bytes}];");
        }
    }
    if names(body, "mine") {
        *out += "    .local .align 8 .b8 mine[16];\n";
    }
}

/// Writes code that initialises all registers that the body uses, and the memory that the body may
/// read before it writes this memory.
fn begin(kernel: &Kernel, body: &str, out: &mut String) {
    *out += "    ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u32 %n, [n];
    mov.u32 %tx, %tid.x; mov.u32 %ty, %tid.y; mov.u32 %tz, %tid.z; mov.u32 %nx, %ntid.x; mov.u32 %ny, %ntid.y;
    mad.lo.u32 %lin, %tz, %ny, %ty; mad.lo.u32 %lin, %lin, %nx, %tx;
    mov.u32 %t0, %ctaid.y; mov.u32 %t1, %nctaid.x; mov.u32 %t2, %ctaid.x; mad.lo.u32 %t0, %t0, %t1, %t2;\n";
    let _ = writeln!(
        out,
        "    mad.lo.u32 %gid, %t0, {}, %lin; mov.u32 %lane, %laneid;",
        kernel.threads()
    );
    *out += "    ld.param.u32 %w0, [s]; add.u32 %w1, %t0, 3;\n";
    for (letter, count, bytes, _) in REGISTERS {
        let (ty, section) = match letter {
            'r' => ("u32", 0),
            'd' => ("u64", 0),
            'f' => ("f32", 1),
            'e' => ("f64", 2),
            'h' => ("u16", 0),
            'g' => ("b16", 3),
            _ => continue,
        };
        let named = (0..count).filter(|i| names(body, &format!("%{letter}{i}")));
        let named: Vec<u32> = named.collect();
        if named.is_empty() {
            continue;
        }
        let _ = write!(out, "    mad.wide.u32 %u0, %gid, {bytes}, %in;");
        for i in named {
            let offset = section * INPUT_SECTION + bytes * 37 * i;
            let _ = write!(out, " ld.global.{ty} %{letter}{i}, [%u0+{offset}];");
        }
        out.push('\n');
    }
    *out += "    setp.lt.u32 %p0, %lane, 11; setp.eq.u32 %p1, %lin, 5;\n";
    *out += "    and.b32 %t0, %gid, 1; setp.eq.u32 %p2, %t0, 0;\n";
    clear(kernel, body, out);
}

/// Writes code that initialises the shared and local memory that the kernel uses.
fn clear(kernel: &Kernel, body: &str, out: &mut String) {
    let threads = kernel.threads();
    let mut shared = false;
    for (name, words) in [
        ("cells", 1),
        ("warpcells", 1),
        ("wide", 2),
        ("own", 4),
        ("sums", 0),
    ] {
        if !names(body, name) {
            continue;
        }
        shared = true;
        let bytes = if words == 0 {
            64
        } else {
            4 * words * threads.next_multiple_of(32)
        };
        // Byte offsets begin at the thread's own offset and advance by the size of the block.
        let _ = write!(
            out,
            "    mov.u32 %t0, {name}; mad.lo.u32 %t0, %lin, 4, %t0; mov.u32 %t1, {name}; add.u32 %t1, %t1, {bytes};\n\
             clear_{name}: setp.ge.u32 %q0, %t0, %t1; @%q0 bra cleared_{name};\n    \
             st.shared.u32 [%t0], 0x01234567; add.u32 %t0, %t0, {}; bra clear_{name};\ncleared_{name}:\n",
            4 * threads
        );
    }
    if shared {
        *out += "    bar.sync 0;\n";
    }
    if names(body, "mine") {
        *out += "    st.local.u32 [mine], %lin; st.local.u32 [mine+4], %gid; st.local.u32 [mine+8], 7; st.local.u32 [mine+12], %lane;\n";
    }
}

/// Writes the code at the end of the kernel, which stores all registers that the body uses to the
/// result buffer.
fn end(kernel: &Kernel, body: &str, layout: &Layout, out: &mut String) {
    let threads = kernel.all_threads();
    for ((letter, count, bytes, _), section) in REGISTERS.iter().zip(&layout.registers) {
        if *letter == 'p' {
            continue;
        }
        let ty = match letter {
            'f' => "f32",
            'e' => "f64",
            _ => match bytes {
                2 => "b16",
                4 => "b32",
                _ => "b64",
            },
        };
        let named = (0..*count).filter(|i| names(body, &format!("%{letter}{i}")));
        let named: Vec<u32> = named.collect();
        if named.is_empty() {
            continue;
        }
        let _ = write!(out, "    mad.wide.u32 %u0, %gid, {bytes}, %out;");
        for i in named {
            let offset = section.offset + i * threads * bytes;
            let _ = write!(out, " st.global.{ty} [%u0+{offset}], %{letter}{i};");
        }
        out.push('\n');
    }
    let predicates = layout.registers[7].offset;
    let _ = write!(
        out,
        "    selp.u32 %t0, 1, 0, %p0; selp.u32 %t1, 2, 0, %p1; add.u32 %t0, %t0, %t1; selp.u32 %t1, 4, 0, %p2; add.u32 %t0, %t0, %t1;
    mad.wide.u32 %u0, %gid, 4, %out; st.global.u32 [%u0+{predicates}], %t0;\n"
    );
    if names(body, "sums") {
        let _ = write!(
            out,
            "    bar.sync 0;\n    and.b32 %t0, %lin, 15; mov.u32 %t1, sums; mad.lo.u32 %t0, %t0, 4, %t1; ld.shared.u32 %t0, [%t0]; st.global.u32 [%u0+{}], %t0;\n",
            layout.shared.offset
        );
    }
    *out += "    ret;\n}\n";
}

/// A loop that contains the statement that is written.
#[derive(Clone)]
struct Looped {
    level: Level,
    depth: usize,
    meets: bool,
    next: String,
    end: String,
}

#[derive(Clone)]
struct Scope {
    level: Level,
    /// The operand that contains the mask of the active lanes.
    mask: String,
    depth: usize,
    looped: Option<Looped>,
}

struct Writer<'a> {
    kernel: &'a Kernel,
    /// Whether a barrier can specify a thread count, because every warp has 32 threads and no
    /// thread exits before the end of the kernel.
    counts: bool,
    out: String,
    labels: u32,
}

impl Writer<'_> {
    fn label(&mut self) -> u32 {
        self.labels += 1;
        self.labels
    }

    fn line(&mut self, depth: usize, text: &str) {
        for part in text.lines() {
            let _ = writeln!(self.out, "{:1$}{part}", "", 4 + 2 * depth);
        }
    }

    /// Returns the text of a leaf statement. Placeholders in the text, such as `<M>` for the mask,
    /// are replaced by their values at the current position.
    fn leaf(&mut self, leaf: &Leaf, scope: &Scope) -> String {
        let mut text = leaf.text.replace("<M>", &scope.mask);
        if text.contains("<L>") {
            text = text.replace("<L>", &self.label().to_string());
        }
        let count = if self.counts {
            format!(", {}", self.kernel.threads())
        } else {
            String::new()
        };
        text.replace("<COUNT>", &count)
            .replace("<C>", &format!("%c{}", scope.depth))
            .replace("<N>", &format!("%n{}", scope.depth))
    }

    fn list(&mut self, list: &[Statement], scope: &Scope) {
        for statement in list {
            match statement {
                Statement::Leaf(leaf) => {
                    let text = self.leaf(leaf, scope);
                    self.line(scope.depth, &text);
                }
                Statement::If(condition, then, other) => self.branch(condition, then, other, scope),
                Statement::Loop {
                    counting,
                    limit,
                    body,
                } => self.turns(*counting, limit, body, scope),
                Statement::Switch { selector, arms } => self.switch(selector, arms, scope),
                Statement::Exit(condition) => {
                    let text = self.leaf(&condition.leaf, scope);
                    self.line(scope.depth, &format!("{text} @%c{} exit;", scope.depth));
                }
                Statement::Break(condition) => self.leave(condition, scope, true),
                Statement::Continue(condition) => self.leave(condition, scope, false),
            }
        }
    }

    /// Returns the scope of the statements inside a statement whose condition has the level
    /// `level`. In this scope, lanes may have diverged.
    fn inside(scope: &Scope, level: Level) -> Scope {
        Scope {
            level: scope.level.min(level),
            depth: scope.depth + 1,
            ..scope.clone()
        }
    }

    fn branch(
        &mut self,
        condition: &Condition,
        then: &[Statement],
        other: &[Statement],
        scope: &Scope,
    ) {
        let number = self.label();
        let depth = scope.depth;
        let text = self.leaf(&condition.leaf, scope);
        self.line(depth, &text);
        let parts = condition.level == Level::Lane && (meets(then) || meets(other));
        let mut inside = Writer::inside(scope, condition.level);
        if parts {
            let ballot = format!("vote.sync.ballot.b32 %m{depth}, %c{depth}, {};", scope.mask);
            self.line(depth, &ballot);
            inside.mask = format!("%m{depth}");
        }
        self.line(depth, &format!("@!%c{depth} bra else{number};"));
        self.list(then, &inside);
        if other.is_empty() {
            self.line(depth, &format!("else{number}:"));
            return;
        }
        self.line(depth, &format!("bra end{number};"));
        self.line(depth, &format!("else{number}:"));
        if parts {
            let rest = format!(
                "not.b32 %m{depth}, %m{depth}; and.b32 %m{depth}, %m{depth}, {};",
                scope.mask
            );
            self.line(depth, &rest);
        }
        self.list(other, &inside);
        self.line(depth, &format!("end{number}:"));
    }

    fn turns(&mut self, counting: Counting, limit: &Condition, body: &[Statement], scope: &Scope) {
        let number = self.label();
        let d = scope.depth;
        let text = self.leaf(&limit.leaf, scope);
        self.line(d, &text);
        let mut inside = Writer::inside(scope, limit.level);
        let meets = meets(body);
        // Lanes also diverge if some of them leave the loop.
        let parts = meets && inside.level == Level::Lane;
        if parts {
            inside.mask = format!("%m{d}");
            self.line(d, &format!("mov.u32 %m{d}, {};", scope.mask));
        }
        inside.looped = Some(Looped {
            level: inside.level,
            depth: inside.depth,
            meets,
            next: format!("next{number}"),
            end: format!("end{number}"),
        });
        let start = match counting {
            Counting::Down => format!("mov.u32 %i{d}, %n{d};"),
            Counting::Tested => format!("max.u32 %n{d}, %n{d}, 1; mov.u32 %i{d}, 0;"),
            _ => format!("mov.u32 %i{d}, 0;"),
        };
        self.line(d, &start);
        self.line(d, &format!("loop{number}:"));
        let (goes_on, step) = match counting {
            Counting::Down => (
                format!("setp.ne.u32 %c{d}, %i{d}, 0;"),
                format!("sub.u32 %i{d}, %i{d}, 1;"),
            ),
            Counting::UpByThree => (
                format!("setp.lt.u32 %c{d}, %i{d}, %n{d};"),
                format!("add.u32 %i{d}, %i{d}, 3;"),
            ),
            _ => (
                format!("setp.lt.u32 %c{d}, %i{d}, %n{d};"),
                format!("add.u32 %i{d}, %i{d}, 1;"),
            ),
        };
        let ballot = if parts {
            format!(" vote.sync.ballot.b32 %m{d}, %c{d}, %m{d};")
        } else {
            String::new()
        };
        if counting == Counting::Tested {
            self.list(body, &inside);
            self.line(d, &format!("next{number}: {step}"));
            self.line(d, &format!("{goes_on}{ballot} @%c{d} bra loop{number};"));
        } else {
            self.line(d, &format!("{goes_on}{ballot} @!%c{d} bra end{number};"));
            self.list(body, &inside);
            self.line(d, &format!("next{number}: {step} bra loop{number};"));
        }
        self.line(d, &format!("end{number}:"));
    }

    fn switch(&mut self, selector: &Condition, arms: &[Vec<Statement>], scope: &Scope) {
        let number = self.label();
        let d = scope.depth;
        let text = self.leaf(&selector.leaf, scope);
        self.line(d, &text);
        let mut inside = Writer::inside(scope, selector.level);
        if selector.level == Level::Lane && arms.iter().any(|arm| meets(arm)) {
            let text = format!("match.any.sync.b32 %m{d}, %n{d}, {};", scope.mask);
            self.line(d, &text);
            inside.mask = format!("%m{d}");
        }
        let labels: Vec<String> = (0..arms.len())
            .map(|i| format!("arm{number}_{i}"))
            .collect();
        let text = format!(
            "arms{number}: .branchtargets {}; brx.idx %n{d}, arms{number};",
            labels.join(", ")
        );
        self.line(d, &text);
        for (arm, label) in arms.iter().zip(&labels) {
            self.line(d, &format!("{label}:"));
            self.list(arm, &inside);
            self.line(d, &format!("bra end{number};"));
        }
        self.line(d, &format!("end{number}:"));
    }

    /// Writes a `break` or `continue`, unless no loop contains it or threads that must synchronise would diverge.
    fn leave(&mut self, condition: &Condition, scope: &Scope, ends: bool) {
        let Some(looped) = &scope.looped else {
            return;
        };
        let level = scope.level.min(condition.level);
        if level < looped.level
            || looped.meets && level == Level::Lane && (!ends || scope.depth != looped.depth)
        {
            return;
        }
        let d = scope.depth;
        let text = self.leaf(&condition.leaf, scope);
        self.line(d, &text);
        if looped.meets && level == Level::Lane {
            let m = &scope.mask;
            let text = format!("not.pred %q0, %c{d}; vote.sync.ballot.b32 {m}, %q0, {m};");
            self.line(d, &text);
        }
        let target = if ends { &looped.end } else { &looped.next };
        self.line(d, &format!("@%c{d} bra {target};"));
    }
}
