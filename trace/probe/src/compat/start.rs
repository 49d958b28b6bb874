//! The parameters, declarations and slots of a kernel in the original's manner.

use super::scan::{Line, Scanned, starts};
use crate::model::{Capacity, Level, Map, ProbeFile};
use crate::width::Width;

/// Adds the parameters of the maps, the scratch registers, the texts at the start, and the places of the slots.
pub(super) fn add(scanned: &mut Scanned, file: &ProbeFile) -> Result<(), String> {
    let is_dynamic = |map: &&Map| map.capacity == Capacity::Dynamic;
    if file
        .maps
        .iter()
        .filter(is_dynamic)
        .any(|map| map.level == Level::Warp)
    {
        return Err("the original engine has no dynamic maps of warps".to_owned());
    }
    match scanned.lines.get_mut(scanned.last_parameter) {
        Some(Line::Text(line)) => line.push(','),
        _ => return Err("the parameter list has no line".to_owned()),
    }
    let mut list: Vec<String> = file
        .maps
        .iter()
        .map(|map| format!(".param .u64 param_{}", map.name))
        .collect();
    list.extend(
        file.maps
            .iter()
            .filter(is_dynamic)
            .map(|map| format!(".param .u32 bytes_{}", map.name)),
    );
    let mut body = vec![format!(".reg .u64 %NR<{}>;", u64::from(file.registers) + 1)];
    for probe in starts(file) {
        let text = file.probes[probe]
            .before
            .as_ref()
            .map(|snippet| snippet.text.clone());
        body.extend(text);
    }
    for level in [Level::Thread, Level::Warp] {
        if file.maps.iter().any(|map| map.level == level) {
            body.push(slot_index(level));
        }
    }
    body.extend(file.maps.iter().map(slot));
    insert(scanned, scanned.last_parameter + 1, vec![list.join(",\n")])?;
    // The inserted parameters are one line.
    insert(scanned, scanned.body + 2, body)
}

fn insert(scanned: &mut Scanned, at: usize, texts: Vec<String>) -> Result<(), String> {
    if at > scanned.lines.len() {
        return Err("the kernel's body was not found".to_owned());
    }
    scanned
        .lines
        .splice(at..at, texts.into_iter().map(Line::Text));
    Ok(())
}

/// Code that computes the index of the slot with 32 bits. The number of warps is rounded down.
fn slot_index(level: Level) -> String {
    let word = level.word();
    let (part, registers) = match level {
        Level::Thread => ("", String::new()),
        Level::Warp => (
            "shr.u32 %warp_n, %warp_n, 5;\nshr.u32 %warp_i, %warp_i, 5;\n",
            ".reg .pred %leader;\nmov.u32 %warp_a, %laneid;\nsetp.eq.u32 %leader, %warp_a, 0;\n"
                .to_owned(),
        ),
    };
    let code = format!(
        ".reg .b32 %X_slot, %X_a, %X_b, %X_n, %X_i;\n{registers}\
         mov.u32 %X_a, %ntid.y;\nmov.u32 %X_i, %tid.z;\nmov.u32 %X_b, %tid.y;\n\
         mad.lo.u32 %X_i, %X_i, %X_a, %X_b;\n\
         mov.u32 %X_b, %ntid.x;\nmul.lo.u32 %X_n, %X_a, %X_b;\nmov.u32 %X_a, %tid.x;\n\
         mad.lo.u32 %X_i, %X_i, %X_b, %X_a;\n\
         mov.u32 %X_a, %ntid.z;\nmul.lo.u32 %X_n, %X_n, %X_a;\n{part}\
         mov.u32 %X_slot, %ctaid.z;\nmov.u32 %X_a, %nctaid.y;\nmov.u32 %X_b, %ctaid.y;\n\
         mad.lo.u32 %X_slot, %X_slot, %X_a, %X_b;\n\
         mov.u32 %X_a, %nctaid.x;\nmov.u32 %X_b, %ctaid.x;\n\
         mad.lo.u32 %X_slot, %X_slot, %X_a, %X_b;\n\
         mad.lo.u32 %X_slot, %X_slot, %X_n, %X_i;"
    );
    code.replace("%X", &format!("%{word}"))
}

/// Code that computes the address of the thread's or warp's slot.
fn slot(map: &Map) -> String {
    let (name, level) = (&map.name, map.level.word());
    let mut code = format!(".reg .b64 %map_{name}<5>;\n");
    match map.slot_bytes() {
        Some(bytes) => code += &format!("mul.wide.s32 %map_{name}4, %{level}_slot, {bytes};\n"),
        None => {
            code += &format!(
                ".reg .b32 %cnt_{name};\nld.param.u32 %cnt_{name}, [bytes_{name}];\n\
                 mul.wide.s32 %map_{name}4, %{level}_slot, %cnt_{name};\n"
            );
        }
    }
    code += &format!(
        "ld.param.u64 %map_{name}3, [param_{name}];\ncvta.to.global.u64 %map_{name}2, %map_{name}3;\n\
         add.s64 %map_{name}1, %map_{name}2, %map_{name}4;"
    );
    let words = map
        .fields
        .iter()
        .filter(|field| field.width == Width::U32)
        .count();
    if words > 0 {
        code += &format!("\n.reg .u32 %{name}_u32_<{}>;", words + 1);
    }
    code
}
