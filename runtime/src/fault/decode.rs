//! Finds the address that an x86-64 instruction accessed, for faults that Linux reports without an address.
//!
//! An access to a non-canonical address raises a general protection fault; if the base register is rsp or rbp, the
//! access raises a stack fault. Linux reports both faults with the code SI_KERNEL and without an address.
//! [`memory_operand`] computes the operand's address from the instruction's bytes and the saved registers. It returns
//! `None` for instructions that it cannot decode, and for all operands with vector indices (gathers and scatters).
//!
//! Invariant: the functions are pure and accept any bytes and any registers.

/// Maximum length of an x86-64 instruction.
pub(super) const MAX_LENGTH: usize = 15;

const RAX: usize = 0;
const RSP: usize = 4;
const RBP: usize = 5;
const RSI: usize = 6;
const RDI: usize = 7;

/// The information in the prefixes of an instruction: properties of the memory operand, and the
/// opcode map.
#[derive(Default)]
struct Prefixes {
    /// Extension bit of the base register (ModRM.rm or SIB.base), shifted left by 3; the next field is the extension
    /// bit of the index register.
    base: usize,
    index: usize,
    /// Whether the instruction has the prefix 0x67, so that its addresses have 32 bits.
    short_address: bool,
    /// Whether the instruction has the prefix 0x64 or 0x65. The operand's address then includes a
    /// segment base, which the saved context does not contain.
    segment: bool,
    /// Whether the instruction has an EVEX prefix. The CPU then scales a displacement of one byte by a factor that
    /// depends on the instruction. This module has no table of these factors.
    scaled: bool,
    /// Opcode map: 0 for one-byte opcodes, 1 for `0f`, 2 for `0f 38`, 3 for `0f 3a`.
    map: u8,
}

struct Bytes<'a> {
    bytes: &'a [u8],
}

impl Bytes<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.first().copied()
    }

    fn signed(&mut self, len: usize) -> Option<i64> {
        let mut value = 0u64;
        for i in 0..len {
            value |= u64::from(self.next()?) << (8 * i);
        }
        let shift = 64 - 8 * len as u32;
        Some((value << shift) as i64 >> shift)
    }
}

/// Returns the address of the instruction's memory operand. `registers` contains the general registers in the order of
/// their encoding.
pub(super) fn memory_operand(bytes: &[u8], registers: &[u64; 16]) -> Option<u64> {
    let mut bytes = Bytes { bytes };
    let prefixes = read_prefixes(&mut bytes)?;
    let opcode = bytes.next()?;
    if prefixes.segment {
        return None;
    }
    if prefixes.map == 0 {
        if let Some(implicit) = implicit_operand(opcode, registers) {
            return Some(implicit);
        }
        if (0xa0..=0xa3).contains(&opcode) {
            let len = if prefixes.short_address { 4 } else { 8 };
            return bytes.signed(len).map(|a| a as u64);
        }
        let mode = bytes.peek()?;
        // For a call or jump through a register, the target is the faulting address.
        if opcode == 0xff && mode >> 6 == 3 && matches!(mode >> 3 & 7, 2 | 4) {
            return Some(registers[(mode & 7) as usize | prefixes.base]);
        }
        if !has_modrm(opcode) {
            return None;
        }
    }
    // Gathers and scatters have vectors of indices, which `registers` does not contain.
    if prefixes.map == 2 && matches!(opcode, 0x90..=0x93 | 0xa0..=0xa3) {
        return None;
    }
    modrm_operand(&mut bytes, &prefixes, registers)
}

fn read_prefixes(bytes: &mut Bytes<'_>) -> Option<Prefixes> {
    let mut p = Prefixes::default();
    loop {
        match bytes.peek()? {
            0x64 | 0x65 => p.segment = true,
            0x67 => p.short_address = true,
            0x26 | 0x2e | 0x36 | 0x3e | 0x66 | 0xf0 | 0xf2 | 0xf3 => {}
            _ => break,
        }
        bytes.next();
    }
    match bytes.peek()? {
        rex @ 0x40..=0x4f => {
            bytes.next();
            p.base = usize::from(rex & 1) << 3;
            p.index = usize::from(rex >> 1 & 1) << 3;
            read_map(bytes, &mut p)?;
        }
        0xc4 => {
            bytes.next();
            let first = bytes.next()?;
            bytes.next()?;
            vex_extensions(first, &mut p);
            p.map = first & 31;
        }
        0xc5 => {
            bytes.next();
            bytes.next()?;
            p.map = 1;
        }
        0x62 => {
            bytes.next();
            let first = bytes.next()?;
            bytes.next()?;
            bytes.next()?;
            vex_extensions(first, &mut p);
            p.map = first & 7;
            p.scaled = true;
        }
        _ => read_map(bytes, &mut p)?,
    }
    Some(p)
}

