//! Plans: what a routine returns. A plan is a list of stages; a stage is a number of independent tasks.

/// Tasks that may run in any order and in parallel. Stages of a plan run one after another.
pub struct Stage {
    /// Number of tasks.
    pub tasks: u32,
    /// Runs one task, whose number is less than `tasks`. May be called again for the same task when the plan runs again.
    pub run: Box<dyn Fn(u32) + Send + Sync>,
}

/// The stages of one call. An empty plan has nothing to do.
#[derive(Default)]
pub struct Plan {
    /// The stages, in the order in which they run.
    pub stages: Vec<Stage>,
}

impl Plan {
    /// A plan that does nothing.
    pub fn empty() -> Plan {
        Plan::default()
    }

    /// Runs the whole plan on the calling thread.
    pub fn run(&self) {
        for stage in &self.stages {
            for task in 0..stage.tasks {
                (stage.run)(task);
            }
        }
    }
}
