//! The table of the captures of all streams. Its entries are called sequences.
//!
//! A program can have tens of thousands of active captures at the same time. The table therefore
//! contains an index of captures by the IDs of streams, and stores the numbers of captures and
//! branches that calls of the API check. A branch is a stream that takes part in a capture.
//!
//! Invariants: the keys of `places` are the IDs of the streams of all branches. The stored counts
//! are equal to the actual numbers of captures and branches; a count of 0 is not stored.

use std::collections::BTreeMap;

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::{CaptureMode, Dependencies, is_blocking};
use crate::context::Context;
use crate::error::{CaptureError, Result};
use crate::graph::{EdgeData, Graph, Node, NodeOp};
use crate::process::{next_id, thread_id};
use crate::stream::Stream;

/// A stream in a capture.
pub(super) struct Branch {
    pub(super) stream: Stream,
    dependencies: Dependencies,
}

pub(super) struct Sequence {
    pub(super) graph: Graph,
    pub(super) mode: CaptureMode,
    pub(super) thread: u64,
    pub(super) invalid: bool,
    /// The streams in the capture. The keys number the streams in the order in which they joined
    /// the capture; branch 0 is the stream in which the capture began.
    pub(super) branches: BTreeMap<u64, Branch>,
    next_branch: u64,
    /// The last nodes of branches whose streams were destroyed.
    left: Dependencies,
    /// An entry for each record of an event in this capture: the dependencies of the recording
    /// stream at that time.
    pub(super) records: Vec<Dependencies>,
}

/// The place of a stream in a capture: the ID of the capture, and the number of the stream's
/// branch.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) sequence: u64,
    branch: u64,
}

impl Place {
    /// Returns whether this is the branch in which the capture began.
    pub(super) fn is_first(self) -> bool {
        self.branch == 0
    }
}

/// Numbers of captures or branches: one number for each key, which identifies a thread or a
/// context.
struct Counts(FxHashMap<u64, usize>);

impl Counts {
    const fn new() -> Counts {
        Counts(FxHashMap::with_hasher(FxBuildHasher))
    }

    fn add(&mut self, key: u64) {
        *self.0.entry(key).or_default() += 1;
    }

    fn subtract(&mut self, key: u64) {
        if let Some(count) = self.0.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&key);
            }
        }
    }

    fn has(&self, key: u64) -> bool {
        self.0.contains_key(&key)
    }
}

/// All sequences.
pub(super) struct Sequences {
    by_id: BTreeMap<u64, Sequence>,
    /// The place of each stream that is in a capture. The key is the ID of the stream.
    places: FxHashMap<u64, Place>,
    /// Number of captures with the mode `Global`.
    global: usize,
    /// For each thread, the number of captures that began in this thread and whose mode is not
    /// `Relaxed`.
    strict: Counts,
    /// For each context, the number of branches whose stream belongs to this context.
    contexts: Counts,
    /// For each context, the number of branches whose stream is a blocking stream of this context.
    blocking: Counts,
}

