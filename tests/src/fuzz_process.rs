//! The fuzz target for resource limits and environment variables of a process.
//!
//! A separate program ([`PROGRAM`]) starts with limits and variables that the input chooses, runs a
//! kernel and checks its result. The program must end soon, and no signal may end it. It must print
//! the right result or the name of the call that failed.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use cuda::CuResult;

use crate::fuzz_driver::call_named;

/// The environment variable with the path of the program `under_limits` of this crate. It is needed if the program is
/// not in the parent of the folder of the test's executable.
const PROGRAM: &str = "MARGAY_TEST_UNDER_LIMITS";

/// Maximum running time of the program. By default, the time limit of its kernel is 20 seconds. The
/// input can choose a longer limit, or no limit.
const PATIENCE: Duration = Duration::from_secs(60);

/// Resource limits, with values at which a program can start.
const LIMITS: &[(libc::__rlimit_resource_t, &[u64])] = &[
    (
        libc::RLIMIT_AS,
        // With a lower limit, Rust's allocator may end the process (`docs/security.md`): at 200 MiB, one run in fifty.
        &[
            256 << 20,
            300 << 20,
            400 << 20,
            512 << 20,
            1 << 30,
            2 << 30,
            5 << 30,
            50 << 30,
            1 << 40,
            1 << 45,
        ],
    ),
    (
        libc::RLIMIT_DATA,
        // With a lower limit, this may happen, too.
        &[64 << 20, 100 << 20, 256 << 20, 1 << 30, 4 << 30],
    ),
    (
        libc::RLIMIT_STACK,
        &[
            128 << 10,
            512 << 10,
            1 << 20,
            8 << 20,
            1 << 30,
            1 << 40,
            u64::MAX,
        ],
    ),
    (libc::RLIMIT_NOFILE, &[3, 4, 5, 6, 8, 12, 16, 64]),
    (libc::RLIMIT_NPROC, &[0, 1, 2, 3, 4, 6, 10, 100]),
    (libc::RLIMIT_FSIZE, &[0, 1, 4096, 1 << 16, 1 << 20]),
    (libc::RLIMIT_MEMLOCK, &[0, 4096, 1 << 20]),
    (libc::RLIMIT_SIGPENDING, &[0, 1]),
    (libc::RLIMIT_CORE, &[0]),
];

/// Environment variables that the library reads.
const VARIABLES: &[&str] = &[
    "MARGAY_CACHE",
    "MARGAY_CACHE_BYTES",
    "MARGAY_CACHE_DIR",
    "MARGAY_CHECK",
    "MARGAY_CHECK_LOG",
    "MARGAY_COMPUTE_CAPABILITY",
    "MARGAY_DETERMINISTIC",
    "MARGAY_DEVICES",
    "MARGAY_DEVICE_NAME",
    "MARGAY_DRIVER_VERSION",
    "MARGAY_DUMP",
    "MARGAY_ENGINE",
    "MARGAY_ISOLATE",
    "MARGAY_JOINT",
    "MARGAY_LANES",
    "MARGAY_LOG",
    "MARGAY_MEMORY",
    "MARGAY_ORDER",
    "MARGAY_QUIET",
    "MARGAY_SMS",
    "MARGAY_TIME_LIMIT",
    "MARGAY_TRACE_API",
    "MARGAY_WORKERS",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_PATH",
    "CUDA_MODULE_LOADING",
    "HOME",
    "TMPDIR",
    "XDG_CACHE_HOME",
];

