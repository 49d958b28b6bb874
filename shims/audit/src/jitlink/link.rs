//! One link: its options, inputs and result.

use std::ffi::{CStr, CString, c_int};

use margay_frontend::container::{
    ImageKind, calls_device_runtime, detect, has_link_time_code, join, select_ptx,
};
use margay_frontend::diagnostic::Style;
use margay_frontend::{SourceFile, parse, resolve};

use super::{Output, Theirs, code, kept};

/// Values of `NVJITLINK_INPUT_*`.
mod input {
    use std::ffi::c_int;

    pub(super) const CUBIN: c_int = 1;
    pub(super) const PTX: c_int = 2;
    pub(super) const LTOIR: c_int = 3;
    pub(super) const FATBIN: c_int = 4;
    pub(super) const OBJECT: c_int = 5;
    pub(super) const LIBRARY: c_int = 6;
    pub(super) const INDEX: c_int = 7;
    pub(super) const ANY: c_int = 10;
}

/// The target architecture (86 means `sm_86`) of a link whose options name no architecture.
const DEFAULT_SM: u32 = 86;
/// The first bytes of LTO-IR, the code for link-time optimisation: NVIDIA's container, or LLVM bitcode.
const LTO_STARTS: [&[u8]; 2] = [b"\xed\x43\x4e\x7f", b"BC\xc0\xde"];
/// The maximum number of errors in a PTX text that are written to the error log.
const ERRORS_SHOWN: usize = 20;

fn is_lto(bytes: &[u8]) -> bool {
    LTO_STARTS.iter().any(|start| bytes.starts_with(start))
}

/// A link: its options, its inputs and its result.
pub(crate) struct Link {
    sm: u32,
    lto: bool,
    theirs: Option<Theirs>,
    texts: Vec<Vec<u8>>,
    /// The PTX of the library `libcudadevrt`, if it is an input. It is linked only if other inputs
    /// call its functions.
    device_runtime: Option<String>,
    /// The number of inputs that are LTO-IR.
    lto_inputs: usize,
    log: String,
    result: Option<Vec<u8>>,
}

impl Link {
    /// Creates a link with the options that a client passed to `nvJitLinkCreate`.
    pub(super) fn new(options: &[CString]) -> Link {
        let options = options.iter().filter_map(|option| option.to_str().ok());
        let mut link = Link {
            sm: DEFAULT_SM,
            lto: false,
            theirs: None,
            texts: Vec::new(),
            device_runtime: None,
            lto_inputs: 0,
            log: String::new(),
            result: None,
        };
        for option in options {
            if let Some(arch) = option.strip_prefix("-arch=") {
                let digits: String = arch.chars().filter(char::is_ascii_digit).collect();
                link.sm = digits.parse().unwrap_or(DEFAULT_SM);
            }
            link.lto |= matches!(option, "-lto" | "-dlto");
        }
        link
    }

    /// Stores the handle of NVIDIA's linker in the link.
    pub(super) fn over(self, theirs: Theirs) -> Link {
        Link {
            theirs: Some(theirs),
            ..self
        }
    }

    /// Returns whether the options request link-time optimisation, so that inputs may be LTO-IR.
    pub(super) fn wants_lto(&self) -> bool {
        self.lto
    }

    /// Appends the line `text` to this link's error log.
    pub(super) fn complain(&mut self, text: &str) {
        self.log.push_str(text);
        self.log.push('\n');
    }

    /// Adds an input to the link. The kind and the content of the input determine what the link
    /// does with it. Returns a result code.
    pub(super) fn add(&mut self, kind: c_int, bytes: &[u8], name: &CStr) -> c_int {
        if self.result.is_some() {
            self.complain("the link is complete; it takes no more inputs");
            return code::INVALID_INPUT;
        }
        match kind {
            input::FATBIN | input::OBJECT | input::LIBRARY | input::ANY
                if self.lto && has_link_time_code(bytes) =>
            {
                self.add_theirs(kind, bytes, name)
            }
            input::LTOIR if detect(bytes) == Some(ImageKind::Text) && !is_lto(bytes) => {
                self.add_ptx(bytes, name)
            }
            input::LTOIR => self.add_lto(bytes, name),
            input::ANY if is_lto(bytes) => self.add_lto(bytes, name),
            input::PTX if detect(bytes) != Some(ImageKind::Text) => {
                self.complain(&format!("{}: this is not PTX text", name.to_string_lossy()));
                code::PTX_COMPILE
            }
            input::CUBIN | input::PTX | input::FATBIN | input::OBJECT | input::LIBRARY => {
                self.add_ptx(bytes, name)
            }
            input::ANY => self.add_ptx(bytes, name),
            input::INDEX => {
                self.complain(
                    "an index file refers to link-time code, which cannot be linked here",
                );
                code::INCORRECT_INPUT_TYPE
            }
            _ => code::INVALID_INPUT,
        }
    }

