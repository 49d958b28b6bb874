//! Dependences, CUDA events, waits and barriers.

use std::ffi::CStr;

use crate::abi::point;
use crate::channels::{Channel, Points};
use crate::framework::{Notification, User};
use crate::input::{BarrierSite, Detail, Function, WaitKind};
use crate::operation::{Operation, Submitted};
use crate::producer::Producer;
use crate::sites::{Key, Visit};
use crate::submission::Dependence;
use crate::text::Numbered;

/// A thread of the program that waits. [`Producer::wait_end`] ends the wait.
#[must_use = "subscribers expect the end of the wait"]
#[derive(Debug)]
pub struct Wait<'a>(Option<Visit>, &'a CStr);

/// A CTA that waits at a barrier. [`Producer::barrier_end`] ends the wait.
#[must_use = "subscribers expect the end of the barrier"]
#[derive(Debug)]
pub struct Barrier(Option<(Visit, Numbered)>);

impl Producer {
    /// Announces that `operation` must wait for another one.
    ///
    /// [`crate::Launch::after`], [`crate::Copy::after`] and [`crate::Fill::after`] do the same when the operation is
    /// submitted.
    pub fn depend(&self, operation: &Operation, on: Dependence<'_>) {
        let Some(waiter) = operation.submitted() else {
            return;
        };
        if let Some(_flight) = self.enter(Channel::Graph, Points::of(&[point::EDGE_CREATE])) {
            self.send_edge(waiter, &on);
        }
    }

    /// Announces that the program has recorded the CUDA event with the ID `event` behind `operation`, the last operation
    /// of the stream.
    pub fn event_recorded(&self, event: u64, operation: &Operation) {
        let Some(submitted) = operation.submitted() else {
            return;
        };
        if let Some(_flight) = self.enter(Channel::Graph, Points::of(&[point::SIGNAL])) {
            let text = Numbered::new("event", event);
            let user = User::Text(text.as_c_str());
            self.send_node(
                point::SIGNAL,
                submitted.event(),
                submitted.visit.instance,
                user,
            );
        }
    }

    /// Announces that this thread waits in `function` for work of the device.
    pub fn wait_begin<'a>(&self, function: Function<'a>, kind: WaitKind) -> Wait<'a> {
        const POINTS: Points = Points::of(&[point::WAIT_BEGIN, point::WAIT_END]);
        let visit = self.enter(Channel::Graph, POINTS).and_then(|_flight| {
            let site = self.site(&Key::Wait(function.name, kind))?;
            let visit = self.visit(&site, Vec::new, &[], |_, _| ())?;
            self.send_span(point::WAIT_BEGIN, &visit, function.name);
            Some(visit)
        });
        Wait(visit, function.name)
    }

    /// Announces that the wait has ended.
    #[expect(clippy::needless_pass_by_value, reason = "a wait ends once")]
    pub fn wait_end(&self, wait: Wait<'_>) {
        let Wait(Some(visit), name) = &wait else {
            return;
        };
        if let Some(_flight) = self.flights.enter() {
            self.send_span(point::WAIT_END, visit, name);
        }
    }

    /// Tells whether [`Producer::barrier_begin`] sends notifications: at [`Detail::High`], if a tool listens.
    pub fn observes_barriers(&self) -> bool {
        const POINTS: Points = Points::of(&[point::BARRIER_BEGIN, point::BARRIER_END]);
        self.options.detail >= Detail::High && self.channels.listens(Channel::Graph, POINTS)
    }

    /// Announces that the first thread of a CTA waits at a barrier.
    pub fn barrier_begin(&self, barrier: &BarrierSite<'_>) -> Barrier {
        if !self.observes_barriers() {
            return Barrier(None);
        }
        Barrier(self.flights.enter().and_then(|_flight| {
            let key = match barrier.location {
                Some(location) => Key::Barrier(location),
                None => Key::UnplacedBarrier(barrier.kernel, barrier.instruction),
            };
            let site = self.site(&key)?;
            let visit = self.visit(&site, Vec::new, &[], |_, _| ())?;
            let text = Numbered::new("CTA", barrier.cta);
            self.send_span(point::BARRIER_BEGIN, &visit, text.as_c_str());
            Some((visit, text))
        }))
    }

    /// Announces that the threads of the CTA leave the barrier.
    #[expect(clippy::needless_pass_by_value, reason = "a barrier ends once")]
    pub fn barrier_end(&self, barrier: Barrier) {
        let Some((visit, text)) = &barrier.0 else {
            return;
        };
        if let Some(_flight) = self.flights.enter() {
            self.send_span(point::BARRIER_END, visit, text.as_c_str());
        }
    }

    /// Sends an edge to `waiter`. Beyond the limit of sites, nothing is sent.
    pub(super) fn send_edge(&self, waiter: &Submitted, on: &Dependence<'_>) {
        let Some(source) = on.on.submitted() else {
            return;
        };
        let key = Key::Edge(source.site.number, waiter.site.number, on.reason);
        let Some(site) = self.site(&key) else {
            return;
        };
        let Some(edge) = self.visit(&site, Vec::new, &[], |_, _| ()) else {
            return;
        };
        // A framework that returns the same event again does so for both operations, too. All threads therefore write
        // the same IDs.
        edge.event.handle().set_edge(source.id, waiter.id);
        let user = User::Text(on.reason.text());
        self.send_node(point::EDGE_CREATE, edge.event.handle(), edge.instance, user);
    }

    /// Sends one end of a wait or of a barrier, which have no parent.
    fn send_span(&self, point: u16, visit: &Visit, user: &CStr) {
        let notification = Notification {
            point,
            parent: None,
            event: Some(visit.event.handle()),
            instance: visit.instance,
            user: User::Text(user),
        };
        self.send(Channel::Graph, &notification);
    }
}
