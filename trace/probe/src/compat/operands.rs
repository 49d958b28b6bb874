//! Splits the text of a line into operands, as the original engine does.

/// The parts of a line. `None` stands for a part that the line has not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Operands {
    /// The guard with its `@`, or an empty text.
    pub(super) guard: String,
    /// The text up to the first comma.
    pub(super) first: String,
    /// The first operand, without brackets and offset.
    pub(super) out: Option<String>,
    /// The second operand, without brackets and offset.
    pub(super) in1: Option<String>,
    /// The third operand.
    pub(super) in2: Option<String>,
    /// The fourth operand.
    pub(super) in3: Option<String>,
    /// The bytes of an access, for lines whose opcode contains `ld` or `st`.
    pub(super) bytes: Option<u32>,
}

/// The types that the original engine knows, in the order in which it searches for them.
const TYPES: [(&str, u32); 15] = [
    ("u32", 32),
    ("u64", 64),
    ("b16", 16),
    ("u16", 16),
    ("u8", 8),
    ("f32", 32),
    ("f64", 64),
    ("b128", 128),
    ("s32", 32),
    ("s64", 64),
    ("s16", 16),
    ("s8", 8),
    ("b32", 32),
    ("b64", 64),
    ("b8", 8),
];

pub(super) fn operands(line: &str) -> Result<Operands, String> {
    let end = line
        .find(';')
        .ok_or_else(|| format!("the line `{}` has no semicolon", line.trim()))?;
    let parts = parts(&line[..end]);
    let first = parts
        .first()
        .ok_or("a list of registers has no end")?
        .clone();
    let mut rest = first.trim();
    let mut found = Operands {
        first: first.clone(),
        ..Operands::default()
    };
    if rest.contains('@') {
        let space = rest
            .find(' ')
            .ok_or("the guard is not followed by a space")?;
        found.guard = rest[..=space].to_owned();
        rest = rest[space..].trim();
    }
    if let Some(space) = rest.find(' ') {
        found.bytes = bytes(&rest[..space]);
        found.out = Some(without_brackets(rest[space..].trim())?);
    }
    let operand = |index: usize| parts.get(index).cloned();
    found.in1 = operand(1).map(|text| without_brackets(&text)).transpose()?;
    (found.in2, found.in3) = (operand(2), operand(3));
    for text in [&mut found.out, &mut found.in1].into_iter().flatten() {
        if let Some(plus) = text.find('+') {
            text.truncate(plus);
        }
    }
    Ok(found)
}

/// Splits at commas outside braces.
fn parts(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut list: Option<Vec<&str>> = None;
    for part in text.split(',') {
        match (part.contains('{'), part.contains('}'), &mut list) {
            (true, false, list) => list.get_or_insert_default().push(part),
            (false, true, list) => {
                let mut all = list.take().unwrap_or_default();
                all.push(part);
                parts.push(all.join(",").trim_matches(['{', '}', ' ']).to_owned());
            }
            (_, _, None) => parts.push(part.to_owned()),
            (_, _, Some(list)) => list.push(part),
        }
    }
    parts
}

fn without_brackets(text: &str) -> Result<String, String> {
    let Some(open) = text.find('[') else {
        return Ok(text.to_owned());
    };
    let close = text.find(']').filter(|close| *close > open);
    let close = close.ok_or_else(|| format!("`{text}` has no closing bracket"))?;
    Ok(text[open + 1..close].to_owned())
}

fn bytes(opcode: &str) -> Option<u32> {
    if !opcode.contains("ld") && !opcode.contains("st") {
        return None;
    }
    let has = |words: [&str; 2]| words.iter().any(|word| opcode.contains(word));
    let count = match (has(["v2", "x2"]), has(["v4", "x4"])) {
        (true, _) => 2,
        (false, true) => 4,
        _ => 1,
    };
    let (_, bits) = TYPES.iter().find(|(word, _)| opcode.contains(word))?;
    Some(count * bits / 8)
}
