//! Runs machine code, and compares it with the interpreter. This is the only module of the tests with unsafe code.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, Ordering};

use margay_ops::meaning::{Bits, mask};
use margay_ops::types::{Kind, Type};
use margay_vir::function::Function;
use margay_vir::interpreter::{Environment, Fault, run};
use margay_vir::meaning::Lanes;
use margay_vir::{parse, verify};
use margay_x64::code::{Operation, Place, Symbol, bytes_of, layout};
use margay_x64::faults::Registers;
use margay_x64::{BlockOrder, Code, Convention, Features, Target, apply, compile_with};
use memmap2::{Mmap, MmapMut};

/// Code in executable memory.
pub(crate) struct Loaded {
    memory: Mmap,
    code: Code,
    /// The operations to which the code refers by their addresses.
    _operations: Vec<Operation>,
}

/// Parses a function, which must be valid.
pub(crate) fn parsed(text: &str) -> Function {
    let function = parse::function(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let problems = verify::function(&function);
    assert!(problems.is_empty(), "{problems:?}\n{text}");
    function
}

/// The targets whose code this host runs, with their names.
pub(crate) fn targets() -> Vec<(&'static str, Target)> {
    let host = Features::host();
    let target = |features, prefers_256_bits| Target {
        features,
        prefers_256_bits,
    };
    let all = [
        ("avx512 of the host", target(host, false)),
        ("avx512", target(Features::LEVEL_AVX512, false)),
        ("avx512 with 256 bits", target(Features::LEVEL_AVX512, true)),
        ("avx2", target(Features::LEVEL_AVX2, false)),
    ];
    let runs = |target: &Target| host.contains(target.features) && !target.features.is_empty();
    all.into_iter().filter(|(_, target)| runs(target)).collect()
}

extern "sysv64" fn combined(a: u64, b: u32) -> u64 {
    a.wrapping_mul(3) ^ u64::from(b)
}

extern "sysv64" fn scaled(x: f32, y: f64, n: u32) -> f64 {
    f64::from(x) * y + f64::from(n)
}

/// What a helper computes.
type Meaning = fn(&[Bits], &mut [Bits]);

/// Helpers by name: the address, and what the interpreter computes.
fn helper(name: &str) -> (u64, Meaning) {
    match name {
        "combined" => (combined as *const () as u64, |args, results| {
            results[0] = combined(args[0] as u64, args[1] as u32).into();
        }),
        "scaled" => (scaled as *const () as u64, |args, results| {
            let y = f64::from_bits(args[1] as u64);
            results[0] = scaled(f32::from_bits(args[0] as u32), y, args[2] as u32)
                .to_bits()
                .into();
        }),
        _ => panic!("unknown helper {name}"),
    }
}

impl Loaded {
    /// Compiles and loads a function.
    pub(crate) fn new(function: &Function, target: &Target) -> Loaded {
        Loaded::with(function, target, Convention::Blocks)
    }

    /// Compiles and loads a function for callers of a convention.
    pub(crate) fn with(function: &Function, target: &Target, convention: Convention) -> Loaded {
        // The order does not change results, so each function is tested with one.
        let order = match function.order.len() % 2 {
            0 => BlockOrder::Code,
            _ => BlockOrder::Loops,
        };
        let code = compile_with(function, target, convention, order);
        let code = code.unwrap_or_else(|error| panic!("{error}\n{function}"));
        crate::decoded::check(&code, target.features);
        let operations = code.operations.clone();
        let mut memory = MmapMut::map_anon(code.bytes.len()).expect("memory for code");
        memory[..code.bytes.len()].copy_from_slice(&code.bytes);
        for slot in &code.symbols {
            let address = match slot.symbol {
                Symbol::Helper(number) => helper(&function.helpers[number as usize].name).0,
                Symbol::Apply => apply::margay_x64_apply as *const () as u64,
                Symbol::Operation(number) => {
                    std::ptr::from_ref(&operations[number as usize]) as u64
                }
            };
            memory[slot.offset as usize..][..8].copy_from_slice(&address.to_le_bytes());
        }
        let memory = memory.make_exec().expect("executable memory");
        Loaded {
            memory,
            code,
            _operations: operations,
        }
    }

    /// Calls the code of a function with three scalar integers and one as the result, which gets them in registers.
    pub(crate) fn call(&self, args: [u64; 3]) -> u64 {
        // SAFETY: the code has this signature.
        let entry: extern "sysv64" fn(u64, u64, u64) -> u64 =
            unsafe { std::mem::transmute(self.memory.as_ptr()) };
        entry(args[0], args[1], args[2])
    }

    /// Runs the code, which must not fault.
    pub(crate) fn run(
        &self,
        signature: &margay_ir::function::Signature,
        args: &[Lanes],
    ) -> Vec<Lanes> {
        let (_, size) = layout(&signature.params);
        let mut bytes = vec![0; size.next_multiple_of(64) as usize];
        let (_, size) = layout(&signature.returns);
        let mut results = vec![Block([0xa5; 64]); size.div_ceil(64) as usize + 1];
        for ((lanes, &ty), &offset) in args.iter().zip(&signature.params).zip(&self.code.arguments)
        {
            write(&mut bytes[offset as usize..], ty, lanes);
        }
        let blocks = bytes.chunks_exact(64);
        let arguments: Vec<Block> = blocks
            .map(|block| Block(block.try_into().expect("64 bytes")))
            .collect();
        let mut preserved = [0u64; 6];
        // SAFETY: the code has this signature, and the blocks are as large as it expects. The registers that it must
        // preserve, whether it does or not, are restored.
        unsafe {
            std::arch::asm!(
                "push rbx", "push rbp", "push r12", "push r13", "push r14", "push r15", "push rdx",
                "mov rbx, 0x11", "mov rbp, 0x12", "mov r12, 0x13", "mov r13, 0x14", "mov r14, 0x15", "mov r15, 0x16",
                "call rax",
                "pop rdx",
                "mov [rdx], rbx", "mov [rdx + 8], rbp", "mov [rdx + 16], r12",
                "mov [rdx + 24], r13", "mov [rdx + 32], r14", "mov [rdx + 40], r15",
                "pop r15", "pop r14", "pop r13", "pop r12", "pop rbp", "pop rbx",
                inout("rax") self.memory.as_ptr() => _,
                inout("rdi") arguments.as_ptr() => _,
                inout("rsi") results.as_mut_ptr() => _,
                inout("rdx") preserved.as_mut_ptr() => _,
                clobber_abi("sysv64"),
            );
        }
        assert_eq!(
            preserved,
            [0x11, 0x12, 0x13, 0x14, 0x15, 0x16],
            "the code changed preserved registers"
        );
        let bytes: Vec<u8> = results.iter().flat_map(|block| block.0).collect();
        let results = signature.returns.iter().zip(&self.code.results);
        results
            .map(|(&ty, &offset)| read(&bytes[offset as usize..], ty))
            .collect()
    }
}

/// What a process writes when its code faults: the instruction pointer, the address of the fault, and the general
/// registers.
type Report = [u64; 18];

/// The pipe to which the handler of faults writes.
static PIPE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn report_fault(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    use libc::{REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    use libc::{REG_RAX, REG_RBP, REG_RBX, REG_RCX, REG_RDI, REG_RDX, REG_RSI, REG_RSP};
    let order = [
        REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI, REG_R8, REG_R9,
        REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
    ];
    let mut report: Report = [0; 18];
    // SAFETY: the system passes a valid context and information to the handler, and the pipe is open. The process ends.
    unsafe {
        let registers = &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        report[0] = registers[REG_RIP as usize] as u64;
        report[1] = (*info).si_addr() as u64;
        for (to, from) in report[2..].iter_mut().zip(order) {
            *to = registers[from as usize] as u64;
        }
        let size = std::mem::size_of::<Report>();
        libc::write(PIPE.load(Ordering::Relaxed), report.as_ptr().cast(), size);
        libc::_exit(0);
    }
}

/// The fault of code.
pub(crate) struct NativeFault {
    pub(crate) place: Place,
    pub(crate) registers: Registers,
    pub(crate) address: u64,
}

impl Loaded {
    pub(crate) fn code(&self) -> &Code {
        &self.code
    }

    /// Runs the code in another process, and returns its fault; `None` if it does not fault.
    pub(crate) fn fault(
        &self,
        signature: &margay_ir::function::Signature,
        args: &[Lanes],
    ) -> Option<NativeFault> {
        let mut ends = [0; 2];
        let mut report: Report = [0; 18];
        // SAFETY: the other process runs only the code and then ends. The handler gets what `SA_SIGINFO` states.
        let count = unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            let child = libc::fork();
            if child == 0 {
                PIPE.store(ends[1], Ordering::Relaxed);
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = report_fault as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO;
                libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
                self.run(signature, args);
                libc::_exit(0);
            }
            libc::close(ends[1]);
            let size = std::mem::size_of::<Report>();
            let count = libc::read(ends[0], report.as_mut_ptr().cast(), size);
            libc::close(ends[0]);
            libc::waitpid(child, std::ptr::null_mut(), 0);
            count
        };
        if count == 0 {
            return None;
        }
        let offset = report[0] - self.memory.as_ptr() as u64;
        let mut places = self.code.places.iter();
        let place = places.find(|place| u64::from(place.offset) == offset);
        Some(NativeFault {
            place: *place.expect("the instruction has a place"),
            registers: Registers {
                general: std::array::from_fn(|number| report[2 + number]),
                masks: [0; 8],
            },
            address: report[1],
        })
    }
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Block([u8; 64]);

fn write(bytes: &mut [u8], ty: Type, lanes: &[Bits]) {
    if ty.kind() == Kind::Pred {
        let bits = (0..).zip(lanes).map(|(n, &lane)| lane << n).sum::<Bits>() as u64;
        let size = bytes_of(ty) as usize;
        return bytes[..size].copy_from_slice(&bits.to_le_bytes()[..size]);
    }
    let size = ty.lane_bytes() as usize;
    for (to, lane) in bytes.chunks_exact_mut(size).zip(lanes) {
        to.copy_from_slice(&lane.to_le_bytes()[..size]);
    }
}

fn read(bytes: &[u8], ty: Type) -> Lanes {
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |bits: Bits, &byte| bits << 8 | Bits::from(byte))
    };
    if ty.kind() == Kind::Pred {
        let bits = number(&bytes[..bytes_of(ty) as usize]);
        assert!(
            bits & !mask(ty.lanes()) == 0,
            "bits beyond the lanes of a mask: {bits:#x}"
        );
        return (0..ty.lanes()).map(|n| bits >> n & 1).collect();
    }
    let chunks = bytes.chunks_exact(ty.lane_bytes() as usize);
    chunks.take(ty.lanes() as usize).map(number).collect()
}

