//! Parses the list of layers, and checks that each crate's modules import only modules that precede
//! them in the list.

use std::collections::BTreeMap;

use super::Import;

/// A crate and its top-level modules, in the order of the list of layers: the lowest layer comes
/// first.
#[derive(Debug)]
pub(super) struct Crate {
    /// The crate's folder.
    pub(super) name: String,
    modules: Vec<String>,
}

/// Parses the list of layers. For each crate, the list contains a line `[crate]`, followed by the
/// crate's modules, separated by white space.
pub(super) fn parse(text: &str) -> Result<Vec<Crate>, String> {
    let mut crates: Vec<Crate> = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or("").trim();
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            crates.push(Crate {
                name: name.to_owned(),
                modules: Vec::new(),
            });
            continue;
        }
        let names = line.split_whitespace().map(str::to_owned);
        match crates.last_mut() {
            Some(last) => last.modules.extend(names),
            None if line.is_empty() => {}
            None => return Err("a module before any crate".to_owned()),
        }
    }
    Ok(crates)
}

impl Crate {
    /// Compares the modules and imports of a crate with the list of layers, and returns the
    /// problems.
    pub(super) fn faults(&self, modules: &[String], imports: &[Import]) -> Vec<String> {
        let mut at: BTreeMap<&str, usize> = BTreeMap::new();
        let mut wrong = Vec::new();
        for (layer, name) in self.modules.iter().enumerate() {
            if at.insert(name, layer).is_some() {
                wrong.push(format!("{}: {name} is listed twice", self.name));
            }
            if !modules.contains(name) {
                wrong.push(format!("{}: module {name} does not exist", self.name));
            }
        }
        for module in modules {
            if !at.contains_key(module.as_str()) {
                wrong.push(format!("{}: {module} is not in the list", self.name));
            }
        }
        for import in imports {
            let layer = |name: &String| at.get(name.as_str());
            if let (Some(from), Some(to)) = (layer(&import.from), layer(&import.to))
                && to > from
            {
                wrong.push(format!(
                    "{}:{}: {} imports {}",
                    import.file.display(),
                    import.line,
                    import.from,
                    import.to
                ));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(from: &str, to: &str) -> Import {
        Import {
            from: from.into(),
            to: to.into(),
            file: "x.rs".into(),
            line: 7,
        }
    }

    fn faults(list: &str, modules: &[&str], imports: &[Import]) -> Vec<String> {
        let modules: Vec<String> = modules.iter().map(|&name| name.into()).collect();
        parse(list).unwrap()[0].faults(&modules, imports)
    }

    #[test]
    fn imports_lead_down() {
        let list = "[c] # a crate\nlow middle\nhigh\n";
        let modules = ["high", "low", "middle"];
        let down = [import("high", "low"), import("middle", "low")];
        assert!(faults(list, &modules, &down).is_empty());
        let up = [import("high", "low"), import("low", "high")];
        assert_eq!(faults(list, &modules, &up), ["x.rs:7: low imports high"]);
    }

    #[test]
    fn the_list_names_every_module_once() {
        assert_eq!(
            faults("[c]\na", &["a", "b"], &[]),
            ["c: b is not in the list"]
        );
        assert_eq!(
            faults("[c]\na b", &["a"], &[]),
            ["c: module b does not exist"]
        );
        assert_eq!(faults("[c]\na a", &["a"], &[]), ["c: a is listed twice"]);
        assert!(parse("a").is_err());
    }
}
