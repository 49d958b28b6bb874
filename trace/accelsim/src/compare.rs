//! Comparison of two traces, which may have different forms, versions, compression and address modes.

mod difference;

use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Error, ReadError};
use crate::events::{Event, Events};
use crate::form::Form;
use crate::group::{GroupOptions, group};
use crate::grouped::{GroupedReader, Item};
use crate::list::{Command, CommandList};
use crate::set;

use difference::fields;
pub use difference::{Difference, Place};

/// The result of [`compare`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Comparison {
    /// The number of equal kernels.
    pub kernels: u64,
    /// The number of equal CTAs.
    pub ctas: u64,
    /// The number of warps that were compared.
    pub warps: u64,
    /// The number of equal instructions.
    pub instructions: u64,
    /// The first difference, where the comparison ends.
    pub difference: Option<Difference>,
}

/// Compares two kernel files, or all kernels and copies of two lists or folders.
///
/// Instructions are compared as they are decoded, warp by warp: the address mode does not count. Source lines, immediates
/// and the columns of version 6 count if both versions have them; the names of the tracers do not count. A raw trace is
/// grouped first, into a temporary file.
///
/// # Errors
///
/// Those of reading, and of temporary files.
pub fn compare(first: &Path, second: &Path, options: &GroupOptions) -> Result<Comparison, Error> {
    let mut comparison = Comparison::default();
    comparison.difference = match (set::list_of(first), set::list_of(second)) {
        (Some(first), Some(second)) => comparison.lists(&first, &second, options)?,
        _ => {
            let files = (set::kernel_files(first)?, set::kernel_files(second)?);
            comparison.files(&files.0, &files.1, options)?
        }
    };
    Ok(comparison)
}

impl Comparison {
    fn lists(
        &mut self,
        first: &Path,
        second: &Path,
        options: &GroupOptions,
    ) -> Result<Option<Difference>, Error> {
        let lists = (CommandList::read(first)?, CommandList::read(second)?);
        let mut commands = (commands(&lists.0), commands(&lists.1));
        loop {
            let difference = match (commands.0.next(), commands.1.next()) {
                (None, None) => return Ok(None),
                (Some(Command::Kernel(first)), Some(Command::Kernel(second))) => {
                    let paths = (lists.0.resolve(first), lists.1.resolve(second));
                    self.kernel(&paths.0, &paths.1, options)?
                }
                (first, second) if first == second => None,
                (first, second) => Some(Difference::of_lists(&lists.0.path, first, second)),
            };
            if difference.is_some() {
                return Ok(difference);
            }
        }
    }

    fn files(
        &mut self,
        first: &[PathBuf],
        second: &[PathBuf],
        options: &GroupOptions,
    ) -> Result<Option<Difference>, Error> {
        if first.len() != second.len() {
            return Ok(Some(Difference::count(first.len(), second.len())));
        }
        for (first, second) in first.iter().zip(second) {
            let difference = self.kernel(first, second, options)?;
            if difference.is_some() {
                return Ok(difference);
            }
        }
        Ok(None)
    }

    /// Compares two kernel files.
    fn kernel(
        &mut self,
        first: &Path,
        second: &Path,
        options: &GroupOptions,
    ) -> Result<Option<Difference>, Error> {
        let mut sides = (Side::open(first, options)?, Side::open(second, options)?);
        let headers = (sides.0.reader.header(), sides.1.reader.header());
        let place = Place::new(first, second);
        if let Some(difference) = difference::headers(&place, headers.0, headers.1) {
            return Ok(Some(difference));
        }
        let difference = self.bodies(place, &mut sides.0, &mut sides.1)?;
        self.kernels += u64::from(difference.is_none());
        match difference {
            Some(mut difference) => {
                let place = &mut difference.place;
                place.lines.0 = sides.0.line(place, options)?;
                place.lines.1 = sides.1.line(place, options)?;
                Ok(Some(difference))
            }
            None => Ok(None),
        }
    }

    fn bodies(
        &mut self,
        mut place: Place,
        first: &mut Side,
        second: &mut Side,
    ) -> Result<Option<Difference>, Error> {
        let formats = (
            first.reader.header().format(),
            second.reader.header().format(),
        );
        loop {
            let items = (first.next()?, second.next()?);
            if let (Some(Item::Instruction(first)), Some(Item::Instruction(second))) = &items {
                let difference = fields(first, second, formats);
                if let Some((what, first, second)) = difference {
                    return Ok(Some(Difference::new(place, what, first, second)));
                }
                self.instructions += 1;
                place.index = place.index.map(|index| index + 1);
                continue;
            }
            place.enter(&items.0);
            if let Some((what, first, second)) = difference::items(&items.0, &items.1) {
                return Ok(Some(Difference::new(place, what, first, second)));
            }
            match items.0 {
                None => return Ok(None),
                Some(Item::Warp { .. }) => self.warps += 1,
                Some(Item::EndCta) => self.ctas += 1,
                _ => {}
            }
        }
    }
}

/// Returns the commands that the simulator executes.
fn commands(list: &CommandList) -> impl Iterator<Item = &Command> {
    let commands = list.commands.iter().map(|(_, command)| command);
    commands.filter(|command| !matches!(command, Command::Other(_)))
}

/// One of the two kernel files.
struct Side {
    path: PathBuf,
    reader: GroupedReader,
    /// The grouped file, if `path` is a raw one.
    grouped: Option<NamedTempFile>,
}

impl Side {
    fn open(path: &Path, options: &GroupOptions) -> Result<Side, Error> {
        let grouped = match Form::of(path) {
            Some((Form::Raw, _)) => Some(grouped_copy(path, options)?),
            _ => None,
        };
        let opened = grouped.as_ref().map_or(path, |file| file.path());
        Ok(Side {
            path: path.to_owned(),
            reader: GroupedReader::open(opened, &options.read)?,
            grouped,
        })
    }

    /// Returns the next part. A fault of the temporary file is one of the raw trace.
    fn next(&mut self) -> Result<Option<Item>, ReadError> {
        let item = self.reader.next_item();
        item.map_err(|error| match &self.grouped {
            Some(_) => ReadError::new(&self.path, 0, error.fault),
            None => error,
        })
    }

    /// Returns the line of a difference. In a raw trace, the lines of the warp are counted again; what is no instruction has
    /// no line there.
    fn line(&self, place: &Place, options: &GroupOptions) -> Result<u64, ReadError> {
        if self.grouped.is_none() {
            return Ok(self.reader.line());
        }
        let (Some(cta), Some(warp), Some(mut index)) = (place.cta, place.warp, place.index) else {
            return Ok(0);
        };
        let mut events = Events::open(&self.path, &options.read)?;
        let is_same = |event: &Event| event.cta == cta && event.warp == warp;
        while let Some(event) = events.next()? {
            if !is_same(&event) {
                continue;
            }
            if index == 0 {
                return Ok(event.line);
            }
            index -= 1;
        }
        Ok(0)
    }
}

fn grouped_copy(path: &Path, options: &GroupOptions) -> Result<NamedTempFile, Error> {
    let mut builder = tempfile::Builder::new();
    let file = builder.prefix("trace").suffix(".traceg").tempfile();
    let file = file.map_err(Error::write(path))?;
    group(path, file.path(), options)?;
    Ok(file)
}
