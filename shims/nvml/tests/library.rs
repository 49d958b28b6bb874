//! Calls the functions of the library in the same way as a C program, and checks the exports of the
//! built library.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_void};
use std::path::PathBuf;
use std::process::Command;
use std::ptr::null_mut;

use nvidia_ml::refused::REFUSED;
use nvidia_ml::*;

fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let deps = test.parent().unwrap();
    let beside = deps.join("libnvidia_ml.so");
    match beside.exists() {
        true => beside,
        false => deps.parent().unwrap().join("libnvidia_ml.so"),
    }
}

fn text(get: impl FnOnce(*mut c_char, u32) -> i32) -> Result<String, i32> {
    let mut buffer = [0x7f; 96];
    match get(buffer.as_mut_ptr(), 96) {
        // SAFETY: the function wrote a text with its NUL.
        0 => Ok(unsafe { CStr::from_ptr(buffer.as_ptr()) }
            .to_str()
            .unwrap()
            .to_owned()),
        code => Err(code),
    }
}

/// Checks that each version of `nvmlDeviceGetPciInfo` writes exactly its own version of the structure.
///
/// # Safety
/// `device` must be a device handle of the library.
unsafe fn places_on_the_bus(device: *const c_void) {
    for (version, bytes) in [(1, 32), (2, 52), (3, 68)] {
        let mut place = [0xccu8; 80];
        let out = place.as_mut_ptr();
        // SAFETY: the buffer is larger than every version of the structure.
        let code = unsafe {
            match version {
                1 => nvmlDeviceGetPciInfo(device, out.cast()),
                2 => nvmlDeviceGetPciInfo_v2(device, out.cast()),
                _ => nvmlDeviceGetPciInfo_v3(device, out.cast()),
            }
        };
        assert_eq!(code, 0);
        assert_eq!(&place[..13], b"0000:A0:00.0\0", "version {version}");
        assert_eq!(place[20..24], 0xa0u32.to_le_bytes(), "the bus");
        assert_eq!(place[bytes - 1], 0, "version {version} writes all of it");
        assert!(
            place[bytes..].iter().all(|byte| *byte == 0xcc),
            "and no more: {version}"
        );
    }
}

/// All checks are in one test, because the library is initialised for the whole process.
#[test]
fn programs_get_what_they_ask_for() {
    let mut count = 0;
    let mut device: *const c_void = null_mut();
    // SAFETY: every pointer below points to a variable or to a buffer with its length, or is null.
    unsafe {
        assert_eq!(nvmlDeviceGetCount_v2(&raw mut count), 1, "not initialised");
        assert_eq!(nvidia_ml::refused::nvmlDeviceGetTemperature(), 1);
        assert_eq!(nvmlShutdown(), 1);
        assert_eq!(nvmlInit_v2(), 0);
        assert_eq!((nvmlDeviceGetCount_v2(&raw mut count), count), (0, 1));
        assert_eq!(nvmlDeviceGetHandleByIndex_v2(1, &raw mut device), 2);
        assert_eq!(nvmlDeviceGetHandleByIndex_v2(0, &raw mut device), 0);
        assert_eq!(nvmlDeviceGetHandleByIndex_v2(0, null_mut()), 2);

        let uuid = text(|out, room| nvmlDeviceGetUUID(device, out, room)).unwrap();
        let mut found: *const c_void = null_mut();
        let ask = std::ffi::CString::new(uuid).unwrap();
        assert_eq!(nvmlDeviceGetHandleByUUID(ask.as_ptr(), &raw mut found), 0);
        assert_eq!(found, device);
        assert_eq!(
            nvmlDeviceGetHandleByUUID(c"GPU-1".as_ptr(), &raw mut found),
            6
        );
        assert_eq!(
            nvmlDeviceGetHandleByPciBusId_v2(c"00000000:A0:00.0".as_ptr(), &raw mut found),
            0
        );
        assert_eq!(
            nvmlDeviceGetHandleByPciBusId_v2(c"00000000:01:00.0".as_ptr(), &raw mut found),
            6
        );

        let name = text(|out, room| nvmlDeviceGetName(device, out, room)).unwrap();
        assert!(name.starts_with("Margay on "), "{name}");
        let mut small = [0x55; 8];
        assert_eq!(nvmlDeviceGetName(device, small.as_mut_ptr(), 8), 7);
        assert_eq!(small, [0x55; 8], "nothing is written beyond or in part");
        assert_eq!(
            nvmlDeviceGetName(&raw const count as *const c_void, small.as_mut_ptr(), 8),
            2
        );

        places_on_the_bus(device);
        let mut link = 0;
        assert_eq!(nvmlDeviceGetMaxPcieLinkGeneration(device, &raw mut link), 0);
        assert_eq!(link, 4);
        assert_eq!(nvmlDeviceGetCurrPcieLinkWidth(device, &raw mut link), 0);
        assert_eq!(link, 16);
        assert_eq!(nvmlDeviceGetCurrPcieLinkWidth(device, null_mut()), 2);
        assert_eq!(nvmlDeviceGetCurrPcieLinkWidth(null_mut(), &raw mut link), 2);

        let mut memory = [0u64; 3];
        assert_eq!(
            nvmlDeviceGetMemoryInfo(device, memory.as_mut_ptr().cast()),
            0
        );
        assert_eq!(memory[0], memory[1] + memory[2]);
        let mut second = [0x0200_0028u64, 0, 0, 0, 0];
        assert_eq!(
            nvmlDeviceGetMemoryInfo_v2(device, second.as_mut_ptr().cast()),
            0
        );
        assert_eq!((second[1], second[2]), (memory[0], 0));
        second[0] = 7;
        assert_eq!(
            nvmlDeviceGetMemoryInfo_v2(device, second.as_mut_ptr().cast()),
            25
        );

        let (mut major, mut minor, mut version) = (0, 0, 0);
        assert_eq!(
            nvmlDeviceGetCudaComputeCapability(device, &raw mut major, &raw mut minor),
            0
        );
        assert_eq!((major, minor), (8, 6));
        assert_eq!(nvmlSystemGetCudaDriverVersion_v2(&raw mut version), 0);
        assert_eq!(version, 13050);
        let driver = text(|out, room| nvmlSystemGetDriverVersion(out, room)).unwrap();
        assert_eq!(driver, "580.13050");

        let mut processes = 0;
        let code = nvmlDeviceGetComputeRunningProcesses_v3(device, &raw mut processes, null_mut());
        assert!(
            matches!((code, processes), (0, 0) | (7, 1..)),
            "{code} {processes}"
        );
        assert_eq!(nvidia_ml::refused::nvmlDeviceGetPowerUsage(), 3);
        assert_eq!(CStr::from_ptr(nvmlErrorString(3)), c"Not Supported");
        assert_eq!(CStr::from_ptr(nvmlErrorString(-5)), c"Unknown Error");
        assert_eq!(nvmlShutdown(), 0);
        assert_eq!(nvmlShutdown(), 1);
    }
}

