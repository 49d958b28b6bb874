//! Finds the functions that a function reaches by direct calls, and decides which calls are inlined or removed.

use rustc_hash::{FxHashMap, FxHashSet};

use super::calls_in;
use crate::analysis::Cfg;
use crate::entity::{FuncId, Value};
use crate::function::{Function, payload_func};
use crate::module::Module;
use margay_ops::ops::{Effects, Opcode};

/// The decision about a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// The call is kept.
    Stay,
    /// The body of the function replaces the call.
    Inline,
    /// The call is removed, because it has no effect and its results are unused.
    Drop,
}

struct Call {
    callee: FuncId,
    /// Whether the results of the call are unused.
    unused: bool,
}

struct Node {
    /// Number of instructions.
    size: usize,
    /// The direct calls in the function, in order.
    calls: Vec<Call>,
    has_body: bool,
    /// Whether the function is on a cycle of the call graph.
    recursive: bool,
    /// Whether the function is known to return always and to have no effect except its results.
    silent: bool,
}

/// The functions that a function reaches by direct calls.
pub(super) struct Graph {
    nodes: FxHashMap<FuncId, Node>,
    /// The functions of the graph. A callee comes before its callers, unless the calls are
    /// recursive.
    order: Vec<FuncId>,
    root: FuncId,
}

/// The decisions about all calls in the functions of a graph.
#[derive(Debug)]
pub(super) struct Plan {
    fates: FxHashMap<FuncId, Vec<Fate>>,
    /// Total number of instructions of the root and of all functions that are not inlined. Includes the instructions
    /// that are inlined into each of these functions.
    pub(super) total: usize,
}

impl Plan {
    /// Returns whether the plan contains decisions about the calls of a function.
    pub(super) fn knows(&self, id: FuncId) -> bool {
        self.fates.contains_key(&id)
    }

    /// Returns the decisions about the direct calls of a function, in the order of the calls.
    pub(super) fn fates(&self, id: FuncId) -> impl Iterator<Item = Fate> {
        self.fates.get(&id).into_iter().flatten().copied()
    }
}

impl Graph {
    /// Builds the graph of the functions that `root` reaches. Does not visit other functions of the module.
    pub(super) fn new(module: &Module, root: FuncId) -> Graph {
        let mut graph = Graph {
            nodes: FxHashMap::default(),
            order: Vec::new(),
            root,
        };
        for part in components(module, root, &mut graph.nodes) {
            let calls_itself = |id: &FuncId| {
                let mut calls = graph.nodes[id].calls.iter();
                calls.any(|call| call.callee == *id)
            };
            let recursive = part.len() > 1 || part.iter().any(calls_itself);
            for id in part {
                let silent = !recursive && graph.is_silent(module, id);
                if let Some(node) = graph.nodes.get_mut(&id) {
                    node.recursive = recursive;
                    node.silent = silent;
                }
                graph.order.push(id);
            }
        }
        graph
    }

    /// Returns whether a function is known to return always and to have no effect except its results. This is the case
    /// if the function has no loop and consists of pure ops, jumps, branches with two targets, returns, and calls of
    /// such functions. The callees of the function must be in the graph already.
    fn is_silent(&self, module: &Module, id: FuncId) -> bool {
        let Some(function) = module.functions.get(id).filter(|f| f.has_body()) else {
            return false;
        };
        let does_nothing = |opcode: Opcode| match opcode {
            Opcode::Call | Opcode::Ret | Opcode::Jump | Opcode::Brif => true,
            opcode => opcode.effects().is_pure() && !opcode.effects().contains(Effects::TERMINATOR),
        };
        let mut insts = function.blocks().iter().flat_map(|&b| function.insts(b));
        let called = |call: &Call| self.nodes.get(&call.callee).is_some_and(|node| node.silent);
        function.unsupported.is_empty()
            && self.nodes[&id].calls.iter().all(called)
            && insts.all(|&inst| does_nothing(function.dfg.insts[inst].opcode))
            && has_no_loop(function)
    }

    /// Returns whether a function other than the root contains a sync point that is an op of the program, such as a
    /// barrier. Sync points that later passes add do not count.
    pub(super) fn waits(&self, module: &Module) -> bool {
        let others = self.order.iter().filter(|&&id| id != self.root);
        let functions = others.filter_map(|&id| module.functions.get(id));
        functions.filter(|f| f.has_body()).any(|function| {
            let mut insts = function.blocks().iter().flat_map(|&b| function.insts(b));
            insts.any(|&inst| function.effects(inst).is_sync_point())
        })
    }