/// Memory of both engines: the interpreter has a copy, at the same addresses.
pub(crate) struct Memory {
    pub(crate) bytes: Vec<u8>,
}

impl Memory {
    pub(crate) fn new(bytes: Vec<u8>) -> Memory {
        Memory { bytes }
    }

    pub(crate) fn address(&self) -> u64 {
        self.bytes.as_ptr() as u64
    }
}

struct Machine<'a> {
    function: &'a Function,
    start: u64,
    bytes: Vec<u8>,
    slots: BTreeMap<usize, u64>,
    slot_bytes: Vec<u8>,
}

/// The address of the interpreter's slots.
const SLOTS: u64 = 0x1000_0000;

impl Machine<'_> {
    fn part(&mut self, address: u64, bytes: u32) -> Option<&mut [u8]> {
        let (start, memory) = match address.checked_sub(self.start) {
            Some(offset) if (offset as usize) < self.bytes.len() => (offset, &mut self.bytes),
            _ => (address.checked_sub(SLOTS)?, &mut self.slot_bytes),
        };
        memory.get_mut(start as usize..)?.get_mut(..bytes as usize)
    }
}

impl Environment for Machine<'_> {
    fn load(&mut self, address: u64, bytes: u32) -> Option<Bits> {
        let part = self.part(address, bytes)?;
        Some(
            part.iter()
                .rev()
                .fold(0, |bits, &byte| bits << 8 | Bits::from(byte)),
        )
    }
    fn store(&mut self, address: u64, bytes: u32, value: Bits) -> Option<()> {
        let part = self.part(address, bytes)?;
        part.copy_from_slice(&value.to_le_bytes()[..bytes as usize]);
        Some(())
    }
    fn slot(&mut self, slot: usize) -> u64 {
        *self.slots.entry(slot).or_insert(SLOTS + 4096 * slot as u64)
    }
    fn call(&mut self, number: usize, args: &[Bits], results: &mut [Bits]) -> Option<()> {
        helper(&self.function.helpers[number].name).1(args, results);
        Some(())
    }
}

