//! Tests the program as a child process: exit codes and output. `check.rs` tests `margay check`.

mod common;

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use common::{ARGS, Folder, SAXPY, err, limited};

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn launch_prints_and_compares() {
    let folder = Folder::new("launch");
    for engine in ["native", "interpreter"] {
        let good = folder.margay(&format!(
            "{ARGS} -a fill:f32:6:0.5 --print 3 --expect 3=[0.5,2.5,4.5,6.5,8.5,0.5] --engine {engine}"
        ));
        assert_eq!(good.status.code(), Some(0), "{}", err(&good));
        let printed = "3: f32[6] 0.5 2.5 4.5 6.5 8.5 0.5\n3: all 6 values agree\n";
        assert_eq!(out(&good), printed);
    }
    let bad = folder.margay(&format!("{ARGS} -a zeros:f32:6 --expect 3=[0,2,5,6,9,0]"));
    assert_eq!(bad.status.code(), Some(1));
    let said = "3: 2 of 6 values are wrong, first at 2: 4, expected 5\n";
    assert_eq!(out(&bad), said);
    let near = folder.margay(&format!(
        "{ARGS} -a zeros:f32:6 --expect 3=[0,2,4.01,6,8,0] --tolerance 0.01"
    ));
    assert_eq!(near.status.code(), Some(0), "{}", out(&near));
}

#[test]
fn launch_passes_buffers_with_32_bit_addresses() {
    let folder = Folder::new("launch-narrow");
    let text = ".version 3.1\n.target sm_30\n.address_size 32
.entry add(.param .u32 out) {
    .reg .u32 %r<4>;
    mov.u32 %r1, %tid.x; ld.param.u32 %r2, [out];
    shl.b32 %r3, %r1, 2; add.u32 %r2, %r2, %r3;
    ld.global.u32 %r3, [%r2]; add.u32 %r3, %r3, 100; st.global.u32 [%r2], %r3; exit;
}
";
    std::fs::write(folder.0.join("narrow.ptx"), text).unwrap();
    let line = "launch narrow.ptx --block 3 -a iota:u32:3 --print 0";
    let arguments: Vec<&str> = line.split(' ').collect();
    let mut command = folder.command(&arguments);
    let output = command.env("MARGAY_ADDRESS_SIZE", "32").output().unwrap();
    assert_eq!(out(&output), "0: u32[3] 100 101 102\n", "{}", err(&output));
    let refused = folder.command(&arguments).output().unwrap();
    assert!(err(&refused).contains("set MARGAY_ADDRESS_SIZE=32"));
}

#[test]
fn launch_reads_and_writes_files() {
    let folder = Folder::new("files");
    let written = folder.margay(&format!("{ARGS} -a out:f32:2x3:y.npy"));
    assert_eq!(written.status.code(), Some(0), "{}", err(&written));
    let again = folder.margay(&format!(
        "{ARGS} -a inout:y.npy --expect 3=[0,4,8,12,16,0] --save 3=y.raw"
    ));
    assert_eq!(
        again.status.code(),
        Some(0),
        "{}{}",
        out(&again),
        err(&again)
    );
    let raw = std::fs::read(folder.0.join("y.raw")).unwrap();
    assert_eq!(raw[16..24], [0, 0, 0x80, 0x41, 0, 0, 0, 0]);
    let json = folder.margay(&format!("{ARGS} -a raw:f32:y.raw --print 3 --json"));
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(value["buffers"][0]["values"][4], 24.0);
    let same = folder.margay(&format!("{ARGS} -a in:y.npy --expect 3=y.npy"));
    assert_eq!(same.status.code(), Some(1), "y has grown again");
}

