//! Captures the host program's call stack when the program calls the API. Checking runs print the
//! stack in their reports.
//!
//! [`CallStack::capture`] only stores return addresses, so a checking run can capture a stack at
//! each call. When a finding is reported, the module `resolve` finds the functions and source lines
//! of these addresses in the symbols and the DWARF data of the program and its libraries. If the
//! calling thread runs Python code, the module `python` stores the Python frames during the call.
//! If the thread has released the interpreter's lock, the module `released` reads the Python
//! frames.
//!
//! Invariant: the search for functions and source lines calls no function of the program or of the
//! dynamic loader, and takes no lock that the program can hold. Runs without checks capture no
//! stacks.

mod python;
mod released;
mod resolve;
mod unwind;

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

/// A stack frame of the host program.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct HostFrame {
    /// The function's demangled name, or the name of its library and an offset.
    pub function: String,
    /// The source file.
    pub file: Option<String>,
    /// The line in the source file, counted from 1.
    pub line: Option<u32>,
    /// The path of the executable or library that contains the call.
    pub module: Option<String>,
    /// An address inside the call instruction: a virtual address as the segments of `module` define
    /// it.
    pub offset: Option<u64>,
}

/// Substrings of the paths of source files that do not belong to the program itself: CUDA's headers, code that CUDA's
/// compiler generates, and libraries of C++ and Rust.
const FOREIGN_FILES: [&str; 10] = [
    ".cudafe1.",
    "/cuda_runtime.h",
    "/cuda_runtime_api.h",
    "/host_runtime.h",
    "/crt/",
    "/thrust/",
    "/cub/",
    "/include/c++/",
    "/rustc/",
    "/.cargo/registry/",
];

/// Prefixes of the file names of CUDA's libraries that call the driver on behalf of the program.
const LIBRARIES: [&str; 17] = [
    "libcublas",
    "libcudnn",
    "libcudss",
    "libcufft",
    "libcufile",
    "libcupti",
    "libcurand",
    "libcusolver",
    "libcusparse",
    "libcutensor",
    "libnccl",
    "libnpp",
    "libnvJitLink",
    "libnvjpeg",
    "libnvrtc",
    "libnvshmem",
    "libnvvm",
];

impl HostFrame {
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "function": self.function,
            "file": self.file,
            "line": self.line,
            "module": self.module,
            "offset": self.offset,
        })
    }

    /// Returns whether the frame's source line is known and belongs to a file of the program itself.
    fn is_of_program(&self) -> bool {
        self.line.is_some()
            && self
                .file
                .as_ref()
                .is_some_and(|file| !FOREIGN_FILES.iter().any(|part| file.contains(part)))
    }

    /// Returns whether the function is a stub that the compiler generated for the launch of a
    /// kernel. The caller of the stub is also generated: it is a host function with the kernel's
    /// name and source line.
    fn is_stub(&self) -> bool {
        let file = self.file.as_ref();
        self.function.starts_with("__device_stub__")
            || file.is_some_and(|file| file.contains(".cudafe1."))
    }

    /// Returns whether the function is Python code from a `.py` file.
    fn is_python(&self) -> bool {
        let file = self.file.as_ref();
        self.line.is_some() && file.is_some_and(|file| file.ends_with(".py"))
    }

    /// Returns whether the function belongs to an installed Python package, or to Python itself.
    fn is_of_package(&self) -> bool {
        const FOLDERS: [&str; 3] = ["/site-packages/", "/dist-packages/", "/lib/python"];
        let file = self.file.as_ref();
        file.is_some_and(|file| FOLDERS.iter().any(|folder| file.contains(folder)))
    }

    /// Returns whether the function's name has a prefix that functions of CUDA's libraries have.
    fn is_of_cuda(&self) -> bool {
        ["cuda", "__cuda", "cu", "libcudart"]
            .iter()
            .any(|prefix| self.function.starts_with(prefix))
    }

    /// Describes the source position: `at main.cu:31`, or `in main` if the line is not known.
    fn place(&self) -> String {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => {
                let name = file.rsplit('/').next().unwrap_or(file);
                format!("at {name}:{line}")
            }
            _ => format!("in {}", self.function),
        }
    }
}

/// Describes where the program made a call: `at main.cu:31`, or `in main` if the line is not known.
/// The function [`frame_of_program`] selects the frame whose position is described. Returns `None`
/// if there are no frames.
pub(crate) fn site_of(frames: &[HostFrame]) -> Option<String> {
    frame_of_program(frames).map(HostFrame::place)
}

/// Returns the innermost frame of the program's own code; frames of Python code take precedence. If the program has no
/// frame, returns another frame, preferably one whose line is known. Returns `None` if `frames` is empty.
pub fn frame_of_program(frames: &[HostFrame]) -> Option<&HostFrame> {
    // The host code that the compiler generates for a launch has two frames: the stub and its caller.
    let stub = frames.iter().rposition(HostFrame::is_stub);
    let first = stub
        .map_or(0, |at| at + 2)
        .min(frames.len().saturating_sub(1));
    let frames = &frames[first..];
    let python = || frames.iter().filter(|frame| frame.is_python());
    let python = python()
        .find(|frame| !frame.is_of_package())
        .or_else(|| python().next());
    let with_line = || frames.iter().find(|frame| frame.line.is_some());
    let named = || frames.iter().find(|frame| !frame.is_of_cuda());
    let own = || frames.iter().find(|frame| frame.is_of_program());
    let found = python.or_else(own).or_else(with_line).or_else(named);
    found.or(frames.first())
}

