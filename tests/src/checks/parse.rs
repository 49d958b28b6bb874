//! Reads the directives of a file of the corpus.

use std::collections::BTreeMap;

use margay::checks::{Kind, Tool};

use super::{Argument, Case, Contents, Expected, Launch, Part, Step};

/// Consecutive lines with directives, and the lines of code up to the next directives.
#[derive(Default)]
struct Region<'a> {
    directives: Vec<(u32, &'a str)>,
    code: Vec<(u32, &'a str)>,
}

/// Returns the cases that a file with the text `text` contains.
///
/// # Errors
///
/// Returns an error that names the line of a directive, if the directive is wrong.
pub fn read(text: &str) -> Result<Vec<Case>, String> {
    let mut class = String::new();
    let mut cases: Vec<Case> = Vec::new();
    for region in regions(text) {
        for case in read_region(&region, &mut class)? {
            if cases.iter().any(|known| known.name == case.name) {
                return Err(format!("line {}: {} is there twice", case.line, case.name));
            }
            cases.push(case);
        }
    }
    Ok(cases)
}

fn regions(text: &str) -> Vec<Region<'_>> {
    let mut regions = vec![Region::default()];
    for (line, text) in (1..).zip(text.lines()) {
        match text.trim().strip_prefix("//@") {
            Some(directive) => {
                if regions.last().is_none_or(|last| !last.code.is_empty()) {
                    regions.push(Region::default());
                }
                if let Some(last) = regions.last_mut() {
                    last.directives.push((line, directive.trim()));
                }
            }
            None if text.trim().is_empty() => {}
            None => {
                if let Some(last) = regions.last_mut() {
                    last.code.push((line, text));
                }
            }
        }
    }
    regions
}

/// Returns the name of the kernel in a region's code: the name after the first `KERNEL`.
fn kernel_of(region: &Region<'_>) -> Option<String> {
    region.code.iter().find_map(|(_, text)| {
        let rest = text.strip_prefix("KERNEL ")?;
        let (name, _) = rest.split_once('(')?;
        Some(name.trim().to_owned())
    })
}

/// Returns the words in the comments of a region's code, each with the numbers of the lines that
/// contain it.
fn marks<'a>(region: &Region<'a>) -> BTreeMap<&'a str, Vec<u32>> {
    let mut marks: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for &(line, text) in &region.code {
        if let Some((_, comment)) = text.split_once("//") {
            for word in comment.split_whitespace() {
                marks.entry(word).or_default().push(line);
            }
        }
    }
    marks
}

fn read_region(region: &Region<'_>, class: &mut String) -> Result<Vec<Case>, String> {
    let marks = marks(region);
    let kernel = kernel_of(region);
    let mut cases: Vec<Case> = Vec::new();
    let mut states = Vec::new();
    for &(line, directive) in &region.directives {
        let wrong = |what: &str| format!("line {line}: {what}: `{directive}`");
        if let Some(name) = directive.strip_prefix("class:") {
            *class = name.trim().to_owned();
            continue;
        }
        if let Some(rest) = directive.strip_prefix("case") {
            let (name, extents) = rest.split_once(':').ok_or_else(|| wrong("no colon"))?;
            let kernel = kernel.clone().ok_or_else(|| wrong("no kernel below"))?;
            let name = match name.trim() {
                "" => kernel.clone(),
                name => name.to_owned(),
            };
            cases.push(Case {
                name,
                class: class.clone(),
                line,
                launch: launch(kernel, extents).ok_or_else(|| wrong("extents"))?,
                ..Case::default()
            });
            states.push((line, false));
            continue;
        }
        let case = cases.last_mut().ok_or_else(|| wrong("no case above"))?;
        let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
        match word {
            "arg" => case
                .arguments
                .push(argument(rest).ok_or_else(|| wrong("argument"))?),
            "set" | "write" | "copy" | "run" | "join" => case
                .before
                .push(step(word, rest).ok_or_else(|| wrong("step"))?),
            "read" => case
                .after
                .push(step(word, rest).ok_or_else(|| wrong("step"))?),
            "fault" => case.fault = Some(rest.trim().to_owned()),
            "expect" | "may" | "either" => {
                if let Some(state) = states.last_mut() {
                    state.1 = true;
                }
                if rest.trim() != "clean" {
                    let expected = expected(rest, &marks).map_err(|what| wrong(&what))?;
                    match word {
                        "expect" => case.expected.insert(expected),
                        "either" => case.either.insert(expected),
                        _ => case.allowed.insert(expected),
                    };
                }
            }
            _ => return Err(wrong("unknown directive")),
        }
    }
    match states.iter().find(|(_, stated)| !stated) {
        Some((line, _)) => Err(format!("line {line}: the case has no expectation")),
        None => Ok(cases),
    }
}

fn launch(kernel: String, text: &str) -> Option<Launch> {
    let mut launch = Launch {
        kernel,
        grid: [1; 3],
        block: [1; 3],
        ..Launch::default()
    };
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "grid" => launch.grid = extent(words.next()?)?,
            "block" => launch.block = extent(words.next()?)?,
            "cluster" => launch.cluster = Some(extent(words.next()?)?),
            "shared" => launch.shared = words.next()?.parse().ok()?,
            "cooperative" => launch.cooperative = true,
            "stream" => launch.own_stream = true,
            _ => return None,
        }
    }
    Some(launch)
}

fn extent(text: &str) -> Option<[u32; 3]> {
    let mut extent = [1; 3];
    for (at, number) in text.split(',').enumerate() {
        *extent.get_mut(at)? = number.parse().ok()?;
    }
    Some(extent)
}

