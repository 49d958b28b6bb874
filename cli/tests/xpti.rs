//! Runs `tests/abi/timeline.c` with a framework and a subscriber of XPTI.

#[path = "common/built.rs"]
mod built;
#[path = "common/xpti_library.rs"]
mod xpti_library;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use xpti_library::library;

/// A framework that the tests compile with these options, or the path of another one.
enum Framework {
    Compiled(&'static [&'static str]),
    Named(PathBuf),
}

/// Returns the frameworks of the tests with their names, and those that the environment variable
/// `MARGAY_XPTI_FRAMEWORKS` names: a comma-separated list of `KIND:PATH`.
fn frameworks() -> Vec<(String, Framework)> {
    let mut all = vec![
        ("same".to_owned(), Framework::Compiled(&[])),
        ("new".to_owned(), Framework::Compiled(&["-DNEW_EVENTS"])),
    ];
    let more = std::env::var("MARGAY_XPTI_FRAMEWORKS").unwrap_or_default();
    for entry in more.split(',').filter(|entry| !entry.is_empty()) {
        let (kind, path) = entry.split_once(':').expect("kind:path");
        all.push((format!("{kind}-named"), Framework::Named(path.into())));
    }
    all
}

/// The lines of the subscriber's log.
fn log(name: &str, framework: &Framework, enable: Option<&str>) -> Vec<String> {
    let program = built::program("timeline", &format!("xpti-{name}"), &[]);
    let folder = program.parent().unwrap();
    let framework = match framework {
        Framework::Compiled(options) => library(folder, "framework.c", options),
        Framework::Named(path) => path.clone(),
    };
    // A published framework needs other libraries of its folder.
    let libraries = std::env::join_paths([folder, framework.parent().unwrap()]).unwrap();
    let log = folder.join("log");
    let mut command = Command::new(&program);
    command
        .env("LD_LIBRARY_PATH", libraries)
        .env("MARGAY_CACHE", "0")
        .env("XPTI_FRAMEWORK_DISPATCHER", framework)
        .env("XPTI_SUBSCRIBERS", library(folder, "subscriber.c", &[]))
        .env("MARGAY_XPTI_MODE", "log")
        .env("MARGAY_XPTI_LOG", &log);
    if let Some(enable) = enable {
        command.env("XPTI_TRACE_ENABLE", enable);
    }
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), "6 5\n");
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The part of a line behind a key, up to the next space.
fn field<'a>(line: &'a str, key: &str) -> &'a str {
    let rest = line.split_once(key).map_or("", |(_, rest)| rest);
    rest.split(' ').next().unwrap_or("")
}

#[test]
fn subscribers_receive_what_a_program_does() {
    for (name, framework) in frameworks() {
        let log = log(&name, &framework, None);
        let of = |point: &'static str| log.iter().filter(move |line| field(line, "t=") == point);
        let last = log.last().unwrap();
        assert!(last.starts_with("checked "), "{last}");
        let violations: Vec<&String> = log
            .iter()
            .filter(|line| line.starts_with("violation"))
            .collect();
        assert!(violations.is_empty(), "{violations:?}");
        let calls: Vec<&str> = of("28").map(|line| field(line, "fn=")).collect();
        // The program's calls in their order, after the calls that prepare the device.
        let begin = calls
            .iter()
            .position(|call| *call == "cuModuleLoadData")
            .unwrap();
        let expected = "cuModuleLoadData cuModuleGetFunction cuMemAlloc_v2 cuMemcpyHtoD_v2 cuStreamCreate \
            cuStreamCreate cuLaunchKernel cuLaunchKernel cuLaunchKernel cuEventCreate cuEventRecord cuStreamWaitEvent \
            cuLaunchKernel cuStreamSynchronize cuStreamBeginCapture_v2 cuLaunchKernel cuMemcpyDtoDAsync_v2 \
            cuLaunchKernel cuStreamEndCapture cuGraphInstantiateWithFlags cuGraphLaunch cuStreamSynchronize \
            cuGraphExecDestroy cuGraphDestroy cuMemAlloc_v2 cuMemcpyDtoH_v2 cuStreamDestroy_v2 cuStreamDestroy_v2 \
            cuEventDestroy_v2 cuMemFree_v2 cuModuleUnload";
        assert_eq!(
            calls[begin..].join(" "),
            expected.split_whitespace().collect::<Vec<_>>().join(" ")
        );
        // The first argument of a call, at its beginning and its end. The program waits for stream b and then for a, and
        // destroys a and then b.
        for point in ["28", "29"] {
            let handles = |function: &str| -> Vec<&str> {
                let calls = of(point).filter(|line| field(line, "fn=") == function);
                calls.map(|line| field(line, "{args=")).collect()
            };
            let waited = handles("cuStreamSynchronize");
            assert_eq!(handles("cuStreamDestroy_v2"), [waited[1], waited[0]]);
            assert_ne!(waited[0], waited[1]);
        }
        // 6 kernels and 3 copies run. Each site has one node: the kernel in a stream, and the copies.
        assert_eq!([of("10").count(), of("11").count()], [9, 9], "{log:#?}");
        let nodes = of("4")
            .filter(|line| line.contains("kernel_name=increment"))
            .count();
        assert_eq!(nodes, 1);
        let edges = |rule: &str| {
            of("6")
                .filter(|line| line.contains(&format!("ud=\"{rule}\"")))
                .count()
        };
        // In the first stream, two kernels follow the first, and the graph follows these. The kernel of the second
        // stream waits for the event. The graph is a chain of three nodes. The last copy and the first kernels are in
        // streams that the legacy stream does not order.
        assert_eq!(
            [edges("stream_order"), edges("event"), edges("graph")],
            [4, 1, 2],
            "{log:#?}"
        );
        assert_eq!([of("42").count(), of("43").count()], [3, 3]);
        assert_eq!(
            [
                of("32").count(),
                of("33").count(),
                of("34").count(),
                of("35").count()
            ],
            [1, 1, 1, 1]
        );
        assert_eq!([of("22").count(), of("23").count()], [2, 2]);
        let failures: Vec<&String> = of("126").collect();
        assert_eq!(failures.len(), 1);
        assert!(
            failures[0].contains("cuMemAlloc_v2 failed with CUresult 2"),
            "{failures:?}"
        );
        let failed: Vec<&String> = of("29").filter(|line| field(line, "ret=") != "0").collect();
        assert_eq!(failed.len(), 1, "{failed:?}");
    }
}

#[test]
fn nothing_is_published_if_the_environment_switches_it_off() {
    assert!(log("off", &Framework::Compiled(&[]), Some("0")).is_empty());
}