    /// Decides whether each call is kept, inlined or removed. A function is inlined if it has at most `limit`
    /// instructions, including the instructions that are inlined into it. Calls of small functions are inlined first.
    /// Inlining does not let a caller grow beyond `most` instructions.
    pub(super) fn plan(&self, limit: usize, most: usize) -> Plan {
        let mut grown: FxHashMap<FuncId, usize> = FxHashMap::default();
        let mut fates: FxHashMap<FuncId, Vec<Fate>> = FxHashMap::default();
        let mut stay: FxHashSet<FuncId> = FxHashSet::from_iter([self.root]);
        for &id in &self.order {
            let node = &self.nodes[&id];
            let mut size = node.size;
            let mut made = vec![Fate::Stay; node.calls.len()];
            let mut small: Vec<(usize, usize)> = Vec::new();
            for (index, call) in node.calls.iter().enumerate() {
                let callee = &self.nodes[&call.callee];
                if callee.silent && call.unused {
                    made[index] = Fate::Drop;
                } else if callee.has_body && !callee.recursive {
                    small.push((grown[&call.callee], index));
                }
            }
            small.sort_unstable();
            for (of_callee, index) in small {
                if of_callee > limit || size + of_callee > most {
                    break;
                }
                size += of_callee;
                made[index] = Fate::Inline;
            }
            let calls = node.calls.iter().zip(&made);
            let staying = calls.filter(|&(_, &fate)| fate == Fate::Stay);
            stay.extend(staying.map(|(call, _)| call.callee));
            grown.insert(id, size);
            fates.insert(id, made);
        }
        let sizes = stay.iter().map(|id| grown.get(id).copied().unwrap_or(0));
        Plan {
            total: sizes.sum(),
            fates,
        }
    }
}

fn node(module: &Module, id: FuncId) -> Node {
    let Some(function) = module.functions.get(id).filter(|f| f.has_body()) else {
        return Node {
            size: 0,
            calls: Vec::new(),
            has_body: false,
            recursive: false,
            silent: false,
        };
    };
    let mut used: FxHashSet<Value> = FxHashSet::default();
    let calls: Vec<_> = calls_in(function, function.blocks()).collect();
    if !calls.is_empty() {
        for &inst in function.blocks().iter().flat_map(|&b| function.insts(b)) {
            let passed = function.dfg.targets(inst).iter().flat_map(|c| &c.args);
            let args = function.dfg.args(inst).iter().chain(passed);
            used.extend(args.map(|&value| function.dfg.resolve(value)));
        }
    }
    let calls = calls.into_iter().map(|inst| Call {
        callee: payload_func(function.dfg.insts[inst].payload()),
        unused: !function.dfg.results(inst).iter().any(|v| used.contains(v)),
    });
    let blocks = function.blocks().iter();
    Node {
        size: blocks.map(|&block| function.insts(block).len()).sum(),
        calls: calls.collect(),
        has_body: true,
        recursive: false,
        silent: false,
    }
}

fn has_no_loop(function: &Function) -> bool {
    let cfg = Cfg::new(function);
    cfg.rpo().iter().all(|&block| {
        let mut next = function.successors(block).iter();
        next.all(|call| cfg.number(call.block) > cfg.number(block))
    })
}

/// Returns the strongly connected components of the functions that `root` reaches, with callees first. Uses Tarjan's
/// algorithm with an explicit stack instead of recursion.
fn components(
    module: &Module,
    root: FuncId,
    nodes: &mut FxHashMap<FuncId, Node>,
) -> Vec<Vec<FuncId>> {
    #[derive(Clone, Copy)]
    struct Seen {
        number: usize,
        lowest: usize,
        open: bool,
    }
    let mut seen: FxHashMap<FuncId, Seen> = FxHashMap::default();
    let mut open: Vec<FuncId> = Vec::new();
    let mut found = Vec::new();
    let mut work: Vec<(FuncId, usize)> = vec![(root, 0)];
    while let Some((id, next)) = work.pop() {
        if next == 0 {
            let number = seen.len();
            let fresh = Seen {
                number,
                lowest: number,
                open: true,
            };
            seen.insert(id, fresh);
            open.push(id);
            nodes.insert(id, node(module, id));
        }
        if let Some(call) = nodes[&id].calls.get(next) {
            let callee = call.callee;
            work.push((id, next + 1));
            match seen.get(&callee).copied() {
                None => work.push((callee, 0)),
                Some(other) if other.open => lower(&mut seen, id, other.number),
                Some(_) => {}
            }
            continue;
        }
        let own = seen[&id];
        if let Some(&(caller, _)) = work.last() {
            lower(&mut seen, caller, own.lowest);
        }
        if own.lowest == own.number {
            let mut part = Vec::new();
            while let Some(member) = open.pop() {
                if let Some(member) = seen.get_mut(&member) {
                    member.open = false;
                }
                part.push(member);
                if member == id {
                    break;
                }
            }
            found.push(part);
        }
    }
    return found;

    fn lower(seen: &mut FxHashMap<FuncId, Seen>, id: FuncId, to: usize) {
        if let Some(seen) = seen.get_mut(&id) {
            seen.lowest = seen.lowest.min(to);
        }
    }
}
