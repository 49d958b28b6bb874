//! Writes file tests that execute the literal cases of `ir/ops/tests/meanings` as PTX instructions.
//!
//! A case is executed if
//!
//! - its op has a pure meaning,
//! - the syntax table accepts the start of its line as an instruction of a target in `TARGETS` (cases with words that
//!   exist only in the IR, such as the `bs32` of video ops, are therefore not executed), and
//! - the instruction reads as many registers or constants and writes as many registers as the case has operands and
//!   results (cases with `cc` are not executed, because PTX has no register for the carry).
//!
//! One kernel executes all cases with the same instruction. The kernel executes the instruction
//! twice: once with the same operands in all lanes of a block, and once with different cases in
//! neighbouring lanes. The instruction's line in the syntax table determines the types of the
//! registers. Where a case expects a NaN, any NaN is accepted, because PTX does not specify the
//! bits of NaNs.

use margay_ops::meaning::{Bits, Meaning};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;
use margay_ptx::{Action, Allow, Shape, Spelling, Target, TypeRule, Version, spell};

mod kernel;
#[path = "../../ir/ops/tests/support/mod.rs"]
mod support;

use kernel::Kernel;
use support::{Case, cases, values};

/// The targets of the file tests. Each case uses the first of these targets that supports its
/// instruction.
const TARGETS: [&str; 4] = ["sm_100a", "sm_107a", "sm_90a", "sm_120a"];
const VERSION: (u16, u16) = (9, 5);

/// A file test of the cases of one table that use the same target.
#[derive(Debug)]
pub struct LiteralTest {
    /// The name of the table, such as `meanings/bits`.
    pub name: String,
    /// The target of the file test.
    pub target: &'static str,
    /// The contents of the file: PTX and directives.
    pub text: String,
    /// The cases that the file executes, in the order of its kernels.
    pub cases: Vec<Executed>,
}

/// A case that a file test executes.
#[derive(Debug)]
pub struct Executed {
    /// The case's op.
    pub opcode: Opcode,
    /// The name of the kernel that executes the case.
    pub kernel: String,
    /// A text that states the table that contains the case, the line number in the table, and the
    /// text of the line.
    pub case: String,
}

/// Returns the file tests of all tables.
pub fn literal_tests() -> Vec<LiteralTest> {
    literal_tests_for(&TARGETS, VERSION)
}

