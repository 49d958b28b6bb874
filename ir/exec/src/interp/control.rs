//! The main loop of the interpreter, which executes the steps of groups of lanes, and the control
//! flow steps: branches, calls and returns.

use super::decode::{Action, Body, Edge, Step};
use super::groups::{At, Group, Groups, MAX_DEPTH};
use super::memory::{LaneFault, View};
use super::registers::{Active, Rows};
use super::warp::{Caller, Warp};
use super::{Interpreter, Machine, STACK_BYTES, TURNS};
use crate::{Fault, FaultKind, SyncPoint, lanes};
use margay_ir::entity::FuncId;
use margay_ir::function::{payload_func, payload_sig};
use margay_ops::meaning::Bits;
use margay_ops::ops::Opcode;

/// The reason why a group of lanes does not continue with the next step.
enum Left {
    /// The group has taken a branch, or has passed a `yield` without stopping. The interpreter continues with the group
    /// that must run next.
    Moved,
    /// The lanes of the group have stopped at a sync point or exited. If they have stopped at a
    /// sync point, their position is the step after the sync point.
    Stopped(SyncPoint),
    /// The step of the group is a call or a return, after which the lanes continue in another
    /// activation.
    Calls(Action),
}

impl<'a, M: Machine> Interpreter<'a, M> {
    /// Runs the lanes of `groups` until each lane has stopped or exited. Writes to `sync_points` the sync point at
    /// which each lane stopped.
    pub(super) fn run_groups(
        &mut self,
        warp: u32,
        mut groups: Groups,
        sync_points: &mut [SyncPoint; 32],
    ) -> Result<(), Fault> {
        while let Some(mut group) = groups.pop() {
            match self.run_group(warp, &mut group, &mut groups)? {
                Left::Moved => {}
                Left::Stopped(sync_point) => {
                    let state = &mut self.warps[warp as usize];
                    match sync_point {
                        SyncPoint::EXIT => state.exit(group.at, group.mask),
                        _ => state.stop(group.mask, group.at),
                    }
                    lanes(group.mask).for_each(|lane| sync_points[lane as usize] = sync_point);
                }
                Left::Calls(Action::Return) => self.ret(warp, group, &mut groups, sync_points),
                Left::Calls(action) => {
                    let entered = match action {
                        Action::CallIndirect => self.call_indirect(warp, group, &mut groups),
                        _ => self.call(warp, group, &mut groups),
                    };
                    entered.map_err(|fault| self.fault(warp, group.at, fault))?;
                }
            }
        }
        Ok(())
    }

    fn fault(&self, warp: u32, at: At, (lane, kind): LaneFault) -> Fault {
        let activation = &self.warps[warp as usize].activations[at.activation()];
        let dfg = &self.module.functions[activation.func].dfg;
        let body = self.code.body(self.module, activation.func);
        let inst = body.and_then(|body| body.inst(at.pc()));
        Fault {
            kind,
            thread: Some(warp * 32 + lane),
            loc: inst.map_or(Default::default(), |inst| dfg.locs[inst]),
        }
    }

