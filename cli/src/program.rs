//! Lists the libraries that a program's ELF file names and that the dynamic linker therefore loads. (Libraries that
//! only other libraries name are not listed.)
//!
//! Invariant: the functions do not panic if the file is damaged; instead, the list contains fewer
//! names or none.

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;

fn number<const N: usize>(bytes: &[u8], at: u64) -> Option<[u8; N]> {
    let at = usize::try_from(at).ok()?;
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: u64) -> Option<u64> {
    number(bytes, at).map(|b| u64::from(u16::from_le_bytes(b)))
}

fn u32_at(bytes: &[u8], at: u64) -> Option<u32> {
    number(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: u64) -> Option<u64> {
    number(bytes, at).map(u64::from_le_bytes)
}

/// Returns whether the bytes are a 64-bit little-endian ELF file.
pub(crate) fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF\x02\x01")
}

/// Returns the shared libraries that an ELF file names (`DT_NEEDED`), in order.
pub(crate) fn needed(bytes: &[u8]) -> Vec<String> {
    libraries(bytes).unwrap_or_default()
}

fn libraries(bytes: &[u8]) -> Option<Vec<String>> {
    if !is_elf(bytes) {
        return None;
    }
    let (table, size, count) = (u64_at(bytes, 32)?, u16_at(bytes, 54)?, u16_at(bytes, 56)?);
    let headers: Vec<u64> = (0..count)
        .map_while(|index| table.checked_add(index * size))
        .collect();
    let dynamic = *headers
        .iter()
        .find(|&&at| u32_at(bytes, at) == Some(PT_DYNAMIC))?;
    let (start, len) = (
        u64_at(bytes, dynamic.checked_add(8)?)?,
        u64_at(bytes, dynamic.checked_add(32)?)?,
    );
    let entries = (0..len.min(bytes.len() as u64) / 16)
        .map_while(|index| {
            let at = start.checked_add(index * 16)?;
            Some((u64_at(bytes, at)?, u64_at(bytes, at.checked_add(8)?)?))
        })
        .take_while(|&(tag, _)| tag != 0);
    let entries: Vec<(u64, u64)> = entries.collect();
    let strings = entries.iter().find(|(tag, _)| *tag == DT_STRTAB)?.1;
    let strings = headers
        .iter()
        .find_map(|&at| file_offset(bytes, at, strings))?;
    let names = entries.iter().filter(|(tag, _)| *tag == DT_NEEDED);
    Some(
        names
            .filter_map(|(_, at)| {
                let start = usize::try_from(strings.checked_add(*at)?).ok()?;
                let text = bytes.get(start..)?.split(|&b| b == 0).next()?;
                Some(String::from_utf8_lossy(text).into_owned())
            })
            .collect(),
    )
}

/// Returns the file offset of an address, if the segment with the header at `header` contains the address.
fn file_offset(bytes: &[u8], header: u64, address: u64) -> Option<u64> {
    if u32_at(bytes, header)? != PT_LOAD {
        return None;
    }
    let offset = u64_at(bytes, header.checked_add(8)?)?;
    let start = u64_at(bytes, header.checked_add(16)?)?;
    let len = u64_at(bytes, header.checked_add(32)?)?;
    let inside = address.checked_sub(start).filter(|&at| at < len)?;
    offset.checked_add(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_needs_the_c_library() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let names = needed(&own);
        assert!(names.iter().any(|n| n.starts_with("libc.so")), "{names:?}");
        for end in (0..4096).step_by(7) {
            needed(&own[..end]);
        }
    }
}
