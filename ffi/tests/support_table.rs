//! Writes the driver's support table to a file that other programs read
//! (`docs/support-driver.csv`), and checks the result code of each entry point that always fails.
//!
//! `cargo xtask support` writes the file from the table in the library's source code: it sets
//! `BLESS=1` and runs the test `the_file_is_up_to_date`.

mod common;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use common::Driver;
use cuda::{CuResult, Status};

fn table() -> String {
    let mut text = String::from("family,export,symbol,since,stream,status,result,parameters\n");
    for (family, rows) in cuda::api::families() {
        for row in rows {
            let (status, result) = match row.status {
                Status::Works => ("works", String::new()),
                Status::Refuses => ("refuses", String::new()),
                Status::Fails(CuResult::NOT_SUPPORTED) => ("unsupported", String::new()),
                Status::Fails(code) => ("refuses", format!("{code:?}")),
            };
            let parameters = row.parameters.split_whitespace().collect::<Vec<_>>();
            writeln!(
                text,
                "\"{family}\",{},{},{},{},{status},{result},\"{}\"",
                row.export,
                row.symbol(),
                row.since,
                row.stream_suffix,
                parameters.join(" "),
            )
            .expect("strings take everything");
        }
    }
    text
}

#[test]
fn the_file_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/support-driver.csv");
    let table = table();
    if std::env::var_os("BLESS").is_some() {
        let folder = path.parent().expect("docs");
        std::fs::create_dir_all(folder).expect("docs is a folder");
        std::fs::write(&path, &table).expect("docs/support-driver.csv is written");
    }
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        file == table,
        "docs/support-driver.csv is stale: cargo xtask support"
    );
}

/// Loads the library, and makes the primary context of device 0 current.
fn driver() -> Driver {
    let driver = Driver::load();
    let mut context = 0usize;
    assert_eq!(driver.call("cuInit", &[0]), 0);
    let place = &raw mut context as usize;
    assert_eq!(driver.call("cuDevicePrimaryCtxRetain", &[place, 0]), 0);
    assert_eq!(driver.call("cuCtxSetCurrent", &[context]), 0);
    driver
}

#[test]
fn entry_points_without_an_implementation_answer_the_result_of_their_row() {
    let driver = driver();
    let room = vec![0u64; 1024];
    let room = room.as_ptr() as usize;
    let mut rows = 0;
    for row in cuda::api_rows() {
        let Status::Fails(result) = row.status else {
            continue;
        };
        for argument in [0, 1, room] {
            let code = driver.call(row.export, &[argument; 11]);
            assert_eq!(code, result.0, "{} with {argument:#x}", row.export);
        }
        rows += 1;
    }
    assert!(rows > 100, "{rows}");
}

const INVALID_VALUE: u32 = 1;
const OUT_OF_MEMORY: u32 = 2;
const UNSUPPORTED_EXEC_AFFINITY: u32 = 224;
const NOT_PERMITTED: u32 = 800;
const NOT_SUPPORTED: u32 = 801;

/// `CUDA_ARRAY_DESCRIPTOR`; the test uses 16 x 16 elements of one `f32` (format 0x20).
#[repr(C)]
struct Descriptor {
    width: usize,
    height: usize,
    format: u32,
    channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
struct Descriptor3D {
    width: usize,
    height: usize,
    depth: usize,
    format: u32,
    channels: u32,
    flags: u32,
}

/// Calls each entry point that checks its arguments and cannot succeed ([`Status::Refuses`]). The
/// arguments would be correct on a GPU that has the feature.
#[test]
fn entry_points_that_refuse_fail_with_correct_arguments() {
    let driver = driver();
    let (mut array, mut mipmap, mut memory) = (0usize, 0usize, 0usize);
    let plane = Descriptor {
        width: 16,
        height: 16,
        format: 0x20,
        channels: 1,
    };
    let levels = Descriptor3D {
        width: 16,
        height: 16,
        depth: 0,
        format: 0x20,
        channels: 1,
        flags: 0,
    };
    let at = |place: &mut usize| std::ptr::from_mut(place) as usize;
    let plane = &raw const plane as usize;
    assert_eq!(driver.call("cuArrayCreate_v2", &[at(&mut array), plane]), 0);
    let levels = [at(&mut mipmap), &raw const levels as usize, 2];
    assert_eq!(driver.call("cuMipmappedArrayCreate", &levels), 0);
    let bytes = 1 << 21;
    assert_eq!(driver.call("cuMemAlloc_v2", &[at(&mut memory), bytes]), 0);

    let room = vec![0u64; 1024];
    let (out, other) = (room.as_ptr() as usize, room[512..].as_ptr() as usize);
    let calls: BTreeMap<&str, (u32, Vec<usize>)> = [
        (
            "cuArrayGetSparseProperties",
            INVALID_VALUE,
            vec![out, array],
        ),
        (
            "cuMipmappedArrayGetSparseProperties",
            INVALID_VALUE,
            vec![out, mipmap],
        ),
        ("cuArrayGetPlane", INVALID_VALUE, vec![out, array, 0]),
        (
            "cuCtxGetExecAffinity",
            UNSUPPORTED_EXEC_AFFINITY,
            vec![out, 0],
        ),
        ("cuMemAlloc", OUT_OF_MEMORY, vec![out, 1024]),
        ("cuMemAllocPitch", OUT_OF_MEMORY, vec![out, other, 64, 4, 4]),
        // The memory is to be exported as a dma-buf.
        (
            "cuMemGetHandleForAddressRange",
            NOT_SUPPORTED,
            vec![out, memory, bytes, 1, 0],
        ),
        ("cuMemMapArrayAsync", NOT_SUPPORTED, vec![out, 1, 0]),
        ("cuMemMapArrayAsync_ptsz", NOT_SUPPORTED, vec![out, 1, 0]),
        (
            "cuCoredumpRegisterStartCallback",
            NOT_PERMITTED,
            vec![callback as *const () as usize, 0, out],
        ),
        (
            "cuCoredumpRegisterCompleteCallback",
            NOT_PERMITTED,
            vec![callback as *const () as usize, 0, out],
        ),
    ]
    .into_iter()
    .map(|(export, result, arguments)| (export, (result, arguments)))
    .collect();
    for row in cuda::api_rows().filter(|row| row.status == Status::Refuses) {
        let (result, arguments) = &calls[row.export];
        assert_eq!(
            driver.call(row.export, arguments),
            *result,
            "{}",
            row.export
        );
    }
    let rows = cuda::api_rows().filter(|row| row.status == Status::Refuses);
    assert_eq!(rows.count(), calls.len());
}

extern "C" fn callback() {}
