//! What a scan knows of the quotes that it has passed.

/// Where the scan is in relation to quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuoteState {
    /// Outside quotes.
    Plain,
    /// Inside a quoted field.
    Quoted,
    /// Just after a quote inside a quoted field: the field's end, or half of `""`.
    QuoteSeen,
    /// After the quote that closed a field. Only blanks may follow before the field ends.
    Closed,
    /// After a stray quote, on its line.
    Stray,
    /// In a line that is a comment.
    Comment,
    /// After an escape, in quotes or not; or after an escaped CR, to which a following LF belongs.
    Escaped { is_quoted: bool, after_cr: bool },
}

/// The meaning of quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuoteRules {
    /// Nothing.
    Ignored,
    /// They enclose fields that end on their line.
    WithinLines,
    /// They enclose fields that may contain line ends.
    AcrossLines,
}

/// Where a scan for the end of a record has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanStop {
    /// After all bytes, without finding an end.
    All,
    /// After this many bytes: including the first byte of a record's line end.
    Record(usize),
    /// At a stray quote. The scan continues at this offset.
    Back(u64),
}

/// A quote that opened a field. Its position in its block is computed only when it is needed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OpeningQuote {
    /// Its offset, or that of its block.
    pub(super) at: u64,
    /// How many lines had ended at `at`.
    pub(super) lines: u64,
    /// The quotes in the block that open fields, the last of which is this one. 0 if `at` is its own offset.
    pub(super) opens: u64,
    /// The line ends in the block.
    pub(super) ends: u64,
}

impl OpeningQuote {
    /// Its offset, and how many lines had ended before it.
    pub(super) fn place(self) -> (u64, u64) {
        match self.opens.checked_ilog2() {
            None => (self.at, self.lines),
            Some(bit) => {
                let ended = (self.ends & ((1 << bit) - 1)).count_ones();
                (self.at + u64::from(bit), self.lines + u64::from(ended))
            }
        }
    }
}

/// A stray quote, and the end of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StrayQuote {
    /// The offset of the quote.
    pub(super) quote: u64,
    /// The offset after the first byte of its record's line end.
    pub(super) end: u64,
    /// Whether text follows the closing quote on the same line. If not, no quote closes the field.
    pub(super) text_follows: bool,
}

/// A quoted field that contains line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The offsets of the opening and of the closing quote.
    pub(super) opens: u64,
    pub(super) closes: u64,
    /// The lines of the two quotes, counted from 1.
    pub(super) lines: (u64, u64),
}
