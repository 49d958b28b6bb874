//! The differences of two profiles.

use margay_profile::{KernelProfile, Profile, Summary};

use super::units::{count, seconds};

/// Returns a table for each kernel that is in both profiles and has changed, and the names of the other kernels.
pub(super) fn text(before: &Profile, after: &Profile) -> String {
    let mut out = format!("Before: {}\nAfter:  {}\n", before.program, after.program);
    let mut pairs: Vec<(&KernelProfile, &KernelProfile)> = Vec::new();
    let mut used = vec![false; after.kernels.len()];
    let mut removed = Vec::new();
    for kernel in &before.kernels {
        let found =
            (0..used.len()).find(|&index| !used[index] && after.kernels[index].name == kernel.name);
        match found {
            Some(index) => {
                used[index] = true;
                pairs.push((kernel, &after.kernels[index]));
            }
            None => removed.push(kernel),
        }
    }
    for (old, new) in pairs {
        kernel(&mut out, old, new);
    }
    for kernel in removed {
        out.push_str(&format!("\nOnly before: {}\n", kernel.title()));
    }
    for (kernel, used) in after.kernels.iter().zip(used) {
        if !used {
            out.push_str(&format!("\nOnly after: {}\n", kernel.title()));
        }
    }
    out
}

fn kernel(out: &mut String, old: &KernelProfile, new: &KernelProfile) {
    let [a, b] = [old, new].map(Summary::of);
    let rows: Vec<(&str, u64, u64)> = vec![
        ("launches", old.launches, new.launches),
        ("threads", old.threads, new.threads),
        ("warp instructions", a.warps, b.warps),
        ("thread instructions", a.executed, b.executed),
        ("flops", a.flops.all(), b.flops.all()),
        ("divergent branches", a.divergent, b.divergent),
        ("global requests", a.global.requests, b.global.requests),
        ("global bytes", a.global.bytes(), b.global.bytes()),
        ("global sectors", a.global.sectors, b.global.sectors),
        ("local sectors", a.local.sectors, b.local.sectors),
        ("shared requests", a.shared.requests, b.shared.requests),
        ("shared cycles", a.shared.cycles, b.shared.cycles),
        ("atomics", a.atomics, b.atomics),
        ("atomic collisions", a.collisions, b.collisions),
        ("registers", old.registers.into(), new.registers.into()),
    ];
    out.push_str(&format!("\n{}\n", old.title()));
    let changed: Vec<_> = rows.iter().filter(|(_, old, new)| old != new).collect();
    if changed.is_empty() {
        out.push_str("  no count has changed\n");
    }
    for (name, old, new) in changed {
        out.push_str(&format!(
            "  {name:<20} {:>10} -> {:>10}  {}\n",
            count(*old),
            count(*new),
            change(*old, *new)
        ));
    }
    let times = [old.seconds, new.seconds].map(seconds);
    out.push_str(&format!(
        "  {:<20} {:>10} -> {:>10}\n",
        "time", times[0], times[1]
    ));
}

/// Returns the change in percent.
fn change(old: u64, new: u64) -> String {
    match old {
        0 => "new".to_owned(),
        _ => format!("{:+.1} %", 100.0 * (new as f64 - old as f64) / old as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_a_sign() {
        assert_eq!(change(200, 150), "-25.0 %");
        assert_eq!(change(100, 250), "+150.0 %");
        assert_eq!(change(0, 5), "new");
    }
}