/// The environment variable that is set only in the child process, in which `CUDA_VISIBLE_DEVICES`
/// hides devices.
const CHILD: &str = "MARGAY_TEST_HIDDEN_DEVICES";

/// Runs in the child process of the test [`all_devices_are_told_whatever_programs_see`] and
/// performs the test's checks.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let (mut count, mut device) = (0, null_mut::<c_void>().cast_const());
    // SAFETY: every pointer points to a variable or to a buffer with its length.
    unsafe {
        assert_eq!(nvmlInit_v2(), 0);
        assert_eq!((nvmlDeviceGetCount_v2(&raw mut count), count), (0, 3));
        for number in 0..3 {
            assert_eq!(nvmlDeviceGetHandleByIndex_v2(number, &raw mut device), 0);
            let uuid = text(|out, room| nvmlDeviceGetUUID(device, out, room)).unwrap();
            assert!(uuid.ends_with(&number.to_string()), "{uuid}");
            // XLA requires equal names.
            let name = text(|out, room| nvmlDeviceGetName(device, out, room)).unwrap();
            assert_eq!(name, "Twin");
        }
        assert_eq!(nvmlShutdown(), 0);
    }
    println!("seen");
}

/// Tests that `CUDA_VISIBLE_DEVICES` does not hide devices from this library; it hides them from
/// CUDA programs.
#[test]
fn all_devices_are_told_whatever_programs_see() {
    for list in ["", "1", "2,0", "GPU-"] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .envs([
                (CHILD, "1"),
                ("MARGAY_DEVICES", "3"),
                ("MARGAY_DEVICE_NAME", "Twin"),
                ("CUDA_VISIBLE_DEVICES", list),
            ])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("seen"), "{said}");
    }
}

#[test]
fn every_name_is_exported_once_and_none_else() {
    let listed = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library())
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let names: BTreeSet<&str> = listed
        .lines()
        .filter_map(|l| l.split_whitespace().nth(2))
        .collect();
    let foreign: Vec<_> = names
        .iter()
        .filter(|name| !name.starts_with("nvml"))
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    let missing: Vec<_> = REFUSED
        .iter()
        .filter(|name| !names.contains(*name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    for served in [
        "nvmlInit_v2",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlErrorString",
    ] {
        assert!(names.contains(served) && !REFUSED.contains(&served));
    }
}
