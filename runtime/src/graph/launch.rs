//! Launches executable graphs. A launch adds two tasks to the stream, which are the beginning and
//! the end of the launch. The tasks of the graph run between these two tasks.
//!
//! A launch waits for all work for which a new task of the stream would wait, and for the last
//! launch of the same executable graph. Each node becomes a task that waits for the tasks of the
//! node's dependencies. Errors of kernel launches are detected before any task is submitted.
//! Errors of kernels in the bodies of conditional nodes are detected later, because the body is
//! chosen only when the node runs.

use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;

use super::plan::{Plan, Step, StepOp};
use super::{ConditionalKind, ConditionalNode, GraphAllocation, GraphExec, NodeOp};
use crate::context::Context;
use crate::error::{Error, Fault, FaultKind, Result};
use crate::memop;
use crate::observe::{DependenceKind, HostEvent};
use crate::stream::Stream;
use crate::task::{Dependences, HostWork, Launch, Task, Work};

/// The tasks for which the next tasks must wait.
type Ends = SmallVec<[Arc<Task>; 2]>;
/// Prepared kernels, in the order in which their tasks are created.
type Runs = std::collections::VecDeque<Launch>;

impl GraphExec {
    /// Launches the graph into a stream; returns before the graph runs.
    ///
    /// # Errors
    /// Returns the errors of the launches of the graph's kernels. Returns [`Error::InvalidValue`] if an allocation of
    /// the last launch is still live, no node of the graph frees the allocation, and `InstantiateFlags::auto_free` is
    /// not set.
    pub(crate) fn submit(&self, stream: &Stream) -> Result<()> {
        let mut state = self.inner.state.lock();
        let plan = Arc::clone(&state.plan);
        let own = self.flags().node_priority;
        let runs = plan.runs(0, own)?;
        self.check_allocations(&plan)?;
        stream.context().flush_output();
        let tools = &stream.context().machine().tools;
        tools.tell(|| HostEvent::LaunchGraph {
            graph: self.id(),
            stream: stream.id(),
        });
        let holds = plan.hand_out(self.flags().auto_free);
        let references = Arc::clone(&state.references);
        let keep = match (holds.is_empty(), references.is_empty()) {
            (true, true) => None,
            _ => Some((holds, references)),
        };
        let (begin, end) = stream.bracket(begin_work(&plan), end_work(keep), state.last.as_ref());
        state.last = Some(Arc::clone(&end));
        for run in &runs {
            stream.launches(&run.run);
        }
        let mut made = Made {
            context: stream.context(),
            priority: stream.priority(),
            own,
            runs,
            tasks: Vec::new(),
        };
        let ends = made.graph(&plan, 0, std::slice::from_ref(&begin));
        for last in &ends {
            end.also_after(last);
        }
        let tools = &stream.context().machine().tools;
        if tools.observe_host() {
            let last = ends
                .iter()
                .flat_map(|last| last.dependences(DependenceKind::StreamOrder));
            let last: Dependences = last.collect();
            tools.tell_dependences(&end, last.clone());
            stream.set_last(last);
        }
        drop(state);
        for task in made.tasks.iter().chain([&end, &begin]) {
            task.release();
        }
        Ok(())
    }

    /// Adds the memory of the graph's allocations to the amounts of memory in `GraphMemory`.
    pub(crate) fn back_allocations(&self) {
        let plan = Arc::clone(&self.inner.state.lock().plan);
        for allocation in plan.allocations() {
            allocation.back();
        }
    }

    fn check_allocations(&self, plan: &Plan) -> Result<()> {
        if self.flags().auto_free {
            return Ok(());
        }
        match plan.left_allocations().any(|left| left.is_live()) {
            true => Err(Error::invalid(
                "an allocation of the graph's last launch was not freed",
            )),
            false => Ok(()),
        }
    }
}

fn begin_work(plan: &Plan) -> Work {
    if plan.handles.is_empty() {
        return Work::Marker;
    }
    let handles = plan.handles.clone();
    let job = Box::new(move || {
        for handle in &handles {
            handle.begin();
        }
        Ok(())
    });
    Work::Device { job, short: true }
}