    fn add_lto(&mut self, bytes: &[u8], name: &CStr) -> c_int {
        if !self.lto {
            self.complain("link-time code (LTO-IR) needs the option -lto");
            return code::INCOMPATIBLE_OPTIONS;
        }
        self.add_theirs(input::LTOIR, bytes, name)
    }

    /// Adds an input with LTO-IR to the link of NVIDIA's linker.
    fn add_theirs(&mut self, kind: c_int, bytes: &[u8], name: &CStr) -> c_int {
        let Some(theirs) = self.theirs else {
            return code::INTERNAL;
        };
        self.lto_inputs += 1;
        theirs.add(kind, bytes, name)
    }

    fn add_ptx(&mut self, bytes: &[u8], name: &CStr) -> c_int {
        let name = name.to_string_lossy();
        let selection = match select_ptx(&[bytes], self.sm) {
            Ok(selection) => selection,
            Err(error) => {
                self.complain(&format!("{name}: {error}"));
                return code::INVALID_INPUT;
            }
        };
        if let Some(Ok(text)) = selection.device_runtime.map(|entry| entry.text()) {
            self.device_runtime = Some(text.text);
        }
        for text in selection.texts {
            if let Err(problems) = check(&name, &text.text) {
                self.complain(&problems);
                return code::PTX_COMPILE;
            }
            self.texts.push(text.text.into_bytes());
        }
        code::SUCCESS
    }

    /// Links all inputs. In the linked PTX, the code of the LTO-IR inputs precedes the code of the
    /// PTX inputs. A second call fails and does not change the result, as in NVIDIA's linker.
    pub(super) fn complete(&mut self) -> c_int {
        if self.result.is_some() {
            self.complain("the link is already complete");
            return code::INTERNAL;
        }
        if self.lto_inputs == 0 && self.texts.is_empty() {
            if !self.log.is_empty() {
                // All inputs were rejected.
                return code::INVALID_INPUT;
            }
            // Without inputs, NVIDIA's linker produces an image without code.
            let empty = format!(".version 7.0\n.target sm_{}\n.address_size 64\n", self.sm);
            self.texts.push(empty.into_bytes());
        }
        let mut texts = Vec::new();
        if self.lto_inputs > 0 {
            match self.link_time_code() {
                Ok(ptx) => texts.push(ptx),
                Err(code) => return code,
            }
        }
        texts.append(&mut self.texts);
        if texts.iter().any(|text| calls_device_runtime(text)) {
            let text = self.device_runtime.take();
            texts.extend(text.map(String::into_bytes));
        }
        self.result = Some(join(&texts));
        code::SUCCESS
    }

    /// Returns the PTX to which NVIDIA's linker translates all inputs that are LTO-IR. It contains the functions that the
    /// PTX inputs call.
    fn link_time_code(&mut self) -> Result<Vec<u8>, c_int> {
        let theirs = self.theirs.ok_or(code::INTERNAL)?;
        let mut called = kept::undefined(&self.texts);
        if !called.is_empty() {
            match kept::references(&called, self.sm, theirs.major_version()) {
                Ok(code) => match theirs.add(input::LTOIR, &code, c"references") {
                    code::SUCCESS => {}
                    code => return Err(code),
                },
                Err(reason) => {
                    let names = called.join(", ");
                    self.complain(&format!(
                        "PTX cannot call functions in link-time code (LTO-IR) here ({names}): {reason}"
                    ));
                    called.clear();
                }
            }
        }
        match theirs.complete() {
            code::SUCCESS => {}
            code => return Err(code),
        }
        let mut ptx = theirs.output(Output::Ptx)?;
        ptx.truncate(ptx.iter().position(|&byte| byte == 0).unwrap_or(ptx.len()));
        if called.is_empty() {
            return Ok(ptx);
        }
        Ok(kept::finish(&String::from_utf8_lossy(&ptx), &called).into_bytes())
    }