#[test]
fn launch_names_what_is_wrong() {
    let folder = Folder::new("wrong");
    let cases = [
        ("launch k.ptx -k saxpy", "0 arguments, saxpy takes 4"),
        (
            "launch k.ptx",
            "select one with --kernel: saxpy, endless, wild",
        ),
        ("launch k.ptx -k other", "no kernel other; the kernels are "),
        ("launch none.ptx", "none.ptx: No such file"),
        (
            "launch k.ptx -k wild -a u32:1",
            "argument 0 has 4 bytes, the parameter 8",
        ),
        (
            "launch k.ptx -k wild -a u64:x",
            "argument 0: `x` is not a value of type u64",
        ),
        ("launch k.ptx -k wild -a z9:1", "`z9` is neither a type nor"),
        (
            "launch k.ptx -k wild -a u64:1 --print 0",
            "argument 0 is a scalar",
        ),
        (
            "launch k.ptx -k wild -a u64:64",
            "illegal memory access in kernel wild",
        ),
        (
            "launch k.ptx -k endless --time-limit 0.2",
            "time limit exceeded in kernel endless",
        ),
    ];
    for (args, expected) in cases {
        let output = folder.margay(args);
        assert_eq!(output.status.code(), Some(1), "{args}");
        assert!(err(&output).contains(expected), "{args}: {}", err(&output));
    }
    std::fs::write(
        folder.0.join("bad.ptx"),
        SAXPY.replace("ld.global.f32 %f1", "ld.global.f32 %q1"),
    )
    .unwrap();
    let output = folder.margay("launch bad.ptx -k saxpy");
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("bad.ptx:15"), "{}", err(&output));
}

#[test]
fn a_stopped_kernel_names_a_thread_of_its_block() {
    let folder = Folder::new("stopped");
    let kernel = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry one(.param .u64 out) {\n\
        .reg .b64 %o; .reg .b32 %t;\n\
        ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %t; ret; }\n";
    std::fs::write(folder.0.join("one.ptx"), kernel).unwrap();
    // Code for all lanes of a chunk can run when the launch is stopped, but need not.
    for _ in 0..4 {
        let output = folder
            .margay("launch one.ptx --grid 2147483647,65535 --time-limit 0.3 --arg zeros:u32:32");
        assert_eq!(output.status.code(), Some(1));
        let text = err(&output);
        let thread = text.split("thread (").nth(1).unwrap_or("0,0,0");
        assert!(thread.starts_with("0,0,0"), "{text}");
    }
}

#[test]
fn interrupting_ends_an_endless_kernel() {
    let folder = Folder::new("interrupt");
    let command = folder.command(&["launch", "k.ptx", "-k", "endless"]);
    // A process that a script started in the background ignores SIGINT, and so would its children.
    let mut child = Command::new("env")
        .arg("--default-signal=INT")
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(command.get_current_dir().unwrap())
        .envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(2));
    assert!(child.try_wait().unwrap().is_none(), "the kernel is endless");
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let start = Instant::now();
    let status = child.wait().unwrap();
    assert!(start.elapsed() < Duration::from_secs(10));
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(status.signal(), Some(2));
}

#[test]
fn run_passes_the_exit_code_and_sets_the_environment() {
    let folder = Folder::new("run");
    let seven = folder.command(&["run", "--", "sh", "-c", "exit 7"]);
    assert_eq!({ seven }.status().unwrap().code(), Some(7));
    let script = "echo $LD_LIBRARY_PATH; readlink ${LD_LIBRARY_PATH%%:*}/libcuda.so.1; \
                  echo $MARGAY_WORKERS $MARGAY_ORDER $MARGAY_TIME_LIMIT $MARGAY_ENGINE $MARGAY_TRACE_API; \
                  echo $MARGAY_DEVICES $MARGAY_MEMORY $MARGAY_SMS $MARGAY_DRIVER_VERSION $MARGAY_DEVICE_NAME";
    let mut shown = folder.command(&[
        "run",
        "--workers",
        "3",
        "--reverse",
        "--time-limit",
        "2.5",
        "--engine",
        "interpreter",
        "--trace-api",
        "--devices",
        "2",
        "--memory",
        "3G",
        "--sms",
        "40",
        "--driver-version",
        "12080",
        "--device-name",
        "My device",
        "sh",
        "-c",
        script,
    ]);
    let shown = out(&shown
        .env("LD_LIBRARY_PATH", "/first:/second")
        .output()
        .unwrap());
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].ends_with(":/first:/second"), "{shown}");
    assert_eq!(
        Path::new(lines[1]),
        folder.0.join("libcuda.so").canonicalize().unwrap()
    );
    assert_eq!(lines[2], "3 reverse 2.5 interpreter 1");
    assert_eq!(lines[3], "2 3G 40 12080 My device");
    for wrong in [
        "run --devices 0 true",
        "run --memory 3X true",
        "run --memory 0 true",
    ] {
        assert_eq!(folder.margay(wrong).status.code(), Some(2), "{wrong}");
    }
}