/// Runs a function in the interpreter, in memory of zeros that begins at an address.
pub(crate) fn interpreted_in_zeros(
    function: &Function,
    args: &[Lanes],
    (start, bytes): (u64, usize),
) -> Result<Vec<Lanes>, Fault> {
    let mut machine = Machine {
        function,
        start,
        bytes: vec![0; bytes],
        slots: BTreeMap::new(),
        slot_bytes: vec![0; 65536],
    };
    run(function, args, &mut machine, 1_000_000)
}

/// Runs a function in the interpreter; the memory changes.
pub(crate) fn interpreted(
    function: &Function,
    args: &[Lanes],
    memory: &mut Memory,
) -> Result<Vec<Lanes>, Fault> {
    let mut machine = Machine {
        function,
        start: memory.address(),
        bytes: memory.bytes.clone(),
        slots: BTreeMap::new(),
        slot_bytes: vec![0; 65536],
    };
    let result = run(function, args, &mut machine, 1_000_000);
    memory.bytes.copy_from_slice(&machine.bytes);
    result
}

/// Whether two values are equal or both NaN.
fn same_lane(kind: Kind, left: Bits, right: Bits) -> bool {
    let is_nan = |bits: Bits| match kind {
        Kind::F32 => f32::from_bits(bits as u32).is_nan(),
        Kind::F64 => f64::from_bits(bits as u64).is_nan(),
        _ => false,
    };
    left == right || is_nan(left) && is_nan(right)
}

