//! Runs the examples of this crate with a framework and the test's subscriber.

pub(crate) mod log;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// A framework library.
#[derive(Debug)]
pub(crate) struct Framework {
    pub(crate) library: PathBuf,
    /// Whether each execution of a site has its own event.
    pub(crate) new_events: bool,
}

/// Returns the two frameworks of the tests, and those that the environment variable `MARGAY_XPTI_FRAMEWORKS` names: a
/// comma-separated list of `same:PATH` and `new:PATH`.
pub(crate) fn frameworks() -> Vec<Framework> {
    let mut frameworks = vec![
        Framework {
            library: compile("framework.c", "framework-same.so", &[]),
            new_events: false,
        },
        Framework {
            library: compile("framework.c", "framework-new.so", &["-DNEW_EVENTS"]),
            new_events: true,
        },
    ];
    let more = std::env::var("MARGAY_XPTI_FRAMEWORKS").unwrap_or_default();
    for entry in more.split(',').filter(|entry| !entry.is_empty()) {
        let (kind, path) = entry.split_once(':').expect("kind:path");
        assert!(["same", "new"].contains(&kind), "{entry}");
        frameworks.push(Framework {
            library: path.into(),
            new_events: kind == "new",
        });
    }
    frameworks
}

/// Compiles a C file of this folder to a shared library, and returns the library's path.
pub(crate) fn compile(source: &str, name: &str, options: &[&str]) -> PathBuf {
    static COMPILED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let library = folder.join(name);
    let mut compiled = COMPILED.lock().expect("no test has failed to compile");
    if compiled.contains(&library) {
        return library;
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    // Tests in other processes compile the same file.
    let fresh = folder.join(format!("{name}.{}", std::process::id()));
    let output = Command::new("cc")
        .args("-std=gnu11 -Wall -Wextra -Werror -O1 -g -fPIC -shared -o".split(' '))
        .arg(&fresh)
        .arg(tests.join(source))
        .args(options)
        .args(["-ldl", "-lpthread"])
        .output()
        .expect("a C compiler");
    assert!(output.status.success(), "{}", text(&output.stderr));
    std::fs::rename(fresh, &library).expect("a library");
    compiled.push(library.clone());
    library
}

/// What an example has written.
pub(crate) struct Run {
    /// The subscriber's lines.
    pub(crate) log: Vec<String>,
    /// Standard error.
    pub(crate) errors: String,
}

/// Runs an example with `framework`, and the subscriber in `mode`.
pub(crate) fn run(framework: &Framework, mode: &str, example: &str, arguments: &[&str]) -> Run {
    let subscriber = compile("subscriber.c", "subscriber.so", &[]);
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let name = format!("xpti-{}-{number}.log", std::process::id());
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let output = command(example)
        .args(arguments)
        .env("XPTI_FRAMEWORK_DISPATCHER", &framework.library)
        .env("XPTI_SUBSCRIBERS", subscriber)
        .env(
            "LD_LIBRARY_PATH",
            framework.library.parent().expect("a folder"),
        )
        .env("MARGAY_XPTI_MODE", mode)
        .env("MARGAY_XPTI_LOG", &log)
        .output()
        .expect("the example runs");
    let errors = succeed(&output);
    let lines = std::fs::read_to_string(&log).expect("a log");
    std::fs::remove_file(log).expect("a log");
    Run {
        log: lines.lines().map(str::to_owned).collect(),
        errors,
    }
}

/// Returns the command of an example, without the variables of XPTI.
pub(crate) fn command(example: &str) -> Command {
    let test = std::env::current_exe().expect("this program has a path");
    let profile = test.ancestors().nth(2).expect("a folder");
    let mut command = Command::new(profile.join("examples").join(example));
    for variable in [
        "XPTI_FRAMEWORK_DISPATCHER",
        "XPTI_SUBSCRIBERS",
        "XPTI_TRACE_ENABLE",
    ] {
        command.env_remove(variable);
    }
    command
}

/// Returns standard error of a program that has succeeded.
pub(crate) fn succeed(output: &Output) -> String {
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    errors
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
