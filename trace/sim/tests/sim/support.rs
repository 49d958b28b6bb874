//! Traces that the tests generate.

use std::fs::{self, File};
use std::path::PathBuf;

use margay_accelsim::{
    Addresses, CtaText, Dim3, GroupedWriter, Header, Instruction, Opcode, Register, Sources,
};
use margay_sim::{Config, Error, Options, Report};
use tempfile::TempDir;

/// The start of the addresses of global memory.
pub(crate) const BASE: u64 = 0x7f00_0000_0000;

/// An instruction of all lanes: opcode, destination, sources.
pub(crate) fn op(opcode: &str, destination: Option<u16>, sources: &[u16]) -> Instruction {
    let mut instruction = Instruction::new(0, u32::MAX, Opcode::new(opcode).unwrap());
    instruction.destination = destination.map(Register::general);
    let registers: Vec<Register> = sources.iter().map(|n| Register::general(*n)).collect();
    instruction.sources = Sources::new(&registers).unwrap();
    instruction
}

/// An access of all lanes to `base + stride * lane`.
pub(crate) fn access(
    opcode: &str,
    destination: Option<u16>,
    sources: &[u16],
    base: u64,
    stride: i64,
) -> Instruction {
    let mut instruction = op(opcode, destination, sources);
    instruction.width = instruction.opcode.width();
    let lanes: Vec<u64> = (0..32)
        .map(|lane| base.wrapping_add_signed(lane * stride))
        .collect();
    instruction.addresses = Some(Addresses::compress(u32::MAX, &lanes));
    instruction
}

/// The end of all lanes.
pub(crate) fn exit() -> Instruction {
    op("EXIT", None, &[])
}

/// A kernel of a trace.
pub(crate) struct Kernel<'a> {
    pub(crate) header: Header,
    /// The instructions of a warp of a CTA, without the final EXIT.
    pub(crate) warp: Box<dyn Fn(u64, u32) -> Vec<Instruction> + 'a>,
}

impl<'a> Kernel<'a> {
    /// A kernel for Volta with this number of CTAs and of warps in each.
    pub(crate) fn new(
        ctas: u32,
        warps: u32,
        warp: impl Fn(u64, u32) -> Vec<Instruction> + 'a,
    ) -> Kernel<'a> {
        let mut header = Header::new(
            "_Z1kv",
            1,
            Dim3::new(ctas, 1, 1),
            Dim3::new(32 * warps, 1, 1),
        );
        header.binary_version = 70;
        header.registers = 16;
        header.shared_base = 0x7f10_0000_0000;
        header.local_base = 0x7f10_0100_0000;
        Kernel {
            header,
            warp: Box::new(warp),
        }
    }
}

/// Writes a list with kernels into a new folder, which is removed with the returned handle.
pub(crate) fn trace(kernels: &[Kernel<'_>]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let mut list = String::new();
    for (index, kernel) in kernels.iter().enumerate() {
        let name = format!("kernel-{}.traceg", index + 1);
        list += &format!("{name}\n");
        write(kernel, &folder.path().join(name));
    }
    let path = folder.path().join("kernelslist.g");
    fs::write(&path, list).unwrap();
    if let Ok(keep) = std::env::var("MARGAY_SIM_TRACES") {
        // For comparisons with the original simulator.
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("trace").replace("::", "-");
        let count = fs::read_dir(&keep).map_or(0, Iterator::count);
        let to = PathBuf::from(keep).join(format!("{count:03}-{name}"));
        fs::create_dir_all(&to).unwrap();
        for file in fs::read_dir(folder.path()).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
    (folder, path)
}

fn write(kernel: &Kernel<'_>, path: &std::path::Path) {
    let header = &kernel.header;
    let out = std::io::BufWriter::new(File::create(path).unwrap());
    let mut writer = GroupedWriter::new(out, header).unwrap();
    let warps = header.warps();
    for index in 0..header.ctas() {
        let cta = header.grid.position(index);
        let mut text = CtaText::new(header.format(), cta, warps);
        for warp in 0..warps {
            let mut instructions = (kernel.warp)(index, warp);
            instructions.push(exit());
            for (number, mut instruction) in instructions.into_iter().enumerate() {
                instruction.pc = 16 * number as u64;
                text.push(warp, &instruction).unwrap();
            }
        }
        writer.write_cta(&text).unwrap();
    }
    writer.finish().unwrap();
}

/// Simulates kernels on the Quadro V100.
pub(crate) fn run(kernels: &[Kernel<'_>]) -> Result<Report, Error> {
    run_with(
        kernels,
        &Config::builtin("qv100").unwrap(),
        Options::default(),
    )
}

/// Simulates kernels.
pub(crate) fn run_with<'a>(
    kernels: &[Kernel<'_>],
    config: &'a Config,
    options: Options<'a>,
) -> Result<Report, Error> {
    let (_folder, list) = trace(kernels);
    margay_sim::simulate(&list, config, options)
}
