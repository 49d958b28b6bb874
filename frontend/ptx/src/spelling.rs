//! Matches the head (the first word) and the modifiers of an instruction: finds the forms for a
//! spelling such as `add.rn.f32`.

use crate::error::{FormError, FormErrorKind};
use crate::pattern::{Action, Count, Form, Slot, Variable};
use crate::table;
use crate::target::{Target, Version};
use margay_ops::meaning::Desc;
use margay_ops::mods::{Mods, Scope};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;
use smallvec::SmallVec;

/// A form together with the modifiers and types that an instruction specifies.
#[derive(Clone, Debug)]
pub struct Spelling {
    /// The form.
    pub form: &'static Form,
    /// The IR operation: opcode, first two types and modifiers. The opcode is only meaningful if the instruction
    /// becomes a single op; see [`Form::action`].
    pub desc: Desc,
    /// All types that the instruction specifies, in order.
    pub types: SmallVec<[OpType; 4]>,
    /// The modifiers that are not types, spelled as in the syntax table, without repeated ones.
    pub modifiers: SmallVec<[&'static str; 6]>,
    /// Index of the first type among all modifiers of the instruction, or 0 if the instruction specifies no type.
    pub(super) first_type: usize,
    numbers: Numbers,
}

/// The numbers in an instruction's modifiers, such as 4 in `.v4`, from which the lengths of vector operands are
/// computed.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    vec: u32,
    num: u32,
    shape: [u32; 3],
}

impl Spelling {
    /// Whether the instruction has this modifier.
    pub fn has(&self, modifier: &str) -> bool {
        self.modifiers.contains(&modifier)
    }

    /// Returns `[m, n, k]` of `.m16n8k16`, or `[1, 1, 1]` without such a modifier.
    pub fn shape(&self) -> [u32; 3] {
        self.numbers.shape
    }

    pub(super) fn count(&self, count: Count) -> u32 {
        let value = |variable| match variable {
            Variable::One => 1,
            Variable::Vec => self.numbers.vec,
            Variable::Num => self.numbers.num,
            Variable::M => self.numbers.shape[0],
            Variable::N => self.numbers.shape[1],
            Variable::K => self.numbers.shape[2],
        };
        let [first, second] = count.variables.map(value);
        (count.scale * first * second / count.divisor).max(1)
    }
}

/// The reason why a form does not match. If no form matches, and every modifier is a modifier of some form with this
/// head, the error describes the first miss with the greatest `progress`. `progress` is the number of modifiers before
/// the first one that does not match. If all modifiers match, and only an unordered modifier or one of memory order and
/// scope is missing, `progress` is greater by 1. If the form matches but needs another version or target, `progress` is
/// the greatest `usize`.
struct Miss {
    progress: usize,
    kind: FormErrorKind,
    wanted: Option<&'static str>,
}

