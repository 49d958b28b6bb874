//! Runs `tests/abi/profile.c` under `margay profile`: tables, reports, several processes, saved profiles.

#[path = "common/built.rs"]
mod built;
#[path = "common/command.rs"]
mod command;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// A new folder with the compiled program.
fn folder(name: &str) -> PathBuf {
    command::folder("profile", &format!("profile-{name}"))
}

/// The exit code, the standard output and the standard error of `margay profile`.
fn profile(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    command::run(folder, "profile", arguments)
}

fn json(folder: &Path, name: &str) -> Value {
    serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap()
}

#[test]
fn a_program_is_counted_and_keeps_its_output_and_exit_code() {
    let folder = folder("one");
    let reports = ["p.json", "p.html", "p.csv"];
    let mut arguments: Vec<&str> = reports.iter().flat_map(|name| ["--report", name]).collect();
    arguments.extend(["--", "./profile", "3"]);
    let (status, out, errors) = profile(&folder, &arguments);
    assert_eq!((status, out.as_str()), (3, "1\n"), "{errors}");
    assert!(errors.contains("Profile of ./profile 3 ("), "{errors}");
    assert!(errors.contains("* uncoalesced: PTX line 14: each request of this store touches 16 sectors of 32 bytes, 2 would do"), "{errors}");
    let report = json(&folder, "p.json");
    assert_eq!(report["program"], "./profile 3");
    let kernel = &report["kernels"][0];
    assert_eq!(kernel["launches"], 3);
    assert_eq!(kernel["threads"], 3 * 128);
    // 3 launches of 2 blocks of 2 warps; half of the lanes store 4 bytes, 256 bytes apart.
    let store = &kernel["accesses"][0];
    assert_eq!(store["ptx_line"], 14);
    let field = |name: &str| store[name].as_u64().unwrap();
    let counts = ["requests", "threads", "bytes", "sectors", "ideal_sectors"].map(field);
    assert_eq!(counts, [12, 192, 768, 192, 24]);
    let branch = kernel["instructions"].as_array().unwrap().iter();
    let branch: Vec<&Value> = branch.filter(|row| row["opcode"] == "bra").collect();
    let field = |name: &str| branch[0][name].as_u64().unwrap();
    assert_eq!(
        ["warps", "active", "executed", "split"].map(field),
        [12, 384, 192, 12]
    );
    assert_eq!(report["copies"][0]["direction"], "device to host");
    let page = fs::read_to_string(folder.join("p.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<h4>uncoalesced "));
    let rows = fs::read_to_string(folder.join("p.csv")).unwrap();
    assert!(
        rows.lines()
            .any(|row| row.starts_with("columns,,14,12,192,")),
        "{rows}"
    );
    // A saved profile gives the same tables, and can be compared.
    let (status, shown, _) = profile(&folder, &["show", "p.json"]);
    assert_eq!((status, shown.trim_end()), (0, errors.trim_end()));
    let (_, same, _) = profile(&folder, &["diff", "p.json", "p.json"]);
    assert!(
        same.contains("\ncolumns\n  no count has changed\n"),
        "{same}"
    );
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn profiles_of_all_processes_are_added() {
    let folder = folder("two");
    let arguments = [
        "--count",
        "instructions",
        "--report",
        "p.json",
        "--",
        "./profile",
        "2",
        "fork",
    ];
    let (status, out, errors) = profile(&folder, &arguments);
    assert_eq!((status, out.as_str()), (3, "1\n1\n"), "{errors}");
    let report = json(&folder, "p.json");
    assert_eq!(report["processes"], 2);
    assert_eq!(report["kernels"].as_array().unwrap().len(), 1);
    assert_eq!(report["kernels"][0]["launches"], 4);
    assert_eq!(report["kernels"][0]["accesses"], Value::Array(Vec::new()));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn launches_alone_need_no_instrumentation() {
    let folder = folder("launches");
    let arguments = [
        "--count",
        "launches",
        "--report",
        "p.json",
        "--",
        "./profile",
        "5",
    ];
    let (status, _, errors) = profile(&folder, &arguments);
    assert_eq!(status, 3, "{errors}");
    let report = json(&folder, "p.json");
    assert_eq!(report["kernels"][0]["launches"], 5);
    assert_eq!(
        report["kernels"][0]["instructions"],
        Value::Array(Vec::new())
    );
    assert_eq!(report["timeline"].as_array().unwrap().len(), 5);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn mistakes_are_named() {
    let folder = folder("mistakes");
    let (status, _, errors) = profile(&folder, &["--report", "p.txt", "--", "./profile"]);
    assert_eq!(status, 1);
    assert!(
        errors.contains("--report p.txt: the name must end in .html, .json or .csv"),
        "{errors}"
    );
    let (status, _, errors) = profile(&folder, &["--", "./profile", "1", "none"]);
    assert_eq!(status, 7);
    assert!(errors.contains("the program did not use CUDA"), "{errors}");
    fs::write(folder.join("other.json"), "{\"format\": \"other\"}").unwrap();
    let large = format!(
        "{{\"format\": \"margay-profile\", \"processes\": {}}}",
        u64::MAX
    );
    fs::write(folder.join("large.json"), large).unwrap();
    for (name, text) in [
        ("large.json", "a count is larger than 2^50"),
        ("other.json", "not a profile"),
        ("none.json", "No such file"),
    ] {
        let (status, _, errors) = profile(&folder, &["show", name]);
        assert_eq!(status, 1);
        assert!(errors.contains(name) && errors.contains(text), "{errors}");
    }
    fs::remove_dir_all(folder).unwrap();
}
