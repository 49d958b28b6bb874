//! `margay smi`: shows the devices and the processes that use them, in the format of `nvidia-smi`.

mod query;

use std::fmt::Write;

use margay::device::VISIBLE_DEVICES;
use nvidia_ml::facts::{Facts, utilization};
use nvidia_ml::processes::{computing, name};
use serde_json::{Value, json};

use crate::output::{Outcome, Report};

const EXAMPLES: &str = "\
Examples:
  margay smi
  margay smi -L
  margay smi --json
  margay smi --query-gpu=name,compute_cap --format=csv,noheader

Memory is the host's: what is free there, up to the device's limit. Processes of other users are not seen.
All devices are shown, also those that CUDA_VISIBLE_DEVICES hides from programs.";

/// The arguments of `margay smi`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// List devices with their UUIDs.
    #[arg(short = 'L', long, conflicts_with = "json")]
    list_gpus: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Print these properties of each device, with commas between them, such as name,compute_cap,memory.total.
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', requires = "format", conflicts_with_all = ["json", "list_gpus"])]
    query_gpu: Vec<String>,
    /// Form of the properties: csv, and with commas: noheader, nounits.
    #[arg(
        long,
        value_name = "WORDS",
        value_delimiter = ',',
        requires = "query_gpu"
    )]
    format: Vec<String>,
    /// Show only the device with this number.
    #[arg(short, long, value_name = "NUMBER")]
    id: Option<u32>,
}

/// Prints the list, the JSON document or the table.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut devices = Facts::all();
    if let Some(id) = arguments.id {
        devices.retain(|facts| facts.number() == id);
        if devices.is_empty() {
            return Err(format!("there is no device {id}").into());
        }
    }
    if !arguments.query_gpu.is_empty() {
        let text = query::query(&devices, &arguments.query_gpu, &arguments.format);
        return text.map(Report::of);
    }
    if arguments.list_gpus {
        let line = |facts: &Facts| {
            let (number, name, uuid) = (facts.number(), facts.name(), facts.uuid());
            format!("GPU {number}: {name} (UUID: {uuid})\n")
        };
        return Ok(Report::of(devices.iter().map(line).collect()));
    }
    let processes: Vec<(u32, String)> = computing()
        .into_iter()
        .map(|pid| (pid, name(pid).unwrap_or_default()))
        .collect();
    let text = match arguments.json {
        true => format!("{}\n", document(&devices, &processes)),
        false => table(&devices, &processes),
    };
    Ok(Report::of(text))
}

fn cuda(facts: &Facts) -> String {
    let version = facts.cuda_version();
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// Returns the JSON document. All devices share the cores of the host, so each device has the same utilisation and the
/// same list of processes.
fn document(devices: &[Facts], processes: &[(u32, String)]) -> Value {
    let processes: Vec<Value> = processes
        .iter()
        .map(|(pid, name)| json!({"pid": pid, "name": name}))
        .collect();
    let busy = utilization();
    let gpus = devices.iter().map(|facts| {
        let (memory, (major, minor)) = (facts.memory(), facts.capability());
        json!({
            "index": facts.number(),
            "name": facts.name(),
            "uuid": facts.uuid(),
            "pci_bus_id": facts.bus_id(8),
            "compute_capability": format!("{major}.{minor}"),
            "memory_total": memory.total,
            "memory_free": memory.free,
            "memory_used": memory.total - memory.free,
            "utilization": busy,
            "cuda_ordinal": facts.ordinal(),
        })
    });
    let first = Facts::of(0);
    json!({
        "driver_version": first.driver_version(),
        "cuda_version": cuda(&first),
        "cuda_visible_devices": first.visible_list(),
        "gpus": gpus.collect::<Vec<_>>(),
        "processes": processes,
    })
}

/// Number of characters between the outer bars of the table.
const WIDTH: usize = 77;

fn line(text: &mut String, content: &str) {
    let content: String = content.chars().take(WIDTH - 2).collect();
    let _ = writeln!(text, "| {content:<width$} |", width = WIDTH - 2);
}

fn table(devices: &[Facts], processes: &[(u32, String)]) -> String {
    let rule = format!("+{}+\n", "-".repeat(WIDTH));
    let mib = |bytes: u64| format!("{}MiB", bytes >> 20);
    let mut text = rule.clone();
    let first = Facts::of(0);
    let versions = format!(
        "Margay {:<14} Driver Version: {:<16} CUDA Version: {}",
        env!("CARGO_PKG_VERSION"),
        first.driver_version(),
        cuda(&first)
    );
    line(&mut text, &versions);
    text.push_str(&rule);
    line(
        &mut text,
        &format!("GPU  {:<44} Bus-Id            sm", "Name"),
    );
    line(
        &mut text,
        &format!("     {:>22}  {:>8}", "Memory-Usage", "Util"),
    );
    text.push_str(&rule.replace('-', "="));
    let busy = utilization().map_or_else(|| "N/A".to_owned(), |percent| format!("{percent}%"));
    for facts in devices {
        let (memory, (major, minor)) = (facts.memory(), facts.capability());
        let name: String = facts.name().chars().take(44).collect();
        let (number, place) = (facts.number(), facts.bus_id(8));
        line(
            &mut text,
            &format!("{number:>3}  {name:<44} {place}  {major}.{minor}"),
        );
        let used = format!(
            "{} / {}",
            mib(memory.total - memory.free),
            mib(memory.total)
        );
        line(&mut text, &format!("     {used:>22}  {busy:>8}"));
    }
    if let Some(list) = first.visible_list() {
        text.push_str(&rule);
        line(&mut text, &visible(list, devices));
    }
    text.push_str(&rule);
    text.push('\n');
    text.push_str(&rule);
    line(&mut text, "Processes:");
    line(&mut text, "     PID   Type   Process name");
    text.push_str(&rule.replace('-', "="));
    if processes.is_empty() {
        line(&mut text, "  No running processes found");
    }
    for (pid, name) in processes {
        line(&mut text, &format!("{pid:>8}      C   {name}"));
    }
    text.push_str(&rule);
    text
}

/// Describes which devices programs see if `CUDA_VISIBLE_DEVICES` has the value `list`. (The table contains all
/// devices.)
fn visible(list: &str, devices: &[Facts]) -> String {
    let mut seen: Vec<(u32, u32)> = devices
        .iter()
        .filter_map(|facts| Some((facts.ordinal()?, facts.number())))
        .collect();
    seen.sort_unstable();
    let list: String = list.chars().filter(|c| !c.is_control()).collect();
    let numbers: Vec<String> = seen.iter().map(|(_, number)| number.to_string()).collect();
    match numbers.as_slice() {
        [] => format!("Programs see no GPU: {VISIBLE_DEVICES}={list}"),
        numbers => format!(
            "Programs see GPU {}: {VISIBLE_DEVICES}={list}",
            numbers.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_table_are_equally_long() {
        let long = "/a/very/long/name/of/a/program".repeat(5);
        let text = table(&Facts::all(), &[(1, "/usr/bin/python".into()), (77, long)]);
        let wide = |line: &str| line.chars().count() == WIDTH + 2;
        assert!(text.lines().filter(|l| !l.is_empty()).all(wide), "{text}");
        assert!(text.contains("/usr/bin/python"));
        assert!(table(&Facts::all(), &[]).contains("No running processes found"));
    }

    #[test]
    fn the_document_tells_the_same() {
        let document = document(&Facts::all(), &[(7, "x".into())]);
        assert_eq!(document["processes"][0]["pid"], 7);
        assert_eq!(document["cuda_version"], "13.5");
    }
}
