//! Generates PTX kernels that execute an instruction for many inputs.
//!
//! In the kernel `ramp`, thread `i` computes its operand as `start + step * i`. In the kernel
//! `list`, each thread loads its operands from memory. Both kernels store each result as one word.

/// The register type of an operand or result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// A floating-point register of this width in bits.
    Float(u32),
    /// An untyped register of this width in bits.
    Bits(u32),
}

impl Held {
    fn register(self) -> String {
        match self {
            Held::Float(bits) => format!(".f{bits}"),
            Held::Bits(bits) => format!(".b{bits}"),
        }
    }

    /// Returns the number of bytes of the word in memory that contains the operand or result.
    pub const fn bytes(self) -> u32 {
        match self {
            Held::Float(64) | Held::Bits(64) => 8,
            _ => 4,
        }
    }
}

/// An instruction with the types of its operands and result.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// Name of the instruction with all modifiers.
    pub name: String,
    /// Register types of the operands.
    pub operands: Vec<Held>,
    /// Register type of the result.
    pub result: Held,
    /// PTX version and target that the instruction needs.
    pub target: (&'static str, &'static str),
}

impl Instruction {
    /// Returns the text of a module with the kernels of the instruction.
    pub fn module(&self) -> String {
        let (version, target) = self.target;
        let (ramp, list) = (self.entry(true), self.entry(false));
        format!(".version {version}\n.target {target}\n.address_size 64\n\n{ramp}\n{list}")
    }

    fn entry(&self, ramp: bool) -> String {
        let mut text = String::new();
        let mut add = |line: &str| {
            text += line;
            text.push('\n');
        };
        let pointers: String = (0..self.operands.len())
            .map(|i| format!(", .param .u64 in{i}"))
            .collect();
        if ramp {
            add(
                ".visible .entry ramp(.param .u64 out, .param .u32 count, .param .u32 start, .param .u32 step)",
            );
        } else {
            add(&format!(
                ".visible .entry list(.param .u64 out, .param .u32 count{pointers})"
            ));
        }
        add("{");
        add(
            "    .reg .pred %p; .reg .b32 %i, %n, %t, %w; .reg .b64 %at, %v; .reg .b16 %h; .reg .b8 %zero;",
        );
        add(&format!("    .reg {} %d;", self.result.register()));
        for (i, operand) in self.operands.iter().enumerate() {
            add(&format!("    .reg {} %a{i};", operand.register()));
        }
        add("    mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %t, %tid.x;");
        add("    mad.lo.u32 %i, %i, %n, %t; ld.param.u32 %n, [count];");
        add("    setp.ge.u32 %p, %i, %n; @%p bra done;");
        if ramp {
            add(
                "    ld.param.u32 %n, [step]; ld.param.u32 %t, [start]; mad.lo.u32 %w, %i, %n, %t;",
            );
            for (i, operand) in self.operands.iter().enumerate() {
                add(&move_in(*operand, i));
            }
        } else {
            for (i, operand) in self.operands.iter().enumerate() {
                let bytes = operand.bytes();
                let word = if bytes == 8 { "%v" } else { "%w" };
                add(&format!(
                    "    ld.param.u64 %at, [in{i}]; mad.wide.u32 %at, %i, {bytes}, %at; ld.global.b{} {word}, [%at];",
                    bytes * 8
                ));
                add(&move_in(*operand, i));
            }
        }
        let operands: String = (0..self.operands.len())
            .map(|i| format!(", %a{i}"))
            .collect();
        add(&format!("    {} %d{operands};", self.name));
        let bytes = self.result.bytes();
        add(&format!(
            "    ld.param.u64 %at, [out]; mad.wide.u32 %at, %i, {bytes}, %at;"
        ));
        add(move_out(self.result));
        add("done:\n    ret;\n}");
        text
    }
}

/// Returns the code that moves the loaded word to operand `i` of the instruction.
fn move_in(operand: Held, i: usize) -> String {
    match operand {
        Held::Float(64) | Held::Bits(64) => format!("    mov.b64 %a{i}, %v;"),
        Held::Bits(16) => format!("    cvt.u16.u32 %a{i}, %w;"),
        _ => format!("    mov.b32 %a{i}, %w;"),
    }
}

/// Returns the code that stores the result as a word.
fn move_out(result: Held) -> &'static str {
    match result {
        Held::Float(64) | Held::Bits(64) => "    mov.b64 %v, %d; st.global.b64 [%at], %v;",
        Held::Bits(16) => "    cvt.u32.u16 %w, %d; st.global.b32 [%at], %w;",
        Held::Bits(8) => {
            "    mov.b16 {%zero, _}, 0; mov.b16 %h, {%d, %zero}; cvt.u32.u16 %w, %h; st.global.b32 [%at], %w;"
        }
        _ => "    mov.b32 %w, %d; st.global.b32 [%at], %w;",
    }
}
