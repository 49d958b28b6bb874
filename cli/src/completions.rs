//! `margay completions`: prints a script that completes commands and options, generated from their definitions.

use clap_complete::Shell;

use crate::output::{Outcome, Report};

const EXAMPLES: &str = "\
Examples:
  margay completions bash > ~/.local/share/bash-completion/completions/margay
  margay completions zsh > ~/.zfunc/_margay
  margay completions fish > ~/.config/fish/completions/margay.fish";

/// The arguments of `margay completions`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The shell for which the script is printed.
    shell: Shell,
}

/// Prints the completion script of a shell for `program`.
pub(crate) fn run(arguments: &Arguments, mut program: clap::Command) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, "margay", &mut script);
    Ok(Report::of(String::from_utf8_lossy(&script).into_owned()))
}
