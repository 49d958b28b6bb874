//! Finds paths that begin with `crate::` in Rust source code, without a parser: replaces comments,
//! strings and tests with spaces, and searches for `crate::`.

use std::collections::BTreeMap;

/// Returns the first name after each `crate::` in code that is not in tests, with the number of its
/// line.
pub(super) fn of_crate(text: &str) -> Vec<(usize, String)> {
    let code = without_tests(&blanked(text));
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = code[from..].find("crate::") {
        let start = from + at;
        from = start + "crate::".len();
        let before = code[..start].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let line = code[..start].matches('\n').count() + 1;
        found.extend(
            first_names(&code[from..])
                .into_iter()
                .map(|name| (line, name)),
        );
    }
    found
}

/// Returns the names that the crate's root module re-exports (`pub use module::...`), with the
/// modules that define them.
pub(super) fn exports(text: &str) -> BTreeMap<String, String> {
    let code = blanked(text);
    let mut found = BTreeMap::new();
    for item in code.split(';') {
        let Some((_, path)) = item.split_once("use ") else {
            continue;
        };
        let path = path
            .trim()
            .trim_start_matches("crate::")
            .trim_start_matches("self::");
        let Some((module, rest)) = path.split_once("::") else {
            continue;
        };
        let names = rest.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        for name in names.filter(|name| !name.is_empty()) {
            found.insert(name.to_owned(), module.to_owned());
        }
    }
    found
}

/// Returns the first name of each path in a `use` tree (`{a::b, c}`) or of a single path.
fn first_names(tree: &str) -> Vec<String> {
    let identifier = |text: &str| -> String {
        let text = text.trim_start();
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        text.chars().take_while(|&c| is_part(c)).collect()
    };
    let Some(inside) = tree.trim_start().strip_prefix('{') else {
        return Vec::from([identifier(tree)]);
    };
    let mut names = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(identifier(&inside[start..at]));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Returns the text with spaces in place of comments, strings and character literals. Line breaks
/// are preserved.
fn blanked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let blank = |out: &mut String, part: &str| {
        out.extend(part.chars().map(|c| if c == '\n' { c } else { ' ' }));
    };
    while let Some(first) = rest.chars().next() {
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |at| at + 2)
        } else if let Some(len) = raw_string(rest) {
            len
        } else if first == '"' {
            quoted(rest)
        } else if first == '\'' {
            // A character literal has a closing quote after one character or escape sequence; a lifetime has no closing
            // quote.
            let second = rest[1..].char_indices().nth(1);
            match rest.strip_prefix("'\\") {
                Some(escape) => escape.find('\'').map_or(1, |at| at + 3),
                None => second
                    .filter(|&(_, c)| c == '\'')
                    .map_or(0, |(at, _)| at + 2),
            }
        } else {
            0
        };
        if len > 0 {
            blank(&mut out, &rest[..len]);
            rest = &rest[len..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn raw_string(text: &str) -> Option<usize> {
    let hashes = text.strip_prefix('r')?;
    let count = hashes.len() - hashes.trim_start_matches('#').len();
    let body = hashes[count..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(count));
    let skipped = 1 + count + 1;
    Some(
        body.find(&end)
            .map_or(text.len(), |at| skipped + at + end.len()),
    )
}

/// Returns the code with spaces in place of items under `#[cfg(test)]`.
fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find(MARK) {
        out.push_str(&rest[..at]);
        let item = &rest[at..];
        let end = item_end(&item[MARK.len()..]) + MARK.len();
        out.extend(item[..end].chars().map(|c| if c == '\n' { c } else { ' ' }));
        rest = &item[end..];
    }
    out.push_str(rest);
    out
}

/// Returns the position at which an item ends: after its closing brace or its semicolon.
fn item_end(item: &str) -> usize {
    let mut depth = 0;
    for (at, c) in item.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    item.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        of_crate(text).into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn paths_in_items_and_expressions() {
        let text =
            "use crate::a::B;\nuse crate::{c::{D, E}, f, g::*};\nfn x() { crate::h::i(); }\n";
        assert_eq!(names(text), ["a", "c", "f", "g", "h"]);
        assert_eq!(of_crate(text)[1], (2, "c".into()));
        assert_eq!(of_crate(text)[4], (3, "h".into()));
        assert_eq!(
            names("pub(in crate::a) fn x(y: &crate :: b) { $crate::c!(); mycrate::d }"),
            ["a"]
        );
    }

    #[test]
    fn texts_and_tests_do_not_count() {
        let text = "// crate::a\n/* crate::b */ /// [`crate::c`]\nlet s = \"crate::d \\\" crate::e\";\n\
            let r = r#\"crate::f\"#; let c = '\"'; let q = crate::g; fn l<'a>(x: &'a crate::h) {}";
        assert_eq!(names(text), ["g", "h"]);
        let text = "use crate::a;\n#[cfg(test)]\nuse crate::b;\n#[cfg(test)]\nmod tests { fn x() { { crate::c } } }\nuse crate::d;";
        assert_eq!(names(text), ["a", "d"]);
        assert_eq!(of_crate(text)[1].0, 6);
    }

    #[test]
    fn names_that_the_root_exports() {
        let found = exports("pub mod a;\npub use a::{B, c::D};\npub use e::F;\nuse std::fmt;");
        let expected = [("B", "a"), ("D", "a"), ("F", "e")];
        for (name, module) in expected {
            assert_eq!(found[name], module);
        }
        assert!(!found.contains_key("a"));
    }
}
