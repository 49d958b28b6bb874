//! Writes the Rust code of the entry points: the functions of `margay-cublas`, and the jumps of the exporting libraries.

use std::fmt::Write;

use crate::parse::{Entry, Form, Library, Parameter, Returns, entries};

/// Returns the code of all entry points of a library and of the table `name`, which lists them.
pub fn functions(library: Library, name: &str) -> String {
    let all = entries(library);
    let mut code = String::new();
    for entry in &all {
        code.push_str(&match entry.function {
            Some(_) => function(entry),
            None => missing(entry),
        });
    }
    writeln!(code, "pub(crate) static {name}: &[Entry] = &[").expect("a string");
    for entry in &all {
        let kinds: Vec<String> = entry.parameters.iter().map(|p| p.kind.clone()).collect();
        writeln!(
            code,
            "Entry {{ name: {0:?}, toolkits: &{1:?}, form: {2:?}, kinds: {3:?}, missing: {4}, \
             address: Address({5} as *const ()) }},",
            entry.name,
            entry.toolkits,
            format!("{:?}", entry.form),
            kinds.join(" "),
            entry.function.is_none(),
            entry.symbol,
        )
        .expect("a string");
    }
    code.push_str("];\n");
    code
}

/// Returns the code of a library that exports the functions of one toolkit: each function jumps to the address in its
/// slot of `SLOTS`. `LIST` contains the names in the order of the slots.
pub fn trampolines(library: Library, toolkit: u32) -> String {
    let all = entries(library);
    let all = all.iter().filter(|entry| entry.toolkits.contains(&toolkit));
    let names: Vec<&str> = all.map(|entry| entry.name.as_str()).collect();
    let mut code = format!("const COUNT: usize = {};\n", names.len());
    for (index, name) in names.iter().enumerate() {
        writeln!(code, "trampoline!({name}, {});", index * 8).expect("a string");
    }
    code
}

/// Returns the function of an entry point without an implementation.
fn missing(entry: &Entry) -> String {
    let (name, symbol) = (&entry.name, &entry.symbol);
    format!("extern \"C\" fn {symbol}() -> Status {{ missing(c{name:?}) }}\n")
}

fn function(entry: &Entry) -> String {
    let (name, symbol) = (&entry.name, &entry.symbol);
    let target = entry.function.as_deref().expect("an implementation");
    let legacy = entry.form == Form::Legacy;
    let handle = matches!(entry.form, Form::Plain | Form::Wide | Form::Xt);
    let mut parameters = Vec::new();
    if handle {
        parameters.push("handle: usize".to_owned());
    }
    let mut result = None;
    for parameter in &entry.parameters {
        match parameter.kind.strip_prefix('=').filter(|_| legacy) {
            Some(kind) => result = Some(if kind == "index" { "i32" } else { kind }),
            None => parameters.push(format!(
                "{}: {}",
                variable(parameter),
                c_type(parameter, entry.form)
            )),
        }
    }
    let mut arguments: Vec<String> = entry
        .parameters
        .iter()
        .map(|parameter| argument(parameter, entry.form))
        .collect();
    if entry.form != Form::Free && entry.form != Form::FreeWide {
        arguments.insert(0, "call".to_owned());
    }
    let call = format!("unsafe {{ {target}({}) }}", arguments.join(", "));
    let log = logged(entry, handle);
    let guard = match entry.form {
        Form::Plain | Form::Wide => format!("blas(c{name:?}, handle, &{log}, &|call| "),
        Form::Xt => format!("xt(c{name:?}, handle, &{log}, &|call| "),
        Form::Legacy => format!("legacy(c{name:?}, &{log}, &|call| "),
        Form::Free | Form::FreeWide => format!("free(c{name:?}, &{log}, &|| "),
    };
    const SAFETY: &str = "// SAFETY: the caller satisfies the conditions of the C function.\n";
    let (returned, body) = match (entry.returns, legacy, result) {
        (Returns::Status, false, _) => ("Status", format!("{guard}{SAFETY}{call})")),
        (Returns::Status, true, None) => ("()", format!("{guard}{SAFETY}{call})")),
        (Returns::Status, true, Some(kind)) => (
            kind,
            format!(
                "let mut result = <{kind}>::default();\nlet place = &raw mut result;\n{guard}{SAFETY}{call});\nresult"
            ),
        ),
        (Returns::Size, ..) => ("usize", format!("{SAFETY}{call}")),
        (Returns::Text, ..) => ("*const c_char", format!("{SAFETY}{call}")),
        (Returns::Nothing, ..) => ("()", format!("{SAFETY}{call}")),
    };
    format!(
        "unsafe extern \"C\" fn {symbol}({}) -> {returned} {{\n{body}\n}}\n",
        parameters.join(", ")
    )
}

