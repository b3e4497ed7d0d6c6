//! What a scan knows of the quotes that it has passed.

/// Where the scan stands towards quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Outside of quotes.
    Plain,
    /// Inside a quoted field.
    Quoted,
    /// Just after a quote inside a quoted field: the field's end, or half of `""`.
    QuoteSeen,
    /// After the quote that closed a field, where only blanks may stand before the field's end.
    Closed,
    /// After a stray quote, on its line.
    Stray,
    /// In a line that is a comment.
    Comment,
    /// After an escape, in quotes or not, or after the CR that it made text of: then an LF belongs to that.
    Escaped { is_quoted: bool, after_cr: bool },
}

/// What quotes mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quotes {
    /// Nothing.
    Ignored,
    /// They hold fields that end on their line.
    WithinLines,
    /// They hold fields that may have line ends in them.
    AcrossLines,
}

/// Where a scan for a record's end came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    /// All bytes, without an end.
    All,
    /// So many bytes: up to the first byte of a record's line end, and including it.
    Record(usize),
    /// A stray quote. The scan goes on at this place.
    Back(u64),
}

/// A quote that opened a field. Where it stands in a block is worked out only where somebody asks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opened {
    /// Its place, or that of its block.
    pub(super) at: u64,
    /// Lines that had ended there.
    pub(super) lines: u64,
    /// The quotes in the block that open fields, of which it is the last; none where its place is known.
    pub(super) opens: u64,
    /// The line ends in the block.
    pub(super) ends: u64,
}

impl Opened {
    /// Its place, and how many lines had ended before it.
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
pub(super) struct Stray {
    /// The place of the quote.
    pub(super) quote: u64,
    /// The place after the first byte of its record's line end.
    pub(super) end: u64,
    /// Whether text follows the closing quote on the same line; otherwise no quote closes the field.
    pub(super) text_follows: bool,
}

/// A quoted field with line ends in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The places of the opening and of the closing quote.
    pub(super) opens: u64,
    pub(super) closes: u64,
    /// The lines that they stand on, counted from 1.
    pub(super) lines: (u64, u64),
}
