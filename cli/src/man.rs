//! `margay man`: manual pages, generated from the definition of the command line.

use std::path::PathBuf;

use clap_mangen::Man;

use crate::output::{Failure, Outcome, Report};

const EXAMPLES: &str = "\
Examples:
  margay man | man -l -
  margay man run | man -l -
  margay man --to ~/.local/share/man/man1";

/// The arguments of `margay man`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The command whose page is printed (default: the program's own).
    command: Option<String>,
    /// Write the pages of the program and of all its commands into a folder.
    #[arg(long, value_name = "FOLDER", conflicts_with = "command", value_hint = clap::ValueHint::DirPath)]
    to: Option<PathBuf>,
}

/// Prints a page of `program`, or writes all pages.
pub(crate) fn run(arguments: &Arguments, program: clap::Command) -> Outcome {
    let pages = pages(program);
    if let Some(folder) = &arguments.to {
        let problem = |error| Failure::from(format!("{}: {error}", folder.display()));
        std::fs::create_dir_all(folder).map_err(problem)?;
        for (name, page) in pages {
            let text = render(page)?;
            std::fs::write(folder.join(format!("{name}.1")), text).map_err(problem)?;
        }
        return Ok(Report::of(String::new()));
    }
    let wanted = match &arguments.command {
        Some(command) => format!("margay-{command}"),
        None => "margay".to_owned(),
    };
    let page = pages.into_iter().find(|(name, _)| *name == wanted);
    let (_, page) = page.ok_or_else(|| Failure::from(format!("no page {wanted}")))?;
    Ok(Report::of(render(page)?))
}

/// Returns the program and its commands, each with the name of its manual page.
fn pages(mut program: clap::Command) -> Vec<(String, clap::Command)> {
    program = program.disable_help_subcommand(true);
    program.build();
    let commands = program.get_subcommands().map(|command| {
        let name = format!("margay-{}", command.get_name());
        let page = command
            .clone()
            .display_name(&name)
            .version(env!("CARGO_PKG_VERSION"));
        (name, page)
    });
    let mut pages: Vec<_> = commands.collect();
    pages.insert(0, ("margay".to_owned(), program));
    pages
}

fn render(page: clap::Command) -> Result<String, Failure> {
    let mut text = Vec::new();
    let source = concat!("Margay ", env!("CARGO_PKG_VERSION"));
    let rendered = Man::new(page).source(source).render(&mut text);
    rendered.map_err(|error| Failure::from(error.to_string()))?;
    Ok(examples_as_they_are(&String::from_utf8_lossy(&text)))
}

/// Marks the text after the options (examples and notes) as preformatted, so that `man` does not join the lines of this
/// text.
fn examples_as_they_are(page: &str) -> String {
    let Some((before, rest)) = page.split_once(".SH EXTRA\n") else {
        return page.to_owned();
    };
    let (examples, behind) = rest.split_at(rest.find(".SH").unwrap_or(rest.len()));
    let (title, text) = match examples.strip_prefix("Examples:\n") {
        Some(text) => ("EXAMPLES", text),
        None => ("NOTES", examples),
    };
    format!("{before}.SH {title}\n.nf\n{text}.fi\n{behind}")
}