/// Values for the variables in [`VARIABLES`]: each value is valid, or nearly valid, for at least
/// one variable.
const VALUES: &[&str] = &[
    "",
    "0",
    "1",
    "2",
    "16",
    "33",
    "100000",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "-1",
    "0.5",
    "1e9",
    "nan",
    "1K",
    "64M",
    "1G",
    "9999999T",
    "5s",
    "10ms",
    "native",
    "interpreter",
    "auto",
    "on",
    "off",
    "true",
    "no",
    "all",
    "fallback",
    "reverse",
    "random",
    "7.0",
    "9.0",
    "99.99",
    "0,0",
    "1,0",
    "-1,5",
    "GPU-",
    "MIG-",
    "LAZY",
    "nowhere",
    "nowhere/deep",
    ".",
    "/dev/null",
    "/dev/full",
    "/proc/self/mem",
    "/",
];

/// The user ID of an unprivileged user, as which the program runs. The limit of the number of
/// processes applies to this user.
const NOBODY: u32 = 61_234;

/// The limits and variables that the input chooses.
#[derive(Debug, Default)]
struct Chosen {
    limits: Vec<(libc::__rlimit_resource_t, u64)>,
    variables: Vec<(&'static str, OsString)>,
}

impl Chosen {
    fn new(bytes: &[u8]) -> Chosen {
        let mut chosen = Chosen::default();
        let mut rest = bytes.iter().copied();
        while let (Some(what), Some(which)) = (rest.next(), rest.next()) {
            let (what, which) = (usize::from(what), usize::from(which));
            if what < 80 {
                let (resource, values) = LIMITS[what % LIMITS.len()];
                chosen.limits.push((resource, values[which % values.len()]));
                continue;
            }
            let name = VARIABLES[what % VARIABLES.len()];
            let value = match VALUES.get(which) {
                Some(value) => OsString::from(value),
                // Bytes of the input, except bytes that end a C string or separate folder names.
                None => OsString::from_vec(
                    rest.by_ref()
                        .take(which - VALUES.len())
                        .map(|byte| match byte {
                            0 | b'/' => b'_',
                            other => other,
                        })
                        .collect(),
                ),
            };
            chosen.variables.push((name, value));
        }
        chosen
    }