/// Returns the work of an allocation node or a free node. In a checking run, this work records the
/// allocation or the free when the node runs. In other runs, the work does nothing.
fn allocation_work(memory: &Arc<GraphAllocation>, allocated: bool) -> Work {
    if memory.context().machine().findings.is_none() {
        return Work::Marker;
    }
    let memory = Arc::clone(memory);
    let job = Box::new(move || {
        memory.set_allocated(allocated);
        Ok(())
    });
    Work::Device { job, short: true }
}

/// Returns the work of the launch's last task. The work drops `keep`, if there is one.
fn end_work<K: Send + 'static>(keep: Option<K>) -> Work {
    match keep {
        None => Work::Marker,
        Some(keep) => Work::Device {
            job: Box::new(move || {
                drop(keep);
                Ok(())
            }),
            short: true,
        },
    }
}

impl Plan {
    /// Prepares the enabled kernels of a graph and of its child graphs, in the order in which the kernels' tasks are
    /// created. The kernels in bodies of conditional nodes are prepared when a body is chosen. If `own` is true, each
    /// kernel gets the priority of its node.
    fn runs(&self, graph: usize, own: bool) -> Result<Runs> {
        let mut runs = Runs::new();
        self.add_runs(graph, own, &mut runs)?;
        Ok(runs)
    }

    fn add_runs(&self, graph: usize, own: bool, runs: &mut Runs) -> Result<()> {
        let graph = &self.graphs[graph];
        for step in graph.order.iter().map(|at| &graph.steps[*at]) {
            match &step.op {
                StepOp::Node(NodeOp::Kernel(node, attributes)) if step.enabled => {
                    let mut config = node.launch(attributes);
                    config.priority = own.then(|| attributes.priority());
                    runs.push_back(node.kernel.start(config, node.params.clone())?);
                }
                StepOp::Child(child) => self.add_runs(*child, own, runs)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Marks the allocations of the graph's allocation nodes as live, and then marks the
    /// allocations of its free nodes as not live. If `auto_free` is true, the function first frees
    /// the allocations that the previous launch did not free. Returns the allocations that must
    /// exist until the launch is complete.
    fn hand_out(&self, auto_free: bool) -> Vec<Arc<GraphAllocation>> {
        let mut holds = Vec::new();
        if auto_free {
            for left in self.left_allocations() {
                left.end();
            }
        }
        for allocation in self.allocations() {
            allocation.begin();
            holds.push(Arc::clone(allocation));
        }
        for freed in self.frees() {
            freed.end();
            holds.push(Arc::clone(freed));
        }
        holds
    }
}

/// The tasks of a launch that were created so far. No task can start before all tasks are created.
struct Made<'a> {
    context: &'a Context,
    /// The priority of the stream.
    priority: i32,
    /// Whether kernels get the priorities of their nodes instead of the priority of the stream.
    own: bool,
    runs: Runs,
    tasks: Vec<Arc<Task>>,
}

impl Made<'_> {
    fn task<'t>(
        &mut self,
        context: &Context,
        work: Work,
        before: impl Iterator<Item = &'t Arc<Task>> + Clone,
    ) -> Arc<Task> {
        self.numbered(0, context, work, before)
    }

