//! Tests the auditing library: runs a C program with the library in `LD_AUDIT` and with substitutes for NVIDIA's
//! libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the path of the library, which is in the folder of this test or in the parent folder.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let deps = test.parent().unwrap();
    let beside = deps.join("libmargay_audit.so");
    match beside.exists() {
        true => beside,
        false => deps.parent().unwrap().join("libmargay_audit.so"),
    }
}

fn compile(folder: &Path, source: &str, out: &str, more: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/c")
        .join(source);
    let out = folder.join(out);
    let mut cc = Command::new("cc");
    cc.arg("-w").arg(source).arg("-o").arg(&out).args(more);
    let done = cc.current_dir(folder).output().unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    out
}

#[test]
fn clients_get_ptx_where_they_ask_for_machine_code() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("audit");
    std::fs::create_dir_all(&folder).unwrap();
    let shared = &["-shared", "-fPIC"];
    let soname = "-Wl,-soname,libnvrtc.so.99";
    let nvrtc = compile(
        &folder,
        "compiler.c",
        "libnvrtc.so.99",
        &["-shared", "-fPIC", soname],
    );
    let linker = compile(&folder, "linker.c", "libnvJitLink.so.99", shared);
    let linked = &["-ldl", "-L.", "-l:libnvrtc.so.99", "-Wl,-rpath,$ORIGIN"];
    let client = compile(&folder, "client.c", "client", linked);
    let run = |audited: bool| {
        let mut command = Command::new(&client);
        command.args([&nvrtc, &linker]);
        if audited {
            command.env("LD_AUDIT", library());
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    // Without the auditing library, the program gets the results of the substitutes.
    assert!(run(false).starts_with("0 6 cubin\n"), "{}", run(false));
    let lines = run(true);
    let expected = "\
0 15 ptx compute_86
0 6 cubin
0 0 1 0 .version 8.0
0 live, (nil)
4 3 0 1 \n0 live, (nil)
nothing: 0 .version 7.0
1 (nil)
";
    assert_eq!(lines, expected);
}

/// Checks that programs find the driver library beside the auditing library if `LD_LIBRARY_PATH` does not lead to one.
#[test]
fn programs_without_a_search_path_find_the_driver_library() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("audit-driver");
    let other = folder.join("other");
    let empty = folder.join("empty");
    for folder in [&other, &empty] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let audit = folder.join("libmargay_audit.so");
    std::fs::copy(library(), &audit).unwrap();
    let shared = |number| ["-shared", "-fPIC", number];
    compile(&folder, "driver.c", "libcuda.so", &shared("-DNUMBER=1"));
    let theirs = compile(
        &folder,
        "driver.c",
        "other/libcuda.so.1",
        &shared("-DNUMBER=2"),
    );
    let program = compile(&folder, "driver.c", "driver", &["-ldl"]);
    let run = |search_path: &Path, name: &Path| {
        let mut command = Command::new(&program);
        command.arg(name).env("LD_AUDIT", &audit);
        command.env("LD_LIBRARY_PATH", search_path);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for name in ["libcuda.so.1", "libcuda.so", "/missing/libcuda.so.1"] {
        assert_eq!(run(&empty, Path::new(name)), "1 \n", "{name}");
    }
    // A driver library that the program chooses is kept.
    assert_eq!(run(&other, Path::new("libcuda.so.1")), "2 \n");
    assert_eq!(run(&empty, &theirs), "2 \n");
}
