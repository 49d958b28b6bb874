//! Shows, counts, compares and groups instruction traces.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use margay_accelsim::{
    AddressStyle, Counts, Dim3, Filter, GroupOptions, ReadOptions, compare, count, group_list,
    kernel_files, show,
};

use crate::output::{Outcome, Report};

/// What a command accepts that the simulator refuses.
#[derive(clap::Args, Clone, Copy, Debug)]
struct Accept {
    /// Accept instructions that the simulator has no names for, five sources, and warps without instructions.
    #[arg(long)]
    lenient: bool,
}

impl Accept {
    fn options(self) -> ReadOptions {
        ReadOptions {
            five_sources: self.lenient,
            empty_warps: self.lenient,
            unknown_opcodes: self.lenient,
            ..ReadOptions::default()
        }
    }
}

#[derive(clap::Args)]
pub(super) struct Show {
    /// A kernel file, a list of kernels, or the folder of a list.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    trace: PathBuf,
    /// Only the launch with this number, or the kernels whose mangled names contain this text.
    #[arg(long, value_name = "KERNEL")]
    kernel: Option<String>,
    /// Only this CTA, such as 3,0,0.
    #[arg(long, value_name = "X,Y,Z", value_parser = cta)]
    cta: Option<Dim3>,
    /// Only this warp of each CTA.
    #[arg(long, value_name = "N")]
    warp: Option<u32>,
    /// Show the address of each lane.
    #[arg(long)]
    lanes: bool,
    #[command(flatten)]
    accept: Accept,
}

fn cta(text: &str) -> Result<Dim3, String> {
    let numbers: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
    match numbers.as_deref() {
        Ok([x]) => Ok(Dim3::new(*x, 0, 0)),
        Ok([x, y]) => Ok(Dim3::new(*x, *y, 0)),
        Ok([x, y, z]) => Ok(Dim3::new(*x, *y, *z)),
        _ => Err("not three numbers with commas between them".to_owned()),
    }
}

/// Prints the instructions of a trace.
pub(super) fn show_trace(arguments: &Show) -> Outcome {
    let filter = Filter {
        kernel: arguments.kernel.clone(),
        cta: arguments.cta,
        warp: arguments.warp,
        addresses: match arguments.lanes {
            true => AddressStyle::Lanes,
            false => AddressStyle::Compact,
        },
    };
    // A trace can be larger than the memory, so it is printed piece by piece.
    let mut out = BufWriter::new(io::stdout().lock());
    let shown = show(
        &arguments.trace,
        &filter,
        &arguments.accept.options(),
        &mut out,
    );
    shown.map_err(|error| error.to_string())?;
    out.flush()
        .map_err(|error| format!("standard output: {error}"))?;
    Ok(Report::of(String::new()))
}

#[derive(clap::Args)]
pub(super) struct Stats {
    /// A kernel file, a list of kernels, or the folder of a list.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    trace: PathBuf,
    /// Also count each opcode.
    #[arg(long)]
    opcodes: bool,
    #[command(flatten)]
    accept: Accept,
}

/// Counts the instructions of each kernel of a trace.
pub(super) fn stats(arguments: &Stats) -> Outcome {
    let mut text = String::new();
    let files = kernel_files(&arguments.trace).map_err(|error| error.to_string())?;
    let (mut warps, mut threads) = (0, 0);
    for file in &files {
        let counts = count(file, &arguments.accept.options()).map_err(|error| error.to_string())?;
        warps += counts.warp_instructions;
        threads += counts.thread_instructions;
        describe(&mut text, &counts, arguments.opcodes);
    }
    if files.len() != 1 {
        let _ = writeln!(
            text,
            "{} kernels: {warps} warp instructions, {threads} thread instructions",
            files.len()
        );
    }
    Ok(Report::of(text))
}

fn describe(text: &mut String, counts: &Counts, opcodes: bool) {
    let header = &counts.header;
    let _ = writeln!(text, "kernel {}: {}", header.kernel_id, header.kernel_name);
    let _ = writeln!(
        text,
        "  grid {}, block {}, stream {}",
        header.grid, header.block, header.stream
    );
    let mut row = |name: &str, value: u64| {
        let _ = writeln!(text, "  {name:<32}{value:>16}");
    };
    row("CTAs", counts.ctas);
    row("warps", counts.warps);
    row("warp instructions", counts.warp_instructions);
    row("thread instructions", counts.thread_instructions);
    row("instructions without lanes", counts.empty_instructions);
    for (class, &number) in &counts.classes {
        row(&format!("{class:?}"), number);
    }
    for ((space, kind), access) in &counts.memory {
        let name = format!("{kind:?} {space:?}");
        row(&format!("{name}: instructions"), access.instructions);
        row(&format!("{name}: lanes"), access.lanes);
        row(&format!("{name}: bytes"), access.bytes);
        if access.sectors != 0 {
            row(&format!("{name}: sectors"), access.sectors);
        }
    }
    if opcodes {
        for (opcode, counts) in &counts.opcodes {
            row(opcode, counts.warp_instructions);
        }
    }
}

#[derive(clap::Args)]
pub(super) struct Compare {
    /// A kernel file, a list of kernels, or the folder of a list.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    first: PathBuf,
    /// The trace to compare with.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    second: PathBuf,
    #[command(flatten)]
    accept: Accept,
}

/// Compares two traces. The exit status is 1 if they differ.
pub(super) fn compare_traces(arguments: &Compare) -> Outcome {
    let options = GroupOptions {
        read: arguments.accept.options(),
        ..GroupOptions::default()
    };
    let compared = compare(&arguments.first, &arguments.second, &options);
    let compared = compared.map_err(|error| error.to_string())?;
    Ok(match compared.difference {
        Some(difference) => Report {
            text: format!("{difference}\n"),
            status: 1,
        },
        None => Report::of(format!(
            "equal: {} kernels, {} CTAs, {} warps, {} instructions\n",
            compared.kernels, compared.ctas, compared.warps, compared.instructions
        )),
    })
}

#[derive(clap::Args)]
pub(super) struct Group {
    /// The list of the raw traces (kernelslist), or its folder.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    list: PathBuf,
    #[command(flatten)]
    accept: Accept,
}

/// Groups raw traces, as the original post-processor does.
pub(super) fn group_traces(arguments: &Group) -> Outcome {
    let list = match arguments.list.is_dir() {
        true => arguments.list.join("kernelslist"),
        false => arguments.list.clone(),
    };
    let options = GroupOptions {
        read: arguments.accept.options(),
        ..GroupOptions::default()
    };
    let reports = group_list(Path::new(&list), &options).map_err(|error| error.to_string())?;
    Ok(Report::of(format!("{} kernels grouped\n", reports.len())))
}
