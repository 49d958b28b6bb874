//! The declared order of each crate's modules.

use std::collections::BTreeMap;

use super::Import;

/// The modules of a crate from bottom to top; those of one entry may import each other.
#[derive(Debug)]
pub(super) struct Crate {
    /// Its folder.
    pub(super) name: String,
    layers: Vec<Vec<String>>,
}

/// Reads the list: `[crate]`, then modules separated by white space, groups in braces.
pub(super) fn parse(text: &str) -> Result<Vec<Crate>, String> {
    let mut crates: Vec<Crate> = Vec::new();
    let mut group: Option<Vec<String>> = None;
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or("").trim();
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            crates.push(Crate {
                name: name.to_owned(),
                layers: Vec::new(),
            });
            continue;
        }
        for word in line.split_whitespace() {
            let layers = &mut crates.last_mut().ok_or("a module before any crate")?.layers;
            match (word, &mut group) {
                ("{", None) => group = Some(Vec::new()),
                ("}", Some(_)) => layers.extend(group.take()),
                ("{" | "}", _) => return Err(format!("unexpected {word} in {line}")),
                (name, Some(group)) => group.push(name.to_owned()),
                (name, None) => layers.push(vec![name.to_owned()]),
            }
        }
    }
    match group {
        Some(_) => Err("a group is not closed".to_owned()),
        None => Ok(crates),
    }
}

impl Crate {
    /// Modules that still import each other.
    pub(super) fn groups(&self) -> impl Iterator<Item = &[String]> {
        let layers = self.layers.iter().map(Vec::as_slice);
        layers.filter(|layer| layer.len() > 1)
    }

    /// What is wrong with a crate that has these modules and imports.
    pub(super) fn faults(&self, modules: &[String], imports: &[Import]) -> Vec<String> {
        let mut at: BTreeMap<&str, usize> = BTreeMap::new();
        let mut wrong = Vec::new();
        for (layer, names) in self.layers.iter().enumerate() {
            for name in names {
                if at.insert(name, layer).is_some() {
                    wrong.push(format!("{}: {name} is listed twice", self.name));
                }
                if !modules.contains(name) {
                    wrong.push(format!("{}: there is no module {name}", self.name));
                }
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
        wrong.extend(self.loose_groups(imports));
        wrong
    }

    /// Groups that need not be groups: some member can stand alone.
    fn loose_groups(&self, imports: &[Import]) -> Vec<String> {
        let mut wrong = Vec::new();
        for group in self.groups() {
            for name in group {
                let within = |other: &String| other != name && group.contains(other);
                let imports_none = !imports
                    .iter()
                    .any(|import| import.from == *name && within(&import.to));
                let imported_by_none = !imports
                    .iter()
                    .any(|import| import.to == *name && within(&import.from));
                if imports_none || imported_by_none {
                    wrong.push(format!("{}: {name} need not stand in its group", self.name));
                }
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
        assert_eq!(faults("[c]\na b", &["a"], &[]), ["c: there is no module b"]);
        assert_eq!(faults("[c]\na a", &["a"], &[]), ["c: a is listed twice"]);
        assert!(parse("a").is_err() && parse("[c]\n{ a").is_err() && parse("[c]\na }").is_err());
    }

    #[test]
    fn groups_import_each_other() {
        let list = "[c]\nlow { a b } high";
        let modules = ["a", "b", "high", "low"];
        let mut imports = vec![import("a", "b"), import("b", "a"), import("a", "low")];
        assert!(faults(list, &modules, &imports).is_empty());
        imports.push(import("b", "high"));
        assert_eq!(faults(list, &modules, &imports), ["x.rs:7: b imports high"]);
        let loose = [
            "c: a need not stand in its group",
            "c: b need not stand in its group",
        ];
        assert_eq!(faults(list, &modules, &[import("a", "b")]), loose);
    }
}
