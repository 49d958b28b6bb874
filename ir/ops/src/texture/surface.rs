//! The reference functions of `suld`, `sust` and `sured`, which access whole texels or bytes of
//! surfaces.

use smallvec::SmallVec;

use super::format::Component;
use super::{Access, Channel, Edge, Image, Level, Memory, Operation, Results};
use crate::fault::FaultKind;
use crate::meaning::{Bits, Desc, atomic, mask};
use crate::mods::Mods;
use crate::ops::Opcode;
use crate::types::OpType;

/// Performs the surface access that `access` describes, and returns its results. `args` are the
/// operands that follow the handle.
///
/// # Errors
/// Returns [`FaultKind::SurfaceBounds`] if an access with `.trap` is outside the surface, and
/// another fault if the program has freed or unmapped the memory.
pub fn access(
    access: &Access,
    image: &Image,
    args: &[Bits],
    memory: &mut impl Memory,
) -> Result<Results, FaultKind> {
    let mut rest = args.iter().copied();
    let mut next = || rest.next().unwrap_or(0);
    let layer = access.geometry.is_layered().then(|| next() as u32);
    let mut at = [0i64; 3];
    for c in at.iter_mut().take(access.geometry.dimensions()) {
        *c = i64::from(next() as i32);
    }
    if let Some(layer) = layer {
        at[2] = i64::from(layer);
    }
    let values: SmallVec<[Bits; 4]> = rest.collect();
    let Some(level) = image.level(0) else {
        return Ok(zeros(access));
    };
    // The number of bytes by which the offset grows if x grows by 1, and the size of the access in bytes.
    let (unit, bytes) = match access.formatted {
        true => (image.format.bytes() as u64, image.format.bytes() as u64),
        false => (1, element_bytes(access) * access.count() as u64),
    };
    let Some(address) = place(access, image, level, at, (unit, bytes))? else {
        return Ok(zeros(access));
    };
    match access.operation {
        Operation::Suld => load(access, image, address, memory),
        Operation::Sust => store(access, image, address, &values, memory),
        _ => reduce(access, image, address, values.first(), memory),
    }
}

fn element_bytes(access: &Access) -> u64 {
    u64::from(access.ty.bits().div_ceil(8))
}

fn zeros(access: &Access) -> Results {
    match access.operation {
        Operation::Suld => SmallVec::from_elem(0, access.count()),
        _ => SmallVec::new(),
    }
}

/// Returns the host address of an access of `bytes` bytes, or `None` if the access is outside the
/// surface and has no effect.
fn place(
    access: &Access,
    image: &Image,
    level: &Level,
    at: [i64; 3],
    (unit, bytes): (u64, u64),
) -> Result<Option<u64>, FaultKind> {
    let row = u64::from(level.width) * image.format.bytes() as u64;
    // Accesses are aligned to their size, so the low bits of the offset are ignored.
    let last = [
        (row.checked_sub(bytes)).map(|last| last / bytes * bytes / unit),
        Some(u64::from(level.height.max(1) - 1)),
        Some(u64::from(level.depth.max(1) - 1)),
    ];
    let mut inside = [0u64; 3];
    for i in 0..3 {
        let known = last[i].filter(|&last| u64::try_from(at[i]).is_ok_and(|c| c <= last));
        inside[i] = match (known, access.edge, last[i]) {
            (Some(_), ..) => at[i] as u64,
            (None, Edge::Clamp, Some(last)) => at[i].clamp(0, last as i64) as u64,
            (None, Edge::Clamp | Edge::Zero, _) => return Ok(None),
            _ => {
                return Err(FaultKind::SurfaceBounds {
                    at,
                    size: [row / unit, level.height.into(), level.depth.into()],
                });
            }
        };
    }
    let [x, y, z] = inside;
    let offset = x * unit / bytes * bytes + y * level.pitch + z * level.slice;
    Ok(level.address.checked_add(offset))
}

fn load(
    access: &Access,
    image: &Image,
    address: u64,
    memory: &mut impl Memory,
) -> Result<Results, FaultKind> {
    let mut bytes = [0u8; 16];
    if access.formatted {
        let texel = &mut bytes[..image.format.bytes()];
        memory.read(address, texel)?;
        let bits = image.format.unpack(texel);
        let all = (0..4).map(|i| match image.format.normalized {
            true => (image.format.number(bits[i], i, false) as f32).to_bits(),
            false => bits[i],
        });
        return Ok(all.take(access.count()).map(Bits::from).collect());
    }
    let size = element_bytes(access) as usize;
    let whole = &mut bytes[..size * access.count()];
    memory.read(address, whole)?;
    let elements = whole.chunks_exact(size);
    Ok(elements
        .map(|element| {
            let mut wide = [0; 16];
            wide[..size].copy_from_slice(element);
            Bits::from_le_bytes(wide)
        })
        .collect())
}

fn store(
    access: &Access,
    image: &Image,
    address: u64,
    values: &[Bits],
    memory: &mut impl Memory,
) -> Result<Results, FaultKind> {
    let mut bytes = [0u8; 16];
    if access.formatted {
        let component = |bits: u32| match access.ty {
            OpType::F32 => Component::Float(f32::from_bits(bits)),
            OpType::U32 => Component::Unsigned(bits),
            OpType::S32 => Component::Signed(bits as i32),
            _ => untyped(image, bits),
        };
        let of = |i: usize| component(values.get(i).copied().unwrap_or(0) as u32);
        let texel = &mut bytes[..image.format.bytes()];
        image.format.pack(&std::array::from_fn(of), texel);
        memory.write(address, texel)?;
        return Ok(SmallVec::new());
    }
    let size = element_bytes(access) as usize;
    for (value, element) in values.iter().zip(bytes.chunks_exact_mut(size)) {
        element.copy_from_slice(&value.to_le_bytes()[..size]);
    }
    memory.write(address, &bytes[..size * access.count()])?;
    Ok(SmallVec::new())
}

/// Returns the value that the 32 bits of an untyped register represent as a component of the
/// surface's format.
fn untyped(image: &Image, bits: u32) -> Component {
    let channel = image.format.channel;
    if channel.is_float() || image.format.normalized {
        Component::Float(f32::from_bits(bits))
    } else if channel.is_signed() {
        Component::Signed(bits as i32)
    } else {
        Component::Unsigned(bits)
    }
}

fn reduce(
    access: &Access,
    image: &Image,
    address: u64,
    value: Option<&Bits>,
    memory: &mut impl Memory,
) -> Result<Results, FaultKind> {
    let signed = image.format.channel.is_signed();
    let ty = match (access.formatted, access.ty) {
        (true, OpType::B64) if signed => OpType::S64,
        (true, OpType::B64) => OpType::U64,
        (true, _) if signed => OpType::S32,
        (true, _) => OpType::U32,
        (false, ty) => ty,
    };
    let whole = image.format.bytes() as u64 == element_bytes(access);
    if access.formatted && (!whole || image.format.channel == Channel::F16) {
        return Err(FaultKind::Unsupported {
            what: format!("{access} on texels of {} bytes", image.format.bytes()),
        });
    }
    let bytes = ty.bits().div_ceil(8);
    let desc = Desc {
        opcode: Opcode::Red,
        ty,
        src: OpType::None,
        mods: Mods::NONE.with_atom_op(access.reduction),
    };
    let operand = [value.copied().unwrap_or(0) & mask(ty.bits()), 0];
    memory.update(address, bytes, &mut |old| {
        atomic::update(&desc, old, &operand)
    })?;
    Ok(SmallVec::new())
}
