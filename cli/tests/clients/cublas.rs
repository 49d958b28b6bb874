//! Tests the replacement of cuBLAS under `margay run`, for all ways in which programs find the library.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cublas-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn compile(&self, source: &str, out: &str, options: &[&str]) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/clients")
            .join(source);
        let out = self.0.join(out);
        let mut compiler = Command::new(std::env::var_os("CC").unwrap_or("cc".into()));
        compiler
            .args(["-std=gnu11", "-Wall", "-Werror", "-o"])
            .arg(&out)
            .arg(source)
            .args(options);
        assert!(compiler.current_dir(&self.0).status().unwrap().success());
        out
    }

    fn run(&self, program: &Path, arguments: &[&Path], cublas: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_margay"));
        command.args(["run", "--"]).arg(program).args(arguments);
        command
            .env("XDG_RUNTIME_DIR", &self.0)
            .env("XDG_CACHE_HOME", self.0.join("cache"));
        command
            .env("MARGAY_CUBLAS", cublas)
            .env("MARGAY_QUIET", "1");
        command.output().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn programs_get_margays_cublas_however_they_find_it() {
    let folder = Folder::new();
    let script = folder.0.join("versions");
    std::fs::write(&script, "libcublas.so.12 { global: *; };\n").unwrap();
    let versions = format!("-Wl,--version-script={}", script.display());
    let names = [
        "libcublas.so.12",
        "libcublas.so.12.9.1.4",
        "libcublas-37d11411.so.12.9.1.4",
    ];
    let originals: Vec<PathBuf> = names
        .iter()
        .map(|name| {
            let soname = format!("-Wl,-soname,{name}");
            folder.compile(
                "original.c",
                name,
                &["-shared", "-fPIC", &soname, &versions],
            )
        })
        .collect();
    let unversioned = folder.0.join("libcublas.so");
    std::os::unix::fs::symlink(&originals[0], &unversioned).unwrap();

    // The program finds the library by its run path, and needs its symbol version.
    for name in [names[0], names[2]] {
        let library = format!("-l:{name}");
        let linked = folder.compile(
            "linked.c",
            "linked",
            &["-L.", &library, "-Wl,-rpath,$ORIGIN"],
        );
        assert_eq!(said(&folder.run(&linked, &[], "")), "0 120903\n", "{name}");
        assert_eq!(
            said(&folder.run(&linked, &[], "nvidia")),
            "0 99\n",
            "{name}"
        );
    }

    // A library needs the name with a digest after the program has loaded the library by its own name.
    let user = folder.compile(
        "linked.c",
        "libuser.so",
        &[
            "-shared",
            "-fPIC",
            "-L.",
            "-l:libcublas-37d11411.so.12.9.1.4",
            "-Wl,-rpath,$ORIGIN",
        ],
    );
    let late = folder.compile("late.c", "late", &["-ldl"]);
    let output = folder.run(&late, &[Path::new("libcublas.so.12"), &user], "");
    assert_eq!(said(&output), "0 120903\n", "{:?}", output.status);

    // The program loads the library by absolute paths, first by the name with a digest.
    let driver = std::env::current_exe()
        .unwrap()
        .with_file_name("libcuda.so");
    let link = folder.0.join("libcuda.so.1");
    std::os::unix::fs::symlink(driver, &link).unwrap();
    let program = folder.compile("cublas.c", "cublas", &[link.to_str().unwrap(), "-ldl"]);
    let plain = Path::new("libcublas.so.12");
    let mut paths: Vec<&Path> = originals.iter().rev().map(PathBuf::as_path).collect();
    paths.extend([unversioned.as_path(), plain]);
    let output = folder.run(&program, &paths, "");
    let expected: String = paths
        .iter()
        .map(|path| format!("{} 120903\n", path.file_name().unwrap().to_string_lossy()))
        .collect();
    assert_eq!(said(&output), expected + "PASS\n", "{:?}", output.status);
}
