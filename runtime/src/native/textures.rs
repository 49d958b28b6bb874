//! Texture and surface accesses of kernels. This module finds the textures, samplers and surfaces
//! that belong to the handles; [`margay_ops::texture`] performs the accesses.

use margay_exec::FaultKind;
use margay_ops::meaning::Bits;
use margay_ops::texture::sample::Texture;
use margay_ops::texture::{
    Access, LevelMode, Memory, Operation, Query, ReferenceKind, Results, Sampler, query, sample,
    surface,
};
use smallvec::{SmallVec, smallvec};

use super::reach::Reach;
use super::{faults, helpers};
use crate::fault::{AccessKind, access};
use crate::texture_table::{Bound, Texels, TextureTable};

/// Implements memory access for [`margay_ops::texture`] with device memory. An access to unmapped memory returns a
/// fault.
pub(super) struct DeviceBytes;

impl Memory for DeviceBytes {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), FaultKind> {
        // A single access reads all bytes of a texel of a usual size.
        let done = match bytes.len() {
            1 => access::load8(address).map(|value| bytes[0] = value),
            2 => access::load16(address).map(|v| bytes.copy_from_slice(&v.to_le_bytes())),
            4 => access::load32(address).map(|v| bytes.copy_from_slice(&v.to_le_bytes())),
            8 => access::load64(address).map(|v| bytes.copy_from_slice(&v.to_le_bytes())),
            16 => access::load128(address).map(|v| bytes.copy_from_slice(&v.to_le_bytes())),
            _ => access::read(bytes, address),
        };
        done.map_err(faults::of_access)
    }

    #[inline(always)]
    fn gather(
        &mut self,
        addresses: &[u64],
        displacement: u64,
        bytes: usize,
        out: &mut [u32],
    ) -> Result<(), (usize, FaultKind)> {
        let done = access::gather(addresses, displacement, bytes, out);
        done.map_err(|(lane, fault)| (lane, faults::of_access(fault)))
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), FaultKind> {
        // SAFETY: the address is in an array or buffer of the program; an access that is not permitted faults and is
        // reported.
        unsafe { access::write(address, bytes) }.map_err(faults::of_access)
    }

    fn update(
        &mut self,
        address: u64,
        bytes: u32,
        new: &mut dyn FnMut(Bits) -> Bits,
    ) -> Result<(), FaultKind> {
        helpers::update_at(address, bytes, new).map(|_| ())
    }
}

fn wrong(access: &Access, handle: u64, why: &str) -> FaultKind {
    FaultKind::InvalidReference {
        what: format!("{}: handle {handle:#x} {why}", access.operation.name()),
    }
}

fn kind_name(kind: ReferenceKind) -> &'static str {
    match kind {
        ReferenceKind::Texture => "is a texture",
        ReferenceKind::Sampler => "is a sampler",
        ReferenceKind::Surface => "is a surface",
    }
}

fn bound<'t>(
    table: &'t TextureTable,
    access: &Access,
    handle: u64,
) -> Result<&'t Bound, FaultKind> {
    let found = table.get(handle);
    found.ok_or_else(|| wrong(access, handle, "is not a texture, sampler or surface"))
}

fn texture<'t>(
    table: &'t TextureTable,
    access: &Access,
    handle: u64,
) -> Result<(Option<&'t Texels>, &'t Sampler), FaultKind> {
    match bound(table, access, handle)? {
        Bound::Texture(texture) => Ok((texture.texels.as_deref(), &texture.sampler)),
        other => Err(wrong(access, handle, kind_name(other.kind()))),
    }
}

fn surface<'t>(
    table: &'t TextureTable,
    access: &Access,
    handle: u64,
) -> Result<&'t Texels, FaultKind> {
    match bound(table, access, handle)? {
        Bound::Surface(Some(texels)) => Ok(texels),
        Bound::Surface(None) => Err(wrong(access, handle, "has no array bound to it")),
        other => Err(wrong(access, handle, kind_name(other.kind()))),
    }
}