/// Returns all forms with this head and these modifiers that this version and this target support.
///
/// # Errors
///
/// If there is no such form, returns an error: the head is unknown, a certain modifier is wrong or missing, the
/// instruction needs another version or target, or PTX has removed the instruction.
pub fn spell(
    head: &str,
    modifiers: &[&str],
    version: Version,
    target: Target,
) -> Result<Vec<Spelling>, FormError> {
    let forms = table::forms_of(head);
    if forms.is_empty() {
        return Err(FormError::new(
            FormErrorKind::UnknownOpcode,
            format!("`{head}` is not a PTX instruction"),
        ));
    }
    let mut found = Vec::new();
    let mut best: Option<Miss> = None;
    for form in forms {
        let miss = match try_form(form, modifiers) {
            Ok((spelling, choices)) => match lacks(form, &choices, version, target) {
                None => {
                    found.push(spelling);
                    continue;
                }
                Some(kind) => Miss {
                    progress: usize::MAX,
                    kind,
                    wanted: None,
                },
            },
            Err(miss) => miss,
        };
        if best
            .as_ref()
            .is_none_or(|best| miss.progress > best.progress)
        {
            best = Some(miss);
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    Err(explain(head, modifiers, best))
}

type Requirements = SmallVec<[&'static crate::target::Requirement; 4]>;

fn lacks(
    form: &Form,
    choices: &Requirements,
    version: Version,
    target: Target,
) -> Option<FormErrorKind> {
    if let Some((last_version, last_target)) = form.until
        && version >= last_version
        && target.has(last_target)
    {
        return Some(FormErrorKind::Withdrawn);
    }
    let all = || std::iter::once(&form.requirement).chain(choices.iter().copied());
    if let Some(requirement) = all().find(|r| !r.allows(target)) {
        return Some(FormErrorKind::Target(requirement.targets.clone()));
    }
    let needed = all().map(|r| r.version_for(target)).max()?;
    (needed > version).then_some(FormErrorKind::Version(needed))
}

/// Assigns the instruction's modifiers to the slots of `form`, or returns why this fails.
fn try_form(form: &'static Form, modifiers: &[&str]) -> Result<(Spelling, Requirements), Miss> {
    let mut fill = Fill::new(form);
    for (at, &modifier) in modifiers.iter().enumerate() {
        if !fill.take(at, modifier) {
            return Err(Miss {
                progress: at,
                kind: FormErrorKind::IllegalModifier(at),
                wanted: None,
            });
        }
    }
    fill.finish(modifiers.len())
}

struct Fill {
    form: &'static Form,
    taken: u64,
    /// Number of slots in `form.ordered` that are filled.
    ordered: usize,
    mods: u64,
    types: SmallVec<[OpType; 4]>,
    first_type: usize,
    texts: SmallVec<[&'static str; 6]>,
    requirements: Requirements,
}

impl Fill {
    fn new(form: &'static Form) -> Fill {
        Fill {
            form,
            taken: 0,
            ordered: 0,
            mods: form.base.0,
            types: SmallVec::new(),
            first_type: 0,
            texts: SmallVec::new(),
            requirements: SmallVec::new(),
        }
    }

    /// Whether the third type of a video instruction, which is the type of operand `b`, is signed. [`Desc`] has no
    /// field for a third type, only a flag for its signedness.
    fn is_third_type_signed(&self, opcode: Opcode) -> bool {
        is_video(opcode) && self.types.get(2).is_some_and(|ty| ty.is_signed())
    }

    fn take(&mut self, at: usize, modifier: &str) -> bool {
        let form = self.form;
        if let Some(slot) = form.prefix.get(at) {
            return self.choose(slot, modifier);
        }
        for (index, slot) in form.slots.iter().enumerate() {
            if self.taken & (1 << index) == 0 && self.choose(slot, modifier) {
                self.taken |= 1 << index;
                return true;
            }
        }
        if let Some(slot) = form.ordered.get(self.ordered)
            && self.choose(slot, modifier)
        {
            self.ordered += 1;
            return true;
        }
        if let Some(slot) = form.types.get(self.types.len())
            && let Some(choice) = slot.find(modifier)
        {
            self.requirements.extend(&choice.requirement);
            if self.types.is_empty() {
                self.first_type = at;
            }
            self.types
                .push(OpType::from_name(modifier).unwrap_or_default());
            return true;
        }
        self.repeats(modifier)
    }

    /// Whether the modifier repeats an earlier modifier of the instruction, and ptxas accepts this repetition.
    fn repeats(&self, modifier: &str) -> bool {
        const HARMLESS: [&str; 7] = ["sync", "sat", "cc", "approx", "shiftamt", "uni", "NaN"];
        HARMLESS.contains(&modifier) && self.texts.contains(&modifier)
    }

    fn choose(&mut self, slot: &'static Slot, modifier: &str) -> bool {
        let Some(choice) = slot.find(modifier) else {
            return false;
        };
        self.mods |= choice.sets.0;
        self.texts.push(choice.text);
        if let Some(requirement) = &choice.requirement {
            self.requirements.push(requirement);
        }
        true
    }

    fn finish(self, given: usize) -> Result<(Spelling, Requirements), Miss> {
        let form = self.form;
        let missing = |kind, slot: &Slot, progress| Miss {
            progress,
            kind,
            wanted: slot.choices.first().map(|choice| choice.text),
        };
        if let Some(slot) = form.prefix.get(given) {
            return Err(missing(FormErrorKind::MissingModifier, slot, given));
        }
        if let Some(slot) = form.types.get(self.types.len()) {
            return Err(missing(FormErrorKind::MissingType, slot, given));
        }
        if let Some(slot) = form.ordered.get(self.ordered) {
            return Err(missing(FormErrorKind::MissingModifier, slot, given));
        }
        for (index, slot) in form.slots.iter().enumerate() {
            if slot.required && self.taken & (1 << index) == 0 {
                // Add 1, so that this error takes precedence over a missing type in another form: here, all types
                // match.
                return Err(missing(FormErrorKind::MissingModifier, slot, given + 1));
            }
        }
        if form.scope_with_order && !order_and_scope(Mods(self.mods)) {
            return Err(Miss {
                progress: given + 1,
                kind: FormErrorKind::MissingModifier,
                wanted: Some("release.gpu"),
            });
        }
        let opcode = match form.action {
            Action::Becomes(opcode) => opcode,
            _ => Opcode::Unreachable,
        };
        let desc = Desc {
            opcode,
            ty: self.types.first().copied().unwrap_or_default(),
            src: self.types.get(1).copied().unwrap_or_default(),
            mods: Mods(self.mods).with_bsigned(self.is_third_type_signed(opcode)),
        };
        let numbers = numbers(&self.texts, desc.mods);
        let spelling = Spelling {
            form,
            desc,
            types: self.types,
            modifiers: self.texts,
            first_type: self.first_type,
            numbers,
        };
        Ok((spelling, self.requirements))
    }
}

/// Whether an opcode is a video operation. The range ends before `Vset4`, which has no third type.
fn is_video(opcode: Opcode) -> bool {
    Opcode::Vadd <= opcode && opcode <= Opcode::Vmax4
}

/// Whether the memory order and the scope are both present or both absent.
fn order_and_scope(mods: Mods) -> bool {
    let ordered = !mods.is_weak();
    ordered == (mods.scope() != Scope::None)
}

fn numbers(texts: &[&'static str], mods: Mods) -> Numbers {
    let mut numbers = Numbers {
        vec: mods.vec(),
        num: 1,
        shape: [1; 3],
    };
    for text in texts {
        if let Some(number) = text.strip_prefix('x').and_then(|n| n.parse().ok()) {
            numbers.num = number;
        } else if let Some(shape) = tile(text) {
            numbers.shape = shape;
        } else if numbers.vec == 1
            && let Some(number) = text.strip_prefix('v').and_then(|n| n.parse().ok())
        {
            numbers.vec = number;
        }
    }
    numbers
}

/// Parses a shape such as `m64n128k16` to `[64, 128, 16]`. If there is no `k`, the last number is 1.
fn tile(text: &str) -> Option<[u32; 3]> {
    let (m, rest) = text.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k').unwrap_or((rest, "1"));
    Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
}

/// Returns the head and the first 24 modifiers of an instruction as text for an error message.
fn written(head: &str, modifiers: &[&str]) -> String {
    const MOST: usize = 24;
    let mut text = head.to_owned();
    for modifier in modifiers.iter().take(MOST) {
        text.push('.');
        text.push_str(modifier);
    }
    if modifiers.len() > MOST {
        text.push_str("...");
    }
    text
}

fn explain(head: &str, modifiers: &[&str], best: Option<Miss>) -> FormError {
    let spelled = written(head, modifiers);
    if let Some(at) = modifiers.iter().position(|m| !table::knows_modifier(m)) {
        let message = format!("unknown modifier `.{}` of `{head}`", modifiers[at]);
        return FormError::new(FormErrorKind::UnknownModifier(at), message);
    }
    let stranger = |m: &&str| !table::head_takes(head, m);
    if let Some(at) = modifiers.iter().position(stranger) {
        let message = format!("`{head}` does not take the modifier `.{}`", modifiers[at]);
        return FormError::new(FormErrorKind::IllegalModifier(at), message);
    }
    let Some(miss) = best else {
        let message = format!("`{spelled}` is not accepted");
        return FormError::new(FormErrorKind::UnknownOpcode, message);
    };
    let wanted = miss.wanted.unwrap_or_default();
    let message = match &miss.kind {
        FormErrorKind::IllegalModifier(at) => format!(
            "the modifier `.{}` cannot be combined with the others of `{spelled}`",
            modifiers[*at]
        ),
        FormErrorKind::MissingType => {
            format!("`{spelled}` lacks a type, such as `.{wanted}`")
        }
        FormErrorKind::MissingModifier => {
            format!("`{spelled}` lacks a modifier, such as `.{wanted}`")
        }
        FormErrorKind::Version(version) => {
            format!("`{spelled}` needs PTX `.version {version}` or later")
        }
        FormErrorKind::Target(targets) => {
            let names: Vec<String> = targets.iter().map(ToString::to_string).collect();
            format!(
                "`{spelled}` needs `.target {}` or later",
                names.join("` or `")
            )
        }
        FormErrorKind::Withdrawn => {
            format!(
                "`{spelled}` no longer exists for this target and version; it lacks `.sync` or a rounding"
            )
        }
        _ => format!("`{spelled}` is not accepted"),
    };
    FormError::new(miss.kind, message)
}