    /// Runs a group of lanes until it stops at a sync point, exits, calls a function or returns
    /// from a function. After each branch, continues with the group that must run next, as long as
    /// that group is in the same activation.
    fn run_group(
        &mut self,
        warp: u32,
        group: &mut Group,
        groups: &mut Groups,
    ) -> Result<Left, Fault> {
        let state = &mut self.warps[warp as usize];
        let number = group.at.activation();
        let activation = &mut state.activations[number];
        let Some(body) = self.code.body(self.module, activation.func) else {
            return Err(FaultKind::IllegalInstruction.into());
        };
        let mut view = View {
            code: self.code,
            function: &self.module.functions[activation.func],
            body,
            launch: self.launch,
            cta: &self.cta,
            machine: &mut *self.machine,
            activation,
            first: warp * 32,
            active: Active { mask: 0, unused: 0 },
        };
        loop {
            let mut pc = group.at.pc();
            let unused = !view.activation.alive;
            view.active = Active {
                mask: group.mask,
                unused,
            };
            let left = loop {
                let step = &body.steps[pc];
                let done = match step.action {
                    Action::Batch(run) => {
                        let mut rows = Rows {
                            registers: &mut view.activation.registers,
                            constants: &body.constants,
                        };
                        run(&mut rows, step, view.active);
                        Ok(())
                    }
                    Action::Pure(meaning) => {
                        view.pure(meaning, pc, step);
                        Ok(())
                    }
                    Action::Load => view.load(pc, step),
                    Action::Store => view.store(pc, step),
                    Action::Access => view.access(pc, step),
                    Action::Structural => view.structural(pc, step),
                    action => {
                        break view.leave(action, step, pc, (group, groups, &mut state.turns));
                    }
                };
                if let Err(fault) = done {
                    break Err((pc, fault));
                }
                pc += 1;
            };
            match left {
                Ok(Left::Moved) => {}
                Ok(left) => return Ok(left),
                Err((pc, fault)) => {
                    return Err(self.fault(warp, group.at.with_pc(pc as u32), fault));
                }
            }
            if group.at.activation() != number {
                groups.push(*group);
                return Ok(Left::Moved);
            }
        }
    }

