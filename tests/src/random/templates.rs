//! Generates instructions from the templates in `templates.txt`.

use std::sync::OnceLock;

use super::numbers::Random;

/// A template: its weight, which determines its probability, and its text.
struct Template {
    times: u32,
    text: &'static str,
}

fn templates() -> &'static [Template] {
    static ALL: OnceLock<Vec<Template>> = OnceLock::new();
    ALL.get_or_init(|| {
        let lines = include_str!("templates.txt").lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
        lines
            .map(|text| match text.split_once(' ') {
                Some((times, rest)) if times.parse::<u32>().is_ok() => Template {
                    times: times.parse().expect("just parsed"),
                    text: rest,
                },
                _ => Template { times: 1, text },
            })
            .collect()
    })
}

/// Returns the number of templates.
pub fn count() -> usize {
    templates().len()
}

/// The operands that instructions from templates can use in addition to the registers that all kernels have.
pub struct Operands<'a> {
    /// Registers of loop counters, which generated instructions may read but not write.
    pub counters: &'a [String],
}

/// Generates an instruction from a random template.
pub fn any(random: &mut Random, operands: &Operands<'_>) -> String {
    let all = templates();
    let mut at = random.below(all.iter().map(|t| t.times).sum());
    for template in all {
        match at.checked_sub(template.times) {
            Some(rest) => at = rest,
            None => return fill(template.text, random, operands),
        }
    }
    unreachable!("the numbers add up")
}

/// Generates an instruction from template number `index`.
pub fn nth(index: usize, random: &mut Random, operands: &Operands<'_>) -> String {
    fill(templates()[index].text, random, operands)
}

/// Replaces the placeholders of a template by random alternatives and operands, and returns the
/// resulting text.
pub fn fill(text: &str, random: &mut Random, operands: &Operands<'_>) -> String {
    let text = choose(text, random);
    let mut out = String::with_capacity(text.len() + 16);
    let mut written: Vec<String> = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek().copied()) {
            ('>', Some(letter)) if letter.is_ascii_lowercase() => {
                chars.next();
                let mut name = register(letter, random);
                // An instruction must not write a register twice.
                while written.contains(&name) {
                    name = register(letter, random);
                }
                out += &name;
                written.push(name);
            }
            ('$', Some(letter)) => {
                chars.next();
                out += &source(letter, random, operands);
            }
            (';', _) => {
                out.push(';');
                written.clear();
            }
            _ => out.push(c),
        }
    }
    // The bits of a value and the test for NaN must use the same register.
    for (copy, letter) in [("%x0, %x0", 'f'), ("%y0, %y0", 'e')] {
        if out.contains(copy) {
            let end = out.find(';').expect("an instruction ends");
            let start = out[..end]
                .rfind(&format!("%{letter}"))
                .expect("it reads one");
            let name = out[start..end].to_owned();
            out = out.replace(copy, &format!("{name}, {name}"));
        }
    }
    out
}

fn choose(text: &str, random: &mut Random) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        let (choices, end) = after.split_once(']').expect("a choice is closed");
        let choices: Vec<&str> = choices.split('|').collect();
        out += before;
        out += *random.pick(choices.as_slice());
        rest = end;
    }
    out + rest
}

/// Returns a random register of the class `letter` that an instruction may write.
pub fn register(letter: char, random: &mut Random) -> String {
    let count = match letter {
        'p' => 3,
        _ => super::layout::REGISTERS
            .iter()
            .find(|r| r.0 == letter)
            .map_or(1, |r| r.1),
    };
    format!("%{letter}{}", random.below(count))
}

/// Returns a random operand of the class `letter` that an instruction may read. The operand is a
/// register or, for a capital letter and for `s`, a register or a constant; for `b`, it is always a
/// constant.
pub fn source(letter: char, random: &mut Random, operands: &Operands<'_>) -> String {
    const FIXED: [&str; 6] = ["%lin", "%gid", "%lane", "%w0", "%w1", "%n"];
    match letter {
        'r' => match random.below(10) {
            0 | 1 => (*random.pick(&FIXED)).to_owned(),
            2 if !operands.counters.is_empty() => random.pick(operands.counters).clone(),
            _ => register('r', random),
        },
        's' => match random.below(4) {
            0 => register('r', random),
            1 => (32 + random.below(40)).to_string(),
            _ => random.below(32).to_string(),
        },
        'b' => random.below(256).to_string(),
        'R' | 'D' | 'F' | 'E' | 'H' if random.chance(50) => constant(letter, random),
        _ => source_register(letter, random, operands),
    }
}

fn source_register(letter: char, random: &mut Random, operands: &Operands<'_>) -> String {
    match letter {
        'R' => source('r', random, operands),
        _ => register(letter.to_ascii_lowercase(), random),
    }
}

fn constant(letter: char, random: &mut Random) -> String {
    const WORDS: [&str; 12] = [
        "0",
        "1",
        "-1",
        "2",
        "3",
        "5",
        "16",
        "255",
        "0x7fffffff",
        "0x80000000",
        "-7",
        "65536",
    ];
    const FLOATS: [f32; 9] = [0.0, -0.0, 1.0, -1.0, 0.5, 3.25, 1e-39, 65504.0, -123.75];
    match letter {
        'H' => (random.below(70) as i32 - 35).to_string(),
        'F' => format!("0f{:08X}", random.pick(&FLOATS).to_bits()),
        'E' => format!("0d{:016X}", f64::from(*random.pick(&FLOATS)).to_bits()),
        _ if random.chance(30) => (random.bits() as i32 >> random.below(24)).to_string(),
        _ => (*random.pick(&WORDS)).to_owned(),
    }
}