/// Returns the sampler for an access that has a separate sampler `other`. `own` is the texture's
/// sampler. The result has the read mode, the sRGB conversion and the kind of coordinates (normalised or
/// not) of `own`, and all other properties of `other`.
fn combined(own: &Sampler, other: &Sampler) -> Sampler {
    Sampler {
        normalized: own.normalized,
        read: own.read,
        srgb: own.srgb,
        ..*other
    }
}

/// Returns an error if a CTA must not read the texels `texels`. If the texels are in host memory,
/// this memory must still be registered with the runtime.
///
/// # Errors
/// Returns the fault that a read of the first texel causes.
pub(super) fn readable(texels: &Texels, reach: Option<&Reach<'_>>) -> Result<(), FaultKind> {
    let Some(range) = &texels.registered else {
        return Ok(());
    };
    let bytes = range.end - range.start;
    helpers::allowed(reach, range.start, bytes, AccessKind::Read).map_err(faults::of_access)
}

/// Performs a texture or surface access with the operands `args`. `reach` is the memory that the
/// CTA may access.
pub(super) fn perform(
    table: &TextureTable,
    reach: Option<&Reach<'_>>,
    access: &Access,
    args: &[Bits],
) -> Result<Results, FaultKind> {
    let handle = args.first().copied().unwrap_or(0) as u64;
    let rest = args.get(1..).unwrap_or_default();
    match access.operation {
        Operation::Tex | Operation::Tld4 => {
            let (texels, own) = texture(table, access, handle)?;
            let unbound = || wrong(access, handle, "has nothing bound to it");
            let texels = texels.ok_or_else(unbound)?;
            readable(texels, reach)?;
            let image = &texels.image;
            let coords = rest.get(1..).unwrap_or_default();
            let other = rest.first().copied().unwrap_or(0) as u64;
            let named;
            let sampler = match other {
                0 => own,
                other => {
                    named = combined(own, sampler_of(table, access, other)?);
                    &named
                }
            };
            sample::fetch(
                access,
                &Texture { image, sampler },
                coords,
                &mut DeviceBytes,
            )
        }
        Operation::Txq => txq(table, access, handle, rest),
        Operation::Suq => {
            let texels = surface(table, access, handle)?;
            Ok(smallvec![
                query::answer(access, &texels.image, None, 0).into()
            ])
        }
        Operation::Istypep => {
            let wanted = match access.query {
                Query::Samplerref => ReferenceKind::Sampler,
                Query::Surfref => ReferenceKind::Surface,
                _ => ReferenceKind::Texture,
            };
            let is = table
                .get(handle)
                .is_some_and(|bound| bound.kind() == wanted);
            Ok(smallvec![is.into()])
        }
        Operation::Suld | Operation::Sust | Operation::Sured => {
            let texels = surface(table, access, handle)?;
            surface::access(access, &texels.image, rest, &mut DeviceBytes)
        }
        Operation::None => Ok(SmallVec::new()),
    }
}

fn sampler_of<'t>(
    table: &'t TextureTable,
    access: &Access,
    handle: u64,
) -> Result<&'t Sampler, FaultKind> {
    match bound(table, access, handle)? {
        Bound::Sampler(sampler) => Ok(sampler),
        Bound::Texture(texture) => Ok(&texture.sampler),
        other => Err(wrong(access, handle, kind_name(other.kind()))),
    }
}

/// Performs `txq`, which queries a property of the texture or sampler with the handle `handle`. If
/// the handle belongs to a sampler, the instruction can query only sampler properties.
fn txq(
    table: &TextureTable,
    access: &Access,
    handle: u64,
    rest: &[Bits],
) -> Result<Results, FaultKind> {
    let level = match access.level {
        LevelMode::Level => rest.get(1).copied().unwrap_or(0) as u32,
        _ => 0,
    };
    let answer = match bound(table, access, handle)? {
        Bound::Sampler(sampler) => query::of_sampler(access, sampler),
        _ => {
            let (texels, sampler) = texture(table, access, handle)?;
            match texels {
                Some(texels) => query::answer(access, &texels.image, Some(sampler), level),
                None => query::of_sampler(access, sampler),
            }
        }
    };
    Ok(smallvec![answer.into()])
}
