//! Suppressions: descriptions of findings that reports leave out and that do not affect the exit
//! code. `--xml --save` writes them, `--suppressions` reads them.
//!
//! A description applies to a finding if every part of the description agrees with the finding. A number in the
//! description must be equal to the finding's number. A text in the description must be equal to the finding's text, or
//! be a regular expression that matches the whole of this text. A part that the description omits can have any value. A
//! description lists the frames of the host from the outermost function inwards, and may omit the innermost functions.

use std::path::Path;

use margay::checks::Tool;
use margay_cli::input;
use regex_lite::Regex;

use super::options::Demangle;
use super::record::{Coordinates, HostFrame, Record};
use super::words::kernel_name;
use super::xml::{self, Element};

/// The XML elements, inside the element `what`, that describe a failed call.
const CALL: [&str; 4] = ["api", "error", "message", "result"];

/// A list of descriptions of findings that reports leave out.
#[derive(Debug, Default)]
pub(crate) struct Suppressions(Vec<Rule>);

/// A text that a description contains: a literal text or a regular expression.
#[derive(Debug)]
struct Pattern {
    text: String,
    regex: Option<Regex>,
}

impl Pattern {
    fn new(text: &str) -> Pattern {
        Pattern {
            text: text.to_owned(),
            regex: Regex::new(&format!("^(?:{text})$")).ok(),
        }
    }

    fn agrees(&self, text: &str) -> bool {
        self.text == text
            || self
                .regex
                .as_ref()
                .is_some_and(|regex| regex.is_match(text))
    }
}

/// The description of a stack frame: for each XML element that the description contains, its name
/// and its text.
type FrameRule = Vec<(&'static str, Pattern)>;

/// A description of findings that reports leave out, as a file of suppressions contains it.
#[derive(Debug, Default)]
struct Rule {
    kind: String,
    texts: Vec<(&'static str, Pattern)>,
    size: Option<u64>,
    thread: Option<Coordinates>,
    block: Option<Coordinates>,
    device: Vec<FrameRule>,
    host: Vec<FrameRule>,
}

impl Suppressions {
    /// Reads a file of suppressions and adds its descriptions to the list.
    ///
    /// # Errors
    /// If the file cannot be read or parsed, the error is a text that names the file and the
    /// problem.
    pub(crate) fn read(&mut self, path: &Path) -> Result<(), String> {
        let text = input::read_text(path).map_err(|e| e.to_string());
        let added = text.and_then(|text| self.add(&text));
        added.map_err(|error| format!("{}: {error}", path.display()))
    }

    fn add(&mut self, text: &str) -> Result<(), String> {
        let root = xml::parse(text)?;
        if root.name != "ComputeSanitizerOutput" {
            return Err(format!(
                "the root is <{}> and not <ComputeSanitizerOutput>",
                root.name
            ));
        }
        for record in root.children.iter().filter(|child| child.name == "record") {
            self.0.push(Rule::new(record)?);
        }
        Ok(())
    }

    /// Returns whether at least one description in the list applies to the finding.
    pub(crate) fn describe(&self, record: &Record) -> bool {
        self.0.iter().any(|rule| rule.describes(record))
    }
}

impl Rule {
    fn new(record: &Element) -> Result<Rule, String> {
        let kind = record.text_of("kind").filter(|kind| !kind.is_empty());
        let mut rule = Rule {
            kind: plain(kind.ok_or("a <record> has no <kind>")?),
            device: frames(record.child("deviceStack"), &["func", "file", "line"]),
            host: frames(
                record.child("hostStack"),
                &["func", "module", "file", "line"],
            ),
            ..Rule::default()
        };
        if let Some(what) = record.child("what") {
            let names = ["text"].into_iter().chain(CALL);
            rule.texts = patterns(what, names);
            rule.size = number(what, "size")?;
        }
        if let Some(who) = record.child("who") {
            rule.thread = coordinates(who, "threadId")?;
            rule.block = coordinates(who, "blockId")?;
        }
        Ok(rule)
    }

    fn describes(&self, record: &Record) -> bool {
        let call = Call::of(&record.message);
        let text_of = |name: &str| match name {
            "text" => Some(record.message.as_str()),
            name => call.as_ref()?.part(name),
        };
        let mut texts = self.texts.iter();
        kind_names(record)
            .iter()
            .any(|name| plain(name) == self.kind)
            && texts.all(|(name, pattern)| text_of(name).is_some_and(|text| pattern.agrees(text)))
            && self.size.is_none_or(|size| record.size == Some(size))
            && self
                .thread
                .is_none_or(|thread| record.thread == Some(thread))
            && self.block.is_none_or(|block| record.block == Some(block))
            && self.agrees_with_device(record)
            && self.agrees_with_host(record)
    }

    fn agrees_with_device(&self, record: &Record) -> bool {
        let names = kernel_names(record);
        let stack = record.spot.stack();
        let mut rules = self.device.iter().enumerate();
        rules.all(|(index, rule)| {
            let place = stack.get(index);
            rule.iter().all(|(name, pattern)| match *name {
                "func" => names.iter().any(|name| pattern.agrees(name)),
                "file" => place.is_some_and(|(file, _)| pattern.agrees(file)),
                _ => place.is_some_and(|(_, line)| pattern.agrees(&line.to_string())),
            })
        })
    }

    fn agrees_with_host(&self, record: &Record) -> bool {
        let frames: Vec<&HostFrame> = record.host.iter().rev().collect();
        let mut rules = self.host.iter().enumerate();
        rules.all(|(index, rule)| {
            let Some(frame) = frames.get(index) else {
                return false;
            };
            let line = frame.line.map(|line| line.to_string());
            let file = frame.file.as_deref().unwrap_or("");
            rule.iter().all(|(name, pattern)| match *name {
                "func" => pattern.agrees(&frame.function),
                "module" => pattern.agrees(frame.module.as_deref().unwrap_or("")),
                "file" => pattern.agrees(file),
                _ => pattern.agrees(line.as_deref().unwrap_or("")),
            })
        })
    }
}

/// The parts of a message about a failed call, in the order of [`CALL`].
struct Call<'a>([&'a str; 4]);

