//! Cuts one kernel out of a text, as the original engine does: with everything in front of the first kernel, and the
//! device functions behind it.

/// The parts of a text that one kernel needs.
pub(super) struct Pruned {
    /// Everything in front of the first kernel, a line break, and the device functions behind it.
    pub(super) before: String,
    /// The kernel, from `.visible` or `.entry` to its last brace.
    pub(super) entry: String,
}

/// The number of characters at the end of a name that may be missing in the text.
const FUZZY: usize = 29;

pub(super) fn prune(text: &str, kernel: &str) -> Result<Pruned, String> {
    let start =
        find_entry(text, kernel).ok_or_else(|| format!("no `.entry {kernel}` in the text"))?;
    let first = text
        .find(".visible .entry")
        .into_iter()
        .chain(text.find(".entry"))
        .min();
    let first = first.unwrap_or(text.len());
    let mut functions = Vec::new();
    let mut at = first;
    while let Some(found) = text[at..].find(".func") {
        let from = at + found;
        at = body_end(text, from)?;
        functions.push(&text[from..at]);
    }
    let end = body_end(text, start)?;
    Ok(Pruned {
        before: format!("{}\n{}", &text[..first], functions.join("\n")),
        entry: text[start..end].to_owned(),
    })
}

fn find_entry(text: &str, kernel: &str) -> Option<usize> {
    let visible = text.find(&format!(".visible .entry {kernel}"));
    let exact = visible.or_else(|| text.find(&format!(".entry {kernel}")));
    exact.or_else(|| {
        let shorter = kernel
            .char_indices()
            .rev()
            .take(FUZZY)
            .map(|(end, _)| &kernel[..end]);
        shorter
            .into_iter()
            .find_map(|name| text.find(&format!(".entry {name}")))
    })
}

/// Returns the offset behind the brace that closes the first brace at or behind `from`.
fn body_end(text: &str, from: usize) -> Result<usize, String> {
    let mut depth = 0_usize;
    for (offset, byte) in text.bytes().enumerate().skip(from) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return Ok(offset + 1),
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Err("the braces of a body are not balanced".to_owned())
}

/// Returns the number of parameters: the lines with `.param` between the first parentheses.
pub(super) fn parameters(entry: &str) -> Result<usize, String> {
    let open = entry.find('(').ok_or("the kernel has no parameter list")?;
    let list = &entry[open..];
    let close = list.find(')').ok_or("the parameter list has no end")?;
    Ok(list[..close]
        .split('\n')
        .filter(|line| line.contains(".param"))
        .count())
}

/// Returns the name of the kernel, between the last space in front of the parameter list and the list.
pub(super) fn name(entry: &str) -> &str {
    let head = &entry[..entry.find('(').unwrap_or(0)];
    head.rsplit(' ').next().unwrap_or(head)
}
