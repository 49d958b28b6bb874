//! Checks of a CTA while its lines arrive.

use crate::dim::Dim3;
use crate::error::Fault;
use crate::header::Header;
use crate::instruction::Instruction;
use crate::options::ReadOptions;

/// The state of one CTA.
#[derive(Debug)]
pub(crate) struct CtaCheck {
    cta: Dim3,
    /// The warps that the block had, one bit each. A block has at most 32.
    seen: u32,
    warp: u32,
    expected: u64,
    found: u64,
    exited: u32,
}

impl CtaCheck {
    /// Begins a CTA.
    pub(crate) fn new(cta: Dim3, header: &Header) -> Result<CtaCheck, Fault> {
        check_cta(cta, header)?;
        Ok(CtaCheck {
            cta,
            seen: 0,
            warp: 0,
            expected: 0,
            found: 0,
            exited: 0,
        })
    }

    pub(crate) fn cta(&self) -> Dim3 {
        self.cta
    }

    pub(crate) fn warp(&self) -> u32 {
        self.warp
    }

    /// Returns the number of the warp after the last one.
    pub(crate) fn next_warp(&self) -> u32 {
        32 - self.seen.leading_zeros()
    }

    /// Begins a warp with `expected` instructions.
    pub(crate) fn begin_warp(
        &mut self,
        warp: u64,
        expected: u64,
        header: &Header,
        options: &ReadOptions,
    ) -> Result<(), Fault> {
        let cta = self.cta;
        let warp = check_warp(warp, header)?;
        if self.seen & 1 << warp != 0 {
            return Err(Fault::WarpTwice { cta, warp });
        }
        if expected == 0 && !options.empty_warps {
            return Err(Fault::EmptyWarp { cta, warp });
        }
        self.seen |= 1 << warp;
        self.warp = warp;
        self.expected = expected;
        self.found = 0;
        self.exited = 0;
        Ok(())
    }

    /// Returns the number of instructions that the warp still has.
    pub(crate) fn remaining(&self) -> u64 {
        self.expected - self.found
    }

    /// Counts an instruction of the warp. [`CtaCheck::remaining`] is not 0.
    pub(crate) fn instruction(&mut self, instruction: &Instruction) {
        self.found += 1;
        if instruction.opcode.is_exit() {
            self.exited |= instruction.mask;
        }
    }

    /// Ends a warp, all of whose instructions arrived.
    pub(crate) fn end_warp(&self, header: &Header) -> Result<(), Fault> {
        let lanes = header.lanes(self.warp) & !self.exited;
        match lanes {
            0 => Ok(()),
            _ if self.expected == 0 => Ok(()),
            _ => Err(Fault::NoExit {
                cta: self.cta,
                warp: self.warp,
                lanes,
            }),
        }
    }

    /// Returns the fault of a warp that ends early.
    pub(crate) fn lines_missing(&self) -> Fault {
        Fault::LinesMissing {
            cta: self.cta,
            warp: self.warp,
            expected: self.expected,
            found: self.found,
        }
    }

    /// Returns the fault of a warp with more lines.
    pub(crate) fn lines_surplus(&self) -> Fault {
        Fault::LinesSurplus {
            cta: self.cta,
            warp: self.warp,
            expected: self.expected,
        }
    }

    /// Ends the CTA.
    pub(crate) fn end(&self, header: &Header, options: &ReadOptions) -> Result<(), Fault> {
        let all = u32::MAX >> (32 - header.warps().clamp(1, 32));
        let missing = all & !self.seen;
        if missing == 0 || options.empty_warps {
            return Ok(());
        }
        Err(Fault::WarpMissing {
            cta: self.cta,
            warp: missing.trailing_zeros(),
        })
    }
}

/// Checks that a CTA is in the grid.
pub(crate) fn check_cta(cta: Dim3, header: &Header) -> Result<(), Fault> {
    let grid = header.grid;
    match grid.contains(cta) {
        true => Ok(()),
        false => Err(Fault::CtaRange { cta, grid }),
    }
}

/// Checks that a warp is in the block.
pub(crate) fn check_warp(warp: u64, header: &Header) -> Result<u32, Fault> {
    let warps = header.warps();
    match u32::try_from(warp) {
        Ok(warp) if warp < warps => Ok(warp),
        _ => Err(Fault::WarpRange { warp, warps }),
    }
}
