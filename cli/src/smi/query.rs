//! `margay smi --query-gpu`: prints properties of the devices as comma-separated values.

use nvidia_ml::facts::{Facts, utilization};

use crate::output::Failure;

/// Prints the properties `fields` of each device. `format` is a list of `csv`, `noheader` and `nounits`.
///
/// # Errors
///
/// Fails if a field or a word of the format is unknown.
pub(super) fn query(
    devices: &[Facts],
    fields: &[String],
    format: &[String],
) -> Result<String, Failure> {
    if let Some(word) = format
        .iter()
        .find(|word| !matches!(word.as_str(), "csv" | "noheader" | "nounits"))
    {
        return Err(format!("--format: `{word}` is not csv, noheader or nounits").into());
    }
    let has = |word: &str| format.iter().any(|other| other == word);
    if !has("csv") {
        return Err("--format has to contain csv".to_owned().into());
    }
    let fields: Vec<Field> = fields
        .iter()
        .map(|name| field(name.trim()))
        .collect::<Result<_, Failure>>()?;
    let mut lines = Vec::new();
    if !has("noheader") {
        let head = fields.iter().map(|field| match field.unit {
            Some(unit) if !has("nounits") => format!("{} [{unit}]", field.name),
            _ => field.name.to_owned(),
        });
        lines.push(head.collect::<Vec<_>>().join(", "));
    }
    for facts in devices {
        let values = fields
            .iter()
            .map(|field| match ((field.value)(facts), field.unit) {
                (Some(value), Some(unit)) if !has("nounits") => format!("{value} {unit}"),
                (Some(value), _) => value,
                (None, _) => "[N/A]".to_owned(),
            });
        lines.push(values.collect::<Vec<_>>().join(", "));
    }
    Ok(lines.join("\n") + "\n")
}

/// A property of a device.
struct Field {
    name: &'static str,
    unit: Option<&'static str>,
    /// Returns the value; `None` if the device does not have the property.
    value: fn(&Facts) -> Option<String>,
}

fn field(name: &str) -> Result<Field, Failure> {
    type Value = fn(&Facts) -> Option<String>;
    let (name, unit, value): (_, _, Value) = match name {
        "count" => ("count", None, |_| Some(Facts::count().to_string())),
        "index" => ("index", None, |facts| Some(facts.number().to_string())),
        "name" | "gpu_name" => ("name", None, |facts| Some(facts.name())),
        "uuid" | "gpu_uuid" => ("uuid", None, |facts| Some(facts.uuid())),
        "driver_version" => ("driver_version", None, |facts| Some(facts.driver_version())),
        "pci.bus_id" | "gpu_bus_id" => ("pci.bus_id", None, |facts| Some(facts.bus_id(8))),
        "compute_cap" => ("compute_cap", None, |facts| {
            let (major, minor) = facts.capability();
            Some(format!("{major}.{minor}"))
        }),
        "memory.total" => ("memory.total", Some("MiB"), |facts| {
            Some((facts.memory().total >> 20).to_string())
        }),
        "memory.free" => ("memory.free", Some("MiB"), |facts| {
            Some((facts.memory().free >> 20).to_string())
        }),
        "memory.used" => ("memory.used", Some("MiB"), |facts| {
            let memory = facts.memory();
            Some(((memory.total - memory.free) >> 20).to_string())
        }),
        "utilization.gpu" => ("utilization.gpu", Some("%"), |_| {
            utilization().map(|percent| percent.to_string())
        }),
        // Properties of hardware that no simulated device has.
        "temperature.gpu" => ("temperature.gpu", None, |_| None),
        "power.draw" => ("power.draw", Some("W"), |_| None),
        "power.limit" => ("power.limit", Some("W"), |_| None),
        "clocks.sm" => ("clocks.sm", Some("MHz"), |_| None),
        "fan.speed" => ("fan.speed", Some("%"), |_| None),
        "mig.mode.current" => ("mig.mode.current", None, |_| None),
        "ecc.mode.current" => ("ecc.mode.current", None, |_| None),
        other => {
            return Err(format!("Field \"{other}\" is not a valid field to query.").into());
        }
    };
    Ok(Field { name, unit, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn values_have_heads_and_units_unless_they_are_not_wanted() {
        let devices = [Facts::of(0)];
        let ask = |fields: &str, format: &str| query(&devices, &words(fields), &words(format));
        let ask = |fields: &str, format: &str| ask(fields, format).ok().unwrap();
        let (major, minor) = devices[0].capability();
        assert_eq!(
            ask("compute_cap", "csv,noheader"),
            format!("{major}.{minor}\n")
        );
        let total = devices[0].memory().total >> 20;
        assert_eq!(
            ask("index,memory.total,power.draw", "csv"),
            format!("index, memory.total [MiB], power.draw [W]\n0, {total} MiB, [N/A]\n")
        );
        assert_eq!(
            ask("memory.total", "csv,nounits"),
            format!("memory.total\n{total}\n")
        );
    }

    #[test]
    fn unknown_fields_and_formats_are_named() {
        let message = |fields: &str, format: &str| {
            let failure = query(&[], &words(fields), &words(format)).err().unwrap();
            failure.message
        };
        assert!(message("speed", "csv").contains("\"speed\""));
        assert!(message("name", "xml").contains("xml"));
        assert!(message("name", "noheader").contains("csv"));
    }
}
