//! Compiles functions for the host and runs them.

use std::ffi::c_int;
use std::sync::Once;

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{self, UserFuncName};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use margay_clif::abi::{ALIGNMENT, Entry, Layout, Origin, entry_signature};
use margay_clif::apply::{Apply, LaneCall};
use margay_clif::symbols::{Site, Symbol};
use margay_clif::{Machine, Report, lower};
use margay_ops::meaning::Bits;
use margay_ops::types::{Kind, Type};
use margay_vir::function::Function;
use margay_vir::meaning::Lanes;
use memmap2::{Mmap, MmapMut};

/// The address of a helper.
pub(crate) type Helper = *const u8;

/// A compiled function.
pub(crate) struct Program {
    code: Mmap,
    params: Vec<Type>,
    returns: Vec<Type>,
    /// The ranges of code offsets with the same origin.
    origins: Vec<(u32, u32, Option<Origin>)>,
    pub(crate) report: Report,
}

/// How a run in a child process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The function returned.
    Returned,
    /// A signal, the origin of the instruction that raised it, and the address that it accessed.
    Signal {
        number: c_int,
        origin: Option<Origin>,
        address: u64,
    },
}

unsafe extern "C" fn apply(call: *const LaneCall, operands: *const u8, results: *mut u8) {
    // SAFETY: generated code passes a description of the program's report, and areas with the sizes that it states.
    let (call, operands, results) = unsafe {
        let call = &*call;
        (
            call,
            std::slice::from_raw_parts(operands, call.operand_bytes()),
            std::slice::from_raw_parts_mut(results, call.result_bytes()),
        )
    };
    call.apply(operands, results);
}

/// Returns the code generator for the least machine of the host's kind on which generated code runs.
fn least() -> cranelift_codegen::isa::Builder {
    let mut builder = cranelift_native::builder_with_options(false).unwrap();
    if cfg!(target_arch = "x86_64") {
        for feature in [
            "has_cmpxchg16b",
            "has_sse3",
            "has_ssse3",
            "has_sse41",
            "has_sse42",
            "has_popcnt",
        ] {
            builder.enable(feature).unwrap();
        }
    }
    builder
}

/// Returns the Cranelift code generator for the host.
fn host(has_fma: bool, opt_level: &str) -> OwnedTargetIsa {
    let mut flags = settings::builder();
    for (name, value) in [
        ("opt_level", opt_level),
        ("enable_verifier", "true"),
        ("is_pic", "false"),
        ("enable_probestack", "true"),
        ("probestack_strategy", "inline"),
    ] {
        flags.set(name, value).unwrap();
    }
    let builder = match has_fma {
        true => cranelift_native::builder(),
        false => Ok(least()),
    };
    let builder = builder.expect("the host has a code generator");
    builder.finish(settings::Flags::new(flags)).unwrap()
}

/// Returns the Cranelift function of a function.
pub(crate) fn lowered(
    function: &Function,
    convention: CallConv,
    has_fma: bool,
) -> (ir::Function, Report) {
    let mut native =
        ir::Function::with_name_signature(UserFuncName::user(0, 0), entry_signature(convention));
    let mut scratch = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut native, &mut scratch);
    let report = lower(function, &mut builder, Machine { has_fma }).unwrap();
    let config = host(false, "none").frontend_config();
    builder.finalize(config);
    (native, report)
}

impl Program {
    pub(crate) fn new(function: &Function, helpers: &[Helper]) -> Program {
        Program::with(function, helpers, (true, "speed"))
    }

    /// Compiles a function with the instructions of the host or of the least machine of its kind, at an optimisation level of Cranelift.
    pub(crate) fn with(
        function: &Function,
        helpers: &[Helper],
        (has_fma, opt_level): (bool, &str),
    ) -> Program {
        let isa = host(has_fma, opt_level);
        let (native, report) = lowered(function, isa.default_call_conv(), has_fma);
        let mut context = Context::for_function(native);
        if let Err(error) = context.compile(&*isa, &mut ControlPlane::default()) {
            panic!("{:?}\n{function}\n{}", error.inner, error.func);
        }
        let compiled = context.compiled_code().unwrap();
        let mut code = compiled.code_buffer().to_vec();
        for relocation in compiled.buffer.relocs() {
            let site =
                Site::of(&context.func, relocation).unwrap_or_else(|| panic!("{relocation:?}"));
            let address = match site.symbol {
                Symbol::Helper(number) => helpers[number as usize] as u64,
                Symbol::Apply => apply as Apply as *const u8 as u64,
                Symbol::LaneCall(number) => {
                    std::ptr::from_ref::<LaneCall>(&report.lane_calls[number as usize]) as u64
                }
            };
            let start = site.offset as usize;
            code[start..start + 8].copy_from_slice(&address.to_ne_bytes());
        }
        let origins = compiled.buffer.get_srclocs_sorted();
        let mut pages = MmapMut::map_anon(code.len()).unwrap();
        pages.copy_from_slice(&code);
        Program {
            code: pages.make_exec().unwrap(),
            params: function.signature.params.clone(),
            returns: function.signature.returns.clone(),
            origins: origins
                .iter()
                .map(|place| (place.start, place.end, Origin::of(place.loc)))
                .collect(),
            report,
        }
    }

