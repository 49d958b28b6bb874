//! The lines that `margay waste` prints for findings and calls.

use margay::checks::{HostFrame, Kind, frame_of_program};
use serde_json::Value;

use crate::check::record::{self, Record};
use crate::check::runtime_api;

/// Returns the lines to print for a line of the log: a finding, a call, or a message if the line is not JSON. For any
/// other line, returns no lines.
pub(super) fn lines(line: &[u8]) -> Vec<String> {
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        return vec!["margay: a line of the program's file is damaged".to_owned()];
    };
    if let Some(found) = record::finding(&value) {
        return vec![finding(&found)];
    }
    call(&value).into_iter().collect()
}

/// Returns the line that is printed for a finding.
fn finding(found: &Record) -> String {
    let pointer = found.address.unwrap_or(0);
    let here = format!(
        "This check was performed during a CUDA call in {}.",
        place(&found.host)
    );
    match Kind::named(&found.kind) {
        Some(Kind::ChangedRedZone) => {
            let origin = place(&found.origin);
            let when = match is_exit(&found.host) {
                true => "This check was performed at program exit.".to_owned(),
                false => here,
            };
            format!(
                "{}. Pointer {pointer:#x} was allocated in {origin}. {when}",
                found.message
            )
        }
        Some(Kind::LeakedMemory) => format!(
            "Unfreed CUDA memory block. Pointer {pointer:#x} was allocated in {}. Size {} bytes, without padding. {}.",
            place(&found.host),
            found.size.unwrap_or(0),
            found
                .explanation
                .as_deref()
                .unwrap_or("Found at program exit")
        ),
        _ => format!("{}. {}{here}", sentence(&found.message), memory(found)),
    }
}

/// Returns whether the stack is empty or shows that the program was exiting. (NVIDIA's runtime ends its contexts in an
/// exit handler.)
fn is_exit(host: &[record::HostFrame]) -> bool {
    host.is_empty() || host.iter().any(|frame| frame.function == "exit")
}

/// Returns a message in which the reason, if there is one, is a separate sentence: `X is invalid: it is freed` becomes
/// `X is invalid. It is freed`.
fn sentence(message: &str) -> String {
    let Some((what, why)) = message.split_once(" is invalid: ") else {
        return message.to_owned();
    };
    let mut letters = why.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    format!(
        "{what} is invalid. {}{}",
        first.unwrap_or_default(),
        letters.as_str()
    )
}

/// Returns a sentence about the memory at the address that the finding concerns; an empty text if
/// the memory is unknown.
fn memory(found: &Record) -> String {
    match (&found.allocation, found.address) {
        (Some(memory), Some(address)) => format!("{address:#x} is {memory}. "),
        _ => String::new(),
    }
}

/// Returns the line that is printed for a call of the driver API.
fn call(value: &Value) -> Option<String> {
    if record::text(value, "event")? != "call" {
        return None;
    }
    let name = record::text(value, "name")?;
    let arguments = record::text(value, "arguments")?;
    let result = record::text(value, "result")?;
    let host = record::stack(value, "host");
    let caller = runtime_api::caller(&host).unwrap_or(&name);
    let place = place(&host);
    Some(format!(
        "{caller} called, {place}. {name}({arguments}) = {result}"
    ))
}

/// Describes where the program made a call: by file and line if they are known, otherwise by the
/// functions on the stack.
fn place(host: &[record::HostFrame]) -> String {
    let frames: Vec<HostFrame> = host.iter().map(frame).collect();
    match frame_of_program(&frames) {
        Some(HostFrame {
            file: Some(file),
            line: Some(line),
            ..
        }) => format!("file {file}, line {line}"),
        Some(_) => {
            let names: Vec<&str> = frames.iter().map(|frame| frame.function.as_str()).collect();
            format!("stack {}", names.join(", "))
        }
        None => "an unknown place".to_owned(),
    }
}

fn frame(frame: &record::HostFrame) -> HostFrame {
    HostFrame {
        function: frame.function.clone(),
        file: frame.file.clone(),
        line: frame.line.and_then(|line| u32::try_from(line).ok()),
        module: frame.module.clone(),
        offset: frame.offset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = r#"[{"function":"cudaFree","file":null,"line":null},{"function":"main","file":"/src/a.cu","line":7}]"#;

    fn one(line: &str) -> String {
        let mut all = lines(line.replace("HOST", HOST).as_bytes());
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn a_changed_zone_names_two_places() {
        let line = r#"{"tool":"apicheck","kind":"changed-red-zone","severity":"error","message":"Overwrite of CUDA memory block header","address":512,"host":HOST,"origin":[{"function":"f","file":null,"line":null},{"function":"main","file":null,"line":null}]}"#;
        let wanted = "Overwrite of CUDA memory block header. Pointer 0x200 was allocated in stack f, main. This check was \
                      performed during a CUDA call in file /src/a.cu, line 7.";
        assert_eq!(one(line), wanted);
        let at_exit = line.replace("\"host\":HOST", "\"host\":[]");
        assert!(one(&at_exit).ends_with("This check was performed at program exit."));
    }

    #[test]
    fn messages_have_the_names_of_the_runtime() {
        let line = r#"{"tool":"apicheck","kind":"invalid-pointer","severity":"error","message":"Pointer to cuMemFree_v2(0x10) is invalid: the memory is freed already","address":16,"allocation":"0 bytes into device memory","host":HOST}"#;
        let wanted = "Pointer to cudaFree(0x10) is invalid. The memory is freed already. 0x10 is 0 bytes into device \
                      memory. This check was performed during a CUDA call in file /src/a.cu, line 7.";
        assert_eq!(one(line), wanted);
    }

    #[test]
    fn calls_have_arguments_and_result() {
        let line = r#"{"event":"call","name":"cuMemFree_v2","arguments":"dptr=0x10","result":"SUCCESS","host":HOST}"#;
        let wanted = "cudaFree called, file /src/a.cu, line 7. cuMemFree_v2(dptr=0x10) = SUCCESS";
        assert_eq!(one(line), wanted);
        assert!(lines(br#"{"event":"start"}"#).is_empty());
        assert_eq!(
            one("{\"tool"),
            "margay: a line of the program's file is damaged"
        );
    }
}
