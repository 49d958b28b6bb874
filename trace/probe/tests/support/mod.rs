//! Runs probed kernels with the interpreter.

#![allow(dead_code, reason = "each test program uses a part of this module")]

use std::sync::Arc;

use margay_exec::interp::{Code, Interpreter, Machine};
use margay_exec::{CtaInfo, CtaOutcome, CtaState, FaultKind, LaunchInfo, Order, SymbolTable};
use margay_frontend::resolve::resolve;
use margay_frontend::{SourceFile, lower, parse};
use margay_ir::module::Module;
use margay_ir::pass;
use margay_ir::pass::iterations::Acting;
use margay_ir::syscall::Syscall;
use margay_ops::meaning::Bits;
use margay_ops::mods::StateSpace;
use margay_probe::{
    Capacity, Faults, Geometry, MapLayout, Offsets, Options, Outcome, ProbeFile, ResultFile,
    Rewritten, Selection, Storage, compat, load, load_toml, rewrite,
};
use smallvec::SmallVec;

const STEP: u64 = 1 << 40;
const SHARED: u64 = STEP;
const LOCAL: u64 = 2 * STEP;
const PARAMS: u64 = 3 * STEP;
/// The address of the first buffer. The next buffers follow at distances of [`STEP`].
pub(crate) const FIRST: u64 = 4 * STEP;
const STRIDE: u32 = 1 << 14;

/// Memory in separate pieces, and a clock that each read moves by 100.
#[derive(Default)]
struct Device {
    pieces: Vec<(u64, Vec<u8>)>,
    time: u64,
    patience: u64,
}

impl Device {
    fn bytes(&mut self, address: u64, count: u32) -> Result<&mut [u8], FaultKind> {
        let fault = FaultKind::IllegalAddress {
            address: Some(address),
            write: None,
        };
        // As on a GPU, an access must be aligned to its size.
        if !address.is_multiple_of(u64::from(count)) {
            return Err(FaultKind::Unsupported {
                what: format!("misaligned access of {count} bytes at {address:#x}"),
            });
        }
        let inside = |(base, content): &&mut (u64, Vec<u8>)| {
            let at = address.wrapping_sub(*base);
            at < content.len() as u64 && content.len() as u64 - at >= u64::from(count)
        };
        let (base, content) = self.pieces.iter_mut().find(inside).ok_or(fault)?;
        let at = (address - *base) as usize;
        Ok(&mut content[at..at + count as usize])
    }
}

impl Machine for Device {
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
        Err(FaultKind::Unsupported {
            what: which.name().to_owned(),
        })
    }
}

/// An argument of a launch.
#[derive(Clone, Debug)]
pub(crate) enum Argument {
    U32(u32),
    U64(u64),
    /// The address of a buffer with this content.
    Buffer(Vec<u8>),
}

/// A kernel to launch.
#[derive(Clone)]
pub(crate) struct Launch<'l> {
    pub(crate) text: &'l str,
    pub(crate) kernel: &'l str,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) arguments: Vec<Argument>,
}

