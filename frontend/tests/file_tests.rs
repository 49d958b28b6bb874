//! Runs the file tests of `tests/ptx` with only the parser, the lowering and the interpreter.
//! Vectors of bytes represent the memory of the device. Because these tests need no code generator,
//! they build fast enough for `cargo xtask mutants` to run them for every mutant that its first tests do not detect.
//!
//! This test program runs only launches that have expected values, and omits the files in
//! `LEFT_OUT`. `tests/tests/file_tests.rs` runs all launches with the whole runtime.

#[allow(
    dead_code,
    unreachable_pub,
    reason = "a part of the harness of `margay test`, which uses and shows all of it"
)]
#[path = "../../cli/src/filetest"]
mod filetest {
    pub(crate) mod directive;
    pub(crate) mod texels;
    pub(crate) mod value;
}

use std::path::{Path, PathBuf};

use filetest::directive::{self, Argument, FileTest, Launch, Outcome};
use margay_exec::interp::{Code, Interpreter, Machine};
use margay_exec::{CtaInfo, CtaOutcome, CtaState, FaultKind, LaunchInfo, Order, SymbolTable};
use margay_frontend::resolve::resolve;
use margay_frontend::{SourceFile, lower, parse};
use margay_ir::entity::Entity;
use margay_ir::module::{Module, RelocTarget};
use margay_ir::pass;
use margay_ir::pass::iterations::Acting;
use margay_ir::syscall::Syscall;
use margay_ops::meaning::Bits;
use margay_ops::mods::StateSpace;
use margay_ops::ops::Opcode;
use smallvec::SmallVec;

/// The files that need a feature that this test program does not have, each with the reason.
const LEFT_OUT: [(&str, &str); 5] = [
    ("control/system_calls", "calls the system"),
    ("warp/clusters", "launches a cluster"),
    ("texture/", "needs textures and surfaces"),
    // In these files, blocks wait for each other, but this test program runs the blocks of a grid one after the other.
    ("semantics/ordering", "blocks wait for blocks"),
    ("semantics/progress", "blocks wait for blocks"),
];

/// The distance between the start addresses of the memory areas. It is larger than any offset in a
/// test, so areas never overlap.
const STEP: u64 = 1 << 40;
const SHARED: u64 = STEP;
const LOCAL: u64 = 2 * STEP;
const PARAMS: u64 = 3 * STEP;
const FIRST_BUFFER: u64 = 4 * STEP;
/// Size in bytes of the local memory of a thread.
const STRIDE: u32 = 1 << 14;

/// The memory of the device, which consists of separate areas.
#[derive(Default)]
struct Bare {
    /// The start address and the contents of each area.
    pieces: Vec<(u64, Vec<u8>)>,
    time: u64,
    /// The number of jumps and branches after which the launch is aborted, minus those that it has executed.
    patience: u64,
}

impl Bare {
    fn bytes(&mut self, address: u64, count: u32) -> Result<&mut [u8], FaultKind> {
        let fault = FaultKind::IllegalAddress {
            address: Some(address),
            write: None,
        };
        let inside = |(base, content): &&mut (u64, Vec<u8>)| {
            let at = address.wrapping_sub(*base);
            at < content.len() as u64 && content.len() as u64 - at >= u64::from(count)
        };
        let (base, content) = self.pieces.iter_mut().find(inside).ok_or(fault)?;
        let at = (address - *base) as usize;
        Ok(&mut content[at..at + count as usize])
    }
}

impl Machine for Bare {
    fn load(&mut self, address: u64, bytes: u32) -> Result<Bits, FaultKind> {
        let content = self.bytes(address, bytes)?;
        Ok(content
            .iter()
            .rev()
            .fold(0, |bits, &byte| bits << 8 | Bits::from(byte)))
    }

    fn store(&mut self, address: u64, bytes: u32, value: Bits) -> Result<(), FaultKind> {
        let content = self.bytes(address, bytes)?;
        content.copy_from_slice(&value.to_le_bytes()[..bytes as usize]);
        Ok(())
    }

    fn update(
        &mut self,
        address: u64,
        bytes: u32,
        new: &mut dyn FnMut(Bits) -> Bits,
    ) -> Result<Bits, FaultKind> {
        let old = self.load(address, bytes)?;
        self.store(address, bytes, new(old))?;
        Ok(old)
    }

    fn poll(&mut self) -> Result<(), FaultKind> {
        self.patience = self.patience.checked_sub(1).ok_or(FaultKind::Stopped)?;
        Ok(())
    }

    fn fence(&mut self) {}

    fn clock(&mut self) -> u64 {
        self.time += 100;
        self.time
    }

    fn syscall(
        &mut self,
        _: &CtaInfo,
        _: u32,
        which: Syscall,
        _: &[Bits],
    ) -> Result<SmallVec<[Bits; 1]>, FaultKind> {
        let what = which.name().to_owned();
        Err(FaultKind::Unsupported { what })
    }
}

