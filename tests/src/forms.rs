//! Runs the kernels of the instruction forms ([`FormKernel`]), computes their inputs, and compares
//! their results.

use std::fmt::Write;
use std::time::Duration;

use margay::{Bytes, DeviceBuffer, EngineChoice, Error, LaunchConfig, Runtime};

use crate::conformance::FormKernel;

/// Number of threads of a launch: two warps, so that an operation of the whole CTA has another
/// result than an operation of one warp.
pub const THREADS: usize = 64;
/// Number of bytes of `in`, `out` and `aux` that belong to one thread.
pub const STRIDE: usize = 1024;
/// Size in bytes of each of the buffers `in`, `out` and `aux`. A buffer extends beyond the last
/// thread's part, because forms can add an offset to the address.
pub const BYTES: usize = (THREADS + 4) * STRIDE;

/// Returns the reason why the results of a form may differ between two runs; `None` if they must be
/// equal.
pub fn left_out(form: &FormKernel) -> Option<&'static str> {
    const ADDRESS: &str = "shows where a variable or a window lies";
    /// Each row contains an opcode (empty: any opcode), a part of the instruction's text, and the
    /// reason for forms that match both.
    const REASONS: [(&str, &str, &str); 19] = [
        ("", "%clock", "time"),
        ("", "%globaltimer", "time"),
        ("", "%gridid", "numbers launches"),
        ("", "%smid", "depends on the worker"),
        ("", "%warpid", "depends on the worker"),
        ("", "%total_smem", "depends on the engine's layout"),
        ("alloca", "", "an address of the engine's own stack"),
        ("stacksave", "", "an address of the engine's own stack"),
        ("mov", "gvar", ADDRESS),
        (
            "mov",
            "mykern",
            "handles of functions differ between modules",
        ),
        ("mov", "cvar", ADDRESS),
        // A generic address of the window of shared memory.
        ("mapa", "mapa.u32 %", ADDRESS),
        ("cvta", "shared", ADDRESS),
        ("cvta", "local", ADDRESS),
        ("cvta", "gvar", ADDRESS),
        ("cvta", "cvar", ADDRESS),
        (
            "",
            ".shared .align 16 .b8 sb",
            "threads race for a shared variable",
        ),
        // All threads add the same bytes of shared memory to themselves.
        (
            "cp.reduce.async.bulk",
            "[%As], [%As]",
            "threads race for a shared variable",
        ),
        // The stride comes from random bytes, so rows of the tile may overlap.
        ("wmma.store", "", "threads race for the rows of a tile"),
    ];
    let fits = |opcode: &str, text: &str| {
        (opcode.is_empty() || form.opcode == opcode) && form.text.contains(text)
    };
    let found = REASONS.iter().find(|(opcode, text, _)| fits(opcode, text));
    found.map(|(_, _, reason)| *reason)
}

/// Returns the text of the form's module with additional code. This code initialises the shared and
/// local variables before the instruction, and copies them to `out` after the instruction (except
/// `mbarrier` objects, whose bits the ISA does not define). Without the initialisation, a thread
/// would read data that earlier kernels left in memory.
pub fn module_text(form: &FormKernel) -> String {
    let (mut before, mut after) = (String::new(), String::new());
    if form.module.contains("lvar[64]") {
        for at in (0..128).step_by(8) {
            before +=
                &format!("ld.global.b64 %Lt1, [%Lin+{at}]; st.local.b64 [lvar+{at}], %Lt1;\n");
            after += &format!(
                "ld.local.b64 %Lt1, [lvar+{at}]; st.global.b64 [%Lout+{}], %Lt1;\n",
                512 + at
            );
        }
    }
    if form.module.contains("svar[256]") {
        // Each of the 64 threads initialises 16 of the 1024 bytes.
        before += "mov.u32 %Lu, svar; mad.lo.u32 %Lu, %Lt, 16, %Lu;\n\
            ld.global.b64 %Lt1, [%Lin]; st.shared.b64 [%Lu], %Lt1;\n\
            ld.global.b64 %Lt1, [%Lin+8]; st.shared.b64 [%Lu+8], %Lt1;\nbar.sync 0;\n";
        after += "bar.sync 0;\nmov.u32 %Lu, svar; mad.lo.u32 %Lu, %Lt, 16, %Lu;\n\
            ld.shared.b64 %Lt1, [%Lu]; st.global.b64 [%Lout+768], %Lt1;\n\
            ld.shared.b64 %Lt1, [%Lu+8]; st.global.b64 [%Lout+776], %Lt1;\n";
    }
    if form.module.contains(" mbar;") {
        before += "mov.b64 %Lt1, 0; st.shared.b64 [mbar], %Lt1; bar.sync 0;\n";
    }
    let start = "ld.param.u64 %Laux, [aux];";
    let Some((head, body)) = form.module.split_once(start) else {
        return form.module.clone();
    };
    // The pointers refer to the thread's own data only after this line.
    let Some((pointers, body)) = body.split_once('\n') else {
        return form.module.clone();
    };
    let Some((pointers2, body)) = body.split_once('\n') else {
        return form.module.clone();
    };
    let Some((body, end)) = body.rsplit_once("ret;") else {
        return form.module.clone();
    };
    format!("{head}{start}{pointers}\n{pointers2}\n{before}{body}{after}ret;{end}")
}