#[test]
fn run_names_what_is_missing() {
    let folder = Folder::new("missing");
    let none = folder.margay("run -- /no/such/program");
    assert_eq!(none.status.code(), Some(127));
    assert!(err(&none).contains("cannot run /no/such/program"));
    let data = folder.margay("run -- ./k.ptx");
    assert_eq!(data.status.code(), Some(126));
    let mut library = folder.command(&["run", "true"]);
    let library = library
        .env("MARGAY_LIBCUDA", "/no/lib.so")
        .output()
        .unwrap();
    assert_eq!(library.status.code(), Some(1));
    assert!(err(&library).contains("MARGAY_LIBCUDA: /no/lib.so"));
}

#[test]
fn doctor_reads_programs_and_the_machine() {
    let folder = Folder::new("doctor");
    let host = folder.margay("doctor -- /bin/true");
    assert_eq!(host.status.code(), Some(0), "{}", err(&host));
    assert!(out(&host).contains("no device code here"), "{}", out(&host));
    let facts = folder.margay("doctor --json");
    let facts: serde_json::Value = serde_json::from_slice(&facts.stdout).unwrap();
    assert_eq!(facts["workers"], 2);
    let text = folder.margay("doctor k.ptx");
    assert_eq!(text.status.code(), Some(1));
    assert!(err(&text).contains("k.ptx is not a 64-bit ELF file"));
}

