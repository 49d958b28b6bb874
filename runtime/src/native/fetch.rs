//! Texture fetches for generated code. One call fetches for one lane or for all lanes of a chunk.
//! The most common fetches use the texture's plan, which is data computed once for an image and a
//! sampler. With a plan, [`margay_ops::texture::lanes`] fetches texels for several lanes at once.
//! That code uses AVX2 if the processor supports AVX2. All other texture accesses run for one lane
//! after the other.

use margay_exec::FaultKind;
use margay_ops::meaning::Bits;
use margay_ops::texture::lanes::Coordinates;
use margay_ops::texture::{Access, Plan, Shape};
use margay_ops::types::Type;
use smallvec::SmallVec;

use super::reach::Reach;
use super::textures::{self, DeviceBytes};
use crate::texture_table::{Bound, TextureTable};

/// Number of lanes of a chunk that one call of [`fetch`] processes.
const LANES: usize = 8;

/// The fetched texels: for each of four components, one element per lane.
type Elements<const N: usize> = [[u32; N]; 4];
/// The result of a fetch; an error contains the index of the lane whose fetch failed, and the
/// fault.
type Fetched = Result<(), (usize, FaultKind)>;

#[inline(always)]
fn fetch<const N: usize>(
    plan: &Plan,
    shape: Shape,
    coordinates: &Coordinates<N>,
    live: u32,
    out: &mut Elements<N>,
) -> Fetched {
    plan.fetch(shape, coordinates, live, &mut DeviceBytes, out)
}

/// Does the same as [`fetch`], but is compiled for processors with AVX2. The Rust compiler does not contract
/// multiplications and additions to fused operations, so the results have the same bits.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn fetch_avx2<const N: usize>(
    plan: &Plan,
    shape: Shape,
    coordinates: &Coordinates<N>,
    live: u32,
    out: &mut Elements<N>,
) -> Fetched {
    fetch(plan, shape, coordinates, live, out)
}

fn fetch_here<const N: usize>(
    plan: &Plan,
    shape: Shape,
    coordinates: &Coordinates<N>,
    live: u32,
    out: &mut Elements<N>,
) -> Fetched {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { fetch_avx2(plan, shape, coordinates, live, out) };
    }
    fetch(plan, shape, coordinates, live, out)
}

/// Returns the plan of a texture if the texture has a plan and the plan supports `shape`.
///
/// # Errors
/// Returns a fault if the CTA must not read the texture's texels.
fn plan_of<'t>(
    table: &'t TextureTable,
    reach: Option<&Reach<'_>>,
    handle: u64,
    shape: Shape,
) -> Result<Option<&'t Plan>, FaultKind> {
    let Some(Bound::Texture(texture)) = table.get(handle) else {
        return Ok(None);
    };
    let plan = texture.plan.as_deref().filter(|plan| plan.takes(shape));
    if let (Some(_), Some(texels)) = (plan, &texture.texels) {
        textures::readable(texels, reach)?;
    }
    Ok(plan)
}

/// Performs a texture fetch for one lane with the texture's plan. `access` is the payload of the fetch op. Returns
/// `None` if the texture has no plan, if its plan does not support the access, or if the access has a separate sampler.
pub(super) fn one(
    table: &TextureTable,
    reach: Option<&Reach<'_>>,
    access: u64,
    args: &[Bits],
) -> Result<Option<[u32; 4]>, FaultKind> {
    let Some(shape) = Shape::of_payload(access) else {
        return Ok(None);
    };
    let &[handle, 0, ref rest @ ..] = args else {
        return Ok(None);
    };
    let Some(plan) = plan_of(table, reach, handle as u64, shape)? else {
        return Ok(None);
    };
    let skipped = usize::from(shape.layered);
    let word = |i: usize| rest.get(i).copied().unwrap_or(0) as u32;
    let coordinates = Coordinates {
        layer: [word(0)],
        at: [0, 1, 2].map(|i| [word(skipped + i)]),
    };
    let mut out = [[0]; 4];
    fetch_here(plan, shape, &coordinates, 1, &mut out).map_err(|(_, fault)| fault)?;
    Ok(Some(out.map(|[element]| element)))
}

/// Operands and results of a texture access by the lanes of a chunk. Each operand and each result
/// has a row of `2 * width` words; the rows of the operands come first. A 64-bit value uses two
/// words of its row for each lane; any other value uses one word for each lane.
pub(super) struct Rows<'a> {
    pub(super) words: &'a mut [u32],
    /// Number of lanes.
    pub(super) width: usize,
    /// Number of operands.
    pub(super) args: usize,
    /// Bit mask of the operands that are uniform; the row of a uniform operand contains only the
    /// value of the first lane.
    pub(super) uniform: u32,
}