    /// Starts the program with the chosen limits and variables, in the folder `folder`.
    fn start(&self, folder: &Path) -> std::io::Result<Child> {
        let mut command = Command::new(program());
        command
            .current_dir(folder)
            .env_clear()
            .env("MARGAY_TIME_LIMIT", "20")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let limits = self.limits.clone();
        // SAFETY: between fork and exec only system calls are made, and the limits are in memory that is already
        // allocated.
        unsafe {
            command.pre_exec(move || {
                for &(resource, value) in &limits {
                    if resource == libc::RLIMIT_NPROC && libc::getuid() == 0 {
                        libc::setresgid(NOBODY, NOBODY, NOBODY);
                        libc::setresuid(NOBODY, NOBODY, NOBODY);
                    }
                    let both = libc::rlimit {
                        rlim_cur: value,
                        rlim_max: value,
                    };
                    // An unprivileged process cannot raise a limit. If the call fails for this reason, the present
                    // limit applies.
                    libc::setrlimit(resource, &raw const both);
                }
                Ok(())
            })
        };
        command.spawn()
    }
}

fn program() -> PathBuf {
    let found = std::env::var_os(PROGRAM).map(PathBuf::from).or_else(|| {
        let test = std::env::current_exe().ok()?;
        let program = test.parent()?.with_file_name("under_limits");
        program.exists().then_some(program)
    });
    found.unwrap_or_else(|| panic!("{PROGRAM} is not set"))
}

fn wait(child: &mut Child) -> Option<ExitStatus> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        match child.try_wait().expect("the child is ours") {
            Some(status) => return Some(status),
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// Checks that the program exits by itself, and that neither a signal nor a time-out ends it, with
/// the limits and variables that the input chooses.
pub fn process_limits(bytes: &[u8]) {
    let chosen = Chosen::new(bytes);
    let folder = std::env::temp_dir().join(format!("margay-limits-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the program");
    // If the limits prevent the start of the program, this is not a failure of the library.
    if let Ok(mut child) = chosen.start(&folder) {
        let status = wait(&mut child);
        let status = status.unwrap_or_else(|| panic!("does not end: {chosen:?}"));
        let mut said = String::new();
        if let Some(mut stream) = child.stderr.take() {
            let _ = stream.read_to_string(&mut said);
        }
        // The exit code of the program is 0 or 1 unless the library has a defect, that of the dynamic linker is 127. If
        // no memory is left, Rust's allocator may abort the process, with a message (docs/security.md).
        let is_out_of_memory =
            status.signal() == Some(libc::SIGABRT) && said.contains("memory allocation of");
        assert!(
            is_out_of_memory || matches!(status.code(), Some(0 | 1 | 127)),
            "{status}: {chosen:?}: {said}"
        );
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// The PTX of the kernel, which adds neighbouring values in shared memory, in a loop with barriers.
const KERNEL: &str = ".version 7.0\n.target sm_70\n.address_size 64\n\
    .visible .entry sums(.param .u64 p) {\n\
    .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p; .shared .b32 cells[256];\n\
    ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 256, %r1;\n\
    mul.wide.u32 %rd2, %r3, 4; add.u64 %rd1, %rd1, %rd2; ld.global.u32 %r4, [%rd1];\n\
    mov.u32 %r5, cells; shl.b32 %r6, %r1, 2; add.u32 %r5, %r5, %r6; xor.b32 %r6, %r6, 4;\n\
    mov.u32 %r7, cells; add.u32 %r6, %r6, %r7; mov.u32 %r7, 0;\n\
    LOOP: st.shared.u32 [%r5], %r4; bar.sync 0; ld.shared.u32 %r2, [%r6]; bar.sync 0; add.u32 %r4, %r4, %r2;\n\
    add.u32 %r7, %r7, 1; setp.lt.u32 %p, %r7, 3; @%p bra LOOP; st.global.u32 [%rd1], %r4; ret; }\n\0";

/// Runs the kernel through the driver API, for the program `under_limits`; returns the number of
/// wrong result values.
///
/// # Errors
///
/// If a call of the driver API fails, returns its name and its error code.
pub fn calls_under_limits() -> Result<usize, String> {
    const BLOCKS: u32 = 16;
    let call = |name: &str, arguments: &[u64]| match call_named(name, arguments) {
        CuResult::SUCCESS => Ok(()),
        error => Err(format!("{name}: {error:?}")),
    };
    let mut slot = 0_u64;
    let out = &raw mut slot as u64;
    let mut values: Vec<u32> = (0..BLOCKS * 256).collect();
    let bytes = size_of_val(values.as_slice()) as u64;
    call("cuInit", &[0])?;
    call("cuDevicePrimaryCtxRetain", &[out, 0])?;
    call("cuCtxSetCurrent", &[slot])?;
    call("cuModuleLoadData", &[out, KERNEL.as_ptr() as u64])?;
    let name = b"sums\0";
    call("cuModuleGetFunction", &[out, slot, name.as_ptr() as u64])?;
    let function = slot;
    call("cuMemAlloc_v2", &[out, bytes])?;
    let mut memory = slot;
    call("cuMemcpyHtoD_v2", &[memory, values.as_ptr() as u64, bytes])?;
    let parameters = [&raw mut memory as u64];
    let launch = [
        function,
        BLOCKS.into(),
        1,
        1,
        256,
        1,
        1,
        0,
        0,
        parameters.as_ptr() as u64,
        0,
    ];
    call("cuLaunchKernel", &launch)?;
    call("cuCtxSynchronize", &[])?;
    call(
        "cuMemcpyDtoH_v2",
        &[values.as_mut_ptr() as u64, memory, bytes],
    )?;
    // The kernel adds the neighbour's value three times; the result is 4 times the sum of both.
    let right = (0_u32..).map(|i| 4 * (i + (i ^ 1)));
    Ok(values.iter().zip(right).filter(|(v, r)| **v != *r).count())
}