impl Sequences {
    pub(super) const fn new() -> Sequences {
        Sequences {
            by_id: BTreeMap::new(),
            places: FxHashMap::with_hasher(FxBuildHasher),
            global: 0,
            strict: Counts::new(),
            contexts: Counts::new(),
            blocking: Counts::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Adds a capture that begins in the calling thread.
    pub(super) fn begin(
        &mut self,
        graph: &Graph,
        mode: CaptureMode,
        stream: &Stream,
        dependencies: Dependencies,
    ) {
        let (id, thread) = (next_id(), thread_id());
        let sequence = Sequence {
            graph: graph.clone(),
            mode,
            thread,
            invalid: false,
            branches: BTreeMap::new(),
            next_branch: 0,
            left: Dependencies::new(),
            records: Vec::new(),
        };
        self.by_id.insert(id, sequence);
        self.global += usize::from(mode == CaptureMode::Global);
        if mode != CaptureMode::Relaxed {
            self.strict.add(thread);
        }
        self.join(id, stream, dependencies);
    }

    /// Adds a stream to a capture.
    pub(super) fn join(&mut self, id: u64, stream: &Stream, dependencies: Dependencies) {
        let Some(sequence) = self.by_id.get_mut(&id) else {
            return;
        };
        let place = Place {
            sequence: id,
            branch: sequence.next_branch,
        };
        sequence.next_branch += 1;
        let branch = Branch {
            stream: stream.clone(),
            dependencies,
        };
        sequence.branches.insert(place.branch, branch);
        self.places.insert(stream.id(), place);
        let context = stream.context().id();
        self.contexts.add(context);
        if is_blocking(stream) {
            self.blocking.add(context);
        }
    }

    /// Removes a stream from its capture and returns the stream. Before the capture ends, the
    /// program must still join the last nodes of this stream to the stream in which the capture
    /// began.
    pub(super) fn leave(&mut self, place: Place) -> Option<Stream> {
        let sequence = self.by_id.get_mut(&place.sequence)?;
        let gone = sequence.branches.remove(&place.branch)?;
        sequence.left.extend(gone.dependencies);
        self.forget_place(&gone.stream);
        Some(gone.stream)
    }

    /// Removes a capture from the table and returns the capture.
    pub(super) fn remove(&mut self, id: u64) -> Option<Sequence> {
        let sequence = self.by_id.remove(&id)?;
        self.global -= usize::from(sequence.mode == CaptureMode::Global);
        if sequence.mode != CaptureMode::Relaxed {
            self.strict.subtract(sequence.thread);
        }
        for branch in sequence.branches.values() {
            self.forget_place(&branch.stream);
        }
        Some(sequence)
    }

    fn forget_place(&mut self, stream: &Stream) {
        self.places.remove(&stream.id());
        let context = stream.context().id();
        self.contexts.subtract(context);
        if is_blocking(stream) {
            self.blocking.subtract(context);
        }
    }

    /// Returns the place of a stream, or `None` if the stream takes part in no capture.
    pub(super) fn place_of(&self, stream: &Stream) -> Option<Place> {
        self.places.get(&stream.id()).copied()
    }

    /// Returns the place of a stream, and the capture in which the stream takes part.
    pub(super) fn find(&mut self, stream: &Stream) -> Option<(Place, &mut Sequence)> {
        let place = self.place_of(stream)?;
        Some((place, self.by_id.get_mut(&place.sequence)?))
    }

    /// Returns the capture with this ID.
    pub(super) fn get(&mut self, id: u64) -> Option<&mut Sequence> {
        self.by_id.get_mut(&id)
    }

    /// Returns whether any capture forbids a thread whose own mode is `own` to make calls that can
    /// synchronise.
    pub(super) fn forbids(&self, own: CaptureMode, thread: u64) -> bool {
        self.strict.has(thread) || (own == CaptureMode::Global && self.global > 0)
    }

    /// Returns whether a stream of the context takes part in a capture.
    pub(super) fn has_context(&self, context: &Context) -> bool {
        self.contexts.has(context.id())
    }

    /// Returns whether a blocking stream of the context takes part in a capture.
    pub(super) fn has_blocking(&self, context: &Context) -> bool {
        self.blocking.has(context.id())
    }

    /// Returns the IDs of the captures in which streams of a context take part.
    pub(super) fn of_context(&self, context: &Context) -> Vec<u64> {
        if !self.has_context(context) {
            return Vec::new();
        }
        let concerned = self.by_id.iter();
        let concerned = concerned.filter(|(_, sequence)| sequence.has_context(context));
        concerned.map(|(id, _)| *id).collect()
    }

    /// Invalidates all captures for which `wanted` returns true.
    pub(super) fn invalidate_where(&mut self, wanted: impl Fn(&Sequence) -> bool) {
        for sequence in self.by_id.values_mut() {
            if wanted(sequence) {
                sequence.invalid = true;
            }
        }
    }
}

impl Sequence {
    /// Returns whether a stream of the context takes part in this capture.
    pub(super) fn has_context(&self, context: &Context) -> bool {
        let mut branches = self.branches.values();
        branches.any(|branch| branch.stream.context() == context)
    }

    /// Returns the nodes on which the next node of a branch depends.
    pub(super) fn dependencies(&mut self, place: Place) -> &mut Dependencies {
        match self.branches.get_mut(&place.branch) {
            Some(branch) => &mut branch.dependencies,
            None => &mut self.left,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.invalid {
            true => Err(CaptureError::Invalidated.into()),
            false => Ok(()),
        }
    }

    /// Adds a node to the capture's graph. The node depends on the branch's current dependencies,
    /// and then becomes the only dependency of the branch.
    pub(super) fn add(&mut self, place: Place, op: NodeOp) -> Result<Node> {
        self.check()?;
        let graph = self.graph.clone();
        let dependencies = self.dependencies(place);
        match graph.add(op, dependencies) {
            Ok(node) => {
                *dependencies = vec![(node.clone(), EdgeData::default())];
                Ok(node)
            }
            Err(error) => {
                self.invalid = true;
                Err(error)
            }
        }
    }

    /// Returns whether all other branches are joined to the first branch. This is so if the first
    /// branch depends, directly or indirectly, on all dependencies of the other branches, including
    /// branches whose streams were destroyed.
    pub(super) fn is_joined(&self) -> Result<bool> {
        let mut joined: FxHashSet<u64> = FxHashSet::default();
        let first = self.branches.get(&0).into_iter();
        let first = first.flat_map(|branch| &branch.dependencies);
        let mut todo: Vec<Node> = first.map(|(node, _)| node.clone()).collect();
        while let Some(node) = todo.pop() {
            if joined.insert(node.id()) {
                todo.extend(node.dependencies()?.into_iter().map(|(node, _)| node));
            }
        }
        let others = self.branches.range(1..);
        let mut ends = others
            .flat_map(|(_, branch)| &branch.dependencies)
            .chain(&self.left);
        Ok(ends.all(|(node, _)| joined.contains(&node.id())))
    }
}
