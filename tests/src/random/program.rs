//! The tree of a generated kernel, and its launch.
//!
//! Invariant: any statement may be left out and any compound one be replaced by what it holds, and the kernel
//! stays valid: registers are set before the first statement, and what depends on where a statement stands
//! (member masks, whether a barrier may count threads, where `break` goes) is decided when the text is
//! written. This is what lets a failing kernel be reduced.

use margay::Dim3;

/// Which threads surely take the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// None.
    Lane,
    /// Those of a warp.
    Warp,
    /// Those of a CTA.
    Cta,
}

/// Text of instructions. `<M>` stands for the mask of the lanes that are here, `<L>` for a number that makes
/// labels unique, `<COUNT>` for the thread count of a barrier, where one may be named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaf {
    /// The instructions.
    pub text: String,
    /// Whether threads of a warp or CTA meet here.
    pub meets: Option<Level>,
}

/// A condition: instructions that leave it in `<C>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The instructions.
    pub leaf: Leaf,
    /// Which threads surely find the same.
    pub level: Level,
}

/// How a loop counts its turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Up, tested before each turn.
    Up,
    /// Up by three, tested before each turn.
    UpByThree,
    /// Down, tested before each turn.
    Down,
    /// Up, tested after each turn.
    Tested,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// Straight code.
    Leaf(Leaf),
    /// Two ways.
    If(Condition, Vec<Statement>, Vec<Statement>),
    /// `limit` leaves the number of turns in `<N>`.
    Loop {
        /// How the turns are counted.
        counting: Counting,
        /// Instructions that compute the number of turns.
        limit: Condition,
        /// What is repeated.
        body: Vec<Statement>,
    },
    /// `selector` leaves a number below the number of arms in `<N>`.
    Switch {
        /// Instructions that choose.
        selector: Condition,
        /// The ways.
        arms: Vec<Vec<Statement>>,
    },
    /// Ends the threads for which it holds.
    Exit(Condition),
    /// Leaves the innermost loop.
    Break(Condition),
    /// Begins the next turn of the innermost loop.
    Continue(Condition),
}

impl Statement {
    /// The lists of statements within.
    pub fn bodies(&self) -> Vec<&Vec<Statement>> {
        match self {
            Statement::If(_, then, other) => vec![then, other],
            Statement::Loop { body, .. } => vec![body],
            Statement::Switch { arms, .. } => arms.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The same, to change.
    pub fn bodies_mut(&mut self) -> Vec<&mut Vec<Statement>> {
        match self {
            Statement::If(_, then, other) => vec![then, other],
            Statement::Loop { body, .. } => vec![body],
            Statement::Switch { arms, .. } => arms.iter_mut().collect(),
            _ => Vec::new(),
        }
    }

    fn own_leaf(&self) -> &Leaf {
        match self {
            Statement::Leaf(leaf) => leaf,
            Statement::If(condition, ..)
            | Statement::Exit(condition)
            | Statement::Break(condition)
            | Statement::Continue(condition) => &condition.leaf,
            Statement::Loop { limit, .. } => &limit.leaf,
            Statement::Switch { selector, .. } => &selector.leaf,
        }
    }

    /// Whether threads meet in it.
    pub fn meets(&self) -> bool {
        self.own_leaf().meets.is_some() || self.bodies().into_iter().any(|body| meets(body))
    }

    /// Whether threads may end in it.
    pub fn exits(&self) -> bool {
        matches!(self, Statement::Exit(_))
            || self.bodies().into_iter().flatten().any(Statement::exits)
    }

    /// Number of statements, with those within.
    pub fn count(&self) -> usize {
        let inner = self.bodies().into_iter().flatten().map(Statement::count);
        1 + inner.sum::<usize>()
    }
}

/// Whether threads meet in a list of statements.
pub fn meets(body: &[Statement]) -> bool {
    body.iter().any(Statement::meets)
}

/// A kernel and its launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// What it was made from; its name is `k` and this.
    pub seed: u64,
    /// Blocks in the grid.
    pub grid: Dim3,
    /// Threads in a block.
    pub block: Dim3,
    /// What it does.
    pub body: Vec<Statement>,
}

impl Kernel {
    /// Its name in the module.
    pub fn name(&self) -> String {
        format!("k{:016x}", self.seed)
    }

    /// Threads in a block.
    pub fn threads(&self) -> u32 {
        self.block.count() as u32
    }

    /// Threads of the launch.
    pub fn all_threads(&self) -> u32 {
        self.threads() * self.grid.count() as u32
    }

    /// Whether every warp is full and stays so.
    pub fn full_warps(&self) -> bool {
        self.threads().is_multiple_of(32) && !self.body.iter().any(Statement::exits)
    }

    /// Number of statements.
    pub fn len(&self) -> usize {
        self.body.iter().map(Statement::count).sum()
    }

    /// Whether nothing is left of it.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }
}
