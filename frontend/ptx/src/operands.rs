//! Matches operands against the patterns of a form: checks shapes, register types, ranges of constants and state
//! spaces.
//!
//! The type rules are those of ptxas: a register may be used as another type of the same size, and loads and
//! conversions accept wider registers. `frontend/ptx/tests/data` contains the recorded results of ptxas.

use crate::error::{FormError, FormErrorKind};
use crate::lowering::Lowering;
use crate::pattern::{Action, Allow, OperandPattern, Shape, Space, TypeRule};
use crate::spelling::Spelling;
use margay_ops::mods::StateSpace;
use margay_ops::types::{Class, OpType};
use smallvec::SmallVec;

/// The properties of an operand that the matcher needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperandShape {
    /// A register of this declared type.
    Register(OpType),
    /// An integer constant. The field contains the constant's 64 bits, whether the constant is
    /// signed or unsigned.
    Int(i64),
    /// An `0f...` constant.
    Single,
    /// A floating-point constant that is written as a decimal fraction or as `0d...`.
    Double,
    /// A special register of this type.
    Special(OpType),
    /// The name of a variable or parameter, with its state space.
    Symbol(StateSpace),
    /// `variable + constant`, with the variable's state space. Where the instruction does not expect an address in a
    /// certain state space, this shape is accepted if the operand has an integer type and may be a constant or the
    /// address of a variable.
    SymbolOffset(StateSpace),
    /// `variable[index]`, with the variable's state space: the address of the element. `ld`, `ldu` and `st` accept this
    /// shape as their memory operand.
    Element(StateSpace),
    /// The name of a texture, sampler or surface reference.
    Reference,
    /// The name of a function.
    Function,
    /// The name of a label.
    Label,
    /// The name of a list of branch or call targets, or of a function prototype.
    List,
    /// `_`
    Sink,
    /// `!p`, a negated predicate. The field is the register's declared type.
    Not(OpType),
    /// `-a`, a register with a minus sign. The field is the register's declared type.
    Minus(OpType),
    /// `a.b0`, a register with a selector of a video instruction. The field is the register's
    /// declared type.
    Selected(OpType),
    /// `[register]`
    MemoryRegister(OpType),
    /// `[variable]`
    MemorySymbol(StateSpace),
    /// `[number]`
    MemoryAt,
    /// `[texture]`: the name of an opaque reference in brackets.
    MemoryReference,
    /// `{...}`
    Vector(Nested),
    /// `a|b`
    Pair(Nested),
    /// `[a, b, ...]`
    Tuple(Nested),
    /// `(...)`
    Group(Nested),
    /// An undeclared name. It matches every pattern, because another check reports the missing
    /// declaration.
    Unknown,
}

/// The range in [`OperandShapes::nested`] that contains the parts of a composite operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nested {
    /// The index in [`OperandShapes::nested`] of the first part.
    pub start: u32,
    /// Number of parts.
    pub len: u32,
}

/// The shapes of an instruction's operands.
#[derive(Clone, Debug, Default)]
pub struct OperandShapes {
    /// The shapes of the operands, in the order of the instruction.
    pub top: SmallVec<[OperandShape; 6]>,
    /// The shapes of the parts of all composite operands, such as vectors and address lists.
    pub nested: Vec<OperandShape>,
    /// Whether the module permits 32-bit addresses of global memory and 32-bit generic addresses.
    pub narrow: bool,
}

impl OperandShapes {
    /// Returns the parts of a composite operand, or an empty slice if the range is out of bounds.
    pub fn parts(&self, nested: Nested) -> &[OperandShape] {
        let start = nested.start as usize;
        self.nested
            .get(start..start + nested.len as usize)
            .unwrap_or_default()
    }

    /// Removes all elements of `top` and `nested`, whose allocated memory remains for later use, and sets `narrow` to
    /// false.
    pub fn clear(&mut self) {
        self.top.clear();
        self.nested.clear();
        self.narrow = false;
    }
}

/// The roles of an instruction's operands, in the order of the operands.
pub type Roles = SmallVec<[Role; 6]>;

/// The role of an operand in its instruction: the pattern that it matches and the type with which
/// it is used.
#[derive(Clone, Copy, Debug)]
pub struct Role {
    /// The pattern that the operand matched.
    pub pattern: &'static OperandPattern,
    /// The type with which the instruction uses the operand. The type is `OpType::None` for addresses, and for other
    /// operands with the type rule `Integer` or `Any`.
    pub ty: OpType,
}