const EDGES_16: [u16; 22] = [
    0, 1, 2, 5, 0xffff, 0x7fff, 0x8000, 0x8001, 0x0400, 0x03ff, 0x83ff, 0x3c00, 0xbc00, 0x7bff,
    0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x7d01, 0x3f80, 0x7f80, 0x7fc0,
];
const EDGES_32: [u32; 28] = [
    0,
    1,
    2,
    7,
    31,
    32,
    33,
    0xff,
    0xffff,
    u32::MAX,
    0x7fff_ffff,
    0x8000_0000,
    0x8000_0001,
    0x0080_0000,
    0x007f_ffff,
    0x807f_ffff,
    0x3f80_0000,
    0xbf80_0000,
    0x3f00_0000,
    0x4b00_0001,
    0x4f00_0000,
    0xcf00_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x7f80_0001,
];
const EDGES_64: [u64; 24] = [
    0,
    1,
    2,
    63,
    64,
    0xffff_ffff,
    0x1_0000_0000,
    u64::MAX,
    i64::MAX as u64,
    1 << 63,
    (1 << 63) + 1,
    0x0010_0000_0000_0000,
    0x000f_ffff_ffff_ffff,
    0x800f_ffff_ffff_ffff,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x3fe0_0000_0000_0000,
    0x43e0_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0xffef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0x7ff0_0000_0000_0001,
];

/// Returns the next random number (SplitMix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the width in bits of the operand that the module loads from `offset`; 32 if it loads no operand there.
fn width_at(module: &str, offset: usize) -> u32 {
    let place = format!(", [%Lin+{offset}];");
    let Some(end) = module.find(&place) else {
        return 32;
    };
    let line = &module[..end];
    let opcode = line.rfind("ld.global.").map_or("", |at| &line[at + 11..]);
    let digits = opcode.split_whitespace().next().unwrap_or("");
    digits.parse().unwrap_or(32)
}

