//! Tests the two places where the program finds its libraries: the folders of an installation, and the program itself,
//! which embeds them.
//!
//! The tests run a copy of the program outside of the build folder, so that it does not find the libraries of the
//! build.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of one test, with a copy of the program in `bin`. The folder is removed when the test ends.
struct Prefix(PathBuf);

impl Prefix {
    fn new(test: &str) -> Prefix {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("bin")).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_margay"), path.join("bin/margay")).unwrap();
        Prefix(path.canonicalize().unwrap())
    }

    fn margay(&self, home: &str) -> Command {
        let mut command = Command::new(self.0.join("bin/margay"));
        command
            .env_remove("MARGAY_LIBCUDA")
            .env_remove("XDG_CACHE_HOME")
            .env("XDG_RUNTIME_DIR", &self.0)
            .env("HOME", self.0.join(home));
        command
    }

    /// Runs `margay doctor` with the home folder `home`, and returns the path of the driver library
    /// that it prints.
    fn library(&self, home: &str) -> PathBuf {
        let output = self.margay(home).args(["doctor", "--json"]).output();
        let output = succeeded(output.unwrap());
        let facts: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        PathBuf::from(facts["libcuda"].as_str().unwrap())
    }
}

impl Drop for Prefix {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn succeeded(output: Output) -> Output {
    assert!(output.status.success(), "{output:?}");
    output
}

/// A shell script that prints the resolved path of each library in the first folder of `LD_LIBRARY_PATH`, and then
/// `LD_AUDIT`.
const LOADED: &str = "for name in libcuda.so.1 libcuda.so libnvidia-ml.so.1 libgpuocelot.so \
    libcupti.so.12 libcupti.so.13 libcublas.so.12 libcublas.so.13 libcublasLt.so.12 libcublasLt.so.13 \
    libcurand.so.10 libnccl.so.2; do \
    readlink -e ${LD_LIBRARY_PATH%%:*}/$name; done; echo $LD_AUDIT";

#[test]
fn libraries_of_an_installation_are_taken() {
    let prefix = Prefix::new("installed");
    let folder = prefix.0.join("lib/margay");
    fs::create_dir_all(&folder).unwrap();
    // In the order of the lines of LOADED, after the two names of the driver library.
    let others = [
        "libnvidia_ml.so",
        "libgpuocelot.so",
        "libcupti_12.so",
        "libcupti_13.so",
        "libcublas_12.so",
        "libcublas_13.so",
        "libcublaslt_12.so",
        "libcublaslt_13.so",
        "libcurand_10.so",
        "libmargay_nccl.so",
    ];
    for name in ["libcuda.so"].into_iter().chain(others) {
        fs::write(folder.join(name), name).unwrap();
    }
    assert_eq!(prefix.library("home"), folder.join("libcuda.so"));
    let output = prefix
        .margay("home")
        .args(["run", "--", "sh", "-c", LOADED])
        .output();
    let said = String::from_utf8(succeeded(output.unwrap()).stdout).unwrap();
    let loaded: Vec<&str> = said.lines().collect();
    let of = |name: &str| folder.join(name).display().to_string();
    let names = ["libcuda.so"; 2].into_iter().chain(others);
    let expected: Vec<String> = names.map(of).collect();
    assert_eq!(loaded[..12], expected);
    // The auditing library is absent, so its line is empty.
    assert_eq!(loaded[12..], [""]);
    assert!(!prefix.0.join("home").exists(), "nothing was unpacked");
}

/// Without one of the replacements, programs would load NVIDIA's library, so `margay run` reports it.
#[test]
fn an_installation_without_a_replacement_is_reported() {
    let prefix = Prefix::new("incomplete");
    let folder = prefix.0.join("lib/margay");
    fs::create_dir_all(&folder).unwrap();
    for name in [
        "libcuda.so",
        "libcublas_12.so",
        "libcublaslt_12.so",
        "libcublaslt_13.so",
        "libmargay_nccl.so",
    ] {
        fs::write(folder.join(name), name).unwrap();
    }
    let said = |variables: &[(&str, &str)]| {
        let mut command = prefix.margay("home");
        command
            .env_remove("MARGAY_LOG")
            .env_remove("MARGAY_QUIET")
            .envs(variables.iter().copied());
        let output = command.args(["run", "--", "true"]).output();
        String::from_utf8(succeeded(output.unwrap()).stderr).unwrap()
    };
    let all = said(&[]);
    let expected = format!(
        "margay: {} lacks libcublas_13.so, libcurand_10.so: ",
        folder.display()
    );
    assert!(all.starts_with(&expected), "{all}");
    let chosen = said(&[("MARGAY_CUBLAS", "nvidia")]);
    assert!(chosen.contains(" lacks libcurand_10.so: "), "{chosen}");
    assert_eq!(
        said(&[("MARGAY_CUBLAS", "nvidia"), ("MARGAY_CURAND", "nvidia")]),
        ""
    );
    assert_eq!(said(&[("MARGAY_LOG", "off")]), "");
    assert_eq!(said(&[("MARGAY_QUIET", "1")]), "");
}

/// Tests an installation by `cargo install`, which contains only the program.
#[test]
fn the_program_alone_brings_its_libraries() {
    let prefix = Prefix::new("alone");
    let library = prefix.library("home");
    let cache = prefix.0.join("home/.cache/margay/libraries");
    assert!(library.starts_with(&cache), "{}", library.display());
    let data = fs::metadata(library.parent().unwrap()).unwrap();
    assert_eq!(data.mode() & 0o777, 0o700);

    // The program replaces a damaged file.
    let length = fs::metadata(&library).unwrap().len();
    assert!(length > 1_000_000);
    fs::write(&library, "damaged").unwrap();
    assert_eq!(prefix.library("home"), library);
    assert_eq!(fs::metadata(&library).unwrap().len(), length);

    // Runs a shell with the auditing library, and with the folder of all libraries first in the search path.
    let output = prefix
        .margay("home")
        .args(["run", "--", "sh", "-c", LOADED])
        .output();
    let said = String::from_utf8(succeeded(output.unwrap()).stdout).unwrap();
    let loaded: Vec<&str> = said.lines().collect();
    assert_eq!(loaded.len(), 13, "{said}");
    let inside = |path: &str| Path::new(path).parent() == library.parent();
    assert!(loaded.iter().all(|path| inside(path)), "{said}");
    assert!(loaded[12].ends_with("libmargay_audit.so"), "{said}");
}

/// Checks that the program removes folders of other builds that are over a month old, and that it works without a
/// usable home folder.
#[test]
fn old_builds_go_and_no_home_is_needed() {
    let prefix = Prefix::new("old");
    let cache = prefix.0.join("home/.cache/margay/libraries");
    let (old, new) = (cache.join("0.0.1-old"), cache.join("0.0.1-new"));
    for folder in [&old, &new] {
        fs::create_dir_all(folder).unwrap();
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&cache, mode).unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(40 * 24 * 3600);
    fs::File::open(&old)
        .unwrap()
        .set_modified(long_ago)
        .unwrap();
    assert!(prefix.library("home").starts_with(&cache));
    assert!(!old.exists() && new.exists());

    // The path of the home folder leads to a file.
    fs::write(prefix.0.join("none"), "").unwrap();
    let library = prefix.library("none");
    assert!(
        library.starts_with(prefix.0.join("margay/libraries")),
        "{}",
        library.display()
    );
}

// Regression test: SIGXFSZ ended the command without a message.
#[test]
fn a_limit_on_the_size_of_files_is_an_error() {
    let prefix = Prefix::new("file_limit");
    let margay = prefix.margay("home");
    let script = |commands: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", commands]).current_dir(&prefix.0);
        shell.arg(margay.get_program());
        for (name, value) in margay.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell.output().unwrap()
    };
    let output = script("ulimit -f 1024; exec \"$0\" run -- true");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code().is_some_and(|code| code != 0),
        "{:?} {said}",
        output.status
    );
    assert!(said.contains(".so: File too large"), "{said}");
    let unfinished = Command::new("find")
        .arg(&prefix.0)
        .args(["-name", "lib*.so.*"])
        .output();
    assert_eq!(
        String::from_utf8(succeeded(unfinished.unwrap()).stdout).unwrap(),
        ""
    );

    // The program has the default action for the signal, so it ends by the signal.
    let write = "exec \"$0\" run -- sh -c 'ulimit -f 1; exec head -c 100000 /dev/zero > file'";
    let output = script(write);
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(
        signal,
        Some(rustix::process::Signal::XFSZ.as_raw()),
        "{output:?}"
    );
}