impl Rows<'_> {
    fn is_uniform(&self, arg: usize) -> bool {
        self.uniform >> arg & 1 != 0
    }

    fn row(&self, row: usize) -> &[u32] {
        let size = 2 * self.width;
        &self.words[row * size..][..size]
    }

    fn arg(&self, arg: usize, lane: usize, wide: bool) -> u64 {
        let lane = if self.is_uniform(arg) { 0 } else { lane };
        let row = self.row(arg);
        match wide {
            true => u64::from(row[2 * lane]) | u64::from(row[2 * lane + 1]) << 32,
            false => row[lane].into(),
        }
    }

    /// Returns the values of the 32-bit operand `arg` for the lanes `first`, `first + 1` and so on.
    /// The values of lanes that the chunk does not have are 0.
    fn lanes(&self, arg: usize, first: usize) -> [u32; LANES] {
        if arg >= self.args {
            return [0; LANES];
        }
        let row = self.row(arg);
        if self.is_uniform(arg) {
            return [row[0]; LANES];
        }
        if let Some(&lanes) = row[first..self.width].first_chunk() {
            return lanes;
        }
        let mut out = [0; LANES];
        for (out, &word) in out.iter_mut().zip(&row[first..self.width]) {
            *out = word;
        }
        out
    }

    /// Stores texels in the result rows of the lanes `first`, `first + 1` and so on. Bit `n` of `live` states whether
    /// element `n` of each row of `found` is stored.
    fn put(&mut self, found: &Elements<LANES>, count: usize, first: usize, live: u32) {
        let size = 2 * self.width;
        let n = LANES.min(self.width - first);
        for (i, found) in found.iter().enumerate().take(count) {
            let row = &mut self.words[(self.args + i) * size + first..][..n];
            if live == 0xff
                && let Some(row) = row.first_chunk_mut()
            {
                *row = *found;
                continue;
            }
            for (lane, (row, &found)) in row.iter_mut().zip(found).enumerate() {
                if live >> lane & 1 != 0 {
                    *row = found;
                }
            }
        }
    }

    fn by_plan(&mut self, plan: &Plan, shape: Shape, live: u32) -> Fetched {
        let skipped = 2 + usize::from(shape.layered);
        for first in (0..self.width).step_by(LANES) {
            let here = live >> first & 0xff;
            if here == 0 {
                continue;
            }
            let mut coordinates = Coordinates {
                layer: [0; LANES],
                at: [[0; LANES]; 3],
            };
            if shape.layered {
                coordinates.layer = self.lanes(2, first);
            }
            for (i, at) in coordinates.at.iter_mut().enumerate().take(shape.dimensions) {
                *at = self.lanes(skipped + i, first);
            }
            let mut found = [[0; LANES]; 4];
            fetch_here(plan, shape, &coordinates, here, &mut found)
                .map_err(|(lane, fault)| (first + lane, fault))?;
            self.put(&found, shape.count, first, here);
        }
        Ok(())
    }

    /// Returns the texture handle of the lowest lane in `live`, and the mask of the lanes in `live`
    /// that use this texture without a separate sampler.
    fn together(&self, live: u32) -> (u64, u32) {
        let first = live.trailing_zeros() as usize;
        let handle = self.arg(0, first, true);
        if self.is_uniform(0) && self.is_uniform(1) {
            return (handle, if self.arg(1, 0, true) == 0 { live } else { 0 });
        }
        let same = |lane: usize| self.arg(0, lane, true) == handle && self.arg(1, lane, true) == 0;
        let lanes = (0..self.width).filter(|&lane| live >> lane & 1 != 0 && same(lane));
        (handle, lanes.fold(0, |all, lane| all | 1 << lane))
    }
}

/// Performs a texture access for the lanes whose bits are set in `live`.
///
/// # Errors
/// If a fetch fails, returns its fault and its lane. If several fetches would fail, this is the
/// first of them in the order of execution.
pub(super) fn lanes(
    table: &TextureTable,
    reach: Option<&Reach<'_>>,
    payload: u64,
    rows: &mut Rows<'_>,
    mut live: u32,
) -> Fetched {
    let shape = Shape::of_payload(payload);
    let mut known = None;
    while live != 0 {
        if let Some(shape) = shape {
            let (handle, group) = rows.together(live);
            let plan = match group {
                0 => None,
                _ => plan_of(table, reach, handle, shape)
                    .map_err(|fault| (group.trailing_zeros() as usize, fault))?,
            };
            if let Some(plan) = plan {
                rows.by_plan(plan, shape, group)?;
                live &= !group;
                continue;
            }
        }
        let lane = live.trailing_zeros() as usize;
        let access = *known.get_or_insert_with(|| Access::from_payload(payload));
        let access = access.ok_or((lane, FaultKind::IllegalInstruction))?;
        single(table, reach, &access, rows, lane).map_err(|fault| (lane, fault))?;
        live &= live - 1;
    }
    Ok(())
}

/// Performs a texture access for one lane without the texture's plan.
fn single(
    table: &TextureTable,
    reach: Option<&Reach<'_>>,
    access: &Access,
    rows: &mut Rows<'_>,
    lane: usize,
) -> Result<(), FaultKind> {
    let args: SmallVec<[Bits; 16]> = access
        .params()
        .iter()
        .take(rows.args)
        .enumerate()
        .map(|(i, &ty)| rows.arg(i, lane, ty == Type::B64).into())
        .collect();
    let found = textures::perform(table, reach, access, &args)?;
    let size = 2 * rows.width;
    let types = access.results();
    for (i, (&bits, &ty)) in found.iter().zip(&types).enumerate() {
        let Some(row) = rows.words.chunks_exact_mut(size).nth(rows.args + i) else {
            break;
        };
        if ty == Type::B64 {
            row[2 * lane] = bits as u32;
            row[2 * lane + 1] = (bits >> 32) as u32;
        } else {
            row[lane] = bits as u32;
        }
    }
    Ok(())
}
