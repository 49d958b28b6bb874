//! Reads the lists of entry points. An error in a list stops the build with the line's number.

/// A library, which exports the entry points of one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// `libcublas`.
    Cublas,
    /// `libcublasLt`.
    CublasLt,
}

impl Library {
    fn list(self) -> &'static str {
        match self {
            Library::Cublas => include_str!("../cublas.txt"),
            Library::CublasLt => include_str!("../cublaslt.txt"),
        }
    }
}

/// The form of a function of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The function has a handle, integers are 32 bits wide.
    Plain,
    /// The function has a handle, integers are 64 bits wide.
    Wide,
    /// The function of `cublas.h`: no handle, scalars and results are values.
    Legacy,
    /// The function of `cublasXt.h`: matrices in host memory, sizes are unsigned.
    Xt,
    /// The function has no handle that belongs to a call.
    Free,
    /// As `Free`, with integers of 64 bits.
    FreeWide,
}

impl Form {
    /// Whether integers are 64 bits wide.
    pub fn is_wide(self) -> bool {
        matches!(self, Form::Wide | Form::FreeWide)
    }
}

/// The type of a function's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// `cublasStatus_t`.
    Status,
    /// `size_t`.
    Size,
    /// `const char *`.
    Text,
    /// No result.
    Nothing,
}

/// A parameter of a family, with the types of the function put in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name in NVIDIA's headers.
    pub name: String,
    /// The kind, as the crate's documentation lists them, with the types of the function.
    pub kind: String,
}

/// An exported function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name of the C function.
    pub name: String,
    /// The name of the function in the generated code, which differs if only one toolkit has the function.
    pub symbol: String,
    /// The toolkits that have the function.
    pub toolkits: Vec<u32>,
    /// The function's form.
    pub form: Form,
    /// The type of the result.
    pub returns: Returns,
    /// The Rust function; `None` if there is none.
    pub function: Option<String>,
    /// The parameters without the handle.
    pub parameters: Vec<Parameter>,
}

/// Returns the entry points of a library in the order of its list.
///
/// # Panics
/// If the list contains an error.
pub fn entries(library: Library) -> Vec<Entry> {
    let mut all = Vec::new();
    for (index, line) in library.list().lines().enumerate() {
        let line = line.trim();
        // Titles of groups begin with `==`.
        if !line.is_empty() && !line.starts_with('#') && !line.starts_with("== ") {
            let family = family(line);
            all.extend(family.unwrap_or_else(|what| panic!("line {}: {what}", index + 1)));
        }
    }
    all
}

/// Returns the names of the families without an implementation, as the list writes them.
pub fn missing_families(library: Library) -> Vec<String> {
    let lines = library
        .list()
        .lines()
        .filter(|line| line.ends_with("= missing"));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.map(|name| format!("cublas{name}")).collect()
}

/// Returns the types `T`, `R` and `U` of a code.
pub fn types_of(code: &str) -> Option<[&'static str; 3]> {
    Some(match code {
        "S" | "s" => ["f32", "f32", "f32"],
        "D" | "d" => ["f64", "f64", "f64"],
        "C" | "c" | "Sc" | "Cs" => ["c32", "f32", "c32"],
        "Z" | "z" | "Dz" | "Zd" => ["c64", "f64", "c64"],
        "H" => ["f16", "f32", "f16"],
        "HSH" => ["f16", "f32", "f16"],
        "HSS" => ["f16", "f32", "f32"],
        "TST" => ["bf16", "f32", "bf16"],
        "TSS" => ["bf16", "f32", "f32"],
        _ => return None,
    })
}

/// Returns the functions of a line.
fn family(line: &str) -> Result<Vec<Entry>, String> {
    let (head, tail) = line.split_once(" = ").ok_or("no function")?;
    let (function, parameters) = match tail.split_once(" :") {
        Some((function, parameters)) => (Some(function.trim()), parameters.trim()),
        None if tail.trim() == "missing" => (None, ""),
        None => return Err("no parameters".to_owned()),
    };
    let (head, returns) = match head.split_once(" -> ") {
        None => (head, Returns::Status),
        Some((head, "usize")) => (head, Returns::Size),
        Some((head, "text")) => (head, Returns::Text),
        Some((head, "void")) => (head, Returns::Nothing),
        Some((_, other)) => return Err(format!("no result {other}")),
    };
    let mut words = head.split_whitespace();
    let name = words.next().ok_or("no name")?;
    let flags: Vec<&str> = words.collect();
    let known = [
        "v2",
        "64",
        "legacy",
        "xt",
        "onlylegacy",
        "onlyxt",
        "free",
        "12",
        "13",
    ];
    if let Some(flag) = flags.iter().find(|flag| !known.contains(flag)) {
        return Err(format!("no flag {flag}"));
    }
    let toolkits = match (flags.contains(&"12"), flags.contains(&"13")) {
        (true, _) => vec![12],
        (_, true) => vec![13],
        _ => vec![12, 13],
    };
    let mut all = Vec::new();
    for (before, code, after) in names(name)? {
        let base = format!("{before}{code}{after}");
        for (name, form) in forms(&base, &flags) {
            let symbol = match toolkits[..] {
                [toolkit] => format!("{name}_{toolkit}"),
                _ => name.clone(),
            };
            all.push(Entry {
                name,
                symbol,
                toolkits: toolkits.clone(),
                form,
                returns,
                function: function
                    .map(|function| put_types(function, code))
                    .transpose()?,
                parameters: parameters_of(parameters, code)?,
            });
        }
    }
    Ok(all)
}

