//! Rules about accesses to memory.

use super::{Found, number, share};
use crate::document::AccessRow;
use crate::requests::SECTOR_BYTES;

pub(super) fn rules(found: &mut Found<'_>) {
    let kernel = found.kernel;
    for row in &kernel.accesses {
        match row.space.as_str() {
            "global" => global(found, row),
            "shared" | "shared::cluster" => conflicts(found, row),
            _ => {}
        }
        if row.kind == "atomic" {
            collisions(found, row);
        }
    }
    local(found);
    reloads(found);
}

/// Returns the distance between the addresses of neighbouring threads in most requests of an access.
fn usual_stride(row: &AccessRow) -> Option<i64> {
    let usual = row.strides.iter().max_by_key(|stride| stride.requests)?;
    (2 * usual.requests > row.counts.requests).then_some(usual.bytes)
}

/// Describes the index of an access whose threads have the distance `stride` in most requests.
fn index_text(row: &AccessRow, stride: Option<i64>) -> String {
    let width = i64::from(row.counts.width.max(1));
    match stride {
        Some(stride) if stride != 0 && stride % width == 0 => {
            let elements = stride / width;
            format!(
                "; neighbouring threads access elements that are {elements} apart (index like threadIdx.x * {elements})"
            )
        }
        Some(stride) if stride != 0 => {
            format!("; the addresses of neighbouring threads are {stride} bytes apart")
        }
        Some(_) => String::new(),
        None => several_strides(row).unwrap_or_else(|| {
            "; the addresses of neighbouring threads have no common distance".to_owned()
        }),
    }
}

/// Describes an access whose threads have a common distance in most requests, but different ones.
fn several_strides(row: &AccessRow) -> Option<String> {
    let known: u64 = row.strides.iter().map(|stride| stride.requests).sum();
    let least = row.strides.iter().map(|stride| stride.bytes).min()?;
    let most = row.strides.iter().map(|stride| stride.bytes).max()?;
    (2 * known > row.counts.requests).then(|| {
        format!(
            "; the addresses of neighbouring threads are {least} to {most} bytes apart, depending on the request"
        )
    })
}

/// Requests that touch more sectors than their bytes need.
fn global(found: &mut Found<'_>, row: &AccessRow) {
    let excess = row.counts.sectors.saturating_sub(row.counts.ideal_sectors);
    let weight = share(excess, found.summary.global.sectors);
    let sectors = share(row.counts.sectors, row.counts.requests);
    let ideal = share(row.counts.ideal_sectors, row.counts.requests);
    let stride = usual_stride(row);
    let (sectors_text, ideal_text) = (number(sectors), number(ideal));
    if stride == Some(i64::from(row.counts.width)) && is_misaligned(row) {
        let text = format!(
            "each request of this {} touches {sectors_text} sectors of {SECTOR_BYTES} bytes, {ideal_text} would do: the \
             first address is not a multiple of {SECTOR_BYTES}",
            row.kind
        );
        let advice =
            "Align the start of each row, for example with cudaMallocPitch, or shift the index.";
        return found.add("misaligned", Some(&row.source), weight, text, advice);
    }
    if sectors >= 1.5 * ideal {
        let index = match stride == Some(i64::from(row.counts.width)) {
            true => gaps_text(row),
            false => index_text(row, stride),
        };
        let text = format!(
            "each request of this {} touches {sectors_text} sectors of {SECTOR_BYTES} bytes, {ideal_text} would \
             do{index}",
            row.kind
        );
        let advice = "Let neighbouring threads access neighbouring elements: exchange the indices, store an array for \
                      each field instead of an array of structures, or copy a tile to shared memory first.";
        found.add("uncoalesced", Some(&row.source), weight, text, advice);
    }
}

/// Returns whether the requests of an access with contiguous elements touch further sectors because of their first
/// address. Such a request touches one further sector at most. Threads between others that do not access memory cost
/// more.
fn is_misaligned(row: &AccessRow) -> bool {
    let excess = row.counts.sectors.saturating_sub(row.counts.ideal_sectors);
    excess <= row.counts.requests && row.counts.threads >= 16 * row.counts.requests
}

/// Describes an access with contiguous elements, some of whose threads do not access memory.
fn gaps_text(row: &AccessRow) -> String {
    let threads = number(share(row.counts.threads, row.counts.requests));
    format!("; only {threads} threads of a warp access memory, with gaps between them")
}

/// Requests to shared memory that take several cycles because of bank conflicts.
fn conflicts(found: &mut Found<'_>, row: &AccessRow) {
    let excess = row.counts.cycles.saturating_sub(row.counts.ideal_cycles);
    let weight = share(excess, found.summary.shared.cycles);
    if share(row.counts.cycles, row.counts.ideal_cycles) < 1.25 {
        return;
    }
    let stride = usual_stride(row);
    let text = format!(
        "each request of this {} of shared memory takes {} cycles, {} would do: threads access different words of one \
         bank{}",
        row.kind,
        number(share(row.counts.cycles, row.counts.requests)),
        number(share(row.counts.ideal_cycles, row.counts.requests)),
        index_text(row, stride)
    );
    let advice = "Add one element to each row of the array (float tile[32][33]), or let neighbouring threads access \
                  neighbouring words.";
    found.add("bank-conflicts", Some(&row.source), weight, text, advice);
}

/// Atomic operations of a warp on equal addresses.
fn collisions(found: &mut Found<'_>, row: &AccessRow) {
    let collided = share(row.counts.collisions, row.counts.threads);
    if collided < 0.25 {
        return;
    }
    let weight = share(row.counts.collisions, found.summary.atomics);
    let text = format!(
        "of the threads that execute this atomic operation together, {} of {} use the address of another one; hardware \
         performs them one after the other",
        number(share(row.counts.collisions, row.counts.requests)),
        number(share(row.counts.threads, row.counts.requests))
    );
    let advice = "Combine the values of a warp or block first (__reduce_add_sync, shared memory), and let one thread \
                  perform the atomic operation.";
    found.add("atomic-collisions", Some(&row.source), weight, text, advice);
}

/// Accesses to local memory: arrays that are indexed dynamically, and registers that do not fit.
fn local(found: &mut Found<'_>) {
    let summary = &found.summary;
    let requests = summary.local.requests;
    let all = requests + summary.global.requests + summary.shared.requests;
    let weight = share(requests, all);
    let text = format!(
        "{} of {} requests to memory access local memory, {} bytes in all",
        requests,
        all,
        summary.local.bytes()
    );
    let advice = "Index local arrays with constants, so that they stay in registers (unroll the loop), or use shared \
                  memory.";
    found.add("local-memory", None, weight, text, advice);
}

/// Threads that load far more bytes from global memory than the launch touches, without shared memory.
fn reloads(found: &mut Found<'_>) {
    let Some(reuse) = &found.kernel.reuse else {
        return;
    };
    let touched = reuse.lines * crate::reuse::LINE_BYTES;
    let loaded = found.summary.global.loaded;
    let times = share(loaded, touched);
    if times < 8.0 || found.summary.shared.requests != 0 {
        return;
    }
    let text = format!(
        "threads load {loaded} bytes from global memory, but the launches touch only {touched} bytes: each byte is \
         loaded {} times",
        number(times)
    );
    let advice =
        "Load a tile to shared memory once, synchronise, and let all threads of the block use it.";
    found.add("reloads", None, 1.0 - 1.0 / times, text, advice);
}