/// Returns the closure that adds the arguments to a line of the log.
fn logged(entry: &Entry, handle: bool) -> String {
    let mut code = String::new();
    if handle {
        code.push_str(" log.handle(handle);");
    }
    let is_result = |p: &Parameter| entry.form == Form::Legacy && p.kind.starts_with('=');
    for parameter in entry.parameters.iter().filter(|p| !is_result(p)) {
        let (name, variable) = (&parameter.name, variable(parameter));
        write!(code, " log.value({name:?}, {variable});").expect("a string");
    }
    match code.is_empty() {
        true => "|_| { }".to_owned(),
        false => format!("|log| {{{code} }}"),
    }
}

/// Returns the name of a parameter in the generated code.
fn variable(parameter: &Parameter) -> String {
    match parameter.name.as_str() {
        "type" => "kind".to_owned(),
        name => name.to_owned(),
    }
}

/// Returns the type of a parameter of the C function.
fn c_type(parameter: &Parameter, form: Form) -> String {
    let kind = parameter.kind.as_str();
    let integer = match form {
        Form::Xt => "usize",
        form if form.is_wide() => "i64",
        _ => "i32",
    };
    let element = |name: &str| match name {
        "void" => "c_void".to_owned(),
        "char" => "c_char".to_owned(),
        name => name.to_owned(),
    };
    match kind {
        "int" => integer.to_owned(),
        "op" | "uplo" | "side" | "diag" if form == Form::Legacy => "c_char".to_owned(),
        "op" | "uplo" | "side" | "diag" => "i32".to_owned(),
        "ptr" => "*mut c_void".to_owned(),
        "ints" => format!("*const {integer}"),
        "=index" => format!("*mut {integer}"),
        _ => {
            if let Some(name) = kind.strip_prefix("**") {
                format!("*const *const {}", element(name))
            } else if let Some(name) = kind.strip_prefix("@@") {
                format!("*const *mut {}", element(name))
            } else if let Some(name) = kind.strip_prefix('*') {
                format!("*const {}", element(name))
            } else if let Some(name) = kind.strip_prefix('@').or(kind.strip_prefix('=')) {
                format!("*mut {}", element(name))
            } else if let Some(name) = kind.strip_prefix('&') {
                match form {
                    Form::Legacy => element(name),
                    _ => format!("*const {}", element(name)),
                }
            } else {
                kind.to_owned()
            }
        }
    }
}

/// Returns the expression that the Rust function gets for a parameter.
fn argument(parameter: &Parameter, form: Form) -> String {
    let name = &variable(parameter);
    let legacy = form == Form::Legacy;
    match parameter.kind.as_str() {
        "int" if form == Form::Xt => format!("size({name})"),
        "int" if form.is_wide() => name.clone(),
        "int" => format!("i64::from({name})"),
        "op" | "uplo" | "side" | "diag" if legacy => {
            format!("legacy::{}({name})", parameter.kind)
        }
        "=index" if legacy => "Index::Narrow(place)".to_owned(),
        "=index" if form.is_wide() => format!("Index::Wide({name})"),
        "=index" => format!("Index::Narrow({name})"),
        "ints" if form.is_wide() => format!("Integers::Wide({name})"),
        "ints" => format!("Integers::Narrow({name})"),
        kind if legacy && kind.starts_with('=') => "place".to_owned(),
        kind if legacy && kind.starts_with('&') => format!("&raw const {name}"),
        _ => name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(name: &str) -> String {
        let all = entries(Library::Cublas);
        function(all.iter().find(|entry| entry.name == name).expect(name))
    }

    #[test]
    fn forms_have_their_types() {
        let plain = code_of("cublasIsamax_v2");
        assert!(plain.contains(
            "(handle: usize, n: i32, x: *const f32, incx: i32, result: *mut i32) -> Status"
        ));
        assert!(plain.contains("(call, i64::from(n), x, i64::from(incx), Index::Narrow(result))"));
        let wide = code_of("cublasIsamax_v2_64");
        assert!(wide.contains(
            "(handle: usize, n: i64, x: *const f32, incx: i64, result: *mut i64) -> Status"
        ));
        let legacy = code_of("cublasIsamax");
        assert!(legacy.contains("(n: i32, x: *const f32, incx: i32) -> i32"));
        let legacy = code_of("cublasCherk");
        assert!(
            legacy.contains(
                "(uplo: c_char, trans: c_char, n: i32, k: i32, alpha: f32, A: *const c32,"
            )
        );
        let xt = code_of("cublasXtDsyrk");
        assert!(xt.contains(
            "(handle: usize, uplo: i32, trans: i32, n: usize, k: usize, alpha: *const f64,"
        ));
    }

    #[test]
    fn trampolines_are_those_of_a_toolkit() {
        let count = |toolkit| {
            let code = trampolines(Library::CublasLt, toolkit);
            code.lines()
                .filter(|line| line.starts_with("trampoline!"))
                .count()
        };
        // The numbers of functions that NVIDIA's libraries export.
        assert_eq!([count(12), count(13)], [180, 222]);
    }
}
