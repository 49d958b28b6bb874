//! Tests that several processes can use a cache folder of native code at the same time.
//!
//! The child processes run this test program with only the test `child`; `MARGAY_CHILD` contains the path of the
//! folder. Each child compiles, reads, deletes and runs the same functions. The size limit of the folder is too small
//! for all functions. Meanwhile, the parent process damages entries.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use margay_ir::entity::{Entity, FuncId};
use margay_ir::parse;
use margay_jit::abi::{DeviceFn, NativeContext};
use margay_jit::{CompiledKernel, Compiler, DiskCache};
use margay_ops::meaning::Bits;

/// Number of functions.
const FUNCTIONS: u32 = 200;
/// Number of times that a child runs all functions.
const ROUNDS: u32 = 5;
/// Size limit of the folder. Each of its 64 parts can hold one or two entries.
const LIMIT: u64 = 64 * 8192;

/// Prepares a function that adds `number` to its argument, for compilation.
fn adder(number: u32) -> CompiledKernel {
    let text = format!(
        "module version 8.0 target sm_80\n\n\
         fn0 = func @add(b32) -> (b32) {{\n\
         block0(v0: b32):\n  \
         v1: b32 = const.b32 {number:#x}\n  \
         v2: b32 = add.u32 v0, v1\n  \
         ret v2\n}}\n"
    );
    let module = parse::module(&text).expect("the IR of a function");
    CompiledKernel::new(&module, FuncId::new(0)).unwrap()
}

fn compiler(folder: &Path) -> Compiler {
    let cache = DiskCache::new(folder.to_owned(), LIMIT).worth(Duration::ZERO);
    let compiler = Compiler::new().expect("a code generator for this machine");
    compiler.with_cache(Some(cache))
}

fn run(kernel: &CompiledKernel, compiler: &Compiler, argument: u32) -> u32 {
    let code = kernel.device(compiler).expect("it compiles");
    // SAFETY: all fields are integers or pointers, for which zero is valid. An addition reads none of the fields.
    let mut context: NativeContext = unsafe { std::mem::zeroed() };
    context.local_stride = 1 << 16;
    context.stack_limit = 1 << 16;
    let mut cells = [Bits::from(argument); 2];
    // SAFETY: the code was compiled for this signature. The cells contain its operand and take its result.
    let status = unsafe {
        let entry: DeviceFn = std::mem::transmute(code.code.start());
        entry(&mut context, 0, 0, cells.as_mut_ptr())
    };
    assert_eq!(status, 0);
    cells[0] as u32
}

/// The work of a child process: runs all functions repeatedly, and writes to a file how often a function was found in
/// the cache.
#[test]
fn child() {
    let Some(folder) = std::env::var_os("MARGAY_CHILD").map(PathBuf::from) else {
        return;
    };
    let mut found = 0;
    for round in 0..ROUNDS {
        let compiler = compiler(&folder);
        for number in 0..FUNCTIONS {
            assert_eq!(run(&adder(number), &compiler, round), number + round);
        }
        let cache = compiler.cache().expect("a cache");
        assert_eq!(cache.refusal(), None);
        found += cache.counts().0;
    }
    fs::write(
        folder.join(format!("found-{}", std::process::id())),
        found.to_string(),
    )
    .expect("the folder takes files");
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let inside = |path: PathBuf| {
        let entries = fs::read_dir(path).into_iter().flatten();
        entries.map(|entry| entry.expect("an entry").path())
    };
    inside(folder.to_owned()).flat_map(inside).collect()
}

/// Changes a byte of the code in a cache file. A process that executed the damaged code would compute wrong results or
/// crash.
///
/// Another process may have deleted or renamed the file meanwhile. This function then fails and does not create the
/// file again.
fn damage(path: &Path) -> std::io::Result<()> {
    let file = fs::File::options().read(true).write(true).open(path)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, 100)?;
    file.write_all_at(&[byte[0] ^ 1], 100)
}

#[test]
fn processes_share_a_folder_that_is_too_small_and_gets_damaged() {
    let name = format!("margay-shared-cache-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&folder)
        .expect("a folder");
    let start = || {
        Command::new(std::env::current_exe().expect("own path"))
            .args(["--exact", "child", "--nocapture"])
            .env("MARGAY_CHILD", &folder)
            .spawn()
            .expect("a child")
    };
    let mut children: Vec<_> = (0..3).map(|_| start()).collect();
    let mut damaged = 0;
    while children
        .iter_mut()
        .any(|child| child.try_wait().expect("a child").is_none())
    {
        for path in entries(&folder).into_iter().step_by(7) {
            damaged += u32::from(damage(&path).is_ok());
        }
    }
    for mut child in children {
        assert!(child.wait().expect("a child").success());
    }
    let found: u32 = fs::read_dir(&folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .map(|path| fs::read_to_string(path).expect("text"))
        .map(|text| text.parse::<u32>().expect("a number"))
        .sum();
    let kept = entries(&folder);
    let drafts = kept.iter().filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("draft-")
    });
    assert_eq!(drafts.count(), 0);
    let bytes: u64 = kept
        .iter()
        .map(|path| {
            fs::metadata(path)
                .expect("a file")
                .len()
                .next_multiple_of(4096)
        })
        .sum();
    // The limit may be exceeded, because all three processes may have seen the same free space before each of them
    // wrote an entry.
    assert!(bytes <= 3 * LIMIT, "{bytes} bytes");
    assert!(damaged > 0 && found > 0, "{damaged} damaged, {found} found");
    assert!(found < 3 * ROUNDS * FUNCTIONS, "nothing was ever dropped");
    fs::remove_dir_all(&folder).expect("a folder of ours");
}