/// As [`same_lane`], for pairs of `f32`.
fn same_pair(left: Bits, right: Bits) -> bool {
    [0, 32].into_iter().all(|shift| {
        same_lane(
            Kind::F32,
            left >> shift & mask(32),
            right >> shift & mask(32),
        )
    })
}

/// Compares results; the bits of a NaN are not compared. The lanes of `b64` are pairs of `f32` if `has_pairs` is set.
pub(crate) fn same(types: &[Type], left: &[Lanes], right: &[Lanes], has_pairs: bool) -> bool {
    types
        .iter()
        .zip(left)
        .zip(right)
        .all(|((ty, left), right)| {
            let lane = |(&left, &right): (&Bits, &Bits)| match ty.kind() {
                Kind::B64 if has_pairs => same_pair(left, right),
                kind => same_lane(kind, left, right),
            };
            left.len() == right.len() && left.iter().zip(right).all(lane)
        })
}

/// Compiles a function for all targets that this host runs, and compares results and memory with the interpreter's.
pub(crate) fn check(function: &Function, args: &[Lanes], memory: &mut Memory) {
    let before = memory.bytes.clone();
    for target in &targets() {
        memory.bytes.copy_from_slice(&before);
        check_for(target, function, &[args.to_vec()], memory);
    }
}

/// Compiles a function for a target, and compares results and memory with the interpreter's for each of `inputs`.
pub(crate) fn check_for(
    (name, target): &(&str, Target),
    function: &Function,
    inputs: &[Vec<Lanes>],
    memory: &mut Memory,
) {
    let loaded = Loaded::new(function, target);
    for args in inputs {
        let before = memory.bytes.clone();
        let expected = interpreted(function, args, memory).expect("no fault");
        // The code must find the contents at the same address.
        let after = memory.bytes.clone();
        memory.bytes.copy_from_slice(&before);
        let results = loaded.run(&function.signature, args);
        assert!(
            same(
                &function.signature.returns,
                &results,
                &expected,
                has_pairs(function)
            ),
            "{name}\n{function}\narguments {args:x?}\nnative   {results:x?}\nexpected {expected:x?}"
        );
        assert!(
            memory.bytes == after,
            "{name}: memory differs\n{function}\narguments {args:x?}"
        );
    }
}

/// Whether the lanes of `b64` results are pairs of `f32`.
fn has_pairs(function: &Function) -> bool {
    let is_pair = |data: &margay_vir::function::InstData| match data.data {
        margay_vir::data::Data::Lane(desc) => desc.ty == margay_ops::types::OpType::F32x2,
        _ => false,
    };
    function.insts.values().any(is_pair)
}

/// Memory between memory that is not accessible.
pub(crate) struct Guarded {
    memory: MmapMut,
}

const PAGE: usize = 4096;

impl Guarded {
    pub(crate) fn new() -> Guarded {
        let mut memory = MmapMut::map_anon(4 * PAGE).expect("memory");
        for page in [0, 3] {
            // SAFETY: the page belongs to the mapping, and nothing else uses it.
            let result = unsafe {
                libc::mprotect(
                    memory.as_mut_ptr().add(page * PAGE).cast(),
                    PAGE,
                    libc::PROT_NONE,
                )
            };
            assert_eq!(result, 0);
        }
        Guarded { memory }
    }

    /// Returns the address of the first byte that is accessible.
    pub(crate) fn start(&self) -> u64 {
        self.memory.as_ptr() as u64 + PAGE as u64
    }

    /// Returns the address of the first byte that is not accessible.
    pub(crate) fn end(&self) -> u64 {
        self.memory.as_ptr() as u64 + 3 * PAGE as u64
    }
}
