//! The text of a `.traceg` file.

use super::{Context, Item};
use crate::check::CtaCheck;
use crate::decode;
use crate::dim::Dim3;
use crate::error::{Fault, excerpt};
use crate::form::TextSource;
use crate::header::parse_dim;
use crate::instruction::{Cluster, Instruction};
use crate::lines::Lines;
use crate::number::{self, Fields};
use crate::options::ReadOptions;
use crate::{header::Header, opcode::Opcodes};

#[derive(Debug)]
pub(super) struct TextBody {
    lines: Lines<TextSource>,
    state: State,
}

/// What was read last.
#[derive(Debug)]
enum State {
    /// The header or `#END_TB`.
    Outside,
    /// `thread block`, and the lines about the cluster.
    Block(CtaCheck, ClusterLines),
    /// The first `warp` of a CTA, whose beginning was returned.
    FirstWarp(CtaCheck, u64),
    /// `#END_TB` of a CTA without warps, whose beginning was returned.
    NoWarps(CtaCheck),
    /// The last line of a warp.
    Between(CtaCheck),
    /// `insts` or a line of the warp that is not the last one.
    Warp(CtaCheck),
    /// The end of the file, or a fault.
    Ended,
}

/// The lines about the cluster of a CTA.
#[derive(Clone, Copy, Debug, Default)]
struct ClusterLines {
    id: Option<Dim3>,
    cta: Option<Dim3>,
    rank: Option<u32>,
}

impl ClusterLines {
    /// Returns the cluster if all lines exist.
    fn cluster(self) -> Option<Cluster> {
        Some(Cluster {
            id: self.id?,
            cta: self.cta?,
            rank: self.rank?,
        })
    }