impl Launch<'_> {
    pub(crate) fn geometry(&self) -> Geometry {
        Geometry {
            grid: self.grid,
            block: self.block,
            shared: 0,
        }
    }

    /// Runs the kernel, and returns the contents of the buffers.
    pub(crate) fn run(&self) -> Vec<Vec<u8>> {
        self.try_run().expect("the launch completes")
    }

    pub(crate) fn try_run(&self) -> Result<Vec<Vec<u8>>, String> {
        let module = lowered(self.text);
        let code = Code::new(&module);
        let id = module.kernel(self.kernel).expect("the kernel is there");
        let mut memory = Device {
            patience: 2_000_000,
            ..Device::default()
        };
        let kernel = module.functions[id]
            .kernel
            .as_ref()
            .expect("it is a kernel");
        assert_eq!(kernel.params.len(), self.arguments.len());
        let mut space = vec![0; kernel.param_bytes as usize];
        let mut next = FIRST;
        let mut buffers = Vec::new();
        for (param, argument) in kernel.params.iter().zip(&self.arguments) {
            let bytes = match argument {
                Argument::U32(value) => value.to_le_bytes().to_vec(),
                Argument::U64(value) => value.to_le_bytes().to_vec(),
                Argument::Buffer(content) => {
                    buffers.push(next);
                    memory.pieces.push((next, content.clone()));
                    next += STEP;
                    (next - STEP).to_le_bytes().to_vec()
                }
            };
            let at = param.offset as usize;
            space[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        memory.pieces.push((PARAMS, space));
        let (symbols, static_shared) = place_symbols(&module, &mut memory, &mut next);
        let info = LaunchInfo {
            grid: self.grid,
            block: self.block,
            cluster: [1; 3],
            params: PARAMS,
            static_shared,
            window_spans: [1 << 32; 2],
            grid_id: 1,
            sm_count: 4,
            sm_warps: 64,
            symbols: SymbolTable::whole(symbols),
            ..LaunchInfo::default()
        };
        memory
            .pieces
            .push((SHARED, vec![0; static_shared.next_multiple_of(16) as usize]));
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
                sm: linear as u32 % 4,
            };
            let mut state = CtaState::new(info.threads(), Order::Forward);
            let mut interpreter = Interpreter::new(&module, &code, id, &info, cta, &mut memory);
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
        let content = |address: &u64| {
            let piece = memory.pieces.iter().find(|(base, _)| base == address);
            piece
                .map(|(_, content)| content.clone())
                .unwrap_or_default()
        };
        Ok(buffers.iter().map(content).collect())
    }

    /// Runs the kernel with probes.
    pub(crate) fn probed(&self, file: &ProbeFile) -> Ran {
        self.probed_with(file, Options::default(), 1 << 16)
    }

    /// Runs the kernel with probes, and dynamic maps with `reserve` bytes.
    pub(crate) fn probed_with(&self, file: &ProbeFile, options: Options, reserve: u64) -> Ran {
        let rewritten = rewritten(self.text, file, options);
        assert_probed(&rewritten, self.kernel);
        let launch = self.geometry();
        let layouts: Vec<MapLayout> = file
            .maps
            .iter()
            .map(|map| MapLayout::new(map, Storage::Counted))
            .collect();
        let mut arguments = self.arguments.clone();
        let own = buffer_count(&arguments);
        for layout in &layouts {
            let bytes = match layout.capacity {
                Capacity::Dynamic => reserve,
                Capacity::Records(_) => layout.device_bytes(&launch).expect("it fits"),
            };
            let mut memory = vec![0; bytes as usize];
            let header = layout.header(bytes);
            memory[..header.len()].copy_from_slice(&header);
            arguments.push(Argument::Buffer(memory));
        }
        let dynamic = layouts
            .iter()
            .filter(|layout| layout.capacity == Capacity::Dynamic);
        arguments.extend(dynamic.map(|layout| Argument::U32(layout.chunk_bytes())));
        let probed = Launch {
            text: &rewritten.text,
            arguments,
            ..self.clone()
        };
        let mut buffers = probed.run();
        let memories = buffers.split_off(own);
        let sections = layouts.iter().zip(&memories).map(|(layout, memory)| {
            let used = layout.used_bytes(&memory[..32], memory.len() as u64) as usize;
            layout
                .section(&memory[..used], &launch)
                .expect("the memory is sound")
        });
        let sections: Vec<_> = sections.collect();
        let dropped = sections.iter().map(|section| section.dropped).collect();
        let mut bytes = Vec::new();
        let result = ResultFile {
            launch,
            sections,
            offsets: Offsets::Exact,
        };
        result
            .write(&mut bytes)
            .expect("a vector accepts all bytes");
        assert_eq!(bytes.len() as u64, result.bytes());
        Ran {
            buffers,
            file: bytes,
            dropped,
        }
    }

    /// Runs the kernel as the original engine does: the counting run if the file needs it, then the probed kernel.
    /// Returns the buffers, and the memory of each map.
    pub(crate) fn compat(&self, file: &ProbeFile) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let kernel =
            compat::probe("test.ptx", self.text, self.kernel, file).expect("the probes fit");
        let launch = self.geometry();
        let threads = launch.ctas().expect("few") * launch.threads().expect("few");
        let own = buffer_count(&self.arguments);
        let mut count = 0;
        if let Some(countd) = &kernel.countd {
            let mut arguments = self.arguments.clone();
            arguments.push(Argument::Buffer(vec![0; 8 * threads as usize]));
            let counting = Launch {
                text: countd,
                arguments,
                ..self.clone()
            };
            let counts = counting.run().swap_remove(own);
            count = words(&counts).into_iter().max().unwrap_or(0) as u32;
        }
        let mut arguments = self.arguments.clone();
        for map in &file.maps {
            let layout = MapLayout::new(map, Storage::Plain);
            let bytes = match map.capacity {
                Capacity::Dynamic => layout.plain_bytes(&launch, count),
                Capacity::Records(_) => layout.device_bytes(&launch),
            };
            arguments.push(Argument::Buffer(vec![0; bytes.expect("it fits") as usize]));
        }
        if file.is_dynamic() {
            arguments.push(Argument::U32(count));
        }
        let probed = Launch {
            text: &kernel.probed,
            arguments,
            ..self.clone()
        };
        let mut buffers = probed.run();
        let maps = buffers.split_off(own);
        (buffers, maps)
    }
}