struct Miss {
    at: usize,
    kind: FormErrorKind,
    expected: String,
}

/// Matches the operands against the patterns of the form, and returns the role of each operand.
///
/// # Errors
///
/// Returns an error for the first operand that does not fit, or for a wrong number of operands.
pub fn match_operands(spelling: &Spelling, shapes: &OperandShapes) -> Result<Roles, FormError> {
    let patterns: SmallVec<[&'static OperandPattern; 8]> = spelling
        .form
        .operands
        .iter()
        .filter(|pattern| pattern.only_with.is_none_or(|with| spelling.has(with)))
        .collect();
    let most = patterns.len();
    let least = patterns.iter().filter(|p| !optional(p)).count();
    let given = shapes.top.len();
    if given < least || given > most {
        let expected = if least == most {
            format!("{least}")
        } else {
            format!("{least} to {most}")
        };
        return Err(FormError::new(
            FormErrorKind::OperandCount { least, most },
            format!("{expected} operands expected, {given} given"),
        ));
    }
    let is_narrow = spelling.form.head == "cvta" && spelling.types.first() == Some(&OpType::U32);
    if is_narrow && !shapes.narrow {
        return Err(FormError::new(
            FormErrorKind::IllegalModifier(spelling.first_type),
            "`cvta` does not take the modifier `.u32`".to_owned(),
        ));
    }
    let mut roles = Roles::new();
    let matcher = Matcher { spelling, shapes };
    match matcher.assign(&patterns, 0, &mut roles) {
        Ok(()) => Ok(roles),
        Err(miss) => Err(FormError::new(
            miss.kind,
            format!("operand {}: {}", miss.at + 1, miss.expected),
        )),
    }
}

fn optional(pattern: &OperandPattern) -> bool {
    pattern.allow.contains(Allow::OPTIONAL)
}

struct Matcher<'a> {
    spelling: &'a Spelling,
    shapes: &'a OperandShapes,
}