/// Splits a name into the part before the codes, each code, and the part after the codes.
fn names(name: &str) -> Result<Vec<(&str, &str, &str)>, String> {
    let Some((before, rest)) = name.split_once('{') else {
        return Ok(vec![(name, "", "")]);
    };
    let (codes, after) = rest.split_once('}').ok_or("no closing brace")?;
    Ok(codes.split(',').map(|code| (before, code, after)).collect())
}

/// Returns the names and forms of a function.
fn forms(base: &str, flags: &[&str]) -> Vec<(String, Form)> {
    let has = |flag| flags.contains(&flag);
    let suffix = if has("v2") { "_v2" } else { "" };
    let (plain, wide) = match has("free") {
        true => (Form::Free, Form::FreeWide),
        false => (Form::Plain, Form::Wide),
    };
    let mut forms = Vec::new();
    if !has("onlylegacy") && !has("onlyxt") {
        forms.push((format!("cublas{base}{suffix}"), plain));
        if has("64") {
            forms.push((format!("cublas{base}{suffix}_64"), wide));
        }
    }
    if has("legacy") || has("onlylegacy") {
        forms.push((format!("cublas{base}"), Form::Legacy));
    }
    if has("xt") || has("onlyxt") {
        forms.push((format!("cublasXt{base}"), Form::Xt));
    }
    forms
}

fn parameters_of(text: &str, code: &str) -> Result<Vec<Parameter>, String> {
    let texts = text
        .split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty());
    texts
        .map(|text| {
            let (name, kind) = text.split_once(' ').ok_or(format!("no kind: {text}"))?;
            Ok(Parameter {
                name: name.to_owned(),
                kind: put_types(kind, code)?,
            })
        })
        .collect()
}

/// Replaces the letters `T`, `R` and `U`, where they are words, by the types of a code.
fn put_types(text: &str, code: &str) -> Result<String, String> {
    let mut made = String::new();
    let mut word = String::new();
    for c in text.chars().chain(['\0']) {
        if c.is_ascii_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        let index = ["T", "R", "U"].iter().position(|letter| word == *letter);
        match index {
            Some(index) => {
                let types = types_of(code).ok_or(format!("no types for {code:?}"))?;
                made.push_str(types[index]);
            }
            None => made.push_str(&word),
        }
        word.clear();
        if c != '\0' {
            made.push(c);
        }
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Entry {
        let all = entries(Library::Cublas);
        let found = all.into_iter().find(|entry| entry.name == name);
        found.expect(name)
    }

    #[test]
    fn a_line_becomes_the_functions_of_its_forms() {
        let line = "{S,Cs}scal v2 64 legacy = level1::scal::<T> : n int, alpha &R, x @T";
        let family = family(line).expect("a line");
        let names: Vec<&str> = family.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "cublasSscal_v2",
                "cublasSscal_v2_64",
                "cublasSscal",
                "cublasCsscal_v2",
                "cublasCsscal_v2_64",
                "cublasCsscal",
            ]
        );
        assert_eq!(family[4].function.as_deref(), Some("level1::scal::<c32>"));
        assert_eq!(family[4].parameters[1].kind, "&f32");
        assert_eq!(family[4].parameters[2].kind, "@c32");
        assert_eq!(family[4].form, Form::Wide);
    }

    #[test]
    fn wrong_lines_are_errors() {
        for line in [
            "Sgemm v2",
            "Sgemm v3 = missing",
            "{Q}gemm = gemm::<T> : a int",
            "{S,D = missing",
            "Sgemm = gemm",
            "Sgemm = gemm : a",
        ] {
            assert!(family(line).is_err(), "{line}");
        }
    }

    #[test]
    fn no_function_is_listed_twice() {
        for library in [Library::Cublas, Library::CublasLt] {
            let each = |e: Entry| {
                e.toolkits
                    .into_iter()
                    .map(move |toolkit| (toolkit, e.name.clone()))
            };
            let mut names: Vec<(u32, String)> =
                entries(library).into_iter().flat_map(each).collect();
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }

    #[test]
    fn mixed_types_are_put_in() {
        let entry = named("cublasHSSgemvBatched");
        assert_eq!(
            entry.function.as_deref(),
            Some("level2::gemv_batched::<f16, f32, f32>")
        );
        assert_eq!(named("cublasDznrm2_v2").parameters[3].kind, "=f64");
    }
}