fn buffer_count(arguments: &[Argument]) -> usize {
    arguments
        .iter()
        .filter(|argument| matches!(argument, Argument::Buffer(_)))
        .count()
}

/// What a probed launch left.
pub(crate) struct Ran {
    pub(crate) buffers: Vec<Vec<u8>>,
    /// The result file.
    pub(crate) file: Vec<u8>,
    /// For each map, the number of dropped saves.
    pub(crate) dropped: Vec<u64>,
}

impl Ran {
    /// Returns the bytes of a slot of a map.
    pub(crate) fn slot(&self, map: usize, slot: u64) -> Vec<u8> {
        let trace = margay_probe::Trace::read(&self.file).expect("the file is sound");
        trace.slot(map, slot).expect("the slot is there").to_vec()
    }

    /// Returns the 64-bit words of a slot.
    pub(crate) fn words(&self, map: usize, slot: u64) -> Vec<u64> {
        words(&self.slot(map, slot))
    }
}

pub(crate) fn words(bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
        .collect()
}

pub(crate) fn halves(bytes: &[u8]) -> Vec<u32> {
    bytes
        .chunks(4)
        .map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes")))
        .collect()
}

fn place_symbols(module: &Module, memory: &mut Device, next: &mut u64) -> (Vec<u64>, u32) {
    let mut shared = 0;
    let mut addresses = Vec::new();
    for symbol in module.symbols.values() {
        if symbol.space == StateSpace::Shared {
            shared = u64::next_multiple_of(shared, u64::from(symbol.align.max(16)));
            addresses.push(shared);
            shared += symbol.size;
            continue;
        }
        let mut bytes = symbol.init.clone();
        bytes.resize(symbol.size as usize, 0);
        memory.pieces.push((*next, bytes));
        addresses.push(*next);
        *next += STEP;
    }
    (addresses, shared as u32)
}