impl<'a> Call<'a> {
    /// Parses `Program hit ERROR (error RESULT) due to "MESSAGE" on CUDA API call to API.`
    fn of(message: &'a str) -> Option<Call<'a>> {
        let rest = message.strip_prefix("Program hit ")?;
        let (error, rest) = rest.split_once(" (error ")?;
        let (result, rest) = rest.split_once(") due to \"")?;
        let (text, api) = rest.split_once("\" on CUDA API call to ")?;
        Some(Call([api.trim_end_matches('.'), error, text, result]))
    }

    fn part(&self, name: &str) -> Option<&'a str> {
        let index = CALL.iter().position(|part| *part == name)?;
        Some(self.0[index])
    }
}

/// Returns the letters and digits of a kind in lower case; comparisons of kinds ignore case and other characters.
fn plain(kind: &str) -> String {
    let letters = kind.chars().filter(|c| c.is_ascii_alphanumeric());
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// Returns the texts that the element `kind` of a description may contain for this finding.
/// [`to_xml`] writes the last of these texts to suppression files.
fn kind_names(record: &Record) -> Vec<String> {
    let short = record.tool.strip_suffix("check").unwrap_or(&record.tool);
    let mut names = vec![short.to_owned(), record.tool.clone(), record.kind.clone()];
    for (tool, written) in [
        (Tool::Api, "Api"),
        (Tool::Initialisation, "Initcheck"),
        (Tool::Race, "Racecheck"),
    ] {
        if record.is_of(tool) {
            names.push(written.to_owned());
        }
    }
    names
}

/// Returns three names of the finding's kernel: mangled, demangled with parameters, and demangled
/// without parameters. If the finding has no kernel, the list is empty.
fn kernel_names(record: &Record) -> Vec<String> {
    let Some(kernel) = &record.kernel else {
        return Vec::new();
    };
    let readable = |form| kernel_name(kernel, form);
    vec![
        kernel.clone(),
        readable(Demangle::Full),
        readable(Demangle::Simple),
    ]
}

fn patterns(
    element: &Element,
    names: impl IntoIterator<Item = &'static str>,
) -> Vec<(&'static str, Pattern)> {
    let pattern = |name| Some((name, Pattern::new(element.text_of(name)?)));
    names.into_iter().filter_map(pattern).collect()
}

fn frames(stack: Option<&Element>, names: &[&'static str]) -> Vec<FrameRule> {
    let frames = stack.into_iter().flat_map(|stack| &stack.children);
    let frames = frames.filter(|child| child.name == "frame");
    frames
        .map(|frame| patterns(frame, names.iter().copied()))
        .collect()
}

fn number(element: &Element, name: &str) -> Result<Option<u64>, String> {
    let text = element.text_of(name).filter(|text| !text.is_empty());
    let number = text.map(str::parse).transpose();
    number.map_err(|_| format!("<{name}> is not a number"))
}

fn coordinates(element: &Element, name: &str) -> Result<Option<Coordinates>, String> {
    let Some(found) = element.child(name) else {
        return Ok(None);
    };
    let mut out = [0; 3];
    for (part, value) in ["x", "y", "z"].into_iter().zip(&mut out) {
        *value = number(found, part)?.ok_or_else(|| format!("<{name}> has no <{part}>"))?;
    }
    Ok(Some(out))
}

/// Returns a pattern that matches a message in every run of the program. If the message contains
/// addresses, the pattern is a regular expression that matches any address at these positions.
fn without_addresses(message: &str) -> String {
    let mut parts = message.split("0x");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for (index, part) in parts.enumerate() {
        if index == 0 {
            out = regex_lite::escape(&out);
        }
        let rest = part.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        out.push_str("0x[0-9a-f]+");
        out.push_str(&regex_lite::escape(rest));
    }
    out
}

/// Returns the text of a suppression file that describes the findings. The file contains no threads and addresses,
/// because they depend on the run.
pub(crate) fn to_xml(records: &[Record]) -> String {
    let mut out = Writer(String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n"));
    out.group(0, "ComputeSanitizerOutput", |out| {
        records.iter().for_each(|record| write_record(out, record));
    });
    out.0
}

fn write_record(out: &mut Writer, record: &Record) {
    out.group(1, "record", |out| {
        let kind = kind_names(record).pop().unwrap_or_default();
        out.text(2, "kind", &kind);
        out.text(2, "level", record.severity.name());
        out.group(2, "what", |out| {
            out.text(3, "text", &without_addresses(&record.message));
            let call = Call::of(&record.message);
            for (name, part) in call.iter().flat_map(|call| CALL.into_iter().zip(call.0)) {
                out.text(3, name, part);
            }
            if let Some(size) = record.size {
                out.text(3, "size", &size.to_string());
            }
        });
        if let Some(kernel) = &record.kernel {
            out.group(2, "deviceStack", |out| write_device(out, kernel, record));
        }
        if !record.host.is_empty() {
            out.group(2, "hostStack", |out| {
                for frame in record.host.iter().rev() {
                    out.group(3, "frame", |out| {
                        out.text(4, "func", &frame.function);
                        out.optional("module", frame.module.as_deref());
                        out.optional("file", frame.file.as_deref());
                    });
                }
            });
        }
    });
}

fn write_device(out: &mut Writer, kernel: &str, record: &Record) {
    let stack = record.spot.stack();
    let places = stack.iter().map(|(file, line)| Some((*file, *line)));
    let none = stack.is_empty().then_some(None);
    for place in places.chain(none) {
        out.group(3, "frame", |out| {
            out.text(4, "func", kernel);
            if let Some((file, line)) = place {
                out.optional("file", Some(file));
                out.text(4, "line", &line.to_string());
            }
        });
    }
}

struct Writer(String);

impl Writer {
    fn text(&mut self, depth: usize, name: &str, text: &str) {
        let indent = "  ".repeat(depth);
        let text = xml::escape(text);
        self.0
            .push_str(&format!("{indent}<{name}>{text}</{name}>\n"));
    }

    fn optional(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(4, name, text);
        }
    }

    fn group(&mut self, depth: usize, name: &str, content: impl FnOnce(&mut Writer)) {
        let indent = "  ".repeat(depth);
        self.0.push_str(&format!("{indent}<{name}>\n"));
        content(self);
        self.0.push_str(&format!("{indent}</{name}>\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::{ACCESS, LEAK, RACE, records};
    use super::*;

    const CALL_FINDING: &str = r#"{"tool":"apicheck","kind":"failed-call","severity":"error","message":"Program hit cudaErrorMemoryAllocation (error 2) due to \"out of memory\" on CUDA API call to cudaMalloc.","count":1,"host":[{"function":"allocate(int)"},{"function":"main","module":"/bin/x"}],"id":0,"pid":1}"#;

    fn suppressions(records: &str) -> Suppressions {
        let mut suppressions = Suppressions::default();
        let text = format!("<ComputeSanitizerOutput>{records}</ComputeSanitizerOutput>");
        suppressions.add(&text).expect("suppressions");
        suppressions
    }

    fn describes(rule: &str, finding: &str) -> bool {
        let rule = format!("<record>{rule}</record>");
        suppressions(&rule).describe(&records(&[finding])[0])
    }

    #[test]
    fn parts_of_calls_agree() {
        let all = "<kind>Api</kind><what><api>cudaMalloc</api><error>cudaErrorMemory.*</error>\
                   <message>out of memory</message><result>2</result></what>\
                   <hostStack><frame><func>main</func><module>.*</module></frame></hostStack>";
        assert!(describes(all, CALL_FINDING));
        for (part, other) in [
            ("cudaMalloc<", "cudaMall<"),
            (">2<", ">3<"),
            (">main<", ">mai<"),
            ("Api", "Memcheck"),
        ] {
            let wrong = all.replacen(part, other, 1);
            assert!(!describes(&wrong, CALL_FINDING), "{wrong}");
        }
        let two =
            "<kind>api</kind><hostStack><frame/><frame><func>allocate.*</func></frame></hostStack>";
        assert!(describes(two, CALL_FINDING));
        let three = two.replace("</hostStack>", "<frame><func>.*</func></frame></hostStack>");
        assert!(!describes(&three, CALL_FINDING));
    }

    #[test]
    fn accesses_agree_by_size_thread_and_place() {
        let all = "<kind>out-of-bounds</kind><what><size>4</size></what>\
                   <who><threadId><x>6</x><y>0</y><z>0</z></threadId></who>\
                   <deviceStack><frame><func>fill(int*)</func><file>.*fill.cu</file><line>7</line></frame></deviceStack>";
        assert!(describes(all, ACCESS));
        for (part, other) in [
            (">4<", ">8<"),
            ("<x>6", "<x>7"),
            ("fill(int*)", "fill(long*)"),
            ("fill.cu", "full.cu"),
            ("<line>7", "<line>8"),
        ] {
            let wrong = all.replacen(part, other, 1);
            assert!(!describes(&wrong, ACCESS), "{wrong}");
        }
        assert!(describes("<kind>Mem-Check</kind>", ACCESS));
        assert!(!describes("<kind>Racecheck</kind>", ACCESS));
        assert!(!describes(
            "<kind>Api</kind><what><api>.*</api></what>",
            ACCESS
        ));
    }

    #[test]
    fn what_is_saved_suppresses_the_same_findings() {
        let all = records(&[ACCESS, RACE, LEAK, CALL_FINDING]);
        let mut read = Suppressions::default();
        read.add(&to_xml(&all)).expect("suppressions");
        assert!(all.iter().all(|record| read.describe(record)));
        let elsewhere = &records(&[&ACCESS.replace("\"line\":7", "\"line\":8")])[0];
        assert!(!read.describe(elsewhere));
    }

    #[test]
    fn addresses_do_not_count() {
        assert_eq!(without_addresses("f(int*) [4]"), "f(int*) [4]");
        assert_eq!(
            without_addresses("Leaked (1) 8 bytes at 0x7fAb00, 0x10."),
            r"Leaked \(1\) 8 bytes at 0x[0-9a-f]+, 0x[0-9a-f]+\."
        );
        let mut read = Suppressions::default();
        read.add(&to_xml(&records(&[LEAK, ACCESS])))
            .expect("suppressions");
        let later = LEAK
            .replace("0x7000", "0x7f8000")
            .replace("28672", "8355840");
        let elsewhere = ACCESS.replace("[6,0,0]", "[9,0,0]").replace("4096", "8192");
        let later = records(&[&later, &elsewhere]);
        assert!(later.iter().all(|record| read.describe(record)));
    }

    #[test]
    fn a_record_has_this_form() {
        let expected = "\
<?xml version=\"1.0\" encoding=\"utf-8\"?>
<ComputeSanitizerOutput>
  <record>
    <kind>Api</kind>
    <level>error</level>
    <what>
      <text>Program hit cudaErrorMemoryAllocation (error 2) due to &quot;out of memory&quot; on CUDA API call to cudaMalloc.</text>
      <api>cudaMalloc</api>
      <error>cudaErrorMemoryAllocation</error>
      <message>out of memory</message>
      <result>2</result>
    </what>
    <hostStack>
      <frame>
        <func>main</func>
        <module>/bin/x</module>
      </frame>
      <frame>
        <func>allocate(int)</func>
      </frame>
    </hostStack>
  </record>
</ComputeSanitizerOutput>
";
        assert_eq!(to_xml(&records(&[CALL_FINDING])), expected);
    }

    #[test]
    fn wrong_files_are_errors() {
        let error = |text: &str| Suppressions::default().add(text).unwrap_err();
        assert_eq!(
            error("<a/>"),
            "the root is <a> and not <ComputeSanitizerOutput>"
        );
        let of = |record: &str| {
            error(&format!(
                "<ComputeSanitizerOutput><record>{record}</record></ComputeSanitizerOutput>"
            ))
        };
        assert_eq!(of("<what/>"), "a <record> has no <kind>");
        assert_eq!(
            of("<kind>Api</kind><what><size>x</size></what>"),
            "<size> is not a number"
        );
        assert_eq!(
            of("<kind>Api</kind><who><threadId><x>1</x></threadId></who>"),
            "<threadId> has no <y>"
        );
        let path = Path::new("/no/such/file.xml");
        let error = Suppressions::default().read(path).unwrap_err();
        assert!(error.starts_with("/no/such/file.xml: "), "{error}");
    }
}