    /// Creates a task for work that tools that observe the host know by a number.
    fn numbered<'t>(
        &mut self,
        number: u64,
        context: &Context,
        work: Work,
        before: impl Iterator<Item = &'t Arc<Task>> + Clone,
    ) -> Arc<Task> {
        let (owner, priority) = (context.owner(), self.priority);
        let task = Task::submit_numbered(number, owner, priority, work, before.clone());
        let tools = &context.machine().tools;
        if tools.observe_host() {
            tools.tell_dependences(&task, dependences(before));
        }
        self.tasks.push(Arc::clone(&task));
        task
    }

    /// Creates the tasks of a graph, which run after the tasks `before`. The graph is complete when the returned tasks
    /// are complete.
    fn graph(&mut self, plan: &Arc<Plan>, number: usize, before: &[Arc<Task>]) -> Ends {
        let graph = &plan.graphs[number];
        if graph.steps.is_empty() {
            return before.iter().cloned().collect();
        }
        let mut made: Vec<Option<Arc<Task>>> = vec![None; graph.steps.len()];
        for &at in &graph.order {
            let step = &graph.steps[at];
            let own: Ends = { step.dependencies.iter() }
                .filter_map(|(from, _)| made[*from].clone())
                .collect();
            let before = match own.is_empty() {
                true => before,
                false => &own,
            };
            made[at] = Some(self.step(plan, step, before));
        }
        let last = graph.steps.iter().zip(&made).filter(|(step, _)| step.last);
        last.filter_map(|(_, task)| task.clone()).collect()
    }

    fn step(&mut self, plan: &Arc<Plan>, step: &Step, before: &[Arc<Task>]) -> Arc<Task> {
        let here = self.context;
        match &step.op {
            StepOp::Child(child) => {
                let ends = match before {
                    [one] => self.graph(plan, *child, std::slice::from_ref(one)),
                    several => {
                        let enter = self.task(here, Work::Marker, several.iter());
                        self.graph(plan, *child, &[enter])
                    }
                };
                self.task(here, Work::Marker, ends.iter())
            }
            StepOp::Conditional(node, bodies) => {
                let chosen = Chosen {
                    plan: Arc::clone(plan),
                    node: Arc::clone(node),
                    bodies: bodies.clone(),
                    own: self.own,
                    began: None,
                };
                let context = node.handle().context();
                let work = Work::Decide(Box::new(move |task| chosen.run(task)));
                self.task(context, work, before.iter())
            }
            StepOp::Node(_) if !step.enabled => self.task(here, Work::Marker, before.iter()),
            StepOp::Node(op) => self.node(op, before),
        }
    }

    fn node(&mut self, op: &NodeOp, before: &[Arc<Task>]) -> Arc<Task> {
        let here = self.context;
        match op {
            NodeOp::Kernel(node, _) => match self.runs.pop_front() {
                Some(run) => {
                    let context = node.kernel.module().context();
                    let tools = &here.machine().tools;
                    let number = tools.announce(|work| HostEvent::Launch {
                        launch: run.run.id(),
                        work,
                        kernel: node.kernel.name(),
                        grid: node.grid,
                        block: node.block,
                        dynamic_shared: node.shared,
                        arguments: node.params.bytes(),
                        stream: None,
                        context: context.id(),
                        device: context.ordinal(),
                    });
                    self.numbered(number, context, Work::Launch(run), before.iter())
                }
                None => self.task(here, Work::Marker, before.iter()),
            },
            NodeOp::Memcpy(node) => {
                let (transfer, short) = (node.transfer, node.transfer.is_short());
                let number = here
                    .machine()
                    .tools
                    .announce(|work| transfer.event(work, &node.context, None));
                let work =
                    device(
                        "a graph's copy",
                        &node.context,
                        short,
                        move |context| match transfer.check(context)? {
                            true => transfer.run(context.machine().copy_helpers(0)),
                            false => Ok(()),
                        },
                    );
                self.numbered(number, &node.context, work, before.iter())
            }
            NodeOp::Memset(node) => {
                let (fill, short) = (node.fill, node.fill.is_short());
                let tools = &here.machine().tools;
                let number = tools.announce(|work| fill.event(work, &node.context, None));
                let work = device("a graph's fill", &node.context, short, move |context| {
                    let helpers = context.machine().copy_helpers(0);
                    fill.check(context).and_then(|_| fill.run(helpers))
                });
                self.numbered(number, &node.context, work, before.iter())
            }
            NodeOp::Host(node) => {
                let stream = None;
                let tools = &here.machine().tools;
                let number = tools.announce(|work| HostEvent::HostFunction {
                    work,
                    stream,
                    context: here.id(),
                    device: here.ordinal(),
                });
                let node = Arc::clone(node);
                let work = Work::Host(HostWork {
                    function: Box::new(move |_| (node.function)()),
                    always: false,
                });
                self.numbered(number, here, work, before.iter())
            }
            NodeOp::EventRecord(event) => {
                let task = self.task(event.context(), Work::Marker, before.iter());
                event.recorded_by(&task);
                task
            }
            NodeOp::EventWait(event) => {
                let recorded = event.last_task();
                let before = before.iter().chain(&recorded);
                self.task(here, Work::Marker, before)
            }
            NodeOp::MemOps(node) => {
                let work = memop::work(&node.context, node.ops.clone());
                self.task(&node.context, work, before.iter())
            }
            NodeOp::MemAlloc(memory) => {
                self.task(here, allocation_work(memory, true), before.iter())
            }
            NodeOp::MemFree(memory) => {
                self.task(here, allocation_work(memory, false), before.iter())
            }
            NodeOp::Empty | NodeOp::Child(_) | NodeOp::Conditional(_) => {
                self.task(here, Work::Marker, before.iter())
            }
        }
    }
}

