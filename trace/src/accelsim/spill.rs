//! Text of a CTA that waits in temporary files, because a grouped trace states the number of lines of a warp before the
//! lines.

use std::fs::File;
use std::io::{self, Read, Seek, Write};

use margay_accelsim::{CtaText, GroupedWriter};

/// The number of bytes of text of a CTA that stay in memory.
pub(super) const MOST_BYTES: usize = 32 << 20;

/// The earlier lines of the warps of a CTA, by the number of the warp.
#[derive(Default, Debug)]
pub(super) struct Spill {
    warps: Vec<Option<Warp>>,
}

#[derive(Debug)]
struct Warp {
    file: File,
    lines: u64,
}

impl Spill {
    /// Moves the lines of `text` to the files.
    ///
    /// # Errors
    /// Those of the files.
    pub(super) fn take(&mut self, text: &mut CtaText) -> io::Result<()> {
        self.warps.resize_with(text.warps().len(), || None);
        for (warp, text) in self.warps.iter_mut().zip(text.warps()) {
            if text.lines() == 0 {
                continue;
            }
            let warp = match warp {
                Some(warp) => warp,
                None => warp.insert(Warp {
                    file: tempfile::tempfile()?,
                    lines: 0,
                }),
            };
            warp.file.write_all(text.text())?;
            warp.lines += text.lines();
        }
        text.restart(text.cta);
        Ok(())
    }

    /// Writes all lines of the CTA: those of the files, and then those of `text`. The files are empty afterwards.
    ///
    /// # Errors
    /// Those of the files and of the output.
    pub(super) fn write_cta<W: Write>(
        &mut self,
        text: &CtaText,
        writer: &mut GroupedWriter<W>,
    ) -> io::Result<()> {
        if self.warps.is_empty() {
            return writer.write_cta(text);
        }
        let mut spilled = std::mem::take(&mut self.warps).into_iter();
        writer.begin_cta(text.cta, text.cluster)?;
        for (number, text) in text.warps().iter().enumerate() {
            let number = number as u32;
            match spilled.next().flatten() {
                None => writer.write_warp(number, text)?,
                Some(mut warp) => {
                    warp.file.rewind()?;
                    let lines = warp.lines + text.lines();
                    writer.copy_warp(number, lines, &mut warp.file.chain(text.text()))?;
                }
            }
        }
        writer.end_cta()
    }
}

#[cfg(test)]
mod tests {
    use margay_accelsim::{Dim3, Header, Instruction, Opcode};

    use super::*;

    #[test]
    fn spilled_text_comes_before_later_text() {
        let header = Header::new("k", 1, Dim3::new(1, 1, 1), Dim3::new(64, 1, 1));
        let written = |spills: bool| {
            let mut text = CtaText::new(header.format(), Dim3::new(0, 0, 0), 2);
            let mut spill = Spill::default();
            for number in 0..6 {
                let opcode = Opcode::new("NOP").unwrap();
                // The second warp has its last line in the middle.
                let warp = u32::from(number == 2);
                text.push(warp, &Instruction::new(16 * number, 1, opcode))
                    .unwrap();
                if spills && number % 2 == 1 {
                    spill.take(&mut text).unwrap();
                }
            }
            let mut writer = GroupedWriter::new(Vec::new(), &header).unwrap();
            spill.write_cta(&text, &mut writer).unwrap();
            String::from_utf8(writer.finish().unwrap()).unwrap()
        };
        let whole = written(false);
        assert!(
            whole.contains("warp = 0\ninsts = 5\n") && whole.contains("warp = 1\ninsts = 1\n"),
            "{whole}"
        );
        assert_eq!(written(true), whole);
    }
}
