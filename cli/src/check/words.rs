//! Formats the parts of the sentences in reports: numbers with separators, names of kernels,
//! descriptions of memory.

use std::borrow::Cow;

use margay::checks::{Severity, Tool};
use margay::demangle::{self, Parts};

use super::options::Demangle;
use super::record::{Coordinates, Record};

/// Writes a number with a comma before each group of three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a text in which the numbers of bytes have commas between groups of three digits.
pub(crate) fn group_bytes(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(" byte") {
        let (before, after) = rest.split_at(at);
        let digits = before.len() - before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (head, number) = before.split_at(before.len() - digits);
        let is_number = head.is_empty() || head.ends_with([' ', '(']);
        out.push_str(head);
        match number.parse() {
            Ok(value) if is_number => out.push_str(&grouped(value)),
            _ => out.push_str(number),
        }
        out.push_str(" byte");
        rest = &after[" byte".len()..];
    }
    out.push_str(rest);
    out
}

/// Returns `c`, or U+FFFD if `c` is a control character or changes the direction of text. Such characters are not safe
/// to show on a terminal.
pub(crate) fn visible(c: char) -> char {
    let is_direction = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    match c.is_control() || is_direction {
        true => '\u{fffd}',
        false => c,
    }
}

/// Formats coordinates as NVIDIA's tools do: `(x,y,z)`.
pub(crate) fn coordinates([x, y, z]: Coordinates) -> String {
    format!("({x},{y},{z})")
}

/// States that an error has ended a context before all its kernels ran.
pub(crate) const SKIPPED: &str = "Kernels that the program launched after an error did not run and were not \
    examined (--destroy-on-device-error nothing: run them)";

/// States that lines of the log or of the saved file are missing or damaged, that the run had too many findings, or that
/// a process has not ended.
pub(crate) const INCOMPLETE: &str = "The list of findings is incomplete: a process of the program still ran, a process \
    had more than 16,384 different findings, or the file from which margay reads them lacks a part";

/// States that some memory was not examined for leaks.
pub(crate) const UNEXAMINED: &str = "some memory was not examined, because an error ended its context or its process \
    ended without exit handlers";

/// Returns a count with its noun: `one` if the count is 1, and `many` otherwise.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{} {many}", grouped(count)),
    }
}

/// Returns the name of a kernel in the requested form.
pub(crate) fn kernel_name(name: &str, style: Demangle) -> String {
    let readable = match style {
        Demangle::No => None,
        Demangle::Full => demangle::cpp(name, Parts::Signature),
        Demangle::Simple => demangle::cpp(name, Parts::Name),
    };
    readable.unwrap_or_else(|| name.to_owned())
}

/// Returns the sentences about the address of a finding, and about the memory at this address.
pub(crate) fn address_sentences(record: &Record) -> Vec<String> {
    let mut sentences = Vec::new();
    let allocation = record.allocation.as_deref().unwrap_or("");
    let stated = [
        ("address is out of bounds: ", " is out of bounds"),
        ("address is misaligned: ", " is misaligned"),
        (
            "address is in a constant variable, which a kernel of its module cannot write: ",
            " is in a constant variable, which a kernel of its module cannot write",
        ),
    ];
    let stated = stated
        .iter()
        .find_map(|(start, what)| Some((allocation.strip_prefix(start)?, *what)));
    let (memory, what) = stated.unwrap_or_else(|| {
        let is_access = record.is_of(Tool::Memory) && record.access.is_some();
        (allocation, if is_access { " is out of bounds" } else { "" })
    });
    let names_address = || record.message.contains(" at 0x");
    if let Some(address) = record
        .address
        .filter(|_| !what.is_empty() || !names_address())
    {
        sentences.push(format!("Address {address:#x}{what}"));
    }
    if !memory.is_empty() {
        sentences.push(memory_sentence(&group_bytes(memory)));
    }
    sentences
}

/// Turns a description of memory into the second half of a sentence about an address.
fn memory_sentence(memory: &str) -> String {
    let starts = |words: &[&str]| words.iter().any(|word| memory.starts_with(word));
    if starts(&["and ", "("]) {
        memory.to_owned()
    } else if starts(&["offset "]) {
        format!("and is at {memory}")
    } else if starts(&["outside ", "inside ", "in ", "before ", "after ", "a null"])
        || memory.starts_with(|c: char| c.is_ascii_digit())
    {
        format!("and is {memory}")
    } else if starts(&["nothing "]) {
        format!("and {memory}")
    } else {
        format!("and is in {memory}")
    }
}

/// The position of an access relative to an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// Size of the allocation in bytes.
    pub(crate) size: u64,
    /// The offset in bytes of the access from the start of the allocation.
    pub(crate) offset: i128,
}