    fn call(&self, arguments: &[Cell], results: &mut [Cell]) {
        // SAFETY: the code is that of a function with this signature.
        let entry: Entry = unsafe { std::mem::transmute(self.code.as_ptr()) };
        // SAFETY: arguments and results have the layouts of the function. The tests' functions access only memory that
        // their arguments name.
        unsafe { entry(arguments.as_ptr().cast(), results.as_mut_ptr().cast()) };
    }

    /// Returns memory for values. Its bits are not zero, so that code that reads beyond a value is noticed.
    fn area(types: &[Type]) -> (Layout, Vec<Cell>) {
        let layout = Layout::of(types);
        let count = layout.size.div_ceil(ALIGNMENT).max(1);
        (
            layout,
            vec![Cell([0xa5; ALIGNMENT as usize]); count as usize],
        )
    }

    fn arguments(&self, args: &[Lanes]) -> Vec<Cell> {
        let (layout, mut cells) = Program::area(&self.params);
        for ((lanes, ty), start) in args.iter().zip(&self.params).zip(layout.offsets) {
            let bytes = bytes_of(&mut cells);
            if ty.kind() == Kind::Pred && ty.lanes() > 1 {
                let each = (0..).zip(lanes).map(|(n, &bit)| bit << n);
                write(bytes, start, 8, each.sum());
                continue;
            }
            for (n, &bits) in (0..).zip(lanes) {
                write(bytes, start + n * ty.lane_bytes(), ty.lane_bytes(), bits);
            }
        }
        cells
    }

    /// Runs the function and returns its results.
    pub(crate) fn run(&self, args: &[Lanes]) -> Vec<Lanes> {
        let arguments = self.arguments(args);
        let (layout, mut results) = Program::area(&self.returns);
        self.call(&arguments, &mut results);
        let returns = self.returns.iter().zip(layout.offsets);
        returns
            .map(|(ty, start)| {
                let bytes = bytes_of(&mut results);
                if ty.kind() == Kind::Pred && ty.lanes() > 1 {
                    let bits = read(bytes, start, 8);
                    return (0..ty.lanes()).map(|n| bits >> n & 1).collect();
                }
                (0..ty.lanes())
                    .map(|n| read(bytes, start + n * ty.lane_bytes(), ty.lane_bytes()))
                    .collect()
            })
            .collect()
    }

    fn origin_at(&self, pc: u64) -> Option<Origin> {
        let offset = pc.checked_sub(self.code.as_ptr() as u64)?;
        let mut origins = self.origins.iter();
        let found = origins.find(|&&(start, end, _)| (start.into()..end.into()).contains(&offset));
        found?.2
    }