/// Returns the work that is complete when the tasks `before` are. Work before the graph keeps its rule.
fn dependences<'t>(before: impl Iterator<Item = &'t Arc<Task>>) -> Dependences {
    let mut all: Dependences = before.flat_map(|task| task.known_dependences()).collect();
    all.sort_by_key(|known| known.work);
    all.dedup_by_key(|known| known.work);
    all
}

/// Returns the work of a copy or fill. If the copy or fill fails, its error becomes the sticky
/// error of the context.
fn device(
    what: &'static str,
    context: &Context,
    short: bool,
    job: impl FnOnce(&Context) -> Result<()> + Send + 'static,
) -> Work {
    let context = context.downgrade();
    let job = move || {
        let Some(context) = context.upgrade().map(Context::from) else {
            return Ok(());
        };
        if let Err(error) = job(&context) {
            context.fail_with(error, what);
        }
        Ok(())
    };
    Work::Device {
        job: Box::new(job),
        short,
    }
}

/// A conditional node that is about to choose a graph.
struct Chosen {
    plan: Arc<Plan>,
    node: Arc<ConditionalNode>,
    bodies: Vec<usize>,
    own: bool,
    /// The time at which the node chose a graph for the first time; `None` if it has not chosen a
    /// graph yet.
    began: Option<Instant>,
}

impl Chosen {
    /// Runs the graph that the value selects, and completes `task` when this graph is complete. A
    /// loop tests the value again after each iteration, and completes `task` when the value is 0.
    /// Also completes `task` if the value selects no graph, or if the work of the context is
    /// cancelled.
    fn run(mut self, task: Arc<Task>) {
        let context = self.node.handle().context().clone();
        // The time limit applies to the whole loop, because a loop can be endless although each of its kernels ends in
        // time.
        let began = *self.began.get_or_insert_with(Instant::now);
        let limit = context.time_limit();
        let limit = limit.or(context.machine().scheduler().time_limit());
        if limit.is_some_and(|limit| began.elapsed() > limit) {
            let fault = Fault::of_operation(FaultKind::Timeout, "a loop of a graph");
            context.owner().fail(fault);
        }
        let body = self.node.choice().and_then(|at| self.bodies.get(at));
        let Some(body) = body.copied().filter(|_| !context.work_cancelled()) else {
            task.complete();
            return;
        };
        let runs = match self.plan.runs(body, self.own) {
            Ok(runs) => runs,
            Err(error) => {
                context.fail_with(error, "a conditional graph");
                task.complete();
                return;
            }
        };
        let mut made = Made {
            context: &context,
            priority: task.priority(),
            own: self.own,
            runs,
            tasks: Vec::new(),
        };
        let plan = Arc::clone(&self.plan);
        let begin = Task::submit(context.owner(), task.priority(), Work::Marker, [].iter());
        let before = task.dependences(DependenceKind::Graph);
        context.machine().tools.tell_dependences(&begin, before);
        made.tasks.push(Arc::clone(&begin));
        let ends = made.graph(&plan, body, std::slice::from_ref(&begin));
        let again = self.node.kind() == ConditionalKind::While;
        let behind = Work::Decide(Box::new(move |end: Arc<Task>| {
            end.complete();
            match again {
                true => self.run(task),
                false => task.complete(),
            }
        }));
        made.task(&context, behind, ends.iter());
        // Element 0 is the task that precedes all other tasks. It is released last, so that no task starts before all
        // tasks are released.
        for task in made.tasks.iter().rev() {
            task.release();
        }
    }
}
