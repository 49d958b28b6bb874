//! The folder of results of a process.

use std::fs::{self, File};
use std::io::{self, LineWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use margay_probe::{
    Event, LocalTime, ProbeFile, ResultFile, Warps, kernel_folder, kernel_info, reader,
    result_file, trace_folder,
};
use parking_lot::Mutex;

use super::settings::{Callback, Settings};

/// The folder of results.
pub(super) struct Folder {
    path: PathBuf,
    log: Mutex<LineWriter<File>>,
    start: Instant,
    /// The number of kernels that have a folder.
    kernels: AtomicU64,
    /// The program that reads result files.
    callback: Option<PathBuf>,
}

impl Folder {
    /// Creates the folder with the files that no launch changes.
    pub(super) fn create(settings: &Settings, start: LocalTime) -> io::Result<Folder> {
        let process = std::process::id();
        let parent = std::path::absolute(&settings.parent)?;
        let path = parent.join(trace_folder(start, process));
        fs::create_dir_all(path.join("kernel"))?;
        fs::create_dir_all(path.join("result"))?;
        fs::write(path.join("probe.toml"), &settings.file.text)?;
        let warps = match settings.compat {
            true => Warps::RoundedDown,
            false => Warps::RoundedUp,
        };
        fs::write(path.join("read.py"), reader(&settings.file, warps))?;
        let callback = match &settings.callback {
            None => None,
            Some(Callback::File(file)) => Some(file.clone()),
            Some(Callback::Shipped(name, text)) => {
                let file = path.join(name);
                fs::write(&file, text)?;
                Some(file)
            }
        };
        let folder = Folder {
            log: Mutex::new(LineWriter::new(File::create(path.join("event.log"))?)),
            path,
            start: Instant::now(),
            kernels: AtomicU64::new(0),
            callback,
        };
        folder.log(&[
            Event::Process(process),
            Event::Command(&command_line()),
            Event::Ready,
        ]);
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn callback(&self) -> Option<&Path> {
        self.callback.as_deref()
    }

    /// Adds lines to the log, without lines of other threads between them. A log that cannot be written stays
    /// incomplete.
    pub(super) fn log(&self, events: &[Event<'_>]) {
        let mut log = self.log.lock();
        for event in events {
            let _ = writeln!(log, "{event}");
        }
    }

    /// Creates the folder of a kernel, with its texts and `kernel.info`. If another kernel has the same original text,
    /// `shared` is its file, and both folders refer to the same file. Returns the file with the original text.
    pub(super) fn add_kernel(
        &self,
        (name, parameters): (&str, usize),
        file: &ProbeFile,
        shared: Option<&Path>,
        texts: &[(&str, &str)],
    ) -> io::Result<PathBuf> {
        let number = self.kernels.fetch_add(1, Ordering::Relaxed);
        let folder = self.path.join("kernel").join(kernel_folder(number, name));
        fs::create_dir_all(&folder)?;
        for (file, text) in texts {
            let path = folder.join(file);
            let is_linked = *file == "original.ptx"
                && shared.is_some_and(|shared| fs::hard_link(shared, &path).is_ok());
            if !is_linked {
                fs::write(path, text)?;
            }
        }
        fs::write(
            folder.join("kernel.info"),
            kernel_info(name, parameters, &file.maps),
        )?;
        Ok(folder.join("original.ptx"))
    }

    /// Writes a result file, whose name is the time since the start. Returns its path.
    pub(super) fn save(&self, result: &ResultFile<'_>) -> io::Result<PathBuf> {
        let mut micros = self.start.elapsed().as_micros();
        loop {
            let name = result_file(micros as f64 / 1e6);
            let path = self.path.join("result").join(name);
            match File::create_new(&path) {
                Ok(file) => {
                    let mut out = io::BufWriter::new(file);
                    result.write(&mut out)?;
                    out.flush()?;
                    return Ok(path);
                }
                // Two launches have ended in the same microsecond.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => micros += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

fn command_line() -> String {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    words.collect::<Vec<_>>().join(" ")
}