    /// Returns the decoded body of a called function, or a fault if the function cannot be called.
    fn callee(&self, callee: FuncId) -> Result<&'a Body, FaultKind> {
        let function = self.module.functions.get(callee);
        let body = self.code.body(self.module, callee);
        let (Some(function), Some(body)) = (function, body) else {
            let what = function.map_or("?", |f| f.name.as_str());
            return Err(FaultKind::Unsupported {
                what: format!("call of undefined function {what}"),
            });
        };
        match function.unsupported.first() {
            Some((line, what)) => Err(FaultKind::Unsupported {
                what: format!("{what} (PTX line {line})"),
            }),
            None => Ok(body),
        }
    }

    /// Returns the next step of a group, the decoded function that contains the step, and the payload of the step's
    /// instruction.
    fn step(&self, warp: u32, at: At) -> Option<(&'a Body, &'a Step, u64)> {
        let activation = &self.warps[warp as usize].activations[at.activation()];
        let body = self.code.body(self.module, activation.func)?;
        let dfg = &self.module.functions[activation.func].dfg;
        let payload = dfg.insts[body.inst(at.pc())?].payload();
        Some((body, &body.steps[at.pc()], payload))
    }

    fn call(&mut self, warp: u32, group: Group, groups: &mut Groups) -> Result<(), LaneFault> {
        let first = group.mask.trailing_zeros();
        let step = self.step(warp, group.at);
        let (body, step, payload) = step.ok_or((first, FaultKind::IllegalInstruction))?;
        self.enter(warp, group, (body, step, 0), payload_func(payload))
            .map(|entered| groups.push(entered))
    }

    fn call_indirect(
        &mut self,
        warp: u32,
        group: Group,
        groups: &mut Groups,
    ) -> Result<(), LaneFault> {
        let first = group.mask.trailing_zeros();
        let step = self.step(warp, group.at);
        let (body, step, payload) = step.ok_or((first, FaultKind::IllegalInstruction))?;
        let signature = self.module.signatures.get(payload_sig(payload));
        let mut handles = [0; 32];
        for lane in lanes(group.mask) {
            let registers = &self.warps[warp as usize].activations[group.at.activation()].registers;
            let place = step.args[0];
            let rows = (registers, &body.constants);
            let handle = super::registers::get(rows, place, lane as usize) as u64;
            let offset = handle.wrapping_sub(self.launch.function_base);
            let valid = offset.is_multiple_of(16) && offset / 16 <= u64::from(u32::MAX);
            let callee = self.module.functions.get(FuncId((offset / 16) as u32));
            let fits = callee
                .zip(signature)
                .is_some_and(|(f, signature)| f.kernel.is_none() && f.signature == *signature);
            if !valid || !fits {
                let handle = Some(handle);
                return Err((lane, FaultKind::InvalidPc { handle }));
            }
            handles[lane as usize] = (offset / 16) as u32;
        }
        let mut rest = group.mask;
        while rest != 0 {
            let callee = handles[rest.trailing_zeros() as usize];
            let same = lanes(rest).filter(|&lane| handles[lane as usize] == callee);
            let mask = crate::mask_of(same);
            rest &= !mask;
            let some = Group::new(group.at, mask);
            groups.push(self.enter(warp, some, (body, step, 1), FuncId(callee))?);
        }
        Ok(())
    }

    /// Returns whether the memory for activations of the CTA may grow by `bytes` bytes. If the
    /// limit would be exceeded, first frees the memory of activations that have ended.
    fn reserve(&mut self, bytes: usize) -> bool {
        let fits = |warps: &[Warp]| {
            let used: usize = warps.iter().map(|warp| warp.stack_bytes).sum();
            used.saturating_add(bytes) <= STACK_BYTES
        };
        if fits(&self.warps) {
            return true;
        }
        self.warps.iter_mut().for_each(Warp::trim);
        fits(&self.warps)
    }

    /// Creates an activation of the function `func`, which the lanes of a group call, and returns
    /// the group at the start of the function. The arguments of the call are the operands of the
    /// group's step, except the first `skip` operands.
    fn enter(
        &mut self,
        warp: u32,
        group: Group,
        (body, step, skip): (&Body, &Step, usize),
        func: FuncId,
    ) -> Result<Group, LaneFault> {
        let first = group.mask.trailing_zeros();
        let callee = self.callee(func).map_err(|kind| (first, kind))?;
        let local_bytes = self.code.local_bytes(func);
        let state = &self.warps[warp as usize];
        let number = group.at.activation();
        let activation = &state.activations[number];
        let limit = self.cta.stack_limit.max(1 << 9);
        let growth = state.growth(callee);
        let is_full = |&lane: &u32| {
            let local = activation.stack[lane as usize];
            local.saturating_add(local_bytes) > limit || activation.depth + 1 >= MAX_DEPTH
        };
        if let Some(lane) = lanes(group.mask).find(is_full) {
            return Err((lane, FaultKind::StackOverflow));
        }
        if growth > 0 && !self.reserve(growth) {
            return Err((first, FaultKind::StackOverflow));
        }
        let state = &mut self.warps[warp as usize];
        let activation = &state.activations[number];
        let caller = Caller {
            call: Some(group.at),
            depth: activation.depth + 1,
            stack: activation.stack,
        };
        let at = state.enter((func, callee, local_bytes), group.mask, caller);
        let args = body.args(step).get(skip..).unwrap_or_default();
        for (&param, &arg) in callee.params.iter().zip(args) {
            for lane in lanes(group.mask).map(|lane| lane as usize) {
                let from = (&state.activations[number].registers, &body.constants);
                let bits = super::registers::get(from, arg, lane);
                let mut rows = Rows {
                    registers: &mut state.activations[at.activation()].registers,
                    constants: &callee.constants,
                };
                rows.set(param, lane, bits);
            }
        }
        Ok(Group::new(at, group.mask))
    }

    fn ret(
        &mut self,
        warp: u32,
        group: Group,
        groups: &mut Groups,
        sync_points: &mut [SyncPoint; 32],
    ) {
        let from = self.step(warp, group.at);
        let state = &mut self.warps[warp as usize];
        let number = group.at.activation();
        let Some(call) = state.activations[number].call else {
            state.exit(group.at, group.mask);
            lanes(group.mask).for_each(|lane| sync_points[lane as usize] = SyncPoint::EXIT);
            return;
        };
        if let (Some((body, step, _)), Some((caller, call_step, _))) = (from, self.step(warp, call))
        {
            let state = &mut self.warps[warp as usize];
            let values = caller.results(call_step).iter().zip(body.args(step));
            for (&result, &value) in values {
                for lane in lanes(group.mask).map(|lane| lane as usize) {
                    let registers = &state.activations[number].registers;
                    let bits: Bits =
                        super::registers::get((registers, &body.constants), value, lane);
                    let mut rows = Rows {
                        registers: &mut state.activations[call.activation()].registers,
                        constants: &caller.constants,
                    };
                    rows.set(result, lane, bits);
                }
            }
        }
        self.warps[warp as usize].leave(number, group.mask);
        let next = call.with_pc(call.pc() as u32 + 1);
        groups.push(Group::new(next, group.mask));
    }
}