/// Sets the extension bits from a byte of a VEX or EVEX prefix. Bits 7, 6 and 5 of the byte are the inverted bits R, X
/// and B.
fn vex_extensions(byte: u8, p: &mut Prefixes) {
    p.base = usize::from(!byte >> 5 & 1) << 3;
    p.index = usize::from(!byte >> 6 & 1) << 3;
}

fn read_map(bytes: &mut Bytes<'_>, p: &mut Prefixes) -> Option<()> {
    if bytes.peek()? == 0x0f {
        bytes.next();
        p.map = match bytes.peek()? {
            0x38 => 2,
            0x3a => 3,
            _ => 1,
        };
        if p.map > 1 {
            bytes.next();
        }
    }
    Some(())
}

/// Returns the address that a one-byte opcode without a ModRM byte accesses.
fn implicit_operand(opcode: u8, registers: &[u64; 16]) -> Option<u64> {
    let canonical = |a: u64| (a as i64) << 16 >> 16 == a as i64;
    match opcode {
        // movs and cmps have two memory operands. If the address in rsi is canonical, the access through rdi faulted.
        0xa4..=0xa7 if canonical(registers[RSI]) => Some(registers[RDI]),
        0xa4..=0xa7 | 0xac | 0xad => Some(registers[RSI]),
        0xaa | 0xab | 0xae | 0xaf => Some(registers[RDI]),
        // push, call
        0x50..=0x57 | 0x68 | 0x6a | 0xe8 => Some(registers[RSP].wrapping_sub(8)),
        // pop, ret
        0x58..=0x5f | 0xc2 | 0xc3 => Some(registers[RSP]),
        0xc9 => Some(registers[RBP]),
        // xlat
        0xd7 => Some(registers[3].wrapping_add(registers[RAX] & 0xff)),
        _ => None,
    }
}

/// Returns whether a one-byte opcode is followed by a ModRM byte.
fn has_modrm(opcode: u8) -> bool {
    match opcode {
        0x00..=0x3f => opcode & 7 < 4,
        0x62 | 0x63 | 0x69 | 0x6b => true,
        0x80..=0x8f | 0xc0 | 0xc1 | 0xc6 | 0xc7 => true,
        0xd0..=0xd3 | 0xd8..=0xdf | 0xf6 | 0xf7 | 0xfe | 0xff => true,
        _ => false,
    }
}

