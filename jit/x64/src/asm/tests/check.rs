//! Compares what the decoder reads with the instruction that was encoded.

use iced_x86::{
    CpuidFeature, Decoder, DecoderOptions, EncodingKind, Instruction, InstructionInfoFactory,
    OpAccess, OpKind, Register, RoundingControl,
};

use crate::asm::row::{Encoding, Kind, Row, Slot, flag};
use crate::asm::{Base, Features, Index, Inst, Mask, Mem, Operand, Role, Rounding, Width};

/// Where the decoder believes the instruction is.
pub(super) const POSITION: u64 = 0x1000;

/// Decodes one instruction.
pub(super) fn decode(bytes: &[u8]) -> Result<Instruction, String> {
    let mut decoder = Decoder::with_ip(64, bytes, POSITION, DecoderOptions::NONE);
    let decoded = decoder.decode();
    if decoded.is_invalid() {
        return Err(format!("{bytes:02x?} is no instruction"));
    }
    if decoded.len() != bytes.len() {
        return Err(format!("{bytes:02x?} ends behind {} bytes", decoded.len()));
    }
    Ok(decoded)
}

macro_rules! same {
    ($left:expr, $right:expr, $what:expr) => {{
        let (left, right) = ($left, $right);
        if left != right {
            return Err(format!("{}: {left:?} is not {right:?}", $what));
        }
    }};
}

/// Checks that the bytes are the instruction in the encoding of the row.
pub(super) fn check(row: &Row, inst: &Inst, bytes: &[u8]) -> Result<(), String> {
    let decoded = decode(bytes)?;
    let encoding = match row.encoding {
        Encoding::Legacy => EncodingKind::Legacy,
        Encoding::Vex => EncodingKind::VEX,
        Encoding::Evex => EncodingKind::EVEX,
    };
    same!(decoded.encoding(), encoding, "encoding");
    let mnemonic = format!("{:?}", decoded.mnemonic()).to_lowercase();
    same!(
        mnemonic,
        row.mnemonic.to_owned() + &condition(inst),
        "mnemonic"
    );
    operands(row, inst, &decoded)?;
    options(inst, &decoded)?;
    features(row, inst.width, &decoded)?;
    allowed(row, inst.width, &decoded)?;
    accesses(row, inst, &decoded)
}

fn condition(inst: &Inst) -> String {
    let conditions = inst.operands.iter().filter_map(|x| match x {
        Operand::Cond(cond) => Some(format!("{cond:?}").to_lowercase()),
        _ => None,
    });
    conditions.collect()
}

/// The width that the operands have: `mov` of a 32-bit number writes a 64-bit register as the 32-bit one.
fn width(row: &Row, inst: &Inst) -> Width {
    match row.stated().last() {
        Some(slot) if slot.kind == Kind::ImmUnsigned32 => Width::W32,
        _ => inst.width,
    }
}

/// The operands, except conditions, and their numbers in the decoded instruction.
fn numbered<'a>(
    row: &'a Row,
    inst: &'a Inst,
) -> impl Iterator<Item = (u32, &'a Slot, &'a Operand)> {
    let slots = row.stated().iter().zip(&inst.operands);
    let slots = slots.filter(|(slot, _)| slot.kind != Kind::Cond);
    slots
        .enumerate()
        .map(|(n, (slot, operand))| (n as u32, slot, operand))
}