/// Assigns addresses to a module's variables, and adds the variables outside shared memory with their initial contents
/// to `memory`. The addresses of variables in shared memory are offsets, and start after the reserved bytes. Returns
/// the address of each variable, and the size of shared memory with the reserved bytes.
fn place_symbols(
    module: &Module,
    reserved_shared: u32,
    memory: &mut Bare,
    next: &mut u64,
) -> (Vec<u64>, u32) {
    let mut shared = u64::from(reserved_shared);
    let mut addresses = Vec::new();
    for symbol in module.symbols.values() {
        if symbol.space == StateSpace::Shared {
            shared = shared.next_multiple_of(u64::from(symbol.align.max(16)));
            addresses.push(shared);
            shared += symbol.size;
        } else {
            addresses.push(*next);
            *next += STEP;
        }
    }
    for (symbol, &address) in module.symbols.values().zip(&addresses) {
        if symbol.space == StateSpace::Shared {
            continue;
        }
        let mut bytes = symbol.init.clone();
        bytes.resize(symbol.size as usize, 0);
        for reloc in &symbol.relocs {
            let base = match reloc.target {
                RelocTarget::Symbol { symbol, .. } => addresses[symbol.index()],
                RelocTarget::Func(func) => 16 * u64::from(func.0),
            };
            let value = base.wrapping_add(reloc.addend as u64) >> reloc.shift;
            let (at, size) = (reloc.offset as usize, usize::from(reloc.size));
            bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        }
        memory.pieces.push((address, bytes));
    }
    (addresses, shared as u32)
}

/// Writes the kernel's arguments, and the buffers that they point to, to `memory`. Returns the
/// addresses of the buffers.
fn place_arguments(
    module: &Module,
    launch: &Launch,
    memory: &mut Bare,
    next: &mut u64,
) -> Vec<u64> {
    let id = module.kernel(&launch.kernel).expect("the kernel is there");
    let kernel = module.functions[id]
        .kernel
        .as_ref()
        .expect("it is a kernel");
    let mut space = vec![0; kernel.param_bytes as usize];
    let mut buffers = Vec::new();
    for (param, argument) in kernel.params.iter().zip(&launch.arguments) {
        let bytes = match argument {
            Argument::Scalar(bytes) => bytes.clone(),
            Argument::Buffer(buffer) => {
                buffers.push(*next);
                memory.pieces.push((*next, buffer.bytes.clone()));
                *next += STEP;
                buffers[buffers.len() - 1].to_le_bytes().to_vec()
            }
            Argument::Texels(_) => panic!("a bare machine has no textures"),
        };
        let at = param.offset as usize;
        space[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    memory.pieces.push((PARAMS, space));
    buffers
}

/// Returns the address and the size of each variable in constant memory.
fn constants(module: &Module, symbols: &[u64]) -> std::sync::Arc<[(u64, u64)]> {
    let all = module.symbols.values().zip(symbols);
    let constants = all.filter(|(symbol, _)| symbol.space == StateSpace::Const);
    constants
        .map(|(symbol, &address)| (address, symbol.size))
        .collect()
}

/// Runs the blocks of a launch one after the other. Returns the contents of the launch's buffers at
/// the end.
fn run(module: &Module, code: &Code, launch: &Launch) -> Result<Vec<Vec<u8>>, String> {
    let mut memory = Bare {
        patience: 2_000_000,
        ..Bare::default()
    };
    let mut next = FIRST_BUFFER;
    let kernel = module.kernel(&launch.kernel).expect("the kernel is there");
    // Only kernels that name the registers of reserved shared memory have this memory.
    let text = module.functions[kernel].to_string();
    let reserved_shared = if text.contains("%reserved_smem") {
        1024
    } else {
        0
    };
    let (symbols, static_shared) = place_symbols(module, reserved_shared, &mut memory, &mut next);
    let buffers = place_arguments(module, launch, &mut memory, &mut next);
    let info = LaunchInfo {
        grid: launch.grid,
        block: launch.block,
        cluster: [1; 3],
        params: PARAMS,
        reserved_shared,
        static_shared,
        dynamic_shared: launch.shared,
        spare_shared: 0,
        window_spans: [1 << 32; 2],
        grid_id: 1,
        sm_count: 4,
        sm_warps: 64,
        workspace: 0,
        constants: constants(module, &symbols),
        symbols: SymbolTable::whole(symbols),
        function_base: 0,
    };
    let id = module.kernel(&launch.kernel).expect("the kernel is there");
    let shared = static_shared.next_multiple_of(16) + launch.shared;
    memory.pieces.push((SHARED, vec![0; shared as usize]));
    memory
        .pieces
        .push((LOCAL, vec![0; (STRIDE * info.threads()) as usize]));
    for linear in 0..info.ctas() {
        let cta = CtaInfo {
            index: info.cta_index(linear),
            linear,
            shared_base: SHARED,
            local_base: LOCAL,
            local_stride: STRIDE,
            stack_limit: STRIDE,
            sm: 0,
        };
        let mut state = CtaState::new(info.threads(), Order::Forward);
        let mut interpreter = Interpreter::new(module, code, id, &info, cta, &mut memory);
        let mut turns = 0;
        loop {
            match state.run(&mut interpreter) {
                Ok(CtaOutcome::Done) => break,
                Ok(_) if turns < 10_000 => turns += 1,
                Ok(_) => return Err("the block waits for ever".to_owned()),
                Err(fault) => return Err(format!("{fault:?}")),
            }
        }
    }
    let content = |&address: &u64| {
        let piece = memory.pieces.iter().find(|(base, _)| *base == address);
        piece
            .map(|(_, content)| content.clone())
            .unwrap_or_default()
    };
    Ok(buffers.iter().map(content).collect())
}

/// Returns a description of the first difference between the buffers' contents and the expected
/// contents, or `None` if there is none.
fn judge(launch: &Launch, contents: &[Vec<u8>]) -> Option<String> {
    let buffers = launch.arguments.iter().filter_map(Argument::buffer);
    for (buffer, content) in buffers.zip(contents) {
        let Some((ty, expected)) = &buffer.expected else {
            continue;
        };
        for (at, (found, expected)) in ty.values(content).zip(expected).enumerate() {
            if !ty.agrees(found, *expected, launch.tolerance) {
                let found = ty.show(found);
                return Some(format!("element {at} is {found}, expected {expected:x?}"));
            }
        }
    }
    None
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the file tests are there")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            files(&entry, found);
        } else if entry.extension().is_some_and(|ext| ext == "ptx") {
            found.push(entry);
        }
    }
}

