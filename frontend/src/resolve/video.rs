//! Checks the video selectors of operands.

/// The role of an operand in a video instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// The result. Its selector lists the parts (halves or bytes) of the register that the
    /// instruction writes, highest part first.
    Result,
    /// A source.
    Source,
}

/// Whether an operand of a video instruction can have the video selector `selector`. In a scalar
/// instruction such as `vadd`, a selector names one byte or half. In a SIMD instruction on halves
/// (`vadd2`) or bytes (`vadd4`), a selector lists several of them.
pub(super) fn takes(opcode: &str, part: Part, selector: &str) -> bool {
    let Some((kind, digits)) = selector.split_at_checked(1) else {
        return false;
    };
    match opcode.as_bytes().last() {
        Some(b'2') => {
            kind == "h"
                && match part {
                    Part::Result => matches!(digits, "0" | "1" | "10"),
                    Part::Source => digits.len() == 2 && digits.bytes().all(|d| d <= b'3'),
                }
        }
        Some(b'4') => {
            let falls = digits
                .bytes()
                .zip(digits.bytes().skip(1))
                .all(|(a, b)| a > b);
            kind == "b"
                && match part {
                    Part::Result => falls && digits.bytes().all(|d| d <= b'3'),
                    Part::Source => digits.len() == 4,
                }
        }
        _ => matches!(selector, "b0" | "b1" | "b2" | "b3" | "h0" | "h1"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_depend_on_the_lanes() {
        assert!(takes("vadd", Part::Source, "b3"));
        assert!(!takes("vadd", Part::Source, "h2"));
        assert!(takes("vadd2", Part::Result, "h10"));
        assert!(!takes("vadd2", Part::Result, "h01"));
        assert!(takes("vmin2", Part::Source, "h30"));
        assert!(!takes("vmin2", Part::Source, "b10"));
        assert!(takes("vset4", Part::Result, "b310"));
        assert!(!takes("vset4", Part::Result, "b012"));
        assert!(takes("vset4", Part::Source, "b7777"));
        assert!(!takes("vset4", Part::Source, "b321"));
    }
}