    /// Runs the function in a child process, in which faults do no harm. Its writes to private memory are lost.
    pub(crate) fn end(&self, args: &[Lanes]) -> End {
        let arguments = self.arguments(args);
        let (_, mut results) = Program::area(&self.returns);
        let shared = shared_words();
        // SAFETY: the child only runs the code, which allocates nothing, and ends.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork");
        if child == 0 {
            catch_signals(shared);
            self.call(&arguments, &mut results);
            // SAFETY: `_exit` has no preconditions.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: `child` is a child of this process that nothing else waits for.
        let waited = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        assert_eq!(waited, child);
        // SAFETY: the mapping has three words, and the child, which has ended, is the only other process that has it.
        let [number, pc, address] = unsafe { shared.read() };
        // SAFETY: the mapping has this size, and nothing uses it any more.
        unsafe { libc::munmap(shared.cast(), size_of::<[u64; 3]>()) };
        match number {
            0 => End::Returned,
            _ => End::Signal {
                number: number as c_int,
                origin: self.origin_at(pc),
                address,
            },
        }
    }
}

/// Returns three words of memory that child processes share.
fn shared_words() -> *mut [u64; 3] {
    // SAFETY: a new anonymous mapping overlaps nothing.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size_of::<[u64; 3]>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(memory, libc::MAP_FAILED);
    memory.cast()
}

/// The memory to which the signal handler of a child process writes.
static SHARED: std::sync::atomic::AtomicPtr<[u64; 3]> =
    std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
static CAUGHT: Once = Once::new();

extern "C" fn on_signal(number: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let shared = SHARED.load(std::sync::atomic::Ordering::Relaxed);
    // SAFETY: the kernel passes a context and information of the signal.
    let (pc, address) = unsafe { (program_counter(context), (*info).si_addr() as u64) };
    // SAFETY: `shared` is the mapping of `shared_words`.
    unsafe { shared.write([number as u64, pc, address]) };
    // SAFETY: `_exit` has no preconditions.
    unsafe { libc::_exit(1) };
}

/// Returns the address of the instruction that raised a signal.
///
/// # Safety
///
/// `context` is the context of a signal.
unsafe fn program_counter(context: *mut libc::c_void) -> u64 {
    // SAFETY: the caller passes a context.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    #[cfg(target_arch = "x86_64")]
    return context.uc_mcontext.gregs[libc::REG_RIP as usize] as u64;
    #[cfg(target_arch = "aarch64")]
    return context.uc_mcontext.pc;
}

fn catch_signals(shared: *mut [u64; 3]) {
    SHARED.store(shared, std::sync::atomic::Ordering::Relaxed);
    CAUGHT.call_once(|| {
        for number in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGTRAP] {
            // SAFETY: all fields of the action are set or may be zero, and the handler only calls functions that signal
            // handlers may call.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_signal as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO;
                libc::sigaction(number, &action, std::ptr::null_mut());
            }
        }
    });
}

/// Two pages of memory, of which the second is not accessible.
pub(crate) struct Guarded {
    pages: MmapMut,
    size: usize,
}

impl Guarded {
    pub(crate) fn new() -> Guarded {
        // SAFETY: the call has no preconditions.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let mut pages = MmapMut::map_anon(2 * size).unwrap();
        // SAFETY: the page belongs to `pages`, whose accessible part only `bytes` returns.
        let failed =
            unsafe { libc::mprotect(pages.as_mut_ptr().add(size).cast(), size, libc::PROT_NONE) };
        assert_eq!(failed, 0);
        Guarded { pages, size }
    }

    /// Returns the accessible bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.pages[..self.size]
    }

    /// Returns the address of the first byte that is not accessible.
    pub(crate) fn end(&self) -> u64 {
        self.pages.as_ptr() as u64 + self.size as u64
    }
}

/// A part of the memory for arguments and results.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Cell([u8; ALIGNMENT as usize]);

/// Returns the bytes of cells.
fn bytes_of(cells: &mut [Cell]) -> &mut [u8] {
    let (address, size) = (cells.as_mut_ptr().cast(), size_of_val(cells));
    // SAFETY: the cells consist of bytes.
    unsafe { std::slice::from_raw_parts_mut(address, size) }
}

fn write(cells: &mut [u8], at: u32, bytes: u32, bits: Bits) {
    let part = &mut cells[at as usize..][..bytes as usize];
    part.copy_from_slice(&bits.to_le_bytes()[..bytes as usize]);
}

fn read(cells: &[u8], at: u32, bytes: u32) -> Bits {
    let part = cells[at as usize..][..bytes as usize].iter().rev();
    part.fold(0, |bits, &byte| bits << 8 | Bits::from(byte))
}

/// A helper that returns the sum of two numbers of 32 bits, and ends the program if it is 99.
pub(crate) extern "C" fn sum(a: u32, b: u32, result: *mut u128) -> u32 {
    let sum = a.wrapping_add(b);
    // SAFETY: generated code passes the address of a result.
    unsafe { result.write(sum.into()) };
    u32::from(sum == 99)
}

/// A helper with parameters of all other kinds, which returns their bits in one number, and whether the first is true.
pub(crate) extern "C" fn mix(
    pred: u8,
    byte: u8,
    half: u16,
    low: u64,
    high: u64,
    single: f32,
    double: f64,
    results: *mut [u128; 2],
) -> u32 {
    let whole = u128::from(low) | u128::from(high) << 64;
    let rest = u128::from(byte) ^ u128::from(half) << 8 ^ u128::from(single.to_bits()) << 24;
    let whole = whole ^ rest ^ u128::from(double.to_bits()) << 56;
    // SAFETY: generated code passes the address of two results.
    unsafe { results.write([whole, u128::from(pred)]) };
    0
}