impl<M: Machine> View<'_, M> {
    /// Executes a step after which lanes may continue at a step other than the next. Afterwards,
    /// the lanes of the group may be at different steps, as several groups.
    fn leave(
        &mut self,
        action: Action,
        step: &Step,
        pc: usize,
        (group, groups, turns): (&mut Group, &mut Groups, &mut u32),
    ) -> Result<Left, (usize, LaneFault)> {
        let lane = group.mask.trailing_zeros();
        let next = group.at.with_pc(pc as u32 + 1);
        match action {
            Action::SyncPoint(sync_point) => {
                group.at = next;
                return Ok(Left::Stopped(sync_point));
            }
            Action::Yield(sync_point, only_reads) => {
                group.at = next;
                if *turns == 0 {
                    *turns = TURNS;
                    return Ok(Left::Stopped(sync_point));
                }
                *turns -= 1;
                // The loop may wait for lanes that have left the loop, so all other groups run before this group.
                if !only_reads && !groups.is_empty() {
                    group.is_last = true;
                }
                *group = groups.go_on(*group);
                return Ok(Left::Moved);
            }
            Action::Exit => return Ok(Left::Stopped(SyncPoint::EXIT)),
            Action::Return | Action::Call | Action::CallIndirect => {
                group.at = group.at.with_pc(pc as u32);
                return Ok(Left::Calls(action));
            }
            Action::Fault => return Err((pc, (lane, self.terminal(pc, step)))),
            _ => {}
        }
        self.machine.poll().map_err(|kind| (pc, (lane, kind)))?;
        let body = self.body;
        match action {
            Action::Jump(edge) => *group = self.take(group, body.edge(edge), group.mask),
            Action::Branch(edge) => {
                let taken = self.rows().lowest_bits(step.args[0]) & group.mask;
                let edges = [body.edge(edge), body.edge(edge + 1)];
                if taken == group.mask {
                    *group = self.take(group, edges[0], taken);
                } else if taken == 0 {
                    *group = self.take(group, edges[1], group.mask);
                } else {
                    let other = group.mask & !taken;
                    groups.push(self.take(group, edges[1], other));
                    *group = self.take(group, edges[0], taken);
                }
            }
            Action::Table(first, count) => {
                let indices = self.rows().longs(step.args[0]);
                let edge = |lane: u32| match indices[lane as usize] {
                    index if index < u64::from(count) - 1 => first + 1 + index as u32,
                    _ => first,
                };
                let mut rest = group.mask;
                loop {
                    let number = edge(rest.trailing_zeros());
                    let mask = crate::mask_of(lanes(rest).filter(|&l| edge(l) == number));
                    let part = self.take(group, body.edge(number), mask);
                    rest &= !mask;
                    if rest == 0 {
                        *group = part;
                        break;
                    }
                    groups.push(part);
                }
            }
            _ => return Err((pc, (lane, FaultKind::IllegalInstruction))),
        }
        *group = groups.go_on(*group);
        Ok(Left::Moved)
    }

    /// Executes the register moves of a branch edge for the lanes `mask` of a group. Returns these
    /// lanes as a group whose position is the target of the edge.
    fn take(&mut self, group: &Group, edge: &Edge, mask: u32) -> Group {
        let active = Active {
            mask,
            unused: self.active.unused,
        };
        for &(to, from) in self.body.moves(edge) {
            self.rows().copy(to, from, active);
        }
        Group {
            waits_until: edge.loop_end,
            ..Group::new(group.at.with_pc(edge.target), mask)
        }
    }

    /// Returns the fault that a step with the action [`Action::Fault`] causes.
    fn terminal(&self, pc: usize, step: &Step) -> FaultKind {
        let opcode = self.data(pc).map(|data| data.opcode);
        match opcode {
            Some(Opcode::Trap) => FaultKind::Trap,
            Some(Opcode::InvalidPc) => FaultKind::InvalidPc {
                handle: Some(self.first_arg(step) as u64),
            },
            _ => FaultKind::IllegalInstruction,
        }
    }
}