/// Returns the file tests of all tables for other targets and another version of the ISA, which a GPU may require.
pub fn literal_tests_for(targets: &[&'static str], version: (u16, u16)) -> Vec<LiteralTest> {
    let mut files: Vec<(LiteralTest, Vec<Kernel>)> = Vec::new();
    for case in cases() {
        let Some((target, instruction)) = instruction(&case, targets, version) else {
            continue;
        };
        let name = format!("meanings/{}", case.at.0.trim_end_matches(".txt"));
        let known = files
            .iter()
            .position(|(file, _)| file.name == name && file.target == target);
        let at = known.unwrap_or_else(|| {
            let text = String::new();
            let cases = Vec::new();
            let file = LiteralTest {
                name,
                target,
                text,
                cases,
            };
            files.push((file, Vec::new()));
            files.len() - 1
        });
        let kernels = &mut files[at].1;
        match kernels.iter_mut().find(|k| k.instruction == instruction) {
            Some(kernel) => kernel.cases.push(case),
            None => kernels.push(Kernel {
                name: format!("{}_{}", identifier(case.head), kernels.len()),
                instruction,
                cases: vec![case],
            }),
        }
    }
    files
        .into_iter()
        .map(|(file, kernels)| finish(file, &kernels, version))
        .collect()
}

/// Returns a text that states the table that contains a case, the line number in the table, and the
/// text of the line.
fn place(case: &Case) -> String {
    format!("{}:{}: {}", case.at.0, case.at.1, case.line)
}

fn identifier(head: &str) -> String {
    head.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

fn finish(mut file: LiteralTest, kernels: &[Kernel], version: (u16, u16)) -> LiteralTest {
    let (major, minor) = version;
    let target = file.target;
    file.text = format!(
        "// Written by tests/src/literal.rs.\n.version {major}.{minor}\n.target {target}\n.address_size 64\n"
    );
    for kernel in kernels {
        kernel
            .write(&mut file.text)
            .expect("strings take everything");
        file.cases.extend(kernel.cases.iter().map(|case| Executed {
            opcode: case.desc.opcode,
            kernel: kernel.name.clone(),
            case: place(case),
        }));
    }
    file
}

/// Returns whether PTX has an instruction that has the op's name and is lowered to the op, and
/// whose registers contain all operands of the op. This excludes instructions that use the carry,
/// which is not a register, and video instructions, which select parts of their operands.
pub fn is_plain_instruction(opcode: Opcode) -> bool {
    let carry = matches!(opcode, Opcode::Addc | Opcode::Subc | Opcode::Madc);
    let video = opcode.shape().mods.contains(&"asel");
    let head = opcode.name().split('.').next().unwrap_or_default();
    let forms = margay_ptx::forms_of(head);
    let has_form = forms
        .iter()
        .any(|form| form.action == Action::Becomes(opcode));
    matches!(opcode.meaning(), Meaning::Pure(_)) && has_form && !carry && !video
}

/// A PTX instruction with its operands, for the cases of a literal table.
#[derive(PartialEq)]
struct Instruction {
    spelled: String,
    results: Vec<OpType>,
    /// Whether the instruction has two results, written as `d|p`.
    paired: bool,
    operands: Vec<Operand>,
}

#[derive(PartialEq)]
enum Operand {
    Register(OpType),
    Constant(Bits),
}

/// Returns the instruction that executes a case, and the target for which it is compiled; `None` if
/// no instruction executes the case.
fn instruction(
    case: &Case,
    targets: &[&'static str],
    version: (u16, u16),
) -> Option<(&'static str, Instruction)> {
    if !matches!(case.desc.opcode.meaning(), Meaning::Pure(_)) {
        return None;
    }
    let spelled = case.head.replace(".xorsignabs", ".xorsign.abs");
    let mut words = spelled.split('.');
    let head = words.next()?;
    let modifiers: Vec<&str> = words.collect();
    let version = Version::new(version.0, version.1);
    targets.iter().find_map(|&name| {
        let target = Target::parse(name)?;
        let accepted = spell(head, &modifiers, version, target).ok()?;
        let fits = |spelling| with_operands(&spelled, spelling, case);
        Some((name, accepted.iter().find_map(fits)?))
    })
}

fn with_operands(spelled: &str, spelling: &Spelling, case: &Case) -> Option<Instruction> {
    if !matches!(spelling.form.action, Action::Becomes(_)) {
        return None;
    }
    let (mut results, mut operands) = (Vec::new(), Vec::new());
    let mut paired = false;
    let mut written = values(&case.operands).into_iter();
    for pattern in &spelling.form.operands {
        if pattern.only_with.is_some_and(|word| !spelling.has(word)) {
            continue;
        }
        if pattern.shape != Shape::Scalar {
            return None;
        }
        let ty = match pattern.ty {
            TypeRule::Same(at) | TypeRule::Wider(at) => *spelling.types.get(usize::from(at))?,
            TypeRule::Doubled(at) => spelling.types.get(usize::from(at))?.widened(),
            TypeRule::Fixed(ty) => ty,
            TypeRule::Integer | TypeRule::Any => return None,
        };
        if pattern.is_dest() {
            results.push(ty);
            let may_pair = pattern.allow.contains(Allow::MAY_PAIR) && case.results.len() == 2;
            if may_pair || pattern.allow.contains(Allow::MUST_PAIR) {
                paired = true;
                results.push(OpType::Pred);
            }
        } else {
            let bits = written.next()?;
            operands.push(if pattern.allow.contains(Allow::REGISTER) {
                Operand::Register(ty)
            } else {
                Operand::Constant(bits)
            });
        }
    }
    let complete = written.next().is_none() && results.len() == case.results.len();
    complete.then(|| Instruction {
        spelled: spelled.to_owned(),
        results,
        paired,
        operands,
    })
}
