//! The lines of the subscriber's log, compared for each event.
//!
//! Threads send at the same time, so the order of lines of different events means nothing. The numbers of events and calls
//! mean nothing either: a line is compared with the event's first line in the place of the event's number.

use std::collections::HashMap;

/// A line.
#[derive(Clone, Debug, Default)]
struct Line {
    /// Everything but the following.
    head: Vec<String>,
    /// The event or the call: `U5`, `C3`.
    object: String,
    parent: Option<String>,
    edge: Option<(String, String)>,
    metadata: Vec<String>,
}

impl Line {
    fn parse(text: &str) -> Line {
        let mut line = Line::default();
        for word in words(text) {
            let value = word.split_once('=').map_or("", |(_, value)| value);
            if word.starts_with('{') {
                line.metadata.push(word);
            } else if word.starts_with("ev=") || word.starts_with("call=") {
                line.object = value.to_owned();
            } else if word.starts_with("parent=") {
                line.parent = Some(value.to_owned());
            } else if let Some((from, to)) = word.split_once("->") {
                line.edge = Some((from.to_owned(), to.to_owned()));
            } else {
                line.head.push(word);
            }
        }
        line
    }
}

/// Splits a line at spaces outside of quotes and braces.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut inside) = (Vec::new(), String::new(), false);
    for character in line.chars() {
        match character {
            '"' => inside = !inside,
            '{' => inside = true,
            '}' => inside = false,
            _ => {}
        }
        if character == ' ' && !inside {
            words.push(std::mem::take(&mut word));
        } else {
            word.push(character);
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// The lines of an event or a call, and their metadata.
type Group = Vec<(String, Vec<String>)>;

/// Returns the lines of each event, in the order of their first lines' texts.
fn groups(log: &[String]) -> Vec<Group> {
    let lines: Vec<Line> = log.iter().map(|line| Line::parse(line)).collect();
    let mut first = HashMap::new();
    for line in &lines {
        first
            .entry(line.object.as_str())
            .or_insert_with(|| line.head.join(" "));
    }
    let named = |object: &str| first.get(object).cloned().unwrap_or_default();
    let mut groups: HashMap<&str, Group> = HashMap::new();
    for line in &lines {
        let mut text = line.head.join(" ");
        if let Some(parent) = &line.parent {
            text += &format!(" below [{}]", named(parent));
        }
        if let Some((from, to)) = &line.edge {
            text += &format!(" from [{}] to [{}]", named(from), named(to));
        }
        let group = groups.entry(&line.object).or_default();
        group.push((text, line.metadata.clone()));
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort();
    groups
}

fn heads(groups: &[Group]) -> Vec<Vec<&str>> {
    groups
        .iter()
        .map(|group| group.iter().map(|(head, _)| head.as_str()).collect())
        .collect()
}

/// Checks that the events of `log` are those of `expected`. Events may have more metadata than expected.
pub(crate) fn compare(log: &[String], expected: &str) {
    let expected: Vec<String> = expected.lines().map(str::to_owned).collect();
    let (found, wanted) = (groups(log), groups(&expected));
    assert_eq!(heads(&found), heads(&wanted));
    for (found, wanted) in found.iter().flatten().zip(wanted.iter().flatten()) {
        for entry in &wanted.1 {
            assert!(
                found.1.contains(entry),
                "{}: {entry} in {:?}",
                found.0,
                found.1
            );
        }
    }
}
