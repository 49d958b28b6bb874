//! The state of a warp: its activations (the function calls from which lanes have not returned),
//! and the positions of its lanes.

use super::decode::Body;
use super::groups::{At, Group, Groups};
use super::registers::Registers;
use crate::lanes;
use margay_ir::entity::FuncId;
use smallvec::SmallVec;

/// An activation: one call of a function by lanes that entered the function together.
#[derive(Clone, Debug)]
pub(super) struct Activation {
    pub(super) func: FuncId,
    pub(super) registers: Registers,
    /// Lanes that have not returned from the activation, including lanes that are in functions that
    /// the activation has called.
    pub(super) alive: u32,
    /// For each lane, the offset in the thread's local memory at which the variables of the
    /// activation begin.
    pub(super) local: [u32; 32],
    /// For each lane, the offset in local memory at which the next activation or `alloca` begins.
    pub(super) stack: [u32; 32],
    /// The position of the call instruction in the caller; `None` for the activation of the kernel.
    pub(super) call: Option<At>,
    /// Number of callers.
    pub(super) depth: u32,
}

impl Activation {
    /// Returns the number of bytes of host memory that the activation of a called function needs. The activation of a
    /// kernel does not count, because the kernel's code limits its size.
    fn bytes(&self) -> usize {
        match self.call {
            Some(_) => size_of::<Activation>() + self.registers.bytes(),
            None => 0,
        }
    }
}

/// The data of a call that [`Warp::enter`] stores in the callee's activation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) call: Option<At>,
    pub(super) depth: u32,
    /// For each lane, the offset in the thread's local memory at which the variables of the callee
    /// begin.
    pub(super) stack: [u32; 32],
}

#[derive(Clone, Debug, Default)]
pub(super) struct Warp {
    pub(super) activations: Vec<Activation>,
    /// The indices of activations that all lanes have left. New activations can use these indices.
    unused: Vec<u32>,
    /// The number of bytes of host memory that the activations of called functions of the warp
    /// occupy, including activations that all lanes have left.
    pub(super) stack_bytes: usize,
    /// For each lane that has stopped at a sync point, the step after the sync point.
    at: [Option<At>; 32],
    /// Number of times that groups of lanes of the warp may still pass a `yield` before a group
    /// stops at a `yield`.
    pub(super) turns: u32,
}

impl Warp {
    /// Creates an activation of the function `func` for the lanes `mask`, and returns the position
    /// of the function's first step.
    pub(super) fn enter(
        &mut self,
        (func, body, local_bytes): (FuncId, &Body, u32),
        mask: u32,
        caller: Caller,
    ) -> At {
        if caller.call.is_some() {
            self.stack_bytes += self.growth(body);
        }
        let number = self.unused.pop().unwrap_or(self.activations.len() as u32);
        let registers = match self.activations.get_mut(number as usize) {
            Some(old) => std::mem::take(&mut old.registers),
            None => Registers::default(),
        };
        let mut activation = Activation {
            func,
            registers,
            alive: mask,
            local: caller.stack,
            stack: caller.stack.map(|at| at.saturating_add(local_bytes)),
            call: caller.call,
            depth: caller.depth,
        };
        activation.registers.resize(body.rows);
        match self.activations.get_mut(number as usize) {
            Some(old) => *old = activation,
            None => self.activations.push(activation),
        }
        At::new(caller.depth, number, 0)
    }

    /// Returns the number of bytes of host memory that [`Warp::enter`] must allocate for an
    /// activation of the function `body`.
    pub(super) fn growth(&self, body: &Body) -> usize {
        match self.unused.last() {
            Some(&number) => self.activations[number as usize]
                .registers
                .growth(body.rows),
            None => size_of::<Activation>() + Registers::default().growth(body.rows),
        }
    }

    /// Frees the registers of the activations that all lanes have left.
    pub(super) fn trim(&mut self) {
        for &number in &self.unused {
            self.activations[number as usize].registers = Registers::default();
        }
        self.stack_bytes = self.activations.iter().map(Activation::bytes).sum();
    }

    /// Removes the lanes `mask` from the activation with the index `number`. Returns the position
    /// of the call in the caller's activation, or `None` for the activation of the kernel.
    pub(super) fn leave(&mut self, number: usize, mask: u32) -> Option<At> {
        let activation = &mut self.activations[number];
        activation.alive &= !mask;
        if activation.alive == 0 {
            self.unused.push(number as u32);
        }
        activation.call
    }

    /// Removes lanes that exit the kernel from the activation at `at` and from the activations of
    /// all its callers.
    pub(super) fn exit(&mut self, at: At, mask: u32) {
        let mut next = Some(at);
        while let Some(at) = next {
            next = self.leave(at.activation(), mask);
        }
        // If no lane of the warp is left, frees the memory of the activations, so that the stacks of the CTA's other
        // warps can grow. These warps may still run for a long time.
        if self.unused.len() == self.activations.len() {
            self.unused = Vec::new();
            self.activations = Vec::new();
            self.stack_bytes = 0;
        }
    }

    /// Records `at` as the position at which the lanes `mask` have stopped.
    pub(super) fn stop(&mut self, mask: u32, at: At) {
        for lane in lanes(mask) {
            self.at[lane as usize] = Some(at);
        }
    }

    /// Returns the position of a lane that has stopped.
    pub(super) fn at(&self, lane: u32) -> Option<At> {
        self.at[lane as usize]
    }

    /// Returns those of the stopped lanes `open` whose positions come first in the program
    /// ([`Runner::first_in_calls`](crate::Runner::first_in_calls)); `None` if all lanes are in the kernel itself.
    pub(super) fn first_in_calls(&self, open: u32) -> Option<u32> {
        let called = |at: At| self.activations[at.activation()].call;
        let mut all: SmallVec<[(At, u32); 32]> = SmallVec::new();
        for lane in lanes(open) {
            let at = self.at(lane)?;
            match all.iter_mut().find(|(other, _)| *other == at) {
                Some((_, mask)) => *mask |= 1 << lane,
                None => all.push((at, 1 << lane)),
            }
        }
        if all.iter().all(|(at, _)| called(*at).is_none()) {
            return None;
        }
        // The steps at which the activations of a lane are, from the kernel to the innermost one.
        let steps = |at: At| {
            let mut steps: Vec<usize> = std::iter::successors(Some(at), |at| called(*at))
                .map(At::pc)
                .collect();
            // The position of a stopped lane is the step after the sync point.
            steps[0] -= 1;
            steps.reverse();
            steps
        };
        let mut first: Option<(Vec<usize>, u32)> = None;
        for (at, mask) in all {
            let steps = steps(at);
            match &mut first {
                Some((least, all)) if *least == steps => *all |= mask,
                Some((least, _)) if *least < steps => {}
                _ => first = Some((steps, mask)),
            }
        }
        first.map(|(_, lanes)| lanes)
    }

    /// Returns the groups that the stopped lanes `mask` form: lanes with equal positions are in the
    /// same group.
    pub(super) fn stopped(&self, mask: u32) -> Groups {
        let mut groups = Groups::default();
        let first = self.at(mask.trailing_zeros() % 32);
        if let Some(at) = first
            && lanes(mask).all(|lane| self.at(lane) == first)
        {
            groups.push(Group::new(at, mask));
            return groups;
        }
        for lane in lanes(mask) {
            if let Some(at) = self.at(lane) {
                groups.push(Group::new(at, 1 << lane));
            }
        }
        groups
    }
}