fn modrm_operand(bytes: &mut Bytes<'_>, p: &Prefixes, registers: &[u64; 16]) -> Option<u64> {
    let modrm = bytes.next()?;
    let (mode, rm) = (modrm >> 6, usize::from(modrm & 7));
    // Register operands access no memory. Addresses relative to the program counter are close to the code and therefore
    // canonical.
    if mode == 3 || (mode == 0 && rm == RBP) {
        return None;
    }
    let mut base = Some(rm | p.base);
    let mut index = 0u64;
    if rm == RSP {
        let sib = bytes.next()?;
        let low = usize::from(sib & 7);
        base = (mode != 0 || low != RBP).then_some(low | p.base);
        let index_register = usize::from(sib >> 3 & 7) | p.index;
        if index_register != RSP {
            index = registers[index_register] << (sib >> 6);
        }
    }
    let displacement = match (mode, base) {
        (0, Some(_)) => 0,
        (1, _) => bytes.signed(1)?,
        _ => bytes.signed(4)?,
    };
    if p.scaled && mode == 1 && displacement != 0 {
        return None;
    }
    let address = base
        .map_or(0, |r| registers[r])
        .wrapping_add(index)
        .wrapping_add(displacement as u64);
    Some(if p.short_address {
        address & 0xffff_ffff
    } else {
        address
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns registers in which register i contains (i + 1) << 56 | i << 8, so that each address shows from which
    /// registers it was computed.
    fn registers() -> [u64; 16] {
        std::array::from_fn(|i| ((i as u64 + 1) << 56) | ((i as u64) << 8))
    }

    fn address(bytes: &[u8]) -> Option<u64> {
        memory_operand(bytes, &registers())
    }

    #[test]
    fn plain_operands() {
        // mov eax, [rdi]
        assert_eq!(address(&[0x8b, 0x07]), Some(0x0800_0000_0000_0700));
        // mov [rsi+0x10], r9d
        assert_eq!(
            address(&[0x44, 0x89, 0x4e, 0x10]),
            Some(0x0700_0000_0000_0610)
        );
        // mov rax, [r13-8]
        assert_eq!(
            address(&[0x49, 0x8b, 0x45, 0xf8]),
            Some(0x0e00_0000_0000_0cf8)
        );
        // movzx eax, byte ptr [rcx+rdx*4+0x12345]
        assert_eq!(
            address(&[0x0f, 0xb6, 0x84, 0x91, 0x45, 0x23, 0x01, 0x00]),
            Some(0x0e00_0000_0001_2c45)
        );
        // lock cmpxchg [r12], rdx (needs a SIB byte)
        assert_eq!(
            address(&[0xf0, 0x49, 0x0f, 0xb1, 0x14, 0x24]),
            Some(0x0d00_0000_0000_0c00)
        );
        // mov eax, [rbx*8 + 0x100] (no base)
        assert_eq!(
            address(&[0x8b, 0x04, 0xdd, 0x00, 0x01, 0x00, 0x00]),
            Some(0x2000_0000_0000_1900)
        );
    }

    #[test]
    fn vector_operands() {
        // movups xmm0, [rsi]
        assert_eq!(address(&[0x0f, 0x10, 0x06]), Some(0x0700_0000_0000_0600));
        // vmovups ymm0, [r8+rax] (three-byte VEX)
        assert_eq!(
            address(&[0xc4, 0xc1, 0x7c, 0x10, 0x04, 0x00]),
            Some(0x0a00_0000_0000_0800)
        );
        // vmovaps [rdi], xmm1 (two-byte VEX)
        assert_eq!(
            address(&[0xc5, 0xf8, 0x29, 0x0f]),
            Some(0x0800_0000_0000_0700)
        );
        // vmovups zmm0, [rdi] (EVEX)
        assert_eq!(
            address(&[0x62, 0xf1, 0x7c, 0x48, 0x10, 0x07]),
            Some(0x0800_0000_0000_0700)
        );
        // pshufb xmm0, [rdx]
        assert_eq!(
            address(&[0x66, 0x0f, 0x38, 0x00, 0x02]),
            Some(0x0300_0000_0000_0200)
        );
    }

    #[test]
    fn implicit_operands() {
        // If both operands of rep movsb are non-canonical, the address of the source is returned.
        assert_eq!(address(&[0xf3, 0xa4]), Some(0x0700_0000_0000_0600));
        let mut good_source = registers();
        good_source[RSI] = 0x1000;
        assert_eq!(
            memory_operand(&[0xf3, 0xa4], &good_source),
            Some(0x0800_0000_0000_0700)
        );
        // push rbp, ret, call rcx
        assert_eq!(address(&[0x55]), Some(0x0500_0000_0000_03f8));
        assert_eq!(address(&[0xc3]), Some(0x0500_0000_0000_0400));
        assert_eq!(address(&[0xff, 0xd1]), Some(0x0200_0000_0000_0100));
        assert_eq!(address(&[0x41, 0xff, 0xe0]), Some(0x0900_0000_0000_0800));
    }

    #[test]
    fn no_operand_no_address_and_no_panic() {
        assert_eq!(address(&[]), None);
        assert_eq!(address(&[0x48]), None);
        assert_eq!(address(&[0x01, 0xc8]), None); // add eax, ecx
        assert_eq!(address(&[0x8b, 0x05, 1, 0, 0, 0]), None); // rip-relative
        assert_eq!(address(&[0x64, 0x8b, 0x07]), None); // fs:
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                for len in 1..=MAX_LENGTH {
                    let mut bytes = [0xffu8; MAX_LENGTH];
                    bytes[0] = first;
                    if len > 1 {
                        bytes[1] = second;
                    }
                    let _ = memory_operand(&bytes[..len], &[u64::MAX; 16]);
                }
            }
        }
    }
}
