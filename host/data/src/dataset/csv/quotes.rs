//! The types with which a scan keeps track of quotes.

/// Where the scan is in relation to quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuoteState {
    /// Outside quotes.
    Plain,
    /// Inside a quoted field.
    Quoted,
    /// Just after a quote inside a quoted field. It is the field's end, or half of `""`.
    QuoteSeen,
    /// After the quote that closed a field. Only blanks may follow before the field ends.
    Closed,
    /// After a stray quote, on its line.
    Stray,
    /// In a line that is a comment.
    Comment,
    /// After an escape, inside quotes or not. With `after_cr`: after an escaped CR, to which a following LF
    /// belongs.
    Escaped { is_quoted: bool, after_cr: bool },
}

/// The meaning of quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuoteRules {
    /// Quotes are text.
    Ignored,
    /// Quotes enclose fields, which end on their line.
    WithinLines,
    /// Quotes enclose fields, which may contain line ends.
    AcrossLines,
}

/// Where a scan for the end of a record has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanStop {
    /// After all bytes, without finding the end of a record.
    All,
    /// At the end of a record, after this many bytes. They include the first byte of its line end.
    Record(usize),
    /// At a stray quote. The scan continues at this offset.
    Back(u64),
}

/// A quote that opened a field. [`Self::position`] computes its offset only when it is needed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OpeningQuote {
    /// The offset of the block that contains the quote, or of the quote itself if `opens` is 0.
    pub(super) offset: u64,
    /// How many lines had ended at `offset`.
    pub(super) lines: u64,
    /// A bit for each quote in the block that opens a field. The highest bit is this quote.
    pub(super) opens: u64,
    /// A bit for each line end in the block.
    pub(super) line_ends: u64,
}

impl OpeningQuote {
    /// The offset of the quote, and how many lines had ended before it.
    pub(super) fn position(self) -> (u64, u64) {
        match self.opens.checked_ilog2() {
            None => (self.offset, self.lines),
            Some(bit) => {
                let ended = (self.line_ends & ((1 << bit) - 1)).count_ones();
                (self.offset + u64::from(bit), self.lines + u64::from(ended))
            }
        }
    }
}

/// A stray quote, and the end of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StrayQuote {
    /// The offset of the quote.
    pub(super) quote: u64,
    /// The offset at which the quote's record ends: just after the first byte of its line end.
    pub(super) end: u64,
    /// Whether text follows the closing quote on the same line. If not, no quote closes the field.
    pub(super) text_follows: bool,
}

/// A quoted field that contains line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The offset of the opening quote.
    pub(super) opens: u64,
    /// The offset of the closing quote.
    pub(super) closes: u64,
    /// The lines of the two quotes, counted from 1.
    pub(super) lines: (u64, u64),
}