#[test]
fn doctor_searches_folders_and_environments() {
    let folder = Folder::new("doctor-search");
    let json = |output: &Output| -> serde_json::Value {
        serde_json::from_slice(&output.stdout).expect("a document")
    };
    std::fs::create_dir(folder.0.join("app")).unwrap();
    std::fs::rename(folder.0.join("k.ptx"), folder.0.join("app/k.ptx")).unwrap();
    let good = folder.margay("doctor app");
    assert_eq!(good.status.code(), Some(0), "{}", err(&good));
    assert!(out(&good).contains("runs from its PTX"), "{}", out(&good));
    assert!(out(&good).contains("PTX: sm_52 1"), "{}", out(&good));
    // The header of a cubin for sm_90 is enough.
    let mut cubin = vec![0; 64];
    cubin[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    (cubin[18], cubin[48]) = (190, 90);
    std::fs::create_dir(folder.0.join("machine")).unwrap();
    std::fs::write(folder.0.join("machine/k.cubin"), &cubin).unwrap();
    let bad = folder.margay("doctor machine");
    assert_eq!(bad.status.code(), Some(1), "{}", out(&bad));
    assert!(out(&bad).contains("machine code only"), "{}", out(&bad));
    let both = json(&folder.margay("doctor --json app machine"));
    assert_eq!(both["packages"].as_array().unwrap().len(), 2);
    let missing = folder.margay("doctor app nothing");
    assert!(
        err(&missing).contains("nothing: no such file or folder"),
        "{}",
        err(&missing)
    );
    // An environment with one package.
    let site = folder.0.join("venv/lib/python3.11/site-packages");
    for path in ["wave-2.0.dist-info", "wave"] {
        std::fs::create_dir_all(site.join(path)).unwrap();
    }
    std::fs::create_dir_all(folder.0.join("venv/bin")).unwrap();
    std::fs::write(folder.0.join("venv/bin/python"), "").unwrap();
    std::fs::write(folder.0.join("venv/pyvenv.cfg"), "").unwrap();
    std::fs::write(site.join("wave-2.0.dist-info/RECORD"), "wave/k.cubin,,\n").unwrap();
    std::fs::write(site.join("wave/k.cubin"), &cubin).unwrap();
    for arguments in [
        "doctor --json --python venv",
        "doctor --json venv/bin/python x.py",
    ] {
        let document = json(&folder.margay(arguments));
        let package = &document["device_code"]["packages"][0];
        assert_eq!(package["package"], "wave");
        assert_eq!(package["version"], "2.0");
        assert_eq!(package["code"]["machine_code"]["sm_90"], 1);
    }
}

// Regression test: opening a pipe without a writer blocked forever.
#[test]
fn doctor_reads_no_pipes() {
    let folder = Folder::new("doctor_reads_no_pipes");
    let made = Command::new("mkfifo").arg(folder.0.join("pipe")).status();
    assert!(made.unwrap().success());
    let mut child = folder
        .command(&["doctor", "--", "./pipe"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(err(&output), "error: ./pipe: not a regular file\n");
}

// Regression test: a small stack of the main thread overflowed.
#[test]
fn commands_run_with_a_small_stack() {
    let folder = Folder::new("small_stack");
    for (args, code) in [("support", 0), ("--bad", 2), ("launch none.ptx", 1)] {
        let output = limited(&folder, "-s 64", args);
        assert_eq!(output.status.code(), Some(code), "{args}: {}", err(&output));
    }
}

// Regression test: the help stated that the interpreter runs kernels without native code, also for the native engine.
#[test]
fn the_native_engine_does_not_fall_back() {
    let folder = Folder::new("the_native_engine_does_not_fall_back");
    let text = ".version 7.3\n.target sm_52\n.address_size 64\n.visible .entry k(.param .u64 p)
        { .reg .b64 %d<4>; .reg .b32 %r; ld.param.u64 %d0, [p]; alloca.u64 %d1, %d0, 8;
        mov.u32 %r, 1; st.local.u32 [%d1], %r; ret; }";
    std::fs::write(folder.0.join("alloca.ptx"), text).unwrap();
    let any = folder.margay("launch alloca.ptx -a u64:64");
    assert_eq!(any.status.code(), Some(0), "{}", err(&any));
    let native = folder.margay("launch alloca.ptx -a u64:64 --engine native");
    assert_eq!(native.status.code(), Some(1));
    assert!(
        err(&native).contains("no native code for alloca"),
        "{}",
        err(&native)
    );
    for command in ["launch", "run", "check"] {
        let help = out(&folder.margay(&format!("{command} --help")));
        assert!(
            help.contains("a kernel without native code is an error"),
            "{help}"
        );
    }
}

#[test]
fn smi_and_doctor_say_which_devices_programs_see() {
    let folder = Folder::new("visible");
    let with = |list: &str, arguments: &[&str]| {
        let mut command = folder.command(arguments);
        let settings = [("MARGAY_DEVICES", "3"), ("CUDA_VISIBLE_DEVICES", list)];
        command.envs(settings).output().unwrap()
    };
    let json = |output: &Output| -> serde_json::Value {
        serde_json::from_slice(&output.stdout).expect("a document")
    };
    // `margay smi` shows all devices, with their CUDA ordinals.
    let smi = json(&with("2,0", &["smi", "--json"]));
    let ordinals: Vec<_> = smi["gpus"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gpu| gpu["cuda_ordinal"].as_u64())
        .collect();
    assert_eq!(ordinals, [Some(1), None, Some(0)]);
    assert_eq!(smi["cuda_visible_devices"], "2,0");
    assert_eq!(out(&with("", &["smi", "-L"])).lines().count(), 3);
    for (list, wanted) in [
        ("2,0", "Programs see GPU 2, 0: CUDA_VISIBLE_DEVICES=2,0 "),
        ("-1", "Programs see no GPU: CUDA_VISIBLE_DEVICES=-1 "),
    ] {
        let table = out(&with(list, &["smi"]));
        assert!(table.contains(wanted), "{table}");
    }
    let doctor = with("2,0", &["doctor", "--json"]);
    let facts = json(&doctor);
    assert_eq!(facts["devices"], 3);
    assert_eq!(facts["visible_devices"], serde_json::json!([2, 0]));
    let hidden = with("", &["doctor"]);
    assert_eq!(hidden.status.code(), Some(1));
    assert!(out(&hidden).contains("hides every device"));
    // `margay launch` also obeys `CUDA_VISIBLE_DEVICES`.
    let mut launch = folder.command(&ARGS.split_whitespace().collect::<Vec<_>>());
    let launch = launch.env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    assert_eq!(launch.status.code(), Some(1));
    assert!(err(&launch).contains("no device is visible"));
}

#[test]
fn support_prints_tables() {
    let folder = Folder::new("support");
    let json = folder.margay("support --json");
    let rows: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let served = |name: &str| {
        let row = rows
            .as_array()
            .unwrap()
            .iter()
            .find(|r| r["export"] == name);
        row.unwrap()["status"] == "works"
    };
    assert!(served("cuLaunchKernel"));
    assert!(!served("cuVDPAUGetDevice"));
    assert!(out(&folder.margay("support")).contains("entry points work"));
}

const FILE_TEST: &str = "\
.version 7.0
.target sm_52
.address_size 64
//@ kernel: double
//@ cases: u32 = u32
//| 1 = 2
//| 0x80000000 = 0
.visible .entry double(.param .u64 x, .param .u64 y)
{
    .reg .b32 %r<2>; .reg .b64 %d<3>;
    mov.u32 %r0, %tid.x; mul.wide.u32 %d0, %r0, 4;
    ld.param.u64 %d1, [x]; add.u64 %d1, %d1, %d0; ld.global.u32 %r1, [%d1];
    shl.b32 %r1, %r1, 1;
    ld.param.u64 %d2, [y]; add.u64 %d2, %d2, %d0; st.global.u32 [%d2], %r1;
    ret;
}
";

#[test]
fn file_tests_pass_or_fail_with_the_place() {
    let folder = Folder::new("file_tests");
    std::fs::create_dir(folder.0.join("t")).unwrap();
    std::fs::write(folder.0.join("t/good.ptx"), FILE_TEST).unwrap();
    let output = folder.margay("test t");
    assert!(output.status.success(), "{}", err(&output));
    assert!(out(&output).contains("1 of 1 files passed"));

    let wrong = FILE_TEST.replace("1 = 2", "1 = 3");
    std::fs::write(folder.0.join("t/wrong.ptx"), wrong).unwrap();
    let output = folder.margay("test t");
    assert_eq!(output.status.code(), Some(1));
    let text = out(&output);
    assert!(text.contains("1 of 2 files passed"), "{text}");
    let place = "line 4, kernel double (native, 3 worker(s), reverse): buffer 1: 1 of 2 wrong: \
                 element 0 is 0x00000002, expected 0x00000003";
    assert!(text.contains(place), "{text}");

    let output = folder.margay("test --json t");
    assert_eq!(output.status.code(), Some(1));
    let text = out(&output);
    assert!(
        text.contains(r#"{"failures":[],"file":"t/good.ptx"}"#),
        "{text}"
    );
    assert_eq!(text.matches("\"kernel\":\"double\"").count(), 6, "{text}");

    std::fs::write(folder.0.join("t/wrong.ptx"), "ret;\n").unwrap();
    let output = folder.margay("test t");
    assert!(out(&output).contains("the file expects nothing"));
    assert_eq!(folder.margay("test absent").status.code(), Some(1));
}

#[test]
fn blessing_writes_texts_and_no_lines() {
    let folder = Folder::new("bless");
    let source = FILE_TEST
        .replace(
            "//@ kernel: double\n//@ cases: u32 = u32\n",
            "//@ error: 13: old\n",
        )
        .replace("//| 1 = 2\n//| 0x80000000 = 0\n", "\n\n\n")
        .replace("shl.b32 %r1, %r1, 1;", "shl.b32 %r1, %r9, 1;");
    let path = folder.0.join("bad.ptx");
    std::fs::write(&path, &source).unwrap();
    let bless = |folder: &Folder| {
        folder
            .command(&["test", "bad.ptx"])
            .env("BLESS", "1")
            .output()
    };
    assert!(bless(&folder).unwrap().status.success());
    let blessed = std::fs::read_to_string(&path).unwrap();
    assert!(blessed.contains("//@ error: 13: E"), "{blessed}");
    assert!(folder.margay("test bad.ptx").status.success());

    let moved = source.replace("error: 13", "error: 12");
    std::fs::write(&path, &moved).unwrap();
    let output = bless(&folder).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(out(&output).contains("problems in the lines [13], expected [12]"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), moved);
}

#[test]
fn dis_shows_ir_that_can_be_read_back() {
    let folder = Folder::new("dis");
    let module = folder.margay("dis k.ptx");
    assert_eq!(module.status.code(), Some(0), "{}", err(&module));
    let text = out(&module);
    assert!(text.starts_with("module version 7.0 target sm_52\n"));
    for line in [
        "fn0 = kernel @saxpy visible registers 14 {",
        "fma.f32{rn}",
        "fn1 = kernel @endless",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    std::fs::write(folder.0.join("a.ir"), &text).unwrap();
    assert_eq!(out(&folder.margay("dis a.ir")), text);
    let behind = out(&folder.margay("dis k.ptx -k saxpy --after sync-points"));
    assert!(behind.starts_with("// saxpy, after sync-points\nkernel @saxpy"));
    assert_eq!(
        out(&folder.margay("dis a.ir -k saxpy --after sync-points")),
        behind
    );
    assert!(!behind.contains("endless"));
}

#[test]
fn dis_shows_generated_code_and_times() {
    let folder = Folder::new("dis-code");
    let clif = out(&folder.margay("dis k.ptx -k saxpy --clif"));
    assert!(
        clif.starts_with("// saxpy, CTA form\nfunction u0:0"),
        "{clif}"
    );
    let asm = folder.margay("dis k.ptx -k saxpy --asm");
    assert!(out(&asm).contains("ret"), "{}", out(&asm));
    // A kernel with a barrier has sync points, so its regions are listed separately.
    std::fs::write(folder.0.join("bar.ptx"), BARRIER).unwrap();
    let regions = out(&folder.margay("dis bar.ptx --clif"));
    for title in [
        "k, CTA form",
        "k, warp form, region 0",
        "k, warp form, region 1",
    ] {
        assert!(regions.contains(title), "{regions}");
    }
    let times = folder.margay("dis k.ptx -k saxpy --time --json");
    let json: serde_json::Value = serde_json::from_str(&out(&times)).unwrap();
    let passes = json[0]["passes"].as_array().unwrap();
    assert_eq!(passes[0]["pass"], "inline");
    assert!(passes.iter().all(|p| p["instructions"].as_u64() > Some(5)));
}

const BARRIER: &str = ".version 7.0\n.target sm_70\n.address_size 64\n\
    .visible .entry k() { bar.sync 0; ret; }\n";

#[test]
fn dis_tells_what_lanes_share() {
    let folder = Folder::new("dis-uniformity");
    // The index differs between threads; if blocks consist of whole warps, the addresses are affine with a stride of 4
    // bytes, the size of a float.
    let class = |text: &str, code: &str| {
        let line = text.lines().find(|line| line.contains(code)).unwrap();
        line.rsplit("// ").next().unwrap().to_owned()
    };
    let unknown = out(&folder.margay("dis k.ptx -k saxpy --uniformity"));
    assert_eq!(class(&unknown, "sreg.u32 %ctaid.x"), "cta");
    assert_eq!(class(&unknown, "mul.u32{half:wide}"), "varying");
    assert_eq!(class(&unknown, "brif"), "varying");
    let known = out(&folder.margay("dis k.ptx -k saxpy --uniformity --block 256"));
    assert_eq!(class(&known, "sreg.u32 %tid.x"), "affine 1");
    assert_eq!(class(&known, "mul.u32{half:wide}"), "affine 4");
    assert_eq!(class(&known, "ld.f32{space:global"), "varying");
    let bad = folder.margay("dis k.ptx --uniformity --block 1,2,3,4");
    assert!(
        err(&bad).contains("at most three dimensions"),
        "{}",
        err(&bad)
    );
}

#[test]
fn dis_says_what_it_cannot_find() {
    let folder = Folder::new("dis-errors");
    let pass = folder.margay("dis k.ptx --after nothing");
    assert_eq!(pass.status.code(), Some(1));
    let said = err(&pass);
    assert!(
        said.contains("no pass `nothing`; the passes are inline, simplify, "),
        "{said}"
    );
    let kernel = folder.margay("dis k.ptx -k axpy");
    assert!(err(&kernel).contains("the functions are saxpy, endless, wild"));
    std::fs::write(
        folder.0.join("bad.ir"),
        "module version 7.0 target sm_52\nfrob",
    )
    .unwrap();
    let bad = folder.margay("dis bad.ir");
    assert_eq!(bad.status.code(), Some(1));
    assert!(
        err(&bad).contains("bad.ir:2:1: `file`, `loc`"),
        "{}",
        err(&bad)
    );
    let listed = out(&folder.margay("dis --passes"));
    assert!(listed.starts_with("inline             inlines calls\n"));
    let help = out(&folder.margay("dis --help"));
    assert!(help.contains("Examples:") && help.contains("--after"));
}