/// Returns the inputs of all threads: edge values and random values. If `uniform` is set, all threads have the same
/// inputs, and integers are small or have all bits set, so they can be masks, lane numbers and barrier numbers.
pub fn inputs(form: &FormKernel, uniform: bool) -> Vec<u8> {
    let widths: Vec<u32> = (0..STRIDE / 16)
        .map(|slot| width_at(&form.module, 16 * slot))
        .collect();
    let mut state = form.id.bytes().fold(u64::from(uniform), |seed, byte| {
        seed.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    let first = state;
    let mut bytes = Vec::with_capacity(BYTES);
    while bytes.len() < BYTES {
        if uniform && bytes.len().is_multiple_of(STRIDE) {
            state = first;
        }
        let width = widths[bytes.len() % STRIDE / 16];
        let (low, high) = (next(&mut state), next(&mut state));
        let pick = (high >> 32) as usize;
        let value = match (uniform, width) {
            (true, _) if low & 1 == 0 => u64::MAX,
            (true, _) => u64::from(low as u8 & 15),
            _ if low & 3 == 0 => low,
            (_, 8 | 16) => (0..4).fold(0, |all, part| {
                let edge = EDGES_16[(pick >> (5 * part)) % EDGES_16.len()];
                all << 16 | u64::from(edge)
            }),
            (_, 32) => {
                let halves =
                    u64::from(EDGES_16[pick % 22]) << 16 | u64::from(EDGES_16[pick / 64 % 22]);
                if pick & 0x70_0000 == 0 {
                    halves
                } else {
                    u64::from(EDGES_32[pick % EDGES_32.len()])
                }
            }
            _ => EDGES_64[pick % EDGES_64.len()],
        };
        bytes.extend(value.to_le_bytes());
        bytes.extend(high.to_le_bytes());
    }
    bytes
}

/// Returns a description of the first difference between two results; `None` if they are equal. All
/// NaNs of a floating-point type count as equal if the form's text contains this type.
pub fn difference(form: &FormKernel, left: &[u8], right: &[u8]) -> Option<String> {
    let names = |types: &[&str]| types.iter().any(|t| form.text.contains(t));
    let nan = |a: u64, b: u64, bits: u32, exponent: u64| {
        let inf = exponent << (bits - 1 - exponent.count_ones());
        let abs = (1u64 << (bits - 1)) - 1;
        a & abs > inf && b & abs > inf
    };
    let f64_too = names(&[".f64"]);
    let f32_too = names(&[".f32", ".ftz"]);
    let f16_too = names(&[".f16"]);
    let bf16_too = names(&[".bf16"]);
    let same = |a: u64, b: u64| {
        let part = |shift: u32, bits: u32| {
            let mask = (1u64 << bits) - 1;
            (a >> shift & mask, b >> shift & mask)
        };
        let words = [0, 32].into_iter().all(|shift| {
            let (a, b) = part(shift, 32);
            let halves = [shift, shift + 16].into_iter().all(|shift| {
                let (a, b) = part(shift, 16);
                a == b || f16_too && nan(a, b, 16, 0x1f) || bf16_too && nan(a, b, 16, 0xff)
            });
            halves || f32_too && nan(a, b, 32, 0xff)
        });
        words || f64_too && nan(a, b, 64, 0x7ff)
    };
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let pairs = left.chunks_exact(8).zip(right.chunks_exact(8));
    let mut pairs = pairs.map(|(a, b)| (word(a), word(b))).enumerate();
    let (at, (a, b)) = pairs.find(|&(_, (a, b))| a != b && !same(a, b))?;
    let (at, place) = if 8 * at < BYTES {
        (8 * at, "out")
    } else {
        (8 * at - BYTES, "aux")
    };
    Some(format!(
        "{place} of thread {} at {}: {a:016x} against {b:016x}",
        at / STRIDE,
        at % STRIDE
    ))
}

/// Returns the initial content of `aux`, the memory that forms read and change: the inputs in reverse order.
pub fn initial_aux(inputs: &[u8]) -> Vec<u8> {
    inputs.iter().rev().copied().collect()
}

/// Returns a text that lists the words of 8 bytes that a kernel changed, with their byte offsets.
/// `after` is the content of `out`, which was zero before the kernel, followed by the content of
/// `aux`.
pub fn changes(inputs: &[u8], after: &[u8]) -> String {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    let before = [vec![0; BYTES], initial_aux(inputs)].concat();
    let words = before.chunks_exact(8).zip(after.chunks_exact(8));
    let mut text = String::new();
    for (index, (old, new)) in words.enumerate() {
        if old != new {
            write!(text, " {:x}:{:x}", 8 * index, word(new)).expect("text grows");
        }
    }
    text
}

/// A runtime with one engine, and the buffers of the kernels.
pub struct Machine {
    runtime: Runtime,
    buffers: Option<[DeviceBuffer<u8>; 3]>,
}

impl Machine {
    /// Creates a machine; panics if the runtime cannot be created.
    pub fn new(engine: EngineChoice) -> Machine {
        let runtime = Runtime::builder()
            .engine(engine)
            .workers(1)
            .deterministic()
            .time_limit(Duration::from_secs(5))
            .build()
            .expect("a runtime");
        Machine {
            runtime,
            buffers: None,
        }
    }

    /// Runs a form. Returns the content of `out`, followed by the content of `aux`.
    ///
    /// # Errors
    /// Returns the error of loading the module or of the launch. After a fault, the caller must
    /// call [`Machine::reset`] before it runs the next form.
    pub fn launch(&mut self, form: &FormKernel, inputs: &[u8]) -> Result<Vec<u8>, Error> {
        let runtime = &self.runtime;
        let module = runtime.load_ptx(&module_text(form))?;
        let kernel = module.kernel(&form.id)?;
        let [input, out, aux] = match &mut self.buffers {
            Some(buffers) => buffers,
            none => none.insert([
                runtime.alloc(BYTES)?,
                runtime.alloc(BYTES)?,
                runtime.alloc(BYTES)?,
            ]),
        };
        input.write(inputs)?;
        out.zero()?;
        aux.write(&initial_aux(inputs))?;
        let by_value = Bytes(&inputs[..128]);
        let shape = LaunchConfig::new(1, THREADS as u32);
        runtime.launch(&kernel, shape, (&*input, &*out, &*aux, by_value))?;
        runtime.synchronize()?;
        let mut bytes = out.to_vec()?;
        bytes.extend(aux.to_vec()?);
        module.unload()?;
        Ok(bytes)
    }

    /// Resets the device, because all later calls in a context fail after a fault; panics if the
    /// reset fails.
    pub fn reset(&mut self) {
        self.buffers = None;
        let device = self.runtime.device(0).expect("a device");
        device.primary_reset().expect("a device that can be reset");
    }
}
