//! The words of a PTX opcode, such as `ld.global.v4.f32`.

/// A PTX opcode that is split at its dots.
#[derive(Clone, Debug)]
pub(super) struct Words<'a> {
    pub(super) head: &'a str,
    rest: Vec<&'a str>,
}

/// How the bits of a value are interpreted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    Bits,
    Unsigned,
    Signed,
    Half,
    BFloat,
    Float,
    Predicate,
    /// A floating-point format with at most 8 bits, or several of these.
    Narrow,
}

/// A type of PTX.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Type {
    pub(super) class: Class,
    pub(super) bits: u32,
    /// Whether the type has two or four elements.
    pub(super) is_packed: bool,
}

impl Type {
    /// Returns the number of 32-bit registers that hold a value.
    pub(super) fn words(self) -> usize {
        (self.bits as usize).div_ceil(32).max(1)
    }

    pub(super) fn is_integer(self) -> bool {
        matches!(self.class, Class::Bits | Class::Unsigned | Class::Signed)
    }

    fn of(word: &str) -> Option<Type> {
        let scalar = |class, bits| Type {
            class,
            bits,
            is_packed: false,
        };
        let packed = |class, bits| Type {
            class,
            bits,
            is_packed: true,
        };
        Some(match word {
            "pred" => scalar(Class::Predicate, 1),
            "f16" => scalar(Class::Half, 16),
            "f32" | "tf32" => scalar(Class::Float, 32),
            "f64" => scalar(Class::Float, 64),
            "bf16" => scalar(Class::BFloat, 16),
            "f16x2" => packed(Class::Half, 32),
            "bf16x2" => packed(Class::BFloat, 32),
            "f32x2" => packed(Class::Float, 64),
            "u16x2" => packed(Class::Unsigned, 32),
            "s16x2" => packed(Class::Signed, 32),
            "u8x4" => packed(Class::Unsigned, 32),
            "s8x4" => packed(Class::Signed, 32),
            "b1" => scalar(Class::Bits, 1),
            _ if is_narrow(word) => Type {
                class: Class::Narrow,
                bits: 32,
                is_packed: true,
            },
            _ => {
                let (class, digits) = match word.split_at_checked(1)? {
                    ("b", digits) => (Class::Bits, digits),
                    ("u", digits) => (Class::Unsigned, digits),
                    ("s", digits) => (Class::Signed, digits),
                    _ => return None,
                };
                match digits {
                    "4" => scalar(class, 4),
                    "8" => scalar(class, 8),
                    "16" => scalar(class, 16),
                    "32" => scalar(class, 32),
                    "64" => scalar(class, 64),
                    "128" => scalar(class, 128),
                    _ => return None,
                }
            }
        })
    }
}

/// Returns whether a word names a floating-point format with at most 8 bits, such as `e4m3x2`.
fn is_narrow(word: &str) -> bool {
    ["e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "ue8m0", "ue4m3"]
        .iter()
        .any(|name| {
            word.strip_prefix(name)
                .is_some_and(|end| matches!(end, "" | "x2" | "x4"))
        })
}

impl<'a> Words<'a> {
    pub(super) fn of(opcode: &'a str) -> Words<'a> {
        let mut words = opcode.split('.');
        Words {
            head: words.next().unwrap_or(""),
            rest: words.collect(),
        }
    }

    /// Returns whether the opcode has a modifier.
    pub(super) fn has(&self, word: &str) -> bool {
        self.rest.contains(&word)
    }

    /// Returns whether the opcode has one of these modifiers.
    pub(super) fn has_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.has(word))
    }

    /// Returns the first modifier, or an empty text.
    pub(super) fn first(&self) -> &'a str {
        self.rest.first().copied().unwrap_or("")
    }

    /// Returns the modifiers.
    pub(super) fn all(&self) -> &[&'a str] {
        &self.rest
    }

    /// Returns the types, in the order of the text.
    pub(super) fn types(&self) -> impl DoubleEndedIterator<Item = Type> + '_ {
        self.rest.iter().filter_map(|word| Type::of(word))
    }

    /// Returns the last type; 32 bits if there is none.
    pub(super) fn ty(&self) -> Type {
        self.types().next_back().unwrap_or(Type {
            class: Class::Bits,
            bits: 32,
            is_packed: false,
        })
    }

    /// Returns the number of elements that the modifier `v2`, `v4` or `v8` names, or 1.
    pub(super) fn elements(&self) -> u32 {
        let sizes = [("v2", 2), ("v4", 4), ("v8", 8)];
        let found = sizes.iter().find(|(word, _)| self.has(word));
        found.map_or(1, |&(_, count)| count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_types_and_elements() {
        let load = Words::of("ld.global.nc.v4.f32");
        assert_eq!(
            (load.head, load.first(), load.elements()),
            ("ld", "global", 4)
        );
        assert_eq!((load.ty().class, load.ty().bits), (Class::Float, 32));
        let convert = Words::of("cvt.rn.f16x2.f32");
        let types: Vec<_> = convert.types().map(|ty| (ty.class, ty.is_packed)).collect();
        assert_eq!(types, [(Class::Half, true), (Class::Float, false)]);
        assert_eq!(Words::of("bar.sync").ty().bits, 32);
        assert_eq!(
            Words::of("cvt.rn.e4m3x2.f32").types().next().unwrap().class,
            Class::Narrow
        );
        assert_eq!(Words::of("mov.b128").ty().words(), 4);
    }
}