/// Parses, resolves and lowers a text that has no errors.
pub(crate) fn lowered(text: &str) -> Module {
    let parsed = parse(Arc::new(SourceFile::new("test.ptx", text)));
    assert!(!parsed.has_errors(), "{:?}\n{text}", parsed.diagnostics);
    let resolution = resolve(&parsed);
    assert!(
        !resolution.has_errors(),
        "{:?}\n{text}",
        resolution.diagnostics
    );
    let mut module = lower(&parsed, &resolution).expect("the text has a meaning");
    let original = module.clone();
    let acting = Acting::among(original.functions.iter());
    for (id, function) in original.functions.iter() {
        if function.has_body() {
            pass::waiting::run(&mut module.functions[id], &original);
            pass::sync_points::run(&mut module.functions[id], &original, &acting);
        }
    }
    module
}

pub(crate) fn shipped(name: &str) -> ProbeFile {
    load(name, None, Faults::Fixed).expect("the shipped probe file is valid")
}

pub(crate) fn toml(text: &str) -> ProbeFile {
    load_toml("test.toml", text).expect("the probe file is valid")
}

pub(crate) fn rewritten(text: &str, file: &ProbeFile, options: Options) -> Rewritten {
    let parsed = parse(Arc::new(SourceFile::new("test.ptx", text)));
    rewrite(&parsed, file, &Selection::default(), options).expect("the module can be probed")
}

pub(crate) fn assert_probed(rewritten: &Rewritten, kernel: &str) {
    let found = rewritten
        .kernels
        .iter()
        .find(|found| found.name == kernel)
        .expect("the kernel is there");
    assert!(
        matches!(found.outcome, Outcome::Probed(_)),
        "{:?}",
        found.outcome
    );
}

/// `c[i] = a[i] + b[i]` for `i < n`, as compilers write it.
pub(crate) const VECADD: &str = "
.version 7.0
.target sm_80
.address_size 64

.visible .entry vecadd(
\t.param .u64 vecadd_param_0,
\t.param .u64 vecadd_param_1,
\t.param .u64 vecadd_param_2,
\t.param .u32 vecadd_param_3
)
{
\t.reg .pred \t%p<2>;
\t.reg .b32 \t%r<7>;
\t.reg .f32 \t%f<4>;
\t.reg .b64 \t%rd<11>;

\tld.param.u64 \t%rd1, [vecadd_param_0];
\tld.param.u64 \t%rd2, [vecadd_param_1];
\tld.param.u64 \t%rd3, [vecadd_param_2];
\tld.param.u32 \t%r2, [vecadd_param_3];
\tmov.u32 \t%r3, %ctaid.x;
\tmov.u32 \t%r4, %ntid.x;
\tmov.u32 \t%r5, %tid.x;
\tmad.lo.s32 \t%r1, %r3, %r4, %r5;
\tsetp.ge.s32 \t%p1, %r1, %r2;
\t@%p1 bra \t$L__BB0_2;

\tcvta.to.global.u64 \t%rd4, %rd1;
\tmul.wide.s32 \t%rd5, %r1, 4;
\tadd.s64 \t%rd6, %rd4, %rd5;
\tcvta.to.global.u64 \t%rd7, %rd2;
\tadd.s64 \t%rd8, %rd7, %rd5;
\tld.global.f32 \t%f1, [%rd8];
\tld.global.f32 \t%f2, [%rd6];
\tadd.f32 \t%f3, %f2, %f1;
\tcvta.to.global.u64 \t%rd9, %rd3;
\tadd.s64 \t%rd10, %rd9, %rd5;
\tst.global.f32 \t[%rd10], %f3;

$L__BB0_2:
\tret;
}
";

/// A launch of [`VECADD`] with `threads` threads in blocks of `block`, and `n` elements.
pub(crate) fn vecadd(threads: u32, block: u32, n: u32) -> Launch<'static> {
    let floats = |step: f32| {
        let values = (0..threads).map(|i| step * i as f32);
        Argument::Buffer(values.flat_map(f32::to_le_bytes).collect())
    };
    Launch {
        text: VECADD,
        kernel: "vecadd",
        grid: [threads.div_ceil(block), 1, 1],
        block: [block, 1, 1],
        arguments: vec![floats(1.0), floats(0.5), floats(0.0), Argument::U32(n)],
    }
}
