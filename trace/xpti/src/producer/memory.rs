//! Allocations and releases of memory.

use crate::abi::point;
use crate::channels::{Channel, Points};
use crate::framework::{Notification, User};
use crate::input::{AllocationKind, Function};
use crate::producer::Producer;
use crate::sites::{Key, Visit};
use crate::values::Value;

/// An allocation that has begun. [`Producer::allocate_end`] ends it.
#[must_use = "subscribers expect the end of the allocation"]
#[derive(Debug)]
pub struct Allocation(Option<Visit>, u64);

/// A release of memory that has begun. [`Producer::release_end`] ends it.
#[must_use = "subscribers expect the end of the release"]
#[derive(Debug)]
pub struct Release {
    visit: Option<Visit>,
    address: u64,
    bytes: u64,
}

impl Producer {
    /// Announces that `function` is about to allocate `bytes` bytes.
    pub fn allocate_begin(
        &self,
        function: Function<'_>,
        kind: AllocationKind,
        bytes: u64,
    ) -> Allocation {
        const POINTS: Points = Points::of(&[point::ALLOCATE_BEGIN, point::ALLOCATE_END]);
        let Some(_flight) = self.enter(Channel::Memory, POINTS) else {
            return Allocation(None, bytes);
        };
        let key = Key::Allocate(function.name, kind);
        let visit = self.memory_event(&key, Some(kind));
        self.send_memory(point::ALLOCATE_BEGIN, visit.as_ref(), 0, bytes);
        Allocation(visit, bytes)
    }

    /// Announces the address of the allocated memory; 0 if the allocation has failed.
    #[expect(clippy::needless_pass_by_value, reason = "an allocation ends once")]
    pub fn allocate_end(&self, allocation: Allocation, address: u64) {
        let Allocation(visit, bytes) = &allocation;
        if visit.is_none() {
            return;
        }
        if let Some(_flight) = self.flights.enter() {
            self.send_memory(point::ALLOCATE_END, visit.as_ref(), address, *bytes);
        }
    }

    /// Announces that `function` is about to free the `bytes` bytes at `address`.
    pub fn release_begin(&self, function: Function<'_>, address: u64, bytes: u64) -> Release {
        const POINTS: Points = Points::of(&[point::RELEASE_BEGIN, point::RELEASE_END]);
        let visit = self.enter(Channel::Memory, POINTS).and_then(|_flight| {
            let visit = self.memory_event(&Key::Release(function.name), None);
            self.send_memory(point::RELEASE_BEGIN, visit.as_ref(), address, bytes);
            visit
        });
        Release {
            visit,
            address,
            bytes,
        }
    }

    /// Announces that the memory is free.
    #[expect(clippy::needless_pass_by_value, reason = "a release ends once")]
    pub fn release_end(&self, release: Release) {
        let Release {
            visit,
            address,
            bytes,
        } = &release;
        if visit.is_none() {
            return;
        }
        if let Some(_flight) = self.flights.enter() {
            self.send_memory(point::RELEASE_END, visit.as_ref(), *address, *bytes);
        }
    }

    fn memory_event(&self, key: &Key<'_>, kind: Option<AllocationKind>) -> Option<Visit> {
        let site = self.site(key)?;
        let fixed = || {
            let kind = kind.map(|kind| (c"allocation_type", Value::Text(kind.text())));
            self.values.register_all(&self.framework, kind.as_slice())
        };
        self.visit(&site, fixed, &[], |_, _| ())
    }

    fn send_memory(&self, point: u16, visit: Option<&Visit>, address: u64, bytes: u64) {
        let Some(visit) = visit else { return };
        let notification = Notification {
            point,
            parent: None,
            event: Some(visit.event.handle()),
            instance: visit.instance,
            user: User::Memory { address, bytes },
        };
        self.send(Channel::Memory, &notification);
    }
}
