//! Tests completions and manual pages, which are generated from the definition of the command line.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

fn margay(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_margay"))
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the names of the commands that `margay --help` lists.
fn commands() -> Vec<String> {
    let help = margay(&["--help"]);
    let lines = help.lines().skip_while(|line| *line != "Commands:");
    let listed = lines.skip(1).take_while(|line| !line.is_empty());
    listed
        .filter_map(|line| Some(line.split_whitespace().next()?.to_owned()))
        .filter(|name| name != "help")
        .collect()
}

/// Returns the long options in the help of a command.
fn options(command: &str) -> BTreeSet<String> {
    let help = margay(&[command, "--help"]);
    let words = help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words
        .filter(|word| word.len() > 3 && word.starts_with("--"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_command_and_option_is_completed() {
    let commands = commands();
    assert!(commands.len() > 8, "{commands:?}");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = margay(&["completions", shell]);
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell}: no {command}");
        }
        // fish scripts contain options without their dashes.
        let option = if shell == "fish" {
            "time-limit"
        } else {
            "--time-limit"
        };
        assert!(script.contains(option), "{shell}: no {option}");
    }
}

/// Returns the completions that bash offers for the last word of a command line.
fn completed(line: &[&str]) -> BTreeSet<String> {
    let words = line.join(" ");
    let script = format!(
        "source /dev/stdin; COMP_WORDS=({words} ''); COMP_CWORD={}; _margay margay '' {}; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        line.len(),
        line.last().unwrap(),
    );
    let mut child = Command::new("bash")
        .args(["-euc", &script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, margay(&["completions", "bash"]).as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn bash_offers_commands_and_their_options() {
    let offered = completed(&["margay"]);
    for command in commands() {
        assert!(offered.contains(&command), "{offered:?}");
    }
    let offered = completed(&["margay", "bench"]);
    for option in options("bench") {
        assert!(offered.contains(&option), "no {option}: {offered:?}");
    }
}

#[test]
fn every_command_has_a_page_with_its_options() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    let _ = std::fs::remove_dir_all(&folder);
    margay(&["man", "--to", folder.to_str().unwrap()]);
    let main = std::fs::read_to_string(folder.join("margay.1")).unwrap();
    assert!(main.contains(".TH margay 1"), "{main}");
    for command in commands() {
        let name = format!("margay-{command}");
        assert!(main.contains(&name.replace('-', "\\-")), "{name}: {main}");
        let page = std::fs::read_to_string(folder.join(format!("{name}.1"))).unwrap();
        assert_eq!(page, margay(&["man", &command]));
        assert!(page.contains(&format!(".TH {name} 1")), "{page}");
        let version = concat!("Margay ", env!("CARGO_PKG_VERSION"));
        assert!(page.contains(version), "{page}");
        let (_, examples) = page.split_once("\n.nf\n").expect("lines as they are");
        let example = format!("  margay {command}");
        assert!(examples.contains(&example), "{name}: {examples}");
        for option in options(&command) {
            let in_roff = option.replace('-', "\\-");
            assert!(page.contains(&in_roff), "{name}: no {option}\n{page}");
        }
    }
    let files = std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(files, commands().len() + 1);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_page_that_is_not_there_is_an_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_margay"))
        .args(["man", "nothing"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no page margay-nothing"), "{said}");
}
