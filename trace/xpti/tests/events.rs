//! Runs the crate's examples with frameworks of both kinds, and compares what a subscriber receives.

mod common;

use common::log::compare;
use common::{command, frameworks, run, succeed};

/// Returns the log without its last line, which states that the invariants hold.
fn checked(mut log: Vec<String>) -> Vec<String> {
    let last = log.pop().unwrap_or_default();
    assert!(last.starts_with("checked "), "{last}");
    let violations: Vec<_> = log
        .iter()
        .filter(|line| line.starts_with("violation"))
        .collect();
    assert_eq!(violations, [""; 0]);
    log
}

#[test]
fn a_small_program_sends_the_documented_events() {
    for framework in frameworks() {
        let run = run(&framework, "log", "one_stream", &[]);
        let expected = if framework.new_events {
            include_str!("one_stream.new.log")
        } else {
            include_str!("one_stream.same.log")
        };
        assert_eq!(run.errors, "Complete\n", "{framework:?}");
        compare(&checked(run.log), expected);
    }
}

#[test]
fn high_detail_adds_barriers_and_transfers() {
    for framework in frameworks() {
        let log = checked(run(&framework, "log", "one_stream", &["--high"]).log);
        let text = log.join("\n");
        for expected in [
            "ud=\"event 9\"",
            "ud=\"CTA 2\" at k.cu:12",
            "t=126 ev=- ud=\"vecadd: an illegal address\"",
            "{memory_object=0x7f0000001000} {memory_size=64} {value_set=7}",
            "ud=\"graph\" {copy_to=0x7f0000001000}",
            "{copy_from=0x7f0000001000} {copy_to=0x1000}",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        let count = |point: &str| log.iter().filter(|line| line.starts_with(point)).count();
        assert_eq!([count("t=12 "), count("t=13 ")], [1, 1]);
        // Two copies; the fill is none.
        assert_eq!([count("t=18 "), count("t=19 ")], [2, 2]);
        assert_eq!([count("t=42 "), count("t=43 ")], [2, 2]);
    }
}

#[test]
fn kernels_have_their_metadata() {
    for framework in frameworks() {
        let log = checked(run(&framework, "log", "one_stream", &[]).log);
        let node = log
            .iter()
            .find(|line| line.starts_with("t=4 ") && line.contains("command_group_node"))
            .expect("a node");
        let sizes = [1024_u64, 1, 1, 256, 1, 1, 0, 0, 0, 2];
        let enqueue: String = sizes
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .map(|byte| format!("{byte:02x}"))
            .collect();
        for entry in [
            "{arg1=0102}",
            "{block=256,1,1}",
            "{correlation_id=4}",
            &format!("{{enqueue_kernel_data={enqueue}}}"),
            "{from_source=true}",
            "{grid=4,1,1}",
            "{queue_id=1}",
            "{shared_bytes=0}",
            "{sycl_device=0}",
            "{sycl_device_name=Margay}",
            "{sycl_device_type=cpu}",
            "{sym_column_no=3}",
            "{sym_function_name=_Z6vecaddPf}",
        ] {
            assert!(node.contains(entry), "{entry} in {node}");
        }
        let call = log.iter().find(|line| line.starts_with("t=28 "));
        assert!(
            call.expect("a call")
                .ends_with("fn=cuModuleLoadData {number=1} {args=1}")
        );
    }
}

/// Existing collectors subscribe to the SYCL streams and read the kernel or the memory at the end of a task.
#[test]
fn collectors_of_sycl_see_the_program() {
    for framework in frameworks() {
        let log = run(&framework, "collector", "one_stream", &["--sycl"]).log;
        let expected = [
            "call cuModuleLoadData",
            "call cuMemAlloc_v2",
            "allocated 4096",
            "call cuMemcpyHtoDAsync_v2",
            "task memory_object=0x7f0000001000",
            "call cuLaunchKernel",
            "task kernel_name=vecadd",
            "call cuLaunchKernel",
            "task kernel_name=vecadd",
            "call cuStreamWaitEvent",
            "call cuStreamSynchronize",
            "call cuMemFree_v2",
        ];
        assert_eq!(log[..expected.len()], expected);
        // Without the option, nothing is sent there.
        let log = run(&framework, "collector", "one_stream", &[]).log;
        assert_eq!(log, ["checked 0 notifications"]);
    }
}

#[test]
fn invariants_hold_with_many_threads() {
    for framework in frameworks() {
        let run = run(&framework, "check", "many_threads", &["8", "2000"]);
        assert_eq!(run.errors, "Complete\n", "{framework:?}");
        let last = run.log.last().cloned().unwrap_or_default();
        assert!(checked(run.log).is_empty());
        // 12 notifications in each of the 16000 rounds, an edge in all but each thread's first, 10 kernels, 16 copies, 8
        // streams, the program.
        let expected = 16000 * 12 - 8 + 10 + 16 + 16 + 1;
        assert_eq!(last, format!("checked {expected} notifications"));
    }
}

#[test]
fn nothing_follows_an_early_end() {
    for framework in frameworks() {
        let run = run(
            &framework,
            "check",
            "many_threads",
            &["8", "20000", "finish"],
        );
        let log = run.log.join("\n");
        // Tasks and calls were cut off, and their pairs are open.
        let pairs =
            |line: &&str| line.starts_with("violation") && !line.ends_with("pairs are open");
        assert_eq!(log.lines().filter(pairs).count(), 0, "{log}");
        let outcome = run.errors.lines().next().unwrap_or_default();
        assert!(
            outcome.starts_with("Complete") || outcome.starts_with("Running"),
            "{outcome}"
        );
        assert_eq!(run.errors.lines().nth(1), Some("Nothing"));
    }
}

/// A subscriber registers in a callback; the producer asks again when the program loads a module.
#[test]
fn late_registrations_count_from_the_next_module_on() {
    for framework in frameworks() {
        let log = checked(run(&framework, "late", "one_stream", &[]).log);
        let events: Vec<&str> = log
            .iter()
            .filter_map(|line| line.strip_prefix("t="))
            .map(|line| line.split(' ').next().unwrap_or_default())
            .collect();
        // No graph_create, but the end of the first call and everything that follows.
        assert_eq!(events[..4], ["28", "29", "42", "28"]);
        assert_eq!(events.len(), 34);
    }
}

#[test]
fn without_registrations_nothing_is_sent() {
    for framework in frameworks() {
        let run = run(&framework, "none", "one_stream", &["--sycl", "--high"]);
        assert_eq!(run.log, ["checked 0 notifications"]);
    }
}

#[test]
fn the_environment_decides() {
    let framework = &frameworks()[0];
    let subscriber = common::compile("subscriber.c", "subscriber.so", &[]);
    let start = |dispatcher: Option<&std::path::Path>, subscriber, enable: Option<&str>| {
        let mut command = command("one_stream");
        let values = [
            (
                "XPTI_FRAMEWORK_DISPATCHER",
                dispatcher.map(|path| path.as_os_str()),
            ),
            ("XPTI_SUBSCRIBERS", subscriber),
            ("XPTI_TRACE_ENABLE", enable.map(std::ffi::OsStr::new)),
            ("MARGAY_XPTI_LOG", Some(std::ffi::OsStr::new("/dev/null"))),
        ];
        for (name, value) in values {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        succeed(&command.output().expect("the example runs"))
    };
    let (library, tool) = (Some(&*framework.library), Some(subscriber.as_os_str()));
    for enable in [None, Some("1"), Some("true")] {
        assert_eq!(start(library, tool, enable), "Complete\n");
    }
    for enable in ["0", "false", "yes"] {
        assert_eq!(start(library, tool, Some(enable)), "tracing is off\n");
    }
    assert_eq!(start(None, tool, None), "tracing is off\n");
    assert_eq!(start(library, None, None), "tracing is off\n");

    let missing = start(Some("/missing/libxptifw.so".as_ref()), tool, None);
    assert!(
        missing.starts_with("XPTI tracing is off: /missing/libxptifw.so: "),
        "{missing}"
    );
    // The subscriber is a library, but no framework.
    let wrong = start(Some(&subscriber), tool, None);
    let expected = "subscriber.so has no function xptiFrameworkInitialize\n";
    assert!(wrong.ends_with(expected), "{wrong}");
    let nobody = start(library, Some("/missing/tool.so".as_ref()), None);
    assert_eq!(
        nobody,
        "XPTI tracing is off: the framework has loaded no subscriber\n"
    );
}