fn operands(row: &Row, inst: &Inst, decoded: &Instruction) -> Result<(), String> {
    let width = width(row, inst);
    let mut count = 0;
    for (n, slot, operand) in numbered(row, inst) {
        count += 1;
        match operand {
            Operand::Gpr(_) | Operand::Zmm(_) | Operand::Mask(_) => {
                same!(decoded.op_kind(n), OpKind::Register, n);
                same!(decoded.op_register(n), register(slot, width, operand), n);
            }
            Operand::Mem(mem) => {
                same!(decoded.op_kind(n), OpKind::Memory, n);
                memory(row, inst.width, slot, mem, decoded)?;
            }
            Operand::Imm(value) => {
                let bits = match slot.kind {
                    Kind::Imm8 | Kind::Imm4 => 8,
                    _ => width.bytes() * 8,
                };
                let mask = u64::MAX >> (64 - bits);
                same!(decoded.immediate(n) & mask, *value as u64 & mask, n);
            }
            Operand::Label(_) => {
                // The field of a distance to a label that is not bound is 0.
                let next = POSITION + decoded.len() as u64;
                let target = if slot.kind == Kind::Label8 {
                    POSITION
                } else {
                    next
                };
                same!(decoded.near_branch64(), target, n);
            }
            Operand::Cond(_) | Operand::None => return Err("unexpected operand".to_owned()),
        }
    }
    let implied = (count..decoded.op_count()).map(|n| decoded.op_register(n));
    match implied.collect::<Vec<_>>()[..] {
        [] | [Register::CL] => Ok(()),
        ref other => Err(format!("further operands {other:?}")),
    }
}

fn register(slot: &Slot, width: Width, operand: &Operand) -> Register {
    match (operand, slot.kind) {
        (Operand::Gpr(n), kind) => {
            let width = match kind {
                Kind::Gpr8 => Width::W8,
                Kind::Gpr16 => Width::W16,
                Kind::Gpr32 => Width::W32,
                Kind::Gpr64 => Width::W64,
                _ => width,
            };
            general(width, n.0)
        }
        (Operand::Mask(n), _) => Register::K0 + u32::from(n.0),
        (Operand::Zmm(n), Kind::Half) => vector(width.bytes() / 2, n.0),
        (Operand::Zmm(n), Kind::Xmm) => vector(16, n.0),
        (Operand::Zmm(n), _) => vector(width.bytes(), n.0),
        _ => Register::None,
    }
}

fn general(width: Width, n: u8) -> Register {
    let first = match width {
        // The decoder numbers `ah` to `bh` between the low bytes of the registers 3 and 4.
        Width::W8 if n >= 4 => return Register::SPL + u32::from(n - 4),
        Width::W8 => Register::AL,
        Width::W16 => Register::AX,
        Width::W32 => Register::EAX,
        _ => Register::RAX,
    };
    first + u32::from(n)
}

fn vector(bytes: u32, n: u8) -> Register {
    let first = match bytes {
        64 => Register::ZMM0,
        32 => Register::YMM0,
        _ => Register::XMM0,
    };
    first + u32::from(n)
}

fn memory(
    row: &Row,
    width: Width,
    slot: &Slot,
    mem: &Mem,
    decoded: &Instruction,
) -> Result<(), String> {
    let base = match mem.base {
        Base::None => Register::None,
        Base::Gpr(n) => general(Width::W64, n.0),
        _ => Register::RIP,
    };
    let (index, scale) = match mem.index {
        Index::None => (Register::None, 0),
        Index::Gpr(n, scale) => (general(Width::W64, n.0), scale as u32),
        Index::Zmm(n, scale) if slot.kind == Kind::Half => {
            (vector(width.bytes() / 2, n.0), scale as u32)
        }
        Index::Zmm(n, scale) => (vector(width.bytes(), n.0), scale as u32),
    };
    let disp = match mem.base {
        Base::None | Base::Gpr(_) => i64::from(mem.disp),
        _ => i64::from(mem.disp) + POSITION as i64 + decoded.len() as i64,
    };
    same!(decoded.memory_base(), base, "base");
    same!(decoded.memory_index(), index, "index");
    same!(decoded.memory_index_scale(), 1 << scale, "scale");
    same!(decoded.memory_displacement64() as i64, disp, "displacement");
    same!(decoded.is_broadcast(), mem.broadcast, "broadcast");
    let size = decoded.memory_size();
    if mem.broadcast {
        same!(size.element_size() as u32, row.element_bytes(), "element");
        return Ok(());
    }
    same!(size.size() as u32, row.memory_bytes(width), "memory");
    Ok(())
}