/// Removes the outermost frame of this crate and all frames inside it. The stacks of a Rust program that embeds this
/// crate contain frames of this crate.
fn without_own(mut frames: Vec<HostFrame>) -> Vec<HostFrame> {
    const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/");
    let is_own = |frame: &HostFrame| {
        let file = frame.file.as_ref();
        file.is_some_and(|file| file.starts_with(SOURCES))
    };
    if let Some(last) = frames.iter().rposition(is_own)
        && last + 1 < frames.len()
    {
        frames.drain(..=last);
    }
    frames
}

struct Captured {
    /// An address inside the call instruction of each frame, innermost first. If this library is a separate file, its
    /// frames are omitted.
    addresses: Vec<usize>,
    /// The frames of Python code, innermost first.
    python: Vec<HostFrame>,
    frames: OnceLock<Vec<HostFrame>>,
}

/// The host program's stack at a call of the API. Clones refer to the same stack.
///
/// ```
/// use margay::checks::CallStack;
///
/// let stack = CallStack::capture();
/// assert!(stack.frames().iter().any(|frame| frame.function.contains("main")));
/// ```
#[derive(Clone)]
pub struct CallStack(Arc<Captured>);

impl CallStack {
    /// Captures the stack of the calling thread. [`CallStack::frames`] omits the frames of this library.
    pub fn capture() -> CallStack {
        CallStack(Arc::new(Captured {
            addresses: unwind::return_addresses(),
            python: python::frames(),
            frames: OnceLock::new(),
        }))
    }

    /// Returns the frames from the function that called the API to `main`. The first call finds the
    /// functions and source lines of the frames, which can take seconds.
    pub fn frames(&self) -> &[HostFrame] {
        let captured = &*self.0;
        captured
            .frames
            .get_or_init(|| without_own(resolve::frames(&captured.addresses, &captured.python)))
    }

    /// Returns whether one of CUDA's libraries, for example cuBLAS, made the call on behalf of the
    /// program. The function does not regard CUDA's runtime as such a library, because the
    /// runtime's functions only forward the calls of the program.
    pub fn is_of_library(&self) -> bool {
        let mappings = resolve::recent_mappings();
        let file = |&address: &usize| {
            let mapping = mappings.iter().find(|mapping| mapping.holds(address));
            mapping.map(|mapping| mapping.file.rsplit('/').next().unwrap_or_default())
        };
        let mut files = self.addresses().iter().filter_map(file);
        files
            .find(|file| !file.starts_with("libcudart"))
            .is_some_and(|file| LIBRARIES.iter().any(|name| file.starts_with(name)))
    }

    /// Returns whether NVIDIA's runtime library made the call.
    pub fn is_of_runtime(&self) -> bool {
        let caller = self.frames().first();
        caller.is_some_and(|frame| frame.function.starts_with("libcudart"))
    }

    /// Describes where the program made the call: `at main.cu:31`, or `in main` if the line is not known. Returns
    /// `None` if there are no frames.
    pub fn site(&self) -> Option<String> {
        site_of(self.frames())
    }

    /// Returns an address inside the call instruction of each frame, innermost first. These
    /// addresses identify where the API was called.
    pub(crate) fn addresses(&self) -> &[usize] {
        &self.0.addresses
    }
}

impl fmt::Debug for CallStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0.addresses).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: Option<&str>, line: Option<u32>) -> HostFrame {
        HostFrame {
            function: function.to_owned(),
            file: file.map(str::to_owned),
            line,
            ..HostFrame::default()
        }
    }

    #[test]
    fn the_place_of_a_call_is_in_the_program() {
        let header = Some("/usr/local/cuda/include/cuda_runtime.h");
        let inner = frame("cudaMalloc", None, None);
        let wrapper = frame("cudaError cudaMalloc<float>(float**)", header, Some(716));
        let own = frame("run(int)", Some("/src/main.cu"), Some(31));
        let main = frame("main", Some("/src/main.cu"), Some(60));
        let unknown = frame("main", None, None);
        let site = |frames: &[&HostFrame]| {
            site_of(&frames.iter().copied().cloned().collect::<Vec<_>>()).unwrap_or_default()
        };
        assert_eq!(site(&[&inner, &wrapper, &own, &main]), "at main.cu:31");
        assert_eq!(site(&[&inner, &wrapper]), "at cuda_runtime.h:716");
        assert_eq!(site(&[&inner, &unknown]), "in main");
        assert_eq!(site(&[&inner]), "in cudaMalloc");
        assert_eq!(site(&[]), "");
        let stub = frame(
            "__device_stub__Z1kPi(int*)",
            Some("/tmp/x.cudafe1.stub.c"),
            Some(14),
        );
        let kernel = frame("k(int*)", Some("/src/main.cu"), Some(3));
        assert_eq!(
            site(&[&wrapper, &stub, &kernel, &own, &main]),
            "at main.cu:31"
        );
        let script = frame("train", Some("/src/train.py"), Some(8));
        let interpreter = frame("call", Some("/build/callproc.c"), Some(923));
        assert_eq!(site(&[&interpreter, &script]), "at train.py:8");
        let package = frame(
            "alloc",
            Some("/venv/lib/python3/site-packages/x.py"),
            Some(2),
        );
        assert_eq!(site(&[&interpreter, &package, &script]), "at train.py:8");
        assert_eq!(site(&[&interpreter, &package]), "at x.py:2");
    }
}