/// Reads sizes and distances from a description of memory: `16 bytes after the end of device memory of 1024 bytes`.
pub(crate) fn layout(memory: &str) -> Option<Layout> {
    let words: Vec<&str> = memory.split([' ', ':']).filter(|w| !w.is_empty()).collect();
    let number = |word: &str| word.replace(',', "").parse::<u64>().ok();
    let is_bytes = |word: Option<&&str>| {
        word.is_some_and(|word| matches!(word.trim_end_matches([',', ';', '.']), "byte" | "bytes"))
    };
    let sizes = (0..words.len()).filter(|&at| is_bytes(words.get(at + 1)));
    let mut sizes = sizes.filter_map(|at| Some((at, number(words[at])?)));
    if let Some(at) = words.iter().position(|word| *word == "offset") {
        let digits = words.get(at + 1)?.strip_prefix("0x")?;
        let offset = i128::from(u64::from_str_radix(digits, 16).ok()? as i64);
        let (_, size) = sizes.next()?;
        return Some(Layout { size, offset });
    }
    let (at, distance) = sizes.next()?;
    let (_, size) = sizes.next()?;
    let distance = i128::from(distance);
    let offset = match *words.get(at + 2)? {
        "into" | "inside" => distance,
        "after" => i128::from(size) + distance,
        "before" => -distance,
        _ => return None,
    };
    Some(Layout { size, offset })
}

/// Returns the word, such as `Error`, with which the text about a finding of this severity begins.
pub(crate) fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "Info",
        Severity::Warning => "Warning",
        Severity::Error => "Error",
    }
}

/// Returns the heading that reports print above the host's stack of a finding.
pub(crate) fn host_heading(record: &Record) -> &'static str {
    if record.kernel.is_some() {
        "Saved host backtrace up to driver entry point at kernel launch time"
    } else if record.is_of(Tool::Leak) {
        "Saved host backtrace up to driver entry point at allocation time"
    } else {
        "Saved host backtrace up to driver entry point at error"
    }
}

/// Returns a word with a capital first letter.
pub(crate) fn capital(word: &str) -> Cow<'_, str> {
    let mut chars = word.chars();
    match chars.next() {
        Some(first) => format!("{}{}", first.to_uppercase(), chars.as_str()).into(),
        None => word.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::{ACCESS, LEAK, RACE, records};
    use super::*;

    #[test]
    fn numbers_of_bytes_have_separators() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(137_179_965_340_896), "137,179,965,340,896");
        let text = "Leaked 1024 bytes at 0x7879c0800000 of 12345";
        assert_eq!(
            group_bytes(text),
            "Leaked 1,024 bytes at 0x7879c0800000 of 12345"
        );
        assert_eq!(
            group_bytes("0x1024 bytes, 1,024 bytes"),
            "0x1024 bytes, 1,024 bytes"
        );
        assert_eq!(group_bytes("4096 bytes"), "4,096 bytes");
    }

    #[test]
    fn kernels_have_readable_names() {
        let name = "_Z4fillPii";
        assert_eq!(kernel_name(name, Demangle::Full), "fill(int*, int)");
        assert_eq!(kernel_name(name, Demangle::Simple), "fill");
        assert_eq!(kernel_name(name, Demangle::No), name);
        assert_eq!(kernel_name("fill", Demangle::Full), "fill");
        assert_eq!(kernel_name("_Zbad", Demangle::Full), "_Zbad");
    }

    #[test]
    fn memory_is_described_in_sentences() {
        let all = records(&[ACCESS, RACE, LEAK]);
        assert_eq!(
            address_sentences(&all[0]),
            [
                "Address 0x1000 is out of bounds",
                "and is 16 bytes after the end of device memory of 1,024 bytes"
            ]
        );
        assert_eq!(address_sentences(&all[1]), ["Address 0x8c"]);
        assert!(address_sentences(&all[2]).is_empty());
        for (memory, sentence) in [
            (
                "offset 0x10 of 16 bytes of shared memory",
                "and is at offset 0x10 of 16 bytes of shared memory",
            ),
            (
                "outside of the thread's local memory",
                "and is outside of the thread's local memory",
            ),
            (
                "device memory of 4 bytes, freed by cuMemFree",
                "and is in device memory of 4 bytes, freed by cuMemFree",
            ),
            ("a null pointer", "and is a null pointer"),
            ("nothing is mapped there", "and nothing is mapped there"),
        ] {
            assert_eq!(memory_sentence(memory), sentence);
        }
    }

    #[test]
    fn sizes_are_read_from_descriptions() {
        let at = |memory| layout(memory).map(|layout| (layout.offset, layout.size));
        let after =
            "address is out of bounds: 16 bytes after the end of device memory of 1024 bytes";
        assert_eq!(at(after), Some((1040, 1024)));
        assert_eq!(
            at("8 bytes before device memory of 24 bytes"),
            Some((-8, 24))
        );
        assert_eq!(
            at("1 byte into device memory of 1,024 bytes"),
            Some((1, 1024))
        );
        assert_eq!(
            at("offset 0x40 of 64 bytes of shared memory"),
            Some((64, 64))
        );
        let negative = "offset 0xfffffffffffffffc of 64 bytes of shared memory";
        assert_eq!(at(negative), Some((-4, 64)));
        assert_eq!(
            at("and is 4 bytes after the nearest allocation at 0x7000 of size 1,024 bytes"),
            Some((1028, 1024))
        );
        assert_eq!(at("device memory of 4 bytes, freed by cuMemFree"), None);
        assert_eq!(at("nothing is mapped there"), None);
    }
}
