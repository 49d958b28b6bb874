//! Plans: what a routine returns. A plan is a list of stages; a stage is a number of independent tasks.

/// Tasks that may run in any order and in parallel. Stages of a plan run one after another.
pub struct Stage {
    /// Number of tasks.
    pub tasks: u32,
    /// Runs one task, whose number is less than `tasks`. May be called again for the same task when the plan runs again.
    pub run: Box<dyn Fn(u32) + Send + Sync>,
}

impl Stage {
    /// The tasks of several stages in one stage.
    fn joined(mut stages: Vec<Stage>) -> Stage {
        if stages.len() == 1 {
            return stages.remove(0);
        }
        // The number of the first task of each stage.
        let mut firsts = Vec::with_capacity(stages.len());
        let mut total = 0u64;
        for stage in &stages {
            firsts.push(total);
            total += u64::from(stage.tasks);
        }
        let group = total.div_ceil(u64::from(u32::MAX)).max(1);
        let run = move |task: u32| {
            let start = u64::from(task) * group;
            for number in start..total.min(start + group) {
                let index = firsts.partition_point(|first| *first <= number) - 1;
                (stages[index].run)((number - firsts[index]) as u32);
            }
        };
        Stage {
            tasks: total.div_ceil(group) as u32,
            run: Box::new(run),
        }
    }
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

    /// Plans that may run in parallel, as one: the tasks of all first stages, then those of all second stages, and so on.
    pub(crate) fn joined(plans: impl IntoIterator<Item = Vec<Stage>>) -> Plan {
        let mut levels: Vec<Vec<Stage>> = Vec::new();
        for stages in plans {
            for (level, stage) in stages.into_iter().enumerate() {
                if levels.len() <= level {
                    levels.push(Vec::new());
                }
                levels[level].push(stage);
            }
        }
        Plan {
            stages: levels.into_iter().map(Stage::joined).collect(),
        }
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