fn options(inst: &Inst, decoded: &Instruction) -> Result<(), String> {
    let mask = match inst.mask {
        Mask::NONE => Register::None,
        Mask(n) => Register::K0 + u32::from(n),
    };
    same!(decoded.op_mask(), mask, "mask");
    same!(decoded.zeroing_masking(), inst.zeroing, "zeroing");
    let (control, suppress) = match inst.rounding {
        Rounding::Mxcsr => (RoundingControl::None, false),
        Rounding::Nearest => (RoundingControl::RoundToNearest, true),
        Rounding::Down => (RoundingControl::RoundDown, true),
        Rounding::Up => (RoundingControl::RoundUp, true),
        Rounding::Zero => (RoundingControl::RoundTowardZero, true),
        Rounding::SuppressOnly => (RoundingControl::None, true),
    };
    same!(decoded.rounding_control(), control, "rounding");
    // The decoder does not state separately that a rounding suppresses exceptions.
    let suppress = suppress && control == RoundingControl::None;
    same!(decoded.suppress_all_exceptions(), suppress, "exceptions");
    same!(decoded.has_lock_prefix(), inst.lock, "lock");
    Ok(())
}

/// The features of the decoder's list, and all that they imply.
fn features(row: &Row, width: Width, decoded: &Instruction) -> Result<(), String> {
    let mut theirs = Features::NONE;
    for &feature in decoded.cpuid_features() {
        let feature = of_cpuid(feature).ok_or_else(|| format!("feature {feature:?}"))?;
        theirs = theirs.with(feature);
    }
    let closed = |mut x: Features| {
        let parts = Features::ALL
            .without(Features::BASE_AVX2)
            .without(Features::GFNI);
        if x.without(parts) != x {
            x = x.with(Features::AVX512F);
        }
        x
    };
    same!(closed(row.features(width)), closed(theirs), "features");
    Ok(())
}

fn of_cpuid(feature: CpuidFeature) -> Option<Features> {
    Some(match feature {
        CpuidFeature::INTEL8086
        | CpuidFeature::INTEL186
        | CpuidFeature::INTEL286
        | CpuidFeature::INTEL386
        | CpuidFeature::INTEL486
        | CpuidFeature::X64
        | CpuidFeature::CMOV
        | CpuidFeature::PAUSE
        | CpuidFeature::TSC
        | CpuidFeature::SSE
        | CpuidFeature::SSE2 => Features::NONE,
        CpuidFeature::AVX => Features::AVX,
        CpuidFeature::AVX2 => Features::AVX2,
        CpuidFeature::FMA => Features::FMA,
        CpuidFeature::F16C => Features::F16C,
        CpuidFeature::BMI1 => Features::BMI1,
        CpuidFeature::BMI2 => Features::BMI2,
        CpuidFeature::LZCNT => Features::LZCNT,
        CpuidFeature::POPCNT => Features::POPCNT,
        CpuidFeature::CMPXCHG16B => Features::CX16,
        CpuidFeature::PREFETCHW => Features::PREFETCHW,
        CpuidFeature::AVX512F => Features::AVX512F,
        CpuidFeature::AVX512CD => Features::AVX512CD,
        CpuidFeature::AVX512BW => Features::AVX512BW,
        CpuidFeature::AVX512DQ => Features::AVX512DQ,
        CpuidFeature::AVX512VL => Features::AVX512VL,
        CpuidFeature::AVX512_VBMI => Features::AVX512VBMI,
        CpuidFeature::AVX512_VBMI2 => Features::AVX512VBMI2,
        CpuidFeature::AVX512_BITALG => Features::AVX512BITALG,
        CpuidFeature::AVX512_VPOPCNTDQ => Features::AVX512VPOPCNTDQ,
        CpuidFeature::AVX512_VNNI => Features::AVX512VNNI,
        CpuidFeature::AVX512_IFMA => Features::AVX512IFMA,
        CpuidFeature::GFNI => Features::GFNI,
        _ => return None,
    })
}

