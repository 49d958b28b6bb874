//! Determines which memory the threads of a CTA may access. The host uses these checks for
//! addresses that generated code cannot check, and for all accesses that helpers perform for a
//! thread.

use margay_exec::{CtaInfo, LaunchInfo};
use margay_jit::abi::{NativeContext, Verify};
use margay_ops::mods::StateSpace;

use crate::memory::{Visible, within};

/// The memory that the threads of one CTA may access.
#[derive(Clone, Copy)]
pub(super) struct Reach<'a> {
    visible: &'a Visible,
    info: &'a LaunchInfo,
    shared_base: u64,
    local_base: u64,
    local_stride: u64,
    param_bytes: u64,
}

impl<'a> Reach<'a> {
    pub(super) fn new(
        visible: &'a Visible,
        info: &'a LaunchInfo,
        cta: &CtaInfo,
        param_bytes: u32,
    ) -> Reach<'a> {
        Reach {
            visible,
            info,
            shared_base: cta.shared_base,
            local_base: cta.local_base,
            local_stride: u64::from(cta.local_stride),
            param_bytes: u64::from(param_bytes),
        }
    }

    /// Returns whether `thread` may access `bytes` bytes at a generic address. If `thread` is `None`, returns whether
    /// any thread of the CTA may access them.
    ///
    /// The result is false for writes to parameters. Parameters are read-only (PTX ISA 5.1.6.1). The
    /// engine relies on this, because it tests the pointers in them only once per launch.
    pub(super) fn generic(
        &self,
        address: u64,
        bytes: u64,
        thread: Option<u32>,
        writes: bool,
    ) -> bool {
        let part = |start: u64, len: u64| within(&(start..start + len), address, bytes);
        self.is_shared(address, bytes)
            || self.is_local(address, bytes, thread)
            || !writes && part(self.info.params, self.param_bytes)
            || is_in_workspace(self.info, address, bytes)
            || self.visible.device(address, bytes, writes)
    }

    fn is_local(&self, address: u64, bytes: u64, thread: Option<u32>) -> bool {
        let (first, count) = match thread {
            Some(thread) => (u64::from(thread), 1),
            None => (0, u64::from(self.info.threads())),
        };
        let start = self.local_base + first * self.local_stride;
        within(&(start..start + count * self.local_stride), address, bytes)
    }

    /// Returns whether all `bytes` bytes at `address` are in the shared memory of one and the same
    /// CTA of the cluster.
    fn is_shared(&self, address: u64, bytes: u64) -> bool {
        let offset = address.wrapping_sub(self.shared_base);
        let (rank, offset) = self.info.shared_place(offset);
        let own = 0..self.info.own_shared_bytes();
        rank < u64::from(self.info.cluster_size()) && within(&own, offset, bytes)
    }

    /// Returns whether `thread` may perform the access `what` at an address.
    fn lane(&self, what: Verify, address: u64, thread: u32) -> bool {
        let bytes = what.bytes();
        match what.space() {
            StateSpace::Shared | StateSpace::SharedCluster => self.is_shared(address, bytes),
            StateSpace::Local => self.is_local(address, bytes, Some(thread)),
            _ => self.generic(address, bytes, Some(thread), what.writes()),
        }
    }

    /// Returns the first active lane that must not access its address, and this address. `first` is the thread index of
    /// lane 0.
    pub(super) fn refused(
        &self,
        what: Verify,
        address: impl Fn(u32) -> u64,
        first: u32,
    ) -> Option<(u32, u64)> {
        (0..what.lanes())
            .filter(|lane| what.mask() >> lane & 1 != 0)
            .map(|lane| (lane, address(lane)))
            .find(|&(lane, address)| !self.lane(what, address, first.wrapping_add(lane)))
    }

    /// Returns the address of `lane`, if `first` is the address of lane 0 and `stride` is the
    /// distance between neighbouring lanes. For shared memory, the offset in the window wraps at 32
    /// bits, as in generated code.
    pub(super) fn affine(&self, what: Verify, first: u64, stride: i64, lane: u32) -> u64 {
        let step = stride.wrapping_mul(i64::from(lane)) as u64;
        match what.space() {
            StateSpace::Shared | StateSpace::SharedCluster => {
                let offset = (first - self.shared_base).wrapping_add(step) as u32;
                self.shared_base + u64::from(offset)
            }
            _ => first.wrapping_add(step),
        }
    }
}

/// Size in bytes of the workspace of grid barriers.
const WORKSPACE: u64 = 256;

/// Returns whether the launch has a workspace for grid barriers that contains all bytes of a range.
pub(super) fn is_in_workspace(info: &LaunchInfo, address: u64, bytes: u64) -> bool {
    let start = info.workspace;
    start != 0 && within(&(start..start + WORKSPACE), address, bytes)
}

/// Returns the size in bytes of the address range that the shared memory of all CTAs of a cluster
/// occupies.
pub(super) fn shared_bytes(info: &LaunchInfo) -> u64 {
    match info.cluster_size() {
        1 => info.own_shared_bytes(),
        count => u64::from(count) << info.shared_shift(),
    }
}

/// Returns the mask for [`NativeContext::shared_mask`]. The mask removes the rank of the CTA from
/// an offset in the cluster's shared memory. If the number of CTAs is not a power of two, no mask
/// removes every rank and also keeps all bits of offsets that are out of bounds. In this case, the
/// host checks all accesses to the shared memory of CTAs other than the first CTA.
fn shared_mask(info: &LaunchInfo) -> u32 {
    let count = info.cluster_size();
    let ranks = (u64::from(count.next_power_of_two()) - 1) << info.shared_shift();
    match count.is_power_of_two() {
        true => !(ranks as u32),
        false => u32::MAX,
    }
}

/// Stores in the native context the bounds of the memory that the kernel may access.
pub(super) fn tell(context: &mut NativeContext, visible: &Visible, info: &LaunchInfo) {
    [
        context.reach_base,
        context.reach_bytes,
        context.margin_bytes,
    ] = visible.range();
    context.shared_bytes = info.own_shared_bytes();
    context.shared_mask = shared_mask(info);
    context.local_bytes = u64::from(context.local_stride);
}
