//! The execution of operations.

use std::marker::PhantomData;
use std::sync::atomic::Ordering::Relaxed;

use crate::abi::point;
use crate::framework::User;
use crate::input::Detail;
use crate::operation::{Operation, Submitted};
use crate::producer::Producer;

/// A thread that works for an operation: its universal ID is the operation's ID until this value is dropped.
#[must_use = "dropping the value detaches the thread"]
pub struct Attached<'a> {
    producer: &'a Producer,
    /// The former universal ID of the thread; `None` if it was not changed.
    former: Option<u64>,
    /// The universal ID belongs to the thread, so the value must stay there.
    not_send: PhantomData<*const ()>,
}

impl Producer {
    /// Announces that an operation starts on this thread, and attaches the thread to it. A second begin before
    /// the end does nothing.
    #[inline]
    pub fn begin(&self, operation: &Operation) -> Attached<'_> {
        let former = operation
            .submitted()
            .and_then(|submitted| self.begin_submitted(submitted));
        self.attached(former)
    }

    /// Announces that an operation has ended: the last CTA of a kernel has finished, or the last byte is copied. The
    /// calling thread may be another one than that of [`Producer::begin`]; it is attached during the notification. An
    /// end without a begin does nothing.
    #[inline]
    pub fn end(&self, operation: &Operation) {
        if let Some(submitted) = operation.submitted() {
            self.end_submitted(submitted);
        }
    }

    /// Attaches this thread to an operation, for example a worker that runs some of a kernel's CTAs.
    #[inline]
    pub fn attach(&self, operation: &Operation) -> Attached<'_> {
        let former = operation.submitted().and_then(|submitted| {
            let _flight = self.flights.enter()?;
            Some(self.exchange_universal_id(submitted.id))
        });
        self.attached(former)
    }

    fn begin_submitted(&self, submitted: &Submitted) -> Option<u64> {
        let _flight = self.flights.enter()?;
        if submitted.running.swap(true, Relaxed) {
            return None;
        }
        self.running.fetch_add(1, Relaxed);
        let former = self.exchange_universal_id(submitted.id);
        self.send_task(point::TASK_BEGIN, submitted);
        if self.sends_transfer(submitted) {
            self.send_task(point::TRANSFER_BEGIN, submitted);
        }
        Some(former)
    }

    fn end_submitted(&self, submitted: &Submitted) {
        let Some(_flight) = self.flights.enter() else {
            return;
        };
        if !submitted.running.swap(false, Relaxed) {
            return;
        }
        let former = self.exchange_universal_id(submitted.id);
        if self.sends_transfer(submitted) {
            self.send_task(point::TRANSFER_END, submitted);
        }
        self.send_task(point::TASK_END, submitted);
        self.framework.set_universal_id(former);
        self.running.fetch_sub(1, Relaxed);
    }

    /// Sets the universal ID of this thread, and returns the former one.
    fn exchange_universal_id(&self, id: u64) -> u64 {
        let former = self.framework.universal_id();
        self.framework.set_universal_id(id);
        former
    }

    fn attached(&self, former: Option<u64>) -> Attached<'_> {
        Attached {
            producer: self,
            former,
            not_send: PhantomData,
        }
    }

    fn sends_transfer(&self, submitted: &Submitted) -> bool {
        submitted.is_copy && self.options.detail >= Detail::High
    }

    fn send_task(&self, point: u16, submitted: &Submitted) {
        let user = User::Text(submitted.stream);
        self.send_node(point, submitted.event(), submitted.visit.instance, user);
    }
}

impl Drop for Attached<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(former) = self.former
            && let Some(_flight) = self.producer.flights.enter()
        {
            self.producer.framework.set_universal_id(former);
        }
    }
}