/// Checks that the row allows the options that exist, and no others.
fn allowed(row: &Row, width: Width, decoded: &Instruction) -> Result<(), String> {
    let code = decoded.op_code();
    let all_bits = width == Width::L512 || row.widths.is_scalar();
    let has = |flags: u16| row.flags & flags != 0;
    same!(code.can_broadcast(), row.allows_broadcast(), "broadcasts");
    same!(
        code.can_use_rounding_control(),
        has(flag::ROUND) && all_bits,
        "roundings"
    );
    let suppress = has(flag::SUPPRESS | flag::ROUND) && all_bits;
    let sae = code.can_suppress_all_exceptions() || code.can_use_rounding_control();
    same!(sae, suppress, "suppression");
    same!(code.can_use_op_mask_register(), row.allows_mask(), "masks");
    same!(
        code.require_op_mask_register(),
        row.requires_mask(),
        "required masks"
    );
    same!(code.can_use_zeroing_masking(), has(flag::ZERO), "zeroing");
    same!(code.can_use_lock_prefix(), has(flag::LOCK), "lock");
    Ok(())
}

/// Checks the roles of operands, and the registers that the instruction implies.
fn accesses(row: &Row, inst: &Inst, decoded: &Instruction) -> Result<(), String> {
    let mut stated = registers(inst);
    let count = stated.len();
    stated.sort_unstable();
    stated.dedup();
    if stated.len() < count {
        // The decoder knows that `xor` of a register with itself does not read it.
        return Ok(());
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(decoded);
    for (n, slot, operand) in numbered(row, inst) {
        let register = matches!(
            operand,
            Operand::Gpr(_) | Operand::Zmm(_) | Operand::Mask(_)
        );
        let merged = inst.mask != Mask::NONE && !inst.zeroing && register;
        let role = if merged {
            row.merged_role(slot)
        } else {
            slot.role
        };
        let access = match info.op_access(n) {
            OpAccess::CondWrite if register => Role::Mod,
            access => role_of(access),
        };
        same!(access, role, format!("role of operand {n}"));
    }
    // The decoder has an access for each part of a register.
    let mut used: Vec<(u8, bool, bool)> = Vec::new();
    for register in info.used_registers() {
        let full = register.register().full_register();
        let stack = full == Register::RSP && decoded.is_stack_instruction();
        if !full.is_gpr64() || stack {
            continue;
        }
        let number = full.number() as u8;
        let role = role_of(register.access());
        let (read, written) = (role != Role::Def, role != Role::Use);
        match used.iter_mut().find(|x| x.0 == number) {
            Some(same) => *same = (number, same.1 || read, same.2 || written),
            None => used.push((number, read, written)),
        }
    }
    used.retain(|x| !stated.contains(&(0, x.0)));
    let implied = row
        .slots()
        .iter()
        .filter_map(|x| Some((x.implied()?.0, x.role())));
    let implied = implied.filter(|(n, _)| !stated.contains(&(0, *n)));
    let mut implied: Vec<_> = implied
        .map(|(n, role)| (n, role != Role::Def, role != Role::Use))
        .collect();
    implied.sort_unstable();
    used.sort_unstable();
    same!(used, implied, "implied registers");
    Ok(())
}

/// What an access amounts to. Addresses and prefetches do not access memory.
fn role_of(access: OpAccess) -> Role {
    match access {
        OpAccess::NoMemAccess | OpAccess::None | OpAccess::Read | OpAccess::CondRead => Role::Use,
        OpAccess::Write | OpAccess::CondWrite => Role::Def,
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => Role::Mod,
    }
}

/// The registers of the operands: their class and number.
fn registers(inst: &Inst) -> Vec<(u8, u8)> {
    let mut all = Vec::new();
    for operand in &inst.operands {
        match *operand {
            Operand::Gpr(n) => all.push((0, n.0)),
            Operand::Zmm(n) => all.push((1, n.0)),
            Operand::Mask(n) => all.push((2, n.0)),
            Operand::Mem(Mem { base, index, .. }) => {
                if let Base::Gpr(n) = base {
                    all.push((0, n.0));
                }
                match index {
                    Index::Gpr(n, _) => all.push((0, n.0)),
                    Index::Zmm(n, _) => all.push((1, n.0)),
                    Index::None => {}
                }
            }
            _ => {}
        }
    }
    all
}