/// Runs, with the interpreter, the launches of a test file that must complete with expected values
/// (not those that must fault or be unsupported). Returns the number of launches that ran, and adds
/// a description of each wrong result to `wrong`.
fn run_file(name: &str, text: &str, wrong: &mut Vec<String>) -> usize {
    let Ok(FileTest::Launches(launches)) = directive::read(text) else {
        return 0;
    };
    let parsed = parse(SourceFile::new(name, text));
    let mut module = match lower(&parsed, &resolve(&parsed)) {
        Ok(module) => module,
        Err(errors) => {
            wrong.push(format!("{name}: {errors:?}"));
            return 0;
        }
    };
    let original = module.clone();
    let acting = Acting::among(original.functions.iter());
    let mut ran = 0;
    for (id, function) in original.functions.iter() {
        if function.has_body() {
            pass::waiting::run(&mut module.functions[id], &original);
            pass::sync_points::run(&mut module.functions[id], &original, &acting);
        }
    }
    ran += run_launches(name, &module, &launches, wrong);
    // `pass::prepare` transforms kernels as for native code. It merges functions in which threads can wait into the
    // kernel that calls them. Run the kernels again for which it emits a check that the frame of such a function fits.
    let mut calls = Vec::new();
    for (id, _) in original.kernels() {
        let prepared = pass::prepare(&original, id, None);
        let mut insts = prepared.blocks().iter().flat_map(|&b| prepared.insts(b));
        if insts.any(|&inst| prepared.dfg.insts[inst].opcode == Opcode::StackCheck) {
            calls.push(prepared.name.clone());
            module.functions[id] = prepared;
        }
    }
    let launches = launches.into_iter();
    let launches: Vec<Launch> = launches.filter(|l| calls.contains(&l.kernel)).collect();
    ran + run_launches(name, &module, &launches, wrong)
}

/// Runs these launches of a module's kernels. Returns the number of launches that ran, and adds a
/// description of each wrong result to `wrong`.
fn run_launches(
    name: &str,
    module: &Module,
    launches: &[Launch],
    wrong: &mut Vec<String>,
) -> usize {
    let code = Code::new(module);
    let mut ran = 0;
    for launch in launches
        .iter()
        .filter(|launch| launch.outcome == Outcome::Values)
    {
        ran += 1;
        let what = match run(module, &code, launch) {
            Ok(contents) => judge(launch, &contents),
            Err(fault) => Some(fault),
        };
        if let Some(what) = what {
            wrong.push(format!("{name}:{}: {}: {what}", launch.at, launch.kernel));
        }
    }
    ran
}

#[test]
fn launches_end_as_they_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/ptx");
    let mut all = Vec::new();
    files(&root, &mut all);
    let (mut wrong, mut ran) = (Vec::new(), 0);
    for path in all {
        let name = path.strip_prefix(&root).unwrap_or(&path).with_extension("");
        let name = name.display().to_string();
        let is_left_out =
            |folder: &str| folder == name || folder.ends_with('/') && name.starts_with(folder);
        if LEFT_OUT.iter().any(|(left_out, _)| is_left_out(left_out)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a file test can be read");
        ran += run_file(&name, &text, &mut wrong);
    }
    assert!(ran > 1000, "only {ran} launches ran");
    assert!(
        wrong.is_empty(),
        "{} of {ran} are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