    /// Reads a line. Returns whether it is about the cluster.
    fn line(&mut self, line: &[u8]) -> Result<bool, Fault> {
        if let Some(value) = line.strip_prefix(b"cluster id = ") {
            self.id = Some(dim("cluster id", value)?);
        } else if let Some(value) = line.strip_prefix(b"cluster cta = ") {
            self.cta = Some(dim("cluster cta", value)?);
        } else if let Some(value) = line.strip_prefix(b"cluster rank = ") {
            let rank = number::decimal32(value.trim_ascii());
            self.rank = Some(rank.ok_or_else(|| Fault::decimal("cluster rank", value))?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

impl TextBody {
    pub(super) fn new(lines: Lines<TextSource>) -> TextBody {
        TextBody {
            lines,
            state: State::Outside,
        }
    }

    pub(super) fn line(&self) -> u64 {
        self.lines.number()
    }

    pub(super) fn next_item(&mut self, context: &mut Context) -> Result<Option<Item>, Fault> {
        loop {
            let state = std::mem::replace(&mut self.state, State::Ended);
            let (state, item) = match state {
                State::Outside => match self.begin_block(context)? {
                    Some((check, cluster)) => (State::Block(check, cluster), None),
                    None => return Ok(None),
                },
                State::Block(check, cluster) => self.block(check, cluster)?,
                State::FirstWarp(check, warp) => self.begin_warp(check, warp, context)?,
                State::NoWarps(check) => end_block(&check, context)?,
                State::Between(check) => self.between(check, context)?,
                State::Warp(check) => self.instruction(check, context)?,
                State::Ended => return Ok(None),
            };
            self.state = state;
            if item.is_some() {
                return Ok(item);
            }
        }
    }

    /// Reads up to the next line that is not empty. Returns it without white space at its ends, or none at the end.
    fn filled(&mut self) -> Result<Option<&[u8]>, Fault> {
        loop {
            if !self.lines.advance()? {
                return Ok(None);
            }
            if !self.lines.current().trim_ascii().is_empty() {
                return Ok(Some(self.lines.current().trim_ascii()));
            }
        }
    }

    /// Reads `#BEGIN_TB` and `thread block`, with lines about the cluster between them. Returns none at the end of the file.
    fn begin_block(
        &mut self,
        context: &mut Context,
    ) -> Result<Option<(CtaCheck, ClusterLines)>, Fault> {
        match self.filled()? {
            None => return context.end().map(|()| None),
            Some(b"#BEGIN_TB") => {}
            Some(line) => return Err(Fault::OutsideBlock(excerpt(line))),
        }
        let mut cluster = ClusterLines::default();
        loop {
            let expected = |line| expected("thread block", line);
            let line = self
                .filled()?
                .ok_or_else(|| expected(b"the end of the file"))?;
            if cluster.line(line)? {
                continue;
            }
            let value = line.strip_prefix(b"thread block = ");
            let value = value.ok_or_else(|| expected(line))?;
            let check = CtaCheck::new(dim("thread block", value)?, &context.header)?;
            return Ok(Some((check, cluster)));
        }
    }

    /// Reads the lines about the cluster and the first warp.
    fn block(
        &mut self,
        check: CtaCheck,
        mut cluster: ClusterLines,
    ) -> Result<(State, Option<Item>), Fault> {
        let cta = check.cta();
        loop {
            let line = self.filled()?.ok_or(Fault::UnendedBlock(cta))?;
            if cluster.line(line)? {
                continue;
            }
            let item = Item::Cta {
                cta,
                cluster: cluster.cluster(),
            };
            return match warp_or_end(line, cta)? {
                Some(warp) => Ok((State::FirstWarp(check, warp), Some(item))),
                None => Ok((State::NoWarps(check), Some(item))),
            };
        }
    }

    /// Reads `insts`.
    fn begin_warp(
        &mut self,
        mut check: CtaCheck,
        warp: u64,
        context: &Context,
    ) -> Result<(State, Option<Item>), Fault> {
        let line = self.filled()?.ok_or(Fault::UnendedBlock(check.cta()))?;
        let value = line.strip_prefix(b"insts = ").map(<[u8]>::trim_ascii);
        let value = value.ok_or_else(|| expected("insts", line))?;
        let instructions = number::decimal(value).ok_or_else(|| Fault::decimal("insts", value))?;
        check.begin_warp(warp, instructions, &context.header, &context.options)?;
        let item = Item::Warp {
            warp: check.warp(),
            instructions,
        };
        let state = match instructions {
            0 => State::Between(check),
            _ => State::Warp(check),
        };
        Ok((state, Some(item)))
    }

    /// Reads the line after a warp.
    fn between(
        &mut self,
        check: CtaCheck,
        context: &mut Context,
    ) -> Result<(State, Option<Item>), Fault> {
        let line = self.filled()?.ok_or(Fault::UnendedBlock(check.cta()))?;
        if line.first().is_some_and(u8::is_ascii_hexdigit) {
            return Err(check.lines_surplus());
        }
        match warp_or_end(line, check.cta())? {
            Some(warp) => self.begin_warp(check, warp, context),
            None => end_block(&check, context),
        }
    }

    /// Reads a line of a warp.
    fn instruction(
        &mut self,
        mut check: CtaCheck,
        context: &mut Context,
    ) -> Result<(State, Option<Item>), Fault> {
        if !self.lines.advance()? {
            return Err(check.lines_missing());
        }
        let line = self.lines.current();
        if line.trim_ascii().is_empty() || line.starts_with(b"#") || line.starts_with(b"warp = ") {
            return Err(match line {
                b"#BEGIN_TB" => Fault::Nested(check.cta()),
                _ => check.lines_missing(),
            });
        }
        let Context {
            header,
            options,
            opcodes,
            ..
        } = context;
        let instruction = parse_line(line, &check, header, options, opcodes)?;
        check.instruction(&instruction);
        let state = match check.remaining() {
            0 => {
                check.end_warp(header)?;
                State::Between(check)
            }
            _ => State::Warp(check),
        };
        Ok((state, Some(Item::Instruction(instruction))))
    }
}

/// Parses a line of a warp. In versions 1 and 2 it begins with its CTA and warp.
pub(super) fn parse_line(
    line: &[u8],
    check: &CtaCheck,
    header: &Header,
    options: &ReadOptions,
    opcodes: &mut Opcodes,
) -> Result<Instruction, Fault> {
    let mut fields = Fields::new(line);
    if header.tracer_version < 3 {
        let (cta, warp) = prefix(&mut fields)?;
        if cta != check.cta() || warp != u64::from(check.warp()) {
            let warp = u32::try_from(warp).unwrap_or(u32::MAX);
            return Err(Fault::Prefix { cta, warp });
        }
    }
    decode::instruction(&mut fields, header.format(), options, opcodes)
}

/// Parses the CTA and warp before an instruction.
pub(crate) fn prefix(fields: &mut Fields<'_>) -> Result<(Dim3, u64), Fault> {
    let cta = Dim3::new(
        decode::decimal32(fields, "CTA")?,
        decode::decimal32(fields, "CTA")?,
        decode::decimal32(fields, "CTA")?,
    );
    let warp = decode::decimal32(fields, "warp")?;
    Ok((cta, u64::from(warp)))
}

/// Ends a CTA.
fn end_block(check: &CtaCheck, context: &mut Context) -> Result<(State, Option<Item>), Fault> {
    check.end(&context.header, &context.options)?;
    context.end_cta()?;
    Ok((State::Outside, Some(Item::EndCta)))
}

/// Parses `warp = W` or `#END_TB`, for which it returns none.
fn warp_or_end(line: &[u8], cta: Dim3) -> Result<Option<u64>, Fault> {
    match line {
        b"#END_TB" => return Ok(None),
        b"#BEGIN_TB" => return Err(Fault::Nested(cta)),
        _ => {}
    }
    let value = line.strip_prefix(b"warp = ").map(<[u8]>::trim_ascii);
    let value = value.ok_or_else(|| expected("warp or #END_TB", line))?;
    let warp = number::decimal(value).ok_or_else(|| Fault::decimal("warp", value))?;
    Ok(Some(warp))
}

fn dim(what: &'static str, value: &[u8]) -> Result<Dim3, Fault> {
    parse_dim(value.trim_ascii()).ok_or_else(|| Fault::decimal(what, value))
}

fn expected(expected: &'static str, line: &[u8]) -> Fault {
    Fault::Expected {
        expected,
        found: excerpt(line),
    }
}