fn argument(text: &str) -> Option<Argument> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let value = |bytes: &[u8]| Some(Argument::Value(bytes.to_vec()));
    match *words.as_slice() {
        ["buffer", bytes, ref flags @ ..] => {
            let (mut contents, mut freed) = (Contents::Zero, false);
            for flag in flags {
                match *flag {
                    "uninitialised" => contents = Contents::Uninitialised,
                    "zero" => contents = Contents::Zero,
                    "iota" => contents = Contents::Iota,
                    "ones" => contents = Contents::Ones,
                    "freed" => freed = true,
                    _ => return None,
                }
            }
            let bytes = bytes.parse().ok()?;
            Some(Argument::Buffer {
                bytes,
                contents,
                freed,
            })
        }
        ["host", bytes] => Some(Argument::Host(bytes.parse().ok()?)),
        ["pinned", bytes] => Some(Argument::Pinned(bytes.parse().ok()?)),
        ["managed", bytes] => Some(Argument::Managed(bytes.parse().ok()?)),
        ["null"] => value(&[0; 8]),
        ["i32", number] => value(&number.parse::<i32>().ok()?.to_le_bytes()),
        ["u32", number] => value(&number.parse::<u32>().ok()?.to_le_bytes()),
        ["i64", number] => value(&number.parse::<i64>().ok()?.to_le_bytes()),
        ["u64", number] => value(&number.parse::<u64>().ok()?.to_le_bytes()),
        ["f32", number] => value(&number.parse::<f32>().ok()?.to_le_bytes()),
        _ => None,
    }
}

fn step(word: &str, text: &str) -> Option<Step> {
    if word == "join" {
        return Some(Step::Join);
    }
    if word == "run" {
        let (kernel, extents) = text.split_once(':')?;
        return Some(Step::Run(launch(kernel.trim().to_owned(), extents)?));
    }
    let numbers = text.split_whitespace().map(|number| number.parse().ok());
    let numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
    let part = |at: usize| {
        let buffer = usize::try_from(*numbers.get(at)?).ok()?;
        let offset = *numbers.get(at + 1)?;
        Some(Part { buffer, offset })
    };
    let bytes = *numbers.last()?;
    match (word, numbers.len()) {
        ("set", 3) => Some(Step::Set(part(0)?, bytes)),
        ("write", 3) => Some(Step::Write(part(0)?, bytes)),
        ("read", 3) => Some(Step::Read(part(0)?, bytes)),
        ("copy", 5) => Some(Step::Copy(part(0)?, part(2)?, bytes)),
        _ => None,
    }
}

fn expected(text: &str, marks: &BTreeMap<&str, Vec<u32>>) -> Result<Expected, String> {
    let mut words = text.split_whitespace();
    let tool = words.next().and_then(Tool::named).ok_or("unknown tool")?;
    let names = words.next().ok_or("no kind")?;
    let kinds = names.split('|').map(|name| {
        let mut kinds = Kind::ALL.iter().filter(|kind| kind.tool() == tool);
        let kind = kinds.find(|kind| kind.name() == name);
        kind.ok_or_else(|| format!("{name} is not a kind of the tool"))
    });
    let kinds: Vec<&Kind> = kinds.collect::<Result<_, _>>()?;
    let mut expected = Expected {
        tool: tool.name(),
        kinds: kinds.iter().map(|kind| kind.name()).collect(),
        lines: Vec::new(),
        severity: None,
    };
    for word in words {
        match word {
            "info" => expected.severity = Some("info"),
            "warning" => expected.severity = Some("warning"),
            "error" => expected.severity = Some("error"),
            mark => match marks.get(mark).map(Vec::as_slice) {
                Some(&[line]) => expected.lines.push(line),
                Some(_) => return Err(format!("{mark} is at several lines")),
                None => return Err(format!("{mark} is nowhere")),
            },
        }
    }
    if kinds.contains(&&Kind::Race) && expected.lines.len() == 1 {
        expected.lines.push(expected.lines[0]);
    }
    expected.lines.sort_unstable();
    Ok(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "KERNEL fill(int *p) {\n    p[1] = 2; // BUG1\n}\n";

    #[test]
    fn reads_cases_and_marks() {
        let text = format!(
            "//@ class: a b\n//@ case: grid 2 block 4,8 shared 16\n//@ arg i32 -1\n\
             //@ expect racecheck race BUG1 info\n//@ case other: block 1\n//@ expect clean\n{KERNEL}"
        );
        let cases = read(&text).expect("the text is right");
        let [first, other] = cases.as_slice() else {
            panic!("two cases");
        };
        assert_eq!((first.name.as_str(), first.class.as_str()), ("fill", "a b"));
        let launch = &first.launch;
        assert_eq!((launch.grid, launch.block), ([2, 1, 1], [4, 8, 1]));
        let expected = first.expected.first().expect("a finding");
        assert_eq!(expected.to_string(), "racecheck race line 8 line 8 (info)");
        assert!(first.is_buggy() && !other.is_buggy());
        assert_eq!(other.launch.kernel, "fill");
    }

    #[test]
    fn refuses_wrong_directives() {
        for (directives, problem) in [
            ("//@ case:", "no expectation"),
            ("//@ arg i32 1", "no case above"),
            (
                "//@ case:\n//@ expect memcheck race BUG1",
                "not a kind of the tool",
            ),
            (
                "//@ case:\n//@ expect racecheck race BUG2",
                "BUG2 is nowhere",
            ),
            ("//@ case:\n//@ arg i32 x\n//@ expect clean", "argument"),
            ("//@ case:\n//@ wait\n//@ expect clean", "unknown directive"),
            (
                "//@ case:\n//@ expect clean\n//@ case:\n//@ expect clean",
                "there twice",
            ),
        ] {
            let error = read(&format!("{directives}\n{KERNEL}")).expect_err(directives);
            assert!(error.contains(problem), "{error}");
        }
    }
}