impl Matcher<'_> {
    /// Matches the operands from index `at` on against `patterns`. If the first pattern is
    /// optional, first tries to match the pattern with the operand, and then tries to leave the
    /// pattern without an operand.
    fn assign(
        &self,
        patterns: &[&'static OperandPattern],
        at: usize,
        roles: &mut Roles,
    ) -> Result<(), Miss> {
        let Some((&pattern, rest)) = patterns.split_first() else {
            return match self.shapes.top.get(at) {
                None => Ok(()),
                Some(_) => Err(Miss {
                    at,
                    kind: FormErrorKind::Operand(at),
                    expected: "one operand too many".into(),
                }),
            };
        };
        let result = self.assign_first(pattern, rest, at, roles);
        match result {
            Err(miss) if optional(pattern) => {
                roles.truncate(at);
                self.assign(rest, at, roles).map_err(
                    |other| {
                        if other.at > miss.at { other } else { miss }
                    },
                )
            }
            result => result,
        }
    }

    fn assign_first(
        &self,
        pattern: &'static OperandPattern,
        rest: &[&'static OperandPattern],
        at: usize,
        roles: &mut Roles,
    ) -> Result<(), Miss> {
        let Some(&shape) = self.shapes.top.get(at) else {
            return Err(Miss {
                at,
                kind: FormErrorKind::Operand(at),
                expected: format!("`{}` is missing", pattern.name),
            });
        };
        self.fits(pattern, shape).map_err(|wrong| Miss {
            at,
            kind: match wrong.kind {
                WrongKind::Operand => FormErrorKind::Operand(at),
                WrongKind::Space => FormErrorKind::StateSpace(at),
                WrongKind::Range => FormErrorKind::Range(at),
            },
            expected: wrong.expected,
        })?;
        roles.push(Role {
            pattern,
            ty: self.wanted(pattern.ty).0,
        });
        self.assign(rest, at + 1, roles)
    }

    /// Returns the type that `rule` requires, and whether larger registers are accepted too.
    fn wanted(&self, rule: TypeRule) -> (OpType, bool) {
        let at = |index: u8| {
            self.spelling
                .types
                .get(index as usize)
                .copied()
                .unwrap_or_default()
        };
        match rule {
            TypeRule::Same(index) => (at(index), false),
            TypeRule::Wider(index) => (at(index), true),
            TypeRule::Doubled(index) => (at(index).widened(), false),
            TypeRule::Fixed(ty) => (ty, false),
            TypeRule::Integer | TypeRule::Any => (OpType::None, false),
        }
    }

    fn fits(&self, pattern: &OperandPattern, shape: OperandShape) -> Result<(), Wrong> {
        if shape == OperandShape::Unknown {
            return Ok(());
        }
        match &pattern.shape {
            Shape::Scalar => self.fits_scalar(pattern, shape),
            Shape::Vector(count) => {
                let count_wanted = self.spelling.count(*count) as usize;
                match shape {
                    // The destination of a texture instruction can be a pair of a vector and a residency predicate.
                    OperandShape::Pair(parts)
                        if pattern.allow.intersects(Allow::MAY_PAIR | Allow::MUST_PAIR) =>
                    {
                        let parts = self.shapes.parts(parts);
                        self.fits_second(parts)?;
                        self.fits_vector(pattern, count_wanted, *count, parts[0])
                    }
                    _ => self.fits_vector(pattern, count_wanted, *count, shape),
                }
            }
            Shape::Memory(space) => self.fits_memory(*space, shape),
            Shape::Tuple(patterns) => self.fits_tuple(patterns, shape),
            Shape::Label => match shape {
                OperandShape::Label => Ok(()),
                _ => Err(Wrong::operand("a label is expected")),
            },
            Shape::List => match shape {
                OperandShape::List | OperandShape::Symbol(_) => Ok(()),
                _ => Err(Wrong::operand(
                    "a list of targets or a prototype is expected",
                )),
            },
            Shape::Callee => match shape {
                OperandShape::Function => Ok(()),
                OperandShape::Register(ty) if is_whole_address(ty) => Ok(()),
                _ => Err(Wrong::operand("a function is expected")),
            },
            Shape::Group => match shape {
                OperandShape::Group(_) => Ok(()),
                _ => Err(Wrong::operand("a list in parentheses is expected")),
            },
        }
    }

    fn fits_vector(
        &self,
        pattern: &OperandPattern,
        wanted: usize,
        count: crate::pattern::Count,
        shape: OperandShape,
    ) -> Result<(), Wrong> {
        let OperandShape::Vector(parts) = shape else {
            if wanted == 1 && count.bare && shape != OperandShape::Sink {
                return self.fits_scalar(pattern, shape);
            }
            return Err(Wrong::operand(format!(
                "a vector of {wanted} elements in braces is expected"
            )));
        };
        let parts = self.shapes.parts(parts);
        let count_fits = parts.len() == wanted
            || (count.or_fewer && parts.len() < wanted)
            || (parts.len() == 4 && wanted < 4 && self.takes_any_coordinates(pattern));
        if !count_fits {
            return Err(Wrong::operand(format!(
                "a vector of {wanted} elements is expected, this one has {}",
                parts.len()
            )));
        }
        for &part in parts {
            if !self.takes_integer(pattern, part) {
                self.fits_scalar(pattern, part)?;
            }
        }
        let class = |class: &'static [Class]| move |part: &OperandShape| matches!(part, OperandShape::Register(ty) if class.contains(&ty.class()));
        // Texture coordinates have the type `any`, because an integer array index can precede floating-point
        // coordinates.
        if pattern.ty != TypeRule::Any
            && parts.iter().any(class(&[Class::Float]))
            && parts.iter().any(class(&[Class::Signed, Class::Unsigned]))
        {
            return Err(Wrong::operand(
                "integer and floating-point registers cannot be mixed in a vector",
            ));
        }
        if parts.iter().all(|&part| part == OperandShape::Sink) {
            return Err(Wrong::operand("at least one element must not be `_`"));
        }
        let mut sizes = parts.iter().filter_map(|part| match part {
            OperandShape::Register(ty) => Some(ty.bits()),
            _ => None,
        });
        let first = sizes.next();
        if sizes.any(|size| Some(size) != first) {
            return Err(Wrong::operand(
                "the elements of a vector must have one size",
            ));
        }
        Ok(())
    }

    /// Whether `part`, an element of a vector operand, is an integer register where `pattern` expects a floating-point
    /// register, and the instruction accepts this. Only `ld`, `ldu` and `st` accept this.
    fn takes_integer(&self, pattern: &OperandPattern, part: OperandShape) -> bool {
        let OperandShape::Register(ty) = part else {
            return false;
        };
        let (want, wider) = self.wanted(pattern.ty);
        let size_fits = match pattern.is_dest() {
            true => ty.bits() >= want.bits(),
            false => ty.bits() == want.bits(),
        };
        wider && self.takes_element() && want.class() == Class::Float && is_address(ty) && size_fits
    }

    fn fits_second(&self, parts: &[OperandShape]) -> Result<(), Wrong> {
        match parts {
            [
                _,
                OperandShape::Register(OpType::Pred) | OperandShape::Sink | OperandShape::Unknown,
            ] => Ok(()),
            _ => Err(Wrong::operand("a predicate register is expected after `|`")),
        }
    }

    fn fits_scalar(&self, pattern: &OperandPattern, shape: OperandShape) -> Result<(), Wrong> {
        let allow = pattern.allow;
        if let OperandShape::Pair(parts) = shape {
            if !allow.intersects(Allow::MAY_PAIR | Allow::MUST_PAIR) {
                return Err(Wrong::operand("a pair `a|b` is not allowed here"));
            }
            let parts = self.shapes.parts(parts);
            self.fits_second(parts)?;
            if parts.iter().all(|&part| part == OperandShape::Sink) {
                return Err(Wrong::operand("at least one result must not be `_`"));
            }
            return self.fits_single(pattern, parts[0]);
        }
        if allow.contains(Allow::MUST_PAIR) {
            return Err(Wrong::operand("a second result `|p` is missing"));
        }
        self.fits_single(pattern, shape)
    }

    fn fits_single(&self, pattern: &OperandPattern, shape: OperandShape) -> Result<(), Wrong> {
        let allow = pattern.allow;
        let (want, wider) = self.wanted(pattern.ty);
        let expected = || Wrong::operand(expectation(pattern, want, wider));
        let register = |ty: OpType| match pattern.ty {
            TypeRule::Any => true,
            TypeRule::Integer => is_whole_address(ty),
            _ => register_fits(ty, want, wider),
        };
        let fits = match shape {
            OperandShape::Unknown => true,
            OperandShape::Register(ty) => allow.contains(Allow::REGISTER) && register(ty),
            OperandShape::Int(value) => {
                if !allow.contains(Allow::IMMEDIATE) {
                    return Err(Wrong::operand("a constant is not allowed here"));
                }
                check_range(pattern, value)?;
                matches!(pattern.ty, TypeRule::Any | TypeRule::Integer) || takes_int(want)
            }
            OperandShape::Single => allow.contains(Allow::IMMEDIATE) && takes_single(want),
            OperandShape::Double => allow.contains(Allow::IMMEDIATE) && takes_double(want),
            OperandShape::Special(ty) => {
                if !allow.contains(Allow::SPECIAL) {
                    return Err(Wrong::operand(
                        "a special register can only be read by `mov` and `cvt`",
                    ));
                }
                pattern.ty == TypeRule::Any
                    || want.is_integer() && special_fits(ty, want)
                    || ty == OpType::Pred && want == OpType::Pred
                    || wider && ty.bits() >= want.bits()
            }
            OperandShape::Symbol(actual)
            | OperandShape::SymbolOffset(actual)
            | OperandShape::Element(actual)
                if allow.contains(Allow::SYMBOL_IN_SPACE) =>
            {
                let space = self.spelling.desc.mods.space();
                if !spaces_agree(space, actual) {
                    return Err(Wrong::space(space, actual));
                }
                true
            }
            OperandShape::SymbolOffset(_) => {
                want.is_integer() && allow.intersects(Allow::SYMBOL | Allow::IMMEDIATE)
            }
            OperandShape::Symbol(StateSpace::Global)
            | OperandShape::Element(StateSpace::Global)
                if allow.contains(Allow::SYMBOL) && want.bits() == 32 && !self.shapes.narrow =>
            {
                return Err(Wrong::operand(
                    "the address of a global variable has 64 bits",
                ));
            }
            OperandShape::Symbol(_) | OperandShape::Element(_) | OperandShape::Function => {
                allow.contains(Allow::SYMBOL) && want.is_integer()
            }
            OperandShape::Reference => {
                (allow.contains(Allow::SYMBOL) && want.is_integer() && want.bits() == 64)
                    || pattern.ty == TypeRule::Any
            }
            OperandShape::Sink => {
                if !allow.contains(Allow::SINK) {
                    return Err(Wrong::operand("`_` is not allowed here"));
                }
                true
            }
            OperandShape::Not(ty) => {
                let takes = allow.contains(Allow::NOT) || want == OpType::Pred;
                takes && !pattern.is_dest() && ty == OpType::Pred
            }
            OperandShape::Minus(ty) => allow.contains(Allow::MINUS) && register(ty),
            OperandShape::Selected(ty) => allow.contains(Allow::SELECTOR) && register(ty),
            _ => false,
        };
        if fits { Ok(()) } else { Err(expected()) }
    }

    fn fits_memory(&self, space: Space, shape: OperandShape) -> Result<(), Wrong> {
        let wanted = match space {
            Space::OfModifier => self.spelling.desc.mods.space(),
            Space::Any => StateSpace::None,
            Space::Fixed(space) => space,
        };
        match shape {
            OperandShape::Element(actual) if self.takes_element() => {
                self.fits_memory(space, OperandShape::MemorySymbol(actual))
            }
            OperandShape::MemorySymbol(_) if space == Space::Any => Ok(()),
            OperandShape::MemoryRegister(ty)
                if ty.bits() == 32
                    && !self.shapes.narrow
                    && matches!(wanted, StateSpace::None | StateSpace::Global)
                    && space == Space::OfModifier =>
            {
                Err(Wrong::operand("a generic or global address has 64 bits"))
            }
            OperandShape::MemoryRegister(ty) if is_address(ty) && self.takes_narrow_address() => {
                Ok(())
            }
            OperandShape::MemoryRegister(ty) if is_whole_address(ty) => Ok(()),
            OperandShape::MemoryRegister(ty) if is_address(ty) => Err(Wrong::operand(format!(
                "the address must be in a register of 32 or 64 bits, not in a `.{ty}` one"
            ))),
            OperandShape::MemoryRegister(ty) => Err(Wrong::operand(format!(
                "an address must be an integer register of at most 64 bits, not a `.{ty}` one"
            ))),
            OperandShape::MemorySymbol(actual) if spaces_agree(wanted, actual) => Ok(()),
            OperandShape::MemorySymbol(actual) => Err(Wrong::space(wanted, actual)),
            OperandShape::MemoryAt if wanted == StateSpace::Local || space == Space::Any => Ok(()),
            OperandShape::MemoryAt => Err(Wrong::operand(
                "an address can be a number in the state space `.local` only",
            )),
            OperandShape::MemoryReference => Ok(()),
            _ => Err(Wrong::operand("an address in brackets is expected")),
        }
    }

    /// Whether the instruction accepts `array[index]` as an address. Only `ld`, `ldu` and `st`
    /// accept this.
    fn takes_element(&self) -> bool {
        matches!(self.spelling.form.head, "ld" | "ldu" | "st")
    }

    /// Whether the operand may have four coordinates even if the texture's geometry needs fewer.
    /// The instruction does not use the additional coordinates. The PTX ISA ("Texture Instructions:
    /// tex") permits this for compatibility with versions before 2.0.
    fn takes_any_coordinates(&self, pattern: &OperandPattern) -> bool {
        self.spelling.form.head == "tex" && pattern.name == "c"
    }

    /// Whether ptxas accepts addresses in 8-bit and 16-bit registers for this instruction. Most instructions accept
    /// such addresses and zero-extend them.
    fn takes_narrow_address(&self) -> bool {
        let form = self.spelling.form;
        form.action != Action::Lowers(Lowering::BulkClear)
            && !matches!(
                form.head,
                "wmma" | "prefetch" | "prefetchu" | "discard" | "applypriority" | "txq" | "suq"
            )
    }

    fn fits_tuple(&self, patterns: &[OperandPattern], shape: OperandShape) -> Result<(), Wrong> {
        let OperandShape::Tuple(parts) = shape else {
            return Err(Wrong::operand("an address with coordinates is expected"));
        };
        let parts = self.shapes.parts(parts);
        let required = patterns.iter().filter(|p| !optional(p)).count();
        if parts.len() < required || parts.len() > patterns.len() {
            return Err(Wrong::operand("wrong number of parts in brackets"));
        }
        // Only one part of a tuple can be optional, namely the sampler.
        let skip = parts.len() < patterns.len();
        let present = patterns.iter().filter(|p| !(skip && optional(p)));
        for (pattern, &part) in present.zip(parts) {
            match part {
                OperandShape::MemoryRegister(ty) if !is_whole_address(ty) => {
                    return Err(Wrong::operand(format!(
                        "the address must be in a register of 32 or 64 bits, not in a `.{ty}` one"
                    )));
                }
                OperandShape::MemoryRegister(_)
                | OperandShape::MemorySymbol(_)
                | OperandShape::MemoryReference
                | OperandShape::MemoryAt => {}
                _ => self.fits(pattern, part)?,
            }
        }
        Ok(())
    }
}

enum WrongKind {
    Operand,
    Space,
    Range,
}

struct Wrong {
    kind: WrongKind,
    expected: String,
}

impl Wrong {
    fn space(wanted: StateSpace, actual: StateSpace) -> Wrong {
        Wrong {
            kind: WrongKind::Space,
            expected: format!(
                "the variable is in `.{}`, the instruction accesses `.{}`",
                actual.name(),
                wanted.name()
            ),
        }
    }

    fn operand(expected: impl Into<String>) -> Wrong {
        Wrong {
            kind: WrongKind::Operand,
            expected: expected.into(),
        }
    }
}

fn check_range(pattern: &OperandPattern, value: i64) -> Result<(), Wrong> {
    let Some(range) = pattern.range else {
        return Ok(());
    };
    let expected = if value < range.low || value > range.high {
        format!(
            "`{}` must be from {} to {}",
            pattern.name, range.low, range.high
        )
    } else if value % range.step != 0 {
        format!("`{}` must be a multiple of {}", pattern.name, range.step)
    } else {
        return Ok(());
    };
    Err(Wrong {
        kind: WrongKind::Range,
        expected,
    })
}

fn expectation(pattern: &OperandPattern, want: OpType, wider: bool) -> String {
    let register = match (pattern.ty, want) {
        (TypeRule::Integer, _) => "an integer register".to_owned(),
        (_, OpType::Pred) => "a predicate".to_owned(),
        (_, OpType::None) => "a register".to_owned(),
        _ if wider => format!("a register that holds `.{want}`"),
        _ => format!("a `.{want}` register"),
    };
    let allow = pattern.allow;
    match (
        allow.contains(Allow::REGISTER),
        allow.contains(Allow::IMMEDIATE) && want.is_integer(),
    ) {
        (true, true) => format!("{register} or a constant is expected"),
        (false, _) => "a constant is expected".to_owned(),
        _ => format!("{register} is expected"),
    }
}

/// Whether a register of this type can contain an address or the low bits of an address.
fn is_address(ty: OpType) -> bool {
    ty.is_integer() && ty.elements() == 1 && ty.bits() <= 64
}

/// Whether a register of this type can contain a complete address, which has 32 or 64 bits.
fn is_whole_address(ty: OpType) -> bool {
    is_address(ty) && ty.bits() >= 32
}

/// Whether a register declared as `register` may be used where the instruction expects `want`. If `wider` is set,
/// registers with more bits than `want` are accepted too.
pub fn register_fits(register: OpType, want: OpType, wider: bool) -> bool {
    if register == want {
        return true;
    }
    let register = match register {
        // A register of type `f16x2` is treated like an untyped 32-bit register.
        OpType::F16x2 => OpType::B32,
        other => other,
    };
    if register == OpType::Pred || want == OpType::Pred {
        return false;
    }
    let bits = want.held().lane_bits();
    let size_fits = register.bits() == bits || wider && register.bits() > bits;
    if !size_fits {
        return false;
    }
    match (want.class(), want.elements()) {
        (Class::Bits, _) => true,
        (Class::Signed | Class::Unsigned, 1) => register.is_integer(),
        // A packed or floating-point value needs a register of its own type or an untyped one.
        _ => register.class() == Class::Bits,
    }
}

/// Whether an instruction that expects the integer type `want` may read a special register of type `register`. A 16-bit
/// `mov` may read a wider register, because some special registers had 16 bits in early versions of PTX.
fn special_fits(register: OpType, want: OpType) -> bool {
    register.bits() == want.bits() || want.bits() < register.bits() && want.bits() == 16
}

fn takes_int(want: OpType) -> bool {
    want == OpType::Pred || want.is_integer() && want.elements() == 1
}

fn takes_single(want: OpType) -> bool {
    matches!(want, OpType::F32 | OpType::F64 | OpType::B32)
}

fn takes_double(want: OpType) -> bool {
    matches!(want, OpType::F32 | OpType::F64 | OpType::B64)
}

/// Whether an instruction that accesses the state space `wanted` may access a variable in the state space `actual`.
fn spaces_agree(wanted: StateSpace, actual: StateSpace) -> bool {
    use StateSpace::{Const, None, Param, ParamFunc, Shared, SharedCluster};
    match (wanted, actual) {
        // The address of a parameter or of a constant variable is not a generic address. It must be converted with
        // `cvta`.
        (None, Param | Const) => false,
        (None, _) | (_, None) => true,
        (Shared | SharedCluster, Shared | SharedCluster) => true,
        (Param | ParamFunc, Param | ParamFunc) => true,
        _ => wanted == actual,
    }
}