    /// Returns the output of the link that the client requests. A log that is not empty ends with a
    /// NUL.
    pub(super) fn output(&self, output: Output) -> Result<Vec<u8>, c_int> {
        match output {
            Output::Cubin | Output::Ptx => self.result.clone().ok_or(code::INVALID_INPUT),
            // Clients that request LTO-IR as output also get the linked PTX.
            Output::LtoIr if self.lto => self.result.clone().ok_or(code::INVALID_INPUT),
            Output::LtoIr => Err(code::INVALID_INPUT),
            Output::ErrorLog => Ok(self.with_their_log(output, &self.log)),
            Output::InfoLog => Ok(self.with_their_log(output, "")),
        }
    }

    fn with_their_log(&self, output: Output, ours: &str) -> Vec<u8> {
        let mut log = ours.as_bytes().to_vec();
        if let Some(Ok(theirs)) = self.theirs.map(|theirs| theirs.output(output)) {
            log.extend(theirs.into_iter().take_while(|&byte| byte != 0));
        }
        if !log.is_empty() {
            log.push(0);
        }
        log
    }

    /// Destroys the link and its handle of NVIDIA's linker.
    pub(super) fn end(self) {
        if let Some(theirs) = self.theirs {
            theirs.destroy();
        }
    }
}

/// Returns an error if the PTX text `text` is invalid. The error contains the messages that Margay
/// would report if it loaded the text.
fn check(name: &str, text: &str) -> Result<(), String> {
    let parsed = parse(SourceFile::new(name, text));
    let resolution = resolve::resolve(&parsed);
    let problems = parsed.diagnostics.iter().chain(&resolution.diagnostics);
    let errors: Vec<String> = problems
        .filter(|problem| problem.is_error())
        .take(ERRORS_SHOWN)
        .map(|problem| problem.render(&parsed.source, Style::Plain))
        .collect();
    match errors.is_empty() {
        true => Ok(()),
        false => Err(errors.join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &[u8] =
        b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n\0";
    const SECOND: &[u8] =
        b".version 8.0\n.target sm_80\n.address_size 64\n.visible .func f() { ret; }\n";

    fn link() -> Link {
        Link::new(&[CString::from(c"-arch=sm_80")])
    }

    #[test]
    fn inputs_become_one_image_that_comes_apart_again() {
        let mut link = link();
        assert_eq!(link.add(input::PTX, FIRST, c"a"), code::SUCCESS);
        assert_eq!(link.add(input::CUBIN, SECOND, c"b"), code::SUCCESS);
        assert!(link.output(Output::Cubin).is_err());
        assert_eq!(link.complete(), code::SUCCESS);
        let image = link.output(Output::Cubin).unwrap();
        let selection = select_ptx(&[&image], 80).unwrap();
        assert_eq!(selection.texts.len(), 2);
        assert!(selection.texts[1].text.contains(".func f"));
        assert_eq!(link.add(input::PTX, FIRST, c"late"), code::INVALID_INPUT);
        assert_eq!(link.complete(), code::INTERNAL);
        assert_eq!(link.output(Output::Cubin).as_deref(), Ok(&image[..]));
    }

    #[test]
    fn errors_tell_their_line() {
        let mut link = link();
        let text = b".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { sub.u32 a, b; }";
        assert_eq!(link.add(input::PTX, text, c"bad.ptx"), code::PTX_COMPILE);
        let log = String::from_utf8(link.output(Output::ErrorLog).unwrap()).unwrap();
        assert!(log.contains("bad.ptx:4"), "{log}");
        assert!(log.ends_with('\0'));
    }

    #[test]
    fn what_cannot_be_linked_is_told() {
        assert_eq!(
            link().add(input::LTOIR, LTO_STARTS[0], c"l"),
            code::INCOMPATIBLE_OPTIONS
        );
        assert_eq!(
            link().add(input::ANY, LTO_STARTS[0], c"l"),
            code::INCOMPATIBLE_OPTIONS
        );
        assert_eq!(
            link().add(input::CUBIN, b"\x01\x02", c"c"),
            code::INVALID_INPUT
        );
        assert_eq!(link().add(77, FIRST, c"x"), code::INVALID_INPUT);
        let mut refused = link();
        refused.add(input::PTX, b"no PTX at all\0", c"a.ptx");
        assert_eq!(refused.complete(), code::INVALID_INPUT);
        // A link without inputs gives an image without code.
        let mut empty = link();
        assert_eq!(empty.complete(), 0);
        let image = empty.output(Output::Cubin).expect("an image");
        assert!(image.starts_with(b".version 7.0"));
    }
}
