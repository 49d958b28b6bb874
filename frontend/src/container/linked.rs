//! The output of Margay's linkers (`cuLinkComplete` and the replacement for nvJitLink): several PTX texts
//! joined into one text.
//!
//! A program may copy the joined text, write it to a file and load it later, so this text must be
//! self-contained. If there is only one input, the joined text is this input, followed by a NUL.
//! If there are several inputs, the joined text begins with a line that marks it as a joined text,
//! and contains a separator line before each input. [`super::select_ptx`] splits the joined text
//! into the inputs again.

/// The first line of a joined text.
const HEAD: &[u8] = b"//@margay linked ptx\n";
/// The separator line before each input in a joined text.
const NEXT: &[u8] = b"\n//@margay next input\n";

/// Joins `texts` into one text and appends a NUL.
pub fn join(texts: &[Vec<u8>]) -> Vec<u8> {
    let mut joined = Vec::new();
    match texts {
        [one] => joined.extend_from_slice(one),
        many => {
            joined.extend_from_slice(HEAD);
            for text in many {
                joined.extend_from_slice(NEXT);
                joined.extend_from_slice(text);
            }
        }
    }
    joined.push(0);
    joined
}

/// Whether `text` declares an external function of the device runtime (the library `libcudadevrt`).
/// A program with such a text must be linked with the device runtime.
pub fn calls_device_runtime(text: &[u8]) -> bool {
    let declares = |line: &[u8]| find(line, b".extern").is_some() && find(line, b".func").is_some();
    let mut lines = text.split(|&byte| byte == b'\n');
    // The function's name follows its return parameter, on the same line or on the next line.
    while let Some(line) = lines.next() {
        if declares(line) {
            let next = lines.clone().next().unwrap_or_default();
            if find(line, b" cuda").is_some() || next.trim_ascii_start().starts_with(b"cuda") {
                return true;
            }
        }
    }
    false
}

/// Whether `text` is a joined text: [`join`] created it from several texts.
pub(super) fn is_joined(text: &[u8]) -> bool {
    text.starts_with(HEAD)
}

/// Splits a joined text into the texts that were joined. Returns a text that is not a joined text unchanged.
pub(super) fn parts(text: &[u8]) -> Vec<&[u8]> {
    let Some(mut rest) = text
        .strip_prefix(HEAD)
        .and_then(|rest| rest.strip_prefix(NEXT))
    else {
        return vec![text];
    };
    let mut parts = Vec::new();
    while let Some(at) = find(rest, NEXT) {
        parts.push(&rest[..at]);
        rest = &rest[at + NEXT.len()..];
    }
    parts.push(rest);
    parts
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_texts_come_apart() {
        let texts = [b"first".to_vec(), b"second\n".to_vec(), Vec::new()];
        let joined = join(&texts);
        assert_eq!(joined.last(), Some(&0));
        assert_eq!(parts(&joined[..joined.len() - 1]), texts);
    }

    #[test]
    fn calls_of_the_device_runtime_are_seen() {
        let calls = |text: &str| calls_device_runtime(text.as_bytes());
        assert!(calls(
            ".extern .func  (.param .b64 r) cudaCGGetIntrinsicHandle\n(\n"
        ));
        assert!(calls(
            "x\n.extern .func (.param .b32 r)\n  cudaLaunchDevice(.param .b64 p);"
        ));
        assert!(!calls(
            ".extern .func mine();\n.visible .func cudaLike() { }"
        ));
    }

    #[test]
    fn one_text_stays_as_it_is() {
        assert_eq!(join(&[b".version 8.0".to_vec()]), b".version 8.0\0");
        assert_eq!(parts(b".version 8.0"), [b".version 8.0"]);
        assert_eq!(parts(b""), [b""]);
    }
}
